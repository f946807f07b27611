//! Typed parts of a request: extractors that read the very types that `openapi.json` describes, and reject with a
//! [`Problem`].
//!
//! A problem never quotes the request: what serde says of an invalid value may hold a message.

use std::sync::Arc;

use annals_core::chat_key::ChatKey;
use annals_core::command::{Command, addressee};
use annals_core::draft::{Draft, Origin};
use annals_core::language::Language;
use annals_core::message::{Part, Role, UiMessage};
use annals_core::metadata::Metadata;
use annals_core::record::Channel;
use annals_core::sort_key::{MessageId, Timestamp};
use annals_runtime::problem::Problem;
use annals_runtime::telemetry;
use axum::extract::{self, FromRequest, FromRequestParts, Path, Request};
use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Caller, bad_chat_id};
use crate::state::Http;

/// Longest request body, and of `POST /api/chat` the longest message.
pub(crate) const MAX_BODY_BYTES: usize = 1024 * 1024;
pub(crate) const MAX_USER_ID_BYTES: usize = 512;

/// Path parameters of `/v1/chats/{chatId}…`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Path)]
pub(crate) struct ChatPath {
    /// A conversation id of the caller's own, at most 512 bytes, or with an admin key a whole ChatKey
    #[param(min_length = 1, max_length = 2048, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")]
    chat_id: String,
}

/// Path parameters of `/api/chat/{id}…`.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct RoomPath {
    /// A room of the key's own, at most 512 bytes, or with an admin key a whole ChatKey of one
    #[param(min_length = 1, max_length = 2048, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")]
    id: String,
}

/// Path parameter that names something in a list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ListedPath {
    /// As listed
    #[param(min_length = 1)]
    pub(crate) id: String,
}

/// Caller of a request, and the chat that its [`ChatPath`] names.
pub(crate) struct InChat {
    pub(crate) caller: Caller,
    pub(crate) chat: ChatKey,
}

/// Caller of a request, and the room that its [`RoomPath`] names.
pub(crate) struct InRoom(pub(crate) InChat);

impl FromRequestParts<Arc<Http>> for InChat {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, http: &Arc<Http>) -> Result<Self, Response> {
        in_chat(parts, http, |caller, path: &ChatPath| caller.chat(&path.chat_id)).await
    }
}

impl FromRequestParts<Arc<Http>> for InRoom {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, http: &Arc<Http>) -> Result<Self, Response> {
        in_chat(parts, http, |caller, path: &RoomPath| caller.room(&path.id)).await.map(Self)
    }
}

async fn in_chat<P: DeserializeOwned + Send>(
    parts: &mut Parts,
    http: &Arc<Http>,
    named: fn(&Caller, &P) -> Result<ChatKey, Problem>,
) -> Result<InChat, Response> {
    let caller = Caller::from_request_parts(parts, http).await?;
    let chat = match Path::from_request_parts(parts, http).await {
        Ok(Path(path)) => named(&caller, &path),
        Err(_) => Err(bad_chat_id("the path is not percent-encoded UTF-8")),
    };
    let chat = chat.map_err(IntoResponse::into_response)?;
    telemetry::about(&chat);
    Ok(InChat { caller, chat })
}

/// Returns true if the request accepts answers of this media type by name.
pub(crate) fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|range| range.split(';').next().unwrap_or_default().trim() == media_type)
}

/// Parameters of a query.
pub(crate) trait QueryParameters: DeserializeOwned {
    /// Returns the problem of a query that cannot be read.
    fn invalid() -> Problem {
        Problem::bad_request("bad-query", "The query is invalid", "see the route in /openapi.json")
    }
}

/// The query of a request.
pub(crate) struct Query<Q>(pub(crate) Q);

impl<Q: QueryParameters> FromRequestParts<Arc<Http>> for Query<Q> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Http>) -> Result<Self, Problem> {
        let query = extract::Query::try_from_uri(&parts.uri);
        query.map(|extract::Query(query)| Self(query)).map_err(|_| Q::invalid())
    }
}

/// A request body in JSON.
pub(crate) trait JsonBody: DeserializeOwned {
    /// Its shape, for the detail of a problem.
    const SHAPE: &'static str;

    /// Returns the value of an empty body, if the route takes one.
    fn empty() -> Option<Self> {
        None
    }

    /// Returns the problem of an invalid value of `field`, if it is not that of an invalid body.
    fn invalid(field: &str) -> Option<Problem> {
        invalid_field(field)
    }
}

/// Returns the problem of an invalid value of a `field` that many bodies have.
pub(crate) fn invalid_field(field: &str) -> Option<Problem> {
    match field {
        "userId" => Some(bad_user(UserId::RULE.to_owned())),
        "messageId" => Some(bad_message_id(NewId::RULE.to_owned())),
        "ts" => Some(invalid_ts()),
        _ => None,
    }
}

/// The request body of at most [`MAX_BODY_BYTES`].
pub(crate) struct Body<T>(pub(crate) T);

impl<T: JsonBody> FromRequest<Arc<Http>> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, http: &Arc<Http>) -> Result<Self, Problem> {
        let read = http.limits.bodies.read(request.into_body(), MAX_BODY_BYTES, &http.clock).await;
        let body = read.map_err(|error| error.problem("a request may have at most 1 MiB"))?;
        match T::empty() {
            Some(empty) if body.is_empty() => Ok(Self(empty)),
            _ => parse(&body).map(Self),
        }
    }
}

/// Parses a body.
pub(crate) fn parse<T: JsonBody>(body: &[u8]) -> Result<T, Problem> {
    // serde would take a list for an object, with the fields in order.
    if body.trim_ascii_start().starts_with(b"[") {
        return Err(bad_body(format!("the body must be a JSON object {}; it is a list", T::SHAPE)));
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    let error = match serde_path_to_error::deserialize(&mut json) {
        Ok(parsed) => match json.end() {
            Ok(()) => return Ok(parsed),
            Err(error) => error,
        },
        Err(error) => {
            let path = error.path().to_string();
            let field = path.split(['.', '[']).next().unwrap_or_default();
            match T::invalid(field) {
                Some(problem) if error.inner().classify() == Category::Data => return Err(problem),
                _ => error.into_inner(),
            }
        }
    };
    let (shape, line, column) = (T::SHAPE, error.line(), error.column());
    let detail = format!("the body must be a JSON object {shape}; line {line}, column {column}");
    Err(bad_body(detail))
}

/// Id of a person, as a caller gives it.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(min_length = 1, max_length = 512, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")]
pub(crate) struct UserId(pub(crate) String);

impl UserId {
    const RULE: &str = "must be a string of 1 to 512 bytes without control characters";

    /// Returns the id of the person who speaks: `given`, or the caller's name.
    pub(crate) fn or_name(given: Option<Self>, caller: &Caller) -> String {
        given.map_or_else(|| caller.name.clone(), |UserId(id)| id)
    }

    /// Returns the id of the person who speaks, which the body must give.
    pub(crate) fn required(given: Option<Self>) -> Result<String, Problem> {
        const DETAIL: &str = "give the id of the person who speaks as \"userId\"";
        given
            .map(|UserId(id)| id)
            .ok_or_else(|| Problem::bad_request("missing-user", "userId is missing", DETAIL))
    }
}

impl TryFrom<String> for UserId {
    type Error = &'static str;

    fn try_from(id: String) -> Result<Self, &'static str> {
        let is_valid = (1..=MAX_USER_ID_BYTES).contains(&id.len()) && !id.contains(char::is_control);
        if is_valid { Ok(Self(id)) } else { Err(Self::RULE) }
    }
}

/// Id that a caller gives to a message or a command.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(value_type = String, min_length = 1, max_length = 256, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")]
pub(crate) struct NewId(pub(crate) MessageId);

impl NewId {
    const RULE: &str = "must be a string of 1 to 256 bytes without control characters";
}

impl TryFrom<String> for NewId {
    type Error = &'static str;

    fn try_from(id: String) -> Result<Self, &'static str> {
        MessageId::new(id).map(Self).map_err(|_| Self::RULE)
    }
}

/// Returns a 400: the body is invalid.
pub(crate) fn bad_body(detail: String) -> Problem {
    Problem::bad_request("bad-body", "The body is invalid", detail)
}

/// Returns a 400: the `userId` is invalid.
pub(crate) fn bad_user(detail: String) -> Problem {
    Problem::bad_request("bad-user", "The userId is invalid", detail)
}

/// Returns a 400: the `messageId` is invalid.
pub(crate) fn bad_message_id(detail: String) -> Problem {
    Problem::bad_request("bad-message-id", "The messageId is invalid", detail)
}

/// Returns a 400: the `ts` is not a time.
pub(crate) fn invalid_ts() -> Problem {
    bad_ts("give milliseconds since 1970 as a whole number of at most 13 digits")
}

/// Returns a 400: the `ts` is unusable.
pub(crate) fn bad_ts(detail: &str) -> Problem {
    Problem::bad_request("bad-ts", "The ts is invalid", detail)
}

/// Returns the draft of a message that `caller` sends for `user_id`.
pub(crate) fn draft(
    caller: &Caller,
    chat: &ChatKey,
    channel: Channel,
    user_id: &str,
    message_id: MessageId,
    ts: Timestamp,
    parts: Vec<Part>,
) -> Draft {
    let origin = Origin {
        chat_id: chat.chat_id().to_owned(),
        chat: chat.clone(),
        channel,
        user_id: user_id.to_owned(),
    };
    let message = UiMessage::new("", Role::User, parts);
    // Chinese text is a better sign of its author's language than a header, which may be that of a server.
    let is_chinese = Language::of_script(&message.plain_text()) == Some(Language::Zh);
    let mut metadata = Metadata::default();
    if let Some(tag) = caller.language.as_ref().filter(|_| !is_chinese) {
        metadata.set_language(tag);
    }
    Draft::new(origin, message_id, ts)
        .with_parts(message.parts)
        .with_metadata(metadata)
        .asking(true)
        .of_person(caller.crossing_user_id(user_id))
}

/// Returns the command in a message of `parts`, if it is one text that starts with one. There is no other bot here, so a command
/// with any name after `@` is this bot's.
pub(crate) fn command(parts: &[Part]) -> Option<Command> {
    let [part] = parts else { return None };
    let text = UiMessage::new("", Role::User, vec![part.clone()]).plain_text();
    Command::parse(&text, addressee(&text))
}

impl Http {
    /// Returns the identity of `user_id` of `caller` in direct chats.
    pub(crate) fn identity(&self, caller: &Caller, user_id: &str) -> Result<String, Problem> {
        let identity = caller.crossing_user_id(user_id);
        let chat = ChatKey::direct(self.ingress.agents().default_id(), &identity);
        chat.map(|_| identity).map_err(|error| bad_user(error.to_string()))
    }

    /// Returns an id for a message that comes without one.
    pub(crate) fn new_message_id(&self) -> Result<MessageId, Problem> {
        MessageId::new((self.new_id)()).map_err(|error| bad_message_id(error.to_string()))
    }
}
