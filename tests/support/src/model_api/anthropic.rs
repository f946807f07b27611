//! Anthropic's Messages API: what a request must be, and what an answer is.
//!
//! Stricter than the real one in one thing: there, what one side says in a row is joined; here it is refused, as it once
//! was there. Sources: "Messages", "Streaming messages", "Tool use", "Extended thinking" and "Prompt caching".

use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::blocks::{check_fields, check_image, check_mark_count, check_root, is_blank, is_id};
use super::check::{check_messages, is_tool_name};
use super::wire::{Completion, Refusal, Said, words};
use super::{API_KEY, bad};

pub(super) fn check_key(headers: &HeaderMap, any_key: bool) -> Result<(), Refusal> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if header("anthropic-version") != Some("2023-06-01") {
        return Err(bad("anthropic-version: header is required"));
    }
    if any_key || header("x-api-key") == Some(API_KEY) {
        return Ok(());
    }
    Err(Refusal::new(StatusCode::UNAUTHORIZED, "invalid x-api-key"))
}

/// The request as OpenAI would be sent it.
pub(super) fn check_body(body: &Value, is_signed: impl Fn(&str, &str) -> bool) -> Result<Value, Refusal> {
    const FIELDS: [&str; 10] = [
        "model",
        "max_tokens",
        "messages",
        "system",
        "tools",
        "tool_choice",
        "stream",
        "temperature",
        "stop_sequences",
        "metadata",
    ];
    check_fields("request", body, &FIELDS, &["model", "max_tokens", "messages"])?;
    let Some(model) = body["model"].as_str().filter(|model| !model.is_empty()) else {
        return Err(bad("model: Input should be a valid string"));
    };
    let Some(max_tokens) = body["max_tokens"].as_u64().filter(|limit| *limit > 0) else {
        return Err(bad("max_tokens: Input should be greater than or equal to 1"));
    };
    let most = if model.starts_with("claude-3-haiku") { 4096 } else { 64_000 };
    if max_tokens > most {
        return Err(bad(format!(
            "max_tokens: {max_tokens} > {most}, which is the maximum allowed number of output tokens for {model}"
        )));
    }
    check_mark_count(body, "cache_control", 4)?;
    let mut messages = Vec::new();
    match &body["system"] {
        Value::Null => {}
        Value::String(text) if !is_blank(text) => messages.push(json!({"role": "system", "content": text})),
        Value::Array(blocks) if !blocks.is_empty() => {
            let texts = blocks.iter().map(|block| {
                check_block("system", block, "user")?;
                block["text"].as_str().ok_or_else(|| bad("system: only text is allowed"))
            });
            let text = texts.collect::<Result<Vec<_>, _>>()?.join("\n\n");
            messages.push(json!({"role": "system", "content": text}));
        }
        _ => return Err(bad("system: text content blocks must be non-empty")),
    }
    let said = body["messages"].as_array().filter(|messages| !messages.is_empty());
    let said = said.ok_or_else(|| bad("messages: at least one message is required"))?;
    for (at, message) in said.iter().enumerate() {
        let wanted = if at % 2 == 0 { "user" } else { "assistant" };
        check_fields("message", message, &["role", "content"], &["role", "content"])?;
        if message["role"] != wanted {
            let problem =
                if at == 0 { "first message must use the \"user\" role" } else { "roles must alternate" };
            return Err(bad(format!("messages.{at}: {problem}")));
        }
        messages.extend(neutral(at, message, &is_signed)?);
    }
    check_messages(&messages)?;
    let has_calls = messages.iter().any(|message| !message["tool_calls"].is_null());
    if has_calls && body["tools"].is_null() {
        return Err(bad("Requests which include `tool_use` or `tool_result` blocks must define tools"));
    }
    let mut neutral =
        json!({"model": model, "max_tokens": max_tokens, "messages": messages, "stream": body["stream"]});
    if !body["tools"].is_null() {
        let tools = check_tools(&body["tools"])?;
        // What may not be called is as good as not offered.
        if body["tool_choice"]["type"] != "none" {
            neutral["tools"] = tools;
        }
    } else if !body["tool_choice"].is_null() {
        return Err(bad("tool_choice: tools are required"));
    }
    Ok(neutral)
}

fn check_tools(tools: &Value) -> Result<Value, Refusal> {
    let tools = tools.as_array().filter(|tools| !tools.is_empty());
    let tools = tools.ok_or_else(|| bad("tools: List should have at least 1 item"))?;
    let mut names = std::collections::HashSet::new();
    let neutral = tools.iter().map(|tool| {
        let fields = ["name", "description", "input_schema", "cache_control"];
        check_fields("tool", tool, &fields, &["name", "input_schema"])?;
        if !is_tool_name(&tool["name"]) || tool["input_schema"]["type"] != "object" {
            return Err(bad("tools: name or input_schema is invalid"));
        }
        check_root(&tool["input_schema"])?;
        if !names.insert(tool["name"].as_str()) {
            return Err(bad("tools: Tool names must be unique."));
        }
        let (name, description) = (&tool["name"], &tool["description"]);
        let function = json!({"name": name, "description": description, "parameters": tool["input_schema"]});
        Ok(json!({"type": "function", "function": function}))
    });
    neutral.collect()
}

fn check_block(place: &str, block: &Value, role: &str) -> Result<(), Refusal> {
    let kind = block["type"].as_str().unwrap_or_default();
    let fields: &[&str] = match (kind, role) {
        ("text", _) => &["text"],
        ("image", "user") => &["source"],
        ("tool_use", "assistant") => &["id", "name", "input"],
        ("tool_result", "user") => &["tool_use_id", "content"],
        ("thinking", "assistant") => &["thinking", "signature"],
        ("redacted_thinking", "assistant") => &["data"],
        _ => return Err(bad(format!("{place}: a block of {role} cannot be {kind:?}"))),
    };
    let marks: &[&str] = if kind.ends_with("thinking") { &[] } else { &["cache_control"] };
    check_fields(place, block, &[&["type"], fields, marks, &["is_error"]].concat(), fields)?;
    let mark = &block["cache_control"];
    if !mark.is_null() && mark["type"] != "ephemeral" {
        return Err(bad("cache_control: Input tag must be 'ephemeral'"));
    }
    let is_good = match kind {
        "text" => block["text"].as_str().is_some_and(|text| !is_blank(text)),
        "image" => {
            block["source"]["type"] == "base64"
                && check_image(&block["source"]["media_type"], &block["source"]["data"])
        }
        "tool_use" => is_id(&block["id"]) && is_tool_name(&block["name"]) && block["input"].is_object(),
        "tool_result" => {
            is_id(&block["tool_use_id"]) && block["content"].as_str().is_some_and(|text| !is_blank(text))
        }
        _ => true,
    };
    if is_good {
        Ok(())
    } else {
        Err(bad(format!("{place}: {kind} content blocks must be non-empty and valid")))
    }
}

/// One message as OpenAI's messages.
fn neutral(
    at: usize,
    message: &Value,
    is_signed: &impl Fn(&str, &str) -> bool,
) -> Result<Vec<Value>, Refusal> {
    let place = format!("messages.{at}");
    let role = message["role"].as_str().unwrap_or_default();
    let blocks = match &message["content"] {
        Value::String(text) if !is_blank(text) => return Ok(vec![json!({"role": role, "content": text})]),
        Value::Array(blocks) if !blocks.is_empty() => blocks,
        _ => return Err(bad(format!("{place}: all messages must have non-empty content"))),
    };
    let (mut neutral, mut parts, mut calls, mut thoughts) =
        (Vec::new(), Vec::new(), Vec::new(), String::new());
    for block in blocks {
        check_block(&place, block, role)?;
        match block["type"].as_str().unwrap_or_default() {
            "text" => parts.push(json!({"type": "text", "text": block["text"]})),
            "image" => {
                parts.push(json!({"type": "image_url", "image_url": {"url": block["source"]["data"]}}));
            }
            "tool_use" => {
                let function = json!({"name": block["name"], "arguments": block["input"].to_string()});
                calls.push(json!({"id": block["id"], "type": "function", "function": function}));
            }
            "tool_result" => {
                if !parts.is_empty() {
                    return Err(bad(format!("{place}: tool_result blocks must come first")));
                }
                let (id, content) = (&block["tool_use_id"], &block["content"]);
                neutral.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
            }
            "thinking" => {
                let text = |name: &str| block[name].as_str().unwrap_or_default();
                if !is_signed(text("thinking"), text("signature")) {
                    return Err(bad(format!("{place}: Invalid `signature` in `thinking` block")));
                }
                if !(parts.is_empty() && calls.is_empty()) {
                    return Err(bad(format!("{place}: thinking must come first")));
                }
                thoughts.push_str(text("thinking"));
            }
            _ => {}
        }
    }
    let text = parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n");
    let content = match role {
        // The words of a user's blocks are one text.
        "user" if parts.iter().all(|part| part["type"] == "text") => json!(text),
        "assistant" => json!(text),
        _ => json!(parts),
    };
    if !calls.is_empty() {
        neutral.push(
            json!({"role": role, "content": content, "tool_calls": calls, "reasoning_content": thoughts}),
        );
    } else if !parts.is_empty() {
        neutral.push(json!({"role": role, "content": content}));
    }
    Ok(neutral)
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

pub(super) fn whole(completion: &Completion) -> Value {
    message(completion, &content(completion), Some(stop_reason(completion)), completion.output_tokens())
}

pub(super) fn pieces(completion: &Completion) -> Vec<Vec<u8>> {
    let start = message(completion, &[], None, 1);
    let mut events = vec![json!({"type": "message_start", "message": start}), json!({"type": "ping"})];
    for (index, block) in content(completion).into_iter().enumerate() {
        let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
        let (empty, deltas): (Value, Vec<Value>) = match block["type"].as_str().unwrap_or_default() {
            "thinking" => {
                let thinking = text("thinking");
                let words = words(&thinking).map(|word| json!({"type": "thinking_delta", "thinking": word}));
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

/// `event: <type>` and the data.
pub(super) fn event(data: &Value) -> Vec<u8> {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default()).into_bytes()
}
