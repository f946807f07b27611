//! The route of a platform's webhook: [`router`].

use std::sync::Arc;

use annals_channel::webhook::{self, MAX_BODY_BYTES, ReadError, Unverified, Verified, Webhook};
use annals_engine::receiving::{ReceiveError, Receiver};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};

use crate::problem::Problem;
use crate::request_body::{BodyError, BodyReader};
use crate::telemetry;

/// Returns the route of the webhook: verify, read, append, enqueue, and only then 200. If a verified event cannot be stored or
/// queued, the answer is 503, which makes the platform deliver the event again.
pub fn router<W: Webhook>(receiver: Receiver<W>) -> Router {
    Router::new()
        .route(&W::ABOUT.path(), post(webhook::<W>).fallback(async || Problem::method_not_allowed()))
        .layer(from_fn(telemetry::of_request))
        .with_state((Arc::new(receiver), BodyReader::default()))
}

async fn webhook<W: Webhook>(
    State((receiver, bodies)): State<(Arc<Receiver<W>>, BodyReader)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let refused = |Unverified| Problem::unauthorized(W::ABOUT.unverified);
    let webhook = &receiver.webhook;
    let limit = webhook.body_limit(&headers).map_err(refused)?;
    let body = match bodies.read(body, limit, receiver.clock()).await {
        Ok(body) => body,
        Err(BodyError::TooLarge) if limit < MAX_BODY_BYTES => {
            tracing::warn!(
                path = W::ABOUT.path(),
                "refused a body that is larger than the platform sends unsigned"
            );
            return Err(refused(Unverified));
        }
        Err(error) => return Err(error.problem("a request may have at most 6 MiB")),
    };
    let verified = webhook.verify(&headers, &body).map_err(refused)?;
    drop(body);
    let event = match verified {
        Verified::Event(event) => event,
        Verified::Answer(answer) => return Ok(response(answer)),
        Verified::NotAnEvent => return Err(not_an_event()),
    };
    match receiver.receive(event).await {
        Ok(answer) => Ok(response(answer)),
        Err(ReceiveError::Read(ReadError::NotAnEvent)) => Err(not_an_event()),
        Err(error) => {
            tracing::error!(%error, path = W::ABOUT.path(), "failed to store an event; the platform will deliver it again");
            Err(Problem::unavailable())
        }
    }
}

fn response(response: webhook::Response) -> Response {
    match response {
        webhook::Response::Empty => StatusCode::OK.into_response(),
        webhook::Response::Accepted => StatusCode::ACCEPTED.into_response(),
        webhook::Response::NoContent => StatusCode::NO_CONTENT.into_response(),
        webhook::Response::Json(body) => Json(body).into_response(),
    }
}

fn not_an_event() -> Problem {
    Problem::bad_request("not-an-update", "Not an update", "the body is not a JSON object")
}
