//! The request of `useChat`: the body of `POST /api/chat`.
//!
//! ```json
//! {"id": "room-1", "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}],
//!  "trigger": "submit-message", "messageId": "m1", "userId": "ada"}
//! ```
//!
//! `scope` is `user` for a room that is the direct chat of its user, under `DM_SCOPE=user`.
//!
//! `messageId` comes with an edit (the id of the message or a form), with `regenerate-message` (the reply's or the message's id; by
//! default the last), and after an approval (the reply's id). Instead of `messages`, an app may send the last alone as
//! `message`. Source: `HttpChatTransport` and `AbstractChat` in `packages/ai/src/ui`.

use annals_core::message::{MAX_DEPTH, Role, UiMessage};
use annals_runtime::problem::Problem;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::request::{JsonBody, MAX_BODY_BYTES, UserId, invalid_field, parse};
use crate::schema;

/// The request of `useChat`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatRequest {
    /// The conversation: a room of the key's own, at most 512 bytes, or with an admin key a whole ChatKey of one.
    #[schema(value_type = String, required, min_length = 1, max_length = 2048, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")]
    id: Option<String>,
    /// The client's copy of the conversation. The last message is stored (at most 1 MiB of it, each part at most 64 objects
    /// and lists deep), or is the reply whose requests are answered; those before it are compared with the history, and not
    /// stored. At most 6 MiB in all.
    #[schema(value_type = Option<Vec<schema::UiMessage>>, min_items = 1)]
    messages: Option<Vec<UiMessage>>,
    /// The last message alone, instead of `messages`: for a conversation that is longer.
    #[schema(value_type = Option<schema::UiMessage>)]
    message: Option<UiMessage>,
    /// `submit-message`, or `regenerate-message` for another reply.
    #[schema(pattern = "^(submit|regenerate)-message$")]
    trigger: Option<String>,
    /// The message that is edited, or the reply that is generated again; by default the last.
    message_id: Option<String>,
    /// Sender; by default the key's name.
    user_id: Option<UserId>,
    /// `user`: with `DM_SCOPE=user` the room is the direct chat of its user, in every channel. `room`, the default: the room
    /// has a history of its own.
    scope: Option<Scope>,
}

/// The history of a room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scope {
    /// Its own.
    #[default]
    Room,
    /// That of the user's direct chat.
    User,
}

impl JsonBody for ChatRequest {
    const SHAPE: &str = "{id, messages, trigger?, messageId?}, as useChat sends it";

    fn invalid(field: &str) -> Option<Problem> {
        match field {
            "id" => Some(bad_chat(NO_ID)),
            "userId" => invalid_field(field),
            "scope" => Some(bad_chat("the scope must be user or room")),
            _ => None,
        }
    }
}

/// A checked request.
#[derive(Debug)]
pub(crate) struct Submission {
    /// The room.
    pub(crate) id: String,
    /// Sender, if the request names one.
    pub(crate) user_id: Option<UserId>,
    /// The client's copy of the conversation before `last`.
    pub(crate) past: Vec<UiMessage>,
    /// The message to answer, or the reply to continue.
    pub(crate) last: UiMessage,
    /// True if the last reply, or the one that `message_id` names, is to be generated again.
    pub(crate) regenerates: bool,
    /// See the module.
    pub(crate) message_id: Option<String>,
    /// The history of the room.
    pub(crate) scope: Scope,
}

impl Submission {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Problem> {
        // A text that its client cut inside an emoji ends in half of a surrogate pair. The client keeps it, and would be refused for ever.
        let parsed =
            parse(body).or_else(|problem| without_halves(body).map_or(Err(problem), |body| parse(&body)));
        let ChatRequest { id, messages, message, trigger, message_id, user_id, scope } = parsed?;
        let scope = scope.unwrap_or_default();
        let id = id.ok_or_else(|| bad_chat(NO_ID))?;
        let regenerates = match trigger.as_deref() {
            None | Some("submit-message") => false,
            Some("regenerate-message") => true,
            Some(_) => return Err(bad_chat("the trigger must be submit-message or regenerate-message")),
        };
        let mut past = match (messages, message) {
            (Some(messages), None) => messages,
            (None, Some(message)) => vec![message],
            _ => {
                let detail = "give the conversation as \"messages\", or its last message as \"message\"";
                return Err(bad_chat(detail));
            }
        };
        let last = past.pop().ok_or_else(|| bad_chat("there are no messages"))?;
        if last.role == Role::System {
            return Err(bad_chat("the last message is a system message"));
        }
        // Only a new message is stored: not an approval, and not the message of a regenerated reply.
        if last.role == Role::User && !regenerates {
            if last.parts.is_empty() {
                return Err(bad_chat("the last message has no parts"));
            }
            if last.is_too_deep() {
                let detail = format!("parts and metadata may be at most {MAX_DEPTH} objects and lists deep");
                return Err(bad_chat(&detail));
            }
            let incomplete = last.parts.iter().find_map(|part| Some((part.kind(), part.missing_field()?)));
            if let Some((kind, field)) = incomplete {
                return Err(bad_chat(&format!("a {kind} part must have a string \"{field}\"")));
            }
            let size = |json: serde_json::Result<Vec<u8>>| json.map_or(0, |json| json.len());
            if body.len() > MAX_BODY_BYTES
                && size(serde_json::to_vec(&last.parts)) + size(serde_json::to_vec(&last.metadata))
                    > MAX_BODY_BYTES
            {
                return Err(Problem::too_large("the last message may have at most 1 MiB"));
            }
        }
        Ok(Self { id, user_id, past, last, regenerates, message_id, scope })
    }
}

const NO_ID: &str = "give the conversation's id as \"id\"";

/// Returns a 400: the request has the right shape, but invalid content.
pub(super) fn bad_chat(detail: &str) -> Problem {
    Problem::bad_request("bad-chat", "The chat request is invalid", detail)
}

/// Returns `json` with U+FFFD in place of each escape of half of a surrogate pair; `None` if it has none.
fn without_halves(json: &[u8]) -> Option<Vec<u8>> {
    let unit = |at: usize| {
        let digits = json.get(at..at + 6)?.strip_prefix(br"\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let (mut whole, mut at) = (json.to_vec(), 0);
    while let Some(plain) = json.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        at += plain;
        at += match (unit(at), unit(at + 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => {
                whole[at..at + 6].copy_from_slice(br"\ufffd");
                6
            }
            // An escaped backslash begins no escape.
            _ => 2,
        };
    }
    (whole != json).then_some(whole)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn reads_a_text_that_was_cut_inside_an_emoji() {
        let said = json!({"id": "m", "role": "user", "parts": [{"type": "text", "text": "TEXT"}]});
        let body = json!({"id": "r", "messages": [said]}).to_string();
        let body = body.replace("TEXT", r"\ud83e\uded8 \\ud83e \ud83e \uded8 \ud83e");
        let read = Submission::parse(body.as_bytes()).unwrap();
        assert_eq!(read.last.plain_text(), "\u{1fad8} \\ud83e \u{fffd} \u{fffd} \u{fffd}");
    }

    #[test]
    fn refuses_invalid_requests_without_quoting_messages() {
        let said = json!({"id": "m", "role": "user", "parts": [{"type": "text", "text": "secret"}]});
        let last = |role: &str, parts: Value| {
            let message = json!({"id": "m", "role": role, "parts": parts});
            json!({"id": "r", "messages": [message]})
        };
        for (bad, reason) in [
            (json!({"messages": [said]}), NO_ID),
            (json!({"id": 7, "messages": [said]}), NO_ID),
            (json!({"id": "r"}), "give the conversation as"),
            (json!({"id": "r", "messages": []}), "no messages"),
            (json!({"id": "r", "messages": [said], "message": said}), "give the conversation as"),
            (json!({"id": "r", "messages": [said], "trigger": "resume-stream"}), "the trigger"),
            (last("system", json!([])), "a system message"),
            (last("user", json!([])), "no parts"),
            (last("secret", json!([])), "the body must be"),
            (last("user", json!(["secret"])), "the body must be"),
            (last("user", json!([{"type": "text", "x": "secret"}])), "a string \"text\""),
            (last("user", json!([{"type": "file", "url": "secret"}])), "a string \"mediaType\""),
            (json!({"id": "r", "messages": [said], "userId": ""}), "1 to 512 bytes"),
            (json!({"id": "r", "messages": [said], "scope": "secret"}), "the scope"),
            (json!("secret"), "the body must be"),
        ] {
            let detail = Submission::parse(bad.to_string().as_bytes()).unwrap_err().detail;
            assert!(detail.contains(reason) && !detail.contains("secret"), "{bad}: {detail}");
        }
    }
}
