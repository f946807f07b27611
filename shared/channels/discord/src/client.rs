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
//! token is not used for ten minutes, and no more requests are made after 100 such responses in that time.
//!
//! *Invariant:* no token, neither the bot's nor that of an interaction, and no text of a message appears in an error or a log.
//!
//! Sources: <https://discord.com/developers/docs/interactions/receiving-and-responding>,
//! <https://discord.com/developers/docs/resources/message#create-message>,
//! <https://discord.com/developers/docs/topics/rate-limits>.

mod answer;
mod application;
mod channel;
mod file;
mod invalid;
mod send;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

pub use annals_channel::client::CallError;
use annals_channel::client::{Api, WaitBudget};
use annals_channel::rate_limit::RateLimit;
use annals_core::settings::ConfigError;
use annals_io::clock::Clock;
use reqwest::header::{AUTHORIZATION, USER_AGENT};
use reqwest::{Method, RequestBuilder, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::application::Application;
pub use self::channel::ChannelInfo;
use self::invalid::Invalid;
pub use self::send::{Message, nonce};
use crate::settings::{API_BASE, DiscordConfig};

/// Rate limit of a bot over all channels.
pub const BOT_RATE_LIMIT: RateLimit = RateLimit::within(50, Duration::from_secs(1));
/// Rate limit of a channel. Discord tells it in headers; this is what it has been for years.
pub const CHANNEL_RATE_LIMIT: RateLimit = RateLimit::within(5, Duration::from_secs(5));
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// `User-Agent` of all requests to Discord, which refuses others.
///
/// Source: <https://discord.com/developers/docs/reference#user-agent>.
pub const AGENT: &str = concat!("DiscordBot (annals, ", env!("CARGO_PKG_VERSION"), ")");

/// Client of the REST API for one application. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) api: Api,
    application_id: String,
    bot_token: Option<SecretString>,
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
        let api = Api::new("Discord", (API_BASE.name, &config.api_base), REQUEST_TIMEOUT, clock)?;
        let is_token =
            |token: &SecretString| token.expose_secret().bytes().all(|byte| byte.is_ascii_graphic());
        if config.bot_token.as_ref().is_some_and(|token| !is_token(token)) {
            return Err(ConfigError::new(
                "DISCORD_BOT_TOKEN",
                "is not a token: it has spaces or other characters",
            ));
        }
        let (application_id, bot_token) = (config.application_id.clone(), config.bot_token.clone());
        Ok(Self { api, application_id, bot_token, invalid: Arc::default() })
    }

    /// Returns true if the bot's token is set.
    pub fn has_bot(&self) -> bool {
        self.bot_token.is_some()
    }

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
    ) -> Result<(), CallError> {
        let (url, body, is_repeatable) = (self.api.url(path), Some(body), method != Method::POST);
        let call = Call { name, method, url, body, file: None, is_of_bot: false, is_repeatable };
        self.call::<Value>(&call, &mut self.api.budget()).await.map(|_| ())
    }

    /// Makes a request in the name of the bot.
    async fn as_bot<T: DeserializeOwned>(
        &self,
        name: &'static str,
        method: Method,
        url: Url,
        body: Option<&Value>,
    ) -> Result<T, CallError> {
        let is_repeatable = method != Method::POST;
        let call = Call { name, method, url, body, file: None, is_of_bot: true, is_repeatable };
        self.call(&call, &mut self.api.budget()).await
    }

    /// Makes a request, waits as long as Discord asks, and repeats a request that was not carried out, or that `is_repeatable`.
    async fn call<T: DeserializeOwned>(
        &self,
        call: &Call<'_>,
        budget: &mut WaitBudget,
    ) -> Result<T, CallError> {
        budget.retry(call.is_repeatable, || self.try_once(call)).await
    }

    async fn try_once<T: DeserializeOwned>(&self, call: &Call<'_>) -> Result<T, CallError> {
        let token = match &self.bot_token {
            _ if !call.is_of_bot => None,
            Some(token) => Some(format!("Bot {}", token.expose_secret())),
            None => return Err(no_bot()),
        };
        self.invalid.check(call.name, call.is_of_bot, &self.api)?;
        let add = |mut request: RequestBuilder| {
            request = request.header(USER_AGENT, AGENT);
            if let Some(token) = token {
                request = request.header(AUTHORIZATION, token);
            }
            match (call.body, call.file) {
                (None, _) => request,
                (Some(body), None) => request.json(body),
                (Some(body), Some(text)) => request.multipart(file::form(body, text)),
            }
        };
        let answer = self.api.send(call.name, (call.method.clone(), call.url.clone()), add).await?;
        self.invalid.count(answer.status, call.is_of_bot, self.api.clock.now());
        answer::read(&answer, call.is_of_bot)
    }
}

/// Returns the error of a call that needs the bot's token, if that is not set. No message reaches the window until it is.
fn no_bot() -> CallError {
    const REASON: &str =
        "DISCORD_BOT_TOKEN is not set, which is needed after the 15 minutes of a command, and for messages";
    CallError::Blocked { reason: REASON.to_owned() }
}
