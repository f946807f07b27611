//! Sends messages and commands: `POST /v1/chats/{chatId}/messages`, `POST /v1/messages`, `POST /v1/chats/{chatId}/reset`
//! and `…/compact`.

use std::sync::Arc;
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::draft::Draft;
use annals_core::message::{Part, UiMessage};
use annals_core::record::{Channel, MAX_AHEAD};
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use annals_engine::ingress::Ingress;
use annals_runtime::problem::Problem;
use annals_runtime::telemetry;
use annals_store::history::{Appended, Outcome};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::auth::Caller;
use crate::failure::Failure;
use crate::request::{
    Body, ChatPath, InChat, JsonBody, NewId, Query, QueryParameters, UserId, bad_ts, command, draft,
    invalid_field, invalid_ts,
};
use crate::schema;
use crate::state::Http;

/// Longest time that a request waits for its reply.
const MAX_WAIT: Duration = Duration::from_secs(25);
/// First pause between two reads of the history; each later one is longer, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_millis(800);

/// A message.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewMessage {
    /// Sender: any id of the caller's, at most 512 bytes.
    #[schema(value_type = UserId, required)]
    user_id: Option<UserId>,
    /// The text; or `parts`, and not both.
    #[schema(pattern = "\\S")]
    text: Option<String>,
    /// Each at most 64 objects and lists deep, itself counted.
    #[schema(value_type = Option<Vec<schema::Part>>, min_items = 1)]
    parts: Option<Vec<Value>>,
    /// Under one id a message is stored and answered once; other content under it is a revision. At most 256 bytes.
    message_id: Option<NewId>,
    /// When it was sent, in epoch milliseconds; by default now. At most five minutes ahead of the server.
    #[schema(minimum = 0, maximum = 9_999_999_999_999_i64)]
    ts: Option<i64>,
}

impl JsonBody for NewMessage {
    const SHAPE: &str = "{userId, text or parts, messageId?, ts?}";

    fn invalid(field: &str) -> Option<Problem> {
        invalid_content(field)
    }
}

/// A command.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reset {
    /// Sender; by default the key's name.
    pub(crate) user_id: Option<UserId>,
    /// Under one id a command is carried out once.
    pub(crate) message_id: Option<NewId>,
}

impl JsonBody for Reset {
    const SHAPE: &str = "{userId?, messageId?}";

    fn empty() -> Option<Self> {
        Some(Self::default())
    }
}

/// A command.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Compact {
    /// Sender; by default the key's name.
    user_id: Option<UserId>,
    /// Under one id a command is carried out once.
    message_id: Option<NewId>,
    /// Subject that the summary keeps above all.
    focus: Option<String>,
}

impl JsonBody for Compact {
    const SHAPE: &str = "{userId?, messageId?, focus?}";

    fn empty() -> Option<Self> {
        Some(Self::default())
    }

    fn invalid(field: &str) -> Option<Problem> {
        match field {
            "focus" => Some(Problem::bad_request("bad-focus", "The focus is invalid", "give a string")),
            field => invalid_field(field),
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct WaitQuery {
    /// Seconds to wait for the reply, at most 25.
    #[param(minimum = 0)]
    wait: Option<f64>,
}

impl QueryParameters for WaitQuery {
    fn invalid() -> Problem {
        let detail = "give a number of seconds from 0 to 25, such as ?wait=20";
        Problem::bad_request("bad-wait", "The wait is not a number of seconds", detail)
    }
}

impl Receipt {
    /// Returns the receipt of a message of `chat` that is stored as it was sent.
    pub(crate) fn of(chat_key: ChatKey, message_id: MessageId, duplicate: bool) -> Self {
        Self { chat_key, message_id, duplicate, revision: None, reply: None }
    }
}

impl WaitQuery {
    fn time(&self) -> Result<Option<Duration>, Problem> {
        match self.wait {
            None => Ok(None),
            Some(secs) if secs.is_finite() && secs >= 0.0 => {
                Ok(Some(Duration::from_secs_f64(secs.min(MAX_WAIT.as_secs_f64()))))
            }
            Some(_) => Err(Self::invalid()),
        }
    }
}

/// `{chatKey, messageId, duplicate, revision?, reply?}`
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Receipt {
    chat_key: ChatKey,
    message_id: MessageId,
    /// True if the message was stored before with the same content.
    duplicate: bool,
    /// Number of the revision, if a message with this id was stored before with other content.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1)]
    revision: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = schema::UiMessage)]
    reply: Option<UiMessage>,
}

/// The chat of a message.
enum Destination {
    /// This chat.
    Chat(ChatKey),
    /// The direct chat of the person with this identity.
    Person(String),
}

/// A message or a command to store.
pub(crate) struct Incoming {
    user_id: String,
    parts: Vec<Part>,
    id: Option<NewId>,
    ts: Option<Timestamp>,
    /// The route takes commands alone, so the id must not be that of a message.
    is_command: bool,
}

impl Incoming {
    pub(crate) fn message(message: NewMessage) -> Result<Self, Problem> {
        let user_id = UserId::required(message.user_id)?;
        let parts = content(message.text, message.parts)?;
        let ts = message.ts.map(|ts| Timestamp::from_millis(ts).ok_or_else(invalid_ts)).transpose()?;
        Ok(Self { user_id, parts, id: message.message_id, ts, is_command: false })
    }

    fn command(caller: &Caller, command: Reset, text: String) -> Self {
        let user_id = UserId::or_name(command.user_id, caller);
        Self { user_id, parts: vec![Part::text(text)], id: command.message_id, ts: None, is_command: true }
    }
}

/// `POST /v1/chats/{chatId}/messages`
#[utoipa::path(post, path = "/v1/chats/{chatId}/messages", operation_id = "postMessage", tag = "messages",
    params(ChatPath, WaitQuery), request_body = NewMessage,
    responses((status = 200, description = "Stored and answered", body = Receipt),
        (status = 202, description = "Stored; the reply follows", body = Receipt)))]
pub(crate) async fn post(
    State(http): State<Arc<Http>>,
    InChat { caller, chat, .. }: InChat,
    Query(query): Query<WaitQuery>,
    Body(message): Body<NewMessage>,
) -> Result<Response, Failure> {
    http.receive(&caller, Destination::Chat(chat), Incoming::message(message)?, query).await
}

/// `POST /v1/messages`
#[utoipa::path(post, path = "/v1/messages", operation_id = "postDirectMessage", tag = "messages", params(WaitQuery),
    request_body = NewMessage, responses((status = 200, description = "Stored and answered", body = Receipt),
        (status = 202, description = "Stored; the reply follows", body = Receipt)))]
pub(crate) async fn post_direct(
    State(http): State<Arc<Http>>,
    caller: Caller,
    Query(query): Query<WaitQuery>,
    Body(message): Body<NewMessage>,
) -> Result<Response, Failure> {
    let message = Incoming::message(message)?;
    let identity = http.identity(&caller, &message.user_id)?;
    http.receive(&caller, Destination::Person(identity), message, query).await
}

/// `POST /v1/chats/{chatId}/reset`: does what `/reset` does. The body may name the sender as `userId`, and the command as
/// `messageId`, under which it is carried out once.
#[utoipa::path(post, path = "/v1/chats/{chatId}/reset", operation_id = "resetChat", tag = "messages",
    params(ChatPath), request_body = Reset,
    responses((status = 202, description = "A new session", body = Receipt)))]
pub(crate) async fn reset(
    State(http): State<Arc<Http>>,
    InChat { caller, chat, .. }: InChat,
    Body(command): Body<Reset>,
) -> Result<Response, Failure> {
    let command = Incoming::command(&caller, command, "/reset".into());
    http.receive(&caller, Destination::Chat(chat), command, WaitQuery { wait: None }).await
}

/// `POST /v1/chats/{chatId}/compact`: does what `/compact` does. The body is that of `…/reset`, with an optional `focus`: the
/// subject that the summary keeps above all. `?wait=` waits until it is done.
#[utoipa::path(post, path = "/v1/chats/{chatId}/compact", operation_id = "compactChat", tag = "messages",
    params(ChatPath, WaitQuery), request_body = Compact,
    responses((status = 200, description = "Done", body = Receipt),
        (status = 202, description = "Queued as the chat's next turn", body = Receipt)))]
pub(crate) async fn compact(
    State(http): State<Arc<Http>>,
    InChat { caller, chat, .. }: InChat,
    Query(query): Query<WaitQuery>,
    Body(Compact { user_id, message_id, focus }): Body<Compact>,
) -> Result<Response, Failure> {
    let text = focus.map_or_else(|| "/compact".to_owned(), |focus| format!("/compact {focus}"));
    let command = Incoming::command(&caller, Reset { user_id, message_id }, text);
    http.receive(&caller, Destination::Chat(chat), command, query).await
}

impl Http {
    /// Stores a message and queues its turn, or carries out a command.
    async fn receive(
        &self,
        caller: &Caller,
        to: Destination,
        incoming: Incoming,
        query: WaitQuery,
    ) -> Result<Response, Failure> {
        let wait = query.time()?;
        let Incoming { user_id, parts, id, ts, is_command } = incoming;
        let now = self.clock.now();
        if ts.is_some_and(|ts| ts > now.plus(MAX_AHEAD)) {
            let detail =
                "it is more than five minutes ahead of the server's clock: give milliseconds since 1970";
            return Err(bad_ts(detail).into());
        }
        let id = id.map(|NewId(id)| id);
        // One id is one message, whatever time comes with it: its first time counts.
        let (chat, identity, ts) = match (to, &id, ts.unwrap_or(now)) {
            (Destination::Chat(chat), Some(id), ts) => {
                let ts = self.ingress.history().first_time(&chat, id, ts).await?;
                (chat, None, ts)
            }
            (Destination::Chat(chat), None, ts) => (chat, None, ts),
            (Destination::Person(identity), id, ts) => {
                let said = caller.circumstances(Channel::Http);
                let direct = self.ingress.direct_chat(&identity, id.as_ref(), ts, &said).await?;
                (direct.chat, Some((identity, direct.person)), direct.ts)
            }
        };
        telemetry::about(&chat);
        let message_id = id.map_or_else(|| self.new_message_id(), Ok)?;
        let mut draft = draft(caller, &chat, Channel::Http, &user_id, message_id, ts, parts);
        if let Some((identity, person)) = identity {
            (draft.chat_id, draft.person) = (identity, Some(person));
        }
        let Appended { base, outcome } = Box::pin(append(&self.ingress, &draft, is_command)).await?;
        tracing::info!(?outcome, "message");
        let reply = match wait {
            Some(wait) => self.wait_for_reply(caller, &chat, &base, wait).await,
            None => None,
        };
        let status = if reply.is_some() { StatusCode::OK } else { StatusCode::ACCEPTED };
        let receipt = Receipt {
            chat_key: chat,
            message_id: draft.message_id,
            duplicate: outcome == Outcome::Duplicate,
            revision: match outcome {
                Outcome::Revision(number) => Some(number),
                Outcome::Stored | Outcome::Duplicate => None,
            },
            reply,
        };
        Ok((status, Json(receipt)).into_response())
    }

    /// Waits for the reply to the message at `base`, or its confirmation. A failed read is repeated: the message is stored, and a
    /// caller who was told to send it again would be answered twice.
    async fn wait_for_reply(
        &self,
        caller: &Caller,
        chat: &ChatKey,
        base: &SortKey,
        wait: Duration,
    ) -> Option<UiMessage> {
        let until = self.clock.now().plus(wait);
        let mut pause = FIRST_PAUSE;
        loop {
            match self.ingress.history().newest_reply_to(chat, base).await {
                Ok(Some(reply)) => return Some(caller.listed(&reply)),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, "failed to read a reply that is waited for");
                    if !error.may_pass() {
                        return None;
                    }
                }
            }
            let left = until.since(self.clock.now());
            if left.is_zero() {
                return None;
            }
            self.clock.sleep(pause.min(left)).await;
            pause = (pause * 3 / 2).min(MAX_PAUSE);
        }
    }
}

/// Returns the content of a message, which is given as `text` or as `parts`.
pub(crate) fn content(text: Option<String>, parts: Option<Vec<Value>>) -> Result<Vec<Part>, Problem> {
    Ok(match (text, parts) {
        (Some(_), Some(_)) => return Err(bad_message("give \"text\" or \"parts\", not both")),
        (None, None) => return Err(bad_message("give the message as \"text\" or \"parts\"")),
        (Some(text), None) if text.trim().is_empty() => return Err(bad_message(TEXT)),
        (Some(text), None) => vec![Part::text(text)],
        (None, Some(parts)) if parts.is_empty() => return Err(bad_message(PARTS)),
        (None, Some(parts)) => parts.into_iter().map(complete_part).collect::<Result<_, _>>()?,
    })
}

fn complete_part(value: Value) -> Result<Part, Problem> {
    let part = Part::new(value).map_err(|error| bad_message(&error.to_string()))?;
    match part.missing_field() {
        Some(field) => Err(bad_message(&format!("a {} part must have a string \"{field}\"", part.kind()))),
        None => Ok(part),
    }
}

/// Returns the problem of an invalid `text` or `parts`, or of another field that many bodies have.
pub(crate) fn invalid_content(field: &str) -> Option<Problem> {
    match field {
        "text" => Some(bad_message(TEXT)),
        "parts" => Some(bad_message(PARTS)),
        field => invalid_field(field),
    }
}

const TEXT: &str = "\"text\" must be a string that is not blank";
const PARTS: &str = "\"parts\" must be a list of UIMessage parts that is not empty";

/// Stores the message of `draft` and queues its turn, or carries out its command.
///
/// # Errors
/// Fails if the draft must be a command ([`Incoming::is_command`]) and its id is that of a message.
pub(crate) async fn append(ingress: &Ingress, draft: &Draft, is_command: bool) -> Result<Appended, Failure> {
    let Some(command) = command(&draft.parts) else { return Ok(ingress.receive(draft).await?) };
    let commanded = if is_command {
        ingress.command_alone(&command, draft).await?.ok_or_else(Problem::command_id_taken)?
    } else {
        ingress.command(&command, draft).await?
    };
    if let Some(confirmation) = commanded.confirmation {
        ingress.confirmed(draft, confirmation).await?;
    }
    Ok(commanded.appended)
}

/// Returns a 400: the message is invalid.
pub(crate) fn bad_message(detail: &str) -> Problem {
    Problem::bad_request("bad-message", "The message is invalid", detail)
}
