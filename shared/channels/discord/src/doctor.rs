//! Checks of `doctor`: whether Discord accepts the bot, and whether interactions arrive.

use std::time::Duration;

use annals_channel::finding::{Finding, Words};
use annals_channel::settings::{GroupActivation, Settings};
use annals_core::language::Language;
use annals_io::clock::Clock;
use annals_io::errors::{chain, shown_url};
use reqwest::Url;

use crate::client::{Application, Client, SendError};
use crate::commands::commands;
use crate::settings::DiscordConfig;
use crate::setup::{self, Problem};

/// Longest wait if Discord limits the rate.
const PATIENCE: Duration = Duration::from_secs(10);

/// Checks the application, its address, its commands and its intents.
pub(super) async fn check(
    config: Option<&DiscordConfig>,
    settings: Option<&Settings>,
    clock: &Clock,
) -> Vec<Finding> {
    let Some(config) = config else { return vec![Finding::none("discord", Words::NotSetUp)] };
    if config.bot_token.is_none() {
        return vec![Finding::warning("discord app", Words::DiscordNoToken)];
    }
    let client = match Client::new(config, clock.clone()) {
        Ok(client) => client.with_patience(PATIENCE),
        Err(error) => return vec![Finding::fault("discord app", Words::Error(chain(&error)))],
    };
    let application = match client.application().await {
        Ok(application) => application,
        Err(error) => return vec![Finding::fault("discord app", refused(&error))],
    };
    let name = format!("{} ({})", application.name, application.id);
    let mut findings = vec![match setup::mismatch(&application, config) {
        None => Finding::ok("discord app", Words::Value(name)),
        Some(problem) => Finding::fault("discord app", words(problem, String::new())),
    }];
    findings.push(address(&application).await);
    findings.push(match client.command_names().await {
        Ok(names) => registered(&names, settings.and_then(|settings| settings.language)),
        Err(error) => Finding::fault("discord commands", refused(&error)),
    });
    findings.push(intent(&application, settings));
    findings
}

fn refused(error: &SendError) -> Words {
    match error {
        SendError::Unavailable { .. } | SendError::Unreadable { .. } => {
            Words::DiscordFailed { error: chain(error) }
        }
        error => Words::Error(chain(error)),
    }
}

/// Returns the words for a problem of the settings, or of the address `url`.
fn words(problem: Problem, url: String) -> Words {
    match problem {
        Problem::OtherApplication { of_token, set } => Words::DiscordOtherApplication { of_token, set },
        Problem::OtherKey => Words::DiscordOtherKey,
        Problem::Unreachable(why) => Words::DiscordUnreachable { url, why },
        Problem::NotThere => Words::DiscordNotThere { url },
        Problem::Status(status) => Words::DiscordStatus { url, status },
    }
}

async fn address(application: &Application) -> Finding {
    const CHECK: &str = "discord address";
    let Some(url) = application.interactions_endpoint_url.as_deref() else {
        return Finding::fault(CHECK, Words::DiscordNoAddress);
    };
    let Ok(parsed) = Url::parse(url) else { return Finding::fault(CHECK, Words::DiscordNoUrl) };
    let shown = shown_url(url);
    match setup::probe(&parsed).await {
        Err(error) => Finding::fault(CHECK, Words::Error(format!("{shown}: {error}"))),
        Ok(Some(problem)) => Finding::fault(CHECK, words(problem, shown)),
        Ok(None) if application.event_webhooks_url.as_deref() != Some(url) => {
            Finding::warning(CHECK, Words::DiscordNoEvents { url: shown })
        }
        Ok(None) => Finding::ok(CHECK, Words::Value(shown)),
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
    let bad = Words::DiscordMissing { commands: missing.join(", ") };
    Finding::of(CHECK, missing.is_empty(), Words::DiscordCommands(names.len()), bad)
}

fn intent(application: &Application, settings: Option<&Settings>) -> Finding {
    let is_always = settings.is_some_and(|settings| settings.group_activation == GroupActivation::Always);
    let sees_all = application.has_message_content();
    let good = if sees_all { Words::DiscordAllContent } else { Words::DiscordOwnContent };
    Finding::of("discord intent", !is_always || sees_all, good, Words::DiscordWithheld)
}
