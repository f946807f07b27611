//! Histories and contexts out: `GET /v1/chats/{chatId}/messages`, `GET /v1/chats/{chatId}/context`.

use std::sync::Arc;

use annals_shared::chat_key::ChatKey;
use annals_shared::history::{Cursor, History, HistoryError, MAX_PAGE, Page, Position};
use annals_shared::memory::Owner;
use annals_shared::memory::sessions::recalled;
use annals_shared::message::UiMessage;
use annals_shared::problem::Problem;
use annals_shared::record::Record;
use annals_shared::sort_key::Timestamp;
use annals_shared::telemetry;
use annals_shared::tokens;
use axum::Json;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{Stream, stream};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::auth::Caller;
use crate::post::path;
use crate::{Failure, Http, unavailable};

pub(crate) const NDJSON: &str = "application/x-ndjson";
const DEFAULT_PAGE: usize = 50;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// `before` of an answer: the page in front of it. Not with `after`.
    before: Option<String>,
    /// `after` of an answer: the page behind it. Replies and edits that come meanwhile stand behind what they are to, and so
    /// may be in front of it.
    after: Option<String>,
    /// How many messages; 50, at most 200.
    #[param(value_type = Option<u32>, minimum = 1)]
    limit: Option<String>,
}

/// `{messages, before, after}`
#[derive(Debug, Serialize, ToSchema)]
#[allow(clippy::struct_field_names, reason = "the names are the route's")]
pub(crate) struct Messages {
    #[schema(value_type = Vec<crate::openapi::UiMessage>)]
    messages: Vec<UiMessage>,
    /// What to ask the page of older messages with; null where there are none.
    #[schema(required)]
    before: Option<String>,
    /// What to ask the page of newer messages with; null where there are none. What sorts behind an earlier message may
    /// still come in front of it: a reply, an edit, a message with an older time. Who follows a chat that goes on reads the
    /// newest page again.
    #[schema(required)]
    after: Option<String>,
}

/// `{messages, system, tokens, window}`, and why it is that.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Context)]
pub(crate) struct ContextView {
    #[schema(value_type = Vec<crate::openapi::UiMessage>)]
    messages: Vec<UiMessage>,
    /// The system prompt, and what is remembered.
    #[schema(required)]
    system: Option<String>,
    /// The estimate of all of it.
    tokens: u32,
    /// What the model's window takes, in tokens.
    window: u32,
    /// How many of `tokens` the system part takes.
    system_tokens: u32,
    /// How many of them the summary takes.
    summary_tokens: u32,
    /// Over how many tokens the next turn makes a summary first.
    compacts_at: u32,
    /// How many of the last messages wait for an answer.
    unanswered: usize,
    /// How many messages of the session there was no room for; its summary counts as one.
    left_out: usize,
    /// Where the session starts; null where it is over, or nothing was said.
    #[schema(required)]
    session_start: Option<Timestamp>,
    /// Whose memory the next turn has, and keeps; null where nobody's.
    #[schema(required)]
    memory_of: Option<MemoryOf>,
}

/// Whose memory: as `GET /v1/memory` is asked for it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum MemoryOf {
    /// A person's.
    UserId(String),
    /// A group's.
    ChatKey(ChatKey),
}

/// `GET /v1/chats/{chatId}/messages`
#[utoipa::path(get, path = "/v1/chats/{chatId}/messages", operation_id = "listMessages", tag = "histories", security(("key" = [])),
    params(("chatId" = String, Path, description = "A conversation id of the caller's own, at most 512 bytes, or with an admin key a whole ChatKey", min_length = 1, max_length = 2048, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$"),
        PageQuery),
    responses((status = 200, description = "A page, oldest first; or with `Accept: application/x-ndjson` the whole history, one message a line",
        content((Messages = "application/json"), (String = "application/x-ndjson")))))]
pub(crate) async fn messages(
    State(http): State<Arc<Http>>,
    caller: Caller,
    chat_id: Result<Path<String>, PathRejection>,
    query: Result<Query<PageQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let chat = caller.chat(&path(chat_id)?)?;
    telemetry::about(&chat);
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepts.split(',').any(|range| range.split(';').next().unwrap_or_default().trim() == NDJSON) {
        let body = Body::from_stream(lines(http.ingress.history().clone(), chat));
        return Ok(([(header::CONTENT_TYPE, NDJSON)], body).into_response());
    }
    let Query(query) = query.map_err(|_| bad_query())?;
    let page =
        http.ingress.history().page(&chat, &position(&query)?, limit(&query)?).await.map_err(read_failure)?;
    let Page { records, before, after } = page;
    Ok(Json(Messages {
        messages: records.iter().map(Record::listed).collect(),
        before: before.map(|cursor| cursor.encode()),
        after: after.map(|cursor| cursor.encode()),
    })
    .into_response())
}

/// `GET /v1/chats/{chatId}/context`
#[utoipa::path(get, path = "/v1/chats/{chatId}/context", operation_id = "getContext", tag = "histories", security(("key" = [])),
    params(("chatId" = String, Path, description = "A conversation id of the caller's own, at most 512 bytes, or with an admin key a whole ChatKey", min_length = 1, max_length = 2048, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    responses((status = 200, description = "What the model would see now", body = ContextView)))]
pub(crate) async fn context(
    State(http): State<Arc<Http>>,
    caller: Caller,
    chat_id: Result<Path<String>, PathRejection>,
) -> Result<Response, Failure> {
    let chat = caller.chat(&path(chat_id)?)?;
    telemetry::about(&chat);
    let history = http.ingress.history();
    let (chat, head) = history.current(&chat).await.map_err(read_failure)?;
    let seen = history.context(&chat, &head, None, &http.view.policy(0)).await.map_err(read_failure)?;
    let memory = recalled(history, &chat, &seen.records, &http.view, http.memory);
    let memory = memory.await.map_err(|error| unavailable(&error))?;
    let memory_of = memory.as_ref().and_then(|memory| match &memory.owner {
        Owner::User(person) => caller.own_user_id(person).map(|id| MemoryOf::UserId(id.to_owned())),
        Owner::Chat(chat) => Some(MemoryOf::ChatKey(chat.clone())),
    });
    let parts: Vec<String> =
        http.system_prompt.clone().into_iter().chain(memory.and_then(|memory| memory.section)).collect();
    let system = (!parts.is_empty()).then(|| parts.join("\n\n"));
    let system_tokens = system.as_deref().map_or(0, tokens::of_text);
    let policy = http.view.policy(system_tokens);
    let seen = annals_shared::context::context(&seen.records, history.clock().now(), &policy);
    let is_summary =
        |message: &&UiMessage| message.metadata.get("kind").is_some_and(|kind| kind == "summary");
    let summary = seen.messages.first().filter(is_summary);
    Ok(Json(ContextView {
        tokens: seen.tokens + system_tokens,
        system,
        window: http.view.window,
        system_tokens,
        summary_tokens: summary.map_or(0, tokens::of_message),
        compacts_at: policy.token_budget.saturating_add(system_tokens),
        unanswered: seen.unanswered.len(),
        left_out: seen.left_out,
        session_start: seen.session_start.map(|start| start.ts()),
        memory_of,
        messages: seen.messages,
    })
    .into_response())
}

pub(crate) fn read_failure(error: HistoryError) -> Failure {
    match error {
        HistoryError::Cursor(error) => Failure::Problem(bad_cursor(error.to_string())),
        error => {
            tracing::error!(%error, "a history cannot be read");
            Failure::Problem(Problem::unreadable())
        }
    }
}

fn position(query: &PageQuery) -> Result<Position, Problem> {
    let cursor = |text: &str| Cursor::decode(text).map_err(|error| bad_cursor(error.to_string()));
    match (&query.before, &query.after) {
        (None, None) => Ok(Position::Newest),
        (Some(before), None) => Ok(Position::Before(cursor(before)?)),
        (None, Some(after)) => Ok(Position::After(cursor(after)?)),
        (Some(_), Some(_)) => Err(bad_cursor("give \"before\" or \"after\", not both".into())),
    }
}

pub(crate) fn bad_cursor(detail: String) -> Problem {
    Problem::bad_request("bad-cursor", "No such cursor", detail)
}

fn limit(query: &PageQuery) -> Result<usize, Problem> {
    limit_of(query.limit.as_deref(), DEFAULT_PAGE, MAX_PAGE)
}

pub(crate) fn bad_query() -> Problem {
    Problem::bad_request("bad-query", "The query is unusable", "see the route in /openapi.json")
}

/// How many of a page are asked for: at most `most`, and `default` where nothing is said.
pub(crate) fn limit_of(limit: Option<&str>, default: usize, most: usize) -> Result<usize, Problem> {
    let Some(limit) = limit else { return Ok(default) };
    let is_number = !limit.is_empty() && limit.bytes().all(|b| b.is_ascii_digit());
    // A number too long for a usize is over the maximum all the same.
    match limit.parse().unwrap_or(usize::MAX) {
        1.. if is_number => Ok(limit.parse().unwrap_or(most).min(most)),
        _ => {
            let detail = format!("give a whole number from 1 to {most}");
            Err(Problem::bad_request("bad-limit", "The limit is no number", detail))
        }
    }
}

/// The whole history as JSON lines, oldest first, read page by page as the caller takes it.
fn lines(history: History, chat: ChatKey) -> impl Stream<Item = Result<Bytes, HistoryError>> {
    stream::try_unfold(Some(Position::Oldest), move |position| {
        let (history, chat) = (history.clone(), chat.clone());
        async move {
            let Some(position) = position else { return Ok(None) };
            let page = history.page(&chat, &position, MAX_PAGE).await?;
            Ok(Some((listed_lines(&page.records)?, page.after.map(Position::After))))
        }
    })
}

/// `records` as they are listed, one `UIMessage` a line.
pub(crate) fn listed_lines(records: &[Record]) -> Result<Bytes, HistoryError> {
    let mut lines = Vec::new();
    for record in records {
        serde_json::to_writer(&mut lines, &record.listed())?;
        lines.push(b'\n');
    }
    Ok(lines.into())
}
