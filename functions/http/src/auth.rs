//! API keys, and the chats that a caller may name: [`Caller`].

use std::sync::Arc;
use std::time::Duration;

use annals_core::agents::Circumstances;
use annals_core::chat_key::{ChatKey, KeyError, Place};
use annals_core::language::Language;
use annals_core::memory::Owner;
use annals_core::message::UiMessage;
use annals_core::person::canonical;
use annals_core::record::{Channel, Record};
use annals_core::secret::is_same;
use annals_runtime::problem::Problem;
use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::HeaderValue;
use axum::http::header::{ACCEPT_LANGUAGE, AUTHORIZATION, RETRY_AFTER};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use secrecy::ExposeSecret;
use serde::Serialize;
use utoipa::ToSchema;

use crate::settings::ApiKey;
use crate::state::Http;
use crate::wrong_keys::source;

/// Longest conversation id of a caller's own, in bytes.
const MAX_CHAT_ID_BYTES: usize = 512;

/// Caller of a request, by the key that it carries as `Authorization: Bearer <secret>`.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Name of the key.
    pub name: String,
    /// True for an admin key, which may read every chat.
    pub admin: bool,
    /// Tag of the language that the request asks for, if the bot speaks it.
    pub language: Option<String>,
}

impl Caller {
    /// Returns the chat that this caller names by `chat_id`: a conversation of its key, or any chat if the key is an
    /// admin's and the id is a whole ChatKey.
    pub fn chat(&self, chat_id: &str) -> Result<ChatKey, Problem> {
        self.named(chat_id, ChatKey::http(&self.name, chat_id), |_| true)
    }

    /// Returns the room that this caller names by `room_id`: one of its key, or any room if the key is an admin's and the id
    /// is a whole ChatKey.
    pub fn room(&self, room_id: &str) -> Result<ChatKey, Problem> {
        let own = Place::WebRoom { key_name: self.name.clone(), room_id: room_id.to_owned() };
        self.named(room_id, ChatKey::new(own), |chat| chat.channel() == Some(Channel::Web))
    }

    fn named(
        &self,
        id: &str,
        own: Result<ChatKey, KeyError>,
        may_be_any: impl Fn(&ChatKey) -> bool,
    ) -> Result<ChatKey, Problem> {
        if self.admin
            && let Ok(chat) = id.parse::<ChatKey>()
            && may_be_any(&chat)
        {
            return Ok(chat);
        }
        if id.len() > MAX_CHAT_ID_BYTES {
            let detail = format!("has {} bytes; at most {MAX_CHAT_ID_BYTES} are allowed", id.len());
            return Err(bad_chat_id(detail));
        }
        own.map_err(|error| bad_chat_id(error.to_string()))
    }

    /// Refuses a key that is not an admin's; `action` is an infinitive.
    pub(crate) fn require_admin(&self, action: &str) -> Result<(), Problem> {
        if self.admin { Ok(()) } else { Err(Problem::forbidden(format!("only an admin key may {action}"))) }
    }

    /// Returns `record` as this caller may read it: the cause of a failed turn is for admin keys.
    pub(crate) fn listed(&self, record: &Record) -> UiMessage {
        if self.admin { record.listed_for_admins() } else { record.listed() }
    }

    /// Returns the name of `user_id` across channels: for an admin key the identity that it names, else
    /// `<key name>/<user_id>`.
    pub fn crossing_user_id(&self, user_id: &str) -> String {
        if self.admin { canonical(user_id).to_owned() } else { format!("{}/{user_id}", self.name) }
    }

    /// Returns the `userId` of `person`, the reverse of [`Caller::crossing_user_id`], or `None` if the person belongs to
    /// another key or to none.
    pub fn own_user_id<'a>(&self, person: &'a str) -> Option<&'a str> {
        if self.admin { Some(person) } else { person.strip_prefix(self.name.as_str())?.strip_prefix('/') }
    }

    /// Returns what the rules of `AGENTS` look at for a message that this caller sends through `channel`. The terminal's key is
    /// not one of `HTTP_API_KEYS`.
    pub fn circumstances(&self, channel: Channel) -> Circumstances<'_> {
        let key = (channel != Channel::Terminal).then_some(self.name.as_str());
        Circumstances { channel: Some(channel), key, ..Circumstances::default() }
    }

    /// Returns true if this caller may read and change the memory of `owner`: of people and conversations of its key, or of
    /// all with an admin key.
    pub fn may_remember(&self, owner: &Owner) -> bool {
        self.admin
            || match owner {
                Owner::User(person) | Owner::UserOf { person, .. } => self.own_user_id(person).is_some(),
                Owner::Chat(chat) => chat.key_name() == Some(&self.name),
            }
    }
}

/// `{name, admin}`
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Key {
    /// Part of the ChatKeys of its conversations and rooms.
    name: String,
    /// True if the key may read every chat.
    admin: bool,
}

/// `GET /v1/key`
#[utoipa::path(get, path = "/v1/key", operation_id = "getKey", tag = "about",
    responses((status = 200, description = "The key that the request carries", body = Key)))]
pub(crate) async fn key(caller: Caller) -> Json<Key> {
    let Caller { name, admin, .. } = caller;
    Json(Key { name, admin })
}

impl FromRequestParts<Arc<Http>> for Caller {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, http: &Arc<Http>) -> Result<Self, Response> {
        let header = parts.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let unknown = || Problem::unauthorized("send a known API key as 'Authorization: Bearer <key>'");
        let Some(mut caller) = caller(header, &http.config.keys) else {
            if header.is_some()
                && let Some(source) = source(&parts.extensions, &parts.headers)
                && let Err(wait) = http.limits.wrong_keys.count(source, http.clock.now())
            {
                return Err(later(wait, Problem::too_many_failures()));
            }
            return Err(unknown().into_response());
        };
        let taken = http.limits.take(&caller.name, http.clock.now());
        taken.map_err(|wait| later(wait, Problem::too_many_requests()))?;
        let asked_for = parts.headers.get(ACCEPT_LANGUAGE).and_then(|header| header.to_str().ok());
        caller.language = asked_for.and_then(Language::most_wanted).map(str::to_owned);
        Ok(caller)
    }
}

/// Returns `problem` with a `Retry-After` of `wait`.
fn later(wait: Duration, problem: Problem) -> Response {
    // Rounded up to whole seconds.
    let secs = wait.as_millis().div_ceil(1000).max(1);
    ([(RETRY_AFTER, secs.to_string())], problem).into_response()
}

/// Returns the caller whose key is in `header`, an `Authorization`. Compares it with every key.
pub fn caller(header: Option<&[u8]>, keys: &[ApiKey]) -> Option<Caller> {
    let (scheme, given) = header?.split_at_checked(7)?;
    if !scheme.eq_ignore_ascii_case(b"bearer ") {
        return None;
    }
    let mut found = None;
    for key in keys {
        if is_same(given, key.secret.expose_secret().as_bytes()) {
            found = Some(Caller { name: key.name.clone(), admin: key.admin, language: None });
        }
    }
    found
}

/// Returns a 400: the id of a chat is invalid.
pub(crate) fn bad_chat_id(detail: impl Into<String>) -> Problem {
    Problem::bad_request("bad-chat-id", "The chat id is invalid", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_may_use_the_memory_of_its_own_people_and_conversations() {
        let app = Caller { name: "app".into(), admin: false, language: None };
        let ops = Caller { name: "ops".into(), admin: true, language: None };
        let chat = |key: &str| Owner::Chat(key.parse().unwrap());
        let user = |person: &str| Owner::User(person.into());
        for own in [user("app/ada"), user("app/a/b"), chat("http:chat:app:c1"), chat("web:room:app:r1")] {
            assert!(app.may_remember(&own) && ops.may_remember(&own), "{own}");
        }
        for other in [
            user("ada"),
            user("app"),
            user("app2/ada"),
            user("telegram-42"),
            chat("http:chat:app2:c1"),
            chat("telegram:chat:42"),
            chat("agent:annals:user:app%3Aada"),
        ] {
            assert!(!app.may_remember(&other) && ops.may_remember(&other), "{other}");
        }
        assert_eq!(app.own_user_id(&app.crossing_user_id("a/b")), Some("a/b"));
        assert_eq!(ops.own_user_id("telegram-42"), Some("telegram-42"));
        // A person of Discord has one identity, under either name.
        assert_eq!((ops.crossing_user_id("discord-7"), ops.crossing_user_id("7")), ("7".into(), "7".into()));
    }
}
