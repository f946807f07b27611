//! Parses an update: [`parse`], a pure function.
//!
//! ```json
//! {"update_id": 1, "message": {"message_id": 42, "date": 1763765920, "text": "hello",
//!  "from": {"id": 7, "first_name": "Ada"}, "chat": {"id": 7, "type": "private"}}}
//! ```
//!
//! Each field of an update that holds a message becomes an [`Incoming`], including kinds that are newer than this code,
//! so that no text is lost. An update without a message becomes [`Incoming::Ignored`]: log it and return `200`.
//!
//! Source: [`Update`](https://core.telegram.org/bots/api#update).

use annals_channel::json::JsonView;
use annals_channel::settings::Settings;
use annals_channel::webhook::{Incoming, ParseError, Press, ReadError};
use annals_core::approval::Button;
use annals_core::chat_key::ChatKey;
use annals_core::command;
use annals_core::command::Command;
use annals_core::draft::{Asks, Draft, Origin};
use annals_core::message::Role;
use annals_core::metadata::ChatType;
use annals_core::record::{Channel, Kind};
use annals_core::sort_key::{MessageId, Timestamp};
use serde_json::Value;

use super::bot::Bot;
use super::content::Content;
use super::event::{Flavour, UpdateKind, chat_type};
use super::{gate, metadata};

/// Parses `update`. The results are in the order of its fields; in practice there is one, since Telegram sets one
/// field.
pub fn parse(update: &Value, bot: &Bot, settings: &Settings) -> Result<Vec<Incoming>, ReadError> {
    let update = JsonView::of(update).ok_or(ReadError::NotAnEvent)?;
    let update_id = update.int("update_id");
    let mut found = Vec::new();
    for (name, value) in update.fields().filter(|(name, _)| *name != "update_id") {
        let parser = Parser { update_id, bot, settings };
        let parsed = match UpdateKind::of(name) {
            UpdateKind::Message(flavour) => parser.message(value, flavour, false),
            UpdateKind::Edit(flavour) => parser.message(value, flavour, true),
            UpdateKind::MyMembership => parser.membership(value),
            UpdateKind::Press => parser.press(value),
            UpdateKind::NoMessage => Err(ParseError("holds no message of a chat")),
            UpdateKind::Unknown => parser.unknown(name, value),
        };
        found.push(Incoming::parsed(name, parsed));
    }
    if found.is_empty() {
        found.push(Incoming::ignored("none", "the update has no field but its id"));
    }
    Ok(found)
}

/// Returns true if [`parse`] needs the bot's user name to decide if `update` addresses the bot: for a mention in a
/// group, and for a command with an `@` in any chat.
pub fn needs_username(update: &Value) -> bool {
    JsonView::of(update).is_some_and(|update| {
        update.fields().any(|(name, value)| {
            let (UpdateKind::Message(flavour) | UpdateKind::Edit(flavour)) = UpdateKind::of(name) else {
                return false;
            };
            let Some(message) = JsonView::of(value) else { return false };
            message.object("chat").is_some_and(|chat| gate::needs_username(message, chat, flavour))
        })
    })
}

struct Parser<'a> {
    update_id: Option<i64>,
    bot: &'a Bot,
    settings: &'a Settings,
}

impl Parser<'_> {
    fn message(&self, value: &Value, flavour: Flavour, is_edit: bool) -> Result<Incoming, ParseError> {
        let message = JsonView::of(value).ok_or(ParseError("the message is not an object"))?;
        let chat = message.object("chat").ok_or(ParseError("the message has no chat"))?;
        let draft = self.draft(message, chat, flavour)?;

        if flavour == Flavour::Business && sender_business_bot(message) == Some(self.bot.id) {
            return Err(ParseError("the bot's own reply, which is already stored"));
        }
        if let Some((old, new)) = migration(message, chat) {
            let (old, new) = (ChatKey::telegram(old, None), ChatKey::telegram(new, None));
            return Ok(Incoming::Migration { old, new, at: draft.ts, event: Box::new(draft) });
        }
        if !is_edit && let Some(command) = self.command(message, chat, flavour, &draft) {
            return Ok(Incoming::command(command, draft));
        }
        // Telegram edits a live location every few seconds.
        let is_moving = is_edit && message.has("location");
        Ok(Incoming::message(if is_moving { draft.asking(false) } else { draft }))
    }

    /// Parses a kind of a newer Bot API: stored if it looks like a message, so that no text is lost, but never
    /// answered.
    fn unknown(&self, name: &str, value: &Value) -> Result<Incoming, ParseError> {
        let message = JsonView::of(value).filter(|view| view.has("message_id") || view.has("date"));
        let chat = message.and_then(|message| message.object("chat"));
        let (Some(message), Some(chat)) = (message, chat) else {
            return Err(ParseError("unknown kind without a message"));
        };
        // Its id may be that of a private chat with the bot, in which none of them speaks.
        if message.has("guest_query_id") && chat_type(chat, Flavour::Unknown) == ChatType::Private {
            return Err(ParseError("a guest query in a private chat of other people"));
        }
        let is_named_so = name.ends_with("message") || name.ends_with("post");
        if !is_named_so && Content::of(message).is_event {
            return Err(ParseError("unknown kind without readable content"));
        }
        Ok(Incoming::message(self.draft(message, chat, Flavour::Unknown)?))
    }

    fn membership(&self, value: &Value) -> Result<Incoming, ParseError> {
        let change = JsonView::of(value).ok_or(ParseError("the change is not an object"))?;
        let chat = change.object("chat").ok_or(ParseError("the change has no chat"))?;
        let chat_id = chat.int("id").ok_or(ParseError("the chat has no id"))?;
        let member = change.object("new_chat_member").ok_or(ParseError("the change has no new member"))?;
        let can_write = match member.text("status") {
            // Only channels have this right, which may be missing.
            Some("administrator") => member.map().get("can_post_messages") != Some(&Value::Bool(false)),
            Some("creator" | "member") => true,
            Some("restricted") => member.flag("can_send_messages"),
            Some("left" | "kicked") => false,
            _ => return Err(ParseError("the member's status is unknown")),
        };
        let chat = self.chat_key(chat_id, chat_type(chat, Flavour::Own), Flavour::Own, None)?;
        let left = (!can_write).then_some("the bot was blocked or removed");
        Ok(Incoming::Membership { chat, left, at: seconds(change, "date").unwrap_or(Timestamp::MIN) })
    }

    /// Parses the press of an approval button, whose details are the callback query. If the message with the button is no
    /// longer accessible to Telegram, the update names only its id and chat.
    fn press(&self, value: &Value) -> Result<Incoming, ParseError> {
        const NOT_OURS: ParseError = ParseError("holds no message of a chat");
        let press = JsonView::of(value).ok_or(NOT_OURS)?;
        let button = press.text("data").and_then(Button::parse).ok_or(NOT_OURS)?;
        let (Some(callback_id), Some(from), Some(message)) =
            (press.text("id"), press.object("from"), press.object("message"))
        else {
            return Err(NOT_OURS);
        };
        let chat = message.object("chat").ok_or(NOT_OURS)?;
        let (Some(chat_id), Some(_), Some(user_id)) =
            (chat.int("id"), message.int("message_id"), from.int("id"))
        else {
            return Err(NOT_OURS);
        };
        let topic = metadata::topic(message).or_else(|| metadata::direct_messages_topic(message));
        let line = message.text("business_connection_id");
        let flavour = if line.is_some() { Flavour::Business } else { Flavour::Own };
        let chat_type = chat_type(chat, flavour);
        let origin = Origin {
            chat: self.chat_key(chat_id, chat_type, flavour, topic)?,
            channel: Channel::Telegram,
            chat_id: chat_id.to_string(),
            user_id: user_id.to_string(),
        };
        let id = MessageId::new(format!("press-{callback_id}")).map_err(|_| NOT_OURS)?;
        let by = Draft::new(origin, id, Timestamp::MIN)
            .of_kind(Kind::Notice)
            .with_metadata(metadata::of_press(from, chat_type, line));
        Ok(Incoming::Press(Box::new(Press { button, by, details: value.clone() })))
    }

    fn draft(
        &self,
        message: JsonView<'_>,
        chat: JsonView<'_>,
        flavour: Flavour,
    ) -> Result<Draft, ParseError> {
        let chat_id = chat.int("id").ok_or(ParseError("the chat has no id"))?;
        let topic = metadata::topic(message).or_else(|| metadata::direct_messages_topic(message));
        let content = Content::of(message);
        let sender = metadata::sender(message).and_then(|sender| sender.int("id"));
        let is_own = gate::is_bot(message) && sender == Some(self.bot.id);
        let asks = if content.is_event { Asks::Never } else { gate::asks(message, chat, flavour, self.bot) };
        let date = seconds(message, "date");
        let origin = Origin {
            chat: self.chat_key(chat_id, chat_type(chat, flavour), flavour, topic)?,
            channel: Channel::Telegram,
            chat_id: chat_id.to_string(),
            user_id: sender.unwrap_or(chat_id).to_string(),
        };
        Ok(Draft::new(origin, self.message_id(message)?, date.unwrap_or(Timestamp::MIN))
            // A message that was edited before it was delivered arrives once, as a new message.
            .with_form_ts(seconds(message, "edit_date").or(date))
            .by(if is_own && !content.is_event { Role::Assistant } else { Role::User })
            .of_kind(if content.is_event { Kind::Event } else { Kind::Normal })
            .asking_as(asks, self.settings.group_activation)
            .with_parts(content.parts)
            .with_metadata(metadata::of(message, chat, flavour, self.bot))
            .in_album(message.scalar("media_group_id")))
    }

    fn chat_key(
        &self,
        chat_id: i64,
        chat_type: ChatType,
        flavour: Flavour,
        topic: Option<i64>,
    ) -> Result<ChatKey, ParseError> {
        let is_direct = chat_type == ChatType::Private && flavour == Flavour::Own;
        // The id of a private chat is the id of the person.
        let direct =
            if is_direct { self.settings.direct(Channel::Telegram, &chat_id.to_string())? } else { None };
        Ok(direct.unwrap_or_else(|| ChatKey::telegram(chat_id, topic)))
    }

    /// Returns `message_id`, or the update's id if the message has none (ephemeral and scheduled messages have 0).
    fn message_id(&self, message: JsonView<'_>) -> Result<MessageId, ParseError> {
        let id = message.int("message_id").and_then(|id| u64::try_from(id).ok()).filter(|id| *id != 0);
        let of_update = || MessageId::new(format!("u{}", self.update_id?)).ok();
        id.map(MessageId::number).or_else(of_update).ok_or(ParseError("neither message nor update has an id"))
    }

    /// Returns the command in the text. A caption is never a command, since its medium would be lost.
    fn command(
        &self,
        message: JsonView<'_>,
        chat: JsonView<'_>,
        flavour: Flavour,
        draft: &Draft,
    ) -> Option<Command> {
        if draft.kind != Kind::Normal || message.text("text").is_none() {
            return None;
        }
        // Somebody else wrote a forwarded message, or one that an inline bot sends in the name of the person who
        // selects it.
        if ["forward_origin", "forward_date", "via_bot"].iter().any(|field| message.has(field)) {
            return None;
        }
        let text = gate::command_text(message, self.bot)
            .filter(|_| gate::may_ask(message, chat, flavour, self.bot))?;
        let is_private = chat_type(chat, flavour) == ChatType::Private;
        // A private chat has only one bot, so an unknown name is taken for its name.
        let me = self.bot.username.as_deref().or_else(|| command::addressee(text).filter(|_| is_private));
        Command::parse(text, me)
    }
}

/// Returns the old and the new id if `message` reports that a group became a supergroup.
fn migration(message: JsonView<'_>, chat: JsonView<'_>) -> Option<(i64, i64)> {
    let here = chat.int("id")?;
    let to = message.int("migrate_to_chat_id").map(|new| (here, new));
    let from = || message.int("migrate_from_chat_id").map(|old| (old, here));
    to.or_else(from).filter(|(old, new)| old != new)
}

fn sender_business_bot(message: JsonView<'_>) -> Option<i64> {
    message.object("sender_business_bot")?.int("id")
}

fn seconds(view: JsonView<'_>, field: &str) -> Option<Timestamp> {
    view.int(field).map(Timestamp::from_secs)
}
