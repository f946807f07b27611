//! Calls for setting up a bot: its webhook and the menu of its commands.
//!
//! ```text
//! POST …/setWebhook       {"url": "https://…/telegram", "secret_token": "…", "allowed_updates": ["message", …],
//!                          "max_connections": 40}
//! POST …/getWebhookInfo   {"url": "https://…/telegram", "pending_update_count": 0, "last_error_date": 1763765920,
//!                          "last_error_message": "Wrong response from the webhook: 503 Service Unavailable",
//!                          "max_connections": 40, "allowed_updates": ["message", …]}
//! POST …/setMyCommands    {"commands": [{"command": "new", "description": "…"}]}
//! ```
//!
//! `drop_pending_updates` is never sent, so that messages that people wrote in the meantime are not lost.
//!
//! Source: <https://core.telegram.org/bots/api#setwebhook>.

use annals_core::command;
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

    /// Sets the bot's menu to the commands of `/help` and returns their number. Replaces an earlier menu.
    pub async fn set_commands(&self) -> Result<usize, SendError> {
        let commands: Vec<Value> = command::menu()
            .map(|(command, description)| json!({"command": command, "description": description}))
            .collect();
        let (count, body) = (commands.len(), json!({"commands": commands}));
        self.call("setMyCommands", &body, &mut self.effort()).await.map(|_: bool| count)
    }
}
