//! HTTP client of Discord's REST API: [`Client`].
//!
//! ```text
//! PATCH https://discord.com/api/v10/webhooks/<application>/<token>/messages/@original     the answer to an interaction
//! POST  https://discord.com/api/v10/webhooks/<application>/<token>?wait=true              further messages of it
//! POST  https://discord.com/api/v10/channels/<channel>/messages       Authorization: Bot <token>
//! {"content": "Plan", "flags": 4, "allowed_mentions": {"parse": []}, "nonce": "5f2b…", "enforce_nonce": true}
//!
//! 404 {"code": 10015, "message": "Unknown Webhook"}                    the token has ended
//! 403 {"code": 50001, "message": "Missing Access"}
//! 429 {"message": "You are being rate limited.", "retry_after": 0.725, "global": false}
//! ```
//!
//! A bot's message has a `nonce`: for some minutes Discord returns the message that has it instead of making another one. An
//! edit of the first answer can be repeated. Only a follow-up that may have been delivered is not sent again here.
//!
//! Discord bans an address, which functions share, after 10,000 responses of 401, 403 or 429 in ten minutes. So a refused bot
//! token is not used for ten minutes, and no more requests are made after [`MAX_INVALID`] such responses in that time.
//!
//! *Invariant:* no token, neither the bot's nor that of an interaction, and no text of a message appears in an error or a log.
//!
//! Sources: <https://discord.com/developers/docs/interactions/receiving-and-responding>,
//! <https://discord.com/developers/docs/resources/message#create-message>,
//! <https://discord.com/developers/docs/topics/rate-limits>.

mod answer;
mod application;
mod channel;
mod error;
mod file;
mod invalid;
mod send;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use annals_channel::client::{Effort, Outage, connect};
use annals_channel::rate_limit::{RateLimit, SharedRateLimit};
use annals_core::settings::ConfigError;
use annals_io::clock::Clock;
use annals_io::connection::Connection;
use reqwest::header::{AUTHORIZATION, RETRY_AFTER, USER_AGENT};
use reqwest::{Method, RequestBuilder, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::answer::Answer;
pub use self::application::{Application, Endpoints};
pub use self::channel::ChannelInfo;
pub use self::error::SendError;
use self::invalid::Invalid;
pub use self::invalid::MAX_INVALID;
pub use self::send::{Message, nonce};
use crate::settings::DiscordConfig;

/// Rate limit of a bot over all channels.
pub const BOT_RATE_LIMIT: RateLimit = RateLimit::within(50, Duration::from_secs(1));
/// Rate limit of a channel. Discord tells it in headers; this is what it has been for years.
pub const CHANNEL_RATE_LIMIT: RateLimit = RateLimit::within(5, Duration::from_secs(5));
/// Total time that one call waits for 429s, unless set by [`Client::with_patience`].
pub const PATIENCE: Duration = Duration::from_mins(1);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// Client of the REST API for one application. Clones share its connections.
#[derive(Clone)]
pub struct Client {
    http: Connection,
    base: Url,
    application_id: String,
    bot_token: Option<SecretString>,
    clock: Clock,
    patience: Duration,
    share: Option<SharedRateLimit>,
    invalid: Arc<Invalid>,
}

/// A request: its name for errors, and what it asks for.
struct Call<'a> {
    name: &'static str,
    method: Method,
    url: Url,
    body: Option<&'a Value>,
    file: Option<&'a str>,
    /// True if it is made in the name of the bot; otherwise the URL contains the token of an interaction.
    is_of_bot: bool,
    /// True if a request that may have been carried out can be made again.
    is_repeatable: bool,
}

impl Client {
    /// Creates a client for the application of `config`.
    pub fn new(config: &DiscordConfig, clock: Clock) -> Result<Self, ConfigError> {
        let is_base = |url: &Url| {
            matches!(url.scheme(), "http" | "https") && !url.cannot_be_a_base() && url.query().is_none()
        };
        let base = Url::parse(&config.api_base).ok().filter(is_base);
        let base = base.ok_or(ConfigError::new("DISCORD_API_BASE", "is not an http or https address"))?;
        let is_token =
            |token: &SecretString| token.expose_secret().bytes().all(|byte| byte.is_ascii_graphic());
        if config.bot_token.as_ref().is_some_and(|token| !is_token(token)) {
            return Err(ConfigError::new(
                "DISCORD_BOT_TOKEN",
                "is not a token: it has spaces or other characters",
            ));
        }
        Ok(Self {
            http: Connection::new(|| connect(REQUEST_TIMEOUT)),
            base,
            application_id: config.application_id.clone(),
            bot_token: config.bot_token.clone(),
            clock,
            patience: PATIENCE,
            share: None,
            invalid: Arc::default(),
        })
    }

    /// Sets the total time that one call waits for 429s.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Limits the rate of all messages that this client sends. If the next free slot is later than the call's patience
    /// allows, the call fails like a 429.
    #[must_use]
    pub fn with_rate_limit(mut self, rate_limit: Option<RateLimit>) -> Self {
        self.share = rate_limit.map(SharedRateLimit::new);
        self
    }

    /// Returns true if the bot's token is set.
    pub fn has_bot(&self) -> bool {
        self.bot_token.is_some()
    }

    /// Returns the application.
    pub(crate) fn application_id(&self) -> &str {
        &self.application_id
    }

    /// Makes a request whose `path` contains the token of an interaction.
    pub(crate) async fn answer_interaction(
        &self,
        name: &'static str,
        method: Method,
        path: &[&str],
        body: &Value,
    ) -> Result<(), SendError> {
        let (url, body, is_repeatable) = (self.url(path), Some(body), method != Method::POST);
        let call = Call { name, method, url, body, file: None, is_of_bot: false, is_repeatable };
        self.call::<Value>(&call).await.map(|_| ())
    }

    /// Returns the URL of `path`. Each segment is escaped.
    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(path);
        }
        url
    }

    /// Makes a request in the name of the bot.
    async fn as_bot<T: DeserializeOwned>(
        &self,
        name: &'static str,
        method: Method,
        url: Url,
        body: Option<&Value>,
    ) -> Result<T, SendError> {
        let is_repeatable = method != Method::POST;
        let call = Call { name, method, url, body, file: None, is_of_bot: true, is_repeatable };
        self.call(&call).await
    }

    /// Makes a request, waits as long as Discord asks, and repeats a request that was not carried out.
    async fn call<T: DeserializeOwned>(&self, call: &Call<'_>) -> Result<T, SendError> {
        let mut effort = Effort::new(&self.clock, self.patience);
        effort.retry(|error: &SendError| error.retry(call.is_repeatable), || self.try_once(call)).await
    }

    async fn try_once<T: DeserializeOwned>(&self, call: &Call<'_>) -> Result<T, SendError> {
        self.invalid.check(call.name, call.is_of_bot, self.clock.now())?;
        let request = self.request(call)?;
        let unavailable =
            |error: reqwest::Error| SendError::Unavailable { method: call.name, source: error.into() };
        let response = request.send().await.map_err(unavailable)?;
        let status = response.status().as_u16();
        let retry_after =
            response.headers().get(RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.parse().ok());
        let body = response.bytes().await.map_err(unavailable)?;
        self.invalid.count(status, call.is_of_bot, self.clock.now());
        let answer =
            Answer { method: call.name, status, retry_after, body: &body, is_of_bot: call.is_of_bot };
        answer.read()
    }

    fn request(&self, call: &Call<'_>) -> Result<RequestBuilder, SendError> {
        const AGENT: &str = concat!("DiscordBot (annals, ", env!("CARGO_PKG_VERSION"), ")");
        let no_connection =
            |error| SendError::Unavailable { method: call.name, source: Outage::Connection(error) };
        let client = self.http.client().map_err(no_connection)?;
        let mut request = client.request(call.method.clone(), call.url.clone()).header(USER_AGENT, AGENT);
        if call.is_of_bot {
            let token = self.bot_token.as_ref().ok_or(SendError::NoBot)?;
            request = request.header(AUTHORIZATION, format!("Bot {}", token.expose_secret()));
        }
        Ok(match (call.body, call.file) {
            (None, _) => request,
            (Some(body), None) => request.json(body),
            (Some(body), Some(text)) => request.multipart(file::form(body, text)),
        })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The base may contain a password.
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
