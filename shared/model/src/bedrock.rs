//! Amazon Bedrock's `ConverseStream`, one shape for the models of all its providers.
//!
//! ```text
//! POST https://bedrock-runtime.<region>.amazonaws.com/model/<model id>/converse-stream   signed for `bedrock`
//! {"system": [{"text": "Be kind."}], "messages": [{"role": "user", "content": [{"text": "hello"}]}]}
//!
//! messageStart       {"role": "assistant"}
//! contentBlockDelta  {"contentBlockIndex": 0, "delta": {"text": "Hi"}}
//! contentBlockStop   {"contentBlockIndex": 0}
//! messageStop        {"stopReason": "end_turn"}
//! metadata           {"usage": {"inputTokens": 20, "outputTokens": 1, "totalTokens": 21}, "metrics": {"latencyMs": 9}}
//! ```
//!
//! A model that cannot stream, or not with tools, is asked by `/converse`. A question has no `maxTokens`: the default is the
//! most that the model can. A request with calls in it must have tools, and no `toolChoice` forbids further calls; so in the
//! last request of a turn, which must be answered, the earlier calls are written in words.
//!
//! Sources: `ConverseStream`, "Tool use" and "Prompt caching" of Amazon Bedrock's documentation.

use annals_core::markup;
use annals_io::aws_host;
use annals_io::recorder::Purpose;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::answer::{PartialAnswer, Usage, tokens};
use super::anthropic::{finish, object};
use super::conversation::{Block, Conversation, called};
use super::failure;
use super::frames::Frame;
use super::provider::{Endpoint, Provider};
use super::question::Tool;

/// `bedrock:<model>`: a model id, or the id or ARN of an inference profile. The optional part of a request is streaming.
#[derive(Debug)]
pub(super) struct Bedrock;

impl Provider for Bedrock {
    fn name(&self) -> &'static str {
        "bedrock"
    }

    fn trace_name(&self) -> &'static str {
        "aws.bedrock"
    }

    fn base_url(&self, region: Option<&str>) -> Option<String> {
        Some(format!("https://{}", aws_host::of("bedrock-runtime", region?)))
    }

    fn may_use_aws(&self) -> bool {
        true
    }

    fn request(&self, endpoint: &Endpoint<'_>, conversation: &Conversation<'_>) -> (String, Value) {
        let operation = if endpoint.with_option { "converse-stream" } else { "converse" };
        let url = format!("{}/model/{}/{operation}", endpoint.base_url, endpoint.model_in_path());
        (url, body(endpoint.model, conversation, endpoint.marks_cache))
    }

    fn refuses_option(&self, status: u16, body: &str) -> bool {
        failure::refuses_streaming(status, body)
    }

    fn read_frame(&self, frame: &Frame, answer: &mut PartialAnswer<'_>) {
        let data = &frame.data;
        let number = data["contentBlockIndex"].as_u64().unwrap_or_default();
        match frame.event.as_str() {
            "contentBlockStart" => {
                let call = &data["start"]["toolUse"];
                if call.is_object() {
                    answer.call(number, call["toolUseId"].as_str(), call["name"].as_str(), "");
                }
            }
            "contentBlockDelta" => {
                let delta = &data["delta"];
                answer.text(delta["text"].as_str().unwrap_or_default());
                if let Some(input) = delta["toolUse"]["input"].as_str() {
                    answer.call(number, None, None, input);
                }
                think(number, &delta["reasoningContent"], answer);
            }
            "messageStop" => {
                answer.finish = Some(finish(data["stopReason"].as_str().unwrap_or_default()));
            }
            "metadata" => {
                answer.usage = usage(&data["usage"]);
                answer.is_over = true;
            }
            _ => {}
        }
    }

    fn read_whole(&self, Frame { data: body, .. }: &Frame, answer: &mut PartialAnswer<'_>) {
        let content = body["output"]["message"]["content"].as_array().into_iter().flatten();
        for (number, block) in (0_u64..).zip(content) {
            answer.text(block["text"].as_str().unwrap_or_default());
            let call = &block["toolUse"];
            if call.is_object() {
                let input = call["input"].to_string();
                answer.call(number, call["toolUseId"].as_str(), call["name"].as_str(), &input);
            }
            let thought = &block["reasoningContent"];
            let said = if thought["reasoningText"].is_object() { &thought["reasoningText"] } else { thought };
            think(number, said, answer);
        }
        answer.usage = usage(&body["usage"]);
        answer.finish = body["stopReason"].as_str().map(finish);
    }
}

/// Returns the request's body; `marks` adds the places up to which the provider caches it, which only some models can.
fn body(model: &str, conversation: &Conversation<'_>, marks: bool) -> Value {
    let mut body = json!({});
    // The request for a summary is not repeated.
    let marks = marks && conversation.purpose == Purpose::Answer;
    if let Some(system) = conversation.system.filter(|system| !system.trim().is_empty()) {
        body["system"] = json!([{"text": system}]);
        push_mark(&mut body["system"], marks);
    }
    let offers = !conversation.tools.is_empty() && !conversation.must_answer;
    if offers {
        body["toolConfig"] = json!({"tools": conversation.tools.iter().map(tool).collect::<Vec<_>>()});
        // Nova caches everything except tools.
        push_mark(&mut body["toolConfig"]["tools"], marks && !model.contains("amazon.nova"));
    }
    if let Some(max_tokens) = conversation.max_tokens {
        body["inferenceConfig"] = json!({"maxTokens": max_tokens});
    }
    let block = if offers { block } else { block_without_calls };
    let names = ("assistant", "content");
    body["messages"] = conversation.messages(names, block, marks, |content| content.push(cache_point()));
    body
}

fn cache_point() -> Value {
    json!({"cachePoint": {"type": "default"}})
}

fn push_mark(list: &mut Value, marks: bool) {
    if let Some(list) = list.as_array_mut().filter(|_| marks) {
        list.push(cache_point());
    }
}

fn tool(tool: &Tool) -> Value {
    let schema = json!({"json": tool.input_schema});
    json!({"toolSpec": {"name": tool.name, "description": tool.description, "inputSchema": schema}})
}

fn block(block: &Block<'_>) -> Vec<Value> {
    vec![match block {
        Block::Text(text) => json!({"text": text}),
        Block::Image(image) => {
            let source = json!({"bytes": STANDARD.encode(&image.bytes)});
            json!({"image": {"format": image.format(), "source": source}})
        }
        Block::Call(id, call) => {
            let call = json!({"toolUseId": id, "name": call.name, "input": object(&call.input)});
            json!({"toolUse": call})
        }
        Block::Result { id, text, .. } => {
            json!({"toolResult": {"toolUseId": id, "content": [{"text": text}]}})
        }
        Block::Reasoning(reasoning) => return thoughts(&reasoning.blocks),
    }]
}

/// Returns a block for a request without tools: calls and their results in words.
fn block_without_calls(said: &Block<'_>) -> Vec<Value> {
    match said {
        Block::Call(_, call) => vec![json!({"text": called(call)})],
        Block::Result { text, .. } => vec![json!({"text": markup::tool_result(text)})],
        Block::Reasoning(_) => Vec::new(),
        Block::Text(_) | Block::Image(_) => block(said),
    }
}

/// Adds to a block of thought: text, signature, or hidden content.
fn think(number: u64, delta: &Value, partial: &mut PartialAnswer<'_>) {
    let text = |name: &str| delta[name].as_str().unwrap_or_default();
    if !delta.is_object() {
        return;
    }
    partial.reasoning(text("text"));
    // The number identifies a block until the answer is whole.
    let is_same = partial.blocks.last().is_some_and(|block| block["number"] == number);
    if !is_same {
        partial.blocks.push(json!({"number": number, "text": "", "signature": "", "redacted": ""}));
    }
    if let Some(block) = partial.blocks.last_mut() {
        for (field, delta) in
            [("text", text("text")), ("signature", text("signature")), ("redacted", text("redactedContent"))]
        {
            block[field] = format!("{}{delta}", block[field].as_str().unwrap_or_default()).into();
        }
    }
}

/// Returns the blocks of thought as they are sent back. The API refuses one without a signature.
fn thoughts(blocks: &[Value]) -> Vec<Value> {
    let text = |block: &Value, name: &str| block[name].as_str().unwrap_or_default().to_owned();
    let sent = blocks.iter().filter_map(|block| {
        let (signature, redacted) = (text(block, "signature"), text(block, "redacted"));
        if !redacted.is_empty() {
            Some(json!({"reasoningContent": {"redactedContent": redacted}}))
        } else if !signature.is_empty() {
            let said = json!({"text": text(block, "text"), "signature": signature});
            Some(json!({"reasoningContent": {"reasoningText": said}}))
        } else {
            None
        }
    });
    sent.collect()
}

/// Returns the counts. `inputTokens` does not include tokens that were read from a cache, or put there.
fn usage(usage: &Value) -> Option<Usage> {
    let number = |name: &str| tokens(&usage[name]);
    let (read, written) = (number("cacheReadInputTokens"), number("cacheWriteInputTokens"));
    let beside = read.unwrap_or_default().saturating_add(written.unwrap_or_default());
    Some(Usage {
        input_tokens: number("inputTokens")?.saturating_add(beside),
        output_tokens: number("outputTokens")?,
        cached_input_tokens: read,
        ..Usage::default()
    })
}
