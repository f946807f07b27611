//! The HTTP API: `/v1/…`, `/api/chat…` and `/health`.
//!
//! # Layout
//!
//! - [`function`]: the deployed function
//! - [`auth`]: API keys, and the chats that a caller may name
//! - [`limit`]: how often a key may call; `wrong_keys.rs`: how often an address may send wrong ones
//! - `request.rs`: typed extractors; `failure.rs`: errors; `state.rs`: the state of all handlers
//! - `bodies.rs`: parses any body as every route does, for the tests of hostile input
//! - [`chat`]: the protocol of `useChat` of the AI SDK
//! - `follow.rs`: follows a reply while it is made
//! - `messages.rs`: sends messages, and waits for their replies
//! - `history.rs`: reads histories and contexts; `search.rs`: searches them; `segments.rs`: the archive; `chats.rs`: the list of chats
//! - `turns.rs`: how a turn went
//! - `forget.rs`: forgets a chat
//! - `memory.rs`: lists, corrects and deletes memory entries
//! - `people.rs`: one person in all chats: links, export, erasure
//! - `schedules.rs`: what a chat is to say, or to be asked, at a time
//! - `takeover.rs`: takes a chat over, sends as the bot, hands the chat back
//! - `strangers.rs`: lists refused people and chats
//! - `console.rs`: the web page for people
//! - `openapi.rs`: the description of the API; `schema.rs`: schemas for it

#![allow(unused_qualifications, reason = "written by `utoipa::path`")]

pub mod auth;
#[doc(hidden)]
pub mod bodies;
pub mod chat;
mod chat_settings;
mod chats;
mod console;
mod failure;
mod follow;
mod forget;
pub mod function;
mod history;
pub mod limit;
mod memory;
mod messages;
mod openapi;
mod people;
mod request;
mod schedules;
mod schema;
mod search;
mod segments;
pub mod settings;
mod state;
mod strangers;
mod takeover;
mod turns;
mod usage;
mod wrong_keys;

use std::sync::Arc;
use std::time::Duration;

use annals_runtime::problem::Problem;
use annals_runtime::telemetry;
use axum::Router;
use axum::http::{HeaderName, Method, header};
use axum::middleware::from_fn;
use axum::routing::{MethodRouter, delete, get, post, put};
use serde_json::Value;
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::settings::CorsOrigins;

pub use failure::Cause;
pub use state::{AfterForgetting, Http, random_id};

/// Time for which a browser caches the answer to a preflight request.
const PREFLIGHT_MAX_AGE: Duration = Duration::from_hours(1);

/// Returns the routes.
pub fn router(http: Http) -> Router {
    let cors = cors(&http.config.cors_origins);
    let router = routes(http);
    match cors {
        Some(cors) => router.layer(cors),
        None => router,
    }
}

fn routes(http: Http) -> Router {
    let route = |methods: MethodRouter<Arc<Http>>| methods.fallback(async || Problem::method_not_allowed());
    let console = if http.config.console {
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
        .route("/v1/usage", route(get(usage::usage)))
        .route("/v1/messages", route(post(messages::post_direct)))
        .route("/v1/chats/{chatId}", route(get(chats::one).patch(chats::retitle).delete(forget::delete)))
        .route("/v1/chats/{chatId}/messages", route(post(messages::post).get(history::messages)))
        .route("/v1/chats/{chatId}/context", route(get(history::context)))
        .route("/v1/chats/{chatId}/turns/{id}", route(get(turns::one)))
        .route("/v1/chats/{chatId}/search", route(get(search::search)))
        .route("/v1/chats/{chatId}/segments", route(get(segments::list)))
        .route("/v1/chats/{chatId}/segments/{id}", route(get(segments::one)))
        .route("/v1/chats/{chatId}/reset", route(post(messages::reset)))
        .route("/v1/chats/{chatId}/compact", route(post(messages::compact)))
        .route("/v1/chats/{chatId}/settings", route(get(chat_settings::one).patch(chat_settings::change)))
        .route("/v1/chats/{chatId}/takeover", route(put(takeover::take_over).delete(takeover::hand_back)))
        .route("/v1/chats/{chatId}/schedules", route(get(schedules::list).post(schedules::create)))
        .route("/v1/chats/{chatId}/schedules/{id}", route(delete(schedules::cancel)))
        .route("/v1/chats/{chatId}/send", route(post(takeover::send)))
        .route("/api/chat", route(post(chat::say)))
        .route("/api/chat/{id}/stream", route(get(chat::resume)))
        .route("/api/chat/{id}/stop", route(post(chat::stop)))
        .route("/v1/people/{id}", route(get(people::one).delete(people::delete)))
        .route("/v1/people/{id}/links", route(put(people::link)))
        .route("/v1/people/{id}/export", route(get(people::export)))
        .route("/v1/memory", route(get(memory::list)))
        .route("/v1/memory/{id}/approve", route(post(memory::approve)))
        .route("/v1/memory/{id}", route(put(memory::correct).delete(memory::delete)))
        .fallback(async || Problem::not_found())
        .layer(from_fn(telemetry::of_request))
        .with_state(Arc::new(http))
}

/// Returns the routes of a conversation alone: to send a message and to follow a reply.
pub fn conversation(http: Http) -> Router {
    Router::new()
        .route("/api/chat", post(chat::say))
        .route("/api/chat/{id}/stream", get(chat::resume))
        .layer(from_fn(telemetry::of_request))
        .with_state(Arc::new(http))
}

/// Returns the description of the API, in `OpenAPI` 3.1: `openapi.json`.
pub fn openapi() -> Value {
    openapi::describe()
}

/// Lets pages of `origins` call with a bearer key. The API uses no cookies, so none are allowed.
fn cors(origins: &CorsOrigins) -> Option<CorsLayer> {
    let allowed = match origins {
        CorsOrigins::None => return None,
        CorsOrigins::Any => AllowOrigin::any(),
        CorsOrigins::These(origins) => AllowOrigin::list(origins.iter().cloned()),
    };
    let exposed = [telemetry::REQUEST_ID, header::RETRY_AFTER, header::ALLOW, chat::PAST, usage::BEFORE];
    Some(
        CorsLayer::new()
            .allow_origin(allowed)
            .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
            .allow_headers([
                header::AUTHORIZATION,
                header::CONTENT_TYPE,
                header::ACCEPT,
                // The AI SDK sets it if the browser allows that.
                header::USER_AGENT,
                HeaderName::from_static("last-event-id"),
                telemetry::REQUEST_ID,
            ])
            .expose_headers(exposed)
            .max_age(PREFLIGHT_MAX_AGE),
    )
}
