//! Chat completions of OpenAI and compatible servers.
//!
//! ```text
//! POST <base>/chat/completions   Authorization: Bearer <key>
//! {"model": "gpt-5-mini", "stream": true, "stream_options": {"include_usage": true}, "messages": [
//!   {"role": "system", "content": "Be kind."}, {"role": "user", "content": "hello"}]}
//!
//! data: {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": null}], "usage": null}
//! data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
//! data: {"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}}}
//! data: [DONE]
//! ```
//!
//! Source: OpenAI's API reference, "Chat Completions". Differences of other servers are noted where the code handles them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::answer::{Finish, PartialAnswer, Usage, tokens};
use super::conversation::{Block, Conversation, Speaker, Turn};
use super::failure;
use super::frames::{DONE, Frame};
use super::provider::{Endpoint, Provider};
use super::question::Tool;

/// `openai:<model>`. The optional part of a request is `stream_options`.
#[derive(Debug)]
pub(super) struct OpenAi;

impl Provider for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn base_url(&self, _region: Option<&str>) -> Option<String> {
        Some("https://api.openai.com/v1".into())
    }

    fn request(&self, endpoint: &Endpoint<'_>, conversation: &Conversation<'_>) -> (String, Value) {
        let url = format!("{}/chat/completions", endpoint.base_url);
        (url, body(endpoint.model, conversation, endpoint.with_option))
    }

    fn refuses_option(&self, status: u16, body: &str) -> bool {
        failure::refuses_stream_options(status, body)
    }

    fn read_frame(&self, frame: &Frame, answer: &mut PartialAnswer<'_>) {
        if frame.event == DONE {
            answer.is_over = true;
        } else {
            choice(&frame.data, "delta", answer);
        }
    }

    fn read_whole(&self, body: &Frame, answer: &mut PartialAnswer<'_>) {
        choice(&body.data, "message", answer);
    }
}

/// Returns the request's body. With `counts` it asks for usage, which a stream has only on request.
fn body(model: &str, conversation: &Conversation<'_>, counts: bool) -> Value {
    let mut body = json!({"model": model, "stream": true});
    if counts {
        body["stream_options"] = json!({"include_usage": true});
    }
    if let Some(max_tokens) = conversation.max_tokens {
        body[limit_name(model)] = max_tokens.into();
    }
    // Not every server knows `tool_choice`; without tools none can be called, and the calls so far may stand.
    if !conversation.tools.is_empty() && !conversation.must_answer {
        body["tools"] = conversation.tools.iter().map(tool).collect();
    }
    let system = conversation.system.map(|system| json!({"role": "system", "content": system}));
    body["messages"] = system.into_iter().chain(conversation.turns.iter().flat_map(messages)).collect();
    body
}

/// OpenAI's models that reason take no `max_tokens`, and other servers know no other name.
fn limit_name(model: &str) -> &'static str {
    let is_from = |prefix: &str, version: char| {
        let next = model.strip_prefix(prefix).and_then(|rest| rest.chars().next());
        next.is_some_and(|digit| digit.is_ascii_digit() && digit >= version)
    };
    if is_from("gpt-", '5') || is_from("o", '1') { "max_completion_tokens" } else { "max_tokens" }
}

fn tool(tool: &Tool) -> Value {
    json!({
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
    })
}

fn messages(turn: &Turn<'_>) -> Vec<Value> {
    let texts = turn.blocks.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    if turn.speaker == Speaker::Assistant {
        return vec![assistant(turn, &text)];
    }
    let results = turn.blocks.iter().filter_map(|block| match block {
        Block::Result { id, text, .. } => Some(json!({"role": "tool", "tool_call_id": id, "content": text})),
        _ => None,
    });
    let has_images = turn.blocks.iter().any(|block| matches!(block, Block::Image(_)));
    // A plain string if there are no images: not every server accepts parts.
    let content = if has_images { Value::Array(parts(&turn.blocks)) } else { text.into() };
    let has_content = !turn.blocks.iter().all(|block| matches!(block, Block::Result { .. }));
    let said = has_content.then(|| json!({"role": "user", "content": content}));
    results.chain(said).collect()
}

fn parts(blocks: &[Block<'_>]) -> Vec<Value> {
    let part = |block: &Block<'_>| match block {
        Block::Text(text) => Some(json!({"type": "text", "text": text})),
        Block::Image(image) => {
            let url = format!("data:{};base64,{}", image.media_type, STANDARD.encode(&image.bytes));
            Some(json!({"type": "image_url", "image_url": {"url": url}}))
        }
        Block::Reasoning(_) | Block::Call(..) | Block::Result { .. } => None,
    };
    blocks.iter().filter_map(part).collect()
}

fn assistant(turn: &Turn<'_>, text: &str) -> Value {
    let mut message = json!({"role": "assistant", "content": text});
    let calls = turn.blocks.iter().filter_map(|block| match block {
        Block::Call(id, call) => Some(json!({
            "id": id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.input.to_string()},
        })),
        _ => None,
    });
    let calls: Vec<Value> = calls.collect();
    if !calls.is_empty() {
        if text.is_empty() {
            message["content"] = Value::Null;
        }
        message["tool_calls"] = calls.into();
    }
    // Kimi and DeepSeek want back what they thought.
    let thought = turn.blocks.iter().find_map(|block| match block {
        Block::Reasoning(reasoning) if !reasoning.text.is_empty() => Some(reasoning.text.as_str()),
        _ => None,
    });
    if let Some(thought) = thought {
        message["reasoning_content"] = thought.into();
    }
    message
}

/// Adds the content under `name` of the first choice of `data`; there is no other.
fn choice(data: &Value, name: &str, partial: &mut PartialAnswer<'_>) {
    let choice = &data["choices"][0];
    let said = &choice[name];
    // Ollama and OpenRouter name it otherwise.
    for field in ["reasoning_content", "reasoning"] {
        if let Some(text) = said[field].as_str().filter(|text| !text.is_empty()) {
            partial.reasoning(text);
            break;
        }
    }
    match &said["content"] {
        Value::String(text) => partial.text(text),
        // Mistral's models that reason: `{"type": "thinking", "thinking": [{"type": "text", …}]}`.
        Value::Array(parts) => {
            for part in parts {
                part["text"].as_str().into_iter().for_each(|text| partial.text(text));
                let thoughts = part["thinking"].as_array().into_iter().flatten();
                thoughts.filter_map(|part| part["text"].as_str()).for_each(|text| partial.reasoning(text));
            }
        }
        _ => {}
    }
    for call in said["tool_calls"].as_array().into_iter().flatten() {
        let (id, function) = (call["id"].as_str(), &call["function"]);
        // Without a number, an id starts a call.
        let number = call["index"].as_u64().unwrap_or_else(|| match partial.last_call() {
            Some(last) if id.is_none() => last,
            _ => partial.next_call(),
        });
        let arguments = match &function["arguments"] {
            Value::String(arguments) => arguments.clone(),
            Value::Null => String::new(),
            // Some local servers give the object itself.
            arguments => arguments.to_string(),
        };
        partial.call(number, id, function["name"].as_str(), &arguments);
    }
    // Some servers say `""` of a piece that is not the last.
    if let Some(reason) = choice["finish_reason"].as_str().filter(|reason| !reason.is_empty()) {
        partial.finish = Some(match reason {
            "stop" => Finish::Stop,
            "length" => Finish::Length,
            "content_filter" => Finish::ContentFilter,
            "tool_calls" | "function_call" => Finish::ToolCalls,
            _ => Finish::Other,
        });
    }
    partial.usage = usage(&data["usage"]).or(partial.usage);
}

fn usage(usage: &Value) -> Option<Usage> {
    // OpenAI's place, DeepSeek's and Kimi's.
    let cached = [
        &usage["prompt_tokens_details"]["cached_tokens"],
        &usage["prompt_cache_hit_tokens"],
        &usage["cached_tokens"],
    ];
    Some(Usage {
        input_tokens: tokens(&usage["prompt_tokens"])?,
        output_tokens: tokens(&usage["completion_tokens"])?,
        cached_input_tokens: cached.into_iter().find_map(tokens),
        ..Usage::default()
    })
}
