//! The wire format: what an answer and an error are.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use serde_json::{Value, json};

/// What an answer says.
#[derive(Clone, Debug)]
pub(super) enum Said {
    /// A text; the reason it ended, where that is not `stop`.
    Text(String, Option<&'static str>),
    /// Calls of tools, each with its input.
    Calls(Vec<(String, Value)>),
}

/// An answer, whole or streamed as the request asked.
pub(super) struct Completion {
    id: String,
    model: Value,
    said: Said,
    prompt_tokens: u64,
    stream: bool,
    include_usage: bool,
}

impl Completion {
    /// An answer to `body` that says `said`, cut off where the request's limit is; `factor` is what its tokens count
    /// more or less than [`prompt_tokens`].
    pub(super) fn new(id: String, body: &Value, said: Said, factor: f64) -> Self {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "token counts of tests are small"
        )]
        let prompt_tokens = (prompt_tokens(body) as f64 * factor).ceil() as u64;
        let limit = ["max_tokens", "max_completion_tokens"].iter().find_map(|name| body[*name].as_u64());
        let said = match (said, limit) {
            (Said::Text(text, _), Some(limit)) if tokens(&text) > limit => {
                Said::Text(cut(&text, limit), Some("length"))
            }
            (said, _) => said,
        };
        Self {
            id,
            model: body["model"].clone(),
            said,
            prompt_tokens,
            stream: body["stream"] == true,
            include_usage: body["stream_options"]["include_usage"] == true,
        }
    }

    fn whole(&self) -> Value {
        let message = match &self.said {
            Said::Text(text, _) => json!({"role": "assistant", "content": text, "refusal": null}),
            Said::Calls(_) => {
                json!({"role": "assistant", "content": null, "tool_calls": self.calls(), "refusal": null})
            }
        };
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": 1_763_765_920,
            "model": self.model,
            "choices": [{
                "index": 0,
                "message": message,
                "logprobs": null,
                "finish_reason": self.finish_reason(),
            }],
            "usage": self.usage(),
        })
    }

    fn calls(&self) -> Vec<Value> {
        let Said::Calls(calls) = &self.said else { return Vec::new() };
        let call = |(at, (name, input)): (usize, &(String, Value))| {
            json!({
                "id": format!("call_{}_{at}", self.id),
                "type": "function",
                "function": {"name": name, "arguments": input.to_string()},
            })
        };
        calls.iter().enumerate().map(call).collect()
    }

    fn finish_reason(&self) -> &'static str {
        match &self.said {
            Said::Text(_, reason) => reason.unwrap_or("stop"),
            Said::Calls(_) => "tool_calls",
        }
    }

    fn usage(&self) -> Value {
        let completion = match &self.said {
            Said::Text(text, _) => tokens(text),
            Said::Calls(_) => tokens(&Value::from(self.calls()).to_string()),
        };
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": completion,
            "total_tokens": self.prompt_tokens + completion,
        })
    }

    /// Server-sent events: the role, the text word by word or the calls one by one, the reason it ended, the usage
    /// where asked for.
    fn events(&self) -> String {
        let choice =
            |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        let mut choices = vec![choice(json!({"role": "assistant", "content": ""}), Value::Null)];
        if let Said::Text(text, _) = &self.said {
            choices
                .extend(text.split_inclusive(' ').map(|word| choice(json!({"content": word}), Value::Null)));
        }
        for (at, mut call) in self.calls().into_iter().enumerate() {
            call["index"] = at.into();
            choices.push(choice(json!({"tool_calls": [call]}), Value::Null));
        }
        choices.push(choice(json!({}), json!(self.finish_reason())));
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

    pub(super) fn bad(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::new(StatusCode::BAD_REQUEST, message) }
    }

    /// What OpenAI says of a request of `requested` tokens where `limit` are taken.
    pub(super) fn too_long(limit: u64, requested: u64) -> Self {
        let message = format!(
            "This model's maximum context length is {limit} tokens. However, your messages resulted in {requested} tokens. Please reduce the length of the messages."
        );
        Self { code: Some("context_length_exceeded"), ..Self::bad("messages", message) }
    }

    pub(super) fn with_code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
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

pub(super) fn messages_of(body: &Value) -> &[Value] {
    body["messages"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// What users said since the assistant last spoke, calls aside, one line a message.
pub(super) fn said_last(body: &Value) -> String {
    let messages = messages_of(body);
    let spoke = |message: &Value| message["role"] == "assistant" && message["tool_calls"].is_null();
    let start = messages.iter().rposition(spoke).map_or(0, |at| at + 1);
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

/// A request's tokens: those of its texts, calls and tools, and four for each message.
pub(super) fn prompt_tokens(body: &Value) -> u64 {
    let json = |value: &Value| if value.is_null() { 0 } else { tokens(&value.to_string()) };
    let message =
        |message: &Value| 4 + tokens(&content_text(&message["content"])) + json(&message["tool_calls"]);
    messages_of(body).iter().map(message).sum::<u64>() + json(&body["tools"])
}

/// A quarter for each ASCII character, one for each other.
fn tokens(text: &str) -> u64 {
    let ascii = text.chars().filter(char::is_ascii).count() as u64;
    let other = text.chars().count() as u64 - ascii;
    ascii.div_ceil(4) + other
}

/// The longest beginning of `text` that takes no more than `limit` tokens.
fn cut(text: &str, limit: u64) -> String {
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = ends.take_while(|end| tokens(&text[..*end]) <= limit).last().unwrap_or(0);
    text[..end].to_owned()
}
