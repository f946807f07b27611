//! Language models: questions, answers, providers and their errors.
//!
//! `echo` repeats the unanswered messages and needs nothing. The others are asked over HTTP, with streaming if they can:
//! `choice.rs` has the list of their providers.
//!
//! There are two kinds of request. [`Model::answer`] is one step of a turn: `SYSTEM_PROMPT`, the context, the tools.
//! [`Model::complete`] is housekeeping, a summary or a capture: instructions and a text, neither prompt nor tools.
//!
//! # Layout
//!
//! - `question.rs`, `answer.rs`: questions and answers, the same for all providers; `choice.rs`: the value of `MODEL`,
//!   its settings, and the list of providers; `models.rs`: the models of a program, by name
//! - `conversation.rs`: a question as turns of user and assistant, as the strictest provider wants it; [`exchange`]: the
//!   calls of earlier turns; [`readable`]: a message as text
//! - `hosted.rs`: requests and responses with their time limits; `frames.rs`: a stream in pieces
//! - `provider.rs`: the interface of a provider, whose API is in a file of its name; `signing.rs`: AWS signatures
//! - `error.rs`: errors; `failure.rs`: the responses that mean them

#![allow(missing_docs, reason = "an item is documented where its name does not say it")]

mod answer;
mod anthropic;
mod bedrock;
mod choice;
mod conversation;
mod error;
pub mod exchange;
mod failure;
mod frames;
mod hosted;
mod models;
mod openai;
pub mod prices;
mod provider;
mod question;
pub mod readable;
pub mod settings;
mod signing;

use annals_core::prompt::Prompt;
use annals_io::clock::Clock;
use annals_io::metrics::Metrics;
use annals_io::recorder::Recorder;
use aws_config::SdkConfig;

pub use answer::{Answer, Delta, Finish, NO_SINK, Reasoning, Sink, Usage};
pub use choice::{ChoiceError, HostedModel, ModelChoice, ModelSettings};
pub use error::ModelError;
pub use hosted::{Hosted, read_by_each};
pub use models::Models;
pub use question::{Done, ImageAt, Question, Step, Tool};

#[derive(Clone, Debug)]
pub enum Model {
    /// Repeats the unanswered messages.
    Echo,
    /// A model behind an API.
    Hosted {
        model: Box<Hosted>,
        /// The model that is asked if this one fails for good.
        fallback: Option<Box<Model>>,
    },
}

impl Model {
    /// Returns the model of `settings`. `aws` signs requests to Bedrock; see [`ModelSettings::needs_aws`].
    /// Fails with [`ModelError::NoAws`] if `aws` has no region or no credentials, and they are needed.
    pub fn new(settings: &ModelSettings, clock: &Clock, aws: Option<&SdkConfig>) -> Result<Self, ModelError> {
        match &settings.choice {
            ModelChoice::Echo => Ok(Self::Echo),
            ModelChoice::Hosted(model) => {
                let fallback = settings.fallback.as_deref();
                let fallback = fallback.map(|fallback| Self::new(fallback, clock, aws)).transpose()?;
                let model = Box::new(Hosted::new(model, settings, clock, aws)?);
                Ok(Self::Hosted { model, fallback: fallback.map(Box::new) })
            }
        }
    }

    /// Returns the same model, which counts its requests in `metrics`; so does its fallback.
    #[must_use]
    pub fn with_metrics(self, metrics: Metrics) -> Self {
        self.with(&move |model| model.metrics = metrics.clone())
    }

    /// Returns the same model for one run: it counts each request in `recorder`, which may refuse it, and records it there. So
    /// does its fallback.
    #[must_use]
    pub fn with_recorder(self, recorder: &Recorder) -> Self {
        self.with(&|model| model.recorder = recorder.clone())
    }

    fn with(mut self, change: &dyn Fn(&mut Hosted)) -> Self {
        if let Self::Hosted { model, fallback } = &mut self {
            change(model);
            *fallback = fallback.take().map(|fallback| Box::new(fallback.with(change)));
        }
        self
    }

    /// Returns true for `echo`, which can neither summarise nor judge.
    pub fn is_echo(&self) -> bool {
        matches!(self, Self::Echo)
    }

    /// Returns true if the model accepts images, as far as is known. It may still refuse them.
    pub fn sees(&self) -> bool {
        match self {
            Self::Echo => false,
            Self::Hosted { model, .. } => model.sees(),
        }
    }

    /// Returns the model that is asked if this one fails for good.
    pub fn fallback(&self) -> Option<&Self> {
        match self {
            Self::Echo => None,
            Self::Hosted { fallback, .. } => fallback.as_deref(),
        }
    }

    /// Returns the name as in `MODEL`, such as `openai:<model>`; `None` for `echo`.
    pub fn name(&self) -> Option<String> {
        match self {
            Self::Echo => None,
            Self::Hosted { model, .. } => Some(model.name()),
        }
    }

    /// Asks this model once. The answer goes to `sink` piece by piece while it comes; if the request fails, the sink gets
    /// [`Delta::Void`].
    pub async fn answer(&self, question: Question<'_>, sink: Sink<'_>) -> Result<Answer, ModelError> {
        match self {
            Self::Echo => Ok(echo(question.said(), sink)),
            Self::Hosted { model, .. } => model.answer(&question, sink).await,
        }
    }

    /// Asks once for text outside a conversation, and if that fails, the fallback. The answer has text, and none that a
    /// filter cut off. `echo` returns the prompt's text; a caller that needs more checks [`Model::is_echo`] first.
    pub async fn complete(&self, prompt: &Prompt) -> Result<Answer, ModelError> {
        let answered = match self {
            Self::Echo => Ok(echo(prompt.text.clone(), NO_SINK)),
            Self::Hosted { model, .. } => model.complete(prompt).await,
        };
        match (answered, self.fallback()) {
            (Err(error), Some(fallback)) if error.may_ask_fallback() => {
                error.log_fallback();
                Box::pin(fallback.complete(prompt)).await
            }
            (answered, _) => answered,
        }
    }
}

impl Question<'_> {
    /// Returns the words of the unanswered messages, a line each.
    fn said(&self) -> String {
        let unanswered = &self.messages[self.first_unanswered()..];
        let said: Vec<String> = unanswered.iter().map(readable::words).collect();
        said.join("\n")
    }
}

fn echo(text: String, sink: Sink<'_>) -> Answer {
    text.split_inclusive(char::is_whitespace).for_each(|word| sink(Delta::Text(word)));
    Answer { text, calls: Vec::new(), reasoning: None, finish: Finish::Stop, usage: None }
}
