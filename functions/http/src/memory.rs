//! What is remembered: `GET /v1/memory?userId=…` or `?chatKey=…`, `PUT` and `DELETE /v1/memory/{id}`.
//!
//! An id holds whose entry it is, so the caller's right is known before the store is asked. An entry that a caller has no
//! right to, and one that is not there, have the same answer.

use std::sync::Arc;

use annals_shared::chat_key::ChatKey;
use annals_shared::memory::{
    Correction, CorrectionError, Deleted, EntryId, EntryKind, Kept, MemoryError, Owner,
};
use annals_shared::problem::Problem;
use annals_shared::sort_key::{MessageId, Timestamp};
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::auth::Caller;
use crate::post::{MAX_USER_ID_BYTES, bad_user, body_bytes};
use crate::{Failure, Http};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OwnerQuery {
    user_id: Option<String>,
    chat_key: Option<String>,
}

/// `{text}` or `{markdown}`
#[derive(Debug, Deserialize)]
struct Body {
    text: Option<Value>,
    markdown: Option<Value>,
}

/// `{memories}`
#[derive(Debug, Serialize)]
pub(crate) struct Memories {
    memories: Vec<Remembered>,
}

/// `{id, number, type, scope, userId or chatKey, text, markdown, source?, sessionId?, createdAt, updatedAt?}`
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Remembered {
    id: String,
    number: u32,
    #[serde(rename = "type")]
    kind: EntryKind,
    scope: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chat_key: Option<ChatKey>,
    text: String,
    markdown: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<SourceView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<Timestamp>,
}

/// `{chatKey, fromId, toId}`
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SourceView {
    chat_key: ChatKey,
    from_id: MessageId,
    to_id: MessageId,
}

/// `GET /v1/memory`
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
    let memories = http.ingress.memory().list(&owner).await?;
    Ok(Json(Memories { memories: memories.iter().map(|kept| remembered(kept, &caller)).collect() }))
}

/// `PUT /v1/memory/{id}`
pub(crate) async fn correct(
    State(http): State<Arc<Http>>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Remembered>, Failure> {
    let id = entry_id(&caller, id)?;
    let correction = correction(&body_bytes(body)?)?;
    let kept = http.ingress.memory().correct(&id, &correction).await?.ok_or_else(no_entry)?;
    Ok(Json(remembered(&kept, &caller)))
}

/// `DELETE /v1/memory/{id}`
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
