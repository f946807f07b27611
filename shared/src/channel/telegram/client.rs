//! Sends to Telegram: [`Client`], over the Bot API.
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
//! A send has no idempotency key. So what may have been delivered is not sent again here: a timeout, or a connection
//! lost after the request went out, is [`SendError::Unavailable`] at once, and whether to risk a second delivery is
//! the caller's to decide. Tried again here is what Telegram said it did not take (429, 5xx) and what never reached
//! it (no connection). Where one chunk becomes several messages and a later one fails, the earlier ones stay
//! delivered.
//!
//! Link previews are off: Telegram would fetch any address that a model writes, with whatever was talked into it.
//!
//! *Invariant:* the token, which is part of every address, is in no error and no log.
//!
//! Source: <https://core.telegram.org/bots/api#making-requests>.

mod answer;
mod file;
mod setup;
mod signs;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use self::answer::Answer;
pub use self::setup::{Webhook, WebhookInfo};
use super::address::{Address, Posted};
use super::markdown::{self, Styled};
use super::split::{LIMIT, split};
use crate::channel::connection::Connection;
use crate::clock::Clock;
use crate::delivery::Asked;
use crate::pace::{Pace, Share};
use crate::sort_key::Timestamp;

/// What a bot may send in all.
///
/// Source: <https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this>, as the next two.
pub const BOT_PACE: Pace = Pace::within(30, Duration::from_secs(1));
/// What a private chat may be sent.
pub const PRIVATE_PACE: Pace = Pace::within(1, Duration::from_secs(1));
/// What a group may be sent.
pub const GROUP_PACE: Pace = Pace::within(20, Duration::from_mins(1));
/// How long one call waits for 429s in all, unless [`Client::with_patience`] says otherwise.
pub const PATIENCE: Duration = Duration::from_mins(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Before the second and third try of what Telegram did not take.
const BACKOFF: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(1)];

/// A bot's line to Telegram. Clones share its connections.
#[derive(Clone)]
pub struct Client {
    http: Connection,
    api_base: String,
    token: SecretString,
    clock: Clock,
    patience: Duration,
    administrators: Arc<Mutex<Administrators>>,
    drafts: Arc<signs::Drafts>,
    share: Option<Share>,
}

/// Of each group: when Telegram was asked, and whom it named.
type Administrators = HashMap<String, (Timestamp, Vec<String>)>;

/// How long a group's administrators are gone by, and of how many groups.
const ADMINISTRATORS_FRESH: Duration = Duration::from_mins(5);
const MAX_KNOWN_GROUPS: usize = 1_000;

/// `{"inline_keyboard": [[{"text": "✅ Approve", "callback_data": "y…"}, {"text": "❌ Deny", …}], …]}`: a row for each
/// call; `None` where there is none.
pub fn keyboard(asked: &[Asked]) -> Option<Value> {
    let row = |asked: &Asked| -> Value {
        let button =
            |approved| json!({"text": asked.label(approved), "callback_data": asked.button(approved).data()});
        json!([button(true), button(false)])
    };
    (!asked.is_empty()).then(|| json!({"inline_keyboard": asked.iter().map(row).collect::<Vec<_>>()}))
}

/// Who the bot is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Me {
    /// The bot's user id.
    pub id: i64,
    /// The bot's name, without `@`.
    #[serde(default)]
    pub username: String,
    /// Whether it is sent all messages of groups, and not only those that address it: its privacy is off.
    #[serde(default)]
    pub can_read_all_group_messages: bool,
}

/// Why a client cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address of the API is none.
    #[error("TELEGRAM_API_BASE is not an http or https address")]
    ApiBase,
    /// The token holds what no token holds, or nothing.
    #[error("TELEGRAM_BOT_TOKEN is not a token: expected <bot id>:<letters, digits, '-' and '_'>")]
    Token,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// 403: the bot was blocked, removed, or may not write there. It stays so until the user undoes it.
    #[error("Telegram does not let the bot write to this chat: {description}")]
    Blocked {
        /// Telegram's words.
        description: String,
    },
    /// The group has another chat id now; send there.
    #[error("the group has become chat {to}")]
    Migrated {
        /// The new chat id.
        to: i64,
    },
    /// 429, with a wait longer than what is left of the patience.
    #[error("Telegram asks to wait {} s", retry_after.as_secs())]
    RateLimited {
        /// From the time of the answer.
        retry_after: Duration,
    },
    /// Any other 4xx: the same request would be refused again.
    #[error("Telegram refused {method} with {status}: {description}{}", token_hint(*status))]
    Refused {
        /// The Bot API's method.
        method: &'static str,
        /// The HTTP status, or Telegram's `error_code`.
        status: u16,
        /// Telegram's words.
        description: String,
    },
    /// No connection, no answer in time, or a 5xx. A send may have been delivered if there was no answer.
    #[error("Telegram did not answer {method}")]
    Unavailable {
        /// The Bot API's method.
        method: &'static str,
        /// What happened.
        source: Outage,
    },
    /// An answer of success that says nothing. A send may have been delivered.
    #[error("Telegram's answer to {method} cannot be read")]
    Unreadable {
        /// The Bot API's method.
        method: &'static str,
        /// What is wrong with the answer.
        source: serde_json::Error,
    },
}

/// What kept Telegram from answering.
#[derive(Debug, thiserror::Error)]
pub enum Outage {
    /// A status from 500.
    #[error("status {0}")]
    Status(u16),
    /// No connection: nothing was sent.
    #[error("no connection")]
    Connection(#[source] reqwest::Error),
    /// The answer did not come, or broke off: what was sent may have been taken.
    #[error("no complete answer")]
    Response(#[source] reqwest::Error),
}

impl SendError {
    /// Whether the same call would fail again, until a person changes something.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Blocked { .. } | Self::Migrated { .. } | Self::Refused { .. } => true,
            Self::RateLimited { .. } | Self::Unavailable { .. } | Self::Unreadable { .. } => false,
        }
    }

    /// Whether trying again at once may help and cannot deliver twice.
    fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable { source: Outage::Status(_) | Outage::Connection(_), .. })
    }
}

fn token_hint(status: u16) -> &'static str {
    if matches!(status, 401 | 404) { " (check TELEGRAM_BOT_TOKEN)" } else { "" }
}

/// A model's Markdown as the messages that show it. No text gives no message.
///
/// Only the first of a reply's messages quotes what it answers: the caller clears `reply_to` behind it.
pub fn chunks(markdown: &str) -> Vec<Styled> {
    split(&markdown::render(markdown), LIMIT)
}

impl Client {
    /// A client of the Bot API at `api_base`, such as `https://api.telegram.org`, for the bot of `token`.
    pub fn new(api_base: &str, token: SecretString, clock: Clock) -> Result<Self, ClientError> {
        let is_http = reqwest::Url::parse(api_base)
            .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.query().is_none());
        if !is_http {
            return Err(ClientError::ApiBase);
        }
        let is_token = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b':' | b'-' | b'_');
        if token.expose_secret().is_empty() || !token.expose_secret().bytes().all(is_token) {
            return Err(ClientError::Token);
        }
        Ok(Self {
            http: Connection::new(connect),
            api_base: api_base.trim_end_matches('/').to_owned(),
            token,
            clock,
            patience: PATIENCE,
            administrators: Arc::default(),
            drafts: Arc::default(),
            share: None,
        })
    }

    /// The same client, waiting for 429s at most this long in all per call.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The same client, whose messages go out no faster than this, all together. A place that is further off than the
    /// patience counts as a 429.
    #[must_use]
    pub fn with_pace(mut self, pace: Option<Pace>) -> Self {
        self.share = pace.map(Share::new);
        self
    }

    /// Who the bot is.
    pub async fn get_me(&self) -> Result<Me, SendError> {
        self.call("getMe", &Map::new(), &mut Effort::new(self.patience)).await
    }

    /// Sends `chunk`, and returns the ids of the messages that it became: one, or several where Telegram refused
    /// the styles and the plain text is longer.
    ///
    /// What Telegram refuses for a part that can be spared is sent without it: without styles, without the topic if
    /// it is gone, without the quotation.
    pub async fn send_message(&self, address: &Address, chunk: &Styled) -> Result<Vec<i64>, SendError> {
        self.send_with(address, chunk, None).await
    }

    /// [`Client::send_message`] with buttons under the last of the messages that it becomes.
    pub async fn send_with(
        &self,
        address: &Address,
        chunk: &Styled,
        keyboard: Option<&Value>,
    ) -> Result<Vec<i64>, SendError> {
        let mut effort = Effort::new(self.patience);
        let mut target = Target { thread_id: address.thread_id, reply_to: address.reply_to };
        let mut left = VecDeque::from([chunk.clone()]);
        let mut sent = Vec::new();
        while let Some(piece) = left.pop_front() {
            let mut body = message_body(address, target, &piece);
            insert_some(&mut body, "reply_markup", keyboard.filter(|_| left.is_empty()).cloned());
            self.wait_for_place(&mut effort).await?;
            match self.call::<Message>("sendMessage", &body, &mut effort).await {
                Ok(message) => {
                    sent.push(message.message_id);
                    target.reply_to = None;
                }
                Err(error) => {
                    let (pieces, without) = target.spare(piece, error)?;
                    tracing::info!(without, "Telegram refused a part of a message; sending again without it");
                    for piece in pieces.into_iter().rev() {
                        left.push_front(piece);
                    }
                }
            }
        }
        Ok(sent)
    }

    /// Ends the waiting of whoever pressed a button, with a word; over the chat where it is a refusal (`alert`). A press
    /// can be answered for some minutes.
    pub async fn answer_callback(&self, id: &str, text: &str, alert: bool) -> Result<(), SendError> {
        let mut body = Map::new();
        body.insert("callback_query_id".into(), id.into());
        // Telegram takes 200 characters.
        body.insert("text".into(), text.chars().take(200).collect::<String>().into());
        body.insert("show_alert".into(), alert.into());
        self.try_once("answerCallbackQuery", &body).await.map(|_: Value| ())
    }

    /// Puts other buttons under a message, or none.
    pub async fn edit_keyboard(&self, under: &Posted, keyboard: &Value) -> Result<(), SendError> {
        let mut body = Map::new();
        body.insert("chat_id".into(), under.chat_id.into());
        body.insert("message_id".into(), under.message_id.into());
        insert_some(&mut body, "business_connection_id", under.business_connection_id.clone());
        body.insert("reply_markup".into(), keyboard.clone());
        self.try_once("editMessageReplyMarkup", &body).await.map(|_: Value| ())
    }

    /// Whether `user_id` administers the group `chat_id`, as Telegram said within the last five minutes.
    pub async fn is_administrator(&self, chat_id: &str, user_id: &str) -> Result<bool, SendError> {
        let now = self.clock.now();
        let known = self.administrators.lock().unwrap_or_else(PoisonError::into_inner).get(chat_id).cloned();
        if let Some((asked, ids)) = known
            && now.since(asked) < ADMINISTRATORS_FRESH
        {
            return Ok(ids.iter().any(|id| id == user_id));
        }
        let mut body = Map::new();
        body.insert("chat_id".into(), chat_id.into());
        let members: Vec<Value> =
            self.call("getChatAdministrators", &body, &mut Effort::new(self.patience)).await?;
        let ids: Vec<String> = members
            .iter()
            .filter_map(|member| Some(member.get("user")?.get("id")?.as_i64()?.to_string()))
            .collect();
        let is_administrator = ids.iter().any(|id| id == user_id);
        let mut known = self.administrators.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KNOWN_GROUPS {
            known.clear();
        }
        known.insert(chat_id.to_owned(), (now, ids));
        Ok(is_administrator)
    }

    async fn wait_for_place(&self, effort: &mut Effort) -> Result<(), SendError> {
        let Some(share) = &self.share else { return Ok(()) };
        let wait = share.take(self.clock.now(), effort.0);
        let wait = wait.map_err(|retry_after| SendError::RateLimited { retry_after })?;
        effort.take(wait);
        self.clock.sleep(wait).await;
        Ok(())
    }

    /// Calls `method`, waits as long as Telegram asks, and tries again what it did not take.
    async fn call<T: DeserializeOwned>(
        &self,
        method: &'static str,
        body: &Map<String, Value>,
        effort: &mut Effort,
    ) -> Result<T, SendError> {
        let mut backoff = BACKOFF.into_iter();
        loop {
            let error = match self.try_once(method, body).await {
                Ok(result) => return Ok(result),
                Err(error) => error,
            };
            let wait = match &error {
                SendError::RateLimited { retry_after } if effort.take(*retry_after) => Some(*retry_after),
                error if error.is_passing() => backoff.next(),
                _ => None,
            };
            let Some(wait) = wait else { return Err(error) };
            self.clock.sleep(wait).await;
        }
    }

    async fn try_once<T: DeserializeOwned>(
        &self,
        method: &'static str,
        body: &Map<String, Value>,
    ) -> Result<T, SendError> {
        let token = self.token.expose_secret();
        let unavailable = |error: reqwest::Error| {
            // The address holds the token.
            let error = error.without_url();
            let source = if error.is_connect() { Outage::Connection(error) } else { Outage::Response(error) };
            SendError::Unavailable { method, source }
        };
        let http = self
            .http
            .client()
            .map_err(|error| SendError::Unavailable { method, source: Outage::Connection(error) })?;
        let request = http.post(format!("{}/bot{token}/{method}", self.api_base)).json(body);
        let response = request.send().await.map_err(unavailable)?;
        let status = response.status().as_u16();
        let retry_after =
            response.headers().get(RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.parse().ok());
        let body = response.bytes().await.map_err(unavailable)?;
        Answer { method, status, retry_after, body: &body }.read(token)
    }
}

fn connect() -> reqwest::Result<reqwest::Client> {
    crate::tls::client()
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(REQUEST_TIMEOUT)
        // Telegram does not redirect, and a redirect would carry the token elsewhere.
        .redirect(reqwest::redirect::Policy::none())
        .build()
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its address may hold a password.
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Message {
    message_id: i64,
}

/// What is left of a call's patience.
struct Effort(Duration);

impl Effort {
    fn new(patience: Duration) -> Self {
        Self(patience)
    }

    /// Takes `wait` off, if that much is left.
    fn take(&mut self, wait: Duration) -> bool {
        let left = self.0.checked_sub(wait);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// The parts of an address that a message can do without.
#[derive(Clone, Copy)]
struct Target {
    thread_id: Option<i64>,
    reply_to: Option<i64>,
}

impl Target {
    /// What to send instead of `piece`, which Telegram refused with `error`, and what that goes without; `error`
    /// itself where nothing can be spared. Each loss is for good, so that sending ends.
    fn spare(&mut self, piece: Styled, error: SendError) -> Result<(Vec<Styled>, &'static str), SendError> {
        let SendError::Refused { status: 400, description, .. } = &error else { return Err(error) };
        let description = description.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|words| description.contains(words));
        if says(&["entit"]) && !piece.entities.is_empty() {
            return Ok((split(&Styled::plain(piece.to_plain()), LIMIT), "styles"));
        }
        if says(&["thread not found", "topic_deleted"]) && self.thread_id.is_some() {
            self.thread_id = None;
            return Ok((vec![piece], "topic"));
        }
        if says(&["message to be replied not found", "replied message not found", "reply message not found"])
            && self.reply_to.is_some()
        {
            self.reply_to = None;
            return Ok((vec![piece], "quotation"));
        }
        if says(&["message is too long", "message_too_long"]) {
            let halves = split(&piece, piece.units() / 2);
            if halves.len() > 1 {
                return Ok((halves, "its length"));
            }
        }
        Err(error)
    }
}

/// The General topic is no topic to `sendMessage`, which refuses its id.
fn topic(thread_id: Option<i64>) -> Option<i64> {
    thread_id.filter(|id| *id != 1)
}

fn message_body(address: &Address, target: Target, piece: &Styled) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("chat_id".into(), address.chat_id.into());
    insert_some(&mut body, "message_thread_id", topic(target.thread_id));
    insert_some(&mut body, "business_connection_id", address.business_connection_id.clone());
    insert_some(&mut body, "direct_messages_topic_id", address.direct_messages_topic_id);
    body.insert("text".into(), piece.text.clone().into());
    if !piece.entities.is_empty() {
        body.insert("entities".into(), json!(piece.entities));
    }
    let reply = target.reply_to.map(|id| json!({"message_id": id, "allow_sending_without_reply": true}));
    insert_some(&mut body, "reply_parameters", reply);
    body.insert("link_preview_options".into(), json!({"is_disabled": true}));
    body
}

fn insert_some(body: &mut Map<String, Value>, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        body.insert(key.into(), value.into());
    }
}
