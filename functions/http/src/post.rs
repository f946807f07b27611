//! Messages in: `POST /v1/chats/{chatId}/messages`, `POST /v1/messages`, `POST /v1/chats/{chatId}/reset` and
//! `…/compact`.

use std::sync::Arc;
use std::time::Duration;

use annals_shared::chat_key::{ActorKey, ChatKey};
use annals_shared::command::Command;
use annals_shared::history::{Appended, Outcome};
use annals_shared::message::{Part, Role, UiMessage};
use annals_shared::problem::Problem;
use annals_shared::record::{Channel, Draft, Kind, MAX_AHEAD};
use annals_shared::request_body::ReadBody;
use annals_shared::sort_key::{MessageId, SortKey, Timestamp};
use annals_shared::telemetry;
use axum::Json;
use axum::body::Body as RequestBody;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use crate::auth::Caller;
use crate::{Failure, Http, MAX_BODY_BYTES};

/// The longest `userId`, in bytes.
pub(crate) const MAX_USER_ID_BYTES: usize = 512;
/// The body of a command that takes nothing else.
pub(crate) const RESET: &str = "{userId?, messageId?}";
/// The longest that a request waits for its reply.
const MAX_WAIT: Duration = Duration::from_secs(25);
/// The first pause between two looks for the reply; each later one is longer, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_millis(800);

/// `{userId, text or parts, messageId?, ts?}`; of a command `{userId?, messageId?, focus?}`
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Body {
    pub(crate) user_id: Option<Value>,
    text: Option<Value>,
    parts: Option<Value>,
    pub(crate) message_id: Option<Value>,
    ts: Option<Value>,
    focus: Option<Value>,
}

/// A message.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "what `Body` is of a message")]
pub(crate) struct NewMessage {
    /// Who speaks: any id of the caller's, at most 512 bytes.
    #[schema(min_length = 1, max_length = 512, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")]
    user_id: String,
    /// What is said; or `parts`, and not both.
    #[schema(pattern = "\\S")]
    text: Option<String>,
    /// Each at most 64 objects and lists deep, itself counted.
    #[schema(min_items = 1)]
    parts: Option<Vec<crate::openapi::Part>>,
    /// Under one id a message is stored and answered once; other content under it is a revision. At most 256 bytes.
    #[schema(min_length = 1, max_length = 256, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")]
    message_id: Option<String>,
    /// When it was said, in epoch milliseconds; now. Not more than five minutes ahead.
    #[schema(minimum = 0, maximum = 9_999_999_999_999_i64)]
    ts: Option<i64>,
}

/// A command.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "what `Body` is of a command")]
pub(crate) struct Reset {
    /// Who asks; the key's name.
    #[schema(min_length = 1, max_length = 512, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")]
    user_id: Option<String>,
    /// Under one id a command is carried out once.
    #[schema(min_length = 1, max_length = 256, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")]
    message_id: Option<String>,
}

/// A command.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "what `Body` is of a command")]
pub(crate) struct Compact {
    /// Who asks; the key's name.
    #[schema(min_length = 1, max_length = 512, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")]
    user_id: Option<String>,
    /// Under one id a command is carried out once.
    #[schema(min_length = 1, max_length = 256, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")]
    message_id: Option<String>,
    /// What the summary shall keep above all.
    focus: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wait {
    /// For how many seconds to wait for the reply, at most 25.
    #[param(value_type = Option<f64>, minimum = 0)]
    wait: Option<String>,
}

/// `{chatKey, messageId, duplicate, revision?, reply?}`
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Receipt {
    chat_key: ChatKey,
    message_id: MessageId,
    /// Whether this form of the message was there already.
    duplicate: bool,
    /// Which later form of a message that was there this is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1)]
    revision: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = crate::openapi::UiMessage, required = false)]
    reply: Option<UiMessage>,
}

/// `POST /v1/chats/{chatId}/messages`
#[utoipa::path(post, path = "/v1/chats/{chatId}/messages", operation_id = "postMessage", tag = "messages", security(("key" = [])),
    params(("chatId" = String, Path, description = "A conversation id of the caller's own, at most 512 bytes, or with an admin key a whole ChatKey", min_length = 1, max_length = 2048, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$"),
        Wait),
    request_body(content = NewMessage, content_type = "application/json"),
    responses((status = 200, description = "Taken and answered", body = Receipt),
        (status = 202, description = "Taken; the answer comes", body = Receipt)))]
pub(crate) async fn chat_message(
    State(http): State<Arc<Http>>,
    caller: Caller,
    chat_id: Result<Path<String>, PathRejection>,
    wait: Result<Query<Wait>, QueryRejection>,
    body: RequestBody,
) -> Result<Response, Failure> {
    let chat = caller.chat(&path(chat_id)?)?;
    let wait = wait_time(wait)?;
    let message = Message::parse(&http.read(body).await?)?;
    http.receive(&caller, chat, &message, wait).await
}

/// `POST /v1/messages`
#[utoipa::path(post, path = "/v1/messages", operation_id = "postDirectMessage", tag = "messages", security(("key" = [])),
    params(Wait),
    request_body(content = NewMessage, content_type = "application/json"),
    responses((status = 200, description = "Taken and answered", body = Receipt),
        (status = 202, description = "Taken; the answer comes", body = Receipt)))]
pub(crate) async fn direct_message(
    State(http): State<Arc<Http>>,
    caller: Caller,
    wait: Result<Query<Wait>, QueryRejection>,
    body: RequestBody,
) -> Result<Response, Failure> {
    let wait = wait_time(wait)?;
    let message = Message::parse(&http.read(body).await?)?;
    let chat = ChatKey::direct(http.ingress.agent_id(), &caller.crossing_user_id(&message.user_id))
        .map_err(|error| bad_user(error.to_string()))?;
    http.receive(&caller, chat, &message, wait).await
}

/// `POST /v1/chats/{chatId}/reset`: what `/reset` does; the body may name who asks as
/// `userId`, and the command as `messageId`, under which it is carried out once.
#[utoipa::path(post, path = "/v1/chats/{chatId}/reset", operation_id = "resetChat", tag = "messages", security(("key" = [])),
    params(("chatId" = String, Path, description = "A conversation id of the caller's own, at most 512 bytes, or with an admin key a whole ChatKey", min_length = 1, max_length = 2048, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")),
    request_body(content = Reset, content_type = "application/json"),
    responses((status = 202, description = "A new session", body = Receipt)))]
pub(crate) async fn reset(
    State(http): State<Arc<Http>>,
    caller: Caller,
    chat_id: Result<Path<String>, PathRejection>,
    body: RequestBody,
) -> Result<Response, Failure> {
    let chat = caller.chat(&path(chat_id)?)?;
    let body = http.read_command(body, RESET).await?;
    http.receive(&caller, chat, &command_of(&caller, body, "/reset".into())?, None).await
}

/// `POST /v1/chats/{chatId}/compact`: what `/compact` does; the body as of `…/reset`, with what the summary shall keep above
/// all as `focus`. `?wait=` waits until it is done.
#[utoipa::path(post, path = "/v1/chats/{chatId}/compact", operation_id = "compactChat", tag = "messages", security(("key" = [])),
    params(("chatId" = String, Path, description = "A conversation id of the caller's own, at most 512 bytes, or with an admin key a whole ChatKey", min_length = 1, max_length = 2048, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$"),
        Wait),
    request_body(content = Compact, content_type = "application/json"),
    responses((status = 200, description = "Done", body = Receipt),
        (status = 202, description = "Taken: it is the chat's next turn", body = Receipt)))]
pub(crate) async fn compact(
    State(http): State<Arc<Http>>,
    caller: Caller,
    chat_id: Result<Path<String>, PathRejection>,
    wait: Result<Query<Wait>, QueryRejection>,
    body: RequestBody,
) -> Result<Response, Failure> {
    let chat = caller.chat(&path(chat_id)?)?;
    let wait = wait_time(wait)?;
    let mut body = http.read_command(body, "{userId?, messageId?, focus?}").await?;
    let text = match body.focus.take() {
        None | Some(Value::Null) => "/compact".to_owned(),
        Some(Value::String(focus)) => format!("/compact {focus}"),
        Some(_) => {
            return Err(Problem::bad_request("bad-focus", "The focus is no text", "give a string").into());
        }
    };
    http.receive(&caller, chat, &command_of(&caller, body, text)?, wait).await
}

/// The message that a command is; whoever calls says it where the body names nobody.
fn command_of(caller: &Caller, body: Body, text: String) -> Result<Message, Problem> {
    let given = body.user_id.map(|id| user_id(Some(id))).transpose()?;
    let id = body.message_id.map(message_id).transpose()?;
    let user_id = given.unwrap_or_else(|| caller.name.clone());
    Ok(Message { user_id, parts: vec![Part::text(text)], id, ts: None, commands_alone: true })
}

/// A request's body, checked.
struct Message {
    user_id: String,
    parts: Vec<Part>,
    id: Option<MessageId>,
    ts: Option<Timestamp>,
    /// Whether its route takes commands and nothing else, so that it is no form of a message that has its id.
    commands_alone: bool,
}

impl Message {
    fn parse(body: &[u8]) -> Result<Self, Problem> {
        let body = parse_body(body, "{userId, text or parts, messageId?, ts?}")?;
        Ok(Self {
            user_id: user_id(body.user_id)?,
            parts: parts(body.text, body.parts)?,
            id: body.message_id.map(message_id).transpose()?,
            ts: body.ts.as_ref().map(timestamp).transpose()?,
            commands_alone: false,
        })
    }

    /// The command that the message is, if it is one text that starts with one.
    fn command(&self) -> Option<Command> {
        match &self.parts[..] {
            [part] => {
                Command::parse(UiMessage::new("", Role::User, vec![part.clone()]).plain_text().as_str(), None)
            }
            _ => None,
        }
    }
}

impl Http {
    /// Reads a body of at most 1 MiB.
    pub(crate) async fn read(&self, body: RequestBody) -> Result<ReadBody, Problem> {
        let read = self.limits.bodies.read(body, MAX_BODY_BYTES, &self.clock).await;
        read.map_err(|error| error.problem("a request may have at most 1 MiB"))
    }

    /// Reads the body of a command, of this shape or none.
    pub(crate) async fn read_command(&self, body: RequestBody, shape: &str) -> Result<Body, Problem> {
        let body = self.read(body).await?;
        if body.is_empty() { Ok(Body::default()) } else { parse_body(&body, shape) }
    }

    async fn receive(
        &self,
        caller: &Caller,
        chat: ChatKey,
        message: &Message,
        wait: Option<Duration>,
    ) -> Result<Response, Failure> {
        telemetry::about(&chat);
        ActorKey::new(chat.clone(), &message.user_id).map_err(|error| bad_user(error.to_string()))?;
        let now = self.clock.now();
        if message.ts.is_some_and(|ts| ts > now.plus(MAX_AHEAD)) {
            let detail =
                "it is more than five minutes ahead of the server's clock: give milliseconds since 1970";
            return Err(Problem::bad_request("bad-ts", "The ts is no time", detail).into());
        }
        let (message_id, ts) = if let Some(id) = &message.id {
            // One id is one message, whatever time comes with it: the first time that came stands.
            let ts = self.ingress.history().first_time(&chat, id, message.ts.unwrap_or(now)).await?;
            (id.clone(), ts)
        } else {
            let id = MessageId::new((self.new_id)()).map_err(|error| bad_message_id(error.to_string()))?;
            (id, message.ts.unwrap_or(now))
        };
        let draft = Draft {
            chat_id: chat.chat_id().to_owned(),
            chat,
            channel: Channel::Http,
            user_id: message.user_id.clone(),
            message_id: message_id.clone(),
            ts,
            form_ts: None,
            role: Role::User,
            kind: Kind::Normal,
            parts: message.parts.clone(),
            metadata: Map::new(),
            album: None,
            asks: true,
            opens_session: false,
            person: Some(caller.crossing_user_id(&message.user_id)),
        };
        let Appended { base, outcome } = match message.command() {
            None => self.ingress.receive(&draft).await?,
            Some(command) => {
                let commanded = if message.commands_alone {
                    let commanded = self.ingress.command_alone(&command, &draft).await?;
                    commanded.ok_or_else(Problem::command_id_taken)?
                } else {
                    self.ingress.command(&command, &draft).await?
                };
                if let Some(confirmation) = commanded.confirmation {
                    self.ingress.confirmed(&draft, confirmation).await?;
                }
                commanded.appended
            }
        };
        tracing::info!(?outcome, "message");
        let reply = match wait {
            Some(wait) => self.wait_for_reply(&draft.chat, &base, wait).await?,
            None => None,
        };
        let status = if reply.is_some() { StatusCode::OK } else { StatusCode::ACCEPTED };
        let receipt = Receipt {
            chat_key: draft.chat,
            message_id,
            duplicate: outcome == Outcome::Duplicate,
            revision: match outcome {
                Outcome::Revision(number) => Some(number),
                Outcome::Stored | Outcome::Duplicate => None,
            },
            reply,
        };
        Ok((status, Json(receipt)).into_response())
    }

    /// What covers the message at `base`, or confirms it, as soon as it is stored.
    async fn wait_for_reply(
        &self,
        chat: &ChatKey,
        base: &SortKey,
        wait: Duration,
    ) -> Result<Option<UiMessage>, Failure> {
        let until = self.clock.now().plus(wait);
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(reply) = self.ingress.history().reply_to(chat, base).await? {
                return Ok(Some(reply.listed()));
            }
            let left = until.since(self.clock.now());
            if left.is_zero() {
                return Ok(None);
            }
            self.clock.sleep(pause.min(left)).await;
            pause = (pause * 3 / 2).min(MAX_PAUSE);
        }
    }
}

pub(crate) fn path(chat_id: Result<Path<String>, PathRejection>) -> Result<String, Problem> {
    let bad = "the chat id in the path is no percent-encoded UTF-8";
    chat_id
        .map(|Path(id)| id)
        .map_err(|_| Problem::bad_request("bad-chat-id", "The chat id is unusable", bad))
}

fn parse_body(body: &[u8], shape: &str) -> Result<Body, Problem> {
    // Where, but not what: the error's own text may quote the message.
    serde_json::from_slice(body).map_err(|error| {
        let detail = format!(
            "the body must be a JSON object {shape}; line {}, column {}",
            error.line(),
            error.column()
        );
        Problem::bad_request("bad-body", "The body is no message", detail)
    })
}

fn wait_time(wait: Result<Query<Wait>, QueryRejection>) -> Result<Option<Duration>, Problem> {
    let bad = || {
        let detail = "give a number of seconds from 0 to 25, such as ?wait=20";
        Problem::bad_request("bad-wait", "The wait is no number of seconds", detail)
    };
    let Query(Wait { wait }) = wait.map_err(|_| bad())?;
    let Some(wait) = wait else { return Ok(None) };
    let secs: f64 = wait.parse().map_err(|_| bad())?;
    if !secs.is_finite() || secs < 0.0 {
        return Err(bad());
    }
    Ok(Some(Duration::from_secs_f64(secs.min(MAX_WAIT.as_secs_f64()))))
}

pub(crate) fn user_id(value: Option<Value>) -> Result<String, Problem> {
    match value {
        Some(Value::String(id)) if id.len() > MAX_USER_ID_BYTES => {
            Err(bad_user(format!("{} bytes are more than {MAX_USER_ID_BYTES}", id.len())))
        }
        Some(Value::String(id)) if !id.is_empty() => Ok(id),
        None | Some(Value::Null) => Err(Problem::bad_request(
            "missing-user",
            "userId is missing",
            "give the id of the person who speaks as \"userId\"",
        )),
        Some(_) => Err(bad_user("must be a string that is not empty".into())),
    }
}

pub(crate) fn bad_user(detail: String) -> Problem {
    Problem::bad_request("bad-user", "The userId is unusable", detail)
}

pub(crate) fn message_id(value: Value) -> Result<MessageId, Problem> {
    match value {
        Value::String(id) => MessageId::new(id).map_err(|error| bad_message_id(error.to_string())),
        _ => Err(bad_message_id("must be a string".into())),
    }
}

pub(crate) fn bad_message_id(detail: String) -> Problem {
    Problem::bad_request("bad-message-id", "The messageId is unusable", detail)
}

fn timestamp(value: &Value) -> Result<Timestamp, Problem> {
    value.as_i64().and_then(Timestamp::from_millis).ok_or_else(|| {
        let detail = "give milliseconds since 1970 as a whole number of at most 13 digits";
        Problem::bad_request("bad-ts", "The ts is no time", detail)
    })
}

fn parts(text: Option<Value>, parts: Option<Value>) -> Result<Vec<Part>, Problem> {
    let bad = |detail: &str| Problem::bad_request("bad-message", "The message is unusable", detail);
    match (text, parts) {
        (Some(Value::String(text)), None | Some(Value::Null)) if !text.trim().is_empty() => {
            Ok(vec![Part::text(text)])
        }
        (None | Some(Value::Null), Some(Value::Array(parts))) if !parts.is_empty() => {
            parts.into_iter().map(|part| Part::new(part).map_err(|error| bad(&error.to_string()))).collect()
        }
        (Some(_), Some(_)) => Err(bad("give \"text\" or \"parts\", not both")),
        (None, None) => Err(bad("give what is said as \"text\" or \"parts\"")),
        (Some(_), None) => Err(bad("\"text\" must be a string that is not blank")),
        (None, Some(_)) => Err(bad("\"parts\" must be a list of UIMessage parts that is not empty")),
    }
}
