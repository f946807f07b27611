//! What `useChat` of the AI SDK speaks: `POST /api/chat`, `GET /api/chat/{id}/stream`, `POST /api/chat/{id}/stop`.
//!
//! A room is a chat like any other. What is said is appended and its turn queued before the answer begins; the answer then
//! follows the reply while it is made. An edit, and another try, are the message said again: a later form of it at a time of
//! its own, which replaces what was said from its first place on (see `annals_shared::context`). So the history keeps every
//! form, and no reply is ever overwritten.
//!
//! # Layout
//!
//! - `body.rs`: what a client sends
//! - `past.rs`: how what it takes for the past is beside the history
//! - `ask.rs`: what a request asks, done
//! - `follow.rs`: the reply on its way; `chunks.rs`: the UI message stream

mod ask;
mod body;
mod chunks;
mod follow;
mod past;

use std::sync::Arc;
use std::time::Duration;

use annals_shared::chat_key::{ActorKey, ChatKey, Place};
use annals_shared::command::Command;
use annals_shared::ingress::{Commanded, Ingress, STOPPED};
use annals_shared::live::Live;
use annals_shared::message::Part;
use annals_shared::problem::Problem;
use annals_shared::record::Draft;
use annals_shared::sort_key::{MessageId, SortKey};
use annals_shared::telemetry;
use axum::Json;
use axum::body::Body as RequestBody;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::{Caller, MAX_CHAT_ID_BYTES};
use crate::post::{RESET, Reset, bad_user, path, user_id};
use crate::{Failure, Http, post};
use ask::Asked;
use body::{Body, ChatRequest};
use chunks::Teller;
use follow::Follower;

/// Runs the turn of the message at this key, which is queued, in this process; done once that run is over.
pub type Run = Arc<dyn Fn(ChatKey, SortKey) -> BoxFuture<'static, ()> + Send + Sync>;

/// What `/api/chat` has beside the other routes.
#[derive(Clone)]
pub struct Web {
    /// Appends and enqueues what is said there.
    pub ingress: Ingress,
    /// Where runs of this process are heard.
    pub live: Live,
    /// What runs a turn at once, where nobody else in this process does.
    pub run: Option<Run>,
    /// How long a stream waits for its reply.
    pub patience: Duration,
}

impl Web {
    /// One whose replies are made elsewhere and come whole, within what an HTTP API waits.
    pub fn buffered(ingress: Ingress) -> Self {
        Self { ingress, live: Live::default(), run: None, patience: Duration::from_secs(25) }
    }
}

/// The longest body of `POST /api/chat`: `useChat` sends the whole conversation with each message. What Lambda takes of a
/// request, with what it puts around a body.
pub(crate) const MAX_BODY_BYTES: usize = 6 * 1024 * 1024;
/// What a client is told that sends more, which it may do without.
const TOO_LARGE: &str = "a request may have at most 6 MiB: send the last message alone, by DefaultChatTransport's \
                         prepareSendMessagesRequest: ({ id, messages, trigger, messageId, body }) => \
                         ({ body: { ...body, id, message: messages.at(-1), trigger, messageId } })";

/// What every stream carries: `useChat` does not ask for it, other clients of the AI SDK do.
const PROTOCOL: (HeaderName, &str) = (HeaderName::from_static("x-vercel-ai-ui-message-stream"), "v1");
/// How the past that a client has sent is beside the history: `same` or `differs`.
pub(crate) const PAST: HeaderName = HeaderName::from_static("x-annals-history");

/// `POST /api/chat`: what `useChat` of the Vercel AI SDK sends. It says something, says it again in other words, tries again,
/// or answers what a reply asks. The answer is a UI message stream.
#[utoipa::path(post, path = "/api/chat", operation_id = "postChat", tag = "chat", security(("key" = [])),
    request_body(content = ChatRequest, content_type = "application/json"),
    responses((status = 200, description = "Taken; the reply follows as it is made", body = String,
        content_type = "text/event-stream",
        headers(("x-annals-history" = String, description = "`same`, or `differs` where the client's past is not the history's")))))]
pub(crate) async fn say(
    State(http): State<Arc<Http>>,
    caller: Caller,
    body: RequestBody,
) -> Result<Response, Failure> {
    let read = http.limits.bodies.read(body, MAX_BODY_BYTES, &http.clock).await;
    // Keeps its share of memory until what was parsed of it is dropped, which takes many times as much.
    let read = read.map_err(|error| error.problem(TOO_LARGE))?;
    let body = Body::parse(&read)?;
    let chat = room(&caller, &body.id)?;
    telemetry::about(&chat);
    let user = body.user_id.clone().unwrap_or_else(|| caller.name.clone());
    ActorKey::new(chat.clone(), &user).map_err(|error| bad_user(error.to_string()))?;
    // Before the append, so that nothing of its reply is missed.
    let listener = http.web.live.listen(&chat);
    let Asked { awaited, teller, may_be_there, past } =
        Box::pin(http.ask(&caller, &chat, &user, body)).await?;
    drop(read);
    let run = http.web.run.as_ref().map(|run| tokio::spawn(run(chat.clone(), awaited.base())));
    let follower = Follower { http: Arc::clone(&http), chat, awaited, listener, teller, may_be_there, run };
    let mut response = streamed(follower);
    response.headers_mut().insert(PAST, past.as_str().parse().map_err(|_| Problem::unavailable())?);
    Ok(response)
}

/// `GET /api/chat/{id}/stream`: the reply that is being made, from its beginning; 204 where none is.
#[utoipa::path(get, path = "/api/chat/{id}/stream", operation_id = "resumeChat", tag = "chat", security(("key" = [])),
    params(("id" = String, Path, description = "A room of the key's own, at most 512 bytes, or with an admin key a whole ChatKey of one", min_length = 1, max_length = 2048, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    responses((status = 200, description = "The reply that is being made", body = String, content_type = "text/event-stream"),
        (status = 204, description = "None is")))]
pub(crate) async fn resume(
    State(http): State<Arc<Http>>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Failure> {
    let chat = room(&caller, &path(id)?)?;
    telemetry::about(&chat);
    let listener = http.web.live.listen(&chat);
    let Some(awaited) = http.awaited(&chat).await? else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    let teller = Teller::new("", &[]);
    let may_be_there = true;
    Ok(streamed(Follower { http, chat, awaited, listener, teller, may_be_there, run: None }))
}

/// `{chatKey, messageId, stopped}`
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_field_names, reason = "the names are the route's")]
pub(crate) struct Stopped {
    #[schema(value_type = String)]
    chat_key: ChatKey,
    #[schema(value_type = String)]
    message_id: MessageId,
    /// Whether anything was being answered, or waited for it.
    stopped: bool,
}

/// `POST /api/chat/{id}/stop`: what `/stop` does; the body may name who asks as `userId`, and the command as `messageId`.
#[utoipa::path(post, path = "/api/chat/{id}/stop", operation_id = "stopChat", tag = "chat", security(("key" = [])),
    params(("id" = String, Path, description = "A room of the key's own, at most 512 bytes, or with an admin key a whole ChatKey of one", min_length = 1, max_length = 2048, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    request_body(content = Reset, content_type = "application/json"),
    responses((status = 200, description = "Nothing is being answered any more", body = Stopped)))]
pub(crate) async fn stop(
    State(http): State<Arc<Http>>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
    body: RequestBody,
) -> Result<Json<Stopped>, Failure> {
    let chat = room(&caller, &path(id)?)?;
    telemetry::about(&chat);
    let body = http.read_command(body, RESET).await?;
    let user = body.user_id.map(|id| user_id(Some(id))).transpose()?.unwrap_or_else(|| caller.name.clone());
    ActorKey::new(chat.clone(), &user).map_err(|error| bad_user(error.to_string()))?;
    let (_, seen) = http.seen(&chat).await?;
    let at = http.behind(&seen);
    let (message_id, ts) = match body.message_id {
        Some(id) => {
            let id = post::message_id(id)?;
            let ts = http.web.ingress.history().first_time(&chat, &id, at).await?;
            (id, ts)
        }
        None => (http.new_message_id()?, at),
    };
    let draft = http.draft(&caller, &chat, &user, message_id.clone(), vec![Part::text("/stop")]);
    let draft = Draft { ts, ..draft };
    let ingress = &http.web.ingress;
    let commanded = ingress.command_alone(&Command::Stop, &draft).await?;
    let Commanded { appended, confirmation } = commanded.ok_or_else(Problem::command_id_taken)?;
    let stopped = if let Some(confirmation) = confirmation {
        let stopped = confirmation.text == STOPPED;
        ingress.confirmed(&draft, confirmation).await?;
        stopped
    } else {
        // What it did is told once, and is the answer to each repeat.
        let told = ingress.confirmation_of(&draft, &appended.base).await?;
        told.is_some_and(|told| told.message.plain_text() == STOPPED)
    };
    Ok(Json(Stopped { chat_key: chat, message_id, stopped }))
}

/// The room that `id` names in this caller's mouth: one of its key's, or for an admin's key any, by its whole ChatKey.
fn room(caller: &Caller, id: &str) -> Result<ChatKey, Problem> {
    if caller.admin
        && let Ok(chat) = id.parse::<ChatKey>()
        && matches!(chat.place(), Place::WebRoom { .. })
    {
        return Ok(chat);
    }
    let bad = |detail: String| Problem::bad_request("bad-chat-id", "The chat id is unusable", detail);
    if id.len() > MAX_CHAT_ID_BYTES {
        return Err(bad(format!("{} bytes are more than {MAX_CHAT_ID_BYTES}", id.len())));
    }
    let place = Place::WebRoom { key_name: caller.name.clone(), room_id: id.to_owned() };
    ChatKey::new(place).map_err(|error| bad(error.to_string()))
}

fn streamed(follower: Follower) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        PROTOCOL,
        // A proxy that holds back what it has would hold back the tokens.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, follower.into_body()).into_response()
}
