//! Lists, corrects and deletes memory entries: `GET /v1/memory?userId=…` or `?chatKey=…`, `PUT` and `DELETE
//! /v1/memory/{id}`.
//!
//! An id contains the owner of its entry, so the caller's right is checked before the store is read. An entry that the caller
//! has no right to gets the same answer as one that does not exist.

use std::sync::Arc;

use annals_channel::settings::DmScope;
use annals_core::chat_key::ChatKey;
use annals_core::memory::validity::validities;
use annals_core::memory::{
    Correction, CorrectionError, EarlierForm, EntryId, EntryIdError, EntryKind, Owner, StoredEntry, Validity,
};
use annals_core::sort_key::{MessageId, Timestamp};
use annals_runtime::problem::Problem;
use annals_store::memory::{Deleted, Memory, Overview, Pending, Undoable};
use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::auth::Caller;
use crate::failure::{Failure, bad_cursor};
use crate::request::{
    Body, JsonBody, ListedPath, MAX_USER_ID_BYTES, Query, QueryParameters, bad_body, bad_user,
};
use crate::state::Http;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct OwnerQuery {
    /// The person who owns the entries; or `chatKey`, and not both.
    #[param(min_length = 1)]
    user_id: Option<String>,
    /// The chat that owns the entries: a conversation id, at most 512 bytes, or with an admin key a whole ChatKey.
    #[param(min_length = 1, max_length = 2048)]
    chat_key: Option<String>,
    /// With `userId`: the agent whose memory of the person it is; by default that of `AGENT_ID`.
    agent: Option<String>,
    /// `pending`, with an admin key and instead of an owner: the entries of all owners that wait for approval.
    state: Option<ListedState>,
    /// With `state`: the `after` of the page before.
    after: Option<String>,
}

/// State by which entries of all owners are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ListedState {
    /// They wait for approval.
    Pending,
}

impl QueryParameters for OwnerQuery {
    fn invalid() -> Problem {
        let detail = "give the owner of the entries as ?userId= or as ?chatKey=, or ?state=pending with an admin key; ?agent= is \
                      one of AGENTS";
        Problem::bad_request("bad-owner", "The query names no owner", detail)
    }
}

/// Caller of a request, and the entry that its [`ListedPath`] names, to which the caller has a right.
pub(crate) struct OwnEntry {
    caller: Caller,
    id: EntryId,
}

impl FromRequestParts<Arc<Http>> for OwnEntry {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, http: &Arc<Http>) -> Result<Self, Response> {
        let caller = Caller::from_request_parts(parts, http).await?;
        let path = Path::<ListedPath>::from_request_parts(parts, http).await;
        let id: Option<EntryId> = path.ok().and_then(|Path(path)| path.id.parse().ok());
        match id.filter(|id| caller.may_remember(&id.owner)) {
            Some(id) => Ok(Self { caller, id }),
            None => Err(no_entry().into_response()),
        }
    }
}

/// `{text}` or `{markdown}`, or an entry as it is listed
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = Correction)]
pub(crate) struct NewContent {
    /// The new text of the entry.
    text: Option<String>,
    /// Or the whole new entry: Markdown with front matter. Of a listed entry, which has both, the one that was changed counts.
    markdown: Option<String>,
}

impl JsonBody for NewContent {
    const SHAPE: &str = "{text} or {markdown}";
}

impl NewContent {
    /// Returns the correction of the entry `id`. Reads the entry if both texts are given.
    async fn correction(self, memory: &Memory, id: &EntryId) -> Result<Correction, Failure> {
        let corrected = match (self.text, self.markdown) {
            (Some(text), None) => Correction::of_text(&text),
            (None, Some(markdown)) => Correction::of_markdown(&markdown),
            (Some(text), Some(markdown)) => {
                // One that the agent's tool deleted is restored with its text.
                let stored = memory.get(id).await?.map(|stored| (stored.entry.render(), stored.entry.text));
                match stored {
                    None => Correction::of_text(&text),
                    Some((same, _)) if same == markdown => Correction::of_text(&text),
                    Some((_, same)) if same == text => Correction::of_markdown(&markdown),
                    Some(_) => {
                        let detail = "both \"text\" and \"markdown\" were changed: give the new one alone";
                        return Err(bad_body(detail.into()).into());
                    }
                }
            }
            (None, None) => {
                return Err(bad_body("give the new text as \"text\" or as \"markdown\"".into()).into());
            }
        };
        corrected.map_err(|error: CorrectionError| bad_body(error.to_string()).into())
    }
}

/// `{memories, forgotten?, after?}`
#[derive(Debug, Serialize, ToSchema)]
#[allow(clippy::struct_field_names, reason = "the names are the route's")]
pub(crate) struct Memories {
    pub(crate) memories: Vec<Remembered>,
    /// Entries that the agent's tool deleted in the last seven days. `PUT` of an entry's `earlier.markdown` restores it,
    /// `DELETE` deletes it for good.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    forgotten: Vec<Remembered>,
    /// Start of the next page of `state=pending`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    after: Option<String>,
}

/// `{id, number, type, state, scope, userId or chatKey, text, markdown, outside?, earlier?, earlierForms?, validFrom, validTo?,
/// supersedes?, supersededBy?, source?, sessionId?, createdAt, updatedAt?}`
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Memory)]
pub(crate) struct Remembered {
    id: String,
    number: u32,
    #[serde(rename = "type")]
    kind: EntryKind,
    state: EntryState,
    /// `user` for one of a person, `chat` for one of a group.
    scope: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    user_id: Option<String>,
    /// The agent, if it is not the default one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    chat_key: Option<ChatKey>,
    text: String,
    markdown: String,
    /// MCP tools, as `<server>/<tool>`, whose results the model had read when it saved or changed the entry.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outside: Vec<String>,
    /// The entry before the agent's tool replaced or deleted it; `PUT` of its `markdown` restores it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    earlier: Option<Earlier>,
    /// Texts before corrections, at most three, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    earlier_forms: Vec<EarlierFormView>,
    /// Time at which it was said.
    valid_from: Timestamp,
    /// Time at which a newer entry superseded it, or at which its term ends; a time to come is possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    valid_to: Option<Timestamp>,
    /// Numbers of the entries that it superseded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    supersedes: Vec<u32>,
    /// Number of the entry that superseded it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    superseded_by: Option<u32>,
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

/// State of an entry.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = MemoryState)]
enum EntryState {
    /// It is recalled.
    Valid,
    /// It is not recalled any more.
    Past,
    /// It is recalled once an administrator has approved it.
    Pending,
}

/// `{type, text, until}`
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EarlierMemoryForm)]
struct EarlierFormView {
    #[serde(rename = "type")]
    kind: EntryKind,
    text: String,
    /// Time of the correction.
    until: Timestamp,
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
#[utoipa::path(get, path = "/v1/memory", operation_id = "listMemory", tag = "memory", params(OwnerQuery),
    responses((status = 200, description = "The memory of a person, or of a chat", body = Memories)))]
pub(crate) async fn list(
    State(http): State<Arc<Http>>,
    caller: Caller,
    Query(query): Query<OwnerQuery>,
) -> Result<Json<Memories>, Failure> {
    if query.state.is_some() {
        if query.user_id.is_some() || query.chat_key.is_some() || query.agent.is_some() {
            return Err(OwnerQuery::invalid().into());
        }
        let after: Option<EntryId> = match query.after {
            Some(after) => Some(after.parse().map_err(|error: EntryIdError| bad_cursor(error.to_string()))?),
            None => None,
        };
        caller.require_admin("list what waits for approval")?;
        return Ok(Json(Memories::pending(&http, after.as_ref(), &caller).await?));
    }
    let owner = match (query.user_id, query.chat_key) {
        (Some(user_id), None) if user_id.is_empty() => {
            return Err(bad_user("must not be empty".into()).into());
        }
        (Some(user_id), None) if user_id.len() > MAX_USER_ID_BYTES && !caller.admin => {
            let detail = format!("has {} bytes; at most {MAX_USER_ID_BYTES} are allowed", user_id.len());
            return Err(bad_user(detail).into());
        }
        (Some(user_id), None) => {
            let identity = caller.crossing_user_id(&user_id);
            let person = match http.ingress.dm_scope() {
                DmScope::User => http.ingress.people().person_of(&identity).await?,
                DmScope::Chat => identity,
            };
            let agents = http.ingress.agents();
            let agent = query.agent.as_deref().unwrap_or(agents.default_id());
            if !agents.ids().contains(&agent) {
                return Err(OwnerQuery::invalid().into());
            }
            Owner::of_person(agents.profiled(agent), person)
        }
        (None, Some(chat)) if query.agent.is_none() => {
            Owner::Chat(http.ingress.history().first_name(&caller.chat(&chat)?).await?)
        }
        _ => return Err(OwnerQuery::invalid().into()),
    };
    Ok(Json(Memories::of(&http, &owner, &caller).await?))
}

impl Memories {
    /// Reads the entries of `owner`.
    pub(crate) async fn of(http: &Http, owner: &Owner, caller: &Caller) -> Result<Self, Failure> {
        let Overview { kept, undoable, .. } = http.ingress.memory().overview(owner).await?;
        let now = http.ingress.memory().now();
        let shown = |kept: &StoredEntry, validity: Validity| {
            let of_it = undoable.iter().find(|undoable| {
                let of_number = undoable.superseded_by.unwrap_or(undoable.earlier.number);
                of_number == kept.number
            });
            Remembered { earlier: of_it.map(earlier), ..remembered(kept, validity, now, caller) }
        };
        let forgotten = undoable.iter().filter(|undoable| undoable.is_forgotten());
        let forgotten = forgotten.map(|undoable| shown(&undoable.earlier, Validity::default())).collect();
        let memories = kept.iter().zip(validities(&kept)).map(|(kept, validity)| shown(kept, validity));
        Ok(Self { memories: memories.collect(), forgotten, after: None })
    }

    /// Reads a page of the entries of all owners that wait for approval.
    async fn pending(http: &Http, after: Option<&EntryId>, caller: &Caller) -> Result<Self, Failure> {
        let memory = http.ingress.memory();
        let Pending { entries, after } = memory.pending(after).await?;
        let shown = |stored| remembered(stored, Validity::default(), memory.now(), caller);
        let after = after.map(|after| after.to_string());
        Ok(Self { memories: entries.iter().map(shown).collect(), forgotten: Vec::new(), after })
    }
}

fn earlier(undoable: &Undoable) -> Earlier {
    let entry = &undoable.earlier.entry;
    Earlier { text: entry.text.clone(), markdown: entry.render(), undo_until: undoable.until }
}

/// `PUT /v1/memory/{id}`
#[utoipa::path(put, path = "/v1/memory/{id}", operation_id = "correctMemory", tag = "memory", params(ListedPath),
    request_body = NewContent,
    responses((status = 200, description = "The entry as it is now", body = Remembered)))]
pub(crate) async fn correct(
    State(http): State<Arc<Http>>,
    OwnEntry { caller, id }: OwnEntry,
    Body(content): Body<NewContent>,
) -> Result<Json<Remembered>, Failure> {
    let memory = http.ingress.memory();
    let correction = content.correction(memory, &id).await?;
    let kept = memory.correct(&id, &correction).await?.ok_or_else(no_entry)?;
    Ok(Json(Remembered::of(&http, &kept, &caller).await?))
}

/// `POST /v1/memory/{id}/approve`
#[utoipa::path(post, path = "/v1/memory/{id}/approve", operation_id = "approveMemory", tag = "memory",
    params(ListedPath),
    responses((status = 200, description = "The entry, which is recalled from now on", body = Remembered)))]
pub(crate) async fn approve(
    State(http): State<Arc<Http>>,
    OwnEntry { caller, id }: OwnEntry,
) -> Result<Json<Remembered>, Failure> {
    caller.require_admin("approve an entry")?;
    let kept = http.ingress.memory().approve(&id).await?.ok_or_else(no_entry)?;
    Ok(Json(Remembered::of(&http, &kept, &caller).await?))
}

/// `DELETE /v1/memory/{id}`
#[utoipa::path(delete, path = "/v1/memory/{id}", operation_id = "deleteMemory", tag = "memory", params(ListedPath),
    responses((status = 204, description = "Deleted for good")))]
pub(crate) async fn delete(
    State(http): State<Arc<Http>>,
    OwnEntry { id, .. }: OwnEntry,
) -> Result<StatusCode, Failure> {
    match http.ingress.memory().delete(&id).await? {
        Deleted::Now => Ok(StatusCode::NO_CONTENT),
        Deleted::Before | Deleted::Unknown => Err(no_entry().into()),
    }
}

impl Remembered {
    /// Reads the owner's other entries for the validity of `kept`.
    async fn of(http: &Http, kept: &StoredEntry, caller: &Caller) -> Result<Self, Failure> {
        let memory = http.ingress.memory();
        let all = memory.list(&kept.entry.owner).await?;
        let of_it = all.iter().zip(validities(&all)).find(|(stored, _)| stored.number == kept.number);
        let validity = of_it.map(|(_, validity)| validity).unwrap_or_default();
        Ok(remembered(kept, validity, memory.now(), caller))
    }
}

fn remembered(kept: &StoredEntry, validity: Validity, now: Timestamp, caller: &Caller) -> Remembered {
    let entry = &kept.entry;
    let state = if entry.is_pending {
        EntryState::Pending
    } else if validity.is_past(now) {
        EntryState::Past
    } else {
        EntryState::Valid
    };
    let form =
        |form: &EarlierForm| EarlierFormView { kind: form.kind, text: form.text.clone(), until: form.until };
    let (user_id, chat_key) = match &entry.owner {
        Owner::User(person) | Owner::UserOf { person, .. } => {
            (caller.own_user_id(person).map(str::to_owned), None)
        }
        Owner::Chat(chat) => (None, Some(chat.clone())),
    };
    let source = entry.source.as_ref();
    Remembered {
        id: kept.id().to_string(),
        number: kept.number,
        kind: entry.kind,
        state,
        scope: entry.owner.scope(),
        user_id,
        agent: entry.owner.agent().map(str::to_owned),
        chat_key,
        text: entry.text.clone(),
        markdown: entry.render(),
        outside: entry.outside.clone(),
        earlier: None,
        earlier_forms: entry.earlier_forms.iter().map(form).collect(),
        valid_from: entry.valid_from(),
        valid_to: validity.to,
        supersedes: entry.supersedes.clone(),
        superseded_by: validity.superseded_by,
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

/// Returns a 404: the entry does not exist, or belongs to somebody else.
fn no_entry() -> Problem {
    Problem::no_such("no-entry", "No such entry", "GET /v1/memory lists the entries")
}
