//! The provider of an API: [`Shape`].

use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde_json::json;

use super::wire::{self, Completion, Mishap};
use super::{anthropic, bedrock};

/// The provider whose API a request uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    OpenAi,
    Anthropic,
    Bedrock,
}

impl Shape {
    pub(super) fn stream_type(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Anthropic => "text/event-stream; charset=utf-8",
            Self::Bedrock => "application/vnd.amazon.eventstream",
        }
    }

    /// Returns the name of an error with this status.
    pub(super) fn kind_of(self, status: StatusCode) -> &'static str {
        match (self, status.as_u16()) {
            (Self::Bedrock, 400) => "ValidationException",
            (Self::Bedrock, 401 | 403) => "AccessDeniedException",
            (Self::Bedrock, 429) => "ThrottlingException",
            (Self::Bedrock, 503) => "ServiceUnavailableException",
            (Self::Bedrock, _) => "InternalServerException",
            (_, 401) => "authentication_error",
            (_, 403) => "permission_error",
            (_, 404) => "not_found_error",
            (_, 413) => "request_too_large",
            (_, 429) => "rate_limit_error",
            (_, 529) => "overloaded_error",
            (_, 500..) => "api_error",
            _ => "invalid_request_error",
        }
    }

    /// An overload, in place of the rest of an answer.
    pub(super) fn error_in_stream(self) -> Vec<u8> {
        match self {
            Self::OpenAi => {
                let error =
                    json!({"error": {"message": "The server is overloaded.", "type": "server_error"}});
                format!("data: {error}\n\n").into_bytes()
            }
            Self::Anthropic => {
                let error = json!({"type": "overloaded_error", "message": "Overloaded"});
                anthropic::event(&json!({"type": "error", "error": error}))
            }
            Self::Bedrock => bedrock::exception("throttlingException", "Too many requests, please wait."),
        }
    }

    pub(super) fn answer(self, completion: &Completion, streams: bool, mishap: Option<Mishap>) -> Response {
        if streams {
            let pieces = match self {
                Self::OpenAi => completion.pieces(),
                Self::Anthropic => anthropic::pieces(completion),
                Self::Bedrock => bedrock::pieces(completion),
            };
            return wire::stream(self, pieces, mishap);
        }
        let whole = match self {
            Self::OpenAi => completion.whole(),
            Self::Anthropic => anthropic::whole(completion),
            Self::Bedrock => bedrock::whole(completion),
        };
        Json(whole).into_response()
    }
}
