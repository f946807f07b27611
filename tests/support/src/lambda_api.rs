//! Lambda's runtime API for one process: [`LambdaApi`].
//!
//! Source: <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::CONTENT_LENGTH;
use axum::routing::{get, post};
use futures::StreamExt;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::server::Server;

/// A running API; it ends with this value.
pub struct LambdaApi {
    server: Server,
    answers: UnboundedReceiver<String>,
}

impl LambdaApi {
    /// Starts one that gives these events to its process, as `request-0`, `request-1`, …, each with a `deadline` in epoch
    /// milliseconds.
    pub async fn start(
        events: impl Iterator<Item = String> + Send + 'static,
        deadline: impl Fn() -> i64 + Clone + Send + Sync + 'static,
    ) -> Self {
        let (told, answers) = unbounded_channel();
        let events = Arc::new(Mutex::new(events.enumerate()));
        let next = async move || {
            let event = events.lock().unwrap().next();
            let Some((number, event)) = event else { std::future::pending().await };
            let headers = [
                ("lambda-runtime-aws-request-id", format!("request-{number}")),
                ("lambda-runtime-deadline-ms", deadline().to_string()),
                ("lambda-runtime-trace-id", format!("Root=1-{number}")),
                ("lambda-runtime-invoked-function-arn", "arn:aws:lambda:f".to_owned()),
            ];
            (headers, event)
        };
        let answer = async move |request: Request| {
            let is_whole = request.headers().contains_key(CONTENT_LENGTH);
            let mut body = request.into_body().into_data_stream();
            let mut whole = String::new();
            while let Some(Ok(bytes)) = body.next().await {
                let piece = String::from_utf8_lossy(&bytes);
                if is_whole {
                    whole.push_str(&piece);
                } else {
                    drop(told.send(piece.into_owned()));
                }
            }
            if is_whole {
                drop(told.send(whole));
            }
            StatusCode::ACCEPTED
        };
        let router = Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next))
            .route("/2018-06-01/runtime/invocation/{id}/{outcome}", post(answer));
        Self { server: Server::start(0, router).await, answers }
    }

    /// Returns the value for `AWS_LAMBDA_RUNTIME_API`.
    pub fn address(&self) -> &str {
        self.server.url.trim_start_matches("http://")
    }

    /// Returns the next answer or error of the process, or the next piece of one that it streams.
    pub async fn answer(&mut self) -> String {
        self.answers.recv().await.unwrap()
    }
}
