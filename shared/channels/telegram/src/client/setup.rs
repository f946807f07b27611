//! Calls for setting up a bot: its webhook and the menu of its commands.
//!
//! ```text
//! POST …/setWebhook       {"url": "https://…/telegram", "secret_token": "…", "allowed_updates": ["message", …],
//!                          "max_connections": 40}
//! POST …/getWebhookInfo   {"url": "https://…/telegram", "pending_update_count": 0, "last_error_date": 1763765920,
//!                          "last_error_message": "Wrong response from the webhook: 503 Service Unavailable",
//!                          "max_connections": 40, "allowed_updates": ["message", …]}
//! POST …/setMyCommands    {"commands": [{"command": "new", "description": "…"}], "language_code": "zh"}
//! ```
//!
//! `drop_pending_updates` is never sent, so that messages that people wrote in the meantime are not lost.
//!
//! Source: <https://core.telegram.org/bots/api#setwebhook>.

use annals_core::command;
use annals_core::language::Language;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::event::allowed_updates;
use super::{CallError, Client};

/// Telegram's data on a webhook. It does not tell if the secret is right.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct WebhookInfo {
    /// URL; empty if no webhook is set.
    pub url: String,
    /// Number of updates that wait for delivery.
    #[serde(default)]
    pub pending_update_count: u64,
    /// Time of the last failed delivery, in epoch seconds.
    pub last_error_date: Option<i64>,
    /// Reason of the last failed delivery.
    pub last_error_message: Option<String>,
    /// Number of updates that may be delivered at once.
    pub max_connections: Option<u8>,
    /// Kinds of update that are sent. Empty means Telegram's default.
    #[serde(default)]
    pub allowed_updates: Vec<String>,
}

impl WebhookInfo {
    /// Returns the kinds of update that this program reads and Telegram does not send.
    pub fn missing(&self) -> Vec<&'static str> {
        // The default is all kinds but `chat_member` and reactions, which are not read.
        let sends =
            |kind: &&str| self.allowed_updates.is_empty() || self.allowed_updates.iter().any(|it| it == kind);
        allowed_updates().filter(|kind| !sends(kind)).collect()
    }
}

impl Client {
    /// Sets the webhook to `url`, with the kinds of update that are read and at most `max_connections` (1 to 100)
    /// deliveries at once. Telegram sends `secret` with each. Replaces an earlier webhook; pending updates are kept.
    pub async fn set_webhook(
        &self,
        url: &str,
        secret: &SecretString,
        max_connections: u64,
    ) -> Result<(), CallError> {
        let body = json!({
            "url": url,
            "secret_token": secret.expose_secret(),
            "allowed_updates": allowed_updates().collect::<Vec<_>>(),
            "max_connections": max_connections,
        });
        self.call("setWebhook", &body, &mut self.api.budget()).await.map(|_: bool| ())
    }

    /// Returns Telegram's data on the webhook.
    pub async fn webhook_info(&self) -> Result<WebhookInfo, CallError> {
        self.call("getWebhookInfo", &json!({}), &mut self.api.budget()).await
    }

    /// Sets the bot's menu to the commands of `/help`, in `language` for everybody, or with `None` in English and in each
    /// other language for its people. Returns their number. Replaces an earlier menu.
    pub async fn set_commands(&self, language: Option<Language>) -> Result<usize, CallError> {
        let menu = |language: Language| -> Vec<Value> {
            command::menu(language.texts())
                .map(|(command, description)| json!({"command": command, "description": description}))
                .collect()
        };
        let general = language.unwrap_or(Language::En);
        let commands = menu(general);
        let (count, body) = (commands.len(), json!({"commands": commands}));
        self.call("setMyCommands", &body, &mut self.api.budget()).await.map(|_: bool| ())?;
        for own in Language::ALL.into_iter().filter(|own| *own != general) {
            // Also if `language` is fixed: it replaces a menu that an earlier setup has left.
            let body = json!({"commands": menu(language.unwrap_or(own)), "language_code": own.code()});
            self.call("setMyCommands", &body, &mut self.api.budget()).await.map(|_: bool| ())?;
        }
        Ok(count)
    }
}
