//! Errors of the client: [`SendError`].

use std::time::Duration;

use annals_channel::client::{Outage, Retry};
use annals_channel::delivery::DeliveryError;
use annals_channel::file::FileError;

/// Error of a call of the REST API.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The interaction cannot be answered any more: its fifteen minutes are over, or it has no follow-ups left.
    #[error("Discord takes no more answers to this interaction")]
    Ended,
    /// The first answer to the interaction was deleted.
    #[error("the answer to this interaction was deleted")]
    Deleted,
    /// The call needs the bot's token.
    #[error(
        "DISCORD_BOT_TOKEN is not set, which is needed after the 15 minutes of a command, and for messages"
    )]
    NoBot,
    /// 403: the bot is not in the channel, may not write there, or the person accepts no messages from it. It lasts until
    /// somebody changes that.
    #[error("Discord does not let the bot do this in the channel: {description} ({code})")]
    Blocked {
        /// Discord's code.
        code: i64,
        /// Discord's description.
        description: String,
    },
    /// 429, and the wait is longer than the rest of the call's patience.
    #[error("Discord's rate limit is exceeded; retry after {} s", retry_after.as_secs_f64().ceil())]
    RateLimited {
        /// Counted from the time of the answer.
        retry_after: Duration,
    },
    /// Any other 4xx: the same request would be refused again.
    #[error("Discord refused {method} with {status}: {description} ({code}){}", token_hint(*status))]
    Refused {
        /// The name of the request.
        method: &'static str,
        /// The HTTP status.
        status: u16,
        /// Discord's code.
        code: i64,
        /// Discord's description.
        description: String,
    },
    /// No connection, no answer in time, or a 5xx. Unless the connection failed or the status is 5xx, the message may have
    /// been delivered.
    #[error("Discord did not answer {method}")]
    Unavailable {
        /// The name of the request.
        method: &'static str,
        /// The cause.
        source: Outage,
    },
    /// A success whose body cannot be parsed. The message may have been delivered.
    #[error("Discord's answer to {method} cannot be parsed")]
    Unreadable {
        /// The name of the request.
        method: &'static str,
        /// The error of the parser, without data from the answer.
        source: serde_json::Error,
    },
}

impl SendError {
    /// Returns true if the same call would fail again until a person changes something.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Ended | Self::Deleted | Self::NoBot | Self::Blocked { .. } | Self::Refused { .. } => true,
            Self::RateLimited { .. } | Self::Unavailable { .. } | Self::Unreadable { .. } => false,
        }
    }

    /// Returns when the request may be made again: unless it `is_repeatable`, only if it was not carried out.
    pub(super) fn retry(&self, is_repeatable: bool) -> Retry {
        match self {
            Self::RateLimited { retry_after } => Retry::Limited(Some(*retry_after)),
            Self::Unavailable { source: Outage::Trouble(_) | Outage::Connection(_), .. } => Retry::Soon,
            Self::Unavailable { .. } if is_repeatable => Retry::Soon,
            _ => Retry::Never,
        }
    }
}

fn token_hint(status: u16) -> &'static str {
    if status == 401 { "; check DISCORD_BOT_TOKEN" } else { "" }
}

impl From<SendError> for DeliveryError {
    fn from(error: SendError) -> Self {
        let reason = error.to_string();
        match error {
            SendError::Blocked { .. } => Self::Blocked { reason },
            other if other.is_permanent() => Self::Refused { reason },
            _ => Self::Unavailable { reason },
        }
    }
}

impl From<SendError> for FileError {
    fn from(error: SendError) -> Self {
        match error {
            // Somebody can correct these.
            SendError::NoBot | SendError::Blocked { .. } | SendError::Refused { status: 401, .. } => {
                Self::Unavailable(error.to_string())
            }
            error if error.is_permanent() => Self::Gone(error.to_string()),
            error => Self::Unavailable(error.to_string()),
        }
    }
}
