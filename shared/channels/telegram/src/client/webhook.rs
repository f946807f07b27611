//! A bot's webhook: [`Webhook`] as it is set, [`WebhookInfo`] as Telegram reports it.
//!
//! Source: <https://core.telegram.org/bots/api#webhookinfo>.

use secrecy::SecretString;
use serde::Deserialize;

use super::super::event::allowed_updates;

/// Settings of a webhook.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// URL to which Telegram sends updates.
    pub url: String,
    /// Secret that Telegram sends as `X-Telegram-Bot-Api-Secret-Token`.
    pub secret: SecretString,
    /// Number of updates that may be delivered at once, 1 to 100.
    pub max_connections: u8,
}

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
