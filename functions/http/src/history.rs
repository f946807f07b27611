//! Reads histories and contexts: `GET /v1/chats/{chatId}/messages`, `GET /v1/chats/{chatId}/context`.

use std::future::ready;
use std::sync::Arc;

use annals_core::chat_key::ChatKey;
use annals_core::context::Context;
use annals_core::memory::Owner;
use annals_core::message::UiMessage;
use annals_core::record::{Kind, Record};
use annals_core::sort_key::Timestamp;
use annals_core::time_marks::{self, TimeMarks};
use annals_core::tokens;
use annals_engine::remembering::{Recalled, recalled};
use annals_runtime::problem::Problem;
use annals_store::history::{Cursor, HistoryError, MAX_PAGE, Page, Position};
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::channel::mpsc;
use futures::{SinkExt as _, StreamExt as _, stream};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::auth::Caller;
use crate::failure::{Failure, bad_cursor};
use crate::request::{ChatPath, InChat, Query, QueryParameters, accepts};
use crate::schema;
use crate::state::Http;

const NDJSON: &str = "application/x-ndjson";
const DEFAULT_PAGE: usize = 50;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// `before` of an answer, for the page before it. Not with `after`.
    before: Option<String>,
    /// `after` of an answer, for the page after it. A reply or an edit follows its message, so one that arrives meanwhile may
    /// be before this page.
    after: Option<String>,
    /// Number of messages: by default 50, at most 200.
    #[param(value_type = Option<u32>, minimum = 1)]
    limit: Option<String>,
}

impl QueryParameters for PageQuery {}

/// `{messages, before, after}`
#[derive(Debug, Serialize, ToSchema)]
#[allow(clippy::struct_field_names, reason = "the names are the route's")]
pub(crate) struct Messages {
    #[schema(value_type = Vec<schema::UiMessage>)]
    messages: Vec<UiMessage>,
    /// Cursor of the page of older messages; null if there are none.
    #[schema(required)]
    before: Option<String>,
    /// Cursor of the page of newer messages; null if there are none. A reply, an edit or a message with an older time may
    /// still arrive before it, so read the newest page again to follow a chat.
    #[schema(required)]
    after: Option<String>,
}

/// Context of the next turn, and the values that decide it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Context)]
pub(crate) struct ContextView {
    #[schema(value_type = Vec<schema::UiMessage>)]
    messages: Vec<UiMessage>,
    /// The time that the model is told before each message; null for a message without one.
    time_marks: Vec<Option<String>>,
    /// The current time, which the model is told after the last message.
    now: String,
    /// The system prompt, and the memory.
    #[schema(required)]
    system: Option<String>,
    /// Estimate of the whole context.
    tokens: u32,
    /// Size of the model's window, in tokens.
    window: u32,
    /// Share of the system part in `tokens`.
    system_tokens: u32,
    /// Share of the summary in `tokens`.
    summary_tokens: u32,
    /// Number of tokens above which the next turn makes a summary first.
    compacts_at: u32,
    /// Number of unanswered messages at the end.
    unanswered: usize,
    /// Number of the session's messages that do not fit; its summary counts as one.
    left_out: usize,
    /// Start of the session; null if it is over, or the chat is empty.
    #[schema(required)]
    session_start: Option<Timestamp>,
    /// Owner of the memory that the next turn reads and writes; null if there is none.
    #[schema(required)]
    memory_of: Option<MemoryOf>,
    /// The agent that answers in the chat.
    agent: String,
}

/// Owner of a memory, as `GET /v1/memory` takes it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum MemoryOf {
    /// A person.
    UserId(String),
    /// A group.
    ChatKey(ChatKey),
}

/// `GET /v1/chats/{chatId}/messages`
#[utoipa::path(get, path = "/v1/chats/{chatId}/messages", operation_id = "listMessages", tag = "histories",
    params(ChatPath, PageQuery), responses((status = 200,
        description = "A page, oldest first; or with `Accept: application/x-ndjson` the whole history, one message a line",
        content((Messages = "application/json"), (String = "application/x-ndjson")))))]
pub(crate) async fn messages(
    State(http): State<Arc<Http>>,
    InChat { caller, chat }: InChat,
    Query(query): Query<PageQuery>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let limit = limit_of(query.limit.as_deref(), DEFAULT_PAGE, MAX_PAGE)?;
    let position = position(&query)?;
    if accepts(&headers, NDJSON) {
        let history = http.ingress.history().clone();
        return Ok(ndjson(|mut lines| async move {
            let mut next = Some(Position::Oldest);
            while let Some(position) = next {
                let page = history.page(&chat, &position, MAX_PAGE).await?;
                lines.send(listed_lines(&caller, &page.records)?).await;
                next = page.after.map(Position::After);
            }
            Ok(())
        }));
    }
    let page = http.ingress.history().page(&chat, &position, limit).await;
    let Page { records, before, after } = page.map_err(Failure::unreadable)?;
    Ok(Json(Messages {
        messages: records.iter().map(|record| caller.listed(record)).collect(),
        before: before.map(|cursor| cursor.encode()),
        after: after.map(|cursor| cursor.encode()),
    })
    .into_response())
}

/// `GET /v1/chats/{chatId}/context`
#[utoipa::path(get, path = "/v1/chats/{chatId}/context", operation_id = "getContext", tag = "histories",
    params(ChatPath),
    responses((status = 200, description = "Context of a turn that would run now", body = ContextView)))]
pub(crate) async fn context(
    State(http): State<Arc<Http>>,
    InChat { caller, chat, .. }: InChat,
) -> Result<Json<ContextView>, Failure> {
    let history = http.ingress.history();
    let (chat, head) = history.current(&chat).await.map_err(Failure::unreadable)?;
    let seen =
        history.context(&chat, &head, None, &http.view.policy(0)).await.map_err(Failure::unreadable)?;
    let now = http.clock.now();
    let recalled = recalled(history, &chat, &seen.records, now, &http.view, &http.memory);
    let Recalled { memory, time_zone } = recalled.await?;
    let memory_of = memory.as_ref().and_then(|memory| match &memory.owner {
        Owner::User(person) | Owner::UserOf { person, .. } => {
            caller.own_user_id(person).map(|id| MemoryOf::UserId(id.to_owned()))
        }
        Owner::Chat(chat) => Some(MemoryOf::ChatKey(chat.clone())),
    });
    let agent = http.memory.agents.of_records(&chat, &seen.records);
    let parts: Vec<String> = http
        .system_prompt(agent, &head)
        .into_iter()
        .chain(memory.and_then(|memory| memory.section))
        .collect();
    let system = (!parts.is_empty()).then(|| parts.join("\n\n"));
    let system_tokens = system.as_deref().map_or(0, tokens::of_text);
    let now_tokens = time_marks::now_tokens();
    let policy = http.view.policy(system_tokens.saturating_add(now_tokens));
    let now = history.clock().now();
    let seen = annals_core::context::context(&seen.records, now, &policy);
    let time_marks = TimeMarks::new(&seen.times, now, time_zone);
    let is_summary = |message: &&UiMessage| message.metadata.kind() == Some(Kind::Summary);
    let summary = seen.messages.first().filter(is_summary);
    Ok(Json(ContextView {
        tokens: system_tokens + size_of(&seen),
        time_marks: time_marks.of_messages().to_vec(),
        now: time_marks.now().to_owned(),
        system,
        window: http.view.window,
        system_tokens,
        summary_tokens: summary.map_or(0, tokens::of_message),
        compacts_at: policy.token_budget.saturating_add(system_tokens).saturating_add(now_tokens),
        unanswered: seen.unanswered.len(),
        left_out: seen.left_out,
        session_start: seen.session_start.map(|start| start.ts()),
        memory_of,
        agent: agent.to_owned(),
        messages: seen.messages,
    }))
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

/// Parses the `limit` of a page: `default` if there is none, `most` if it is larger.
pub(crate) fn limit_of(limit: Option<&str>, default: usize, most: usize) -> Result<usize, Problem> {
    let Some(limit) = limit else { return Ok(default) };
    let is_number = !limit.is_empty() && limit.bytes().all(|byte| byte.is_ascii_digit());
    // A number too long for a `usize` is above the maximum too.
    match limit.parse().unwrap_or(usize::MAX) {
        number @ 1.. if is_number => Ok(number.min(most)),
        _ => {
            let detail = format!("give a whole number from 1 to {most}");
            Err(Problem::bad_request("bad-limit", "The limit is invalid", detail))
        }
    }
}

/// The writer's end of an answer of JSON lines.
pub(crate) struct Lines(mpsc::Sender<Result<Bytes, HistoryError>>);

impl Lines {
    /// Sends whole lines. Returns when the caller has taken them, so that no more is read than is taken.
    pub(crate) async fn send(&mut self, lines: impl Into<Bytes>) {
        drop(self.0.send(Ok(lines.into())).await);
    }
}

/// Returns an answer of JSON lines, which `write` sends. Its error is logged: the caller sees an answer that breaks off.
pub(crate) fn ndjson<W>(write: impl FnOnce(Lines) -> W) -> Response
where
    W: Future<Output = Result<(), HistoryError>> + Send + 'static,
{
    let (sender, sent) = mpsc::channel(0);
    let mut failed = sender.clone();
    let writing = write(Lines(sender));
    let written = async move {
        if let Err(error) = writing.await {
            tracing::error!(%error, "failed to read what is being sent; the answer breaks off");
            drop(failed.send(Err(error)).await);
        }
    };
    // The answer itself runs its writer, and ends it if the caller leaves.
    let lines = stream::select(sent, stream::once(written).filter_map(|()| ready(None)));
    ([(header::CONTENT_TYPE, NDJSON)], Body::from_stream(lines)).into_response()
}

/// Returns `records` as JSON lines: one `UIMessage` each, as listed for `caller`.
pub(crate) fn listed_lines(caller: &Caller, records: &[Record]) -> Result<Bytes, HistoryError> {
    let mut lines = Vec::new();
    for record in records {
        serde_json::to_writer(&mut lines, &caller.listed(record))?;
        lines.push(b'\n');
    }
    Ok(lines.into())
}

/// Returns the estimated size of the messages of `context`, with the current time that follows them.
pub(crate) fn size_of(context: &Context) -> u32 {
    context.tokens + if context.messages.is_empty() { 0 } else { time_marks::now_tokens() }
}
