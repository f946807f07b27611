//! A model behind an API, by way of `genai`.

use std::time::Duration;

use genai::adapter::AdapterKind;
use genai::chat::{
    ChatMessage, ChatOptions, ChatRequest, ChatResponse, ContentPart, MessageContent, ReasoningEffort,
    StopReason, ToolResponse,
};
use genai::resolver::{AuthData, Endpoint};
use genai::{ModelIden, ServiceTarget, WebConfig};
use secrecy::ExposeSecret;

use super::exchange::{self, Piece};
use super::{
    Answer, Finish, ModelError, ModelSettings, Prompt, Question, Step, Tool, ToolCall, Usage, failure,
    readable,
};
use crate::message::Role;
use crate::record::Kind;
use crate::tokens;

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_mins(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A model behind an API.
#[derive(Clone, Debug)]
pub struct Hosted {
    client: genai::Client,
    target: ServiceTarget,
}

impl Hosted {
    pub(super) fn new(name: &str, settings: &ModelSettings) -> Result<Self, ModelError> {
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

    pub(super) async fn answer(&self, question: Question<'_>) -> Result<Answer, ModelError> {
        let mut request = ChatRequest::default();
        if let Some(system) = question.system {
            request = request.with_system(system);
        }
        for said in conversation(&question) {
            request = request.append_messages(said);
        }
        if !question.tools.is_empty() {
            request = request.with_tools(question.tools.iter().map(tool));
        }
        self.ask(request, options(), question.tokens()).await
    }

    pub(super) async fn complete(&self, prompt: &Prompt) -> Result<Answer, ModelError> {
        let request = ChatRequest::from_user(&prompt.text).with_system(&prompt.instructions);
        let estimate = [&prompt.instructions, &prompt.text]
            .into_iter()
            .fold(0, |sum: u32, text| sum.saturating_add(tokens::of_request(Some(text), &[])));
        let answer = self.ask(request, options().with_max_tokens(prompt.max_tokens), estimate).await?;
        if answer.text.is_empty() { Err(ModelError::Empty) } else { Ok(answer) }
    }

    async fn ask(
        &self,
        request: ChatRequest,
        options: ChatOptions,
        estimate: u32,
    ) -> Result<Answer, ModelError> {
        let response = self
            .client
            .exec_chat(self.target.clone(), request, Some(&options))
            .await
            .map_err(|error| failure::of(&error))?;
        read(response, estimate)
    }
}

/// Without an effort, the library takes the end of a name such as `qwen-max` for one and cuts it off; this one is the
/// one that it does not send.
fn options() -> ChatOptions {
    ChatOptions::default().with_reasoning_effort(ReasoningEffort::Budget(0))
}

fn read(response: ChatResponse, estimate: u32) -> Result<Answer, ModelError> {
    let count = |tokens: Option<i32>| tokens.and_then(|tokens| u32::try_from(tokens).ok());
    let usage = count(response.usage.prompt_tokens).zip(count(response.usage.completion_tokens)).map(
        |(input_tokens, output_tokens)| Usage {
            input_tokens,
            output_tokens,
            estimated_input_tokens: estimate,
        },
    );
    let calls: Vec<ToolCall> = response
        .tool_calls()
        .into_iter()
        .map(|call| ToolCall {
            id: call.call_id.clone(),
            name: call.fn_name.clone(),
            input: call.fn_arguments.clone(),
        })
        .collect();
    let finish = match &response.stop_reason {
        // Some servers say `stop` all the same.
        _ if !calls.is_empty() => Finish::ToolCalls,
        Some(StopReason::Completed(_) | StopReason::StopSequence(_)) => Finish::Stop,
        Some(StopReason::MaxTokens(_)) => Finish::Length,
        Some(StopReason::ContentFilter(_)) => Finish::ContentFilter,
        Some(StopReason::ToolCall(_) | StopReason::Other(_)) | None => Finish::Other,
    };
    let reasoning = response.reasoning_content.clone().filter(|reasoning| !reasoning.is_empty());
    let text = response.into_first_text().filter(|text| !text.trim().is_empty()).unwrap_or_default();
    if text.is_empty() && calls.is_empty() {
        return Err(ModelError::Empty);
    }
    Ok(Answer { text, calls, reasoning, finish, usage })
}

/// The context, and what was called in this turn so far. Calls are sent as calls where tools are offered; elsewhere
/// providers take none, so that they stand there in words.
fn conversation(question: &Question<'_>) -> Vec<Vec<ChatMessage>> {
    enum Said {
        Words(ChatMessage),
        Step(Step),
    }
    let mut said: Vec<Said> = Vec::new();
    for message in question.messages {
        let is_summary =
            message.metadata.get("kind").and_then(serde_json::Value::as_str) == Some(Kind::Summary.as_str());
        match message.role {
            Role::User => {
                said.push(Said::Words(ChatMessage::user(readable::text(message, question.group))));
            }
            Role::Assistant if is_summary => {
                said.push(Said::Words(ChatMessage::assistant(readable::text(message, question.group))));
            }
            Role::Assistant => said.extend(exchange::pieces(message).into_iter().map(|piece| match piece {
                Piece::Text(text) => Said::Words(ChatMessage::assistant(text)),
                // What was thought in earlier turns is over.
                Piece::Step(step) => Said::Step(Step { reasoning: None, ..step }),
            })),
            Role::System => {}
        }
    }
    said.extend(question.steps.iter().cloned().map(Said::Step));
    exchange::with_own_ids(said.iter_mut().filter_map(|said| match said {
        Said::Words(_) => None,
        Said::Step(step) => Some(step),
    }));
    let offers = !question.tools.is_empty();
    said.into_iter()
        .map(|said| match said {
            Said::Words(message) => vec![message],
            Said::Step(step) if offers => step_messages(&step),
            Said::Step(step) => {
                let (said, results) = exchange::in_words(&step);
                vec![ChatMessage::assistant(said), ChatMessage::user(results)]
            }
        })
        .collect()
}

/// What the model said with its calls, then the results.
fn step_messages(step: &Step) -> Vec<ChatMessage> {
    let mut parts: Vec<ContentPart> = Vec::new();
    if !step.text.is_empty() {
        parts.push(ContentPart::Text(step.text.clone()));
    }
    parts.extend(step.done.iter().map(|done| {
        ContentPart::ToolCall(genai::chat::ToolCall {
            call_id: done.call.id.clone(),
            fn_name: done.call.name.clone(),
            fn_arguments: done.call.input.clone(),
            thought_signatures: None,
        })
    }));
    let said = ChatMessage::assistant(MessageContent::from_parts(parts));
    let results = step.done.iter().map(|done| {
        let result = ToolResponse::new(&done.call.id, done.sent()).with_fn_name(&done.call.name);
        ChatMessage::tool(MessageContent::from_tool_responses(vec![result]))
    });
    [said.with_reasoning_content(step.reasoning.clone())].into_iter().chain(results).collect()
}

fn tool(tool: &Tool) -> genai::chat::Tool {
    genai::chat::Tool::new(tool.name.as_str())
        .with_description(&tool.description)
        .with_schema(tool.input_schema.clone())
}
