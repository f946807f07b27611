//! Interprets answers of the Bot API, or of a proxy in front of it.

use std::time::Duration;

use annals_channel::client::{Outage, without_data};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::SendError;

/// Wait for a 429 that does not say how long, such as one from a proxy.
const DEFAULT_WAIT_SECS: u64 = 5;
/// Maximum length of a description. Telegram's are one line; a longer one is the error page of a proxy.
const MAX_DESCRIPTION_CHARS: usize = 200;

/// An HTTP answer before its body is parsed.
pub(super) struct Answer<'a> {
    /// The Bot API method that was called.
    pub(super) method: &'static str,
    /// The HTTP status.
    pub(super) status: u16,
    /// The `Retry-After` header, in seconds.
    pub(super) retry_after: Option<u64>,
    /// The body; JSON if it comes from Telegram.
    pub(super) body: &'a [u8],
}

/// `{"ok": false, "error_code": 400, "description": "…", "parameters": {…}}`
#[derive(Default, Deserialize)]
struct Failure {
    error_code: Option<u16>,
    description: Option<String>,
    parameters: Option<Parameters>,
}

#[derive(Default, Deserialize)]
struct Parameters {
    migrate_to_chat_id: Option<i64>,
    retry_after: Option<u64>,
}

/// `{"ok": true, "result": …}`
#[derive(Deserialize)]
struct Success<T> {
    result: T,
}

impl Answer<'_> {
    /// Returns the `result`, or the error that this answer means. Replaces `token` in descriptions, since a proxy may
    /// echo the URL.
    pub(super) fn read<T: DeserializeOwned>(&self, token: &str) -> Result<T, SendError> {
        let method = self.method;
        let failure: Option<Failure> = serde_json::from_slice(self.body).ok();
        let error_code = failure.as_ref().and_then(|failure| failure.error_code);
        let status = if self.status < 300 { error_code.unwrap_or(self.status) } else { self.status };
        if status < 300 {
            return serde_json::from_slice(self.body)
                .map(|success: Success<T>| success.result)
                .map_err(|source| SendError::Unreadable { method, source: without_data(source) });
        }
        let Failure { description, parameters, .. } = failure.unwrap_or_default();
        let Parameters { migrate_to_chat_id, retry_after } = parameters.unwrap_or_default();
        let description = description.map_or_else(
            || "no description".to_owned(),
            |description| description.replace(token, "<token>").chars().take(MAX_DESCRIPTION_CHARS).collect(),
        );
        Err(match (status, migrate_to_chat_id) {
            (400, Some(to)) => SendError::Migrated { to },
            (403, _) => SendError::Blocked { description },
            (429, _) => {
                let secs = retry_after.or(self.retry_after).unwrap_or(DEFAULT_WAIT_SECS);
                SendError::RateLimited { retry_after: Duration::from_secs(secs.max(1)) }
            }
            (500.., _) => {
                SendError::Unavailable { method, source: Outage::Trouble(format!("HTTP status {status}")) }
            }
            _ => SendError::Refused { method, status, description },
        })
    }
}
