//! The providers, and how each words an error.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use serde_json::json;

/// The provider whose API a request uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    OpenAi,
    Anthropic,
    Bedrock,
}

/// An error.
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) message: String,
    kind: &'static str,
    param: Option<String>,
    code: Option<&'static str>,
}

impl Shape {
    /// Returns the name of an error with this status.
    fn kind_of(self, status: StatusCode) -> &'static str {
        match self {
            Self::Bedrock => match status.as_u16() {
                400 => "ValidationException",
                401 | 403 => "AccessDeniedException",
                429 => "ThrottlingException",
                503 => "ServiceUnavailableException",
                _ => "InternalServerException",
            },
            Self::OpenAi | Self::Anthropic => match status.as_u16() {
                401 => "authentication_error",
                403 => "permission_error",
                404 => "not_found_error",
                413 => "request_too_large",
                429 => "rate_limit_error",
                529 => "overloaded_error",
                500.. => "api_error",
                _ => "invalid_request_error",
            },
        }
    }
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), kind: "invalid_request_error", param: None, code: None }
    }

    pub(super) fn bad(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::new(StatusCode::BAD_REQUEST, message) }
    }

    /// Returns the error for a request of `requested` tokens if `limit` are allowed.
    pub(super) fn too_long(shape: Shape, limit: u64, requested: u64) -> Self {
        let message = match shape {
            Shape::OpenAi => format!(
                "This model's maximum context length is {limit} tokens. However, your messages resulted in {requested} tokens. Please reduce the length of the messages."
            ),
            Shape::Anthropic => format!("prompt is too long: {requested} tokens > {limit} maximum"),
            Shape::Bedrock => "Input is too long for requested model.".into(),
        };
        Self { code: Some("context_length_exceeded"), ..Self::bad("messages", message) }
    }

    pub(super) fn with_code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    pub(super) fn injected(status: StatusCode) -> Self {
        let (kind, code, message) = match status {
            StatusCode::TOO_MANY_REQUESTS => (
                "requests",
                Some("rate_limit_exceeded"),
                "Rate limit reached for requests. Please try again in 1s.",
            ),
            StatusCode::UNAUTHORIZED => {
                ("invalid_request_error", Some("invalid_api_key"), "Incorrect API key provided.")
            }
            status if status.is_server_error() => (
                "server_error",
                None,
                "The server had an error while processing your request. Sorry about that!",
            ),
            _ => ("invalid_request_error", None, "The request was refused."),
        };
        Self { kind, code, ..Self::new(status, message) }
    }

    /// As the provider words it: `{"error": {"message", "type", "param", "code"}}` of OpenAI, `{"type": "error",
    /// "error": {"type", "message"}}` of Anthropic, `{"message"}` and a header of Bedrock.
    pub(super) fn into_response(self, shape: Shape) -> Response {
        let (status, message) = (self.status, self.message);
        let kind = shape.kind_of(status);
        let body = match shape {
            Shape::OpenAi => {
                json!({"error": {"message": message, "type": self.kind, "param": self.param, "code": self.code}})
            }
            Shape::Anthropic => json!({"type": "error", "error": {"type": kind, "message": message}}),
            Shape::Bedrock => json!({"message": message}),
        };
        let mut response = (status, Json(body)).into_response();
        if shape == Shape::Bedrock {
            response.headers_mut().insert("x-amzn-errortype", HeaderValue::from_static(kind));
        }
        if status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, 1.into());
        }
        response
    }
}

pub(super) fn bad(message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, message)
}
