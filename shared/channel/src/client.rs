//! Common parts of the platforms' HTTP clients: connections, waits, and failures.

use std::fmt;
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::settings::ConfigError;
use annals_io::clock::Clock;
use annals_io::connection::Connection;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, RequestBuilder, Url};

use crate::delivery::DeliveryError;
use crate::rate_limit::{RateLimit, SharedRateLimit};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Delays before the second and third attempt of a request that failed for the moment.
const BACKOFF: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(1)];
/// First wait for a rate limit that does not say how long. Each further one is twice as long.
const SLOWDOWN: Duration = Duration::from_secs(1);
/// Total time that one call waits for rate limits, unless set by [`Api::with_patience`].
const PATIENCE: Duration = Duration::from_mins(1);
/// Maximum length of a description. The platforms' are one line; a longer one is the error page of a proxy.
const MAX_DESCRIPTION_CHARS: usize = 200;

/// A platform's API: its address, the connection to it, and the waits of calls. Clones share connection and rate limit.
#[derive(Clone)]
pub struct Api {
    /// The connection.
    pub http: Connection,
    /// The address.
    pub base: Url,
    /// The time.
    pub clock: Clock,
    patience: Duration,
    share: Option<SharedRateLimit>,
}

/// An answer before its body is parsed.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

impl Api {
    /// Creates the API at `base`, which is the value of `setting`. Sends no request yet.
    pub fn new(
        setting: &'static str,
        base: &str,
        http: Connection,
        clock: Clock,
    ) -> Result<Self, ConfigError> {
        let is_http = |url: &Url| matches!(url.scheme(), "http" | "https") && url.query().is_none();
        let base = Url::parse(base).ok().filter(is_http);
        let base = base.ok_or(ConfigError::new(setting, "is not an http or https address"))?;
        Ok(Self { http, base, clock, patience: PATIENCE, share: None })
    }

    /// Sets the total time that one call waits for rate limits.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Limits the rate of all messages that are sent. If the next free slot is later than the call's patience allows, the
    /// call fails like one that the platform limits.
    #[must_use]
    pub fn with_rate_limit(self, rate_limit: Option<RateLimit>) -> Self {
        Self { share: rate_limit.map(SharedRateLimit::new), ..self }
    }

    /// Returns the URL of `path`. Each segment is escaped.
    pub fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(path);
        }
        url
    }

    /// Builds a request.
    pub fn request(&self, method: Method, url: Url) -> Result<RequestBuilder, Outage> {
        Ok(self.http.client().map_err(Outage::Connection)?.request(method, url))
    }

    /// Returns the waiting time of one call.
    pub fn effort(&self) -> Effort {
        Effort::new(&self.clock, self.patience)
    }

    /// Waits for the next slot of the rate limit of `platform`.
    ///
    /// # Errors
    ///
    /// [`CallError::RateLimited`] if the wait is longer than the patience that is left. Nothing is taken then.
    pub async fn wait_for_slot(&self, platform: &'static str, effort: &mut Effort) -> Result<(), CallError> {
        let Some(share) = &self.share else { return Ok(()) };
        let limited = |wait| CallError::RateLimited { platform, retry_after: Some(wait) };
        let wait = share.take(self.clock.now(), effort.patience).map_err(limited)?;
        effort.patience = effort.patience.saturating_sub(wait);
        self.clock.sleep(wait).await;
        Ok(())
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may contain a password.
        f.debug_struct("Api").finish_non_exhaustive()
    }
}

/// Sends `request` and reads the whole answer.
pub async fn send(request: RequestBuilder) -> Result<Answer, Outage> {
    let response = request.send().await?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Ok(Answer { status, headers, body: response.bytes().await?.into() })
}

impl Answer {
    /// Returns the time in a header, which is a number of seconds.
    pub fn seconds(&self, header: &str) -> Option<Duration> {
        Duration::try_from_secs_f64(self.headers.get(header)?.to_str().ok()?.trim().parse().ok()?).ok()
    }
}

/// Shortens the description of a refusal, and replaces `secrets` in it, since a proxy may echo the request.
pub fn described(text: &str, secrets: &[&str]) -> String {
    let hidden = secrets.iter().filter(|secret| !secret.is_empty());
    let text = hidden.fold(text.to_owned(), |text, secret| text.replace(secret, "<secret>"));
    if text.is_empty() { "no description".into() } else { text.chars().take(MAX_DESCRIPTION_CHARS).collect() }
}

/// Error of a call of a platform's API. It contains no secret, and no text of a message.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The bot may not write to this chat. It lasts until a person changes that.
    #[error("{reason}")]
    Blocked {
        /// The platform's reason.
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
    /// Another token of the app may be accepted.
    #[error("{reason}")]
    Token {
        /// The platform's code.
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
    #[error("{platform} did not answer {method}")]
    Unavailable {
        /// The platform.
        platform: &'static str,
        /// The name of the request.
        method: &'static str,
        /// The cause.
        source: Outage,
    },
    /// A success whose body cannot be parsed. The message may have been delivered.
    #[error("{platform}'s answer to {method} cannot be parsed")]
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
    /// Returns the error of the request `method` for its cause.
    pub fn unavailable(platform: &'static str, method: &'static str) -> impl Fn(Outage) -> Self {
        move |source| Self::Unavailable { platform, method, source }
    }

    /// Returns the error of the request `method` for the error of parsing its answer, without the value that a data error
    /// quotes: an answer contains the text of messages, or a token.
    pub fn unreadable(platform: &'static str, method: &'static str) -> impl Fn(serde_json::Error) -> Self {
        move |error| {
            let no_data = || serde::de::Error::custom("unexpected shape of the answer");
            Self::Unreadable { platform, method, source: if error.is_data() { no_data() } else { error } }
        }
    }

    /// Returns true if the same call would fail again until a person changes something.
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::Blocked { .. } | Self::Moved { .. } | Self::Refused { .. })
    }

    /// Returns when the request may be made again: unless it `is_repeatable`, only if it was not carried out.
    pub fn retry(&self, is_repeatable: bool) -> Retry {
        match self {
            Self::RateLimited { retry_after, .. } => Retry::Limited(*retry_after),
            Self::Unavailable { source: Outage::Trouble(_) | Outage::Connection(_), .. } => Retry::Soon,
            Self::Unavailable { .. } | Self::Unreadable { .. } if is_repeatable => Retry::Soon,
            _ => Retry::Never,
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

/// Creates a client whose requests take at most `timeout`. It follows no redirect, which would send the bot's token to
/// another host; no platform redirects.
pub fn connect(timeout: Duration) -> reqwest::Result<Client> {
    let client = annals_io::tls::client().connect_timeout(CONNECT_TIMEOUT).timeout(timeout);
    client.redirect(reqwest::redirect::Policy::none()).build()
}

/// Cause of a call without an answer.
#[derive(Debug, thiserror::Error)]
pub enum Outage {
    /// An error on the platform's side.
    #[error("{0}")]
    Trouble(String),
    /// No connection: nothing was sent.
    #[error("no connection")]
    Connection(#[source] reqwest::Error),
    /// No answer, or an incomplete one: the platform may have taken the request.
    #[error("no complete answer")]
    Response(#[source] reqwest::Error),
}

impl From<reqwest::Error> for Outage {
    /// Removes the URL, which may contain a token or ids.
    fn from(error: reqwest::Error) -> Self {
        let error = error.without_url();
        if error.is_connect() { Self::Connection(error) } else { Self::Response(error) }
    }
}

/// When a failed request may be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// After the wait that the platform asks for, or after a growing one if it does not say how long.
    Limited(Option<Duration>),
    /// Twice, after 0.5 and 1 seconds.
    Soon,
    /// Never.
    Never,
}

/// Waiting time that is left to one call.
#[derive(Debug)]
pub struct Effort {
    clock: Clock,
    patience: Duration,
    slowdown: Duration,
}

impl Effort {
    /// Creates the effort of a call that waits for `patience` in all.
    fn new(clock: &Clock, patience: Duration) -> Self {
        Self { clock: clock.clone(), patience, slowdown: SLOWDOWN }
    }

    /// Makes `attempt` until it succeeds, or until its error may not be retried any more; `retry` tells when an error may.
    ///
    /// # Errors
    ///
    /// The last attempt's.
    pub async fn retry<T, E, F: Future<Output = Result<T, E>>>(
        &mut self,
        retry: impl Fn(&E) -> Retry,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, E> {
        let mut backoff = BACKOFF.into_iter();
        loop {
            let error = match attempt().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let wait = match retry(&error) {
                Retry::Limited(told) => self.wait(told),
                Retry::Soon => backoff.next(),
                Retry::Never => None,
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

    /// Makes a request that fails in these ways and then succeeds; returns if it succeeded, the number of attempts, and the
    /// time.
    async fn tried(patience: Duration, failures: &[Retry]) -> (bool, usize, Duration) {
        let clock = Clock::manual(Timestamp::from_secs(1_763_765_920));
        let (mut effort, mut attempts) = (Effort::new(&clock, patience), 0);
        let attempt = || {
            let failure = failures.get(attempts).copied();
            attempts += 1;
            async move { failure.map_or(Ok(()), Err) }
        };
        let (done, took) = clock.advance_during(effort.retry(|failure: &Retry| *failure, attempt)).await;
        (done.is_ok(), attempts, took)
    }

    #[tokio::test]
    async fn a_request_is_made_again_as_long_as_there_is_patience() {
        let told = Retry::Limited(Some(secs(7)));
        let long = Retry::Limited(Some(secs(25)));
        for (patience, failures, wanted, times) in [
            (60, vec![told; 2], (true, 3), secs(14)..secs(20)),
            (60, vec![long; 9], (false, 3), secs(50)..secs(60)),
            (0, vec![told], (false, 1), secs(0)..secs(1)),
            (60, vec![Retry::Limited(None); 3], (true, 4), secs(7)..secs(12)),
            (60, vec![Retry::Soon; 2], (true, 3), Duration::from_millis(1500)..secs(3)),
            (60, vec![Retry::Soon; 9], (false, 3), Duration::from_millis(1500)..secs(3)),
            (60, vec![Retry::Never; 9], (false, 1), secs(0)..secs(1)),
        ] {
            let (is_done, attempts, took) = tried(secs(patience), &failures).await;
            assert_eq!((is_done, attempts), wanted, "{failures:?}");
            assert!(times.contains(&took), "{failures:?}: {took:?}");
        }
    }

    fn api(base: &str) -> Result<Api, ConfigError> {
        Api::new("A_BASE", base, Connection::new(|| connect(secs(1))), Clock::system())
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
        let clock = Clock::manual(Timestamp::from_secs(1_763_765_920));
        let limit = Some(RateLimit::within(1, secs(1)));
        let api = Api { clock: clock.clone(), ..api("http://e.org").unwrap() };
        let api = api.with_rate_limit(limit).with_patience(secs(2));
        let slot = async || api.clone().wait_for_slot("P", &mut api.effort()).await;
        let four = async { tokio::join!(slot(), slot(), slot(), slot()) };
        let (slots, _) = clock.advance_during(four).await;
        let (Ok(()), Ok(()), Ok(()), Err(error)) = slots else { panic!("{slots:?}") };
        assert_eq!(error.retry(false), Retry::Limited(Some(secs(3))));
    }

    #[test]
    fn a_message_that_may_have_been_delivered_is_repeated_only_if_that_does_no_harm() {
        let outage = |source| CallError::Unavailable { platform: "P", method: "send", source };
        let trouble = outage(Outage::Trouble("500".into()));
        assert_eq!((trouble.retry(false), trouble.retry(true)), (Retry::Soon, Retry::Soon));
        let unreadable = CallError::unreadable("P", "send")(serde::de::Error::custom("secret"));
        assert_eq!((unreadable.retry(false), unreadable.retry(true)), (Retry::Never, Retry::Soon));
        assert!(!format!("{unreadable:?}").contains("secret"));
        let limited = CallError::RateLimited { platform: "P", retry_after: Some(Duration::from_millis(725)) };
        assert_eq!(limited.to_string(), "P's rate limit is exceeded; retry after 1 s");
        let refused = CallError::Refused { status: 400, code: 0, reason: "no".into() };
        assert!(refused.is_permanent() && refused.retry(true) == Retry::Never && !limited.is_permanent());
        assert_eq!(described("a TOKEN", &["TOKEN", ""]), "a <secret>");
    }
}
