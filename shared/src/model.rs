//! Language models: what is asked, what is answered, and which failures are worth another try.
//!
//! `echo` answers with what was said and needs nothing. The others are asked over HTTP, always with streaming:
//! `openai:<model>` speaks chat completions to any compatible endpoint, `anthropic:<model>` the Messages API,
//! `bedrock:<model>` Amazon Bedrock's `ConverseStream`, as the role that the process has.
//!
//! Two kinds of request leave here. [`Model::answer`] is one step of a turn: `SYSTEM_PROMPT`, the context, the tools.
//! [`Model::complete`] is housekeeping, a summary or a capture: instructions and a text, neither prompt nor tools.
//!
//! # Layout
//!
//! - `question.rs`, `answer.rs`: what goes in and comes out, the same for all
//! - `conversation.rs`: a question by turns, as the strictest provider wants it; [`exchange`]: what was called in earlier
//!   turns; `readable.rs`: a message as text
//! - `hosted.rs`: the way there and back, with its limits of time; `frames.rs`: a stream in pieces
//! - `openai.rs`, `anthropic.rs`, `bedrock.rs`: each provider's wire format; `signing.rs`: AWS signatures
//! - `failure.rs`: what a refusal means

mod answer;
mod anthropic;
mod bedrock;
mod conversation;
pub mod exchange;
mod failure;
mod frames;
mod hosted;
mod openai;
mod question;
mod readable;
mod signing;

use std::fmt;
use std::time::Duration;

use aws_config::SdkConfig;
use secrecy::SecretString;

use crate::clock::Clock;
use crate::metrics::Metrics;

pub use answer::{Answer, Delta, Finish, NO_SINK, Reasoning, Sink, Usage};
pub use hosted::Hosted;
pub use question::{Done, Image, ImageAt, Prompt, Question, Step, Tool, ToolCall};

/// A model that answers.
#[derive(Clone, Debug)]
pub enum Model {
    /// Answers with what was said.
    Echo,
    /// A model behind an API.
    Hosted(Box<Hosted>),
}

/// Which model, where, and with which key.
#[derive(Clone, Debug)]
pub struct ModelSettings {
    /// `MODEL`
    pub choice: ModelChoice,
    /// `MODEL_BASE_URL`
    pub base_url: Option<String>,
    /// `MODEL_API_KEY`
    pub api_key: Option<SecretString>,
    /// Whether the provider is told what of a request to keep, where it waits to be told.
    pub marks_cache: bool,
    /// `MODEL_VISION`: whether it can see images; `None` where that is to be found out.
    pub sees: Option<bool>,
    /// `MODEL_FALLBACK` and what belongs to it: who is asked where this one fails for good.
    pub fallback: Option<Box<ModelSettings>>,
}

/// The value of `MODEL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelChoice {
    /// `echo`
    Echo,
    /// `openai:<model>`
    OpenAi(String),
    /// `anthropic:<model>`
    Anthropic(String),
    /// `bedrock:<model>`: a model id, or the id or ARN of an inference profile.
    Bedrock(String),
}

impl fmt::Display for ModelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Echo => write!(f, "echo"),
            Self::OpenAi(name) => write!(f, "openai:{name}"),
            Self::Anthropic(name) => write!(f, "anthropic:{name}"),
            Self::Bedrock(name) => write!(f, "bedrock:{name}"),
        }
    }
}

impl ModelSettings {
    /// This model where its provider is, without a key.
    pub fn new(choice: ModelChoice) -> Self {
        let marks_cache = matches!(choice, ModelChoice::Anthropic(_));
        Self { choice, base_url: None, api_key: None, marks_cache, sees: None, fallback: None }
    }

    /// Whether it or its fallback may turn out to see images.
    pub fn may_see(&self) -> bool {
        let sees = self.choice != ModelChoice::Echo && self.sees != Some(false);
        sees || self.fallback.as_ref().is_some_and(|fallback| fallback.may_see())
    }

    /// Whether this or its fallback is asked as the role that the process has in AWS.
    pub fn needs_aws(&self) -> bool {
        let is_signed = matches!(self.choice, ModelChoice::Bedrock(_)) && self.api_key.is_none();
        is_signed || self.fallback.as_ref().is_some_and(|fallback| fallback.needs_aws())
    }
}

/// A model gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The endpoint could not be reached, or broke off.
    #[error("the model's endpoint gave no answer ({0}); check MODEL_BASE_URL")]
    Unreachable(&'static str),
    /// The endpoint is busy or failing: 408, 409, 424, 425, 429 and 5xx, Anthropic's 529 among them.
    #[error("the model's endpoint answered {status}")]
    Busy {
        /// The HTTP status.
        status: u16,
        /// How long to wait, where it says so.
        retry_after: Option<Duration>,
    },
    /// The request is more than the model takes. The same request fails again; a shorter one may not.
    #[error("the request is longer than the model takes; check CONTEXT_WINDOW")]
    ContextTooLong,
    /// The model takes no images, or not these. The same question without them is another.
    #[error("the model takes no images, or not these; check MODEL_VISION")]
    ImagesRefused,
    /// The endpoint refuses this request: other 4xx.
    #[error(
        "the model's endpoint refused the request with {status}; check MODEL, MODEL_BASE_URL and MODEL_API_KEY, \
         or what the role may do in Bedrock"
    )]
    Refused {
        /// The HTTP status.
        status: u16,
    },
    /// The endpoint's answer is not what its protocol says.
    #[error("the model's endpoint gave an answer that is none of its protocol")]
    Unreadable,
    /// A model of Bedrock, and no region or no credentials.
    #[error("bedrock needs AWS credentials and a region: set AWS_REGION and sign in, or set MODEL_API_KEY")]
    NoAws,
    /// No TLS client could be set up: the system has no usable certificates.
    #[error("no TLS client could be set up for the model's endpoint")]
    NoClient,
    /// The answer holds neither text nor calls.
    #[error("the model's answer was empty")]
    Empty,
}

impl Model {
    /// The model that `settings` choose. `aws` is what a model of Bedrock is signed for with; see
    /// [`ModelSettings::needs_aws`].
    pub fn new(settings: &ModelSettings, clock: &Clock, aws: Option<&SdkConfig>) -> Result<Self, ModelError> {
        match &settings.choice {
            ModelChoice::Echo => Ok(Self::Echo),
            _ => Ok(Self::Hosted(Box::new(Hosted::new(settings, clock, aws)?))),
        }
    }

    /// The same model, which counts its requests in `metrics`; so does its fallback.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Metrics) -> Self {
        if let Self::Hosted(hosted) = &mut self {
            hosted.count_in(metrics);
        }
        self
    }

    /// Whether this only says again what was said, and so can neither summarise nor judge.
    pub fn is_echo(&self) -> bool {
        matches!(self, Self::Echo)
    }

    /// Whether it can see images, as far as is known. What it is shown all the same, it refuses.
    pub fn sees(&self) -> bool {
        match self {
            Self::Echo => false,
            Self::Hosted(hosted) => hosted.sees(),
        }
    }

    /// Who is asked where this one fails for good.
    pub fn fallback(&self) -> Option<&Self> {
        match self {
            Self::Echo => None,
            Self::Hosted(hosted) => hosted.fallback(),
        }
    }

    /// `openai:<model>` and the like; none for `echo`, which is no model.
    pub fn name(&self) -> Option<String> {
        match self {
            Self::Echo => None,
            Self::Hosted(hosted) => Some(hosted.name()),
        }
    }

    /// Asks this model once. What comes of the answer goes to `sink` while it comes; where that ends in an error, the
    /// sink is told that it is void.
    pub async fn answer(&self, question: Question<'_>, sink: Sink<'_>) -> Result<Answer, ModelError> {
        match self {
            Self::Echo => Ok(echo(question.said(), sink)),
            Self::Hosted(hosted) => hosted.answer(&question, sink).await,
        }
    }

    /// Asks once for something beside the conversation, and where that fails, the fallback. The answer holds text.
    /// `echo` gives the text back; whoever wants better of it asks [`Model::is_echo`] first.
    pub async fn complete(&self, prompt: &Prompt) -> Result<Answer, ModelError> {
        let answered = match self {
            Self::Echo => Ok(echo(prompt.text.clone(), NO_SINK)),
            Self::Hosted(hosted) => hosted.complete(prompt).await,
        };
        match (answered, self.fallback()) {
            (Err(error), Some(fallback)) if error != ModelError::ContextTooLong => {
                tracing::warn!(%error, "the model fails; asking the fallback");
                Box::pin(fallback.complete(prompt)).await
            }
            (answered, _) => answered,
        }
    }
}

impl ModelError {
    /// Whether another question, shorter or without images, is to be asked, and not another model.
    pub fn asks_for_another_question(&self) -> bool {
        matches!(self, Self::ContextTooLong | Self::ImagesRefused)
    }

    /// How long the provider asks to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

impl Question<'_> {
    /// What is unanswered, a line each.
    fn said(&self) -> String {
        let unanswered = &self.messages[self.first_unanswered()..];
        let said: Vec<String> = unanswered.iter().map(readable::text).collect();
        said.join("\n")
    }
}

fn echo(text: String, sink: Sink<'_>) -> Answer {
    text.split_inclusive(char::is_whitespace).for_each(|word| sink(Delta::Text(word)));
    Answer { text, calls: Vec::new(), reasoning: None, finish: Finish::Stop, usage: None }
}
