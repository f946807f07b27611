//! Errors for callers: `application/problem+json` (RFC 9457).
//!
//! ```json
//! {"type": "urn:annals:problem:missing-user", "title": "userId is missing", "status": 400,
//!  "detail": "give the id of the person who speaks as \"userId\"", "requestId": "req_4c0a9be21d4f5a6b"}
//! ```
//!
//! `requestId` is the `x-request-id` of the response, which its log lines have too.
//!
//! Titles and details are written here or by a parser, never taken from an internal error, so that no internals can
//! leak.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::telemetry;

/// Kind of the one problem whose response has a `Retry-After` of its own.
const OVERLOADED: &str = "overloaded";

/// An error for a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The HTTP status.
    pub status: StatusCode,
    /// Last part of the stable `type`: `urn:annals:problem:<kind>`.
    pub kind: &'static str,
    /// Description of the problem, the same for every problem of this kind.
    pub title: &'static str,
    /// Description of this occurrence, and the next step.
    pub detail: String,
}

impl Problem {
    /// Returns a problem of this status and kind.
    pub fn new(
        status: StatusCode,
        kind: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self { status, kind, title, detail: detail.into() }
    }

    /// 400: the request is malformed.
    pub fn bad_request(kind: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, kind, title, detail)
    }

    /// 401: missing or wrong credentials. The response is the same for every reason.
    pub fn unauthorized(detail: &'static str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "Not authorized", detail)
    }

    /// 403: the caller is known, but not allowed to do this.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "Not allowed", detail)
    }

    /// 429: this key calls too often. The response should have a `Retry-After`.
    pub fn too_many_requests() -> Self {
        let detail = "wait for the number of seconds in Retry-After";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too-many-requests", "This key calls too often", detail)
    }

    /// 429: this address repeatedly sends wrong keys. The response should have a `Retry-After`.
    pub fn too_many_failures() -> Self {
        let detail = "wait for the number of seconds in Retry-After, or send a valid API key, which is accepted at once";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too-many-failures", "This address sends wrong keys", detail)
    }

    /// 500: an error of the program.
    pub fn internal() -> Self {
        let detail =
            "this is an error of the server, and is logged; the message of the request may be stored";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "The program failed", detail)
    }

    /// 408: the body took too long to arrive.
    pub fn too_slow() -> Self {
        let detail =
            "it did not arrive completely within 30 seconds; nothing is stored, send the same request again";
        Self::new(StatusCode::REQUEST_TIMEOUT, "too-slow", "The body took too long", detail)
    }

    /// 503: too many large bodies are being read. The response has a `Retry-After`.
    pub fn overloaded() -> Self {
        let detail = "others are being read at the moment; nothing is stored, send the same request again after the \
                      number of seconds in Retry-After";
        Self::unavailable_for(OVERLOADED, "Too many large requests", detail)
    }

    /// 413: the body is too large; `detail` names the limit.
    pub fn too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "The body is too large", detail)
    }

    /// 404: there is no such route.
    pub fn not_found() -> Self {
        Self::no_such("not-found", "No such route", "GET /openapi.json lists the routes")
    }

    /// 404: the route exists, but the object in its path does not.
    pub fn no_such(kind: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, kind, title, detail)
    }

    /// 405: the route exists, but does not accept this method.
    pub fn method_not_allowed() -> Self {
        let title = "The route does not take this method";
        let detail =
            "the header Allow lists the methods that it accepts, and GET /openapi.json describes them";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", title, detail)
    }

    /// 409: another request is deleting the chat, or data of its people.
    pub fn busy() -> Self {
        let detail = "another request is deleting this; if that one was cut off, try again in 15 seconds";
        Self::new(StatusCode::CONFLICT, "busy", "It is being deleted", detail)
    }

    /// 409: people cannot be linked, because their direct messages stay where they were said.
    pub fn links_off() -> Self {
        let detail = "links need DM_SCOPE=user: set it first";
        Self::new(StatusCode::CONFLICT, "links-off", "Linking is off", detail)
    }

    /// 409: an approval is recorded, but other askers must approve too.
    pub fn more_approvals_needed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "more-approvals-needed", "Others must approve, too", detail)
    }

    /// 409: the id of a command is already that of a message or of another command.
    pub fn command_id_taken() -> Self {
        Self::message_id_taken(
            "\"messageId\" identifies the command, so that it is carried out once; this id is already that of a \
             message or another command",
        )
    }

    /// 409: a message of another user has this id.
    pub fn not_the_author() -> Self {
        Self::message_id_taken(
            "a message of another userId has this id, and only its author can change it: give another id, or none",
        )
    }

    /// 409: the id of an operator's message is already another's. What was sent cannot be changed.
    pub fn sent_otherwise() -> Self {
        Self::message_id_taken(
            "something else is stored under this id, and what was sent is not changed: give another id",
        )
    }

    fn message_id_taken(detail: &'static str) -> Self {
        Self::new(StatusCode::CONFLICT, "message-id-taken", "The messageId is another message's", detail)
    }

    /// 503: a chat could not be deleted, or only in part.
    pub fn not_forgotten() -> Self {
        Self::forgotten_in_part("a store did not answer")
    }

    /// 503: a chat is so long that one request does not delete all of it.
    pub fn not_forgotten_yet() -> Self {
        Self::forgotten_in_part("it takes longer than one request may")
    }

    fn forgotten_in_part(reason: &str) -> Self {
        let detail = format!("{reason}; send the same request again, which deletes the rest");
        Self::unavailable_for("not-forgotten", "The chat is not forgotten whole", detail)
    }

    /// 503: a history could not be read.
    pub fn unreadable() -> Self {
        let detail = "the store did not answer; send the same request again";
        Self::unavailable_for("unreadable", "The history cannot be read", detail)
    }

    /// 503: storing or queueing failed. Nothing was acknowledged, and the same request may succeed later.
    pub fn unavailable() -> Self {
        let detail = "the store or the queue failed; send the same request again";
        Self::unavailable_for("unavailable", "Not stored", detail)
    }

    /// 503: memory could not be read or written.
    pub fn memory_unavailable() -> Self {
        let detail = "the store did not answer; send the same request again";
        Self::unavailable_for("unavailable", "Memory is unavailable", detail)
    }

    /// Says of a 503 that something stored is damaged or missing.
    #[must_use]
    pub fn that_stays(mut self) -> Self {
        "something stored is damaged or missing, and a repeat does not help: the log of this request names it"
            .clone_into(&mut self.detail);
        self
    }

    fn unavailable_for(kind: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, kind, title, detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = json!({
            "type": format!("urn:annals:problem:{}", self.kind),
            "title": self.title,
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        if let (Some(id), Some(body)) = (telemetry::request_id(), body.as_object_mut()) {
            body.insert("requestId".into(), id.into());
        }
        let mut response = (self.status, body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.kind == OVERLOADED {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }
}
