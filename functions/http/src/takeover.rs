//! Operators, by admin keys: `PUT` and `DELETE /v1/chats/{chatId}/takeover`, `POST /v1/chats/{chatId}/send`.

use std::sync::Arc;

use annals_core::chat_key::ChatKey;
use annals_core::message::{Part, PartView};
use annals_core::record::Channel;
use annals_core::takeover::Takeover;
use annals_engine::ingress::IngressError;
use annals_engine::ingress::operating::Desk;
use annals_runtime::problem::Problem;
use annals_store::history::{HistoryError, Outcome};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::chats::no_such_chat;
use crate::failure::Failure;
use crate::messages::{Receipt, bad_message, content, invalid_content};
use crate::request::{Body, ChatPath, InChat, JsonBody, NewId, UserId, bad_message_id, invalid_field};
use crate::schema;
use crate::state::Http;

/// Longest message of an operator, in bytes of its parts' JSON.
const MAX_SENT_BYTES: usize = 64 * 1024;

/// The operator who takes a chat over.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct NewTakeover {
    /// Name of the operator; by default the key's name.
    operator: Option<UserId>,
}

impl JsonBody for NewTakeover {
    const SHAPE: &str = "{operator?}";

    fn empty() -> Option<Self> {
        Some(Self::default())
    }

    fn invalid(field: &str) -> Option<Problem> {
        bad_operator(field).or_else(|| invalid_field(field))
    }
}

/// A message of an operator.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewDispatch {
    /// The text; or `parts`, and not both.
    #[schema(pattern = "\\S")]
    text: Option<String>,
    /// Texts; over HTTP and on the web files, too. At most 64 KiB of JSON.
    #[schema(value_type = Option<Vec<schema::Part>>, min_items = 1)]
    parts: Option<Vec<Value>>,
    /// Under one id a message is sent once. At most 256 bytes.
    #[schema(value_type = NewId, required)]
    message_id: Option<NewId>,
    /// Name of the operator; by default who has taken the chat over, or the key's name.
    operator: Option<UserId>,
}

impl JsonBody for NewDispatch {
    const SHAPE: &str = "{text or parts, messageId, operator?}";

    fn invalid(field: &str) -> Option<Problem> {
        bad_operator(field).or_else(|| invalid_content(field))
    }
}

/// `{chatKey, takeover}`
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Held {
    chat_key: ChatKey,
    /// The operator who has taken the chat over.
    #[schema(required)]
    takeover: Option<Takeover>,
}

/// `PUT /v1/chats/{chatId}/takeover`: from now on messages are stored and not answered, until an operator answers or the chat
/// is handed back.
#[utoipa::path(put, path = "/v1/chats/{chatId}/takeover", operation_id = "takeOverChat", tag = "operators",
    params(ChatPath), request_body = NewTakeover,
    responses((status = 200, description = "The operator has the chat", body = Held)))]
pub(crate) async fn take_over(
    State(http): State<Arc<Http>>,
    InChat { caller, chat }: InChat,
    body: Result<Body<NewTakeover>, Problem>,
) -> Result<Json<Held>, Failure> {
    caller.require_admin("take a chat over")?;
    let Body(NewTakeover { operator }) = body?;
    let by = UserId::or_name(operator, &caller);
    let desk = http.desk(&chat).await?;
    let takeover = http.ingress.take_over(&desk, &by).await?.ok_or_else(no_such_chat)?;
    if takeover.by != by {
        return Err(taken_over().into());
    }
    Ok(Json(Held { chat_key: desk.chat, takeover: Some(takeover) }))
}

/// `DELETE /v1/chats/{chatId}/takeover`: the bot answers what is unanswered, and what comes.
#[utoipa::path(delete, path = "/v1/chats/{chatId}/takeover", operation_id = "handBackChat", tag = "operators",
    params(ChatPath), responses((status = 200, description = "No operator has the chat", body = Held)))]
pub(crate) async fn hand_back(
    State(http): State<Arc<Http>>,
    InChat { caller, chat }: InChat,
) -> Result<Json<Held>, Failure> {
    caller.require_admin("hand a chat back")?;
    http.ingress.hand_back(&chat).await?;
    Ok(Json(Held { chat_key: chat, takeover: None }))
}

/// `POST /v1/chats/{chatId}/send`: sends a message as the bot, through the chat's platform. If the chat is taken over, it
/// answers what is unanswered.
#[utoipa::path(post, path = "/v1/chats/{chatId}/send", operation_id = "sendMessage", tag = "operators",
    params(ChatPath), request_body = NewDispatch,
    responses((status = 202, description = "Stored; the chat's next turn sends it", body = Receipt)))]
pub(crate) async fn send(
    State(http): State<Arc<Http>>,
    InChat { caller, chat }: InChat,
    body: Result<Body<NewDispatch>, Problem>,
) -> Result<(StatusCode, Json<Receipt>), Failure> {
    caller.require_admin("send messages as the bot")?;
    let Body(NewDispatch { text, parts, message_id, operator }) = body?;
    let NewId(id) = message_id
        .ok_or_else(|| bad_message_id("give a \"messageId\", under which it is sent once".into()))?;
    let parts = content(text, parts)?;
    let desk = http.desk(&chat).await?;
    check_parts(&parts, desk.channel())?;
    let is_of = |channel: &Channel| channel.has_message_ids_like(id.as_str());
    if desk.channel().is_platform() && Channel::ALL.iter().any(is_of) {
        let detail = "ids of this form are the platform's: give another, such as a UUID";
        return Err(bad_message_id(detail.into()).into());
    }
    let holder = desk.takeover.as_ref().map(|takeover| takeover.by.clone());
    let by = match (operator, holder) {
        (Some(UserId(by)), Some(holder)) if by != holder => return Err(taken_over().into()),
        (_, Some(holder)) => holder,
        (operator, None) => UserId::or_name(operator, &caller),
    };
    let appended = match Box::pin(http.ingress.send(&desk, &by, id.clone(), parts)).await {
        Err(IngressError::History(HistoryError::Taken { .. })) => {
            return Err(Problem::sent_otherwise().into());
        }
        appended => appended?,
    };
    tracing::info!(outcome = ?appended.outcome, "message of an operator");
    let receipt = Receipt::of(desk.chat, id, appended.outcome == Outcome::Duplicate);
    Ok((StatusCode::ACCEPTED, Json(receipt)))
}

impl Http {
    /// Returns the desk of a chat in which a person has written.
    pub(crate) async fn desk(&self, chat: &ChatKey) -> Result<Desk, Failure> {
        Ok(Box::pin(self.ingress.desk(chat)).await?.ok_or_else(no_such_chat)?)
    }
}

/// Refuses parts that `channel` cannot show.
fn check_parts(parts: &[Part], channel: Channel) -> Result<(), Problem> {
    if parts.iter().map(Part::json_len).sum::<usize>() > MAX_SENT_BYTES {
        return Err(Problem::too_large("a message of an operator may have at most 64 KiB"));
    }
    let shows_files = channel.is_of_callers();
    let is_shown = |part: &Part| match part.view() {
        PartView::Text(_) => true,
        PartView::File { .. } => shows_files,
        _ => false,
    };
    if !parts.iter().all(is_shown) {
        let shown = if shows_files { "texts and files" } else { "texts" };
        return Err(bad_message(&format!("through {channel} an operator can send {shown} only")));
    }
    let has_content = |part: &Part| match part.view() {
        PartView::Text(text) => !text.trim().is_empty(),
        _ => true,
    };
    if parts.iter().any(has_content) { Ok(()) } else { Err(bad_message("all its texts are blank")) }
}

fn bad_operator(field: &str) -> Option<Problem> {
    (field == "operator").then(|| {
        let detail = "must be a string of 1 to 512 bytes without control characters";
        Problem::bad_request("bad-operator", "The operator is invalid", detail)
    })
}

/// Returns a 409: another operator has the chat.
fn taken_over() -> Problem {
    let detail = "GET /v1/chats/{chatId} names who has it: ask that operator, or hand the chat back first";
    Problem::new(StatusCode::CONFLICT, "taken-over", "Another operator has the chat", detail)
}
