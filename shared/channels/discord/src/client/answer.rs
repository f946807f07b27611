//! Interprets answers of the REST API, or of a proxy in front of it.

use std::time::Duration;

use annals_channel::client::{Outage, without_data};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::SendError;

/// Wait for a rate limit that does not say how long.
const DEFAULT_WAIT: Duration = Duration::from_secs(1);
/// Maximum length of a description. Discord's are one line; a longer one is the error page of a proxy.
const MAX_DESCRIPTION_CHARS: usize = 200;

/// Codes of an interaction that cannot be answered any more: unknown webhook, unknown interaction, invalid webhook token; and
/// of a follow-up that is one too many.
///
/// Source: <https://discord.com/developers/docs/topics/opcodes-and-status-codes#json>.
const ENDED: [i64; 4] = [10_015, 10_062, 50_027, 40_094];
/// Code of an answer that somebody deleted.
const UNKNOWN_MESSAGE: i64 = 10_008;

/// An HTTP answer before its body is parsed.
pub(super) struct Answer<'a> {
    /// The request's name.
    pub(super) method: &'static str,
    /// The HTTP status.
    pub(super) status: u16,
    /// The `Retry-After` header, in seconds.
    pub(super) retry_after: Option<f64>,
    /// The body; JSON if it comes from Discord.
    pub(super) body: &'a [u8],
    /// False if the request had the token of an interaction.
    pub(super) is_of_bot: bool,
}

/// `{"code": 50001, "message": "Missing Access", "retry_after": 0.725}`
#[derive(Default, Deserialize)]
struct Failure {
    #[serde(default)]
    code: i64,
    #[serde(default)]
    message: String,
    retry_after: Option<f64>,
}

impl Answer<'_> {
    /// Returns the answer, or the error that it means.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, SendError> {
        let method = self.method;
        if self.status < 300 {
            let body = if self.body.is_empty() { b"null" } else { self.body };
            return serde_json::from_slice(body)
                .map_err(|source| SendError::Unreadable { method, source: without_data(source) });
        }
        let Failure { code, message, retry_after } = serde_json::from_slice(self.body).unwrap_or_default();
        let description: String = message.chars().take(MAX_DESCRIPTION_CHARS).collect();
        let description = if description.is_empty() { "no description".to_owned() } else { description };
        Err(match self.status {
            429 => {
                let wait = retry_after.or(self.retry_after).filter(|wait| (0.0..1e6).contains(wait));
                SendError::RateLimited { retry_after: wait.map_or(DEFAULT_WAIT, Duration::from_secs_f64) }
            }
            500.. => SendError::Unavailable {
                method,
                source: Outage::Trouble(format!("HTTP status {}", self.status)),
            },
            404 if !self.is_of_bot && code == UNKNOWN_MESSAGE => SendError::Deleted,
            _ if !self.is_of_bot && (ENDED.contains(&code) || matches!(self.status, 401 | 404)) => {
                SendError::Ended
            }
            403 => SendError::Blocked { code, description },
            status => SendError::Refused { method, status, code, description },
        })
    }
}
