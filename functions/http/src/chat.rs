//! The protocol of `useChat` of the AI SDK: `POST /api/chat`, `GET /api/chat/{id}/stream`, `POST /api/chat/{id}/stop`.
//!
//! A room is a chat like any other. A message is appended and its turn queued before the answer begins; the answer then
//! streams the reply while it is made. An edited or regenerated message is stored as a later form of it, at a time of its own,
//! which replaces everything from the message's first place on (see `annals_core::context`). So the history keeps every form,
//! and no reply is ever overwritten.
//!
//! # Layout
//!
//! - `body.rs`: the request of a client
//! - `past.rs`: compares the client's copy of the conversation with the history
//! - `submit.rs`: appends and queues
//! - `stream.rs`: streams a reply; `chunks.rs`: the chunks of the UI message stream

pub(crate) mod body;
mod chunks;
mod past;
mod stream;
mod submit;

use std::sync::Arc;

use annals_channel::settings::DmScope;
use annals_core::chat_key::ChatKey;
use annals_core::draft::Draft;
use annals_core::language::Language;
use annals_core::message::{Part, Role};
use annals_core::record::Channel;
use annals_core::sort_key::MessageId;
use annals_core::texts::Texts;
use annals_engine::ingress::{Ingress, confirms_stop};
use annals_engine::live::Listener;
use annals_runtime::problem::Problem;
use annals_runtime::telemetry;
use axum::Json;
use axum::body::Body as RequestBody;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use body::{ChatRequest, Scope, Submission};
use chunks::ChunkEncoder;
use serde::{Deserialize, Serialize};
use stream::ReplyStream;
use submit::Accepted;
use tokio::task::JoinHandle;
use utoipa::{IntoParams, ToSchema};

pub(crate) use self::past::names;
pub(crate) use self::submit::named_by;

use crate::auth::Caller;
use crate::failure::Failure;
use crate::follow::{Awaited, Follower};
use crate::messages::{Reset, append};
use crate::request::{
    Body, InChat, InRoom, NewId, Query, QueryParameters, RoomPath, UserId, bad_user, draft,
};
use crate::state::Http;

pub use crate::state::{Run, Web};

/// Longest body of `POST /api/chat`: `useChat` sends the whole conversation with each message. The limit is that of a Lambda
/// request, its envelope included.
pub(crate) const MAX_BODY_BYTES: usize = 6 * 1024 * 1024;
/// Advice to a client that sends more, which it need not.
const TOO_LARGE: &str = "a request may have at most 6 MiB: send the last message alone, by DefaultChatTransport's \
                         prepareSendMessagesRequest: ({ id, messages, trigger, messageId, body }) => \
                         ({ body: { ...body, id, message: messages.at(-1), trigger, messageId } })";

/// Header of every stream: `useChat` does not need it, other clients of the AI SDK do.
const PROTOCOL: (HeaderName, &str) = (HeaderName::from_static("x-vercel-ai-ui-message-stream"), "v1");
/// Header that tells a client whether its copy of the conversation is `same` as the history or `differs`.
pub(crate) const PAST: HeaderName = HeaderName::from_static("x-annals-history");

/// `POST /api/chat`: takes the requests of `useChat` of the Vercel AI SDK. Sends a message, edits one, regenerates a reply, or
/// answers a reply's requests for approval. The answer is a UI message stream.
#[utoipa::path(post, path = "/api/chat", operation_id = "postChat", tag = "chat", request_body = ChatRequest,
    responses((status = 200, description = "Stored; the reply streams as it is made", body = String,
        content_type = "text/event-stream",
        headers(("x-annals-history" = String,
            description = "`same`, or `differs` if the client's copy of the conversation is not the history")))))]
pub(crate) async fn say(
    State(http): State<Arc<Http>>,
    caller: Caller,
    body: RequestBody,
) -> Result<Response, Failure> {
    let read = http.limits.bodies.read(body, MAX_BODY_BYTES, &http.clock).await;
    let read = read.map_err(|error| error.problem(TOO_LARGE))?;
    let request = Submission::parse(&read)?;
    let own = caller.room(&request.id)?;
    let user_id = UserId::or_name(request.user_id.clone(), &caller);
    // A message that comes again goes to the chat that has it, even if a link has taken effect meanwhile.
    let id = (request.last.role == Role::User).then(|| MessageId::new(&request.last.id).ok()).flatten();
    let room = http.room(&caller, own, request.scope, &user_id, id.as_ref()).await?;
    let chat = room.chat.clone();
    // Before the append, so that no part of the reply is missed.
    let listener = http.web.live.listen(&chat);
    let Accepted { awaited, encoder, may_be_stored, is_past_known } =
        Box::pin(http.submit(&caller, &room, &user_id, request)).await?;
    // The parsed request takes many times the memory of its body, whose share is held until here.
    drop(read);
    // A run here delivers nowhere, and in a person's chat it could take up messages of other channels.
    let run = http.web.run.as_ref().filter(|_| room.direct.is_none());
    let run = run.map(|run| tokio::spawn(run(chat.clone(), awaited.base())));
    let encoder = encoder.for_caller(caller.admin, http.texts(&caller));
    let mut response = http.stream(chat, awaited, listener, may_be_stored, encoder, run);
    let past = HeaderValue::from_static(if is_past_known { "same" } else { "differs" });
    response.headers_mut().insert(PAST, past);
    Ok(response)
}

/// `GET /api/chat/{id}/stream`: streams the reply that is being made, from its beginning; 204 if there is none.
#[utoipa::path(get, path = "/api/chat/{id}/stream", operation_id = "resumeChat", tag = "chat",
    params(RoomPath, ScopeQuery),
    responses((status = 200, description = "The reply that is being made", body = String, content_type = "text/event-stream"),
        (status = 204, description = "No reply is being made")))]
pub(crate) async fn resume(
    State(http): State<Arc<Http>>,
    InRoom(InChat { caller, chat }): InRoom,
    Query(query): Query<ScopeQuery>,
) -> Result<Response, Failure> {
    let user_id = UserId::or_name(query.user_id()?, &caller);
    let chat = http.room(&caller, chat, query.scope(), &user_id, None).await?.chat;
    let listener = http.web.live.listen(&chat);
    let Some(awaited) = http.awaited(&chat).await? else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    let encoder = ChunkEncoder::new("", &[]).for_caller(caller.admin, http.texts(&caller));
    Ok(http.stream(chat, awaited, listener, true, encoder, None))
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
    /// True if a reply was being made, or a message was unanswered.
    stopped: bool,
}

/// `POST /api/chat/{id}/stop`: does what `/stop` does; the body may name the sender as `userId`, and the command as `messageId`.
#[utoipa::path(post, path = "/api/chat/{id}/stop", operation_id = "stopChat", tag = "chat",
    params(RoomPath, ScopeQuery), request_body = Reset,
    responses((status = 200, description = "No reply is being made any more", body = Stopped)))]
pub(crate) async fn stop(
    State(http): State<Arc<Http>>,
    InRoom(InChat { caller, chat }): InRoom,
    Query(query): Query<ScopeQuery>,
    Body(Reset { user_id, message_id }): Body<Reset>,
) -> Result<Json<Stopped>, Failure> {
    let user_id = match user_id {
        Some(UserId(user_id)) => user_id,
        None => UserId::or_name(query.user_id()?, &caller),
    };
    let room = http.room(&caller, chat, query.scope(), &user_id, None).await?;
    let (chat, ingress) = (room.chat.clone(), http.ingress_of(&room));
    let (_, read) = http.read_context(&chat).await?;
    let now = http.now_after(&read);
    let (message_id, ts) = match message_id {
        Some(NewId(id)) => {
            let ts = ingress.history().first_time(&chat, &id, now).await?;
            (id, ts)
        }
        None => (http.new_message_id()?, now),
    };
    let parts = vec![Part::text("/stop")];
    let draft = room.placed(draft(&caller, &chat, Channel::Web, &user_id, message_id.clone(), ts, parts));
    let appended = Box::pin(append(ingress, &draft, true)).await?;
    // Read back, since a repeated command does nothing and gets the first one's result, which its confirmation holds.
    let confirmation = ingress.confirmation_of(&draft, &appended.base).await?;
    let stopped = confirmation.is_some_and(|record| confirms_stop(&record));
    Ok(Json(Stopped { chat_key: chat, message_id, stopped }))
}

/// The chat of a room.
pub(crate) struct Room {
    chat: ChatKey,
    /// The identity of its user and their Person, if it is their direct chat.
    direct: Option<(String, String)>,
}

impl Room {
    /// Returns a draft of the room's user.
    fn placed(&self, mut draft: Draft) -> Draft {
        if let Some((identity, person)) = &self.direct {
            (draft.chat_id, draft.person) = (identity.clone(), Some(person.clone()));
        }
        draft
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct ScopeQuery {
    /// As in the body of `POST /api/chat`.
    scope: Option<Scope>,
    /// With `scope=user`: the user; by default the key's name.
    user_id: Option<String>,
}

impl QueryParameters for ScopeQuery {}

impl ScopeQuery {
    fn scope(&self) -> Scope {
        self.scope.unwrap_or_default()
    }

    fn user_id(&self) -> Result<Option<UserId>, Problem> {
        let user_id = self.user_id.clone().map(UserId::try_from).transpose();
        user_id.map_err(|rule| bad_user(rule.to_owned()))
    }
}

impl Http {
    /// Returns the texts in the language that `caller` asks for, unless one is fixed.
    fn texts(&self, caller: &Caller) -> &'static dyn Texts {
        let asked_for = || caller.language.as_deref().and_then(Language::of_tag);
        self.ingress.language().or_else(asked_for).unwrap_or(Language::En).texts()
    }

    /// Returns the chat of the room `own`: itself, or if it asks for that under `DM_SCOPE=user`, or at the terminal, the
    /// direct chat of `user_id`, or an earlier one that has the message `id`.
    async fn room(
        &self,
        caller: &Caller,
        own: ChatKey,
        scope: Scope,
        user_id: &str,
        id: Option<&MessageId>,
    ) -> Result<Room, Failure> {
        let channel = self.web.channel;
        let is_own = scope == Scope::Room || self.ingress.dm_scope() == DmScope::Chat;
        if is_own && channel == Channel::Web {
            telemetry::about(&own);
            return Ok(Room { chat: own, direct: None });
        }
        let identity = self.identity(caller, user_id)?;
        let said = caller.circumstances(channel);
        let direct = self.ingress.direct_chat(&identity, id, self.clock.now(), &said).await?;
        telemetry::about(&direct.chat);
        Ok(Room { chat: direct.chat, direct: Some((identity, direct.person)) })
    }

    /// Returns the ingress for messages of a room. A turn of a person's chat is the agent's from the start.
    fn ingress_of(&self, room: &Room) -> &Ingress {
        if room.direct.is_some() { &self.ingress } else { &self.web.ingress }
    }

    /// Returns the answer that streams a reply.
    fn stream(
        &self,
        chat: ChatKey,
        awaited: Awaited,
        listener: Option<Listener>,
        may_be_stored: bool,
        encoder: ChunkEncoder,
        run: Option<JoinHandle<()>>,
    ) -> Response {
        let headers = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-cache"),
            PROTOCOL,
            // Keeps proxies from buffering, which would delay the tokens.
            (HeaderName::from_static("x-accel-buffering"), "no"),
        ];
        let history = self.web.ingress.history().clone();
        let follower = Follower::new(history, chat, awaited, listener, may_be_stored);
        let (patience, clock) = (self.web.patience, self.clock.clone());
        let stream = ReplyStream { follower, encoder, patience, run, clock };
        (headers, stream.into_body()).into_response()
    }
}
