//! `GET /v1/chats`: the chats of all keys and platforms, those first in which somebody spoke last. For admin keys.
//! `GET /v1/chats/{chatId}`: the same of one chat, for whoever may read it.

use std::cmp::Reverse;
use std::sync::Arc;

use annals_shared::chat_key::ChatKey;
use annals_shared::context::context;
use annals_shared::history::directory::{ListCursor, Listed, MAX_CHATS};
use annals_shared::history::{History, HistoryError, Page, Position};
use annals_shared::problem::Problem;
use annals_shared::record::{Channel, DeliveryFailure, Kind, Record};
use annals_shared::sort_key::Timestamp;
use annals_shared::telemetry;
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::auth::Caller;
use crate::get::{bad_cursor, bad_query, limit_of, read_failure};
use crate::post::path;
use crate::{Failure, Http};

const DEFAULT_CHATS: usize = 25;

/// How many of a chat's newest records are looked at: a message with its reply and what may hang on both.
const LOOK: usize = 6;

/// How many chats are looked at side by side.
const AT_ONCE: usize = 8;

/// The longest excerpt, in characters.
const EXCERPT_CHARS: usize = 200;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// `before` of the page in front.
    before: Option<String>,
    /// How many chats; 25, at most 100.
    #[param(value_type = Option<u32>, minimum = 1)]
    limit: Option<String>,
    /// Whether to read each chat's context, for `tokens`.
    #[param(value_type = Option<bool>)]
    context: Option<String>,
}

/// A page of chats.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Chats {
    /// There may be fewer than were asked for, and more behind.
    chats: Vec<ChatView>,
    /// What to ask the next page with; null where there is none.
    #[schema(required)]
    before: Option<String>,
}

/// A chat of the list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ListedChat)]
pub(crate) struct ChatView {
    /// The name that the chat has now.
    chat_key: ChatKey,
    /// The door of the last message; null where the end of the history is damaged.
    #[schema(required)]
    channel: Option<Channel>,
    #[schema(required)]
    last_message: Option<Excerpt>,
    /// Who last spoke: the name that the platform has for them, else their id; null where nobody did lately.
    #[schema(required)]
    speaker: Option<String>,
    /// What kind of chat the platform says that it is: `private`, `group`, …; null where it does not.
    #[schema(required)]
    chat_type: Option<String>,
    /// When a person last spoke.
    last_interaction_at: Timestamp,
    /// When the session is over; null where that never comes.
    #[schema(required)]
    stale_at: Option<Timestamp>,
    stale: bool,
    /// `answering`: a run has the chat. `waiting`: something waits for an answer, and nobody is at it.
    #[schema(required)]
    pending_turn: Option<PendingTurn>,
    /// The newest of the last replies that did not reach its platform.
    #[schema(required)]
    delivery_failure: Option<FailedDelivery>,
    /// Since when the platform takes nothing for this chat, and why.
    #[schema(required)]
    blocked: Option<DeliveryFailure>,
    /// With `context=true`: the estimate of the messages that the model would see.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    tokens: Option<u32>,
    /// With `context=true`: what the model's window takes, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    window: Option<u32>,
}

/// How a message begins.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Excerpt {
    id: String,
    role: annals_shared::message::Role,
    kind: Kind,
    user_id: String,
    ts: Timestamp,
    /// The first 200 characters, in one line.
    text: String,
}

#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum PendingTurn {
    /// A run has the chat.
    Answering,
    /// Something waits for an answer, and nobody is at it.
    Waiting,
}

/// A reply that did not reach its platform.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct FailedDelivery {
    /// The reply.
    message_id: String,
    /// What the platform said.
    reason: String,
    at: Timestamp,
}

/// `GET /v1/chats`
#[utoipa::path(get, path = "/v1/chats", operation_id = "listChats", tag = "histories", security(("key" = [])),
    params(ListQuery),
    responses((status = 200, description = "Chats, those first in which somebody spoke last", body = Chats)))]
pub(crate) async fn list(
    State(http): State<Arc<Http>>,
    caller: Caller,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<Chats>, Failure> {
    if !caller.admin {
        return Err(Problem::forbidden("only an admin key may list the chats of all").into());
    }
    let Query(query) = query.map_err(|_| bad_query())?;
    let before = query.before.as_deref().map(ListCursor::decode).transpose();
    let before = before.map_err(|error| bad_cursor(error.to_string()))?;
    let limit = limit_of(query.limit.as_deref(), DEFAULT_CHATS, MAX_CHATS)?;
    let with_context = match query.context.as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(bad_query().into()),
    };
    let history = http.ingress.history();
    let page = history.chats(before.as_ref(), limit).await.map_err(read_failure)?;
    let views = stream::iter(page.chats).map(|listed| http.view_of(listed, with_context));
    let views: Vec<Option<ChatView>> = views.buffered(AT_ONCE).try_collect().await.map_err(read_failure)?;
    let mut chats: Vec<ChatView> = views.into_iter().flatten().collect();
    // Where too many chats are lively, they come in the order in which they registered.
    chats.sort_by_key(|chat| Reverse(chat.last_interaction_at));
    Ok(Json(Chats { chats, before: page.before.map(|cursor| cursor.encode()) }))
}

/// `GET /v1/chats/{chatId}`
#[utoipa::path(get, path = "/v1/chats/{chatId}", operation_id = "getChat", tag = "histories", security(("key" = [])),
    params(("chatId" = String, Path, description = "A conversation id of the caller's own, at most 512 bytes, or with an admin key a whole ChatKey", min_length = 1, max_length = 2048, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    responses((status = 200, description = "What the list says of this chat, with `context=false`", body = ChatView)))]
pub(crate) async fn one(
    State(http): State<Arc<Http>>,
    caller: Caller,
    chat_id: Result<Path<String>, PathRejection>,
) -> Result<Json<ChatView>, Failure> {
    let chat = caller.chat(&path(chat_id)?)?;
    telemetry::about(&chat);
    let listed = http.ingress.history().chat(&chat).await.map_err(read_failure)?;
    let view = http.view_of(listed, false).await.map_err(read_failure)?;
    let none =
        || Problem::no_such("no-such-chat", "No such chat", "nothing was said there, or it was forgotten");
    Ok(Json(view.ok_or_else(none)?))
}

impl Http {
    /// `None` where nothing of the chat is left: it was forgotten.
    async fn view_of(&self, listed: Listed, with_context: bool) -> Result<Option<ChatView>, HistoryError> {
        let Listed { chat, at, head, answered_until } = listed;
        let history = self.ingress.history();
        let Some(newest) = newest(history, &chat).await? else { return Ok(None) };
        let now = self.clock.now();
        let tokens = if with_context {
            let seen = history.context(&chat, &head, None, &self.view.policy(0)).await?;
            Some(seen.context.tokens)
        } else {
            None
        };
        let spoken = newest.iter().rev().find(|record| record.is_interaction());
        let said_of_it = |record: &Record, key: &str| {
            record.message.metadata.get(key).and_then(Value::as_str).map(str::to_owned)
        };
        let speaker =
            spoken.map(|record| said_of_it(record, "senderName").unwrap_or_else(|| record.user_id.clone()));
        let last_interaction_at = spoken.map_or(at, |record| record.ts);
        let stale_at = self.view.stale_after.map(|stale_after| last_interaction_at.plus(stale_after));
        let waits = || {
            let seen = context(&newest, now, &self.view.policy(0));
            seen.others_wait || !(seen.unanswered.is_empty() && seen.to_compact.is_empty())
        };
        let pending_turn = if answered_until.is_some() {
            Some(PendingTurn::Answering)
        } else {
            (head.turn.is_some() || waits()).then_some(PendingTurn::Waiting)
        };
        let failed = newest.iter().rev().find_map(|record| {
            let DeliveryFailure { reason, at } = record.delivery_failure.clone()?;
            Some(FailedDelivery { message_id: record.message_id.to_string(), reason, at })
        });
        let said = |record: &&Record| matches!(record.kind, Kind::Normal | Kind::Revision | Kind::Event);
        let last = newest.iter().rev().find(said).or(newest.last());
        Ok(Some(ChatView {
            channel: last.map(|record| record.channel),
            last_message: last.map(excerpt),
            chat_key: chat,
            speaker,
            chat_type: spoken.and_then(|record| said_of_it(record, "chatType")),
            last_interaction_at,
            stale_at,
            stale: stale_at.is_some_and(|stale_at| stale_at < now),
            pending_turn,
            delivery_failure: failed,
            blocked: head.blocked,
            tokens,
            window: tokens.map(|_| self.view.window),
        }))
    }
}

/// The newest records of `chat`, the oldest first; none where its archive is damaged, `None` where there is nothing of it.
async fn newest(history: &History, chat: &ChatKey) -> Result<Option<Vec<Record>>, HistoryError> {
    match history.page(chat, &Position::Newest, LOOK).await {
        Ok(Page { records, .. }) => Ok(Some(records).filter(|records| !records.is_empty())),
        Err(HistoryError::Segment(error)) => {
            tracing::error!(chat = %chat.session_id(), %error, "the end of a history cannot be read");
            Ok(Some(Vec::new()))
        }
        Err(error) => Err(error),
    }
}

fn excerpt(record: &Record) -> Excerpt {
    let listed = record.listed();
    let text = record.message.plain_text();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut text: String = words.chars().take(EXCERPT_CHARS).collect();
    if text.len() < words.len() {
        text.push('…');
    }
    Excerpt {
        id: listed.id,
        role: record.role(),
        kind: record.kind,
        user_id: record.user_id.clone(),
        ts: record.ts,
        text,
    }
}
