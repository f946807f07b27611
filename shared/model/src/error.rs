//! The errors of a model: [`ModelError`].

use std::time::Duration;

/// A model gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The request or its response did not get through.
    #[error("failed to ask the model's endpoint ({0}); check its base URL and key")]
    Unreachable(&'static str),
    /// The answer did not come in time, broke off, or cannot be used. Traces have one name for this and [`Self::Unreachable`].
    #[error("the model gave no complete answer ({0})")]
    Incomplete(&'static str),
    /// The endpoint is busy or failing: 408, 409, 424, 425, 429 and 5xx, Anthropic's 529 among them.
    #[error("the model's endpoint answered {status}")]
    Busy {
        status: u16,
        /// The pause that it asks for, if any.
        retry_after: Option<Duration>,
    },
    /// The request is longer than the model accepts. The same request fails again; a shorter one may not.
    #[error("the request is longer than the model takes; check CONTEXT_WINDOW")]
    ContextTooLong,
    /// The model accepts no images, or not these. The question can be asked without them.
    #[error("the model takes no images, or not these; check MODEL_VISION")]
    ImagesRefused,
    /// The endpoint refuses this request: other 4xx.
    #[error("{}", refused(*status, "MODEL"))]
    Refused { status: u16 },
    #[error("failed to read the answer of the model's endpoint; check its base URL")]
    Unreadable,
    #[error("bedrock needs AWS credentials and a region: set AWS_REGION and sign in, or set MODEL_API_KEY")]
    NoAws,
    /// No TLS client could be set up: the system has no usable certificates.
    #[error("no TLS client could be set up for the model's endpoint: install CA certificates")]
    NoClient,
    #[error("the model's answer was empty")]
    Empty,
    /// The answer reached its limit before its first word. The same question would end like that again.
    #[error("the model's answer reached its limit before its first word: its thoughts took all of it")]
    Exhausted,
    /// The provider's content filter refused the question, or left nothing of the answer. The same question is refused again.
    #[error("the content filter of the model's provider refused the question or its answer")]
    Filtered,
    /// The turn has made as many requests as it may; nothing was sent.
    #[error("the turn has made its maximum number of requests to the model")]
    RequestsSpent,
}

impl ModelError {
    /// Returns true if no other try with these settings can succeed: 401, 403 and 404, what a filter refuses, and an answer
    /// that has no tokens left for words.
    pub fn cannot_succeed(&self) -> bool {
        self.lasts() || matches!(self, Self::Filtered | Self::Exhausted)
    }

    /// Returns true if all questions are refused until a setting is repaired: 401, 403 and 404.
    fn lasts(&self) -> bool {
        matches!(self, Self::Refused { status: 401 | 403 | 404 })
    }

    /// Logs that the fallback is asked after this error. Nobody is told by a notice if it answers.
    pub fn log_fallback(&self) {
        if self.lasts() {
            tracing::error!(error = %self, "the model refuses its requests; asking the fallback");
        } else {
            tracing::warn!(error = %self, "failed to ask the model; asking the fallback");
        }
    }

    /// Returns a short name for traces, with the status if there is one.
    pub fn kind(&self) -> String {
        match self {
            Self::Unreachable(_) | Self::Incomplete(_) => "unreachable".into(),
            Self::Busy { status, .. } => format!("busy {status}"),
            Self::ContextTooLong => "context too long".into(),
            Self::ImagesRefused => "images refused".into(),
            Self::Refused { status } => format!("refused {status}"),
            Self::Unreadable => "unreadable".into(),
            Self::NoAws | Self::NoClient => "not set up".into(),
            Self::Empty => "empty".into(),
            Self::Exhausted => "exhausted".into(),
            Self::Filtered => "filtered".into(),
            Self::RequestsSpent => "requests spent".into(),
        }
    }

    /// Returns true if the same or another model may be asked now: the question fits a model, and the turn may ask.
    pub(super) fn may_ask_fallback(&self) -> bool {
        !matches!(self, Self::ContextTooLong | Self::RequestsSpent)
    }

    /// Returns the cause for those who run the program: a status and names of settings, of a refusal by the fallback its
    /// own. Nothing in it is from the provider or from a message.
    pub fn cause(&self, is_fallback: bool) -> String {
        match self {
            Self::Refused { status } if is_fallback => refused(*status, "MODEL_FALLBACK"),
            error => error.to_string(),
        }
    }

    /// Returns the pause that the provider asks for.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// Returns the text for a refusal; `model` is the setting that names the model.
fn refused(status: u16, model: &str) -> String {
    let check = match status {
        401 => format!("check {model}_API_KEY"),
        403 => format!("check what {model}_API_KEY may use, or the role and model subscription in Bedrock"),
        404 => format!("check {model} and {model}_BASE_URL"),
        _ => format!("check {model}, {model}_BASE_URL and {model}_API_KEY"),
    };
    format!("the model's endpoint refused the request with {status}: {check}")
}
