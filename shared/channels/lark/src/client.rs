//! HTTP client of Lark's (Feishu's) Open API: [`Client`].
//!
//! ```text
//! POST https://open.feishu.cn/open-apis/im/v1/messages/om_1/reply
//! Authorization: Bearer t-…
//! {"msg_type": "text", "content": "{\"text\":\"Plan\"}", "uuid": "5f2b…", "reply_in_thread": false}
//!
//! 200 {"code": 0, "msg": "success", "data": {"message_id": "om_2", …}}
//! 400 {"code": 230002, "msg": "The bot can not be outside the group."}
//! 429 {"code": 99991400, "msg": "request trigger frequency limit"}       x-ogw-ratelimit-reset: 52
//! ```
//!
//! A send has a `uuid` as idempotency key: within an hour Lark sends at most one message with it, and returns that one
//! for every repetition. So everything that may have been delivered can be sent again during that hour, here and by the
//! caller. All forms of one message have the same `uuid`, so that a card that was delivered after all is not followed
//! by its plain text. If a message is split because it is too long, its parts get their own `uuid`s, so that the first
//! part is not taken for the whole.
//!
//! *Invariant:* the app's secret, its tokens and the text of messages appear in no error and no log.
//!
//! Source: <https://open.larksuite.com/document/uAjLw4CM/ukTMukTMukTM/reference/im-v1/message/reply>.

mod answer;
mod code;
mod error;
mod file;
mod reaction;
mod target;
#[cfg(test)]
mod tests;
mod token;
mod wire;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub use self::error::SendError;
pub use self::target::uuid;
use self::target::{Piece, Target};
use self::token::Tokens;
use self::wire::Wire;
use super::address::Address;
use super::render::{Chunk, Content};
use annals_channel::client::Effort;
use annals_channel::rate_limit::{RateLimit, SharedRateLimit};
use annals_core::settings::ConfigError;
use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;

/// Rate limit of an app over all chats: 50 messages per second, and 1000 per minute.
///
/// Source: <https://open.feishu.cn/document/server-docs/im-v1/message/create>, also for the next one.
pub const APP_RATE_LIMIT: RateLimit = RateLimit::within(50, Duration::from_secs(3));
/// Rate limit of one person, or of a group over all its bots.
pub const CHAT_RATE_LIMIT: RateLimit = RateLimit::within(5, Duration::from_secs(1));
/// Total time that one call waits for rate limits, unless set by [`Client::with_patience`].
pub const PATIENCE: Duration = Duration::from_mins(1);
/// `emoji_type` of the reaction that shows that an answer is being made, as in Lark's own plugins for agents.
pub const TYPING: &str = "Typing";
/// Maximum number of messages per page.
const PAGE_SIZE: usize = 50;

/// Client of the Open API for one app. Clones share its connections and its token.
#[derive(Clone)]
pub struct Client {
    wire: Wire,
    tokens: Arc<Tokens>,
    clock: Clock,
    patience: Duration,
    /// True after Lark refused a reaction because the app lacks the permission.
    may_not_react: Arc<AtomicBool>,
    share: Option<SharedRateLimit>,
}

/// Answer of `bot/v3/info`: the bot itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct BotInfo {
    /// The bot's `open_id`, with which the app's events mention it.
    pub open_id: String,
    /// The app's name.
    #[serde(rename = "app_name", default)]
    pub name: String,
}

impl Client {
    /// Creates a client of the Open API at `api_base`, such as `https://open.feishu.cn` or
    /// `https://open.larksuite.com`, for the app `app_id`. Sends no request yet.
    pub fn new(
        api_base: &str,
        app_id: String,
        app_secret: SecretString,
        clock: Clock,
    ) -> Result<Self, ConfigError> {
        let is_base = |url: &Url| {
            matches!(url.scheme(), "http" | "https") && !url.cannot_be_a_base() && url.query().is_none()
        };
        let base = Url::parse(api_base).ok().filter(is_base);
        let base = base.ok_or(ConfigError::new("LARK_API_BASE", "is not an http or https address"))?;
        let tokens = Arc::new(Tokens::new(app_id, app_secret, clock.clone()));
        let may_not_react = Arc::default();
        Ok(Self { wire: Wire::new(base), tokens, clock, patience: PATIENCE, may_not_react, share: None })
    }

    /// Sets the total time that one call waits for rate limits.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Limits the rate of all messages that this client sends. If the next free slot is later than the call's patience
    /// allows, the call fails with [`SendError::RateLimited`].
    #[must_use]
    pub fn with_rate_limit(mut self, rate_limit: Option<RateLimit>) -> Self {
        self.share = rate_limit.map(SharedRateLimit::new);
        self
    }

    /// Fetches the bot's own ids.
    pub async fn bot_info(&self) -> Result<BotInfo, SendError> {
        const METHOD: &str = "bot/v3/info";
        #[derive(Deserialize)]
        struct Info {
            bot: BotInfo,
        }
        let url = self.wire.url(&["bot", "v3", "info"]);
        let request = self.wire.request(METHOD, Method::GET, url)?;
        let info: Info = self.call(METHOD, &request, &mut self.effort()).await?;
        Ok(info.bot)
    }

    /// Fetches a message. If it is a `merge_forward`, the messages that it forwards follow; their `upper_message_id`
    /// names the message that contains them.
    pub async fn get_message(&self, message_id: &str) -> Result<Vec<Value>, SendError> {
        const METHOD: &str = "im/v1/messages/:message_id";
        let url = self.wire.url(&["im", "v1", "messages", message_id]);
        let request = self.wire.request(METHOD, Method::GET, url)?;
        let page: Data<Listed> = self.call(METHOD, &request, &mut self.effort()).await?;
        Ok(page.data.items)
    }

    /// Fetches the newest messages of a chat, at most `limit`, newest first; with `until`, only those up to that
    /// second. Of a thread in the chat only the first message is listed.
    pub async fn list_messages(
        &self,
        chat_id: &str,
        until: Option<Timestamp>,
        limit: usize,
    ) -> Result<Vec<Value>, SendError> {
        // Whole seconds; the end is included.
        let until = until.map(|until| (until.as_millis().saturating_add(999) / 1000).to_string());
        self.list("chat", chat_id, until.as_deref(), limit).await
    }

    /// Fetches the newest messages of a thread, at most `limit`, newest first. The API has no time filter for threads.
    pub async fn list_thread(&self, thread_id: &str, limit: usize) -> Result<Vec<Value>, SendError> {
        self.list("thread", thread_id, None, limit).await
    }

    async fn list(
        &self,
        kind: &str,
        id: &str,
        until: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Value>, SendError> {
        let mut effort = self.effort();
        let mut found: Vec<Value> = Vec::new();
        let mut page_token = Some(String::new());
        while let Some(token) = page_token.filter(|_| found.len() < limit) {
            let size = (limit - found.len()).min(PAGE_SIZE).to_string();
            let mut url = self.wire.url(&["im", "v1", "messages"]);
            let given = [("container_id_type", kind), ("container_id", id), ("page_size", &size)];
            let sort = [("sort_type", "ByCreateTimeDesc")];
            let some = [("end_time", until), ("page_token", Some(token.as_str()).filter(|t| !t.is_empty()))];
            let some = some.into_iter().filter_map(|(name, value)| Some((name, value?)));
            url.query_pairs_mut().extend_pairs(given.into_iter().chain(sort).chain(some));
            let request = self.wire.request("im/v1/messages", Method::GET, url)?;
            let page: Data<Listed> = self.call("im/v1/messages", &request, &mut effort).await?;
            let Listed { items, has_more, page_token: next } = page.data;
            // An empty page ends the list even if it names a next page, so that the loop ends.
            page_token = next.filter(|next| has_more && !next.is_empty() && !items.is_empty());
            found.extend(items);
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Sends `content` as reply to the message of `address`, in its thread if it is in one, or to the chat if `address`
    /// names no message. Returns the id of the new message.
    pub async fn reply(&self, address: &Address, content: &Content, uuid: &str) -> Result<String, SendError> {
        self.post(&Target::of(address), wire(content), uuid, &mut self.effort()).await
    }

    /// Sends `content` to the chat and returns the id of the message.
    pub async fn send(&self, chat_id: &str, content: &Content, uuid: &str) -> Result<String, SendError> {
        let target = Target { chat_id, message_id: None, in_thread: false };
        self.post(&target, wire(content), uuid, &mut self.effort()).await
    }

    /// Sends chunk number `index` of the reply that is stored at `key` (chat and sort key), and returns the ids of the
    /// messages that it became. There are several if Lark found it too long.
    ///
    /// Only the first message of a reply quotes the message of `address`; in a thread all do, since a thread can only
    /// be reached by replying. If Lark refuses an optional part, the message is sent again without it: a card as plain
    /// text, outside the thread if the group has none, to the chat if the message cannot be quoted. A recalled message
    /// (230011) gets no reply, since its author took the question back.
    pub async fn send_chunk(
        &self,
        address: &Address,
        chunk: &Chunk,
        key: &str,
        index: usize,
    ) -> Result<Vec<String>, SendError> {
        let mut effort = self.effort();
        let mut target = Target::of(address);
        if index > 0 {
            target = target.after_the_first();
        }
        let mut left = VecDeque::from([Piece { chunk: chunk.clone(), uuid: uuid(key, index) }]);
        let mut sent: Vec<String> = Vec::new();
        while let Some(piece) = left.pop_front() {
            match self.post(&target, wire(&piece.chunk.primary()), &piece.uuid, &mut effort).await {
                Ok(message_id) => {
                    sent.push(message_id);
                    target = target.after_the_first();
                }
                Err(error) => {
                    let (pieces, without) = target.leave_out(piece, error)?;
                    tracing::info!(without, "Lark refused a part of a message; sending again without it");
                    for piece in pieces.into_iter().rev() {
                        left.push_front(piece);
                    }
                }
            }
        }
        Ok(sent)
    }

    /// Sends a card after the chunks of the reply that is stored at `key`, as its message number `index`.
    pub async fn send_card(
        &self,
        address: &Address,
        card: &Value,
        key: &str,
        index: usize,
    ) -> Result<String, SendError> {
        let target = Target::of(address).after_the_first();
        self.post(&target, ("interactive", card.to_string()), &uuid(key, index), &mut self.effort()).await
    }

    /// Returns true if `open_id` is the owner or a manager of the group `chat_id`.
    pub async fn is_manager(&self, chat_id: &str, open_id: &str) -> Result<bool, SendError> {
        #[derive(Deserialize)]
        struct Group {
            owner_id: Option<String>,
            #[serde(default, deserialize_with = "null_as_empty")]
            user_manager_id_list: Vec<Value>,
        }
        let group: Data<Group> = self.group(chat_id).await?;
        let mut managers = group.data.user_manager_id_list.iter().filter_map(Value::as_str);
        Ok(group.data.owner_id.as_deref() == Some(open_id) || managers.any(|id| id == open_id))
    }

    /// Fetches the name of the group `chat_id`, if it has one.
    pub async fn group_name(&self, chat_id: &str) -> Result<Option<String>, SendError> {
        #[derive(Deserialize)]
        struct Group {
            name: Option<String>,
        }
        let group: Data<Group> = self.group(chat_id).await?;
        Ok(group.data.name.filter(|name| !name.is_empty()))
    }

    async fn group<T: DeserializeOwned>(&self, chat_id: &str) -> Result<Data<T>, SendError> {
        const METHOD: &str = "im/v1/chats/:chat_id";
        let mut url = self.wire.url(&["im", "v1", "chats", chat_id]);
        url.query_pairs_mut().append_pair("user_id_type", "open_id");
        let request = self.wire.request(METHOD, Method::GET, url)?;
        self.call(METHOD, &request, &mut self.effort()).await
    }

    async fn post(
        &self,
        target: &Target<'_>,
        (msg_type, content): (&str, String),
        uuid: &str,
        effort: &mut Effort,
    ) -> Result<String, SendError> {
        #[derive(Deserialize)]
        struct Posted {
            message_id: String,
        }
        let slot = effort.wait_for_slot(self.share.as_ref()).await;
        slot.map_err(|wait| SendError::RateLimited { retry_after: Some(wait) })?;
        let mut body = json!({"msg_type": msg_type, "content": content, "uuid": uuid});
        let mut url = self.wire.url(&["im", "v1", "messages"]);
        let method = if let Some(message_id) = target.message_id {
            url = self.wire.url(&["im", "v1", "messages", message_id, "reply"]);
            body["reply_in_thread"] = target.in_thread.into();
            "im/v1/messages/:message_id/reply"
        } else {
            url.query_pairs_mut().append_pair("receive_id_type", "chat_id");
            body["receive_id"] = target.chat_id.into();
            "im/v1/messages"
        };
        let request = self.wire.request(method, Method::POST, url)?.json(&body);
        let posted: Data<Posted> = self.call(method, &request, effort).await?;
        Ok(posted.data.message_id)
    }

    fn effort(&self) -> Effort {
        Effort::new(&self.clock, self.patience)
    }

    /// Sends a request, waits for rate limits, and retries requests without an answer.
    async fn call<T: DeserializeOwned>(
        &self,
        method: &'static str,
        request: &RequestBuilder,
        effort: &mut Effort,
    ) -> Result<T, SendError> {
        effort.retry(SendError::retry, || self.with_token(method, request)).await
    }

    /// Sends a request with the app's token, and with a new one if Lark refuses that.
    async fn with_token<T: DeserializeOwned>(
        &self,
        method: &'static str,
        request: &RequestBuilder,
    ) -> Result<T, SendError> {
        let token = self.tokens.get(&self.wire, None).await?;
        match self.ask(method, request, &token.value).await {
            Err(error) if error.is_about_token() => {
                let token = self.tokens.get(&self.wire, Some(token.serial)).await?;
                self.ask(method, request, &token.value).await
            }
            answer => answer,
        }
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: &'static str,
        request: &RequestBuilder,
        token: &SecretString,
    ) -> Result<T, SendError> {
        let token = token.expose_secret();
        // Cannot happen: all bodies are in memory.
        let Some(request) = request.try_clone() else {
            let description = "the request cannot be sent again".to_owned();
            return Err(SendError::Refused { method, code: 0, description });
        };
        self.wire.ask(method, request.bearer_auth(token), &[token]).await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `api_base` may contain a password.
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// Returns `msg_type` and `content`.
fn wire(content: &Content) -> (&'static str, String) {
    (content.msg_type(), content.to_json())
}

#[derive(Deserialize)]
struct Data<T> {
    data: T,
}

#[derive(Deserialize)]
struct Listed {
    #[serde(default, deserialize_with = "null_as_empty")]
    items: Vec<Value>,
    #[serde(default)]
    has_more: bool,
    page_token: Option<String>,
}

/// Accepts `null`, which Lark sometimes writes for an empty list.
fn null_as_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Value>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
