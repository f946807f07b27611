//! `GET /openapi.json`: a description of the API in `OpenAPI` 3.1.
//!
//! [`describe`] generates it from the annotations of handlers, parameters, bodies and answers. The repository holds the result,
//! `openapi.json`, which the program serves: so it costs nothing at start-up, adds no code to a binary, and a change of the API
//! shows in a diff. A test compares the two; `just openapi` writes the file.

use std::collections::BTreeMap;

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde_json::{Map, Value, json};
use utoipa::{OpenApi, ToSchema};

use crate::schema::{Problem, UiMessage};
use crate::{
    auth, chat, chat_settings, chats, forget, history, memory, messages, people, schedules, search, segments,
    strangers, takeover, turns, usage,
};

/// The served document.
const DOCUMENT: &str = include_str!("../openapi.json");

/// `GET /openapi.json`
#[utoipa::path(get, path = "/openapi.json", operation_id = "getOpenApi", tag = "about",
    responses((status = 200, description = "This document", body = Object)))]
pub(crate) async fn document() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], DOCUMENT)
}

/// `GET /health`
#[utoipa::path(get, path = "/health", operation_id = "getHealth", tag = "about",
    responses((status = 200, description = "The program answers", body = Health)))]
pub(crate) async fn health() -> axum::Json<Health> {
    axum::Json(Health { status: "ok" })
}

/// The program answers.
#[derive(Debug, serde::Serialize, ToSchema)]
pub(crate) struct Health {
    #[schema(value_type = String, pattern = "^ok$")]
    status: &'static str,
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Annals",
        description = "One durable history per chat, whatever channel a message comes by.\n\n\
            `chatId` is a caller's own conversation id; an admin key may give a whole ChatKey instead, such as \
            `telegram:chat:42`. Each answer carries `x-request-id`, which a caller may choose.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    paths(
        auth::key, chats::list, chats::one, chats::retitle, chat_settings::one, chat_settings::change, forget::delete, messages::post, history::messages, history::context, turns::one, search::search, segments::list,
        segments::one, chat::say, chat::resume, chat::stop, messages::reset, messages::compact, messages::post_direct,
        takeover::take_over, takeover::hand_back, takeover::send, schedules::list, schedules::create, schedules::cancel, memory::list, memory::correct, memory::approve, memory::delete, strangers::list, usage::usage, people::one,
        people::link, people::export, people::delete, health, document,
    ),
    components(schemas(Problem, UiMessage, chats::ChatState, memory::ListedState)),
    tags(
        (name = "messages", description = "Messages and commands"),
        (name = "chat", description = "The protocol of `useChat` of the Vercel AI SDK, from 6.0.0 on"),
        (name = "histories", description = "Histories, and the context of the next turn"),
        (name = "schedules", description = "What a chat is to say, or to be asked, at a time"),
        (name = "operators", description = "People who answer in place of the model, for admin keys"),
        (name = "memory", description = "Memory that outlives a session"),
        (name = "people", description = "One person in all chats, for admin keys"),
        (name = "about", description = "The program, without a key, and the key"),
    ),
)]
struct Api;

/// Statuses and kinds of problems by operation, without those of its inputs ([`INPUTS`]).
const PROBLEMS: &str = "\
postChat: 403 forbidden, 404 unknown-message, 409 message-id-taken more-approvals-needed, 503 unavailable
resumeChat: 400 bad-chat-id bad-query, 503 unavailable
stopChat: 400 bad-chat-id bad-query, 409 message-id-taken, 503 unavailable
listChats: 403 forbidden, 503 unreadable
getUsage: 400 bad-range, 403 forbidden, 503 unreadable
getKey:
getChat: 404 no-such-chat, 503 unreadable
retitleChat: 403 forbidden, 404 no-such-chat, 503 unavailable unreadable
getChatSettings: 403 forbidden, 503 unreadable
changeChatSettings: 400 bad-settings, 403 forbidden, 404 no-such-chat, 503 unavailable unreadable
forgetChat: 409 busy, 503 not-forgotten
postMessage: 400 missing-user, 409 message-id-taken, 503 unavailable
postDirectMessage: 400 missing-user, 409 message-id-taken, 503 unavailable
takeOverChat: 400 bad-operator, 403 forbidden, 404 no-such-chat, 409 taken-over, 503 unavailable
handBackChat: 403 forbidden, 503 unavailable
sendMessage: 400 bad-operator, 403 forbidden, 404 no-such-chat, 409 message-id-taken taken-over, 503 unavailable
listSchedules: 503 unreadable
createSchedule: 400 bad-schedule, 404 no-such-chat, 409 schedule-refused, 503 unavailable
cancelSchedule: 503 unavailable
resetChat: 409 message-id-taken, 503 unavailable
compactChat: 409 message-id-taken, 503 unavailable
listMessages: 503 unreadable
getContext: 503 unreadable unavailable
searchChat: 400 bad-query bad-search, 503 unreadable
listSegments: 503 unreadable
getSegment: 404 no-such-segment, 503 unreadable
getTurn: 400 bad-query, 404 no-such-turn, 503 unreadable
listStrangers: 403 forbidden, 503 unavailable
getPerson: 400 bad-user, 403 forbidden, 503 unavailable unreadable
linkPerson: 400 bad-user bad-links, 403 forbidden, 409 links-off, 503 unavailable unreadable
exportPerson: 400 bad-user, 403 forbidden, 503 unavailable
erasePerson: 400 bad-user, 403 forbidden, 409 busy, 503 not-forgotten unavailable
listMemory: 400 bad-cursor, 403 forbidden, 503 unavailable
approveMemory: 403 forbidden, 404 no-entry, 503 unavailable
correctMemory: 404 no-entry, 503 unavailable
deleteMemory: 404 no-entry, 503 unavailable
";

/// The status and problems of each parameter and each field of a body.
const INPUTS: &str = "\
chatId: 400 bad-chat-id
trigger: 400 bad-chat-id bad-chat
chatKey: 400 bad-owner bad-chat-id
wait: 400 bad-wait
before: 400 bad-query bad-cursor
limit: 400 bad-limit
userId: 400 bad-user
parts: 400 bad-message
messageId: 400 bad-message-id
ts: 400 bad-ts
focus: 400 bad-focus
title: 400 bad-title
";

/// Returns the names of a table, and the statuses and kinds of each.
fn rows(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    table.lines().filter_map(|row| row.split_once(':'))
}

/// Generates the document from the annotations of the code.
pub(crate) fn describe() -> Value {
    let mut api = serde_json::to_value(Api::openapi()).unwrap_or_default();
    api["components"]["securitySchemes"]["key"] =
        json!({"type": "http", "scheme": "bearer", "description": "A key of `HTTP_API_KEYS`."});
    // One of two fields, and the other absent or null.
    for (schema, one, other, other_type) in [
        ("NewMessage", "text", "parts", "array"),
        ("NewDispatch", "text", "parts", "array"),
        ("Correction", "text", "markdown", "string"),
        ("NewSchedule", "text", "prompt", "string"),
    ] {
        api["components"]["schemas"][schema]["oneOf"] = json!([
            {"required": [one], "properties": {one: {"type": "string"}, other: {"type": "null"}}},
            {"required": [other], "properties": {one: {"type": "null"}, other: {"type": other_type}}},
        ]);
    }
    // Both, as a listed entry has them.
    if let Some(forms) = api["components"]["schemas"]["Correction"]["oneOf"].as_array_mut() {
        let both = json!({"text": {"type": "string"}, "markdown": {"type": "string"}});
        forms.push(json!({"required": ["text", "markdown"], "properties": both}));
    }
    without_int32(&mut api);
    let schemas = api["components"]["schemas"].clone();
    let operations = api["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
    for operation in operations.flat_map(|path| path.as_object_mut().into_iter().flat_map(Map::values_mut)) {
        if !matches!(operation["operationId"].as_str(), Some("getHealth" | "getOpenApi")) {
            operation["security"] = json!([{"key": []}]);
        }
        // Commands need no body.
        if matches!(
            operation["operationId"].as_str(),
            Some("resetChat" | "compactChat" | "stopChat" | "takeOverChat")
        ) {
            operation["requestBody"]["required"] = json!(false);
        }
        for (status, kinds) in problems(operation, &schemas) {
            operation["responses"][status.to_string()] = problem(status, &kinds);
        }
        for response in operation["responses"].as_object_mut().into_iter().flat_map(Map::values_mut) {
            // A schema would describe a single event.
            if let Some(stream) = response.pointer_mut("/content/text~1event-stream") {
                *stream = json!({});
            }
            let description = "Names this request in logs and problems";
            response["headers"]["x-request-id"] =
                json!({"description": description, "schema": {"type": "string"}});
        }
        if let Some(responses) = operation["responses"].as_object_mut() {
            responses.sort_keys();
        }
    }
    api
}

/// Returns the kinds of problems that `operation` may answer with, by status.
fn problems(operation: &Value, schemas: &Value) -> BTreeMap<u16, Vec<&'static str>> {
    let mut problems: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    let mut add = |row: &'static str| {
        for of_status in row.split(',') {
            let mut kinds = of_status.split_whitespace();
            if let Some(status) = kinds.next().and_then(|status| status.parse().ok()) {
                problems.entry(status).or_default().extend(kinds);
            }
        }
    };
    let body = operation.get("requestBody");
    let schema =
        body.map(|body| body["content"]["application/json"]["schema"].to_string()).unwrap_or_default();
    let fields = schemas.as_object().into_iter().flatten();
    let fields = fields.filter(|(name, _)| schema.contains(&format!("/{name}\"")));
    let fields = fields.filter_map(|(_, schema)| schema["properties"].as_object()).flat_map(Map::keys);
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let inputs: Vec<&str> = parameters
        .filter_map(|parameter| parameter["name"].as_str())
        .chain(fields.map(String::as_str))
        .collect();
    let of_inputs = rows(INPUTS).filter(|(input, _)| inputs.contains(input));
    let own = rows(PROBLEMS).filter(|(id, _)| operation["operationId"] == **id);
    of_inputs.chain(own).for_each(|(_, row)| add(row));
    if operation.get("security").is_some() {
        add("401 unauthorized, 429 too-many-requests too-many-failures");
    }
    if body.is_some() {
        add("400 bad-body, 408 too-slow, 413 too-large, 503 overloaded");
    }
    add("500 internal");
    problems
}

/// Removes the format `int32`, which `utoipa` gives to unsigned numbers of 32 bits, half of which are out of its range. A `limit`
/// may even be larger.
fn without_int32(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if object.get("format") == Some(&json!("int32")) {
                object.shift_remove("format");
            }
            object.values_mut().for_each(without_int32);
        }
        Value::Array(values) => values.iter_mut().for_each(without_int32),
        _ => {}
    }
}

fn problem(status: u16, kinds: &[&str]) -> Value {
    let types: Vec<String> = kinds.iter().map(|kind| format!("urn:annals:problem:{kind}")).collect();
    let of_type = json!({"properties": {"type": {"enum": types}, "status": {"const": status}}});
    let schema = json!({"allOf": [{"$ref": "#/components/schemas/Problem"}, of_type]});
    let mut response = json!({
        "description": kinds.join(", "),
        "content": {"application/problem+json": {"schema": schema}},
    });
    if status == 429 {
        let header =
            json!({"description": "Seconds", "required": true, "schema": {"type": "integer", "minimum": 1}});
        response["headers"]["retry-after"] = header;
    }
    response
}

#[cfg(test)]
mod tests;
