//! Common parts of the platforms' HTTP clients: connections, waits, and causes of failures.

use std::time::Duration;

use annals_io::clock::Clock;
use reqwest::Client;

use crate::rate_limit::SharedRateLimit;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Delays before the second and third attempt of a request that failed for the moment.
const BACKOFF: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(1)];
/// First wait for a rate limit that does not say how long. Each further one is twice as long.
const SLOWDOWN: Duration = Duration::from_secs(1);

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

/// Drops the value that a data error quotes: an answer contains the text of messages, or a token.
#[must_use]
pub fn without_data(error: serde_json::Error) -> serde_json::Error {
    if error.is_data() { serde::de::Error::custom("unexpected shape of the answer") } else { error }
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
    pub fn new(clock: &Clock, patience: Duration) -> Self {
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

    /// Waits for the next slot of `limit`.
    ///
    /// # Errors
    ///
    /// The wait, if it is longer than the patience that is left. Nothing is taken then.
    pub async fn wait_for_slot(&mut self, limit: Option<&SharedRateLimit>) -> Result<(), Duration> {
        let Some(limit) = limit else { return Ok(()) };
        let wait = limit.take(self.clock.now(), self.patience)?;
        self.patience = self.patience.saturating_sub(wait);
        self.clock.sleep(wait).await;
        Ok(())
    }

    /// Returns the wait for a rate limit, if that much patience is left. `told` is the wait that the platform asks for.
    pub fn wait(&mut self, told: Option<Duration>) -> Option<Duration> {
        let wait = told.unwrap_or(self.slowdown);
        self.patience = self.patience.checked_sub(wait)?;
        if told.is_none() {
            self.slowdown *= 2;
        }
        Some(wait)
    }
}
