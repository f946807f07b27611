//! Common parts of the platforms' HTTP clients: connections, waits, and failures.

use std::fmt;
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::settings::ConfigError;
use annals_io::clock::Clock;
use annals_io::connection::Connection;
use annals_io::errors::chain;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, RequestBuilder, Response, Url};
use serde::de::DeserializeOwned;

use crate::delivery::DeliveryError;
use crate::rate_limit::{RateLimit, SharedRateLimit};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Delays before the second and third attempt of a request that failed for the moment.
const BACKOFF: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(1)];
/// First wait for a rate limit that does not say how long. Each further one is twice as long.
const SLOWDOWN: Duration = Duration::from_secs(1);
/// Total time that one call waits for rate limits, unless set by [`Api::set_patience`].
const PATIENCE: Duration = Duration::from_mins(1);
/// Maximum length of a description. The platforms' are one line; a longer one is the error page of a proxy.
const MAX_DESCRIPTION_CHARS: usize = 200;

/// A platform's API: its address, the connection to it, and the waits of calls. Clones share connection and rate limit.
#[derive(Clone)]
pub struct Api {
    platform: &'static str,
    http: Connection,
    /// The address.
    pub base: Url,
    /// The time.
    pub clock: Clock,
    /// Longest time of a request.
    pub timeout: Duration,
    patience: Duration,
    share: Option<SharedRateLimit>,
}

/// An answer to a request, before its body is parsed.
#[derive(Debug)]
pub struct Answer {
    /// The platform.
    pub platform: &'static str,
    /// The name of the request.
    pub method: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

impl Api {
    /// Creates the API of `platform` at `base`, which is the value of `setting`. Sends no request yet.
    pub fn new(
        platform: &'static str,
        (setting, base): (&'static str, &str),
        timeout: Duration,
        clock: Clock,
    ) -> Result<Self, ConfigError> {
        let is_http = |url: &Url| matches!(url.scheme(), "http" | "https") && url.query().is_none();
        let base = Url::parse(base).ok().filter(is_http);
        let base = base.ok_or(ConfigError::new(setting, "is not an http or https address"))?;
        let http = Connection::new(connect);
        Ok(Self { platform, http, base, clock, timeout, patience: PATIENCE, share: None })
    }

    /// Sets the total time that one call waits for rate limits.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Limits the rate of all messages that are sent. If the next free slot is later than the call's patience allows, the
    /// call fails like one that the platform limits.
    pub fn set_rate_limit(&mut self, rate_limit: Option<RateLimit>) {
        self.share = rate_limit.map(SharedRateLimit::new);
    }

    /// Returns the URL of `path`. Each segment is escaped.
    pub fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(path);
        }
        url
    }

    /// Sends a request, with what `add` adds to it. Returns the response with its body unread.
    pub async fn open(
        &self,
        (method, url): (Method, Url),
        add: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response, Outage> {
        let client = self.http.client().map_err(Outage::Connection)?;
        Ok(add(client.request(method, url).timeout(self.timeout)).send().await?)
    }

    /// Sends a request, which errors call `method`, with what `add` adds to it. Reads the whole answer.
    pub async fn send(
        &self,
        method: &'static str,
        to: (Method, Url),
        add: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Answer, CallError> {
        let answer = async {
            let response = self.open(to, add).await?;
            let answer = self.answer(method, &response);
            Ok::<_, Outage>(Answer { body: response.bytes().await?.into(), ..answer })
        };
        answer.await.map_err(|source| CallError::Unavailable { platform: self.platform, method, source })
    }

    /// Returns `response` to the request `method` as an answer without a body.
    pub fn answer(&self, method: &'static str, response: &Response) -> Answer {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answer { platform: self.platform, method, status, headers, body: Vec::new() }
    }

    /// Returns the waiting time of one call.
    pub fn budget(&self) -> WaitBudget {
        WaitBudget { clock: self.clock.clone(), patience: self.patience, slowdown: SLOWDOWN }
    }

    /// Waits for the next slot of the rate limit.
    ///
    /// # Errors
    ///
    /// [`CallError::RateLimited`] if the wait is longer than the patience that is left. Nothing is taken then.
    pub async fn wait_for_slot(&self, budget: &mut WaitBudget) -> Result<(), CallError> {
        let Some(share) = &self.share else { return Ok(()) };
        let wait = share.take(self.clock.now(), budget.patience).map_err(|wait| self.limited(wait))?;
        budget.patience = budget.patience.saturating_sub(wait);
        self.clock.sleep(wait).await;
        Ok(())
    }

    /// Returns the error of a call that may be made after `wait`.
    pub fn limited(&self, wait: Duration) -> CallError {
        CallError::RateLimited { platform: self.platform, retry_after: Some(wait) }
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may contain a password.
        f.debug_struct("Api").finish_non_exhaustive()
    }
}

impl Answer {
    /// Returns the time in a header, which is a number of seconds.
    pub fn seconds(&self, header: &str) -> Option<Duration> {
        Duration::try_from_secs_f64(self.headers.get(header)?.to_str().ok()?.trim().parse().ok()?).ok()
    }

    /// Parses the body of a success; an empty one as `null`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, CallError> {
        let body = if self.body.is_empty() { b"null" } else { &self.body[..] };
        serde_json::from_slice(body).map_err(|error| {
            // Without the value that a data error quotes: an answer contains the text of messages, or a token.
            let no_data = || serde::de::Error::custom("unexpected shape of the answer");
            let source = if error.is_data() { no_data() } else { error };
            CallError::Unreadable { platform: self.platform, method: self.method, source }
        })
    }

    /// Returns the error for a rate limit. `retry_after` is the wait that the platform asks for.
    pub fn limited(&self, retry_after: Option<Duration>) -> CallError {
        CallError::RateLimited { platform: self.platform, retry_after }
    }

    /// Returns the error for an error on the platform's side: see [`Outage::Server`].
    pub fn failed(&self, reason: impl Into<String>) -> CallError {
        let source = Outage::Server(reason.into());
        CallError::Unavailable { platform: self.platform, method: self.method, source }
    }
}

/// Shortens the description of a refusal, and replaces `secrets` in it, since a proxy may echo the request.
pub fn described(text: &str, secrets: &[&str]) -> String {
    let hidden = secrets.iter().filter(|secret| !secret.is_empty());
    let text = hidden.fold(text.to_owned(), |text, secret| text.replace(secret, "<secret>"));
    if text.is_empty() { "no description".into() } else { text.chars().take(MAX_DESCRIPTION_CHARS).collect() }
}

/// Error of a call of a platform's API. Its text includes the cause, and contains no secret and no text of a message.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The bot may not write to this chat. It lasts until a person changes that.
    #[error("{reason}")]
    Blocked {
        /// Its reason, without secrets.
        reason: String,
    },
    /// The chat has a new id. Send there instead.
    #[error("the group has become chat {chat_id}")]
    Moved {
        /// The chat under its new id.
        chat: ChatKey,
        /// The platform's new id of the window.
        chat_id: String,
    },
    /// A rate limit, and the wait is longer than the rest of the call's patience.
    #[error("{platform}'s rate limit is exceeded{}", told(*retry_after))]
    RateLimited {
        /// The platform.
        platform: &'static str,
        /// Counted from the time of the answer, if the platform tells it.
        retry_after: Option<Duration>,
    },
    /// The access token was refused, or has ended. Another one may be accepted.
    #[error("{reason}")]
    Token {
        /// The platform's code, or 0.
        code: i64,
        /// The request, and the platform's reason.
        reason: String,
    },
    /// Any other refusal: the same request would be refused again.
    #[error("{reason}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The platform's code, or 0.
        code: i64,
        /// The request, and the platform's reason.
        reason: String,
    },
    /// No connection, no answer in time, or an error on the platform's side. Unless the [`Outage`] says otherwise, a message
    /// may have been delivered.
    #[error("{platform} did not answer {method}: {source}")]
    Unavailable {
        /// The platform.
        platform: &'static str,
        /// The name of the request.
        method: &'static str,
        /// The cause.
        source: Outage,
    },
    /// A success whose body cannot be parsed. The message may have been delivered.
    #[error("{platform}'s answer to {method} cannot be parsed: {source}")]
    Unreadable {
        /// The platform.
        platform: &'static str,
        /// The name of the request.
        method: &'static str,
        /// The error of the parser, without data from the answer.
        source: serde_json::Error,
    },
}

impl CallError {
    /// Returns true if the same call would fail again until a person changes something.
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::Blocked { .. } | Self::Moved { .. } | Self::Refused { .. })
    }

    /// Returns true if the platform refused the request: the same bot, or the same token, would be refused again.
    pub fn is_refusal(&self) -> bool {
        self.is_permanent() || matches!(self, Self::Token { .. })
    }

    /// Returns true if the request can be made again soon: unless it `is_repeatable`, only if it was not carried out.
    fn may_pass(&self, is_repeatable: bool) -> bool {
        match self {
            Self::Unavailable { source: Outage::Server(_) | Outage::Connection(_), .. } => true,
            Self::Unavailable { .. } | Self::Unreadable { .. } => is_repeatable,
            _ => false,
        }
    }

    /// Returns the code of a refusal.
    pub fn code(&self) -> Option<i64> {
        match self {
            Self::Refused { code, .. } | Self::Token { code, .. } => Some(*code),
            _ => None,
        }
    }
}

fn told(retry_after: Option<Duration>) -> String {
    retry_after.map(|wait| format!("; retry after {} s", wait.as_millis().div_ceil(1000))).unwrap_or_default()
}

impl From<CallError> for DeliveryError {
    fn from(error: CallError) -> Self {
        let reason = error.to_string();
        match error {
            CallError::Blocked { .. } => Self::Blocked { reason },
            CallError::Moved { chat, chat_id } => Self::Moved { chat, chat_id },
            CallError::Refused { .. } => Self::Refused { reason },
            _ => Self::Unavailable { reason },
        }
    }
}

/// Creates a client. It follows no redirect, which would send the bot's token to another host; no platform redirects.
fn connect() -> reqwest::Result<Client> {
    let client = annals_io::tls::client().connect_timeout(CONNECT_TIMEOUT);
    client.redirect(reqwest::redirect::Policy::none()).build()
}

/// Cause of a call without an answer. Its text is complete, since logs and deliveries show no further causes.
#[derive(Debug, thiserror::Error)]
pub enum Outage {
    /// An error on the platform's side, after which it has not taken the request: it is made again, even if a repeat would be a
    /// second message. For an error after which it may have taken it, add a variant like [`Outage::Response`].
    #[error("{0}")]
    Server(String),
    /// No connection: nothing was sent.
    #[error("no connection: {}", chain(.0))]
    Connection(reqwest::Error),
    /// No answer, or an incomplete one: the platform may have taken the request.
    #[error("no complete answer: {}", chain(.0))]
    Response(reqwest::Error),
}

impl From<reqwest::Error> for Outage {
    /// Removes the URL, which may contain a token or ids.
    fn from(error: reqwest::Error) -> Self {
        let error = error.without_url();
        if error.is_connect() { Self::Connection(error) } else { Self::Response(error) }
    }
}

/// Waiting time that is left to one call.
#[derive(Debug)]
pub struct WaitBudget {
    clock: Clock,
    patience: Duration,
    slowdown: Duration,
}

impl WaitBudget {
    /// Makes `attempt` until it succeeds, or until its error may not be retried any more: a rate limit as long as there is
    /// patience; a request that was not carried out, or that `is_repeatable`, twice, after 0.5 and 1 seconds.
    ///
    /// # Errors
    ///
    /// The last attempt's.
    pub async fn retry<T, F: Future<Output = Result<T, CallError>>>(
        &mut self,
        is_repeatable: bool,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, CallError> {
        let mut backoff = BACKOFF.into_iter();
        loop {
            let error = match attempt().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let wait = match &error {
                CallError::RateLimited { retry_after, .. } => self.wait(*retry_after),
                error if error.may_pass(is_repeatable) => backoff.next(),
                _ => None,
            };
            let Some(wait) = wait else { return Err(error) };
            self.clock.sleep(wait).await;
        }
    }

    /// Returns the wait for a rate limit, if that much patience is left. `told` is the wait that the platform asks for.
    fn wait(&mut self, told: Option<Duration>) -> Option<Duration> {
        let wait = told.unwrap_or(self.slowdown);
        self.patience = self.patience.checked_sub(wait)?;
        if told.is_none() {
            self.slowdown *= 2;
        }
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use annals_core::sort_key::Timestamp;

    use super::*;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn api(base: &str) -> Result<Api, ConfigError> {
        let clock = Clock::manual(Timestamp::from_secs(1_763_765_920));
        Api::new("P", ("A_BASE", base), secs(1), clock)
    }

    fn limited(wait: Option<u64>) -> CallError {
        CallError::RateLimited { platform: "P", retry_after: wait.map(secs) }
    }

    fn outage(source: Outage) -> CallError {
        CallError::Unavailable { platform: "P", method: "send", source }
    }

    fn refused() -> CallError {
        CallError::Refused { status: 400, code: 0, reason: "no".into() }
    }

    /// Makes a request that fails `times` times and then succeeds; returns if it succeeded, the number of attempts, and the
    /// time.
    async fn tried(patience: u64, times: usize, failure: impl Fn() -> CallError) -> (bool, usize, Duration) {
        let mut api = api("http://e.org").unwrap();
        api.set_patience(secs(patience));
        let (mut budget, mut attempts) = (api.budget(), 0);
        let attempt = || {
            attempts += 1;
            let failed = (attempts <= times).then(&failure);
            async move { failed.map_or(Ok(()), Err) }
        };
        let (done, took) = api.clock.advance_during(budget.retry(false, attempt)).await;
        (done.is_ok(), attempts, took)
    }

    #[tokio::test]
    async fn a_request_is_made_again_as_long_as_there_is_patience() {
        let server = || outage(Outage::Server("500".into()));
        let check = |tried: (bool, usize, Duration), wanted, millis: std::ops::Range<u64>| {
            assert_eq!((tried.0, tried.1), wanted, "{millis:?}");
            let times = Duration::from_millis(millis.start)..Duration::from_millis(millis.end);
            assert!(times.contains(&tried.2), "{wanted:?}, {millis:?}: {:?}", tried.2);
        };
        check(tried(60, 2, || limited(Some(7))).await, (true, 3), 14_000..20_000);
        check(tried(60, 9, || limited(Some(25))).await, (false, 3), 50_000..60_000);
        check(tried(0, 1, || limited(Some(7))).await, (false, 1), 0..1000);
        check(tried(60, 3, || limited(None)).await, (true, 4), 7000..12_000);
        check(tried(60, 2, server).await, (true, 3), 1500..3000);
        check(tried(60, 9, server).await, (false, 3), 1500..3000);
        check(tried(60, 9, refused).await, (false, 1), 0..1000);
    }

    #[test]
    fn an_address_is_http_and_its_paths_are_escaped() {
        for base in ["", "api.example.org", "file:///x", "data:x", "https://e.org/?a=b"] {
            assert_eq!(api(base).unwrap_err().variable, "A_BASE", "{base}");
        }
        for base in ["http://127.0.0.1:8081/v1", "http://127.0.0.1:8081/v1/"] {
            let url = api(base).unwrap().url(&["bot1:a-B_c", "../x?y"]);
            assert_eq!(url.as_str(), "http://127.0.0.1:8081/v1/bot1:a-B_c/..%2Fx%3Fy");
        }
    }

    #[tokio::test]
    async fn clones_share_a_rate_limit_and_wait_no_longer_than_their_patience() {
        let mut api = api("http://e.org").unwrap();
        api.set_rate_limit(Some(RateLimit::within(1, secs(1))));
        api.set_patience(secs(2));
        let slot = async || api.clone().wait_for_slot(&mut api.budget()).await;
        let four = async { tokio::join!(slot(), slot(), slot(), slot()) };
        let (slots, _) = api.clock.advance_during(four).await;
        let (Ok(()), Ok(()), Ok(()), Err(error)) = slots else { panic!("{slots:?}") };
        assert_eq!(error.to_string(), "P's rate limit is exceeded; retry after 3 s");
    }

    #[tokio::test]
    async fn an_error_tells_its_cause_without_the_token_in_the_address() {
        let api = api("http://127.0.0.1:1").unwrap();
        let to = (Method::GET, api.url(&["botSECRET"]));
        let error = api.send("getMe", to, |request| request).await.unwrap_err();
        let said = error.to_string();
        assert!(
            said.starts_with("P did not answer getMe: no connection: ") && said.contains("refused"),
            "{said}"
        );
        assert!(!said.contains("SECRET"), "{said}");
        assert_eq!(chain(&error), said);
        assert_eq!(DeliveryError::from(error).to_string(), said);
    }

    #[test]
    fn a_message_that_may_have_been_delivered_is_repeated_only_if_that_does_no_harm() {
        let server = outage(Outage::Server("500".into()));
        assert!(server.may_pass(false) && server.may_pass(true));
        let (platform, method, headers) = ("P", "send", HeaderMap::new());
        let answer = Answer { platform, method, status: 200, headers, body: br#""secret""#.into() };
        let unreadable = answer.parse::<u8>().unwrap_err();
        assert!(!unreadable.may_pass(false) && unreadable.may_pass(true));
        assert!(!format!("{unreadable:?}").contains("secret"));
        let limited = answer.limited(Some(Duration::from_millis(725)));
        assert_eq!(limited.to_string(), "P's rate limit is exceeded; retry after 1 s");
        assert!(refused().is_permanent() && !refused().may_pass(true) && !limited.is_permanent());
        assert_eq!(described("a TOKEN", &["TOKEN", ""]), "a <secret>");
    }
}
