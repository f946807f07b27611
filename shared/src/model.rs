//! Language models: what is asked, what is answered, and which failures are worth another try.
//!
//! `echo` answers with what was said and needs nothing. `openai:<model>` speaks chat completions to any compatible
//! endpoint, through the `genai` crate, which speaks other providers' protocols too.

use std::time::Duration;

use genai::adapter::AdapterKind;
use genai::chat::{ChatMessage, ChatRequest};
use genai::resolver::{AuthData, Endpoint};
use genai::{ModelIden, ServiceTarget, WebConfig};
use secrecy::{ExposeSecret, SecretString};

use crate::message::{PartView, Role, UiMessage};

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_mins(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

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

/// A question: instructions and a context, the unanswered last.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// `SYSTEM_PROMPT`, verbatim.
    pub system: Option<&'a str>,
    /// What the model sees.
    pub messages: &'a [UiMessage],
    /// How many of them, at the end, are unanswered.
    pub unanswered: usize,
    /// Whether several people speak, so that the model must be told who.
    pub group: bool,
}

/// What a model said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The text, never empty.
    pub text: String,
    /// What it took, where the provider says so.
    pub usage: Option<Usage>,
    /// stub
    pub finish: Finish,
}

/// Tokens, as the provider counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: i32,
    /// Tokens written.
    pub output_tokens: i32,
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
    /// stub
    #[error("the context is too long for the model")]
    ContextTooLong,
    /// The answer holds no text.
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

    /// Asks once.
    pub async fn answer(&self, question: Question<'_>) -> Result<Answer, ModelError> {
        match self {
            Self::Echo => Ok(echo(question)),
            Self::Hosted(hosted) => hosted.answer(question).await,
        }
    }
}

/// stub
pub struct Prompt<'a> { /// s
pub instructions: &'a str, /// s
pub text: &'a str, /// s
pub max_tokens: u32 }
/// stub
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish { /// s
Stop, /// s
ContentFilter }
impl Model {
/// stub
pub fn is_echo(&self) -> bool { matches!(self, Self::Echo) }
/// stub
pub async fn complete(&self, prompt: Prompt<'_>) -> Result<Answer, ModelError> { let _ = prompt; Err(ModelError::Empty) }
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

/// A model behind an API.
#[derive(Clone, Debug)]
pub struct Hosted {
    client: genai::Client,
    target: ServiceTarget,
}

impl Hosted {
    fn new(name: &str, settings: &ModelSettings) -> Result<Self, ModelError> {
        let base_url = settings.base_url.as_deref().unwrap_or("https://api.openai.com/v1");
        // Servers of one's own often want no key, but a bearer header does no harm there.
        let key = settings.api_key.as_ref().map_or("none", |key| key.expose_secret());
        let web = WebConfig::default().with_timeout(TIMEOUT).with_connect_timeout(CONNECT_TIMEOUT);
        Ok(Self {
            client: genai::Client::builder()
                .with_web_config(web)
                .build()
                .map_err(|_| ModelError::NoClient)?,
            target: ServiceTarget {
                // Joined to the path as it is, so it must end in a slash.
                endpoint: Endpoint::from_owned(format!("{}/", base_url.trim_end_matches('/'))),
                auth: AuthData::from_single(key),
                model: ModelIden::new(AdapterKind::OpenAI, name),
            },
        })
    }

    async fn answer(&self, question: Question<'_>) -> Result<Answer, ModelError> {
        let mut request = ChatRequest::default();
        if let Some(system) = question.system {
            request = request.with_system(system);
        }
        for message in question.messages {
            let text = readable(message, question.group);
            match message.role {
                Role::User => request = request.append_message(ChatMessage::user(text)),
                Role::Assistant if !text.is_empty() => {
                    request = request.append_message(ChatMessage::assistant(text));
                }
                Role::Assistant | Role::System => {}
            }
        }
        let response = self
            .client
            .exec_chat(self.target.clone(), request, None)
            .await
            .map_err(|error| model_error(&error))?;
        let usage = response.usage.prompt_tokens.zip(response.usage.completion_tokens);
        let text =
            response.into_first_text().filter(|text| !text.trim().is_empty()).ok_or(ModelError::Empty)?;
        Ok(Answer {
            finish: Finish::Stop,
            text,
            usage: usage.map(|(input_tokens, output_tokens)| Usage { input_tokens, output_tokens }),
        })
    }
}

fn echo(question: Question<'_>) -> Answer {
    let skip = question.messages.len().saturating_sub(question.unanswered.max(1));
    let said: Vec<String> =
        question.messages.iter().skip(skip).map(|message| readable(message, false)).collect();
    Answer { text: said.join("\n"), usage: None, finish: Finish::Stop }
}

/// A message as text: what is said, and what stands beside it by name.
fn readable(message: &UiMessage, group: bool) -> String {
    let mut lines: Vec<String> = Vec::new();
    for part in &message.parts {
        match part.view() {
            PartView::Text(text) => lines.push(text.to_owned()),
            PartView::File { media_type, filename, .. } => lines.push(match filename {
                Some(name) => format!("[file {name}, {media_type}]"),
                None => format!("[file, {media_type}]"),
            }),
            PartView::Tool { name, output: Some(output), .. } => lines.push(format!("[{name}: {output}]")),
            PartView::Tool { .. }
            | PartView::Reasoning(_)
            | PartView::Source { .. }
            | PartView::Data { .. }
            | PartView::StepStart
            | PartView::Unknown => {}
        }
    }
    let mut text = lines.join("\n");
    if text.trim().is_empty() && message.role == Role::User {
        // Providers refuse a message that says nothing.
        "[a message without text]".clone_into(&mut text);
    }
    match message.metadata.get("senderName").and_then(serde_json::Value::as_str) {
        Some(name) if group && message.role == Role::User => format!("{name}: {text}"),
        _ => text,
    }
}

/// Our own error for the library's, whose `Display` shows request and response bodies: what people said.
fn model_error(error: &genai::Error) -> ModelError {
    use genai::Error;
    match error {
        Error::WebModelCall { webc_error, .. } | Error::WebAdapterCall { webc_error, .. } => match webc_error
        {
            genai::webc::Error::ResponseFailedStatus { status, headers, .. } => {
                let retry_after =
                    headers.get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
                by_status(status.as_u16(), retry_after.map(Duration::from_secs))
            }
            genai::webc::Error::Reqwest(error) if error.is_timeout() => ModelError::Unreachable("timed out"),
            genai::webc::Error::Reqwest(error) if error.is_connect() => {
                ModelError::Unreachable("no connection")
            }
            genai::webc::Error::Reqwest(_) => ModelError::Unreachable("connection broke off"),
            _ => ModelError::Unreadable,
        },
        Error::HttpError { status, .. } => by_status(status.as_u16(), None),
        Error::NoChatResponse { .. } => ModelError::Empty,
        _ => ModelError::Unreadable,
    }
}

fn by_status(status: u16, retry_after: Option<Duration>) -> ModelError {
    match status {
        408 | 409 | 425 | 429 | 500.. => ModelError::Busy { status, retry_after },
        _ => ModelError::Refused { status },
    }
}
