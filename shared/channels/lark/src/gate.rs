//! Decides if a message asks the bot for an answer, [`asks`], and finds its command, [`command()`].
//!
//! In a p2p chat, every message of a person asks. In a group, a message asks only if it mentions the bot; `@_all` does
//! not count. Where the activation of groups is `always`, every message of a person in a group asks, except commands to
//! another bot. A message of a bot never asks, so that two bots cannot talk to each other endlessly. An event does not tell if
//! its message replies to one of the bot's.

use annals_core::command;
use annals_core::command::Command;
use annals_core::draft::Asks;

use super::bot::Bot;
use super::content::Content;
use super::event::Message;

/// Returns the way in which `message` with this `content` asks `bot` for an answer.
pub(super) fn asks(message: &Message<'_>, content: &Content, bot: &Bot) -> Asks {
    if !may_ask(message, bot) || content.is_event {
        return Asks::Never;
    }
    let text = content.said.as_deref().unwrap_or_default();
    if message.is_p2p || addresses(message, bot) {
        Asks::Addressed
    } else if command::addressee(&typed(message, text, bot)).is_some() {
        // A command that names another bot is for that bot.
        Asks::Never
    } else {
        Asks::Unaddressed
    }
}

/// Returns the command in `message`: one that a person typed, with nothing else in the message.
pub(super) fn command(message: &Message<'_>, content: &Content, bot: &Bot) -> Option<Command> {
    let text = content.said.as_deref().filter(|_| may_ask(message, bot) && !content.is_event)?;
    let typed = typed(message, text, bot);
    // A p2p chat has only one bot, so any name is taken for its name.
    let me = command::addressee(&typed).filter(|_| message.is_p2p);
    Command::parse(&typed, me)
}

/// Returns true if the bot answers the sender of `message` when it is addressed.
fn may_ask(message: &Message<'_>, bot: &Bot) -> bool {
    !message.is_of_bot && !is_own(message, bot)
}

/// Returns true if `bot` sent `message`.
pub(super) fn is_own(message: &Message<'_>, bot: &Bot) -> bool {
    message.sender.iter().any(|id| bot.is(id))
}

/// Returns true if `message` mentions `bot`.
pub(super) fn addresses(message: &Message<'_>, bot: &Bot) -> bool {
    message.is_marked || message.mentions.is_of(bot)
}

/// Returns true if the bot's `open_id` is required to decide if `message` addresses it.
pub(super) fn needs_open_id(message: &Message<'_>) -> bool {
    // The bot's own messages are ignored, so they must be told from other bots'.
    message.is_of_bot || message.mentions.is_of_somebody()
}

/// Removes mentions of the bot at the start of `text` and directly after the command.
fn typed(message: &Message<'_>, text: &str, bot: &Bot) -> String {
    let text = message.bare_text.unwrap_or_else(|| message.mentions.after_own(text, bot)).trim_start();
    let is_end = |c: char| c.is_whitespace() || c == '@';
    let (head, rest) = text.split_at(text.find(is_end).unwrap_or(text.len()));
    let after = message.mentions.after_own(rest, bot);
    let is_mentioned = head.starts_with(['/', '／']) && after.len() < rest.trim_start().len();
    let typed = if is_mentioned { format!("{head} {after}") } else { text.to_owned() };
    message.mentions.named(&typed)
}
