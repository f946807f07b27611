//! Answers, whole or in pieces, and their faults.

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Json, Response};

use super::api::Api;
use super::completion::Completion;

/// Answers with `completion`.
pub(super) fn answer(
    api: &dyn Api,
    completion: &Completion,
    streams: bool,
    mishap: Option<Mishap>,
) -> Response {
    if streams { stream(api, completion, mishap) } else { Json(api.whole(completion)).into_response() }
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

fn stream(api: &dyn Api, completion: &Completion, mishap: Option<Mishap>) -> Response {
    use futures::stream::{self, StreamExt};
    let mut pieces = api.pieces(completion);
    match mishap {
        None => {}
        Some(Mishap::Opens) => pieces.truncate(1),
        Some(_) => pieces.truncate(pieces.len() / 2),
    }
    if mishap == Some(Mishap::Fails) {
        pieces.push(api.overload());
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
    ([(header::CONTENT_TYPE, api.facts().content_type)], body).into_response()
}
