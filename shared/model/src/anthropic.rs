//! Anthropic's Messages API.
//!
//! ```text
//! POST <base>/messages   x-api-key: <key>   anthropic-version: 2023-06-01
//! {"model": "claude-sonnet-4-5", "max_tokens": 16384, "stream": true,
//!  "system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
//!  "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]}
//!
//! event: message_start         data: {"type": "message_start", "message": {"usage": {"input_tokens": 20, …}, …}}
//! event: content_block_start   data: {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
//! event: content_block_delta   data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}
//! event: content_block_stop    data: {"type": "content_block_stop", "index": 0}
//! event: message_delta         data: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
//! event: message_stop          data: {"type": "message_stop"}
//! ```
//!
//! The request up to a `cache_control` is cached for five minutes, with at most four of them; writing to the cache costs a
//! quarter more, reading from it a tenth. Sources: "Messages", "Streaming messages", "Prompt
//! caching" and "Extended thinking" of Anthropic's documentation.

use annals_io::recorder::Purpose;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::answer::{Finish, PartialAnswer, tokens};
use super::conversation::{Block, Conversation};
use super::frames::Frame;
use super::provider::{Endpoint, Provider};
use super::question::Tool;

const VERSION: &str = "2023-06-01";

/// Maximum tokens of an answer: more than a chat needs, with space for thoughts. The first models of the third generation
/// accept no more than [`OLD_MAX_TOKENS`].
const MAX_TOKENS: u32 = 16_384;
const OLD_MAX_TOKENS: u32 = 4096;
const OLD_MODELS: [&str; 4] = ["claude-2", "claude-3-opus", "claude-3-sonnet", "claude-3-haiku"];
/// The models in between accept this.
const LESS_OLD_MAX_TOKENS: u32 = 8192;
const LESS_OLD_MODELS: &str = "claude-3-5";

/// `anthropic:<model>`
#[derive(Debug)]
pub(super) struct Anthropic;

impl Provider for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn base_url(&self, _region: Option<&str>) -> Option<String> {
        Some("https://api.anthropic.com/v1".into())
    }

    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        vec![("anthropic-version", VERSION.into()), ("x-api-key", key.unwrap_or_default().into())]
    }

    fn marks_cache(&self) -> bool {
        true
    }

    fn request(&self, endpoint: &Endpoint<'_>, conversation: &Conversation<'_>) -> (String, Value) {
        let url = format!("{}/messages", endpoint.base_url);
        (url, body(endpoint.model, conversation, endpoint.marks_cache))
    }

    fn read_frame(&self, frame: &Frame, answer: &mut PartialAnswer<'_>) {
        piece(&frame.data, answer);
    }

    fn read_whole(&self, Frame { data: body, .. }: &Frame, answer: &mut PartialAnswer<'_>) {
        for (number, block) in (0_u64..).zip(body["content"].as_array().into_iter().flatten()) {
            piece(&json!({"type": "content_block_start", "index": number, "content_block": block}), answer);
            if let Some(input) = block.get("input") {
                answer.call(number, None, None, &input.to_string());
            }
        }
        count(&body["usage"], answer);
        answer.finish = body["stop_reason"].as_str().map(finish);
    }
}

/// Returns the request's body; `marks` adds the places up to which the provider caches it.
fn body(model: &str, conversation: &Conversation<'_>, marks: bool) -> Value {
    let max_tokens = conversation.max_tokens.unwrap_or_else(|| max_tokens(model));
    let mut body = json!({"model": model, "max_tokens": max_tokens, "stream": true});
    // The request for a summary is not repeated.
    let marks = marks && conversation.purpose == Purpose::Answer;
    if !conversation.tools.is_empty() {
        let mut tools: Vec<Value> = conversation.tools.iter().map(tool).collect();
        if let Some(last) = tools.last_mut().filter(|_| marks) {
            mark(last);
        }
        body["tools"] = tools.into();
        // Earlier calls can only be sent with the tools.
        if conversation.must_answer {
            body["tool_choice"] = json!({"type": "none"});
        }
    }
    if let Some(system) = conversation.system.filter(|system| !system.trim().is_empty()) {
        let mut system = json!({"type": "text", "text": system});
        if marks {
            mark(&mut system);
        }
        body["system"] = json!([system]);
    }
    let mark_last = |content: &mut Vec<Value>| content.last_mut().into_iter().for_each(mark);
    body["messages"] = conversation.messages(("assistant", "content"), block, marks, mark_last);
    body
}

fn max_tokens(model: &str) -> u32 {
    match model {
        old if OLD_MODELS.iter().any(|name| old.starts_with(name)) => OLD_MAX_TOKENS,
        less if less.starts_with(LESS_OLD_MODELS) => LESS_OLD_MAX_TOKENS,
        _ => MAX_TOKENS,
    }
}

fn mark(block: &mut Value) {
    block["cache_control"] = json!({"type": "ephemeral"});
}

fn tool(tool: &Tool) -> Value {
    json!({"name": tool.name, "description": tool.description, "input_schema": tool.input_schema})
}

fn block(block: &Block<'_>) -> Vec<Value> {
    vec![match block {
        Block::Text(text) => json!({"type": "text", "text": text}),
        Block::Image(image) => {
            let data = STANDARD.encode(&image.bytes);
            let source = json!({"type": "base64", "media_type": image.media_type, "data": data});
            json!({"type": "image", "source": source})
        }
        Block::Call(id, call) => {
            json!({"type": "tool_use", "id": id, "name": call.name, "input": object(&call.input)})
        }
        Block::Result { id, text, .. } => {
            json!({"type": "tool_result", "tool_use_id": id, "content": text})
        }
        Block::Reasoning(reasoning) => return reasoning.blocks.clone(),
    }]
}

/// Returns arguments as an object, which the API requires, even if the model made none.
pub(super) fn object(input: &Value) -> Value {
    match input {
        Value::Object(_) => input.clone(),
        input => json!({"input": input}),
    }
}

/// Adds a piece of a stream.
fn piece(data: &Value, partial: &mut PartialAnswer<'_>) {
    let number = data["index"].as_u64().unwrap_or_default();
    match data["type"].as_str().unwrap_or_default() {
        "message_start" => count(&data["message"]["usage"], partial),
        "content_block_start" => {
            let block = &data["content_block"];
            match block["type"].as_str().unwrap_or_default() {
                "tool_use" => partial.call(number, block["id"].as_str(), block["name"].as_str(), ""),
                "thinking" | "redacted_thinking" => {
                    partial.reasoning(block["thinking"].as_str().unwrap_or_default());
                    partial.blocks.push(block.clone());
                }
                _ => partial.text(block["text"].as_str().unwrap_or_default()),
            }
        }
        "content_block_delta" => {
            let delta = &data["delta"];
            let text = |name: &str| delta[name].as_str().unwrap_or_default();
            match text("type") {
                "text_delta" => partial.text(text("text")),
                "input_json_delta" => partial.call(number, None, None, text("partial_json")),
                "thinking_delta" => {
                    partial.reasoning(text("thinking"));
                    append(&mut partial.blocks, "thinking", text("thinking"));
                }
                "signature_delta" => append(&mut partial.blocks, "signature", text("signature")),
                _ => {}
            }
        }
        "message_delta" => {
            count(&data["usage"], partial);
            partial.finish = data["delta"]["stop_reason"].as_str().map(finish).or(partial.finish);
        }
        "message_stop" => partial.is_over = true,
        // `content_block_stop`, `ping`, and what later versions add.
        _ => {}
    }
}

fn append(blocks: &mut [Value], name: &str, delta: &str) {
    let Some(Value::Object(block)) = blocks.last_mut() else { return };
    let so_far: &mut Value = block.entry(name).or_insert_with(|| "".into());
    *so_far = format!("{}{delta}", so_far.as_str().unwrap_or_default()).into();
}

/// Returns the reason of Anthropic or Bedrock.
pub(super) fn finish(reason: &str) -> Finish {
    match reason {
        "end_turn" | "stop_sequence" => Finish::Stop,
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "refusal" | "guardrail_intervened" | "content_filtered" => Finish::ContentFilter,
        "tool_use" => Finish::ToolCalls,
        _ => Finish::Other,
    }
}

/// Adds the counts in `usage`: they come in two pieces, and later ones are totals. `input_tokens` does not include tokens that
/// were read from a cache, or put there.
fn count(usage: &Value, partial: &mut PartialAnswer<'_>) {
    let number = |name: &str| tokens(&usage[name]);
    let mut counts = partial.usage.unwrap_or_default();
    if let Some(input) = number("input_tokens") {
        let (read, written) =
            (number("cache_read_input_tokens"), number("cache_creation_input_tokens").unwrap_or_default());
        // A later piece may have only some.
        let sum = input.saturating_add(read.unwrap_or_default()).saturating_add(written);
        counts.input_tokens = counts.input_tokens.max(sum);
        counts.cached_input_tokens = read.or(counts.cached_input_tokens);
    }
    counts.output_tokens = number("output_tokens").unwrap_or(counts.output_tokens);
    if usage.as_object().is_some_and(|usage| !usage.is_empty()) {
        partial.usage = Some(counts);
    }
}
