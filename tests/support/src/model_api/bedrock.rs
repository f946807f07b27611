//! Amazon Bedrock's Converse and `ConverseStream`: their rules for requests, and their answers.
//!
//! Sources: the API reference of both, "Tool use", "Prompt caching", and "AWS Signature Version 4 for API requests".

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use ring::{digest, hmac};
use serde_json::{Value, json};

use super::api::{Api, Facts, Request};
use super::blocks::{Block, conversation, function};
use super::cache::Mark;
use super::check::{API_KEY, check_fields, check_image, check_mark_count, check_tools, is_blank, is_name};
use super::completion::{Completion, Said, words};
use super::refusal::{Refusal, bad};
use super::state::Stored;

/// The access key that the endpoint accepts.
pub const AWS_KEY_ID: &str = "AKIDMODELTEST";
/// The secret of that key.
pub const AWS_SECRET: &str = "model-test-secret";
/// The region of the endpoint.
pub const AWS_REGION: &str = "eu-central-1";

pub(super) struct Bedrock;

impl Api for Bedrock {
    fn facts(&self) -> Facts {
        Facts {
            model: "bedrock:eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
            path: "/bedrock",
            route: "/model/{model}/{operation}",
            content_type: "application/vnd.amazon.eventstream",
            no_images: "This model doesn't support the image field for user messages.",
        }
    }

    fn models(&self) -> Option<(&'static str, Value)> {
        None
    }

    /// Checks a signature of version 4, made again from the request, or an API key of Bedrock's.
    fn check_key(&self, request: &Request<'_>) -> Result<(), Refusal> {
        let refused = |message: &str| Err(Refusal::new(StatusCode::FORBIDDEN, message));
        let authorization = request.header("authorization");
        if authorization == format!("Bearer {API_KEY}") {
            return Ok(());
        }
        let Some(fields) = authorization.strip_prefix("AWS4-HMAC-SHA256 ") else {
            return refused("Missing Authentication Token");
        };
        let field =
            |name: &str| fields.split(", ").find_map(|field| field.strip_prefix(name)).unwrap_or_default();
        let (credential, signed, signature) =
            (field("Credential="), field("SignedHeaders="), field("Signature="));
        let at = request.header("x-amz-date");
        let day = at.get(..8).unwrap_or_default();
        let scope = format!("{day}/{AWS_REGION}/bedrock/aws4_request");
        if credential != format!("{AWS_KEY_ID}/{scope}") {
            return refused("The security token included in the request is invalid.");
        }
        if !["host", "x-amz-date"].iter().all(|name| signed.split(';').any(|signed| signed == *name)) {
            return refused("'Host' and 'X-Amz-Date' must be signed headers.");
        }
        let sha256 = |bytes: &[u8]| hex::encode(digest::digest(&digest::SHA256, bytes));
        let lines = signed.split(';').map(|name| format!("{name}:{}\n", request.header(name).trim()));
        let canonical_headers = lines.collect::<Vec<_>>().concat();
        // The path is encoded once more than it is sent.
        let path = request.uri.path().replace('%', "%25");
        let canonical = format!("POST\n{path}\n\n{canonical_headers}\n{signed}\n{}", sha256(request.body));
        let to_sign = format!("AWS4-HMAC-SHA256\n{at}\n{scope}\n{}", sha256(canonical.as_bytes()));
        let mac = |key: &[u8], text: &str| {
            hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
        };
        let key = [day, AWS_REGION, "bedrock", "aws4_request"]
            .iter()
            .fold(format!("AWS4{AWS_SECRET}").into_bytes(), |key, part| mac(&key, part));
        if signature == hex::encode(mac(&key, &to_sign)) {
            Ok(())
        } else {
            refused("The request signature we calculated does not match the signature you provided.")
        }
    }

    fn check(&self, request: &Request<'_>, body: &Value, state: &Stored) -> Result<Value, Refusal> {
        let parameter = |name: &str| request.path.get(name).map(String::as_str).unwrap_or_default();
        let model = parameter("model");
        let streams = match parameter("operation") {
            "converse-stream" => true,
            "converse" => false,
            _ => return Err(Refusal::new(StatusCode::NOT_FOUND, "UnknownOperationException")),
        };
        if streams && state.refuses_option {
            return Err(bad("This model doesn't support the toolConfig in streaming mode."));
        }
        let fields = ["messages", "system", "toolConfig", "inferenceConfig", "additionalModelRequestFields"];
        check_fields("request", body, &fields, &["messages"])?;
        check_mark_count(body, "cachePoint", 4)?;
        let can_keep = ["claude", "nova"].iter().any(|name| model.contains(name));
        if !can_keep && body.to_string().contains("cachePoint") {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "You invoked an unsupported model or your request did not allow prompt caching.",
            ));
        }
        let mut system = Vec::new();
        for block in body["system"].as_array().into_iter().flatten() {
            match block["text"].as_str() {
                Some(text) if !is_blank(text) => system.push(json!({"role": "system", "content": text})),
                None if block["cachePoint"]["type"] == "default" => {}
                _ => return Err(bad("The text field in the ContentBlock object at system is blank.")),
            }
        }
        let has_tools = !body["toolConfig"].is_null();
        let messages = conversation(system, &body["messages"], has_tools, state, read)?;
        if messages.last().is_some_and(|message| message["role"] == "assistant") {
            return Err(bad("The conversation must end with a user message."));
        }
        let mut neutral = json!({"model": model, "messages": messages, "stream": streams});
        match &body["inferenceConfig"]["maxTokens"] {
            Value::Null => {}
            limit if limit.as_u64().is_some_and(|limit| limit > 0) => neutral["max_tokens"] = limit.clone(),
            _ => return Err(bad("maxTokens must be at least 1.")),
        }
        if has_tools {
            neutral["tools"] = tools(&body["toolConfig"])?;
            check_tools(&neutral)?;
        }
        Ok(neutral)
    }

    fn prompt<'a>(&self, raw: &'a Value) -> [&'a Value; 3] {
        [&raw["toolConfig"]["tools"], &raw["system"], &raw["messages"]]
    }

    fn take_mark(&self) -> Option<fn(&mut Value) -> Mark> {
        Some(|block| if block["cachePoint"].is_object() { Mark::Alone } else { Mark::None })
    }

    fn whole(&self, completion: &Completion) -> Value {
        let thought = completion.thought.iter().map(|(text, signature)| {
            json!({"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}})
        });
        let text = match &completion.said {
            Said::Text(text, _) => Some(json!({"text": text})),
            Said::Calls(_) => None,
        };
        let calls = completion.calls().into_iter();
        let calls = calls
            .map(|(id, name, input)| json!({"toolUse": {"toolUseId": id, "name": name, "input": input}}));
        let content: Vec<Value> = thought.chain(text).chain(calls).collect();
        json!({
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": stop_reason(completion),
            "usage": usage(completion),
            "metrics": {"latencyMs": 9},
        })
    }

    fn pieces(&self, completion: &Completion) -> Vec<Vec<u8>> {
        let mut events = vec![("messageStart", json!({"role": "assistant"}))];
        let mut index = 0;
        let mut block = |start: Option<Value>, deltas: Vec<Value>| {
            events.extend(
                start.map(|start| ("contentBlockStart", json!({"contentBlockIndex": index, "start": start}))),
            );
            let delta = |delta| ("contentBlockDelta", json!({"contentBlockIndex": index, "delta": delta}));
            events.extend(deltas.into_iter().map(delta));
            events.push(("contentBlockStop", json!({"contentBlockIndex": index})));
            index += 1;
        };
        if let Some((thought, signature)) = &completion.thought {
            let words = words(thought).map(|word| json!({"reasoningContent": {"text": word}}));
            block(None, words.chain([json!({"reasoningContent": {"signature": signature}})]).collect());
        }
        if let Said::Text(text, _) = &completion.said {
            block(None, words(text).map(|word| json!({"text": word})).collect());
        }
        for (id, name, input) in completion.calls() {
            let input = input.to_string();
            let words = words(&input).map(|word| json!({"toolUse": {"input": word}}));
            block(Some(json!({"toolUse": {"toolUseId": id, "name": name}})), words.collect());
        }
        events.push(("messageStop", json!({"stopReason": stop_reason(completion)})));
        events.push(("metadata", json!({"usage": usage(completion), "metrics": {"latencyMs": 9}})));
        events
            .into_iter()
            .map(|(name, data)| message(&[(":message-type", "event"), (":event-type", name)], &data))
            .collect()
    }

    /// Returns an exception in the stream.
    fn overload(&self) -> Vec<u8> {
        let headers = [(":message-type", "exception"), (":exception-type", "throttlingException")];
        message(&headers, &json!({"message": "Too many requests, please wait."}))
    }

    /// Returns `{"message"}` and a header.
    fn error(&self, refusal: &Refusal) -> Response {
        let kind = match refusal.status.as_u16() {
            400 => "ValidationException",
            401 | 403 => "AccessDeniedException",
            429 => "ThrottlingException",
            503 => "ServiceUnavailableException",
            _ => "InternalServerException",
        };
        ([("x-amzn-errortype", kind)], Json(json!({"message": refusal.message}))).into_response()
    }

    fn too_long(&self, _limit: u64, _requested: u64) -> String {
        "Input is too long for requested model.".into()
    }
}

/// Returns the tools in OpenAI's form.
fn tools(config: &Value) -> Result<Value, Refusal> {
    check_fields("toolConfig", config, &["tools", "toolChoice"], &["tools"])?;
    let tools = config["tools"].as_array().into_iter().flatten();
    let neutral = tools.filter(|tool| tool["cachePoint"]["type"] != "default").map(|tool| {
        let spec = &tool["toolSpec"];
        check_fields("toolSpec", spec, &["name", "description", "inputSchema"], &["name", "inputSchema"])?;
        if spec["description"].as_str().is_some_and(is_blank) {
            return Err(bad("toolConfig.tools: description is blank"));
        }
        Ok(function(&spec["name"], &spec["description"], &spec["inputSchema"]["json"]))
    });
    neutral.collect()
}

/// Checks a block of a message of `role`, and reads it.
fn read<'a>(role: &str, block: &'a Value) -> Result<Block<'a>, Refusal> {
    let object = block.as_object().filter(|object| object.len() == 1);
    let Some((kind, block)) = object.and_then(|object| object.iter().next()) else {
        return Err(bad("A ContentBlock object must set one of its members"));
    };
    let id = &block["toolUseId"];
    Ok(match (kind.as_str(), role) {
        ("text", _) => Block::Text(block),
        ("image", "user")
            if check_image(
                &format!("image/{}", block["format"].as_str().unwrap_or_default()).into(),
                &block["source"]["bytes"],
            ) =>
        {
            Block::Image(&block["source"]["bytes"])
        }
        ("toolUse", "assistant") if is_name(id) && is_name(&block["name"]) && block["input"].is_object() => {
            Block::Call { id, name: &block["name"], input: &block["input"] }
        }
        ("toolResult", "user")
            if is_name(id) && block["content"][0]["text"].as_str().is_some_and(|text| !is_blank(text)) =>
        {
            Block::Result { id, content: &block["content"][0]["text"] }
        }
        ("cachePoint", _) if block["type"] == "default" => Block::Other,
        ("reasoningContent", "assistant") => {
            let text = |name: &str| block["reasoningText"][name].as_str().unwrap_or_default();
            Block::Thought { text: text("text"), signature: text("signature") }
        }
        _ => return Err(bad(format!("The {kind} of a ContentBlock object is not valid"))),
    })
}

fn stop_reason(completion: &Completion) -> &'static str {
    match completion.finish_reason() {
        "length" => "max_tokens",
        "content_filter" => "content_filtered",
        "tool_calls" => "tool_use",
        _ => "end_turn",
    }
}

fn usage(completion: &Completion) -> Value {
    let (cached, output) = (completion.cached, completion.output_tokens());
    json!({
        "inputTokens": completion.prompt_tokens - cached.read - cached.written,
        "outputTokens": output,
        "totalTokens": completion.prompt_tokens + output,
        "cacheReadInputTokens": cached.read,
        "cacheWriteInputTokens": cached.written,
    })
}

fn message(headers: &[(&'static str, &'static str)], payload: &Value) -> Vec<u8> {
    let headers = headers.iter().chain(&[(":content-type", "application/json")]);
    let headers = headers.map(|(name, value)| Header::new(*name, HeaderValue::String((*value).into())));
    let mut bytes = Vec::new();
    let message = Message::new_from_parts(headers.collect(), payload.to_string());
    match write_message_to(&message, &mut bytes) {
        Ok(()) => bytes,
        Err(error) => panic!("no event stream message: {error}"),
    }
}
