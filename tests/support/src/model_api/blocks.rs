//! Messages that are lists of blocks, as those of Anthropic and Bedrock, which differ in names alone, brought into OpenAI's form.

use serde_json::{Value, json};

use super::check::{check_fields, check_messages, is_blank};
use super::refusal::{Refusal, bad};
use super::state::Stored;

/// A block of a message.
pub(super) enum Block<'a> {
    Text(&'a Value),
    /// An image in base64.
    Image(&'a Value),
    Call {
        id: &'a Value,
        name: &'a Value,
        input: &'a Value,
    },
    Result {
        id: &'a Value,
        content: &'a Value,
    },
    Thought {
        text: &'a str,
        signature: &'a str,
    },
    /// A mark of the cache, or what only the provider itself reads.
    Other,
}

/// Returns a tool in OpenAI's form.
pub(super) fn function(name: &Value, description: &Value, schema: &Value) -> Value {
    let function = json!({"name": name, "description": description, "parameters": schema});
    json!({"type": "function", "function": function})
}

/// Returns `system` and then `messages` in OpenAI's form. `read` checks a block of this role, and reads it.
pub(super) fn conversation(
    system: Vec<Value>,
    messages: &Value,
    has_tools: bool,
    state: &Stored,
    read: impl for<'a> Fn(&str, &'a Value) -> Result<Block<'a>, Refusal>,
) -> Result<Vec<Value>, Refusal> {
    let mut conversation = system;
    let said = messages.as_array().filter(|messages| !messages.is_empty());
    for (at, message) in said.ok_or_else(|| bad("messages: at least one is required"))?.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        check_fields("message", message, &["role", "content"], &["role", "content"])?;
        if message["role"] != role {
            return Err(bad(format!("messages.{at}: roles must alternate, and the user comes first")));
        }
        conversation.extend(neutral(at, role, &message["content"], state, &read)?);
    }
    if !has_tools && conversation.iter().any(|message| !message["tool_calls"].is_null()) {
        return Err(bad("messages: tools must be defined if there are calls of them"));
    }
    check_messages(&conversation)?;
    Ok(conversation)
}

/// Returns one message as OpenAI's messages: the results of calls, and then what is said or called.
fn neutral(
    at: usize,
    role: &str,
    content: &Value,
    state: &Stored,
    read: &impl for<'a> Fn(&str, &'a Value) -> Result<Block<'a>, Refusal>,
) -> Result<Vec<Value>, Refusal> {
    let wrong = |problem: &str| bad(format!("messages.{at}: {problem}"));
    let blocks = content.as_array().filter(|blocks| !blocks.is_empty());
    let blocks = blocks.ok_or_else(|| wrong("all messages must have content"))?;
    let (mut neutral, mut parts, mut calls, mut thoughts) =
        (Vec::new(), Vec::new(), Vec::new(), String::new());
    for block in blocks {
        match read(role, block)? {
            Block::Text(text) if text.as_str().is_some_and(|text| !is_blank(text)) => {
                parts.push(json!({"type": "text", "text": text}));
            }
            Block::Text(_) => return Err(wrong("text must not be blank")),
            Block::Image(data) => parts.push(json!({"type": "image_url", "image_url": {"url": data}})),
            Block::Call { id, name, input } => {
                let function = json!({"name": name, "arguments": input.to_string()});
                calls.push(json!({"id": id, "type": "function", "function": function}));
            }
            Block::Result { .. } if !parts.is_empty() => return Err(wrong("results of calls come first")),
            Block::Result { id, content } => {
                neutral.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
            }
            Block::Thought { text, signature } => {
                if !state.has_signed(text, signature) {
                    return Err(wrong("invalid signature of a thought"));
                }
                if !(parts.is_empty() && calls.is_empty()) {
                    return Err(wrong("thoughts come first"));
                }
                thoughts.push_str(text);
            }
            Block::Other => {}
        }
    }
    let text = parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n");
    // The words of several blocks are one text.
    let is_text = role == "assistant" || parts.iter().all(|part| part["type"] == "text");
    let content = if is_text { json!(text) } else { json!(parts) };
    if !calls.is_empty() {
        let thoughts =
            json!({"role": role, "content": content, "tool_calls": calls, "reasoning_content": thoughts});
        neutral.push(thoughts);
    } else if !parts.is_empty() {
        neutral.push(json!({"role": role, "content": content}));
    }
    Ok(neutral)
}
