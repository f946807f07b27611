//! Language models: what is asked, what is answered, and which failures are worth another try.
//!
//! `echo` answers with what was said and needs nothing. `openai:<model>` speaks chat completions to any compatible
//! endpoint, through the `genai` crate, which speaks other providers' protocols too.
//!
//! Two kinds of request leave here. [`Model::answer`] is one step of a turn: `SYSTEM_PROMPT`, the context, the tools.
//! [`Model::complete`] is housekeeping, a summary or a capture: instructions and a text, neither prompt nor tools.

pub mod exchange;
mod failure;
mod hosted;
mod readable;

use std::time::Duration;

use secrecy::SecretString;
use serde_json::Value;

use crate::message::UiMessage;
use crate::tokens;

/// Tokens that the instructions of a request beside the conversation take, and some room.
const INSTRUCTION_TOKENS: u32 = 600;

pub use hosted::Hosted;

/// What a summary starts with where a model is sent one, so that it is not taken for something said.
pub const SUMMARY_HEADING: &str = "Summary of the conversation so far:";

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
}

/// The value of `MODEL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelChoice {
    /// `echo`
    Echo,
    /// `openai:<model>`
    OpenAi(String),
}

/// A question: instructions and a context, the unanswered last, and what tools have brought to light since.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// `SYSTEM_PROMPT`, verbatim, and what stands with it.
    pub system: Option<&'a str>,
    /// What the model sees.
    pub messages: &'a [UiMessage],
    /// How many of them, at the end, are unanswered.
    pub unanswered: usize,
    /// Whether several people speak, so that the model must be told who.
    pub group: bool,
    /// What the model may call; where there is nothing, no tools are mentioned.
    pub tools: &'a [Tool],
    /// What it has called in this turn so far, in order.
    pub steps: &'a [Step],
}

/// Something that a model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Letters, digits, `_` and `-`, at most 64: what every provider takes.
    pub name: String,
    /// When and how to use it, for the model.
    pub description: String,
    /// The JSON Schema of its input, an object's.
    pub input_schema: Value,
}

/// A model's wish to have a tool called.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// Joins it to its result; the provider's.
    pub id: String,
    /// The tool; not checked, a model may name one that there is not.
    pub name: String,
    /// The arguments; not checked against the schema.
    pub input: Value,
}

/// One answer of a turn that held calls, with their results: a call is never sent without one.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// [`Answer::text`]
    pub text: String,
    /// [`Answer::reasoning`]
    pub reasoning: Option<String>,
    /// All of [`Answer::calls`], in order.
    pub done: Vec<Done>,
}

/// A call with its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// What was called.
    pub call: ToolCall,
    /// What came of it, also where it failed; a string is sent as it is, anything else as JSON.
    pub output: Value,
}

/// A request beside the conversation: for a summary, or for what is worth remembering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// What is to be done, as the system part. Never `SYSTEM_PROMPT`.
    pub instructions: String,
    /// What it is to be done with, as the user's one message.
    pub text: String,
    /// How long the answer may get. A model that reasons may use it up in thought and then says nothing.
    pub max_tokens: u32,
}

impl Prompt {
    /// How many tokens of messages one may hold beside its instructions, where a conversation may take `budget`.
    pub fn source_budget(budget: u32) -> u32 {
        budget.saturating_sub(INSTRUCTION_TOKENS).max(budget / 2)
    }
}

/// What a model said.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The text; empty only where there are calls.
    pub text: String,
    /// What it wants called before it goes on.
    pub calls: Vec<ToolCall>,
    /// What it thought, where the provider shows it. Some (Kimi, DeepSeek) want it back with the calls' results.
    pub reasoning: Option<String>,
    /// Why it stopped.
    pub finish: Finish,
    /// What it took, where the provider says so.
    pub usage: Option<Usage>,
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// It had said everything.
    Stop,
    /// It reached the limit of the request or of its window: the text is cut off.
    Length,
    /// Something was held back, the rest or all of it.
    ContentFilter,
    /// It wants tools called.
    ToolCalls,
    /// Anything else, and where the provider does not say.
    Other,
}

/// Tokens, as the provider counts them and as we did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: u32,
    /// Tokens written.
    pub output_tokens: u32,
    /// What we took the tokens read to be, uncorrected; for [`tokens::correction`].
    pub estimated_input_tokens: u32,
}

/// A model gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The endpoint could not be reached, or broke off.
    #[error("the model's endpoint could not be reached ({0}); check MODEL_BASE_URL")]
    Unreachable(&'static str),
    /// The endpoint is busy or failing: 408, 409, 429 and 5xx.
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
    /// The endpoint refuses this request: other 4xx.
    #[error(
        "the model's endpoint refused the request with {status}; check MODEL, MODEL_BASE_URL and MODEL_API_KEY"
    )]
    Refused {
        /// The HTTP status.
        status: u16,
    },
    /// The endpoint's answer is not what its protocol says.
    #[error("the model's endpoint gave an answer that is no chat completion")]
    Unreadable,
    /// No TLS client could be set up: the system has no usable certificates.
    #[error("no TLS client could be set up for the model's endpoint")]
    NoClient,
    /// The answer holds neither text nor calls.
    #[error("the model's answer was empty")]
    Empty,
}

impl Model {
    /// The model that `settings` choose.
    pub fn new(settings: &ModelSettings) -> Result<Self, ModelError> {
        match &settings.choice {
            ModelChoice::Echo => Ok(Self::Echo),
            ModelChoice::OpenAi(name) => Ok(Self::Hosted(Box::new(Hosted::new(name, settings)?))),
        }
    }

    /// Whether this only says again what was said, and so can neither summarise nor judge.
    pub fn is_echo(&self) -> bool {
        matches!(self, Self::Echo)
    }

    /// Asks once.
    pub async fn answer(&self, question: Question<'_>) -> Result<Answer, ModelError> {
        match self {
            Self::Echo => Ok(echo(question.said())),
            Self::Hosted(hosted) => hosted.answer(question).await,
        }
    }

    /// Asks once for something beside the conversation. The answer holds text. `echo` gives the text back; whoever
    /// wants better of it asks [`Model::is_echo`] first.
    pub async fn complete(&self, prompt: &Prompt) -> Result<Answer, ModelError> {
        match self {
            Self::Echo => Ok(echo(prompt.text.clone())),
            Self::Hosted(hosted) => hosted.complete(prompt).await,
        }
    }
}

impl ModelError {
    /// How long the provider asks to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

impl Question<'_> {
    /// The token estimate of all that is sent, tools and steps among it.
    pub fn tokens(&self) -> u32 {
        let tools = self.tools.iter().map(Tool::tokens);
        let steps = self.steps.iter().map(Step::tokens);
        tools.chain(steps).fold(tokens::of_request(self.system, self.messages), u32::saturating_add)
    }

    /// What is unanswered, a line each.
    fn said(&self) -> String {
        let skip = self.messages.len().saturating_sub(self.unanswered.max(1));
        let said: Vec<String> =
            self.messages.iter().skip(skip).map(|message| readable::text(message, false)).collect();
        said.join("\n")
    }
}

impl Tool {
    /// The token estimate of the tool as a model is told of it.
    pub fn tokens(&self) -> u32 {
        [&self.name, &self.description]
            .into_iter()
            .map(|text| tokens::of_text(text))
            .fold(tokens::of_json(Some(&self.input_schema)), u32::saturating_add)
    }
}

impl Step {
    /// The token estimate of the step as a model is sent it: a message of calls, and one for each result.
    pub fn tokens(&self) -> u32 {
        let said = tokens::of_request(Some(&self.text), &[]);
        let reasoning = self.reasoning.as_deref().map_or(0, tokens::of_text);
        let done = self.done.iter().map(|done| {
            tokens::of_text(&done.call.name)
                .saturating_add(tokens::of_json(Some(&done.call.input)))
                .saturating_add(tokens::of_request(Some(&done.sent()), &[]))
        });
        done.fold(said.saturating_add(reasoning), u32::saturating_add)
    }
}

impl Done {
    /// The token estimate of the result as it is sent.
    pub fn tokens(&self) -> u32 {
        tokens::of_text(&self.sent())
    }

    /// The result as it is sent.
    fn sent(&self) -> String {
        match &self.output {
            Value::String(text) => text.clone(),
            output => output.to_string(),
        }
    }
}

fn echo(text: String) -> Answer {
    Answer { text, calls: Vec::new(), reasoning: None, finish: Finish::Stop, usage: None }
}
