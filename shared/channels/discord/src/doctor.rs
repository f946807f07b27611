//! Checks of `doctor`: whether Discord accepts the bot, and whether interactions arrive.

use std::time::Duration;

use annals_channel::finding::Finding;
use annals_channel::settings::{GroupActivation, Settings};
use annals_core::language::Language;
use annals_io::clock::Clock;
use annals_io::errors::{chain, shown_url};
use reqwest::Url;

use crate::client::{Application, Client, SendError};
use crate::commands::commands;
use crate::settings::DiscordConfig;
use crate::setup;

/// Longest wait if Discord limits the rate.
const PATIENCE: Duration = Duration::from_secs(10);

const SET_UP: &str = "cargo run -- setup discord --url https://…/discord";

/// Checks the application, its address, its commands and its intents.
pub(super) async fn check(
    config: Option<&DiscordConfig>,
    settings: Option<&Settings>,
    clock: &Clock,
) -> Vec<Finding> {
    let Some(config) = config else { return vec![Finding::none("discord", "not set up")] };
    if config.bot_token.is_none() {
        let words = "DISCORD_BOT_TOKEN is not set: the bot answers commands alone, each for 15 minutes, and nothing \
                     can be checked at Discord";
        return vec![Finding::warning("discord app", words)];
    }
    let client = match Client::new(config, clock.clone()) {
        Ok(client) => client.with_patience(PATIENCE),
        Err(error) => return vec![Finding::fault("discord app", chain(&error))],
    };
    let application = match client.application().await {
        Ok(application) => application,
        Err(error) => return vec![Finding::fault("discord app", refused(&error))],
    };
    let words = format!("{} ({})", application.name, application.id);
    let mut findings = vec![match setup::mismatch(&application, config) {
        None => Finding::ok("discord app", words),
        Some(problem) => Finding::fault("discord app", problem),
    }];
    findings.push(address(&application).await);
    findings.push(match client.command_names().await {
        Ok(names) => registered(&names, settings.and_then(|settings| settings.language)),
        Err(error) => Finding::fault("discord commands", refused(&error)),
    });
    findings.push(intent(&application, settings));
    findings
}

fn refused(error: &SendError) -> String {
    match error {
        SendError::Unavailable { .. } | SendError::Unreadable { .. } => {
            format!("{}; check DISCORD_API_BASE and the network", chain(error))
        }
        error => chain(error),
    }
}

async fn address(application: &Application) -> Finding {
    const CHECK: &str = "discord address";
    let Some(url) = application.interactions_endpoint_url.as_deref() else {
        return Finding::fault(CHECK, format!("none is set for interactions: {SET_UP}"));
    };
    let Ok(parsed) = Url::parse(url) else { return Finding::fault(CHECK, format!("is not a URL: {SET_UP}")) };
    let problem = match setup::probe(&parsed).await {
        Ok(problem) => problem,
        Err(error) => Some(error.to_string()),
    };
    let shown = shown_url(url);
    match problem {
        Some(problem) => Finding::fault(CHECK, format!("{shown}: {problem}")),
        None if application.event_webhooks_url.as_deref() != Some(url) => {
            let words = format!(
                "{shown}; webhook events do not come there, so that it is not known who removes the app"
            );
            Finding::warning(CHECK, format!("{words}: {SET_UP}"))
        }
        None => Finding::ok(CHECK, shown),
    }
}

fn registered(names: &[String], language: Option<Language>) -> Finding {
    const CHECK: &str = "discord commands";
    let missing: Vec<String> = commands(language)
        .iter()
        .filter_map(|command| command["name"].as_str())
        .filter(|name| !names.iter().any(|known| known == name))
        .map(str::to_owned)
        .collect();
    let bad = format!("Discord does not know {}: {SET_UP}", missing.join(", "));
    Finding::of(CHECK, missing.is_empty(), format!("{} registered", names.len()), bad)
}

fn intent(application: &Application, settings: Option<&Settings>) -> Finding {
    let is_always = settings.is_some_and(|settings| settings.group_activation == GroupActivation::Always);
    let bad = "GROUP_ACTIVATION=always, but Discord withholds the text of messages that do not mention the bot: turn on \
               the Message Content intent, on the page Bot of the application in the developer portal";
    let good = if application.has_message_content() {
        "the content of all messages"
    } else {
        "mentions, replies to the bot and direct messages"
    };
    Finding::of("discord intent", !is_always || application.has_message_content(), good, bad)
}
