//! The HTTP API: `/v1/…`, `/api/chat…` and `/health`.
//!
//! # Layout
//!
//! - [`auth`]: API keys, and which chats a caller may name
//! - [`chat`]: what `useChat` of the AI SDK speaks
//! - `post.rs`: messages in, and waiting for their reply
//! - `get.rs`: histories and contexts out
//! - `segments.rs`: what was archived
//! - `chats.rs`: the list of chats
//! - `forget.rs`: forgetting a chat
//! - `strangers.rs`: who was refused
//! - `console.rs`: a page that shows all of it
//! - `openapi.rs`: what all of it takes and answers, as a document
//! - `memory.rs`: what is remembered of people and groups: seen, corrected, deleted
//! - [`limit`]: how often a key may call; `wrong_keys.rs`: what an address that sends wrong ones is told

#![allow(unused_qualifications, reason = "what `utoipa::path` writes")]

pub mod auth;
pub mod chat;
mod chats;
mod console;
mod forget;
mod get;
pub mod limit;
mod memory;
mod openapi;
mod post;
mod segments;
mod strangers;
mod wrong_keys;

use std::sync::Arc;
use std::time::Duration;

use annals_shared::chat_key::ChatKey;
use annals_shared::clock::Clock;
use annals_shared::config::{ApiKey, CorsOrigins, MemoryConfig, ViewConfig};
use annals_shared::history::HistoryError;
use annals_shared::ingress::{Ingress, IngressError};
use annals_shared::memory::MemoryError;
use annals_shared::problem::Problem;
use annals_shared::{random, telemetry};
use axum::Router;
use axum::http::{HeaderName, Method, header};
use axum::middleware::from_fn;
use axum::routing::{MethodRouter, get, post, put};
use futures::future::BoxFuture;
use serde_json::Value;
use tower_http::cors::{AllowOrigin, CorsLayer};

use limit::Limits;

/// The longest request body taken, and of `POST /api/chat` the longest message.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// How long a browser need not ask again whether it may call.
const PREFLIGHT_HOLDS: Duration = Duration::from_hours(1);

/// What the API needs.
pub struct Http {
    /// Appends and enqueues, and the histories.
    pub ingress: Ingress,
    /// Who may call.
    pub keys: Vec<ApiKey>,
    /// What `/api/chat` has beside that.
    pub web: chat::Web,
    /// What decides a context.
    pub view: ViewConfig,
    /// `MEMORY`, `CAPTURE_GROUP_MEMORY`
    pub memory: MemoryConfig,
    /// `SYSTEM_PROMPT`
    pub system_prompt: Option<String>,
    /// `HTTP_CORS_ORIGINS`: from which origins' pages a browser may call.
    pub cors_origins: CorsOrigins,
    /// `CONSOLE`: whether the console is served at `/`.
    pub console: bool,
    /// Makes ids of messages that come without one: unique, 1 to 256 bytes.
    pub new_id: fn() -> String,
    /// Steps of the program after a chat is forgotten, before the request is answered.
    pub after_forgetting: Option<AfterForgetting>,
    /// `HTTP_RATE_LIMIT`: how often one key may call this process.
    pub limits: Limits,
    /// The time.
    pub clock: Clock,
}

/// Removes what a program keeps of a chat, under each of its names, beside the stores of the histories.
pub type AfterForgetting = Arc<dyn Fn(Vec<ChatKey>) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// The routes.
pub fn router(http: Http) -> Router {
    let cors = cors(&http.cors_origins);
    let router = routes(http);
    match cors {
        Some(cors) => router.layer(cors),
        None => router,
    }
}

fn routes(http: Http) -> Router {
    let route = |methods: MethodRouter<Arc<Http>>| methods.fallback(async || Problem::method_not_allowed());
    let console = if http.console {
        Router::new()
            .route("/", route(get(console::page)))
            .route("/console/{file}", route(get(console::file)))
    } else {
        Router::new()
    };
    console
        .route("/health", route(get(openapi::health)))
        .route("/openapi.json", route(get(openapi::document)))
        .route("/v1/key", route(get(auth::key)))
        .route("/v1/chats", route(get(chats::list)))
        .route("/v1/strangers", route(get(strangers::list)))
        .route("/v1/messages", route(post(post::direct_message)))
        .route("/v1/chats/{chat_id}", route(get(chats::one).delete(forget::delete)))
        .route("/v1/chats/{chat_id}/messages", route(post(post::chat_message).get(get::messages)))
        .route("/v1/chats/{chat_id}/context", route(get(get::context)))
        .route("/v1/chats/{chat_id}/segments", route(get(segments::list)))
        .route("/v1/chats/{chat_id}/segments/{segment_id}", route(get(segments::one)))
        .route("/v1/chats/{chat_id}/reset", route(post(post::reset)))
        .route("/v1/chats/{chat_id}/compact", route(post(post::compact)))
        .route("/api/chat", route(post(chat::say)))
        .route("/api/chat/{id}/stream", route(get(chat::resume)))
        .route("/api/chat/{id}/stop", route(post(chat::stop)))
        .route("/v1/memory", route(get(memory::list)))
        .route("/v1/memory/{id}", route(put(memory::correct).delete(memory::delete)))
        .fallback(async || Problem::not_found())
        .layer(from_fn(telemetry::of_request))
        .with_state(Arc::new(http))
}

/// What the API takes and answers, as `OpenAPI` 3.1: `openapi.json`.
pub fn openapi() -> Value {
    openapi::describe()
}

/// Lets pages of `origins` call with a bearer key; there are no cookies to send along.
fn cors(origins: &CorsOrigins) -> Option<CorsLayer> {
    let allowed = match origins {
        CorsOrigins::None => return None,
        CorsOrigins::Any => AllowOrigin::any(),
        CorsOrigins::These(origins) => AllowOrigin::list(origins.iter().cloned()),
    };
    let exposed = [telemetry::REQUEST_ID, header::RETRY_AFTER, header::ALLOW, chat::PAST];
    Some(
        CorsLayer::new()
            .allow_origin(allowed)
            .allow_methods([Method::GET, Method::POST, Method::PUT, Method::DELETE])
            .allow_headers([
                header::AUTHORIZATION,
                header::CONTENT_TYPE,
                header::ACCEPT,
                // Which the AI SDK sets where a browser lets it.
                header::USER_AGENT,
                HeaderName::from_static("last-event-id"),
                telemetry::REQUEST_ID,
            ])
            .expose_headers(exposed)
            .max_age(PREFLIGHT_HOLDS),
    )
}

/// Returns an id for a message of a caller that gave none: 128 random bits in hex.
pub fn random_id() -> String {
    format!("msg_{}", random::hex::<16>())
}

/// The one place where a failure to store or read becomes an answer; logged here, once.
fn unavailable(error: &dyn std::error::Error) -> Problem {
    tracing::error!(%error, "a request failed");
    Problem::unavailable()
}

/// Why a handler gives no result.
enum Failure {
    Problem(Problem),
    Ingress(IngressError),
    History(HistoryError),
    Memory(MemoryError),
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<IngressError> for Failure {
    fn from(error: IngressError) -> Self {
        Self::Ingress(error)
    }
}

impl From<HistoryError> for Failure {
    fn from(error: HistoryError) -> Self {
        Self::History(error)
    }
}

impl From<MemoryError> for Failure {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

impl axum::response::IntoResponse for Failure {
    fn into_response(self) -> axum::response::Response {
        match self {
            Self::Problem(problem) => problem,
            Self::Ingress(IngressError::History(HistoryError::Taken { .. }))
            | Self::History(HistoryError::Taken { .. }) => Problem::not_the_author(),
            Self::Ingress(error) => unavailable(&error),
            Self::History(error) => unavailable(&error),
            Self::Memory(error) => memory::unavailable(&error),
        }
        .into_response()
    }
}
