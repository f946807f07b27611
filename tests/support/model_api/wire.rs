//! The wire format: what a request must be, what an answer and an error are.

use std::collections::HashMap;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use serde_json::{Value, json};

use super::API_KEY;

/// An answer, whole or streamed as the request asked.
pub(super) struct Completion {
    id: String,
    model: Value,
    text: String,
    prompt_tokens: usize,
    stream: bool,
    include_usage: bool,
}

impl Completion {
    pub(super) fn new(id: String, body: &Value, answer: Option<String>) -> Self {
        let prompt: usize =
            messages_of(body).iter().map(|message| 4 + tokens(&content_text(&message["content"]))).sum();
        Self {
            id,
            model: body["model"].clone(),
            text: answer.unwrap_or_else(|| format!("You said: {}", said_last(body))),
            prompt_tokens: prompt,
            stream: body["stream"] == true,
            include_usage: body["stream_options"]["include_usage"] == true,
        }
    }

    fn whole(&self) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": 1_763_765_920,
            "model": self.model,
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": self.text, "refusal": null},
                "logprobs": null,
                "finish_reason": "stop",
            }],
            "usage": self.usage(),
        })
    }

    fn usage(&self) -> Value {
        let completion = tokens(&self.text);
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": completion,
            "total_tokens": self.prompt_tokens + completion,
        })
    }

    /// Server-sent events: the role, the text word by word, the reason it ended, the usage where asked for.
    fn events(&self) -> String {
        let choice =
            |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        let mut choices = vec![choice(json!({"role": "assistant", "content": ""}), Value::Null)];
        choices
            .extend(self.text.split_inclusive(' ').map(|word| choice(json!({"content": word}), Value::Null)));
        choices.push(choice(json!({}), json!("stop")));
        let mut chunks: Vec<Value> =
            choices.into_iter().map(|choices| self.chunk(&choices, Value::Null)).collect();
        if self.include_usage {
            chunks.push(self.chunk(&json!([]), self.usage()));
        }
        let mut events = String::new();
        for data in chunks.iter().map(Value::to_string).chain(["[DONE]".to_owned()]) {
            events.push_str("data: ");
            events.push_str(&data);
            events.push_str("\n\n");
        }
        events
    }

    fn chunk(&self, choices: &Value, usage: Value) -> Value {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": 1_763_765_920,
            "model": self.model,
            "choices": choices,
        });
        if self.include_usage {
            chunk["usage"] = usage;
        }
        chunk
    }
}

impl IntoResponse for Completion {
    fn into_response(self) -> Response {
        if self.stream {
            ([(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")], self.events()).into_response()
        } else {
            Json(self.whole()).into_response()
        }
    }
}

/// An error as OpenAI words it: `{"error": {"message", "type", "param", "code"}}`.
pub(super) struct Refusal {
    status: StatusCode,
    pub(super) message: String,
    kind: &'static str,
    param: Option<String>,
    code: Option<&'static str>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), kind: "invalid_request_error", param: None, code: None }
    }

    fn bad(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::new(StatusCode::BAD_REQUEST, message) }
    }

    pub(super) fn injected(status: StatusCode) -> Self {
        let (kind, code, message) = match status {
            StatusCode::TOO_MANY_REQUESTS => (
                "requests",
                Some("rate_limit_exceeded"),
                "Rate limit reached for requests. Please try again in 1s.",
            ),
            StatusCode::UNAUTHORIZED => {
                ("invalid_request_error", Some("invalid_api_key"), "Incorrect API key provided.")
            }
            status if status.is_server_error() => (
                "server_error",
                None,
                "The server had an error while processing your request. Sorry about that!",
            ),
            _ => ("invalid_request_error", None, "The request was refused."),
        };
        Self { kind, code, ..Self::new(status, message) }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let error = json!({
            "error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code},
        });
        let mut response = (self.status, Json(error)).into_response();
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, 1.into());
        }
        response
    }
}

pub(super) fn check_key(headers: &HeaderMap, any_key: bool) -> Result<(), Refusal> {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let key = given.and_then(|value| value.strip_prefix("Bearer "));
    match key {
        _ if any_key => Ok(()),
        Some(API_KEY) => Ok(()),
        Some(_) => Err(Refusal {
            code: Some("invalid_api_key"),
            ..Refusal::new(StatusCode::UNAUTHORIZED, "Incorrect API key provided.")
        }),
        None => Err(Refusal::new(
            StatusCode::UNAUTHORIZED,
            "You didn't provide an API key in an Authorization header.",
        )),
    }
}

pub(super) fn check_body(bytes: &[u8]) -> Result<Value, Refusal> {
    let Ok(body @ Value::Object(_)) = serde_json::from_slice(bytes) else {
        let message = "We could not parse the JSON body of your request.";
        return Err(Refusal::new(StatusCode::BAD_REQUEST, message));
    };
    if body["model"].as_str().is_none_or(str::is_empty) {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, "you must provide a model parameter"));
    }
    if !matches!(body["stream"], Value::Null | Value::Bool(_)) {
        return Err(Refusal::bad("stream", "Invalid type for 'stream': expected a boolean."));
    }
    if !body["stream_options"].is_null() && body["stream"] != true {
        let message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
        return Err(Refusal::bad("stream_options", message));
    }
    match body["messages"].as_array() {
        None => Err(Refusal::bad("messages", "Missing required parameter: 'messages'.")),
        Some(messages) if messages.is_empty() => Err(Refusal::bad(
            "messages",
            "Invalid 'messages': empty array. Expected an array with minimum length 1.",
        )),
        Some(messages) => check_messages(messages).map(|()| body),
    }
}

fn check_messages(messages: &[Value]) -> Result<(), Refusal> {
    // The calls of the last assistant message that no tool message has answered yet.
    let mut open_calls: HashMap<&str, usize> = HashMap::new();
    for (at, message) in messages.iter().enumerate() {
        let place = format!("messages[{at}]");
        let role = message["role"].as_str().unwrap_or_default();
        if !matches!(role, "developer" | "system" | "user" | "assistant" | "tool") {
            let message = format!(
                "Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'tool', and 'developer'."
            );
            return Err(Refusal::bad(format!("{place}.role"), message));
        }
        check_content(&place, role, message)?;
        check_name(&place, &message["name"])?;
        if role == "tool" {
            let answered = message["tool_call_id"].as_str().and_then(|id| open_calls.remove(id));
            if answered.is_none() {
                let message = "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.";
                return Err(Refusal::bad(format!("{place}.role"), message));
            }
            continue;
        }
        check_all_answered(&open_calls)?;
        let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        for call in calls {
            match (
                role,
                call["id"].as_str(),
                call["function"]["name"].as_str(),
                call["function"]["arguments"].as_str(),
            ) {
                ("assistant", Some(id), Some(_), Some(_)) => open_calls.insert(id, at),
                _ => return Err(Refusal::bad(format!("{place}.tool_calls"), "Invalid 'tool_calls'.")),
            };
        }
    }
    check_all_answered(&open_calls)
}

fn check_all_answered(open_calls: &HashMap<&str, usize>) -> Result<(), Refusal> {
    let Some(at) = open_calls.values().next() else { return Ok(()) };
    let message = "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.";
    Err(Refusal::bad(format!("messages[{at}]"), message))
}

fn check_content(place: &str, role: &str, message: &Value) -> Result<(), Refusal> {
    let param = format!("{place}.content");
    match &message["content"] {
        Value::String(_) => Ok(()),
        Value::Null if role == "assistant" && message["tool_calls"].is_array() => Ok(()),
        Value::Array(parts) if !parts.is_empty() => {
            for (at, part) in parts.iter().enumerate() {
                let fits = match (part["type"].as_str(), role) {
                    (Some("text"), _) => part["text"].is_string(),
                    (Some("image_url"), "user") => part["image_url"]["url"].is_string(),
                    (Some("input_audio"), "user") => part["input_audio"]["data"].is_string(),
                    (Some("file"), "user") => part["file"].is_object(),
                    (Some("refusal"), "assistant") => part["refusal"].is_string(),
                    _ => false,
                };
                if !fits {
                    let message = format!("Invalid content part for role '{role}': {}.", part["type"]);
                    return Err(Refusal::bad(format!("{param}[{at}]"), message));
                }
            }
            Ok(())
        }
        _ => Err(Refusal::bad(
            param.clone(),
            format!("Invalid type for '{param}': expected a string or an array of parts."),
        )),
    }
}

fn check_name(place: &str, name: &Value) -> Result<(), Refusal> {
    let fits = match name {
        Value::Null => true,
        Value::String(name) => {
            !name.is_empty()
                && !name.contains(|c: char| c.is_whitespace() || matches!(c, '<' | '|' | '\\' | '/' | '>'))
        }
        _ => false,
    };
    let message =
        || format!("Invalid '{place}.name': expected a string that matches the pattern '^[^\\s<|\\\\/>]+$'.");
    if fits { Ok(()) } else { Err(Refusal::bad(format!("{place}.name"), message())) }
}

pub(super) fn messages_of(body: &Value) -> &[Value] {
    body["messages"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// What users said since the assistant last spoke, one line a message.
fn said_last(body: &Value) -> String {
    let messages = messages_of(body);
    let start = messages.iter().rposition(|message| message["role"] == "assistant").map_or(0, |at| at + 1);
    let said = messages[start..].iter().filter(|message| message["role"] == "user");
    said.map(|message| content_text(&message["content"])).collect::<Vec<_>>().join("\n")
}

pub(super) fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

fn tokens(text: &str) -> usize {
    text.chars().count().div_ceil(4)
}
