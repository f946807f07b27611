//! Checks of `doctor`: whether Lark accepts the app. No API tells the settings of its console.

use std::time::Duration;

use annals_channel::finding::Finding;
use annals_io::clock::Clock;
use annals_io::errors::chain;

use crate::client::{Client, SendError};
use crate::settings::LarkConfig;

/// Longest wait if Lark limits the rate.
const PATIENCE: Duration = Duration::from_secs(10);

/// Checks the app.
pub(super) async fn check(config: Option<&LarkConfig>, clock: &Clock) -> Vec<Finding> {
    let Some(config) = config else { return vec![Finding::none("lark", "not set up")] };
    let client =
        Client::new(&config.api_base, config.app_id.clone(), config.app_secret.clone(), clock.clone());
    let app = match client {
        Ok(client) => match client.with_patience(PATIENCE).bot_info().await {
            Ok(bot) => {
                Finding::ok("lark app", format!("{} ({}), bot {}", bot.name, config.app_id, bot.open_id))
            }
            Err(error) => {
                let again = match error {
                    SendError::Blocked { .. } | SendError::Refused { .. } => {
                        "check LARK_APP_ID and LARK_APP_SECRET, and that the app has the Bot ability"
                    }
                    _ => "check LARK_API_BASE and the network",
                };
                Finding::fault("lark app", format!("{}; {again}", chain(&error)))
            }
        },
        Err(error) => Finding::fault("lark app", chain(&error)),
    };
    let key = if config.encrypt_key.is_some() {
        Finding::ok(
            "lark events",
            "encrypted and signed; cargo run -- setup lark tells what the console must have",
        )
    } else {
        Finding::ok(
            "lark events",
            "plain: with LARK_ENCRYPT_KEY, set in the console too, they would be signed",
        )
    };
    vec![app, key]
}
