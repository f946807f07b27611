//! HTTP client of the Bot API: [`Client`].
//!
//! ```text
//! POST https://api.telegram.org/bot<token>/sendMessage
//! {"chat_id": -1001, "message_thread_id": 7, "text": "Plan", "entities": [{"type": "bold", "offset": 0, "length": 4}],
//!  "reply_parameters": {"message_id": 42, "allow_sending_without_reply": true},
//!  "link_preview_options": {"is_disabled": true}}
//!
//! 200 {"ok": true, "result": {"message_id": 43, …}}
//! 429 {"ok": false, "error_code": 429, "description": "Too Many Requests: retry after 7", "parameters": {"retry_after": 7}}
//! ```
//!
//! A send has no idempotency key, so a message that may have been delivered is not sent again here: a timeout, or a
//! connection lost after the request went out, returns [`CallError::Unavailable`] at once, and the caller decides if it
//! risks a second delivery. Retried here are requests that Telegram said it did not take (429, 5xx) and requests that
//! never reached it (no connection). If one chunk becomes several messages and a later one fails, the earlier ones stay
//! delivered.
//!
//! Link previews are off: Telegram would fetch any address that a model writes, together with any data that a prompt
//! injection put into it.
//!
//! *Invariant:* the token, which is part of every URL, appears in no error and no log.
//!
//! Source: <https://core.telegram.org/bots/api#making-requests>.

mod answer;
mod file;
mod setup;
mod target;
#[cfg(test)]
mod tests;
mod typing;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

pub use self::setup::WebhookInfo;
use self::target::Target;
use super::address::{Address, Posted};
use super::render::{self, Styled};
use super::settings::API_BASE;
use super::split::{LIMIT, split};
pub use annals_channel::client::CallError;
use annals_channel::client::{Api, WaitBudget};
use annals_channel::rate_limit::RateLimit;
use annals_core::settings::ConfigError;
use annals_io::clock::Clock;

/// Rate limit of a bot over all chats.
///
/// Source: <https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this>, also for the next two.
pub const BOT_RATE_LIMIT: RateLimit = RateLimit::within(30, Duration::from_secs(1));
/// Rate limit of a private chat.
pub const PRIVATE_RATE_LIMIT: RateLimit = RateLimit::within(1, Duration::from_secs(1));
/// Rate limit of a group.
pub const GROUP_RATE_LIMIT: RateLimit = RateLimit::within(20, Duration::from_mins(1));
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Client of the Bot API for one bot. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) api: Api,
    token: SecretString,
    drafts: Arc<typing::Drafts>,
    username: Arc<OnceCell<String>>,
}

/// Answer of `getMe`: the bot itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Me {
    /// User id of the bot.
    pub id: i64,
    /// User name of the bot, without `@`.
    #[serde(default)]
    pub username: String,
    /// True if the bot's privacy mode is off: it receives all messages of groups, not only those that address it.
    #[serde(default)]
    pub can_read_all_group_messages: bool,
}

/// Converts a model's Markdown into the messages that show it. An empty text gives no message.
///
/// Only the first message of a reply quotes the question: the caller clears `reply_to` after it.
pub fn chunks(markdown: &str) -> Vec<Styled> {
    split(&render::render(markdown), LIMIT)
}

impl Client {
    /// Creates a client of the Bot API at `api_base`, such as `https://api.telegram.org`, for the bot of `token`.
    pub fn new(api_base: &str, token: SecretString, clock: Clock) -> Result<Self, ConfigError> {
        let api = Api::new("Telegram", (API_BASE.name, api_base), REQUEST_TIMEOUT, clock)?;
        let is_token = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b':' | b'-' | b'_');
        if token.expose_secret().is_empty() || !token.expose_secret().bytes().all(is_token) {
            let problem = "is not a token: expected <bot id>:<letters, digits, '-' and '_'>";
            return Err(ConfigError::new("TELEGRAM_BOT_TOKEN", problem));
        }
        Ok(Self { api, token, drafts: Arc::default(), username: Arc::default() })
    }

    /// Calls `getMe`, which returns the bot itself.
    pub async fn get_me(&self) -> Result<Me, CallError> {
        self.call("getMe", &json!({}), &mut self.api.budget()).await
    }

    /// Returns the bot's user name, which is asked for once.
    pub(crate) async fn username(&self) -> Result<&str, CallError> {
        let username = self.username.get_or_try_init(async || Ok(self.get_me().await?.username)).await;
        username.map(String::as_str)
    }

    /// Sends `chunk`, with the buttons of `keyboard` under the last message. It becomes several messages if Telegram refuses
    /// the entities and the plain text is longer than one message.
    ///
    /// If Telegram refuses an optional part, the message is sent again without it: without entities, without the topic
    /// if it was deleted, without the quotation.
    pub async fn send_message(
        &self,
        address: &Address,
        chunk: &Styled,
        keyboard: Option<&Value>,
    ) -> Result<(), CallError> {
        let mut budget = self.api.budget();
        let mut target = Target { thread_id: address.thread_id, reply_to: address.reply_to };
        let mut left = VecDeque::from([chunk.clone()]);
        while let Some(piece) = left.pop_front() {
            let mut body = message_body(address, target, &piece);
            if let Some(keyboard) = keyboard.filter(|_| left.is_empty()) {
                body["reply_markup"] = keyboard.clone();
            }
            self.api.wait_for_slot(&mut budget).await?;
            match self.call::<Value>("sendMessage", &body, &mut budget).await {
                Ok(_) => target.reply_to = None,
                Err(error) => {
                    let (pieces, without) = target.leave_out(piece, error)?;
                    tracing::info!(without, "Telegram refused a part of a message; sending again without it");
                    for piece in pieces.into_iter().rev() {
                        left.push_front(piece);
                    }
                }
            }
        }
        Ok(())
    }

    /// Answers a pressed button, so that the client stops showing progress. `alert` shows `text` as a dialog, for a
    /// refusal. Telegram accepts the answer for some minutes.
    pub async fn answer_callback(&self, id: &str, text: &str, alert: bool) -> Result<(), CallError> {
        // Telegram's limit is 200 characters.
        let text: String = text.chars().take(200).collect();
        let body = json!({"callback_query_id": id, "text": text, "show_alert": alert});
        self.try_once("answerCallbackQuery", &body).await.map(|_: Value| ())
    }

    /// Replaces the buttons under a message. An empty keyboard removes them.
    pub async fn edit_keyboard(&self, under: &Posted, keyboard: &Value) -> Result<(), CallError> {
        let body = without_nulls(json!({
            "chat_id": under.chat_id,
            "message_id": under.message_id,
            "business_connection_id": under.business_connection_id,
            "reply_markup": keyboard,
        }));
        self.try_once("editMessageReplyMarkup", &body).await.map(|_: Value| ())
    }

    /// Returns true if `user_id` is an administrator of the group `chat_id`.
    pub async fn is_administrator(&self, chat_id: &str, user_id: &str) -> Result<bool, CallError> {
        let body = json!({"chat_id": chat_id});
        let members: Vec<Value> = self.call("getChatAdministrators", &body, &mut self.api.budget()).await?;
        let mut ids = members.iter().filter_map(|member| member.get("user")?.get("id")?.as_i64());
        Ok(ids.any(|id| id.to_string() == user_id))
    }

    /// Calls `method`, waits as long as Telegram asks, and retries requests that it did not take.
    async fn call<T: DeserializeOwned>(
        &self,
        method: &'static str,
        body: &Value,
        budget: &mut WaitBudget,
    ) -> Result<T, CallError> {
        budget.retry(false, || self.try_once(method, body)).await
    }

    async fn try_once<T: DeserializeOwned>(
        &self,
        method: &'static str,
        body: &Value,
    ) -> Result<T, CallError> {
        let token = self.token.expose_secret();
        let url = self.api.url(&[&format!("bot{token}"), method]);
        let answer = self.api.send(method, (Method::POST, url), |request| request.json(body)).await?;
        answer::read(&answer, token)
    }
}

/// Returns the topic id to send. `sendMessage` refuses the id of the General topic.
fn topic(thread_id: Option<i64>) -> Option<i64> {
    thread_id.filter(|id| *id != 1)
}

fn message_body(address: &Address, target: Target, piece: &Styled) -> Value {
    without_nulls(json!({
        "chat_id": address.chat_id,
        "message_thread_id": topic(target.thread_id),
        "business_connection_id": address.business_connection_id,
        "direct_messages_topic_id": address.direct_messages_topic_id,
        "text": piece.text,
        "entities": Some(&piece.entities).filter(|entities| !entities.is_empty()),
        "reply_parameters":
            target.reply_to.map(|id| json!({"message_id": id, "allow_sending_without_reply": true})),
        "link_preview_options": {"is_disabled": true},
    }))
}

/// Returns `body` without the fields that are not set.
fn without_nulls(mut body: Value) -> Value {
    if let Value::Object(fields) = &mut body {
        fields.retain(|_, value| !value.is_null());
    }
    body
}
