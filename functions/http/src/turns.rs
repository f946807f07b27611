//! The trace of a turn: `GET /v1/chats/{chatId}/turns/{id}`.

use std::sync::Arc;
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::context::{Context, Policy, records_of_turn};
use annals_core::message::UiMessage;
use annals_core::record::{DeliveryFailure, Record};
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use annals_core::time_marks::TimeMarks;
use annals_core::trace::{Given, PromptId, Span, digest_of, digest_of_text};
use annals_engine::remembering::recalled;
use annals_runtime::problem::Problem;
use annals_store::history::turn::Head;
use annals_store::history::{Cursor, History, HistoryError, MAX_PAGE, Position};
use axum::Json;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::chat::{named_by, names};
use crate::failure::Failure;
use crate::request::{ChatPath, InChat, Query, QueryParameters, invalid_ts};
use crate::schema;
use crate::state::Http;

/// Number of pages, from the newest on, in which an id without `ts` is looked for.
const PAGES: usize = 5;

/// Second path parameter of `/v1/chats/{chatId}/turns/{id}`.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct TurnPath {
    /// Id of the reply, or of any message that it answers
    #[param(min_length = 1)]
    id: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct TurnQuery {
    /// `metadata.ts` of that message. Without it the message is looked for among the 1,000 newest of the chat.
    #[param(value_type = Option<i64>, minimum = 0, maximum = 9_999_999_999_999_i64)]
    ts: Option<String>,
}

impl QueryParameters for TurnQuery {}

/// The course of a turn.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Turn)]
pub(crate) struct TurnView {
    /// Id of the reply.
    id: String,
    /// Time at which the first message that it answers was stored; all spans count from here.
    start: Timestamp,
    /// Number of requests to models, summaries included, in all attempts whose end is known.
    requests: u32,
    /// The steps, in order of their beginning.
    spans: Vec<Span>,
    /// Number of further steps that were too many to store.
    dropped: u32,
    /// Null if no model was asked.
    #[schema(required)]
    prompt: Option<Prompt>,
    /// Null if the reply was delivered, or needs no delivery.
    #[schema(required)]
    delivery_failure: Option<DeliveryFailure>,
}

/// The turn's first prompt, made again from the history, the settings and the memory: no request is stored. Each later request
/// of the turn also had the steps of the reply before it, which are parts of the reply.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Prompt {
    #[schema(value_type = Vec<schema::UiMessage>)]
    messages: Vec<UiMessage>,
    /// True if they are those that the model was sent, by a digest of their ids and parts. False if some have left the table
    /// or were shortened, or settings have changed since.
    exact: bool,
    /// The system prompt of the settings now; null for turns of earlier versions.
    #[schema(required)]
    system: Option<PromptText>,
    /// The memory that is recalled now; null for turns of earlier versions.
    #[schema(required)]
    memory: Option<PromptText>,
    /// Null for turns of earlier versions.
    #[schema(required)]
    tools: Option<PromptTools>,
    /// The time that the model was told before each message, in the time zone of now; null for a message without one.
    time_marks: Vec<Option<String>>,
    /// The current time, which the model was told after the last message.
    now: String,
}

/// A text of a prompt.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PromptText {
    /// Null if there is none.
    #[schema(required)]
    text: Option<String>,
    /// True if the model was sent this text, by its digest; false if it was sent another or none.
    exact: bool,
}

impl PromptText {
    fn new(text: Option<String>, digest: &str) -> Self {
        Self { exact: digest_of_text(text.as_deref()) == digest, text }
    }
}

/// The tools of a prompt.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PromptTools {
    /// Those of the first tools, in the order in which the model was sent them.
    names: Vec<String>,
    /// Number of further tools.
    more: u32,
}

/// `GET /v1/chats/{chatId}/turns/{id}`
#[utoipa::path(get, path = "/v1/chats/{chatId}/turns/{id}", operation_id = "getTurn", tag = "histories",
    params(ChatPath, TurnPath, TurnQuery),
    responses((status = 200, description = "The steps of the turn that made a reply, with their times", body = TurnView)))]
pub(crate) async fn one(
    State(http): State<Arc<Http>>,
    InChat { chat, .. }: InChat,
    Path(path): Path<TurnPath>,
    Query(TurnQuery { ts }): Query<TurnQuery>,
) -> Result<Json<TurnView>, Failure> {
    let ts = ts.map(|ts| ts.parse().ok().and_then(Timestamp::from_millis).ok_or_else(invalid_ts));
    let history = http.ingress.history();
    let found = find(history, &chat, &path.id, ts.transpose()?).await.map_err(Failure::unreadable)?;
    let turn = match found {
        Some(reply) => http.turn_of(&chat, &reply).await?,
        None => None,
    };
    Ok(Json(turn.ok_or_else(|| {
        let detail = "no reply with a trace has this id or answers this message; give 'ts' for an older one";
        Problem::no_such("no-such-turn", "No such turn", detail)
    })?))
}

/// Finds the reply that `id` names, or that answers the message that it names.
async fn find(
    history: &History,
    chat: &ChatKey,
    id: &str,
    ts: Option<Timestamp>,
) -> Result<Option<Record>, HistoryError> {
    let Some(ts) = ts else {
        let mut position = Position::Newest;
        for _ in 0..PAGES {
            let page = history.page(chat, &position, MAX_PAGE).await?;
            if let Some(record) = page.records.iter().find(|record| names(record, id)) {
                return history.reply_to(&record.chat, &record.key.base()).await;
            }
            let Some(before) = page.before else { break };
            position = Position::Before(before);
        }
        return Ok(None);
    };
    let bases = named_by(id).filter_map(|id| Some(SortKey::message(ts, &MessageId::new(id).ok()?)));
    let bases: Vec<SortKey> = bases.collect();
    for name in history.all_names(chat).await? {
        for base in &bases {
            if let Some(reply) = history.reply_to(&name, base).await? {
                return Ok(Some(reply));
            }
        }
    }
    Ok(None)
}

impl Http {
    /// Returns the turn of `reply`, with the turns that continued it; `None` if it has no trace.
    async fn turn_of(&self, chat: &ChatKey, reply: &Record) -> Result<Option<TurnView>, Failure> {
        let history = self.ingress.history();
        let place = reply.key.base().reply();
        let forms = history.message_anywhere(&reply.chat, &reply.key).await.map_err(Failure::unreadable)?;
        let mut traces: Vec<_> = forms.iter().filter_map(Record::trace).cloned().collect();
        let Some(first) = traces.first().cloned() else { return Ok(None) };
        let (_, head) = history.current(chat).await.map_err(Failure::unreadable)?;
        let after = Position::After(Cursor::at(&reply.chat, &reply.key));
        let later = history.page(chat, &after, MAX_PAGE).await.map_err(Failure::unreadable)?.records;
        let stored = later.iter().filter_map(|record| record.trace()?.before.as_deref());
        let mut delivered: Vec<_> =
            stored.chain(&head.delivered).filter(|delivery| delivery.reply == place).collect();
        // Each reply that follows it has it, until the next delivery.
        delivered.dedup();
        traces.extend(delivered.into_iter().map(|delivery| delivery.trace.clone()));
        let start = first.start;
        let mut spans: Vec<Span> = traces.iter().flat_map(|trace| trace.spans_after(start)).collect();
        spans.sort_by_key(|span| span.at);
        let prompt = match &first.prompt {
            Some(id) => Some(self.prompt_of(&head, reply, start, id).await?),
            None => None,
        };
        Ok(Some(TurnView {
            id: reply.listed().id,
            start,
            requests: traces.iter().map(|trace| trace.requests).sum(),
            spans,
            dropped: traces.iter().map(|trace| trace.dropped).sum(),
            prompt,
            delivery_failure: forms.iter().rev().find_map(Record::delivery_failure).cloned(),
        }))
    }

    /// Makes the prompt `id` of the turn of `reply` again.
    async fn prompt_of(
        &self,
        head: &Head,
        reply: &Record,
        start: Timestamp,
        id: &PromptId,
    ) -> Result<Prompt, Failure> {
        let history = self.ingress.history();
        let at = start.plus(Duration::from_millis(id.at.into()));
        let policy = Policy { token_budget: id.tokens, ..self.view.policy(0) };
        let base = reply.key.base();
        let first = reply.covers().first().unwrap_or(&base);
        let records = history.records_as_of(&reply.chat, head, first, at, &policy).await;
        let mut records = records.map_err(Failure::unreadable)?;
        // It may have been stored within the same millisecond.
        records.retain(|record| record.message_id != reply.message_id);
        let (records, context) = records_of_turn(&records, reply.covers(), at, &policy);
        let Context { messages, times, .. } = context;
        let recalled = recalled(history, &reply.chat, &records, at, &self.view, &self.memory).await?;
        let time_marks = TimeMarks::new(&times, at, recalled.time_zone);
        let (mut system, mut memory, mut tools) = (None, None, None);
        if let Some(Given { system: given, memory: sent, tools: names, more_tools }) = id.given.clone() {
            system = Some(PromptText::new(
                self.system_prompt(self.memory.agents.of_records(&reply.chat, &records), head),
                &given,
            ));
            memory = Some(PromptText::new(recalled.memory.and_then(|memory| memory.section), &sent));
            tools = Some(PromptTools { names, more: more_tools });
        }
        Ok(Prompt {
            exact: digest_of(&messages) == id.digest,
            messages,
            system,
            memory,
            tools,
            time_marks: time_marks.of_messages().to_vec(),
            now: time_marks.now().to_owned(),
        })
    }
}
