//! Errors of the client: [`SendError`].

use std::time::Duration;

use annals_channel::client::{Outage, Retry};
use annals_channel::delivery::DeliveryError;
use annals_core::chat_key::ChatKey;

/// Error of a call of the Bot API.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// 403: the bot was blocked, was removed, or may not write in the chat. It lasts until a user changes that.
    #[error("Telegram does not let the bot write to this chat: {description}")]
    Blocked {
        /// Telegram's description.
        description: String,
    },
    /// The group has become a supergroup with another chat id. Send there instead.
    #[error("the group has become chat {to}")]
    Migrated {
        /// The new chat id.
        to: i64,
    },
    /// 429, and the wait is longer than the rest of the call's patience.
    #[error("Telegram's rate limit is exceeded; retry after {} s", retry_after.as_secs())]
    RateLimited {
        /// Counted from the time of the answer.
        retry_after: Duration,
    },
    /// Any other 4xx: the same request would be refused again.
    #[error("Telegram refused {method} with {status}: {description}{}", token_hint(*status))]
    Refused {
        /// The Bot API method.
        method: &'static str,
        /// The HTTP status, or Telegram's `error_code`.
        status: u16,
        /// Telegram's description.
        description: String,
    },
    /// No connection, no answer in time, or a 5xx. Unless the connection failed or the status is 5xx, the message may
    /// have been delivered.
    #[error("Telegram did not answer {method}")]
    Unavailable {
        /// The Bot API method.
        method: &'static str,
        /// The cause.
        source: Outage,
    },
    /// A success whose body cannot be parsed. The message may have been delivered.
    #[error("Telegram's answer to {method} cannot be parsed")]
    Unreadable {
        /// The Bot API method.
        method: &'static str,
        /// The error of the parser, without data from the answer.
        source: serde_json::Error,
    },
}

impl SendError {
    /// Returns true if the same call would fail again until a person changes something.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Blocked { .. } | Self::Migrated { .. } | Self::Refused { .. } => true,
            Self::RateLimited { .. } | Self::Unavailable { .. } | Self::Unreadable { .. } => false,
        }
    }

    /// Returns when the request may be made again. What may have been delivered is not.
    pub(super) fn retry(&self) -> Retry {
        match self {
            Self::RateLimited { retry_after } => Retry::Limited(Some(*retry_after)),
            Self::Unavailable { source: Outage::Trouble(_) | Outage::Connection(_), .. } => Retry::Soon,
            _ => Retry::Never,
        }
    }
}

fn token_hint(status: u16) -> &'static str {
    if matches!(status, 401 | 404) { " (check TELEGRAM_BOT_TOKEN)" } else { "" }
}

impl From<SendError> for DeliveryError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Blocked { description } => Self::Blocked { reason: description },
            SendError::Migrated { to } => {
                Self::Moved { chat: ChatKey::telegram(to, None), chat_id: to.to_string() }
            }
            other if other.is_permanent() => Self::Refused { reason: other.to_string() },
            other => Self::Unavailable { reason: other.to_string() },
        }
    }
}
