//! Errors as callers see them: `application/problem+json` (RFC 9457).
//!
//! ```json
//! {"type": "urn:annals:problem:missing-user", "title": "userId is missing", "status": 400,
//!  "detail": "give the id of the person who speaks as \"userId\"", "requestId": "req_4c0a9be21d4f5a6b"}
//! ```
//!
//! `requestId` is the answer's `x-request-id`, and in the log lines about it.
//!
//! Titles and details are written here or by a parser, never taken from an internal error, so internals cannot leak.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::telemetry;

/// The kind of the one problem that says by itself when to come again.
const OVERLOADED: &str = "overloaded";

/// An error for a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The HTTP status.
    pub status: StatusCode,
    /// The last part of the stable `type`: `urn:annals:problem:<kind>`.
    pub kind: &'static str,
    /// What is wrong, the same for every problem of this kind.
    pub title: &'static str,
    /// What is wrong here, and what to do.
    pub detail: String,
}

impl Problem {
    /// 400: the request is not what the route takes.
    pub fn bad_request(kind: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, kind, title, detail: detail.into() }
    }

    /// 401: no or wrong credentials; the same for every way they can be wrong.
    pub fn unauthorized(detail: &'static str) -> Self {
        Self {
            status: StatusCode::UNAUTHORIZED,
            kind: "unauthorized",
            title: "Not authorized",
            detail: detail.into(),
        }
    }

    /// 403: who calls is known, but may not do this.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self { status: StatusCode::FORBIDDEN, kind: "forbidden", title: "Not allowed", detail: detail.into() }
    }

    /// 429: this key calls too often; the answer wants a `Retry-After` beside it.
    pub fn too_many_requests() -> Self {
        Self {
            status: StatusCode::TOO_MANY_REQUESTS,
            kind: "too-many-requests",
            title: "This key calls too often",
            detail: "wait for as many seconds as Retry-After says".into(),
        }
    }

    /// 429: this address sends wrong keys again and again; the answer wants a `Retry-After` beside it.
    pub fn too_many_failures() -> Self {
        Self {
            status: StatusCode::TOO_MANY_REQUESTS,
            kind: "too-many-failures",
            title: "This address sends wrong keys",
            detail: "wait for as many seconds as Retry-After says, or send a known API key, which is taken at once".into(),
        }
    }

    /// 500: a fault of the program's own.
    pub fn internal() -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            kind: "internal",
            title: "The program failed",
            detail: "this is a fault of its own, and is logged; a message that came with it may be stored"
                .into(),
        }
    }

    /// 408: the body took too long to arrive.
    pub fn too_slow() -> Self {
        Self {
            status: StatusCode::REQUEST_TIMEOUT,
            kind: "too-slow",
            title: "The body took too long",
            detail:
                "it did not arrive whole within 30 seconds; nothing is stored, send the same request again"
                    .into(),
        }
    }

    /// 503: too many large bodies are being read; the answer carries `Retry-After`.
    pub fn overloaded() -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            kind: OVERLOADED,
            title: "Too many large requests",
            detail: "others are being read; nothing is stored, send the same request again after Retry-After seconds"
                .into(),
        }
    }

    /// 413: the body is too large; `detail` says the limit.
    pub fn too_large(detail: impl Into<String>) -> Self {
        Self {
            status: StatusCode::PAYLOAD_TOO_LARGE,
            kind: "too-large",
            title: "The body is too large",
            detail: detail.into(),
        }
    }

    /// 404: no such route.
    pub fn not_found() -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            kind: "not-found",
            title: "No such route",
            detail: "GET /openapi.json lists the routes".into(),
        }
    }

    /// 404: the route is there, but not what its path names.
    pub fn no_such(kind: &'static str, title: &'static str, detail: &'static str) -> Self {
        Self { status: StatusCode::NOT_FOUND, kind, title, detail: detail.into() }
    }

    /// 405: the route is there, but not for this method.
    pub fn method_not_allowed() -> Self {
        Self {
            status: StatusCode::METHOD_NOT_ALLOWED,
            kind: "method-not-allowed",
            title: "The route does not take this method",
            detail: "Allow says which it takes, and GET /openapi.json what for".into(),
        }
    }

    /// 409: a run has the chat.
    pub fn busy() -> Self {
        Self {
            status: StatusCode::CONFLICT,
            kind: "busy",
            title: "The chat is being answered",
            detail: "a run has this chat at the moment; ask again in a while".into(),
        }
    }

    /// 409: an approval is recorded, and others of those who asked must approve, too.
    pub fn more_approvals_needed(detail: impl Into<String>) -> Self {
        Self {
            status: StatusCode::CONFLICT,
            kind: "more-approvals-needed",
            title: "Others must approve, too",
            detail: detail.into(),
        }
    }

    /// 409: the id of a command is a message's or another command's.
    pub fn command_id_taken() -> Self {
        Self::message_id_taken(
            "\"messageId\" names the command, under which it is carried out once; that id is a message's, or another \
             command's",
        )
    }

    /// 409: a message of another user has this id.
    pub fn not_the_author() -> Self {
        Self::message_id_taken(
            "this id is a message of another userId, and only its author can change it: give another id, or none",
        )
    }

    fn message_id_taken(detail: &'static str) -> Self {
        Self {
            status: StatusCode::CONFLICT,
            kind: "message-id-taken",
            title: "The messageId is another message's",
            detail: detail.into(),
        }
    }

    /// 503: a chat could not be forgotten, or only in part.
    pub fn not_forgotten() -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            kind: "not-forgotten",
            title: "The chat is not forgotten whole",
            detail: "a store did not answer; send the same request again, which goes on with what is left"
                .into(),
        }
    }

    /// 503: a chat is so long that one request does not delete all of it.
    pub fn not_forgotten_yet(records: usize) -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            kind: "not-forgotten",
            title: "The chat is not forgotten whole",
            detail: format!(
                "{records} records are deleted, and there are more; send the same request again, which goes on"
            ),
        }
    }

    /// 503: a history could not be read.
    pub fn unreadable() -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            kind: "unreadable",
            title: "The history cannot be read",
            detail: "the store did not answer; ask again".into(),
        }
    }

    /// 503: storing or queueing failed; nothing was acknowledged, and the same request may succeed later.
    pub fn unavailable() -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            kind: "unavailable",
            title: "Not stored",
            detail: "the message could not be stored and queued; send the same request again".into(),
        }
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
