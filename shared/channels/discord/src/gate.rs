//! Decides if a message of the gateway asks the bot, [`asks`], and finds its command, [`command()`].
//!
//! In direct messages every message of a person asks. In a guild a message asks only if it mentions the bot or replies to one
//! of its messages; `@everyone` and roles do not count. Where the activation of groups is `always` every message of a person
//! asks. A message of a bot or of a webhook never asks, so that two bots cannot talk to each other endlessly.

use annals_channel::json::JsonView;
use annals_core::command::Command;
use annals_core::draft::Asks;
use annals_core::metadata::ChatType;

use super::bot::Bot;

/// Returns the way in which `message` of a person asks `bot`.
pub(super) fn asks(message: JsonView<'_>, chat_type: ChatType, bot: &Bot) -> Asks {
    let is_addressed = chat_type == ChatType::Private || mentions(message, bot) || replies_to(message, bot);
    if is_addressed { Asks::Addressed } else { Asks::Unaddressed }
}

/// Returns the command that a person typed as `said`, alone or after a mention of the bot.
pub(super) fn command(message: JsonView<'_>, said: &str, chat_type: ChatType, bot: &Bot) -> Option<Command> {
    let typed = without_mention(said, bot);
    let is_addressed = chat_type == ChatType::Private || mentions(message, bot) || replies_to(message, bot);
    Command::parse(typed, None).filter(|_| is_addressed)
}

/// Returns `said` without a mention of the bot at its start.
pub(super) fn without_mention<'a>(said: &'a str, bot: &Bot) -> &'a str {
    let mention = [format!("<@{}>", bot.id), format!("<@!{}>", bot.id)];
    let said = said.trim_start();
    mention.iter().find_map(|mention| said.strip_prefix(mention.as_str())).unwrap_or(said).trim_start()
}

fn mentions(message: JsonView<'_>, bot: &Bot) -> bool {
    message.objects("mentions").any(|user| user.id("id") == Some(bot.id.as_str()))
}

fn replies_to(message: JsonView<'_>, bot: &Bot) -> bool {
    let original = message.object("referenced_message").and_then(|original| original.object("author"));
    original.is_some_and(|author| author.id("id") == Some(bot.id.as_str()))
}
