//! Checks of `doctor`: whether Lark accepts the app. No API tells the settings of its console.

use std::time::Duration;

use annals_channel::finding::{Finding, Words};
use annals_io::clock::Clock;
use annals_io::errors::chain;

use crate::client::{Client, SendError};
use crate::settings::LarkConfig;

/// Longest wait if Lark limits the rate.
const PATIENCE: Duration = Duration::from_secs(10);

/// Checks the app.
pub(super) async fn check(config: Option<&LarkConfig>, clock: &Clock) -> Vec<Finding> {
    let Some(config) = config else { return vec![Finding::none("lark", Words::NotSetUp)] };
    let client =
        Client::new(&config.api_base, config.app_id.clone(), config.app_secret.clone(), clock.clone());
    let app = match client {
        Ok(client) => match client.with_patience(PATIENCE).bot_info().await {
            Ok(bot) => {
                let app_id = config.app_id.clone();
                Finding::ok("lark app", Words::LarkApp { name: bot.name, app_id, bot: bot.open_id })
            }
            Err(error) => {
                let said = chain(&error);
                let words = match error {
                    SendError::Blocked { .. } | SendError::Refused { .. } => {
                        Words::LarkRefused { error: said }
                    }
                    _ => Words::LarkFailed { error: said },
                };
                Finding::fault("lark app", words)
            }
        },
        Err(error) => Finding::fault("lark app", Words::Error(chain(&error))),
    };
    let events = if config.encrypt_key.is_some() { Words::LarkEncrypted } else { Words::LarkPlain };
    vec![app, Finding::ok("lark events", events)]
}
