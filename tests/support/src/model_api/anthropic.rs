//! Anthropic's Messages API: its rules for requests, and its answers.
//!
//! Stricter than the real one in one thing: there, what one side says in a row is joined; here it is refused, as it once
//! was there. Sources: "Messages", "Streaming messages", "Tool use", "Extended thinking" and "Prompt caching".

use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde_json::{Value, json};

use super::api::{Api, EVENTS, Facts, Request};
use super::blocks::{Block, conversation, function};
use super::cache::Mark;
use super::check::{API_KEY, check_fields, check_image, check_mark_count, check_tools, is_blank, is_name};
use super::completion::{Completion, Said, words};
use super::refusal::{Refusal, bad};
use super::state::Stored;

pub(super) struct Anthropic;

impl Api for Anthropic {
    fn facts(&self) -> Facts {
        Facts {
            model: "anthropic:claude-sonnet-4-5",
            path: "/anthropic/v1",
            route: "/messages",
            content_type: EVENTS,
            no_images: "This model does not support image input.",
        }
    }

    fn check_key(&self, request: &Request<'_>) -> Result<(), Refusal> {
        if request.header("anthropic-version") != "2023-06-01" {
            return Err(bad("anthropic-version: header is required"));
        }
        if request.header("x-api-key") == API_KEY {
            return Ok(());
        }
        Err(Refusal::new(StatusCode::UNAUTHORIZED, "invalid x-api-key"))
    }

    fn check(&self, _request: &Request<'_>, body: &Value, state: &Stored) -> Result<Value, Refusal> {
        let needed = ["model", "max_tokens", "messages"];
        let more = ["system", "tools", "tool_choice", "stream", "temperature", "stop_sequences", "metadata"];
        check_fields("request", body, &[&needed[..], &more].concat(), &needed)?;
        let Some(model) = body["model"].as_str().filter(|model| !model.is_empty()) else {
            return Err(bad("model: Input should be a valid string"));
        };
        let most = if model.starts_with("claude-3-haiku") { 4096 } else { 64_000 };
        let Some(max_tokens) = body["max_tokens"].as_u64().filter(|limit| (1..=most).contains(limit)) else {
            return Err(bad(format!("max_tokens: Input should be from 1 to {most} for {model}")));
        };
        check_mark_count(body, "cache_control", 4)?;
        let mut system = Vec::new();
        match &body["system"] {
            Value::Null => {}
            Value::Array(blocks) if !blocks.is_empty() => {
                let texts = blocks.iter().map(|block| match read("user", block)? {
                    Block::Text(text) => {
                        text.as_str().filter(|text| !is_blank(text)).ok_or_else(|| bad("system: blank"))
                    }
                    _ => Err(bad("system: only text is allowed")),
                });
                let text = texts.collect::<Result<Vec<_>, _>>()?.join("\n\n");
                system.push(json!({"role": "system", "content": text}));
            }
            _ => return Err(bad("system: text content blocks must be non-empty")),
        }
        let has_tools = !body["tools"].is_null();
        let messages = conversation(system, &body["messages"], has_tools, state, read)?;
        let mut neutral =
            json!({"model": model, "max_tokens": max_tokens, "messages": messages, "stream": body["stream"]});
        if has_tools {
            neutral["tools"] = tools(&body["tools"])?;
            check_tools(&neutral)?;
            // What may not be called is as good as not offered.
            if body["tool_choice"]["type"] == "none" {
                neutral.as_object_mut().unwrap().remove("tools");
            }
        } else if !body["tool_choice"].is_null() {
            return Err(bad("tool_choice: tools are required"));
        }
        Ok(neutral)
    }

    fn take_mark(&self) -> Option<fn(&mut Value) -> Mark> {
        Some(|block| {
            let mark = block.as_object_mut().and_then(|block| block.remove("cache_control"));
            if mark.is_some() { Mark::On } else { Mark::None }
        })
    }

    fn whole(&self, completion: &Completion) -> Value {
        message(completion, &content(completion), Some(stop_reason(completion)), completion.output_tokens())
    }

    fn pieces(&self, completion: &Completion) -> Vec<Vec<u8>> {
        let start = message(completion, &[], None, 1);
        let mut events = vec![json!({"type": "message_start", "message": start}), json!({"type": "ping"})];
        for (index, block) in content(completion).into_iter().enumerate() {
            let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
            let (empty, deltas): (Value, Vec<Value>) = match block["type"].as_str().unwrap_or_default() {
                "thinking" => {
                    let thinking = text("thinking");
                    let words =
                        words(&thinking).map(|word| json!({"type": "thinking_delta", "thinking": word}));
                    let signature = json!({"type": "signature_delta", "signature": text("signature")});
                    (
                        json!({"type": "thinking", "thinking": "", "signature": ""}),
                        words.chain([signature]).collect(),
                    )
                }
                "text" => {
                    let text = text("text");
                    let words = words(&text).map(|word| json!({"type": "text_delta", "text": word}));
                    (json!({"type": "text", "text": ""}), words.collect())
                }
                _ => {
                    let input = block["input"].to_string();
                    let words =
                        words(&input).map(|word| json!({"type": "input_json_delta", "partial_json": word}));
                    let empty = json!({"type": "input_json_delta", "partial_json": ""});
                    let start =
                        json!({"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}});
                    (start, [empty].into_iter().chain(words).collect())
                }
            };
            events.push(json!({"type": "content_block_start", "index": index, "content_block": empty}));
            events.extend(
                deltas
                    .into_iter()
                    .map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
            );
            events.push(json!({"type": "content_block_stop", "index": index}));
        }
        let delta = json!({"stop_reason": stop_reason(completion), "stop_sequence": null});
        let usage = json!({"output_tokens": completion.output_tokens()});
        events.push(json!({"type": "message_delta", "delta": delta, "usage": usage}));
        events.push(json!({"type": "message_stop"}));
        events.iter().map(event).collect()
    }

    fn overload(&self) -> Vec<u8> {
        let error = json!({"type": "overloaded_error", "message": "Overloaded"});
        event(&json!({"type": "error", "error": error}))
    }

    /// `{"type": "error", "error": {"type", "message"}}`
    fn error(&self, refusal: &Refusal) -> Response {
        let kind = match refusal.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            500.. => "api_error",
            _ => "invalid_request_error",
        };
        Json(json!({"type": "error", "error": {"type": kind, "message": refusal.message}})).into_response()
    }

    fn too_long(&self, limit: u64, requested: u64) -> String {
        format!("prompt is too long: {requested} tokens > {limit} maximum")
    }
}

/// Returns the tools in OpenAI's form.
fn tools(tools: &Value) -> Result<Value, Refusal> {
    let neutral = tools.as_array().into_iter().flatten().map(|tool| {
        let fields = ["name", "description", "input_schema", "cache_control"];
        check_fields("tool", tool, &fields, &["name", "input_schema"])?;
        Ok(function(&tool["name"], &tool["description"], &tool["input_schema"]))
    });
    neutral.collect()
}

/// Checks a block of a message of `role`, and reads it.
fn read<'a>(role: &str, block: &'a Value) -> Result<Block<'a>, Refusal> {
    let kind = block["type"].as_str().unwrap_or_default();
    let fields: &[&str] = match (kind, role) {
        ("text", _) => &["text"],
        ("image", "user") => &["source"],
        ("tool_use", "assistant") => &["id", "name", "input"],
        ("tool_result", "user") => &["tool_use_id", "content"],
        ("thinking", "assistant") => &["thinking", "signature"],
        ("redacted_thinking", "assistant") => &["data"],
        _ => return Err(bad(format!("a block of {role} cannot be {kind:?}"))),
    };
    let marks: &[&str] = if kind.ends_with("thinking") { &[] } else { &["cache_control"] };
    check_fields(kind, block, &[&["type"], fields, marks, &["is_error"]].concat(), fields)?;
    let mark = &block["cache_control"];
    if !mark.is_null() && mark["type"] != "ephemeral" {
        return Err(bad("cache_control: Input tag must be 'ephemeral'"));
    }
    let text = |name: &str| block[name].as_str().unwrap_or_default();
    let (source, id) = (&block["source"], &block["id"]);
    Ok(match kind {
        "text" => Block::Text(&block["text"]),
        "image" if source["type"] == "base64" && check_image(&source["media_type"], &source["data"]) => {
            Block::Image(&source["data"])
        }
        "tool_use" if is_name(id) && is_name(&block["name"]) && block["input"].is_object() => {
            Block::Call { id, name: &block["name"], input: &block["input"] }
        }
        "tool_result" if is_name(&block["tool_use_id"]) && !is_blank(text("content")) => {
            Block::Result { id: &block["tool_use_id"], content: &block["content"] }
        }
        "thinking" => Block::Thought { text: text("thinking"), signature: text("signature") },
        "redacted_thinking" => Block::Other,
        _ => return Err(bad(format!("{kind} content blocks must be non-empty and valid"))),
    })
}

fn stop_reason(completion: &Completion) -> &'static str {
    match completion.finish_reason() {
        "length" => "max_tokens",
        "content_filter" => "refusal",
        "tool_calls" => "tool_use",
        _ => "end_turn",
    }
}

/// The content of an answer: thoughts, then the text or the calls.
fn content(completion: &Completion) -> Vec<Value> {
    let thought = completion.thought.iter().map(
        |(thinking, signature)| json!({"type": "thinking", "thinking": thinking, "signature": signature}),
    );
    let text = match &completion.said {
        Said::Text(text, _) => Some(json!({"type": "text", "text": text})),
        Said::Calls(_) => None,
    };
    let calls = completion.calls().into_iter();
    let calls =
        calls.map(|(id, name, input)| json!({"type": "tool_use", "id": id, "name": name, "input": input}));
    thought.chain(text).chain(calls).collect()
}

fn usage(completion: &Completion, output: u64) -> Value {
    let cached = completion.cached;
    json!({
        "input_tokens": completion.prompt_tokens - cached.read - cached.written,
        "cache_creation_input_tokens": cached.written,
        "cache_read_input_tokens": cached.read,
        "output_tokens": output,
    })
}

fn message(completion: &Completion, content: &[Value], stop_reason: Option<&str>, output: u64) -> Value {
    json!({
        "id": completion.id, "type": "message", "role": "assistant", "model": completion.model, "content": content,
        "stop_reason": stop_reason, "stop_sequence": null, "usage": usage(completion, output),
    })
}

/// `event: <type>` and the data.
fn event(data: &Value) -> Vec<u8> {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default()).into_bytes()
}
