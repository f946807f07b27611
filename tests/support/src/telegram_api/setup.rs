//! The bot's webhook and menu, as the emulator keeps them.
//!
//! Sources: <https://github.com/tdlib/telegram-bot-api/blob/master/telegram-bot-api/Client.cpp>, `process_set_webhook_query`
//! and `get_bot_command`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::refusal::{Refusal, refuse};

/// The kinds of update of this Bot API; of others it takes no notice.
const KINDS: &str = "\
    message edited_message channel_post edited_channel_post business_connection business_message \
    edited_business_message deleted_business_messages guest_message message_reaction \
    message_reaction_count inline_query chosen_inline_result callback_query shipping_query \
    pre_checkout_query purchased_paid_media poll poll_answer my_chat_member chat_member \
    chat_join_request chat_boost removed_chat_boost managed_bot";

/// A webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// The URL for updates.
    pub url: String,
    /// The secret sent with them.
    pub secret: String,
    /// The kinds that are sent.
    pub allowed_updates: Vec<String>,
    /// Most connections at once.
    pub max_connections: u64,
}

/// The webhook and the menu.
#[derive(Default)]
pub struct Setup {
    pub(super) webhook: Option<Webhook>,
    pub(super) menus: BTreeMap<String, Vec<String>>,
    pub(super) is_local: bool,
    /// Number of updates that wait.
    pub waiting: u64,
    /// The last failure of a delivery: epoch seconds, and what it was.
    pub failure: Option<(i64, &'static str)>,
}

impl Setup {
    pub(super) fn set_webhook(&mut self, body: &Value) -> Result<Value, Refusal> {
        let url = body["url"].as_str().unwrap_or_default();
        if !(url.starts_with("https://") || self.is_local && url.starts_with("http://")) {
            return refuse(400, "Bad Request: bad webhook: An HTTPS URL must be provided for webhook");
        }
        let secret = body["secret_token"].as_str().unwrap_or_default();
        if secret.len() > 256 {
            return refuse(400, "Bad Request: secret token is too long");
        }
        if !secret.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
            return refuse(400, "Bad Request: secret token contains unallowed characters");
        }
        let kinds = body["allowed_updates"].as_array().cloned().unwrap_or_default();
        let kinds = kinds
            .iter()
            .filter_map(Value::as_str)
            .filter(|kind| KINDS.split(' ').any(|known| known == *kind));
        if body["drop_pending_updates"] == true {
            self.waiting = 0;
        }
        self.webhook = Some(Webhook {
            url: url.to_owned(),
            secret: secret.to_owned(),
            allowed_updates: kinds.map(str::to_owned).collect(),
            max_connections: body["max_connections"].as_u64().unwrap_or(40).clamp(1, 100),
        });
        Ok(json!(true))
    }

    pub(super) fn info(&self) -> Value {
        let Some(webhook) = &self.webhook else {
            return json!({"url": "", "has_custom_certificate": false, "pending_update_count": self.waiting});
        };
        let mut info = json!({
            "url": webhook.url, "has_custom_certificate": false, "pending_update_count": self.waiting,
            "max_connections": webhook.max_connections, "ip_address": "203.0.113.7",
        });
        if !webhook.allowed_updates.is_empty() {
            info["allowed_updates"] = json!(webhook.allowed_updates);
        }
        if let Some((at, message)) = self.failure {
            info["last_error_date"] = at.into();
            info["last_error_message"] = message.into();
        }
        info
    }

    pub(super) fn set_commands(&mut self, body: &Value) -> Result<Value, Refusal> {
        let commands = body["commands"].as_array().cloned().unwrap_or_default();
        if commands.len() > 100 {
            return refuse(400, "Bad Request: BOT_COMMANDS_TOO_MUCH");
        }
        let mut menu = Vec::new();
        for command in &commands {
            let (name, description) = (
                command["command"].as_str().unwrap_or_default(),
                command["description"].as_str().unwrap_or_default(),
            );
            let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            if !(1..=32).contains(&name.len()) || !name.bytes().all(is_letter) {
                return refuse(400, "Bad Request: BOT_COMMAND_INVALID");
            }
            if !(1..=256).contains(&description.chars().count()) {
                return refuse(400, "Bad Request: BOT_COMMAND_DESCRIPTION_INVALID");
            }
            menu.push(format!("/{name}: {description}"));
        }
        let language = body["language_code"].as_str().unwrap_or_default();
        if ![0, 2].contains(&language.len()) {
            return refuse(400, "Bad Request: language_code is invalid");
        }
        self.menus.insert(language.to_owned(), menu);
        Ok(json!(true))
    }
}
