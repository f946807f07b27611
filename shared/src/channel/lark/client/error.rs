//! What can go wrong: [`ClientError`], [`SendError`].

use std::time::Duration;

use super::code::{self, Meaning};

/// Why a client cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address of the API is none.
    #[error("LARK_API_BASE is not an http or https address")]
    ApiBase,
    /// There is no app id.
    #[error("LARK_APP_ID is empty")]
    AppId,
    /// There is no secret.
    #[error("LARK_APP_SECRET is empty")]
    AppSecret,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// Nothing is taken for this chat: the bot is not in the group (230002), cannot reach the user (230013, 230029),
    /// was stopped by the user (230053), or the chat was dissolved (232009). It stays so until a person undoes it.
    #[error("Lark does not let the bot write to this chat: {description} ({code})")]
    Blocked {
        /// Lark's code.
        code: i64,
        /// Lark's words.
        description: String,
    },
    /// Slow down, for longer than what is left of the patience.
    #[error("Lark asks to slow down{}", told(*retry_after))]
    RateLimited {
        /// From the time of the answer, where it says so.
        retry_after: Option<Duration>,
    },
    /// Any other refusal: the same request would be refused again.
    #[error("Lark refused {method} with {code}: {description}{}", code::hint(*code))]
    Refused {
        /// The Open API's method.
        method: &'static str,
        /// Lark's code, or the HTTP status where there is none.
        code: i64,
        /// Lark's words, without what they may quote of the message.
        description: String,
    },
    /// No connection, no answer in time, or trouble on Lark's side. A send may have been delivered.
    #[error("Lark did not answer {method}")]
    Unavailable {
        /// The Open API's method.
        method: &'static str,
        /// What happened.
        source: Outage,
    },
    /// An answer of success that says nothing. A send may have been delivered.
    #[error("Lark's answer to {method} cannot be read")]
    Unreadable {
        /// The Open API's method.
        method: &'static str,
        /// What is wrong with the answer.
        source: serde_json::Error,
    },
}

/// What kept Lark from answering.
#[derive(Debug, thiserror::Error)]
pub enum Outage {
    /// Lark's code, or a status from 500.
    #[error("trouble on its side ({0})")]
    Trouble(i64),
    /// No connection: nothing was sent.
    #[error("no connection")]
    Connection(#[source] reqwest::Error),
    /// The answer did not come, or broke off: what was sent may have been taken.
    #[error("no complete answer")]
    Response(#[source] reqwest::Error),
}

impl SendError {
    /// Whether the same call would fail again, until a person changes something.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Blocked { .. } => true,
            // One fetched anew is not taken either: Lark may not know it everywhere yet.
            Self::Refused { .. } => !self.is_about_token(),
            Self::RateLimited { .. } | Self::Unavailable { .. } | Self::Unreadable { .. } => false,
        }
    }

    /// Whether another token may be taken.
    pub(super) fn is_about_token(&self) -> bool {
        self.code().is_some_and(|code| code::meaning(code) == Meaning::Token)
    }

    /// Whether trying again at once may help. It cannot deliver twice: a send has its `uuid`.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Unreadable { .. })
    }

    /// The code of a refusal of this request.
    pub(super) fn code(&self) -> Option<i64> {
        if let Self::Refused { code, .. } = self { Some(*code) } else { None }
    }
}

fn told(retry_after: Option<Duration>) -> String {
    retry_after.map(|wait| format!(" for {} s", wait.as_secs())).unwrap_or_default()
}
