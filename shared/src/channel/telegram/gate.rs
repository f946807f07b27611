//! Whether a message asks the bot for an answer: [`asks`].
//!
//! A person's message in a private chat does. In a group only one that addresses the bot does: by a mention, a
//! reply to one of its messages, or a command that is not another bot's; unless `GROUP_ACTIVATION=always`. No
//! message of a bot ever does, so that two bots never talk to each other without end.

use serde_json::Value;

use super::bot::Bot;
use super::event;
use super::readable::rich_text;
use super::update::{ChatType, Entity, Flavour, entities};
use crate::channel::settings::{GroupActivation, Settings};
use crate::channel::view::View;
use crate::command;

/// `GroupAnonymousBot`: stands in for an administrator who writes in a group's name.
const GROUP_ANONYMOUS_BOT: i64 = 1_087_968_824;
/// `Channel_Bot`: stands in for a person who writes in a channel's name.
const CHANNEL_BOT: i64 = 136_817_688;
/// Telegram itself: stands in for a channel whose posts are forwarded to its discussion group.
const TELEGRAM: i64 = 777_000;

/// Whether `message`, which is no service message, asks `bot` for an answer.
pub(super) fn asks(
    message: View<'_>,
    chat: View<'_>,
    flavour: Flavour,
    bot: &Bot,
    settings: &Settings,
) -> bool {
    may_ask(message, chat, flavour, bot)
        && match flavour {
            Flavour::Business => true,
            // The bot is not in that chat, so no reply can be sent there: a guest query has a method of its own.
            Flavour::Guest => false,
            Flavour::Own if ChatType::of(chat, flavour) == ChatType::Private => true,
            _ if addresses(message, bot) => true,
            // An addressed command that is not this bot's is another's.
            _ => {
                settings.group_activation == GroupActivation::Always
                    && command_text(message).and_then(command::addressee).is_none()
            }
        }
}

/// Whether the sender of `message` is someone whom the bot answers when addressed.
pub(super) fn may_ask(message: View<'_>, chat: View<'_>, flavour: Flavour, bot: &Bot) -> bool {
    let sender = message.object("from").and_then(|from| from.int("id"));
    let is_own = message.object("via_bot").and_then(|via| via.int("id")) == Some(bot.id);
    let is_forwarded_post = sender == Some(TELEGRAM) || message.has("is_automatic_forward");
    match flavour {
        // The customer asks; what the business's owner or a bot of theirs writes is for the customer.
        Flavour::Business if message.has("sender_business_bot") || sender != chat.int("id") => false,
        Flavour::Unknown => false,
        _ => !is_bot(message) && !is_own && !is_forwarded_post,
    }
}

/// Whether `message` is a bot's.
pub(super) fn is_bot(message: View<'_>) -> bool {
    message.object("from").is_some_and(|from| from.flag("is_bot") && !is_stand_in(from))
}

/// Whether `user` is an account of Telegram's that stands in for a group's or a channel's name.
pub(super) fn is_stand_in(user: View<'_>) -> bool {
    user.int("id").is_some_and(|id| matches!(id, GROUP_ANONYMOUS_BOT | CHANNEL_BOT | TELEGRAM))
}

/// Whether `message` addresses `bot`.
pub(super) fn addresses(message: View<'_>, bot: &Bot) -> bool {
    is_reply_to(message, bot) || mentions(message, bot) || is_command_for(message, bot.username.as_deref())
}

/// Whether the text of `message` starts with a command; by its entities, or where it has none, by the text.
pub(super) fn starts_with_command(message: View<'_>) -> bool {
    command_text(message).is_some()
}

/// Whether telling if `message` addresses the bot takes the bot's name.
pub(super) fn needs_username(message: View<'_>, chat: View<'_>, flavour: Flavour) -> bool {
    let addressed_command = command_text(message).and_then(command::addressee).is_some();
    let is_open = flavour == Flavour::Guest || ChatType::of(chat, flavour) == ChatType::Private;
    addressed_command || (!is_open && (has_mention(message) || plain_text(message).contains('@')))
}

fn is_reply_to(message: View<'_>, bot: &Bot) -> bool {
    message
        .object("reply_to_message")
        .filter(|original| !event::is_topic_event(*original))
        .and_then(|original| original.object("from"))
        .is_some_and(|from| from.int("id") == Some(bot.id))
}

fn mentions(message: View<'_>, bot: &Bot) -> bool {
    let is_me = |name: &str| bot.username.as_deref().is_some_and(|me| name.eq_ignore_ascii_case(me));
    entities(message).any(|entity| match entity.kind {
        "mention" => entity.words.strip_prefix('@').is_some_and(is_me),
        "text_mention" => entity.view.object("user").and_then(|user| user.int("id")) == Some(bot.id),
        _ => false,
    }) || names(&plain_text(message)).any(is_me)
}

fn has_mention(message: View<'_>) -> bool {
    entities(message).any(|entity| entity.kind == "mention")
}

fn is_command_for(message: View<'_>, me: Option<&str>) -> bool {
    command_text(message).is_some_and(|text| match (command::addressee(text), me) {
        (None, _) => true,
        (Some(addressee), Some(me)) => addressee.eq_ignore_ascii_case(me),
        (Some(_), None) => false,
    })
}

/// The text or caption that starts with a command.
fn command_text(message: View<'_>) -> Option<&str> {
    let starts = |entity: &Entity<'_>| entity.kind == "bot_command" && entity.offset == 0;
    let text = message.text("text").or_else(|| message.text("caption"))?;
    let has_entities = message.has("entities") || message.has("caption_entities");
    if has_entities { entities(message).any(|entity| starts(&entity)) } else { starts_like_command(text) }
        .then_some(text)
}

fn starts_like_command(text: &str) -> bool {
    text.strip_prefix('/').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
}

/// The words that carry no entities and so must be read for mentions: those of a rich message, and those of a
/// payload made by hand.
fn plain_text(message: View<'_>) -> String {
    let mut text = message.raw("rich_message").map(rich_text).unwrap_or_default();
    for (field, entities) in [("text", "entities"), ("caption", "caption_entities")] {
        if !message.raw(entities).is_some_and(Value::is_array) {
            text.push('\n');
            text.push_str(message.text(field).unwrap_or_default());
        }
    }
    text
}

/// The names behind each `@` of `text` that starts a word.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices('@').filter_map(move |(at, _)| {
        let rest = &text[at + 1..];
        let name = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
        (!name.is_empty() && !text[..at].ends_with(is_word)).then_some(name)
    })
}
