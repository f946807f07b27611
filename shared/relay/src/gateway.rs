//! The address of the gateway, and the number of sessions that may still begin: [`Gateway`].

use std::time::Duration;

use annals_io::clock::Clock;
use annals_io::connection::Connection;
use annals_io::errors::chain;
use reqwest::StatusCode;
use secrecy::ExposeSecret;
use serde::Deserialize;
use twilight_gateway::queue::InMemoryQueue;

use crate::config::RelayConfig;
use crate::error::RelayError;

/// Time for one request.
const TIMEOUT: Duration = Duration::from_secs(15);
/// First and longest pause before the request is sent again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_mins(1));

/// The answer to `GET /gateway/bot`.
#[derive(Debug, Deserialize)]
pub(crate) struct Gateway {
    /// `wss://gateway.discord.gg`
    pub(crate) url: String,
    session_start_limit: SessionStartLimit,
}

#[derive(Debug, Deserialize)]
struct SessionStartLimit {
    total: u32,
    remaining: u32,
    /// Milliseconds.
    reset_after: u64,
    max_concurrency: u16,
}

/// A failed request.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error("no complete answer")]
    Http(#[from] reqwest::Error),
    #[error("status {0}")]
    Status(StatusCode),
    #[error("the address in the answer is not a WebSocket address")]
    Address,
}

impl Gateway {
    /// Asks Discord until it answers.
    ///
    /// # Errors
    ///
    /// [`RelayError::Token`] if Discord refuses the token.
    pub(crate) async fn ask(
        config: &RelayConfig,
        http: &Connection,
        clock: &Clock,
    ) -> Result<Self, RelayError> {
        let mut pause = PAUSES.0;
        loop {
            match Self::request(config, http).await {
                Ok(gateway) => return Ok(gateway),
                Err(RequestError::Status(StatusCode::UNAUTHORIZED)) => return Err(RelayError::Token),
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "failed to ask Discord for its gateway; retrying");
                }
            }
            clock.sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    async fn request(config: &RelayConfig, http: &Connection) -> Result<Self, RequestError> {
        let request = http
            .client()?
            .get(format!("{}/gateway/bot", config.api_base))
            .header("user-agent", config.user_agent)
            .header("authorization", format!("Bot {}", config.token.expose_secret()))
            .timeout(TIMEOUT);
        let response = request.send().await?;
        if response.status() != StatusCode::OK {
            return Err(RequestError::Status(response.status()));
        }
        let gateway: Self = response.json().await?;
        if is_websocket(&gateway.url) { Ok(gateway) } else { Err(RequestError::Address) }
    }

    /// Returns the queue of IDENTIFYs, which waits if none is left today.
    pub(crate) fn queue(&self) -> InMemoryQueue {
        let SessionStartLimit { total, remaining, reset_after, max_concurrency } = self.session_start_limit;
        if remaining == 0 {
            tracing::error!(reset_after, "Discord allows no more IDENTIFY today; waiting");
        }
        let reset_after = Duration::from_millis(reset_after);
        InMemoryQueue::new(max_concurrency.max(1), remaining, reset_after, total.max(remaining))
    }
}

/// Returns true if `url` is an address that a connection can be opened to.
pub(crate) fn is_websocket(url: &str) -> bool {
    reqwest::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "ws" | "wss") && url.has_host())
}
