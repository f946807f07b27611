//! Answers and errors, and how OpenAI writes them; the other providers' are beside this.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use serde_json::{Value, json};

use super::shape::Shape;

/// The content of an answer.
#[derive(Clone, Debug)]
pub(super) enum Said {
    /// A text; the reason it ended, where that is not `stop`.
    Text(String, Option<&'static str>),
    /// Calls of tools, each with its input.
    Calls(Vec<(String, Value)>),
}

/// The numbering of calls in a streamed answer, as OpenAI and compatible providers do it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// Each has a number of its own.
    #[default]
    Each,
    /// All have the number 0, and come in pieces: the first with the id.
    OneForAll,
    /// All have the number 0, and come whole.
    OneForAllWhole,
    /// All have the number 0, and each piece another id.
    OneForAllAndIdsForPieces,
}

/// Tokens of a prompt read from a cache and written to it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cached {
    pub(super) read: u64,
    pub(super) written: u64,
}

/// An answer.
pub(super) struct Completion {
    pub(super) id: String,
    pub(super) model: Value,
    pub(super) said: Said,
    /// The reasoning before the answer, and its signature.
    pub(super) thought: Option<(String, String)>,
    /// All that was read, from a cache or not.
    pub(super) prompt_tokens: u64,
    pub(super) cached: Cached,
    pub(super) include_usage: bool,
    pub(super) numbering: Numbering,
}

impl Completion {
    /// An answer to `body` that says `said`, cut off where the request's limit is; `factor` is what its tokens count
    /// more or less than [`prompt_tokens`].
    pub(super) fn new(id: String, body: &Value, said: Said, factor: f64, cached: Cached) -> Self {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "token counts of tests are small"
        )]
        let scaled = |tokens: u64| (tokens as f64 * factor).ceil() as u64;
        let limit = ["max_tokens", "max_completion_tokens"].iter().find_map(|name| body[*name].as_u64());
        let said = match (said, limit) {
            (Said::Text(text, _), Some(limit)) if tokens(&text) > limit => {
                Said::Text(cut(&text, limit), Some("length"))
            }
            (said, _) => said,
        };
        let prompt_tokens = scaled(prompt_tokens(body));
        let read = scaled(cached.read).min(prompt_tokens);
        let written = scaled(cached.written).min(prompt_tokens - read);
        Self {
            id,
            model: body["model"].clone(),
            said,
            thought: None,
            prompt_tokens,
            cached: Cached { read, written },
            include_usage: body["stream_options"]["include_usage"] == true,
            numbering: Numbering::default(),
        }
    }

    pub(super) fn whole(&self) -> Value {
        let mut message = match &self.said {
            Said::Text(text, _) => json!({"role": "assistant", "content": text, "refusal": null}),
            Said::Calls(_) => {
                json!({"role": "assistant", "content": null, "tool_calls": self.openai_calls(), "refusal": null})
            }
        };
        if let Some((thought, _)) = &self.thought {
            message["reasoning_content"] = thought.as_str().into();
        }
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

    /// The calls, each with its id.
    pub(super) fn calls<'a>(&'a self) -> Vec<(String, &'a str, &'a Value)> {
        let Said::Calls(calls) = &self.said else { return Vec::new() };
        let call = |(at, (name, input)): (usize, &'a (String, Value))| {
            (format!("call_{}_{at}", self.id), name.as_str(), input)
        };
        calls.iter().enumerate().map(call).collect()
    }

    fn openai_calls(&self) -> Vec<Value> {
        let call = |(id, name, input): (String, &str, &Value)| json!({"id": id, "type": "function", "function": {"name": name, "arguments": input.to_string()}});
        self.calls().into_iter().map(call).collect()
    }

    /// As OpenAI says it.
    pub(super) fn finish_reason(&self) -> &'static str {
        match &self.said {
            Said::Text(_, reason) => reason.unwrap_or("stop"),
            Said::Calls(_) => "tool_calls",
        }
    }

    pub(super) fn output_tokens(&self) -> u64 {
        match &self.said {
            Said::Text(text, _) => tokens(text),
            Said::Calls(_) => tokens(&Value::from(self.openai_calls()).to_string()),
        }
    }

    fn usage(&self) -> Value {
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.output_tokens(),
            "total_tokens": self.prompt_tokens + self.output_tokens(),
            "prompt_tokens_details": {"cached_tokens": self.cached.read, "audio_tokens": 0},
        })
    }

    /// The chunks of a streamed answer: the role, the text word by word or the calls, the reason, and the usage where
    /// asked for.
    pub(super) fn pieces(&self) -> Vec<Vec<u8>> {
        let choice =
            |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        let mut choices = vec![choice(json!({"role": "assistant", "content": ""}), Value::Null)];
        if let Some((thought, _)) = &self.thought {
            choices.extend(words(thought).map(|w| choice(json!({"reasoning_content": w}), Value::Null)));
        }
        if let Said::Text(text, _) = &self.said {
            choices.extend(words(text).map(|word| choice(json!({"content": word}), Value::Null)));
        }
        for (at, mut call) in self.openai_calls().into_iter().enumerate() {
            let number = if self.numbering == Numbering::Each { at } else { 0 };
            call["index"] = number.into();
            if self.numbering == Numbering::OneForAllWhole {
                choices.push(choice(json!({"tool_calls": [call]}), Value::Null));
                continue;
            }
            // The arguments come in halves, the second without a name.
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default().to_owned();
            let half =
                (0..=arguments.len() / 2).rev().find(|at| arguments.is_char_boundary(*at)).unwrap_or(0);
            call["function"]["arguments"] = arguments[..half].into();
            choices.push(choice(json!({"tool_calls": [call]}), Value::Null));
            let mut rest = json!({"index": number, "function": {"arguments": arguments[half..]}});
            if self.numbering == Numbering::OneForAllAndIdsForPieces {
                rest["id"] = format!("call_{}_{at}_rest", self.id).into();
            }
            choices.push(choice(json!({"tool_calls": [rest]}), Value::Null));
        }
        choices.push(choice(json!({}), json!(self.finish_reason())));
        let mut chunks: Vec<Value> =
            choices.into_iter().map(|choices| self.chunk(&choices, Value::Null)).collect();
        if self.include_usage {
            chunks.push(self.chunk(&json!([]), self.usage()));
        }
        let data = chunks.iter().map(Value::to_string).chain(["[DONE]".to_owned()]);
        data.map(|data| format!("data: {data}\n\n").into_bytes()).collect()
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

/// A fault in the middle of a streamed answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mishap {
    /// The connection breaks.
    Breaks,
    /// The body ends as if it were whole.
    Ends,
    /// Nothing comes any more.
    Stalls,
    /// An error comes in place of the rest, such as an overload.
    Fails,
}

/// A stream of `pieces`.
pub(super) fn stream(shape: Shape, mut pieces: Vec<Vec<u8>>, mishap: Option<Mishap>) -> Response {
    use futures::stream::{self, StreamExt};
    if mishap.is_some() {
        pieces.truncate(pieces.len() / 2);
    }
    if mishap == Some(Mishap::Fails) {
        pieces.push(shape.error_in_stream());
    }
    let pieces = stream::iter(pieces.into_iter().map(Ok::<_, std::io::Error>));
    let body = match mishap {
        None | Some(Mishap::Ends | Mishap::Fails) => Body::from_stream(pieces),
        Some(Mishap::Breaks) => {
            // What was sent is on its way before the connection is cut.
            let cut = stream::once(async {
                tokio::task::yield_now().await;
                Err(std::io::Error::other("cut"))
            });
            Body::from_stream(pieces.chain(cut))
        }
        Some(Mishap::Stalls) => Body::from_stream(pieces.chain(stream::pending())),
    };
    ([(header::CONTENT_TYPE, shape.stream_type())], body).into_response()
}

pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}

/// An error.
pub(super) struct Refusal {
    pub(super) status: StatusCode,
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

    /// Returns the error for a request of `requested` tokens if `limit` are allowed.
    pub(super) fn too_long(shape: Shape, limit: u64, requested: u64) -> Self {
        let message = match shape {
            Shape::OpenAi => format!(
                "This model's maximum context length is {limit} tokens. However, your messages resulted in {requested} tokens. Please reduce the length of the messages."
            ),
            Shape::Anthropic => format!("prompt is too long: {requested} tokens > {limit} maximum"),
            Shape::Bedrock => "Input is too long for requested model.".into(),
        };
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

    /// As the provider words it: `{"error": {"message", "type", "param", "code"}}` of OpenAI, `{"type": "error",
    /// "error": {"type", "message"}}` of Anthropic, `{"message"}` and a header of Bedrock.
    pub(super) fn into_response(self, shape: Shape) -> Response {
        let (status, message) = (self.status, self.message);
        let kind = shape.kind_of(status);
        let body = match shape {
            Shape::OpenAi => {
                json!({"error": {"message": message, "type": self.kind, "param": self.param, "code": self.code}})
            }
            Shape::Anthropic => json!({"type": "error", "error": {"type": kind, "message": message}}),
            Shape::Bedrock => json!({"message": message}),
        };
        let mut response = (status, Json(body)).into_response();
        if shape == Shape::Bedrock {
            response.headers_mut().insert("x-amzn-errortype", HeaderValue::from_static(kind));
        }
        if status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, 1.into());
        }
        response
    }
}

pub(super) fn messages_of(body: &Value) -> &[Value] {
    body["messages"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the users' messages since the assistant's last, calls aside, one line each, without the sections beside them.
pub(super) fn said_last(body: &Value) -> String {
    let messages = messages_of(body);
    let spoke = |message: &Value| message["role"] == "assistant" && message["tool_calls"].is_null();
    let start = messages.iter().rposition(spoke).map_or(0, |at| at + 1);
    let said = messages[start..].iter().filter(|message| message["role"] == "user");
    said.map(|message| as_said(&content_text(&message["content"]))).collect::<Vec<_>>().join("\n")
}

/// A user's text without the guide, the summary and the notes before it; each message of a group as
/// `<name>: <text>`.
pub(super) fn as_said(text: &str) -> String {
    let guided = text.strip_prefix("Several people speak in this chat.");
    let guided = guided.and_then(|guided| guided.split_once("Answer without such elements."));
    let mut text = guided.map_or(text, |(_, after)| after).to_owned();
    if let Some(after) = text.strip_prefix('\n') {
        text = after.to_owned();
    }
    for (starts, ends) in [
        ("Summary of the conversation so far:\n<summary>\n", "\n</summary>\n"),
        ("<notes>\n", "\n</notes>\n"),
    ] {
        if let Some((before, (_, after))) =
            text.split_once(starts).and_then(|(before, rest)| Some((before, rest.split_once(ends)?)))
        {
            text = format!("{before}{}", after.strip_prefix('\n').unwrap_or(after));
        }
    }
    without_senders(&text)
}

fn without_senders(text: &str) -> String {
    let (mut said, mut rest) = (String::new(), text);
    while let Some((before, (tag, after))) = ["<message ", "<event "]
        .iter()
        .filter_map(|opening| rest.split_once(opening))
        .min_by_key(|(before, _)| before.len())
        .and_then(|(before, after)| Some((before, after.split_once('>')?)))
    {
        let attribute = |name: &str| Some(tag.split_once(&format!("{name}=\""))?.1.split_once('"')?.0);
        let name = attribute("from").or_else(|| attribute("id")).unwrap_or_default();
        said.extend([before, name, ": "]);
        rest = after;
    }
    said.push_str(rest);
    said.replace("<message>", "").replace("</message>", "").replace("</event>", "")
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

/// Tokens of an image.
const IMAGE_TOKENS: u64 = 1_600;

/// A request's tokens: those of its texts, calls, images and tools, and four for each message.
pub(super) fn prompt_tokens(body: &Value) -> u64 {
    let json = |value: &Value| if value.is_null() { 0 } else { tokens(&value.to_string()) };
    let message =
        |message: &Value| 4 + tokens(&content_text(&message["content"])) + json(&message["tool_calls"]);
    let images = super::images_of(body).len() as u64 * IMAGE_TOKENS;
    messages_of(body).iter().map(message).sum::<u64>() + images + json(&body["tools"])
}

/// A quarter for each ASCII character, one for each other.
pub(super) fn tokens(text: &str) -> u64 {
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
