//! Decides if a message asks the bot for an answer: [`asks`].
//!
//! In a private chat, every message of a person asks. In a group, a message asks only if it addresses the bot: by a
//! mention, by a reply to one of its messages, or by a command that does not name another bot. Where
//! the activation of groups is `always`, every message of a person in a group asks, except commands to another bot. A message of a
//! bot never asks, so that two bots cannot talk to each other endlessly.

use annals_channel::json::JsonView;
use annals_core::command;
use annals_core::draft::Asks;
use annals_core::metadata::ChatType;
use serde_json::Value;

use super::bot::Bot;
use super::event::{Entity, Flavour, chat_type, entities};
use super::readable::rich_text;
use super::service;

/// `GroupAnonymousBot`: Telegram's sender for an administrator who writes in the name of the group.
const GROUP_ANONYMOUS_BOT: i64 = 1_087_968_824;
/// `Channel_Bot`: Telegram's sender for a person who writes in the name of a channel.
const CHANNEL_BOT: i64 = 136_817_688;
/// Telegram's own account: sender of channel posts that are forwarded to the discussion group.
const TELEGRAM: i64 = 777_000;

/// Returns the way in which `message`, which is not a service message, asks `bot` for an answer.
pub(super) fn asks(message: JsonView<'_>, chat: JsonView<'_>, flavour: Flavour, bot: &Bot) -> Asks {
    if !may_ask(message, chat, flavour, bot) {
        return Asks::Never;
    }
    match flavour {
        Flavour::Business => Asks::Addressed,
        Flavour::Own if chat_type(chat, flavour) == ChatType::Private => Asks::Addressed,
        // A command that names another bot is for that bot, also as a reply to this one.
        _ if is_command_for_other(message, bot) && !mentions(message, bot) => Asks::Never,
        _ if addresses(message, bot) => Asks::Addressed,
        _ => Asks::Unaddressed,
    }
}

/// Returns true if the bot answers the sender of `message` when it is addressed.
pub(super) fn may_ask(message: JsonView<'_>, chat: JsonView<'_>, flavour: Flavour, bot: &Bot) -> bool {
    let sender = message.object("from").and_then(|from| from.int("id"));
    let is_own = message.object("via_bot").and_then(|via| via.int("id")) == Some(bot.id);
    let is_forwarded_post = sender == Some(TELEGRAM) || message.has("is_automatic_forward");
    match flavour {
        // Only the customer asks. Messages of the business's owner, or of a bot of the owner, are for the customer.
        Flavour::Business if message.has("sender_business_bot") || sender != chat.int("id") => false,
        Flavour::Unknown => false,
        _ => !is_bot(message) && !is_own && !is_forwarded_post,
    }
}

/// Returns true if a bot sent `message`.
pub(super) fn is_bot(message: JsonView<'_>) -> bool {
    message.object("from").is_some_and(|from| from.flag("is_bot") && !is_stand_in(from))
}

/// Returns true if `user` is an account that Telegram uses as sender in the name of a group or channel.
pub(super) fn is_stand_in(user: JsonView<'_>) -> bool {
    user.int("id").is_some_and(|id| matches!(id, GROUP_ANONYMOUS_BOT | CHANNEL_BOT | TELEGRAM))
}

/// Returns true if `message` addresses `bot`.
pub(super) fn addresses(message: JsonView<'_>, bot: &Bot) -> bool {
    is_reply_to(message, bot) || mentions(message, bot) || is_command_for(message, bot)
}

/// Returns the text or caption of `message` from its command on, if only mentions of `bot` come before that.
pub(super) fn command_text<'a>(message: JsonView<'a>, bot: &Bot) -> Option<&'a str> {
    command_after(message, |entity| is_mention_of(bot, entity))
}

/// Returns true if the bot's user name is required to decide if `message` addresses it.
pub(super) fn needs_username(message: JsonView<'_>, chat: JsonView<'_>, flavour: Flavour) -> bool {
    let command = command_after(message, |entity| entity.kind == "mention");
    let names_bot = command.is_some_and(|text| command::addressee(text).is_some() || has_mention(message));
    let is_private = chat_type(chat, flavour) == ChatType::Private;
    names_bot || (!is_private && (has_mention(message) || plain_text(message).contains('@')))
}

/// Returns true if `message` replies to one of `bot`.
pub(super) fn is_reply_to(message: JsonView<'_>, bot: &Bot) -> bool {
    message
        .object("reply_to_message")
        .filter(|original| !service::is_topic_event(*original))
        .and_then(|original| original.object("from"))
        .is_some_and(|from| from.int("id") == Some(bot.id))
}

fn mentions(message: JsonView<'_>, bot: &Bot) -> bool {
    entities(message).any(|entity| is_mention_of(bot, &entity))
        || names(&plain_text(message)).any(|name| is_name_of(bot, name))
}

fn is_mention_of(bot: &Bot, entity: &Entity<'_>) -> bool {
    match entity.kind {
        "mention" => entity.words.strip_prefix('@').is_some_and(|name| is_name_of(bot, name)),
        "text_mention" => entity.view.object("user").and_then(|user| user.int("id")) == Some(bot.id),
        _ => false,
    }
}

fn is_name_of(bot: &Bot, name: &str) -> bool {
    bot.username.as_deref().is_some_and(|me| name.eq_ignore_ascii_case(me))
}

fn has_mention(message: JsonView<'_>) -> bool {
    entities(message).any(|entity| entity.kind == "mention")
}

fn is_command_for(message: JsonView<'_>, bot: &Bot) -> bool {
    command_text(message, bot)
        .is_some_and(|text| command::addressee(text).is_none_or(|name| is_name_of(bot, name)))
}

fn is_command_for_other(message: JsonView<'_>, bot: &Bot) -> bool {
    command_text(message, bot).is_some() && !is_command_for(message, bot)
}

/// Returns the text or caption from its command on, if only what `is_skipped` comes before that: by its entities or, if
/// it has none, by the text, which then starts with the command.
fn command_after(message: JsonView<'_>, is_skipped: impl Fn(&Entity<'_>) -> bool) -> Option<&str> {
    let text = message.text("text").or_else(|| message.text("caption"))?;
    if !message.has("entities") && !message.has("caption_entities") {
        return starts_like_command(text).then_some(text);
    }
    let mut rest = text;
    loop {
        let offset = text[..text.len() - rest.len()].encode_utf16().count();
        let mut here = entities(message).filter(|entity| entity.offset == offset && !entity.words.is_empty());
        let first = here.find(|entity| entity.kind == "bot_command" || is_skipped(entity))?;
        if first.kind == "bot_command" {
            return Some(rest);
        }
        rest = rest.strip_prefix(first.words)?.trim_start();
    }
}

fn starts_like_command(text: &str) -> bool {
    text.strip_prefix(['/', '／']).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
}

/// Returns the text that has no entities, so that mentions have to be found in it: rich messages, and messages in
/// hand-written payloads.
fn plain_text(message: JsonView<'_>) -> String {
    let mut text = message.raw("rich_message").map(rich_text).unwrap_or_default();
    for (field, entities) in [("text", "entities"), ("caption", "caption_entities")] {
        if !message.raw(entities).is_some_and(Value::is_array) {
            text.push('\n');
            text.push_str(message.text(field).unwrap_or_default());
        }
    }
    text
}

/// Returns the names after each `@` in `text` that starts a word.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices('@').filter_map(move |(at, _)| {
        let rest = &text[at + 1..];
        let name = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
        (!name.is_empty() && !text[..at].ends_with(is_word)).then_some(name)
    })
}
