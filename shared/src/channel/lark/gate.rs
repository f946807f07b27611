//! Whether a message asks the bot for an answer, [`asks`], and which command it is, [`command()`].
//!
//! A person's message in a p2p chat asks. In a group only one that addresses the bot does, by a mention or a command,
//! unless `GROUP_ACTIVATION=always`; `@_all` addresses nobody. No message of a bot ever asks, so that two bots never
//! talk to each other without end. Whether a message replies to one of the bot's is not in its event.

use super::bot::Bot;
use super::content::Content;
use super::event::Message;
use crate::channel::settings::{GroupActivation, Settings};
use crate::command::{self, Command};

/// Whether `message`, which says `content`, asks `bot` for an answer.
pub(super) fn asks(message: &Message<'_>, content: &Content, bot: &Bot, settings: &Settings) -> bool {
    if !may_ask(message, bot) || content.is_event {
        return false;
    }
    let text = content.said.as_deref().unwrap_or_default();
    message.is_p2p
        || addresses(message, bot)
        // An addressed command that is not this bot's is another's.
        || (settings.group_activation == GroupActivation::Always
            && command::addressee(&typed(message, text, bot)).is_none())
}

/// The command that `message` is, if it may be one: one typed by a person, with nothing beside it.
pub(super) fn command(message: &Message<'_>, content: &Content, bot: &Bot) -> Option<Command> {
    let text = content.said.as_deref().filter(|_| may_ask(message, bot) && !content.is_event)?;
    let typed = typed(message, text, bot);
    // With nobody else to address, any name is taken for the bot's.
    let me = command::addressee(&typed).filter(|_| message.is_p2p);
    Command::parse(&typed, me)
}

/// Whether the sender of `message` is someone whom the bot answers when addressed.
fn may_ask(message: &Message<'_>, bot: &Bot) -> bool {
    !message.is_of_bot && !is_own(message, bot)
}

/// Whether `message` is the bot's.
pub(super) fn is_own(message: &Message<'_>, bot: &Bot) -> bool {
    message.sender.iter().any(|id| bot.is(id))
}

/// Whether `message` mentions `bot`.
pub(super) fn addresses(message: &Message<'_>, bot: &Bot) -> bool {
    message.is_marked || message.mentions.is_of(bot)
}

/// Whether telling if `message` addresses the bot takes the bot's `open_id`.
pub(super) fn needs_open_id(message: &Message<'_>) -> bool {
    message.mentions.is_of_somebody()
}

/// `text` as a command would be typed: without mentions of the bot at its start or directly behind the command.
fn typed(message: &Message<'_>, text: &str, bot: &Bot) -> String {
    let text = message.bare_text.unwrap_or_else(|| message.mentions.after_own(text, bot)).trim_start();
    let is_end = |c: char| c.is_whitespace() || c == '@';
    let (head, rest) = text.split_at(text.find(is_end).unwrap_or(text.len()));
    let after = message.mentions.after_own(rest, bot);
    let is_mentioned = head.starts_with('/') && after.len() < rest.trim_start().len();
    let typed = if is_mentioned { format!("{head} {after}") } else { text.to_owned() };
    message.mentions.named(&typed)
}
