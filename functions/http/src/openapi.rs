//! `GET /openapi.json`: what the API takes and answers, as `OpenAPI` 3.1.
//!
//! The document is made of the annotations at the handlers and at what they take and answer, by [`describe`], and stands
//! in the repository (`openapi.json`), which the program gives out as it is: so no start makes it, no binary holds what
//! makes it, and a change of the API shows in a diff. A test compares the two; `just openapi` writes it anew.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde_json::{Map, Value, json};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi, ToSchema};

use crate::{auth, chat, chats, forget, get, memory, post, segments, strangers};

/// The document as it is given out.
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
        description = "One durable history per chat, whatever door a message comes in by.\n\n\
            `chatId` is a caller's own conversation id; an admin key may give a whole ChatKey, such as \
            `telegram:chat:42`, there instead. Each answer carries `x-request-id`, a caller's own where it sends one.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    paths(
        auth::key, chats::list, chats::one, forget::delete, post::chat_message, get::messages, get::context, segments::list, segments::one,
        chat::say, chat::resume, chat::stop, post::reset, post::compact, post::direct_message, memory::list, memory::correct, memory::delete, strangers::list, health,
        document,
    ),
    components(schemas(Problem, UiMessage)),
    tags(
        (name = "messages", description = "Saying something, and commands"),
        (name = "chat", description = "What `useChat` of the Vercel AI SDK speaks, from 6.0.0 on"),
        (name = "histories", description = "Reading what was said, and what the model would see of it"),
        (name = "memory", description = "What is remembered beyond a session"),
        (name = "about", description = "The program, without a key, and the key"),
    ),
    modifiers(&Common)
)]
struct Api;

/// A message of the Vercel AI SDK. Keys that this version does not know are kept.
#[derive(ToSchema)]
#[schema(as = UIMessage)]
#[allow(dead_code, reason = "what `annals_shared::message::UiMessage` is written as")]
pub(crate) struct UiMessage {
    /// Its `messageId`; of revision n `<messageId>@<n>`. A reply to the message m is `m/reply`, a confirmation `m/notice`, a
    /// boundary `m/boundary`, a summary up to it `m/summary`. Unique in its chat, unless a caller gives ids of these shapes
    /// itself: then two of a listing may have one, and `metadata` tells them apart.
    id: String,
    role: annals_shared::message::Role,
    parts: Vec<Part>,
    /// `ts, chatKey, channel, chatId, userId, actorKey, messageId, kind` of a listed message, `sentAt` of a reply,
    /// `sourceRange {fromId, toId, count}` of a summary, `deliveryFailure`, `model`, `usage`, and what the platform said.
    metadata: Option<Map<String, Value>>,
}

/// A part of a message: text, file, reasoning, tool, …
#[derive(ToSchema)]
#[allow(dead_code, reason = "what a part has at least")]
pub(crate) struct Part {
    #[schema(min_length = 1)]
    r#type: String,
}

/// What is wrong (RFC 9457).
#[derive(ToSchema)]
#[allow(dead_code, reason = "what `annals_shared::problem::Problem` is written as")]
struct Problem {
    /// Stable: `urn:annals:problem:<kind>`.
    r#type: String,
    /// The same for each problem of this type.
    title: String,
    /// The answer's status.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// What is wrong here, and what to do.
    detail: String,
    /// The answer's `x-request-id`.
    #[schema(rename = "requestId")]
    request_id: String,
}

/// What all routes have in common.
struct Common;

impl Modify for Common {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let key = HttpBuilder::new().scheme(HttpAuthScheme::Bearer);
        let key = key.description(Some("A key of `HTTP_API_KEYS`.")).build();
        api.components.get_or_insert_default().add_security_scheme("key", SecurityScheme::Http(key));
    }
}

/// The kinds of problems of one status.
type Problems = (u16, &'static [&'static str]);

/// Of each operation, by status, the kinds of problems that it can answer, beside those that all have.
const PROBLEMS: [(&str, &[Problems]); 19] = [
    (
        "postChat",
        &[
            (400, &["bad-chat-id", "bad-body", "bad-chat", "missing-user", "bad-user", "bad-message-id"]),
            (403, &["forbidden"]),
            (404, &["unknown-message"]),
            (409, &["message-id-taken", "more-approvals-needed"]),
            (503, &["unavailable", "overloaded"]),
        ],
    ),
    ("resumeChat", &[(400, &["bad-chat-id"]), (503, &["unavailable"])]),
    (
        "stopChat",
        &[
            (400, &["bad-chat-id", "bad-body", "missing-user", "bad-user", "bad-message-id"]),
            (409, &["message-id-taken"]),
            (503, &["unavailable", "overloaded"]),
        ],
    ),
    (
        "listChats",
        &[(400, &["bad-cursor", "bad-limit", "bad-query"]), (403, &["forbidden"]), (503, &["unreadable"])],
    ),
    ("getKey", &[]),
    ("getChat", &[(400, &["bad-chat-id"]), (404, &["no-such-chat"]), (503, &["unreadable"])]),
    ("forgetChat", &[(400, &["bad-chat-id"]), (409, &["busy"]), (503, &["not-forgotten"])]),
    (
        "postMessage",
        &[
            (
                400,
                &[
                    "bad-chat-id",
                    "bad-wait",
                    "bad-body",
                    "missing-user",
                    "bad-user",
                    "bad-message",
                    "bad-message-id",
                    "bad-ts",
                ],
            ),
            (409, &["message-id-taken"]),
            (503, &["unavailable", "overloaded"]),
        ],
    ),
    (
        "postDirectMessage",
        &[
            (
                400,
                &[
                    "bad-wait",
                    "bad-body",
                    "missing-user",
                    "bad-user",
                    "bad-message",
                    "bad-message-id",
                    "bad-ts",
                ],
            ),
            (409, &["message-id-taken"]),
            (503, &["unavailable", "overloaded"]),
        ],
    ),
    (
        "resetChat",
        &[
            (400, &["bad-chat-id", "bad-body", "missing-user", "bad-user", "bad-message-id"]),
            (409, &["message-id-taken"]),
            (503, &["unavailable", "overloaded"]),
        ],
    ),
    (
        "compactChat",
        &[
            (
                400,
                &[
                    "bad-chat-id",
                    "bad-wait",
                    "bad-body",
                    "bad-focus",
                    "missing-user",
                    "bad-user",
                    "bad-message-id",
                ],
            ),
            (409, &["message-id-taken"]),
            (503, &["unavailable", "overloaded"]),
        ],
    ),
    (
        "listMessages",
        &[(400, &["bad-chat-id", "bad-query", "bad-cursor", "bad-limit"]), (503, &["unreadable"])],
    ),
    ("getContext", &[(400, &["bad-chat-id"]), (503, &["unreadable", "unavailable"])]),
    ("listSegments", &[(400, &["bad-chat-id"]), (503, &["unreadable"])]),
    ("getSegment", &[(400, &["bad-chat-id"]), (404, &["no-such-segment"]), (503, &["unreadable"])]),
    ("listStrangers", &[(403, &["forbidden"]), (503, &["unavailable"])]),
    ("listMemory", &[(400, &["bad-owner", "bad-user", "bad-chat-id"]), (503, &["unavailable"])]),
    ("correctMemory", &[(400, &["bad-body"]), (404, &["no-entry"]), (503, &["unavailable", "overloaded"])]),
    ("deleteMemory", &[(404, &["no-entry"]), (503, &["unavailable"])]),
];

/// The document, made of the code's annotations.
pub(crate) fn describe() -> Value {
    let mut api = serde_json::to_value(Api::openapi()).unwrap_or_default();
    // `text` or `parts`, and the other absent or null.
    api["components"]["schemas"]["NewMessage"]["oneOf"] = json!([
        {"required": ["text"], "properties": {"text": {"type": "string"}, "parts": {"type": "null"}}},
        {"required": ["parts"], "properties": {"text": {"type": "null"}, "parts": {"type": "array"}}},
    ]);
    api["components"]["schemas"]["Correction"]["oneOf"] = json!([
        {"required": ["text"], "properties": {"text": {"type": "string"}, "markdown": {"type": "null"}}},
        {"required": ["markdown"], "properties": {"text": {"type": "null"}, "markdown": {"type": "string"}}},
    ]);
    let request_id =
        json!({"description": "Names this request in logs and problems", "schema": {"type": "string"}});
    without_int32(&mut api);
    let operations = api["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
    for operation in operations.flat_map(|path| path.as_object_mut().into_iter().flat_map(Map::values_mut)) {
        if operation.get("operationId").is_none() {
            continue;
        }
        let id = operation["operationId"].as_str().unwrap_or_default().to_owned();
        let mut problems: Vec<Problems> = Vec::new();
        problems.extend(PROBLEMS.iter().filter(|(of, _)| *of == id).flat_map(|(_, problems)| *problems));
        if operation.get("security").is_some() {
            problems.extend([
                (401, &["unauthorized"] as &[&str]),
                (429, &["too-many-requests", "too-many-failures"]),
            ]);
        }
        if matches!(id.as_str(), "resetChat" | "compactChat" | "stopChat") {
            operation["requestBody"]["required"] = json!(false);
        }
        if operation.get("requestBody").is_some() {
            problems.extend([(408, &["too-slow"] as &[&str]), (413, &["too-large"])]);
        }
        problems.push((500, &["internal"]));
        for (status, kinds) in problems {
            operation["responses"][status.to_string()] = problem(status, kinds);
        }
        for response in operation["responses"].as_object_mut().into_iter().flat_map(Map::values_mut) {
            // What a schema would say there is of one event.
            if let Some(stream) = response.pointer_mut("/content/text~1event-stream") {
                *stream = json!({});
            }
            response["headers"]["x-request-id"] = request_id.clone();
        }
        if let Some(responses) = operation["responses"].as_object_mut() {
            responses.sort_keys();
        }
    }
    api
}

/// Takes off the format that `utoipa` gives numbers of 32 bits without a sign, half of which are out of its range; and a
/// `limit` may be any number.
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
