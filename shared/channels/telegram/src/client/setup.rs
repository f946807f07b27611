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
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::super::event::allowed_updates;
use super::Client;
use super::error::SendError;
use super::webhook::{Webhook, WebhookInfo};

impl Client {
    /// Sets the webhook to `webhook`, with the kinds of update that are read. Replaces an earlier webhook; pending
    /// updates are kept.
    pub async fn set_webhook(&self, webhook: &Webhook) -> Result<(), SendError> {
        let body = json!({
            "url": webhook.url,
            "secret_token": webhook.secret.expose_secret(),
            "allowed_updates": allowed_updates().collect::<Vec<_>>(),
            "max_connections": webhook.max_connections,
        });
        self.call("setWebhook", &body, &mut self.effort()).await.map(|_: bool| ())
    }

    /// Returns Telegram's data on the webhook.
    pub async fn webhook_info(&self) -> Result<WebhookInfo, SendError> {
        self.call("getWebhookInfo", &json!({}), &mut self.effort()).await
    }

    /// Sets the bot's menu to the commands of `/help`, in `language` for everybody, or with `None` in English and in each
    /// other language for its people. Returns their number. Replaces an earlier menu.
    pub async fn set_commands(&self, language: Option<Language>) -> Result<usize, SendError> {
        let menu = |language: Language| -> Vec<Value> {
            command::menu(language.texts())
                .map(|(command, description)| json!({"command": command, "description": description}))
                .collect()
        };
        let general = language.unwrap_or(Language::En);
        let commands = menu(general);
        let (count, body) = (commands.len(), json!({"commands": commands}));
        self.call("setMyCommands", &body, &mut self.effort()).await.map(|_: bool| ())?;
        for own in Language::ALL.into_iter().filter(|own| *own != general) {
            // Also if `language` is fixed: it replaces a menu that an earlier setup has left.
            let body = json!({"commands": menu(language.unwrap_or(own)), "language_code": own.code()});
            self.call("setMyCommands", &body, &mut self.effort()).await.map(|_: bool| ())?;
        }
        Ok(count)
    }
}
