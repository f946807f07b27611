//! Answers as each provider writes them, whole or in pieces, and their faults.

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Json, Response};
use serde_json::json;

use super::completion::Completion;
use super::refusal::Shape;
use super::{anthropic, bedrock};

/// Answers with `completion`.
pub(super) fn answer(
    shape: Shape,
    completion: &Completion,
    streams: bool,
    mishap: Option<Mishap>,
) -> Response {
    if streams {
        let pieces = match shape {
            Shape::OpenAi => completion.pieces(),
            Shape::Anthropic => anthropic::pieces(completion),
            Shape::Bedrock => bedrock::pieces(completion),
        };
        return stream(shape, pieces, mishap);
    }
    let whole = match shape {
        Shape::OpenAi => completion.whole(),
        Shape::Anthropic => anthropic::whole(completion),
        Shape::Bedrock => bedrock::whole(completion),
    };
    Json(whole).into_response()
}

/// A fault in the middle of a streamed answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// The connection breaks.
    Breaks,
    /// The body ends as if it were whole.
    Ends,
    /// Nothing comes any more.
    Stalls,
    /// Nothing comes after the first event, which has no text.
    Opens,
    /// An error comes in place of the rest, such as an overload.
    Fails,
}

/// A stream of `pieces`.
fn stream(shape: Shape, mut pieces: Vec<Vec<u8>>, mishap: Option<Mishap>) -> Response {
    use futures::stream::{self, StreamExt};
    match mishap {
        None => {}
        Some(Mishap::Opens) => pieces.truncate(1),
        Some(_) => pieces.truncate(pieces.len() / 2),
    }
    if mishap == Some(Mishap::Fails) {
        pieces.push(overload(shape));
    }
    let pieces = stream::iter(pieces.into_iter().map(Ok::<_, std::io::Error>));
    let body = match mishap {
        None | Some(Mishap::Ends | Mishap::Fails) => Body::from_stream(pieces),
        Some(Mishap::Breaks) => {
            // What was sent is on its way before the connection is cut.
            let cut = stream::once(async {
                tokio::task::yield_now().await;
                Err(std::io::Error::other("cut"))
            });
            Body::from_stream(pieces.chain(cut))
        }
        Some(Mishap::Stalls | Mishap::Opens) => Body::from_stream(pieces.chain(stream::pending())),
    };
    let kind = match shape {
        Shape::OpenAi | Shape::Anthropic => "text/event-stream; charset=utf-8",
        Shape::Bedrock => "application/vnd.amazon.eventstream",
    };
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

/// An overload, in place of the rest of an answer.
fn overload(shape: Shape) -> Vec<u8> {
    match shape {
        Shape::OpenAi => {
            let error = json!({"error": {"message": "The server is overloaded.", "type": "server_error"}});
            format!("data: {error}\n\n").into_bytes()
        }
        Shape::Anthropic => {
            let error = json!({"type": "overloaded_error", "message": "Overloaded"});
            anthropic::event(&json!({"type": "error", "error": error}))
        }
        Shape::Bedrock => bedrock::exception("throttlingException", "Too many requests, please wait."),
    }
}
