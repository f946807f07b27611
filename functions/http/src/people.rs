//! One person in all chats, for admin keys: `GET` and `DELETE /v1/people/{id}`, `PUT /v1/people/{id}/links`, `GET
//! /v1/people/{id}/export`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use annals_channel::settings::DmScope;
use annals_core::chat_key::ChatKey;
use annals_core::person::canonical;
use annals_core::record::{Channel, Record};
use annals_engine::erasing::{ErasedNumbers, Person, Share, all_chats};
use annals_engine::ingress::people::{MAX_IDENTITIES, TooMany};
use annals_io::random;
use annals_runtime::problem::Problem;
use annals_store::history::directory::MAX_CHATS;
use annals_store::history::{History, HistoryError, MAX_PAGE, Page, Position};
use annals_store::memory::Memory;
use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use crate::auth::Caller;
use crate::failure::Failure;
use crate::forget::unfinished;
use crate::history::{Lines, ndjson};
use crate::memory::{Memories, Remembered};
use crate::request::{Body, JsonBody, bad_user};
use crate::schedules;
use crate::state::Http;

/// Longest time of one request. An HTTP API's gateway ends a request after 30 seconds.
const PATIENCE: Duration = Duration::from_secs(15);

/// Number of chats of the list that are read at once.
const CHATS_AT_ONCE: usize = 20;

/// Longest id of a person in a path. What is stored is shorter: the key of their chat has at most 2,048 bytes.
const MAX_ID_CHARS: usize = 2000;

/// Path parameter of `/v1/people/{id}…`.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct PersonPath {
    /// An identity: `telegram-42`, `lark-ou_ada`, `discord-80351110224678912` or the bare id, `app/ada`, `ada`
    #[param(min_length = 1, max_length = 2000, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")]
    id: String,
}

/// A caller with an admin key, and the identity that a [`PersonPath`] names.
pub(crate) struct OfPerson(Caller, String);

impl FromRequestParts<Arc<Http>> for OfPerson {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, http: &Arc<Http>) -> Result<Self, Response> {
        let caller = Caller::from_request_parts(parts, http).await?;
        caller.require_admin("see and change people").map_err(IntoResponse::into_response)?;
        let path = Path::<PersonPath>::from_request_parts(parts, http).await;
        let invalid = || bad_user("the path is not percent-encoded UTF-8".into()).into_response();
        let Path(PersonPath { id }) = path.map_err(|_| invalid())?;
        if id.chars().count() > MAX_ID_CHARS {
            let detail = format!("an id has at most {MAX_ID_CHARS} characters");
            return Err(bad_user(detail).into_response());
        }
        let identity = http.known(&id).map_err(IntoResponse::into_response)?;
        Ok(Self(caller, identity))
    }
}

/// `{id, links, chats, memories}`
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Person)]
pub(crate) struct PersonView {
    /// The Person: the identity whose direct chat is that of all.
    id: String,
    /// The other identities.
    links: Vec<String>,
    /// Their direct chats and windows that have a history, of earlier links and scopes too; then, among the 100 chats that
    /// were last spoken in, the groups, conversations and rooms in whose newest 200 messages they spoke.
    chats: Vec<PersonChat>,
    /// The memory entries.
    memories: Vec<Remembered>,
}

/// `{chatKey, channels, identity}`
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PersonChat {
    chat_key: ChatKey,
    /// The identity that it belongs to, or that spoke there last.
    identity: String,
    /// The channels of its newest 200 messages; of a group those of the person's.
    channels: Vec<Channel>,
}

/// `{links}`
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewLinks {
    /// The identities to link to the person, and no others: at most 15.
    #[schema(max_items = 15)]
    links: Vec<String>,
}

impl JsonBody for NewLinks {
    const SHAPE: &str = "{links}, a list of identities";
}

/// `{id, removed: {chats, records, memories, archived}}`
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Erased {
    id: String,
    removed: ErasedNumbers,
}

/// `GET /v1/people/{id}`
#[utoipa::path(get, path = "/v1/people/{id}", operation_id = "getPerson", tag = "people", params(PersonPath),
    responses((status = 200, description = "The person's identities, chats and memory", body = PersonView)))]
pub(crate) async fn one(
    State(http): State<Arc<Http>>,
    OfPerson(caller, identity): OfPerson,
) -> Result<Json<PersonView>, Failure> {
    Ok(Json(http.person_view(&caller, &identity).await?))
}

/// `PUT /v1/people/{id}/links`: links these identities to the person, and separates all others.
#[utoipa::path(put, path = "/v1/people/{id}/links", operation_id = "linkPerson", tag = "people", params(PersonPath),
    request_body = NewLinks,
    responses((status = 200, description = "The person as linked now", body = PersonView)))]
pub(crate) async fn link(
    State(http): State<Arc<Http>>,
    OfPerson(caller, identity): OfPerson,
    Body(NewLinks { links }): Body<NewLinks>,
) -> Result<Json<PersonView>, Failure> {
    let (ingress, people) = (&http.ingress, http.ingress.people());
    if ingress.dm_scope() == DmScope::Chat {
        return Err(Problem::links_off().into());
    }
    let person = people.person_of(&identity).await?;
    let mut wanted = BTreeSet::new();
    for link in links {
        wanted.insert(http.known(&link)?);
    }
    // A person may be named by one of their identities, which stays theirs.
    if !wanted.is_empty() {
        wanted.insert(identity);
    }
    wanted.remove(&person);
    if wanted.len() >= MAX_IDENTITIES {
        return Err(bad_links(TooMany.to_string()).into());
    }
    let (now, by) = (http.clock.now(), format!("api-{}", random::hex::<8>()));
    let is_linked = |linked: &[String], identity: &String| linked.contains(identity);
    let before = people.linked_to(&person).await?;
    for (number, identity) in wanted.iter().filter(|identity| !is_linked(&before, identity)).enumerate() {
        let id = format!("{by}-{number}");
        let other = people.person_of(identity).await?;
        if other != *identity {
            let own = std::slice::from_ref(identity);
            ingress.separate(own, &other, (&format!("{id}-from"), now), &by, None).await?;
        }
        ingress.link(&person, identity, &id, now).await?.map_err(|error| bad_links(error.to_string()))?;
    }
    let others: Vec<String> =
        people.linked_to(&person).await?.into_iter().filter(|linked| !wanted.contains(linked)).collect();
    ingress.separate(&others, &person, (&by, now), &by, None).await?;
    Ok(Json(http.person_view(&caller, &person).await?))
}

/// `GET /v1/people/{id}/export`: streams everything of the person, one JSON object a line: `{"type": "person", …}`, then
/// `{"type": "memory", …}` for each entry, then of each chat `{"type": "schedule", "chatKey": …, "schedule": …}` and
/// `{"type": "message", "message": …}`. Readers skip empty lines.
#[utoipa::path(get, path = "/v1/people/{id}/export", operation_id = "exportPerson", tag = "people",
    params(PersonPath),
    responses((status = 200, description = "Everything of the person, one JSON object a line", body = String,
        content_type = "application/x-ndjson")))]
pub(crate) async fn export(
    State(http): State<Arc<Http>>,
    OfPerson(_, identity): OfPerson,
) -> Result<Response, Failure> {
    let history = http.ingress.history().clone();
    let person = Person::of(http.ingress.people(), &identity).await?;
    let memory = Memory::beside(&history);
    let others: Vec<&String> = person.identities.iter().filter(|identity| **identity != person.id).collect();
    let mut first = json!({"type": "person", "id": person.id, "links": others}).to_string() + "\n";
    for identity in &person.identities {
        for owner in http.ingress.agents().owners(identity) {
            for kept in memory.list(&owner).await? {
                let (id, markdown) = (kept.id().to_string(), kept.entry.render());
                first += &(json!({"type": "memory", "id": id, "markdown": markdown}).to_string() + "\n");
            }
        }
    }
    Ok(ndjson(|mut lines| async move {
        lines.send(first).await;
        // Listed before the first is read, since that takes minutes, in which a chat may move to a part of the list that was
        // read before.
        for chat in all_chats(&history).await? {
            send_chat(&history, &person, &chat, &mut lines).await?;
        }
        Ok(())
    }))
}

/// `DELETE /v1/people/{id}`: erases everything of the person; in groups and other people's conversations their own
/// messages, archived or not.
#[utoipa::path(delete, path = "/v1/people/{id}", operation_id = "erasePerson", tag = "people", params(PersonPath),
    responses((status = 200, description = "The person is erased; the numbers of deleted objects", body = Erased)))]
pub(crate) async fn delete(
    State(http): State<Arc<Http>>,
    OfPerson(_, identity): OfPerson,
) -> Result<Json<Erased>, Failure> {
    let ends = http.clock.now().plus(PATIENCE);
    let person = Person::of(http.ingress.people(), &identity).await?;
    let mut forgotten = Vec::new();
    let erased = person.erase(http.ingress.history(), http.ingress.agents(), ends, &mut forgotten).await;
    http.forget_elsewhere(forgotten).await?;
    Ok(Json(Erased { id: person.id, removed: erased.map_err(unfinished)? }))
}

impl Http {
    /// Returns the identity that `id` names.
    pub(crate) fn known(&self, id: &str) -> Result<String, Problem> {
        let identity = canonical(id);
        let chat = ChatKey::direct(self.ingress.agents().default_id(), identity);
        chat.map(|_| identity.to_owned()).map_err(|error| bad_user(error.to_string()))
    }

    async fn person_view(&self, caller: &Caller, identity: &str) -> Result<PersonView, Failure> {
        let (history, people) = (self.ingress.history(), self.ingress.people());
        let person = Person::of(people, identity).await?;
        let mut seen = Vec::new();
        let mut known = BTreeSet::new();
        for (identity, chat) in person.direct_chats(people, self.ingress.agents()).await? {
            known.insert(chat.clone());
            seen.push(seen_in(history, &person, Some(identity), chat));
        }
        let listed = history.chats(None, MAX_CHATS).await.map_err(Failure::unreadable)?.chats;
        for listed in listed {
            if !known.contains(&listed.chat) {
                seen.push(seen_in(history, &person, None, listed.chat));
            }
        }
        let seen: Vec<Option<PersonChat>> = stream::iter(seen).buffered(CHATS_AT_ONCE).try_collect().await?;
        let mut memories = Vec::new();
        for identity in &person.identities {
            for owner in self.ingress.agents().owners(identity) {
                memories.extend(Memories::of(self, &owner, caller).await?.memories);
            }
        }
        let chats = seen.into_iter().flatten().collect();
        let Person { id, identities } = person;
        let links = identities.into_iter().filter(|identity| *identity != id).collect();
        Ok(PersonView { id, links, chats, memories })
    }
}

/// Returns what the newest page of a chat shows of the person; `None` if nothing. All of it is theirs if the chat belongs
/// to `owner`.
async fn seen_in(
    history: &History,
    person: &Person,
    owner: Option<String>,
    chat_key: ChatKey,
) -> Result<Option<PersonChat>, Failure> {
    let records =
        history.page(&chat_key, &Position::Newest, MAX_PAGE).await.map_err(Failure::unreadable)?.records;
    let theirs: Vec<&Record> =
        records.iter().filter(|record| owner.is_some() || person.wrote(record).is_some()).collect();
    let Some(last) = theirs.last() else { return Ok(None) };
    let spoke = person.wrote(last).map(str::to_owned);
    let Some(identity) = owner.or(spoke) else { return Ok(None) };
    let channels: BTreeSet<Channel> = theirs.iter().map(|record| record.channel).collect();
    Ok(Some(PersonChat { chat_key, identity, channels: channels.into_iter().collect() }))
}

/// Sends the person's part of `chat`, oldest first. A page without any is an empty line, since callers and proxies give up a
/// connection that is silent.
async fn send_chat(
    history: &History,
    person: &Person,
    chat: &ChatKey,
    lines: &mut Lines,
) -> Result<(), HistoryError> {
    let mut page = String::new();
    for stored in history.schedules(chat).await? {
        if person.is_told(&stored) {
            let schedule = schedules::Listed::from(stored);
            page += &(json!({"type": "schedule", "chatKey": chat, "schedule": schedule}).to_string() + "\n");
        }
    }
    let share = if person.may_own(chat) { person.share_of(history, chat).await? } else { Share::Own };
    let mut next = (share != Share::Nothing).then_some(Position::Oldest);
    loop {
        if let Some(position) = next.take() {
            let Page { records, after, .. } = history.page(chat, &position, MAX_PAGE).await?;
            for record in records {
                if share == Share::Whole || person.concerns(&record) {
                    page += &(json!({"type": "message", "message": record.listed()}).to_string() + "\n");
                }
            }
            next = after.map(Position::After);
        }
        lines.send(if page.is_empty() { "\n".to_owned() } else { std::mem::take(&mut page) }).await;
        if next.is_none() {
            return Ok(());
        }
    }
}

fn bad_links(detail: String) -> Problem {
    Problem::bad_request("bad-links", "The links cannot be set", detail)
}
