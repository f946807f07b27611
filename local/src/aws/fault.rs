//! Errors of AWS's JSON protocols: [`Fault`].

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::stores::engine::in_json;

/// An error for a caller.
///
/// ```json
/// {"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "…"}
/// ```
#[derive(Debug)]
pub(super) struct Fault {
    status: StatusCode,
    pub(super) kind: &'static str,
    message: String,
}

impl Fault {
    /// Returns a 400: an error of the caller.
    pub(super) fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, kind, message: message.into() }
    }

    /// Returns a 403.
    pub(super) fn forbidden(kind: &'static str, message: &str) -> Self {
        Self { status: StatusCode::FORBIDDEN, kind, message: message.into() }
    }

    /// Returns a 500: an error of this program. The caller may retry.
    pub(super) fn internal() -> Self {
        let (status, message) = (StatusCode::INTERNAL_SERVER_ERROR, "see the program's log".into());
        Self { status, kind: "InternalServerError", message }
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        // Services differ in the spelling of this field.
        let body = json!({"__type": self.kind, "message": self.message, "Message": self.message});
        (self.status, in_json(body.to_string())).into_response()
    }
}
