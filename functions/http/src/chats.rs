//! Lists chats, the most recently used first: `GET /v1/chats`, for admin keys. `GET /v1/chats/{chatId}` returns one entry of
//! that list to any caller that may read the chat; `PATCH /v1/chats/{chatId}` gives the chat a title, for admin keys.

use std::cmp::Reverse;
use std::sync::Arc;

use annals_core::approval;
use annals_core::chat_key::ChatKey;
use annals_core::context::context;
use annals_core::record::{Channel, DeliveryFailure, Kind, Record};
use annals_core::sort_key::Timestamp;
use annals_core::takeover::Takeover;
use annals_core::title::{self, MAX_TITLE_CHARS};
use annals_runtime::problem::Problem;
use annals_store::history::directory::{ListCursor, Listed, MAX_CHATS, Places};
use annals_store::history::turn::Head;
use annals_store::history::{History, HistoryError, Page};
use axum::Json;
use axum::extract::State;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use ring::digest;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::auth::Caller;
use crate::failure::{Failure, bad_cursor};
use crate::history::{limit_of, size_of};
use crate::request::{Body, ChatPath, InChat, JsonBody, Query, QueryParameters};
use crate::state::Http;

const DEFAULT_CHATS: usize = 25;

/// Number of a chat's newest records that are read: a message, its reply, and what may be derived from both.
const NEWEST_RECORDS: usize = 6;

/// Number of chats that are read at a time.
const CONCURRENT_READS: usize = 16;

/// Maximum number of chats that one request looks at for a selection. The next page continues after them.
const MAX_LOOKED_AT: usize = 200;

const MAX_Q_CHARS: usize = 512;

const EXCERPT_CHARS: usize = 200;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// `before` of the previous page.
    before: Option<String>,
    /// Number of chats: by default 25, at most 100.
    #[param(value_type = Option<u32>, minimum = 1)]
    limit: Option<String>,
    /// True to read each chat's context, for `tokens`.
    context: Option<bool>,
    /// Only chats whose title, key, channel, last sender or Person contains this, in any case, or whose Person this identity is
    /// linked to. At most 512 characters.
    #[param(max_length = 512)]
    q: Option<String>,
    /// Only chats in this state, as far as their newest records tell.
    state: Option<ChatState>,
}

/// A state that chats are selected by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ChatState {
    /// A reply did not reach its platform, or the platform refuses messages.
    Failed,
    /// A message is unanswered.
    Unanswered,
    /// A call waits for approval.
    Waiting,
}

impl ListQuery {
    /// Returns the selection; an error if it cannot be used. One read for `q`.
    async fn selection(&self, http: &Http) -> Result<Selection, Failure> {
        let q = self.q.as_deref().map(str::trim).filter(|q| !q.is_empty());
        if q.is_some_and(|q| q.chars().count() > MAX_Q_CHARS) {
            return Err(ListQuery::invalid().into());
        }
        let person = match q.and_then(|q| http.known(q).ok()) {
            Some(identity) => http.ingress.people().identity(&identity).await?.person().map(str::to_owned),
            None => None,
        };
        Ok(Selection { words: q.map(str::to_lowercase), person, state: self.state })
    }
}

/// The chats that a list is of.
struct Selection {
    /// In lower case.
    words: Option<String>,
    /// The Person that the words, as an identity, are linked to.
    person: Option<String>,
    state: Option<ChatState>,
}

impl Selection {
    fn is_all(&self) -> bool {
        self.words.is_none() && self.state.is_none()
    }

    fn selects(&self, found: &Entry) -> bool {
        let Entry { view, person, waits_for_approval } = found;
        let key = view.chat_key.to_string();
        let names = [view.title.as_deref(), view.speaker.as_deref(), person.as_deref()].into_iter().flatten();
        let names = names.chain(view.channel.map(Channel::as_str));
        let has = |words: &String| {
            names.chain([key.as_str()]).any(|name| name.to_lowercase().contains(words.as_str()))
        };
        let is_of =
            |linked: &str| view.chat_key.person() == Some(linked) || person.as_deref() == Some(linked);
        (self.words.as_ref().is_none_or(has) || self.person.as_deref().is_some_and(is_of))
            && match self.state {
                None => true,
                Some(ChatState::Failed) => view.delivery_failure.is_some() || view.blocked.is_some(),
                Some(ChatState::Unanswered) => view.pending_turn.is_some(),
                Some(ChatState::Waiting) => *waits_for_approval,
            }
    }
}

/// A chat of the list, and what it is selected by.
struct Entry {
    view: ChatView,
    /// The last sender as a Person.
    person: Option<String>,
    waits_for_approval: bool,
}

impl QueryParameters for ListQuery {
    fn invalid() -> Problem {
        let detail = format!(
            "\"state\" must be failed, unanswered or waiting, \"context\" true or false, and \"q\" of at most {MAX_Q_CHARS} \
             characters; each is given at most once"
        );
        Problem::bad_request("bad-query", "The query is invalid", detail)
    }
}

/// A page of chats.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Chats {
    /// May be fewer than `limit` although there is another page.
    chats: Vec<ChatView>,
    /// Cursor of the next page; null if there is none.
    #[schema(required)]
    before: Option<String>,
}

/// A chat of the list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ListedChat)]
pub(crate) struct ChatView {
    /// The current key of the chat.
    chat_key: ChatKey,
    /// Title that an admin gave the chat, or that of the group or topic, name of the person or first words; null if unknown.
    /// Text from outside, in one line of at most about 260 characters, without control characters.
    #[schema(required)]
    title: Option<String>,
    /// Channel of the last message; null if the end of the history is damaged.
    #[schema(required)]
    channel: Option<Channel>,
    #[schema(required)]
    last_message: Option<Excerpt>,
    /// The last sender: the platform's name for them, or else their id; null if none of the newest records is from a person.
    #[schema(required)]
    speaker: Option<String>,
    /// Kind of chat on its platform: `private`, `group`, …; null if unknown.
    #[schema(required)]
    chat_type: Option<String>,
    /// Time of the last message from a person.
    last_interaction_at: Timestamp,
    /// Time at which the session ends; null if it never does.
    #[schema(required)]
    stale_at: Option<Timestamp>,
    stale: bool,
    /// `answering`: a run holds the chat. `waiting`: a message is unanswered, and no run holds the chat.
    #[schema(required)]
    pending_turn: Option<PendingTurn>,
    /// Of the newest six records, the newest reply that failed to reach the platform, also if a later one was delivered.
    #[schema(required)]
    delivery_failure: Option<FailedDelivery>,
    /// Time since which the platform refuses messages to this chat, and the reason.
    #[schema(required)]
    blocked: Option<DeliveryFailure>,
    /// The operator who has taken the chat over.
    #[schema(required)]
    takeover: Option<Takeover>,
    /// Opaque text that changes with the chat's newest six records: to read a chat again only if something has happened in it.
    version: String,
    /// With `context=true`: estimated size of the context.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    tokens: Option<u32>,
    /// With `context=true`: size of the model's window, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    window: Option<u32>,
}

/// Beginning of a message.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Excerpt {
    id: String,
    role: annals_core::message::Role,
    kind: Kind,
    user_id: String,
    ts: Timestamp,
    /// The first 200 characters, in one line.
    text: String,
}

#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum PendingTurn {
    /// A run holds the chat.
    Answering,
    /// A message is unanswered, and no run holds the chat.
    Waiting,
}

/// A reply that failed to reach its platform.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct FailedDelivery {
    /// Id of the reply.
    message_id: String,
    /// The platform's reason.
    reason: String,
    at: Timestamp,
}

/// `GET /v1/chats`
#[utoipa::path(get, path = "/v1/chats", operation_id = "listChats", tag = "histories", params(ListQuery),
    responses((status = 200, description = "Chats, the most recently used first", body = Chats)))]
pub(crate) async fn list(
    State(http): State<Arc<Http>>,
    caller: Caller,
    query: Result<Query<ListQuery>, Problem>,
) -> Result<Json<Chats>, Failure> {
    caller.require_admin("list the chats of all callers")?;
    let Query(query) = query?;
    let before = query.before.as_deref().map(ListCursor::decode).transpose();
    let before = before.map_err(|error| bad_cursor(error.to_string()))?;
    let limit = limit_of(query.limit.as_deref(), DEFAULT_CHATS, MAX_CHATS)?;
    let with_context = query.context.unwrap_or_default();
    let history = http.ingress.history();
    let selection = query.selection(&http).await?;
    let most = if selection.is_all() { limit } else { MAX_LOOKED_AT };
    let places = history.places(before.as_ref(), most).await.map_err(Failure::unreadable)?;
    let entries: Vec<BoxFuture<'_, _>> =
        (0..places.count()).map(|number| http.entry_at(&places, number, with_context).boxed()).collect();
    let mut entries = stream::iter(entries).buffered(CONCURRENT_READS);
    let (mut chats, mut looked_at): (Vec<ChatView>, usize) = (Vec::new(), 0);
    while chats.len() < limit
        && let Some(entry) = entries.try_next().await.map_err(Failure::unreadable)?
    {
        looked_at += 1;
        chats.extend(entry.filter(|entry| selection.selects(entry)).map(|entry| entry.view));
    }
    let before = places.cursor_after(looked_at);
    // The directory orders very busy chats by the time of their registration.
    chats.sort_by_key(|chat| Reverse(chat.last_interaction_at));
    Ok(Json(Chats { chats, before: before.map(|cursor| cursor.encode()) }))
}

/// `GET /v1/chats/{chatId}`
#[utoipa::path(get, path = "/v1/chats/{chatId}", operation_id = "getChat", tag = "histories", params(ChatPath),
    responses((status = 200, description = "The chat's entry in the list, with `context=false`", body = ChatView)))]
pub(crate) async fn one(
    State(http): State<Arc<Http>>,
    InChat { chat, .. }: InChat,
) -> Result<Json<ChatView>, Failure> {
    http.entry_of(&chat).await
}

/// `{title}`
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Retitle {
    /// The new title; null returns to the automatic one.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required, value_type = Option<String>, min_length = 1, max_length = 128)]
    title: Option<NewTitle>,
}

/// A title that an admin gives.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct NewTitle(String);

impl TryFrom<String> for NewTitle {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        if text.chars().count() > MAX_TITLE_CHARS {
            return Err(BAD_TITLE);
        }
        title::clean(&text).map(Self).ok_or(BAD_TITLE)
    }
}

const BAD_TITLE: &str =
    "must be a text of 1 to 128 characters that shows something, or null for the automatic title";

impl JsonBody for Retitle {
    const SHAPE: &'static str = "{\"title\": \"…\"}";

    fn invalid(field: &str) -> Option<Problem> {
        (field == "title")
            .then(|| Problem::bad_request("bad-title", "The title is invalid", BAD_TITLE.to_owned()))
    }
}

/// `PATCH /v1/chats/{chatId}`
#[utoipa::path(patch, path = "/v1/chats/{chatId}", operation_id = "retitleChat", tag = "histories",
    params(ChatPath), request_body = Retitle,
    responses((status = 200, description = "The chat's entry in the list, with its new title", body = ChatView)))]
pub(crate) async fn retitle(
    State(http): State<Arc<Http>>,
    InChat { caller, chat }: InChat,
    body: Result<Body<Retitle>, Problem>,
) -> Result<Json<ChatView>, Failure> {
    caller.require_admin("give a chat a title")?;
    let Body(Retitle { title }) = body?;
    let history = http.ingress.history();
    let (chat, _) = history.current(&chat).await?;
    let title = title.as_ref().map(|NewTitle(title)| title.as_str());
    if !history.give_title(&chat, title).await? {
        return Err(no_such_chat().into());
    }
    http.entry_of(&chat).await
}

pub(crate) fn no_such_chat() -> Problem {
    Problem::no_such("no-such-chat", "No such chat", "it has no messages, or was forgotten")
}

impl Http {
    async fn entry_of(&self, chat: &ChatKey) -> Result<Json<ChatView>, Failure> {
        let listed = self.ingress.history().chat(chat).await.map_err(Failure::unreadable)?;
        let entry = self.view_of(listed, false).await.map_err(Failure::unreadable)?;
        Ok(Json(entry.ok_or_else(no_such_chat)?.view))
    }

    /// Returns the entry of the chat at a place of the list; `None` if the chat was forgotten, or is listed by another name.
    async fn entry_at(
        &self,
        places: &Places,
        number: usize,
        with_context: bool,
    ) -> Result<Option<Entry>, HistoryError> {
        match self.ingress.history().listed(places, number).await? {
            Some(listed) => self.view_of(listed, with_context).await,
            None => Ok(None),
        }
    }

    /// Returns the entry of a chat, or `None` if the chat was forgotten.
    async fn view_of(&self, listed: Listed, with_context: bool) -> Result<Option<Entry>, HistoryError> {
        let Listed { chat, at, head, answered_until } = listed;
        let history = self.ingress.history();
        let Some((newest, is_whole)) = newest(history, &chat, &head).await? else { return Ok(None) };
        let title = head.given_title.clone();
        let title = title.or_else(|| head.title.clone().unwrap_or_default().after(&newest, is_whole).shown());
        let now = self.clock.now();
        let newest_alone = || context(&newest, now, &self.view.policy(0));
        let tokens = match with_context {
            false => None,
            // Nothing that is not read already can be in the context.
            true if is_whole => Some(size_of(&newest_alone())),
            true => Some(size_of(&history.context(&chat, &head, None, &self.view.policy(0)).await?.context)),
        };
        let spoken = newest.iter().rev().find(|record| record.is_interaction());
        let name =
            |record: &Record| record.message.metadata.sender_name().unwrap_or(&record.user_id).to_owned();
        let last_interaction_at = spoken.map_or(at, |record| record.ts);
        let stale_at = self.view.stale_after.map(|stale_after| last_interaction_at.plus(stale_after));
        let is_unanswered = || {
            let seen = newest_alone();
            let is_open = [&seen.unanswered, &seen.to_compact, &seen.to_send];
            seen.others_wait || is_open.into_iter().any(|open| !open.is_empty())
        };
        let pending_turn = if answered_until.is_some() {
            Some(PendingTurn::Answering)
        } else {
            (head.turn.is_some() || is_unanswered()).then_some(PendingTurn::Waiting)
        };
        let failed = newest.iter().rev().find_map(|record| {
            let DeliveryFailure { reason, at } = record.delivery_failure().cloned()?;
            Some(FailedDelivery { message_id: record.message_id.to_string(), reason, at })
        });
        let is_message =
            |record: &&Record| matches!(record.kind(), Kind::Normal | Kind::Revision | Kind::Event);
        let last = newest.iter().rev().find(is_message).or(newest.last());
        let waits_for_approval = newest.iter().filter(|record| record.key.is_reply()).any(|reply| {
            let newest = approval::newest_form(&newest, &reply.key);
            newest.is_some_and(|form| approval::requests(&form.message).iter().any(|request| request.is_open))
        });
        let person = spoken.map(Record::sender);
        let view = ChatView {
            channel: last.map(|record| record.channel),
            last_message: last.map(excerpt),
            chat_key: chat,
            title,
            speaker: spoken.map(name),
            chat_type: spoken
                .and_then(|record| record.message.metadata.chat_type())
                .map(|kind| kind.to_string()),
            last_interaction_at,
            stale_at,
            stale: stale_at.is_some_and(|stale_at| stale_at < now),
            pending_turn,
            delivery_failure: failed,
            blocked: head.blocked.map(|blocked| blocked.failure),
            takeover: head.takeover,
            version: version(&newest),
            tokens,
            window: tokens.map(|_| self.view.window),
        };
        Ok(Some(Entry { view, person, waits_for_approval }))
    }
}

/// Returns the newest records of `chat`, oldest first, and whether these are all: an empty list if its archive is damaged,
/// `None` if it has no records.
async fn newest(
    history: &History,
    chat: &ChatKey,
    head: &Head,
) -> Result<Option<(Vec<Record>, bool)>, HistoryError> {
    match history.newest(chat, head, NEWEST_RECORDS).await {
        Ok(Page { records, before, .. }) => {
            Ok(Some((records, before.is_none())).filter(|(records, _)| !records.is_empty()))
        }
        Err(HistoryError::Segment(error)) => {
            tracing::error!(chat = %chat.session_id(), %error, "failed to read the end of a history");
            Ok(Some((Vec::new(), false)))
        }
        Err(error) => Err(error),
    }
}

/// Returns a digest of what readers can see change in `records`: which they are, and failed deliveries.
fn version(records: &[Record]) -> String {
    let mut digest = digest::Context::new(&digest::SHA256);
    for record in records {
        let failed_at = record.delivery_failure().map(|failure| failure.at.as_millis());
        digest.update(format!("{} {} {failed_at:?}\n", record.key, record.revision()).as_bytes());
    }
    hex::encode(&digest.finish().as_ref()[..8])
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
        kind: record.kind(),
        user_id: record.user_id.clone(),
        ts: record.ts,
        text,
    }
}
