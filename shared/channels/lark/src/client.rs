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
mod file;
mod reaction;
mod target;
#[cfg(test)]
mod tests;
mod token;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

pub use self::target::uuid;
use self::target::{Piece, Target};
use self::token::Tokens;
use super::address::Address;
use super::bot::Bot;
use super::render::Chunk;
use super::settings::API_BASE;
pub use annals_channel::client::CallError;
use annals_channel::client::{Api, WaitBudget};
use annals_channel::rate_limit::RateLimit;
use annals_core::settings::ConfigError;
use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;

/// Rate limit of an app over all chats: 50 messages per second, and 1000 per minute.
///
/// Source: <https://open.feishu.cn/document/server-docs/im-v1/message/create>, also for the next one.
pub const APP_RATE_LIMIT: RateLimit = RateLimit::within(50, Duration::from_secs(3));
/// Rate limit of one person, or of a group over all its bots.
pub const CHAT_RATE_LIMIT: RateLimit = RateLimit::within(5, Duration::from_secs(1));
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// `emoji_type` of the reaction that shows that an answer is being made, as in Lark's own plugins for agents.
pub const TYPING: &str = "Typing";
/// Maximum number of messages per page.
const PAGE_SIZE: usize = 50;
/// Query for whole cards. Without it, Lark gives a card as a request to upgrade the client.
///
/// Source: <https://github.com/larksuite/oapi-sdk-go/pull/205>.
const WHOLE_CARDS: (&str, &str) = ("card_msg_content_type", "user_card_content");

/// Client of the Open API for one app. Clones share its connections and its token.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) api: Api,
    tokens: Arc<Tokens>,
    /// True after Lark refused a reaction because the app lacks the permission.
    may_not_react: Arc<AtomicBool>,
    /// The bot's own id, once it is known.
    open_id: Arc<OnceCell<String>>,
    /// Maximum number of messages that are fetched around one of a group; 0 fetches none.
    pub(crate) group_context: usize,
}

/// A request, which can be made again.
struct Call<'a> {
    /// Name of the API method, for errors.
    name: &'static str,
    method: Method,
    url: Url,
    body: Option<&'a Value>,
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
        let api = Api::new("Lark", (API_BASE.name, api_base), REQUEST_TIMEOUT, clock)?;
        let tokens = Arc::new(Tokens::new(app_id, app_secret));
        let (may_not_react, open_id) = (Arc::default(), Arc::default());
        Ok(Self { api, tokens, may_not_react, open_id, group_context: 0 })
    }

    /// Returns the bot, whose `open_id` is asked for once.
    pub(crate) async fn bot(&self) -> Result<Bot, CallError> {
        let open_id = self.open_id.get_or_try_init(async || Ok(self.bot_info().await?.open_id)).await?;
        Ok(Bot { app_id: Some(self.tokens.app_id.clone()), open_id: Some(open_id.clone()) })
    }

    /// Fetches the bot's own ids.
    pub async fn bot_info(&self) -> Result<BotInfo, CallError> {
        #[derive(Deserialize)]
        struct Info {
            bot: BotInfo,
        }
        let info: Info = self.get("bot/v3/info", self.url(&["bot", "v3", "info"])).await?;
        Ok(info.bot)
    }

    /// Fetches a message. If it is a `merge_forward`, the messages that it forwards follow; their `upper_message_id`
    /// names the message that contains them.
    pub async fn get_message(&self, message_id: &str) -> Result<Vec<Value>, CallError> {
        let mut url = self.url(&["im", "v1", "messages", message_id]);
        url.query_pairs_mut().append_pair(WHOLE_CARDS.0, WHOLE_CARDS.1);
        let page: Data<Listed> = self.get("im/v1/messages/:message_id", url).await?;
        Ok(page.data.items)
    }

    /// Fetches the newest messages of a chat, at most `limit`, newest first; with `until`, only those up to that
    /// second. Of a thread in the chat only the first message is listed.
    pub async fn list_messages(
        &self,
        chat_id: &str,
        until: Option<Timestamp>,
        limit: usize,
    ) -> Result<Vec<Value>, CallError> {
        // Whole seconds; the end is included.
        let until = until.map(|until| (until.as_millis().saturating_add(999) / 1000).to_string());
        self.list("chat", chat_id, until.as_deref(), limit).await
    }

    /// Fetches the newest messages of a thread, at most `limit`, newest first. The API has no time filter for threads.
    pub async fn list_thread(&self, thread_id: &str, limit: usize) -> Result<Vec<Value>, CallError> {
        self.list("thread", thread_id, None, limit).await
    }

    async fn list(
        &self,
        kind: &str,
        id: &str,
        until: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Value>, CallError> {
        let mut budget = self.api.budget();
        let mut found: Vec<Value> = Vec::new();
        let mut page_token = Some(String::new());
        while let Some(token) = page_token.filter(|_| found.len() < limit) {
            let size = (limit - found.len()).min(PAGE_SIZE).to_string();
            let mut url = self.url(&["im", "v1", "messages"]);
            let given = [("container_id_type", kind), ("container_id", id), ("page_size", &size)];
            let fixed = [("sort_type", "ByCreateTimeDesc"), WHOLE_CARDS];
            let some = [("end_time", until), ("page_token", Some(token.as_str()).filter(|t| !t.is_empty()))];
            let some = some.into_iter().filter_map(|(name, value)| Some((name, value?)));
            url.query_pairs_mut().extend_pairs(given.into_iter().chain(fixed).chain(some));
            let call = Call { name: "im/v1/messages", method: Method::GET, url, body: None };
            let page: Data<Listed> = self.call(&call, &mut budget).await?;
            let Listed { items, has_more, page_token: next } = page.data;
            // An empty page ends the list even if it names a next page, so that the loop ends.
            page_token = next.filter(|next| has_more && !next.is_empty() && !items.is_empty());
            found.extend(items);
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Sends chunk number `index` of the reply that is stored at `key` (chat and sort key). It becomes several messages if
    /// Lark finds it too long.
    ///
    /// Only the first message of a reply quotes the message of `address`; in a thread all do, since a thread can only
    /// be reached by replying. If Lark refuses an optional part, the message is sent again without it: a card as plain
    /// text, outside the thread if the group has none, to the chat if the message cannot be quoted. A recalled message
    /// (230011) gets no reply, since its author took the question back, unless [`Address::survives_recall`].
    pub async fn send_chunk(
        &self,
        address: &Address,
        chunk: &Chunk,
        key: &str,
        index: usize,
    ) -> Result<(), CallError> {
        let mut budget = self.api.budget();
        let mut target = Target::of(address);
        if index > 0 {
            target = target.after_the_first();
        }
        let mut left = VecDeque::from([Piece { chunk: chunk.clone(), uuid: uuid(key, index) }]);
        while let Some(piece) = left.pop_front() {
            let content = piece.chunk.primary();
            let content = (content.msg_type(), content.to_json());
            match self.post(&target, content, &piece.uuid, &mut budget).await {
                Ok(()) => target = target.after_the_first(),
                Err(error) => {
                    let (pieces, without) = target.leave_out(piece, error)?;
                    tracing::info!(without, "Lark refused a part of a message; sending again without it");
                    for piece in pieces.into_iter().rev() {
                        left.push_front(piece);
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends a card after the chunks of the reply that is stored at `key`, as its message number `index`.
    pub async fn send_card(
        &self,
        address: &Address,
        card: &Value,
        key: &str,
        index: usize,
    ) -> Result<(), CallError> {
        let target = Target::of(address).after_the_first();
        self.post(&target, ("interactive", card.to_string()), &uuid(key, index), &mut self.api.budget()).await
    }

    /// Returns true if `open_id` is the owner or a manager of the group `chat_id`.
    pub async fn is_manager(&self, chat_id: &str, open_id: &str) -> Result<bool, CallError> {
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
    pub async fn group_name(&self, chat_id: &str) -> Result<Option<String>, CallError> {
        #[derive(Deserialize)]
        struct Group {
            name: Option<String>,
        }
        let group: Data<Group> = self.group(chat_id).await?;
        Ok(group.data.name.filter(|name| !name.is_empty()))
    }

    async fn group<T: DeserializeOwned>(&self, chat_id: &str) -> Result<Data<T>, CallError> {
        let mut url = self.url(&["im", "v1", "chats", chat_id]);
        url.query_pairs_mut().append_pair("user_id_type", "open_id");
        self.get("im/v1/chats/:chat_id", url).await
    }

    async fn post(
        &self,
        target: &Target<'_>,
        (msg_type, content): (&str, String),
        uuid: &str,
        budget: &mut WaitBudget,
    ) -> Result<(), CallError> {
        self.api.wait_for_slot(budget).await?;
        let mut body = json!({"msg_type": msg_type, "content": content, "uuid": uuid});
        let mut url = self.url(&["im", "v1", "messages"]);
        let name = if let Some(message_id) = target.message_id {
            url = self.url(&["im", "v1", "messages", message_id, "reply"]);
            body["reply_in_thread"] = target.in_thread.into();
            "im/v1/messages/:message_id/reply"
        } else {
            url.query_pairs_mut().append_pair("receive_id_type", "chat_id");
            body["receive_id"] = target.chat_id.into();
            "im/v1/messages"
        };
        let call = Call { name, method: Method::POST, url, body: Some(&body) };
        self.call(&call, budget).await.map(|_: Value| ())
    }

    /// Returns the URL of `path` in the Open API. Each segment is escaped.
    fn url(&self, path: &[&str]) -> Url {
        self.api.url(&[&["open-apis"][..], path].concat())
    }

    async fn get<T: DeserializeOwned>(&self, name: &'static str, url: Url) -> Result<T, CallError> {
        self.call(&Call { name, method: Method::GET, url, body: None }, &mut self.api.budget()).await
    }

    /// Makes a request, waits for rate limits, and retries requests without an answer: they cannot deliver a message twice,
    /// because of its `uuid`.
    async fn call<T: DeserializeOwned>(
        &self,
        call: &Call<'_>,
        budget: &mut WaitBudget,
    ) -> Result<T, CallError> {
        budget.retry(true, || self.with_token(call)).await
    }

    /// Makes a request with the app's token, and with a new one if Lark refuses that.
    async fn with_token<T: DeserializeOwned>(&self, call: &Call<'_>) -> Result<T, CallError> {
        let token = self.tokens.get(self, None).await?;
        match self.ask(call, Some(&token.value), &[]).await {
            Err(CallError::Token { .. }) => {
                let token = self.tokens.get(self, Some(token.serial)).await?;
                self.ask(call, Some(&token.value), &[]).await
            }
            answer => answer,
        }
    }

    /// Makes a request with this token, once. `secrets` are in its body.
    async fn ask<T: DeserializeOwned>(
        &self,
        call: &Call<'_>,
        token: Option<&SecretString>,
        secrets: &[&str],
    ) -> Result<T, CallError> {
        let token = token.map(ExposeSecret::expose_secret);
        let add = |mut request: RequestBuilder| {
            if let Some(token) = token {
                request = request.bearer_auth(token);
            }
            match call.body {
                Some(body) => request.json(body),
                None => request,
            }
        };
        let answer = self.api.send(call.name, (call.method.clone(), call.url.clone()), add).await?;
        let secrets: Vec<&str> = secrets.iter().copied().chain(token).collect();
        answer::read(&answer, &secrets)
    }
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
