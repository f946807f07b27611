//! What is remembered: `GET /v1/memory?userId=…` or `?chatKey=…`, `PUT` and `DELETE /v1/memory/{id}`.
//!
//! An id holds whose entry it is, so the caller's right is known before the store is asked. An entry that a caller has no
//! right to, and one that is not there, have the same answer.

use std::sync::Arc;

use annals_shared::chat_key::ChatKey;
use annals_shared::memory::{
    Correction, CorrectionError, Deleted, EntryId, EntryKind, Kept, MemoryError, Overview, Owner, Undoable,
};
use annals_shared::problem::Problem;
use annals_shared::sort_key::{MessageId, Timestamp};
use axum::Json;
use axum::body::Body as RequestBody;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::auth::Caller;
use crate::post::{MAX_USER_ID_BYTES, bad_user};
use crate::{Failure, Http};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct OwnerQuery {
    /// Whose; or `chatKey`, and not both.
    #[param(min_length = 1)]
    user_id: Option<String>,
    /// Of which chat: a conversation id, at most 512 bytes, or with an admin key a whole ChatKey.
    #[param(min_length = 1, max_length = 2048)]
    chat_key: Option<String>,
}

/// `{text}` or `{markdown}`
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = Correction)]
pub(crate) struct Body {
    /// What the entry shall say.
    #[schema(value_type = Option<String>)]
    text: Option<Value>,
    /// Or all of it: Markdown with front matter.
    #[schema(value_type = Option<String>)]
    markdown: Option<Value>,
}

/// `{memories, forgotten?}`
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Memories {
    memories: Vec<Remembered>,
    /// Entries that the agent's tool has forgotten in the last seven days, as they were: `PUT` of its `earlier.markdown` brings it back, `DELETE`
    /// deletes it for good.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    forgotten: Vec<Remembered>,
}

/// `{id, number, type, scope, userId or chatKey, text, markdown, outside?, earlier?, source?, sessionId?, createdAt, updatedAt?}`
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Memory)]
pub(crate) struct Remembered {
    id: String,
    number: u32,
    #[serde(rename = "type")]
    kind: EntryKind,
    /// `user` or `chat`.
    scope: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    user_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    chat_key: Option<ChatKey>,
    text: String,
    markdown: String,
    /// The outside tools, as `<server>/<tool>`, whose results the model had read when it saved or changed the entry.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    outside: Vec<String>,
    /// What the entry was before the agent's tool replaced or forgot it; `PUT` of its `markdown` brings it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    earlier: Option<Earlier>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    source: Option<SourceView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    session_id: Option<String>,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    updated_at: Option<Timestamp>,
}

/// `{text, markdown, undoUntil}`
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EarlierMemory)]
struct Earlier {
    text: String,
    markdown: String,
    undo_until: Timestamp,
}

/// `{chatKey, fromId, toId}`
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MemorySource)]
struct SourceView {
    chat_key: ChatKey,
    from_id: MessageId,
    to_id: MessageId,
}

/// `GET /v1/memory`
#[utoipa::path(get, path = "/v1/memory", operation_id = "listMemory", tag = "memory", security(("key" = [])),
    params(OwnerQuery),
    responses((status = 200, description = "What is remembered of a person, or of a chat", body = Memories)))]
pub(crate) async fn list(
    State(http): State<Arc<Http>>,
    caller: Caller,
    query: Result<Query<OwnerQuery>, QueryRejection>,
) -> Result<Json<Memories>, Failure> {
    let whose = || {
        let detail = "give whose entries to list as ?userId= or as ?chatKey=, and not both";
        Problem::bad_request("bad-owner", "The query names no one owner", detail)
    };
    let Query(query) = query.map_err(|_| whose())?;
    let owner = match (query.user_id, query.chat_key) {
        (Some(user_id), None) if user_id.is_empty() => {
            return Err(bad_user("must not be empty".into()).into());
        }
        (Some(user_id), None) if user_id.len() > MAX_USER_ID_BYTES && !caller.admin => {
            let detail = format!("{} bytes are more than {MAX_USER_ID_BYTES}", user_id.len());
            return Err(bad_user(detail).into());
        }
        (Some(user_id), None) => Owner::User(caller.crossing_user_id(&user_id)),
        (None, Some(chat)) => Owner::Chat(http.ingress.history().first_name(&caller.chat(&chat)?).await?),
        _ => return Err(whose().into()),
    };
    let Overview { kept, undoable } = http.ingress.memory().overview(&owner).await?;
    let shown = |kept: &Kept| {
        let of_it = undoable.iter().find(|undoable| undoable.earlier.number == kept.number);
        Remembered { earlier: of_it.map(earlier), ..remembered(kept, &caller) }
    };
    let forgotten = undoable.iter().filter(|undoable| undoable.is_forgotten);
    let forgotten = forgotten.map(|undoable| shown(&undoable.earlier)).collect();
    Ok(Json(Memories { memories: kept.iter().map(shown).collect(), forgotten }))
}

fn earlier(undoable: &Undoable) -> Earlier {
    let entry = &undoable.earlier.entry;
    Earlier { text: entry.text.clone(), markdown: entry.render(), undo_until: undoable.until }
}

/// `PUT /v1/memory/{id}`
#[utoipa::path(put, path = "/v1/memory/{id}", operation_id = "correctMemory", tag = "memory", security(("key" = [])),
    params(("id" = String, Path, description = "As listed", min_length = 1)),
    request_body(content = Body, content_type = "application/json"),
    responses((status = 200, description = "The entry as it is now", body = Remembered)))]
pub(crate) async fn correct(
    State(http): State<Arc<Http>>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
    body: RequestBody,
) -> Result<Json<Remembered>, Failure> {
    let id = entry_id(&caller, id)?;
    let correction = correction(&http.read(body).await?)?;
    let kept = http.ingress.memory().correct(&id, &correction).await?.ok_or_else(no_entry)?;
    Ok(Json(remembered(&kept, &caller)))
}

/// `DELETE /v1/memory/{id}`
#[utoipa::path(delete, path = "/v1/memory/{id}", operation_id = "deleteMemory", tag = "memory", security(("key" = [])),
    params(("id" = String, Path, description = "As listed", min_length = 1)),
    responses((status = 204, description = "Forgotten for good")))]
pub(crate) async fn delete(
    State(http): State<Arc<Http>>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, Failure> {
    let id = entry_id(&caller, id)?;
    match http.ingress.memory().delete(&id).await? {
        Deleted::Now => Ok(StatusCode::NO_CONTENT),
        Deleted::Before | Deleted::Unknown => Err(no_entry().into()),
    }
}

fn remembered(kept: &Kept, caller: &Caller) -> Remembered {
    let entry = &kept.entry;
    let (user_id, chat_key) = match &entry.owner {
        Owner::User(person) => (caller.own_user_id(person).map(str::to_owned), None),
        Owner::Chat(chat) => (None, Some(chat.clone())),
    };
    let source = entry.source.as_ref();
    Remembered {
        id: kept.id().to_string(),
        number: kept.number,
        kind: entry.kind,
        scope: entry.owner.scope(),
        user_id,
        chat_key,
        text: entry.text.clone(),
        markdown: entry.render(),
        outside: entry.outside.clone(),
        earlier: None,
        source: source.map(|source| SourceView {
            chat_key: source.chat.clone(),
            from_id: source.from_id.clone(),
            to_id: source.to_id.clone(),
        }),
        session_id: source.map(|source| source.session.clone()),
        created_at: entry.created,
        updated_at: entry.updated,
    }
}

/// The id in the path, if the caller has a right to its owner's entries.
fn entry_id(caller: &Caller, id: Result<Path<String>, PathRejection>) -> Result<EntryId, Problem> {
    let id: Option<EntryId> = id.ok().and_then(|Path(id)| id.parse().ok());
    id.filter(|id| caller.may_remember(&id.owner)).ok_or_else(no_entry)
}

fn correction(body: &[u8]) -> Result<Correction, Problem> {
    let bad = |detail: &str| Problem::bad_request("bad-body", "The body is no correction", detail);
    let body: Body = serde_json::from_slice(body)
        .map_err(|_| bad("the body must be a JSON object with \"text\" or \"markdown\""))?;
    let corrected = match (body.text, body.markdown) {
        (Some(Value::String(text)), None | Some(Value::Null)) => Correction::of_text(&text),
        (None | Some(Value::Null), Some(Value::String(markdown))) => Correction::of_markdown(&markdown),
        _ => return Err(bad("give one string, as \"text\" or as \"markdown\"")),
    };
    corrected.map_err(|error: CorrectionError| bad(&error.to_string()))
}

/// 404: also where the entry is another's.
fn no_entry() -> Problem {
    Problem {
        status: StatusCode::NOT_FOUND,
        kind: "no-entry",
        title: "No such entry",
        detail: "GET /v1/memory lists the entries that there are".into(),
    }
}

/// 503: memory could not be read or written; logged here, once.
pub(crate) fn unavailable(error: &MemoryError) -> Problem {
    tracing::error!(%error, "memory does not answer");
    Problem {
        status: StatusCode::SERVICE_UNAVAILABLE,
        kind: "unavailable",
        title: "Memory does not answer",
        detail: "the store did not answer; send the same request again".into(),
    }
}
