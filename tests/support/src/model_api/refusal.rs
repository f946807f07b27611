//! Errors, before a provider words them.

use axum::http::{StatusCode, header};
use axum::response::Response;

use super::api::Api;

/// An error.
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) message: String,
    pub(super) kind: &'static str,
    pub(super) param: Option<String>,
    pub(super) code: Option<&'static str>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), kind: "invalid_request_error", param: None, code: None }
    }

    pub(super) fn bad(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::new(StatusCode::BAD_REQUEST, message) }
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

    pub(super) fn into_response(self, api: &dyn Api) -> Response {
        let mut response = api.error(&self);
        *response.status_mut() = self.status;
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, 1.into());
        }
        response
    }
}

pub(super) fn bad(message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, message)
}
