//! OpenAI's chat completions: their rules for requests, and their answers.
//!
//! Sources: its API reference, "Create chat completion" and "Error codes".

use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde_json::{Value, json};

use super::api::{Api, EVENTS, Facts, Request};
use super::check::{API_KEY, check_fields, check_messages, check_tools};
use super::completion::{Completion, Said, words};
use super::refusal::{Refusal, bad};
use super::state::Stored;

pub(super) struct OpenAi;

impl Api for OpenAi {
    fn facts(&self) -> Facts {
        Facts {
            model: "openai:test",
            path: "/v1",
            route: "/chat/completions",
            content_type: EVENTS,
            no_images: "Invalid content type. image_url is only supported by certain models.",
        }
    }

    fn check_key(&self, request: &Request<'_>) -> Result<(), Refusal> {
        let refused = |message: &str| Refusal::new(StatusCode::UNAUTHORIZED, message);
        match request.header("authorization").strip_prefix("Bearer ") {
            Some(API_KEY) => Ok(()),
            Some(_) => Err(refused("Incorrect API key provided.").with_code("invalid_api_key")),
            None => Err(refused("You didn't provide an API key in an Authorization header.")),
        }
    }

    fn check(&self, _request: &Request<'_>, body: &Value, state: &Stored) -> Result<Value, Refusal> {
        check_fields("request", body, &FIELDS.split(' ').collect::<Vec<_>>(), &[])?;
        if body["model"].as_str().is_none_or(str::is_empty) {
            return Err(bad("you must provide a model parameter"));
        }
        if !matches!(body["stream"], Value::Null | Value::Bool(_)) {
            return Err(Refusal::bad("stream", "Invalid type for 'stream': expected a boolean."));
        }
        if !body["stream_options"].is_null() && body["stream"] != true {
            let message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
            return Err(Refusal::bad("stream_options", message));
        }
        if state.refuses_option && !body["stream_options"].is_null() {
            // Servers that validate every field word it like this.
            return Err(bad("[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options')}]"));
        }
        check_limits(body)?;
        check_tools(body)?;
        match body["messages"].as_array() {
            None => Err(Refusal::bad("messages", "Missing required parameter: 'messages'.")),
            Some(messages) if messages.is_empty() => Err(Refusal::bad(
                "messages",
                "Invalid 'messages': empty array. Expected an array with minimum length 1.",
            )),
            Some(messages) => check_messages(messages).map(|()| body.clone()),
        }
    }

    fn whole(&self, completion: &Completion) -> Value {
        let mut message = match &completion.said {
            Said::Text(text, _) => json!({"role": "assistant", "content": text, "refusal": null}),
            Said::Calls(_) => {
                json!({"role": "assistant", "content": null, "tool_calls": completion.openai_calls(), "refusal": null})
            }
        };
        if let Some((thought, _)) = &completion.thought {
            message["reasoning_content"] = thought.as_str().into();
        }
        json!({
            "id": completion.id,
            "object": "chat.completion",
            "created": 1_763_765_920,
            "model": completion.model,
            "choices": [{
                "index": 0,
                "message": message,
                "logprobs": null,
                "finish_reason": completion.finish_reason(),
            }],
            "usage": usage(completion),
        })
    }

    /// The chunks of a streamed answer: the role, the text word by word or the calls, the reason, and the usage where
    /// asked for.
    fn pieces(&self, completion: &Completion) -> Vec<Vec<u8>> {
        let choice =
            |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        let mut choices = vec![choice(json!({"role": "assistant", "content": ""}), Value::Null)];
        if let Some((thought, _)) = &completion.thought {
            choices.extend(words(thought).map(|w| choice(json!({"reasoning_content": w}), Value::Null)));
        }
        if let Said::Text(text, _) = &completion.said {
            choices.extend(words(text).map(|word| choice(json!({"content": word}), Value::Null)));
        }
        for (at, mut call) in completion.openai_calls().into_iter().enumerate() {
            let number = if completion.numbering == Numbering::Each { at } else { 0 };
            call["index"] = number.into();
            if completion.numbering == Numbering::OneForAllWhole {
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
            if completion.numbering == Numbering::OneForAllAndIdsForPieces {
                rest["id"] = format!("call_{}_{at}_rest", completion.id).into();
            }
            choices.push(choice(json!({"tool_calls": [rest]}), Value::Null));
        }
        choices.push(choice(json!({}), json!(completion.finish_reason())));
        let mut chunks: Vec<Value> =
            choices.into_iter().map(|choices| chunk(completion, &choices, Value::Null)).collect();
        if completion.include_usage {
            chunks.push(chunk(completion, &json!([]), usage(completion)));
        }
        let data = chunks.iter().map(Value::to_string).chain(["[DONE]".to_owned()]);
        data.map(|data| format!("data: {data}\n\n").into_bytes()).collect()
    }

    fn overload(&self) -> Vec<u8> {
        let error = json!({"error": {"message": "The server is overloaded.", "type": "server_error"}});
        format!("data: {error}\n\n").into_bytes()
    }

    /// `{"error": {"message", "type", "param", "code"}}`
    fn error(&self, refusal: &Refusal) -> Response {
        let Refusal { message, kind, param, code, .. } = refusal;
        Json(json!({"error": {"message": message, "type": kind, "param": param, "code": code}}))
            .into_response()
    }

    fn too_long(&self, limit: u64, requested: u64) -> String {
        format!(
            "This model's maximum context length is {limit} tokens. However, your messages resulted in {requested} tokens. Please reduce the length of the messages."
        )
    }
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

/// The fields of a request.
const FIELDS: &str = "model messages stream stream_options tools tool_choice parallel_tool_calls max_tokens \
    max_completion_tokens temperature top_p stop user";

fn check_limits(body: &Value) -> Result<(), Refusal> {
    const NAMES: [&str; 2] = ["max_tokens", "max_completion_tokens"];
    for name in NAMES {
        if !body[name].is_null() && body[name].as_u64().is_none_or(|limit| limit == 0) {
            let message = format!("Invalid '{name}': expected an integer >= 1.");
            return Err(Refusal::bad(name, message));
        }
    }
    if NAMES.iter().all(|name| !body[*name].is_null()) {
        let message = "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.";
        return Err(Refusal::bad("max_tokens", message));
    }
    Ok(())
}

fn usage(completion: &Completion) -> Value {
    json!({
        "prompt_tokens": completion.prompt_tokens,
        "completion_tokens": completion.output_tokens(),
        "total_tokens": completion.prompt_tokens + completion.output_tokens(),
        "prompt_tokens_details": {"cached_tokens": completion.cached.read, "audio_tokens": 0},
    })
}

fn chunk(completion: &Completion, choices: &Value, usage: Value) -> Value {
    let mut chunk = json!({
        "id": completion.id,
        "object": "chat.completion.chunk",
        "created": 1_763_765_920,
        "model": completion.model,
        "choices": choices,
    });
    if completion.include_usage {
        chunk["usage"] = usage;
    }
    chunk
}
