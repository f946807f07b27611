//! What a bot is set up with: its webhook and the menu of its commands.
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
//! `drop_pending_updates` is never sent: what people wrote meanwhile is theirs.
//!
//! Source: <https://core.telegram.org/bots/api#setwebhook>.

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::update::allowed_updates;
use super::{Client, Effort, SendError};
use crate::command;

/// A webhook as it is to be.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// Where Telegram is to send updates.
    pub url: String,
    /// What it sends as `X-Telegram-Bot-Api-Secret-Token`.
    pub secret: SecretString,
    /// How many updates it may deliver at once, 1 to 100.
    pub max_connections: u8,
}

/// What Telegram says of a webhook. Whether it has the right secret, it does not tell.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct WebhookInfo {
    /// Empty where there is none.
    pub url: String,
    /// How many updates wait to be delivered.
    #[serde(default)]
    pub pending_update_count: u64,
    /// When a delivery failed last, in epoch seconds.
    pub last_error_date: Option<i64>,
    /// How it failed.
    pub last_error_message: Option<String>,
    /// How many updates it may deliver at once.
    pub max_connections: Option<u8>,
    /// The kinds that it sends; empty: those that Telegram sends unasked.
    #[serde(default)]
    pub allowed_updates: Vec<String>,
}

impl WebhookInfo {
    /// The kinds of update that are read, and that Telegram does not send.
    pub fn missing(&self) -> Vec<&'static str> {
        // Unasked it sends all but `chat_member` and reactions, which are not read.
        let sends =
            |kind: &&str| self.allowed_updates.is_empty() || self.allowed_updates.iter().any(|it| it == kind);
        allowed_updates().filter(|kind| !sends(kind)).collect()
    }
}

impl Client {
    /// Has Telegram send what is read to `webhook`, whatever it sent where before. What waits stays.
    pub async fn set_webhook(&self, webhook: &Webhook) -> Result<(), SendError> {
        let body = object(json!({
            "url": webhook.url,
            "secret_token": webhook.secret.expose_secret(),
            "allowed_updates": allowed_updates().collect::<Vec<_>>(),
            "max_connections": webhook.max_connections,
        }));
        self.call("setWebhook", &body, &mut Effort::new(self.patience)).await.map(|_: bool| ())
    }

    /// What Telegram says of the webhook.
    pub async fn webhook_info(&self) -> Result<WebhookInfo, SendError> {
        self.call("getWebhookInfo", &Map::new(), &mut Effort::new(self.patience)).await
    }

    /// Shows the commands of `/help` in the bot's menu, whatever it showed before; returns how many.
    pub async fn set_commands(&self) -> Result<usize, SendError> {
        let commands: Vec<Value> = command::menu()
            .map(|(command, description)| json!({"command": command, "description": description}))
            .collect();
        let (count, body) = (commands.len(), object(json!({"commands": commands})));
        self.call("setMyCommands", &body, &mut Effort::new(self.patience)).await.map(|_: bool| count)
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}
