//! Lenient access to the JSON of updates: [`JsonView`] of an object, [`UpdateKind`] of an update, [`Entity`] of a text.
//!
//! Telegram adds fields and kinds every few weeks, and a message must not be lost because one of its fields has another
//! type than expected. So nothing is deserialized into structs: each field is read where it is used, and a field of the
//! wrong type counts as absent.
//!
//! Source: [`Update`](https://core.telegram.org/bots/api#update),
//! [`Message`](https://core.telegram.org/bots/api#message).

use annals_channel::json::JsonView;
use annals_core::metadata::ChatType;

/// Kind of a field of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UpdateKind {
    /// A new message.
    Message(Flavour),
    /// A new form of a message.
    Edit(Flavour),
    /// A person pressed a button under a message.
    Press,
    /// The bot's membership in a chat changed.
    MyMembership,
    /// A known kind that holds no message of a chat.
    NoMessage,
    /// A kind of a newer Bot API.
    Unknown,
}

/// Relation of the bot to the chat of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flavour {
    /// A chat that the bot is in.
    Own,
    /// A channel.
    Channel,
    /// A private chat of a customer with a business account that the bot is connected to.
    Business,
    /// A kind of chat of a newer Bot API.
    Unknown,
}

/// Kinds of update that are read, and that the webhook subscribes to.
const READ: [(&str, UpdateKind); 8] = [
    ("message", UpdateKind::Message(Flavour::Own)),
    ("edited_message", UpdateKind::Edit(Flavour::Own)),
    ("channel_post", UpdateKind::Message(Flavour::Channel)),
    ("edited_channel_post", UpdateKind::Edit(Flavour::Channel)),
    ("business_message", UpdateKind::Message(Flavour::Business)),
    ("edited_business_message", UpdateKind::Edit(Flavour::Business)),
    ("my_chat_member", UpdateKind::MyMembership),
    ("callback_query", UpdateKind::Press),
];

/// Returns the kinds of update that are read, as `allowed_updates` of `setWebhook` names them.
pub fn allowed_updates() -> impl Iterator<Item = &'static str> {
    READ.iter().map(|(name, _)| *name)
}

impl UpdateKind {
    /// Returns the kind of the update's field `name`.
    pub(super) fn of(name: &str) -> Self {
        if let Some((_, kind)) = READ.iter().find(|(read, _)| *read == name) {
            return *kind;
        }
        match name {
            "business_connection"
            | "chat_boost"
            | "chat_join_request"
            | "chat_member"
            | "chosen_inline_result"
            | "deleted_business_messages"
            | "inline_query"
            | "managed_bot"
            | "message_reaction"
            | "message_reaction_count"
            | "poll"
            | "poll_answer"
            | "pre_checkout_query"
            | "purchased_paid_media"
            | "removed_chat_boost"
            | "shipping_query" => Self::NoMessage,
            _ => Self::Unknown,
        }
    }
}

/// Returns the type in `chat`; if it is missing, the type that follows from the flavour or from the id, which is
/// positive for people.
pub(super) fn chat_type(chat: JsonView<'_>, flavour: Flavour) -> ChatType {
    match chat.text("type") {
        Some("private") => ChatType::Private,
        Some("group") => ChatType::Group,
        Some("supergroup") => ChatType::Supergroup,
        Some("channel") => ChatType::Broadcast,
        _ if flavour == Flavour::Channel => ChatType::Broadcast,
        _ if chat.int("id").is_some_and(|id| id >= 0) => ChatType::Private,
        _ => ChatType::Group,
    }
}

/// A marked range of a text, such as a mention.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entity<'a> {
    /// `mention`, `bot_command`, `text_link`, …
    pub(super) kind: &'a str,
    /// Start in UTF-16 units.
    pub(super) offset: usize,
    /// The text that it covers.
    pub(super) words: &'a str,
    /// The entity's JSON, for fields of its kind.
    pub(super) view: JsonView<'a>,
}

/// Returns the entities of a message's text and caption, without those whose range is invalid.
pub(super) fn entities(message: JsonView<'_>) -> impl Iterator<Item = Entity<'_>> {
    [("text", "entities"), ("caption", "caption_entities")].into_iter().flat_map(move |(text, entities)| {
        let text = message.text(text).unwrap_or_default();
        message.objects(entities).filter_map(move |view| {
            let offset = usize::try_from(view.int("offset")?).ok()?;
            let length = usize::try_from(view.int("length")?).ok()?;
            let words = utf16_slice(text, offset, length)?;
            Some(Entity { kind: view.text("type")?, offset, words, view })
        })
    })
}

/// Returns the `length` UTF-16 units of `text` from `offset`, if both ends are between characters.
pub(super) fn utf16_slice(text: &str, offset: usize, length: usize) -> Option<&str> {
    let start = byte_at(text, offset)?;
    let end = start + byte_at(&text[start..], length)?;
    Some(&text[start..end])
}

fn byte_at(text: &str, units: usize) -> Option<usize> {
    let mut passed = 0;
    for (at, c) in text.char_indices() {
        if passed >= units {
            return (passed == units).then_some(at);
        }
        passed += c.len_utf16();
    }
    (passed == units).then_some(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_count_utf16_units() {
        assert_eq!(utf16_slice("👋🏽 @bot hi", 5, 4), Some("@bot"));
        assert_eq!(utf16_slice("über @bot", 5, 4), Some("@bot"));
        assert_eq!(utf16_slice("abc", 0, 3), Some("abc"));
        assert_eq!(utf16_slice("abc", 3, 0), Some(""));
        for (text, offset, length) in
            [("👋", 1, 1), ("👋", 0, 1), ("abc", 2, 2), ("abc", 4, 0), ("", 0, usize::MAX)]
        {
            assert_eq!(utf16_slice(text, offset, length), None, "{text:?} {offset} {length}");
        }
    }
}
