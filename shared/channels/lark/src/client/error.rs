//! Errors of the client: [`SendError`].

use std::time::Duration;

use annals_channel::client::{Outage, Retry};
use annals_channel::delivery::DeliveryError;

use super::code::{self, Meaning};

/// Error of a call of the Open API.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The bot may not write to this chat: it is not in the group (230002), cannot reach the user (230013, 230029), was
    /// stopped by the user (230053), or the chat was dissolved (232009). It lasts until a person changes that.
    #[error("Lark does not let the bot write to this chat: {description} ({code})")]
    Blocked {
        /// Lark's code.
        code: i64,
        /// Lark's description.
        description: String,
    },
    /// A rate limit, and the wait is longer than the rest of the call's patience.
    #[error("Lark's rate limit is exceeded{}", told(*retry_after))]
    RateLimited {
        /// Counted from the time of the answer, if Lark gives it.
        retry_after: Option<Duration>,
    },
    /// Any other refusal: the same request would be refused again.
    #[error("Lark refused {method} with {code}: {description}{}", code::hint(*code))]
    Refused {
        /// The Open API method.
        method: &'static str,
        /// Lark's code, or the HTTP status if there is none.
        code: i64,
        /// Lark's description, without quotations of the message.
        description: String,
    },
    /// No connection, no answer in time, or an error on Lark's side. The message may have been delivered.
    #[error("Lark did not answer {method}")]
    Unavailable {
        /// The Open API method.
        method: &'static str,
        /// The cause.
        source: Outage,
    },
    /// A success whose body cannot be parsed. The message may have been delivered.
    #[error("Lark's answer to {method} cannot be parsed")]
    Unreadable {
        /// The Open API method.
        method: &'static str,
        /// The error of the parser, without data from the answer.
        source: serde_json::Error,
    },
}

impl SendError {
    /// Returns the error for an error on Lark's side with this code, or status of 500 or higher.
    pub(super) fn trouble(method: &'static str, code: i64) -> Self {
        Self::Unavailable { method, source: Outage::Trouble(format!("error on Lark's side ({code})")) }
    }

    /// Returns true if the same call would fail again until a person changes something.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Blocked { .. } => true,
            // The refused token was fetched just before, and Lark may not know it on all its servers yet.
            Self::Refused { .. } => !self.is_about_token(),
            Self::RateLimited { .. } | Self::Unavailable { .. } | Self::Unreadable { .. } => false,
        }
    }

    /// Returns true if another token may be accepted.
    pub(super) fn is_about_token(&self) -> bool {
        self.code().is_some_and(|code| code::meaning(code) == Meaning::Token)
    }

    /// Returns when the request may be made again. It cannot deliver a message twice, because of its `uuid`.
    pub(super) fn retry(&self) -> Retry {
        match self {
            Self::RateLimited { retry_after } => Retry::Limited(*retry_after),
            Self::Unavailable { .. } | Self::Unreadable { .. } => Retry::Soon,
            _ => Retry::Never,
        }
    }

    /// Returns the code of a refused request.
    pub(super) fn code(&self) -> Option<i64> {
        if let Self::Refused { code, .. } = self { Some(*code) } else { None }
    }
}

fn told(retry_after: Option<Duration>) -> String {
    retry_after.map(|wait| format!("; retry after {} s", wait.as_secs())).unwrap_or_default()
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
