//! Checks of requests in OpenAI's form, by the rules that the APIs share. The order of roles is that of the strictest chat
//! templates of OpenAI's compatible servers (Mistral's and Gemma's): the user first, then by turns.

use std::collections::{HashMap, HashSet};

use base64::Engine;
use serde_json::Value;

use super::refusal::{Refusal, bad};

/// The key that the endpoint accepts.
pub const API_KEY: &str = "sk-test-model";

/// Every call has its result, and every result its call; roles go by turns.
pub(super) fn check_messages(messages: &[Value]) -> Result<(), Refusal> {
    // The calls of the last assistant message that no tool message has answered yet.
    let mut open_calls: HashMap<&str, usize> = HashMap::new();
    let mut last_spoke = None;
    for (at, message) in messages.iter().enumerate() {
        let place = format!("messages[{at}]");
        let role = message["role"].as_str().unwrap_or_default();
        if !matches!(role, "developer" | "system" | "user" | "assistant" | "tool") {
            let message = format!(
                "Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'tool', and 'developer'."
            );
            return Err(Refusal::bad(format!("{place}.role"), message));
        }
        check_content(&place, role, message)?;
        if matches!(role, "user" | "assistant") {
            // Results count as the user's.
            let is_turn = match last_spoke {
                None => role == "user",
                Some("tool") => true,
                Some(last) => last != role,
            };
            if !is_turn {
                let message = "Conversation roles must alternate user/assistant/user/assistant/...";
                return Err(Refusal::bad(format!("{place}.role"), message));
            }
        }
        if role != "system" {
            last_spoke = Some(role);
        }
        check_name(&place, &message["name"])?;
        if role == "tool" {
            let answered = message["tool_call_id"].as_str().and_then(|id| open_calls.remove(id));
            if answered.is_none() {
                let message = "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.";
                return Err(Refusal::bad(format!("{place}.role"), message));
            }
            continue;
        }
        check_all_answered(&open_calls)?;
        for (id, at) in check_calls(&place, role, message)?.into_iter().zip(std::iter::repeat(at)) {
            if open_calls.insert(id, at).is_some() {
                return Err(Refusal::bad(
                    format!("{place}.tool_calls"),
                    format!("Duplicate value for '{id}'."),
                ));
            }
        }
    }
    check_all_answered(&open_calls)
}

/// The ids of the calls that a message holds.
fn check_calls<'a>(place: &str, role: &str, message: &'a Value) -> Result<Vec<&'a str>, Refusal> {
    let param = format!("{place}.tool_calls");
    let calls = match &message["tool_calls"] {
        Value::Null => return Ok(Vec::new()),
        Value::Array(calls) if role == "assistant" && !calls.is_empty() => calls,
        _ => return Err(Refusal::bad(param, "Invalid 'tool_calls': expected calls, of an assistant.")),
    };
    let ids = calls.iter().map(|call| {
        let arguments = call["function"]["arguments"].as_str();
        let fits = call["type"] == "function"
            && is_name(&call["function"]["name"])
            && arguments.is_some_and(|text| serde_json::from_str::<Value>(text).is_ok());
        call["id"].as_str().filter(|id| fits && !id.is_empty())
    });
    ids.collect::<Option<_>>().ok_or_else(|| Refusal::bad(param, "Invalid 'tool_calls'."))
}

fn check_all_answered(open_calls: &HashMap<&str, usize>) -> Result<(), Refusal> {
    let Some(at) = open_calls.values().next() else { return Ok(()) };
    let message = "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.";
    Err(Refusal::bad(format!("messages[{at}]"), message))
}

fn check_content(place: &str, role: &str, message: &Value) -> Result<(), Refusal> {
    let param = format!("{place}.content");
    match &message["content"] {
        Value::String(_) => Ok(()),
        Value::Null if role == "assistant" && message["tool_calls"].is_array() => Ok(()),
        Value::Array(parts) if !parts.is_empty() => {
            for (at, part) in parts.iter().enumerate() {
                let fits = match (part["type"].as_str(), role) {
                    (Some("text"), _) => part["text"].is_string(),
                    (Some("image_url"), "user") => is_image(&part["image_url"]["url"]),
                    (Some("input_audio"), "user") => part["input_audio"]["data"].is_string(),
                    (Some("file"), "user") => part["file"].is_object(),
                    (Some("refusal"), "assistant") => part["refusal"].is_string(),
                    _ => false,
                };
                if !fits {
                    let message = format!("Invalid content part for role '{role}': {}.", part["type"]);
                    return Err(Refusal::bad(format!("{param}[{at}]"), message));
                }
            }
            Ok(())
        }
        _ => Err(Refusal::bad(
            param.clone(),
            format!("Invalid type for '{param}': expected a string or an array of parts."),
        )),
    }
}

/// An address, or a data URL of one of the four formats.
fn is_image(url: &Value) -> bool {
    let Some(data) = url.as_str().and_then(|url| url.strip_prefix("data:")) else { return url.is_string() };
    let read = data.split_once(";base64,");
    read.is_some_and(|(media_type, data)| check_image(&media_type.into(), &data.into()))
}

fn check_name(place: &str, name: &Value) -> Result<(), Refusal> {
    let fits = match name {
        Value::Null => true,
        Value::String(name) => {
            !name.is_empty()
                && !name.contains(|c: char| c.is_whitespace() || matches!(c, '<' | '|' | '\\' | '/' | '>'))
        }
        _ => false,
    };
    let message =
        || format!("Invalid '{place}.name': expected a string that matches the pattern '^[^\\s<|\\\\/>]+$'.");
    if fits { Ok(()) } else { Err(Refusal::bad(format!("{place}.name"), message())) }
}

/// Checks the tools of a request in OpenAI's form.
pub(super) fn check_tools(body: &Value) -> Result<(), Refusal> {
    let tools = match &body["tools"] {
        Value::Null if body["tool_choice"].is_null() => return Ok(()),
        Value::Null => {
            let message = "'tool_choice' is only allowed when 'tools' are specified.";
            return Err(Refusal::bad("tool_choice", message));
        }
        Value::Array(tools) if !tools.is_empty() => tools,
        _ => return Err(Refusal::bad("tools", "Invalid 'tools': expected an array with minimum length 1.")),
    };
    let mut names: HashSet<&str> = HashSet::new();
    for (at, tool) in tools.iter().enumerate() {
        let function = &tool["function"];
        if tool["type"] != "function" || !is_name(&function["name"]) {
            let message = format!(
                "Invalid 'tools[{at}].function.name': expected a string that matches the pattern '^[a-zA-Z0-9_-]+$', at most 64 long."
            );
            return Err(Refusal::bad(format!("tools[{at}].function.name"), message));
        }
        if !matches!(function["description"], Value::Null | Value::String(_)) {
            let message = format!("Invalid type for 'tools[{at}].function.description': expected a string.");
            return Err(Refusal::bad(format!("tools[{at}].function.description"), message));
        }
        let is_choice = |schema: &Value| {
            ["oneOf", "anyOf", "allOf", "enum", "not"].iter().any(|key| schema.get(key).is_some())
        };
        let schema = function.get("parameters");
        if schema.is_some_and(|schema| schema["type"] != "object" || is_choice(schema)) {
            let message = format!(
                "Invalid schema for function {}: schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
                function["name"]
            );
            return Err(Refusal::bad(format!("tools[{at}].function.parameters"), message));
        }
        if !names.insert(function["name"].as_str().unwrap_or_default()) {
            return Err(Refusal::bad("tools", "Tool names must be unique."));
        }
    }
    Ok(())
}

/// Returns true if `name`, of a tool or a call, matches `^[a-zA-Z0-9_-]{1,64}$`.
pub(super) fn is_name(name: &Value) -> bool {
    name.as_str().is_some_and(|name| {
        (1..=64).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
    })
}

/// Largest image of Bedrock, and of Anthropic in base64.
const MAX_IMAGE_BYTES: usize = 3_932_160;

/// Checks that `value` is an object with the fields that it `needs` and no others than these `fields`.
pub(super) fn check_fields(
    place: &str,
    value: &Value,
    fields: &[&str],
    needs: &[&str],
) -> Result<(), Refusal> {
    let Some(object) = value.as_object() else { return Err(bad(format!("{place}: must be an object"))) };
    if let Some(field) = object.keys().find(|key| !fields.contains(&key.as_str())) {
        return Err(bad(format!("{place}.{field}: Extra inputs are not permitted")));
    }
    match needs.iter().find(|field| !object.contains_key(**field)) {
        Some(field) => Err(bad(format!("{place}.{field}: Field required"))),
        None => Ok(()),
    }
}

pub(super) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

pub(super) fn check_image(media_type: &Value, data: &Value) -> bool {
    let types = ["image/jpeg", "image/png", "image/gif", "image/webp"];
    let is_base64 = |data: &str| {
        base64::engine::general_purpose::STANDARD
            .decode(data)
            .is_ok_and(|b| (1..=MAX_IMAGE_BYTES).contains(&b.len()))
    };
    media_type.as_str().is_some_and(|media_type| types.contains(&media_type))
        && data.as_str().is_some_and(is_base64)
}

/// Checks that `value` contains at most this number of marks of this name.
pub(super) fn check_mark_count(value: &Value, name: &str, most: usize) -> Result<(), Refusal> {
    fn count(value: &Value, name: &str) -> usize {
        match value {
            Value::Array(values) => values.iter().map(|value| count(value, name)).sum(),
            Value::Object(map) => {
                map.iter().map(|(key, value)| usize::from(key == name) + count(value, name)).sum()
            }
            _ => 0,
        }
    }
    let marks = count(value, name);
    if marks > most {
        return Err(bad(format!("A maximum of {most} blocks with {name} may be provided. Found {marks}.")));
    }
    Ok(())
}
