//! What `useChat` sends: the body of `POST /api/chat`.
//!
//! ```json
//! {"id": "room-1", "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}],
//!  "trigger": "submit-message", "messageId": "m1", "userId": "ada"}
//! ```
//!
//! `messageId` comes with an edit (the message's own), with `regenerate-message` (the reply's or the message's; none means
//! the last), and behind an approval (the reply's). In place of `messages`, an app may send the last alone as `message`.
//! Source: `HttpChatTransport` and `AbstractChat` in `packages/ai/src/ui`.

use annals_shared::message::{Part, PartError, Role, UiMessage};
use annals_shared::problem::Problem;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::MAX_BODY_BYTES;
use crate::post::user_id;

/// A request's body, checked.
#[derive(Debug)]
pub(crate) struct Body {
    /// The room.
    pub(crate) id: String,
    /// Who speaks, where it says so.
    pub(crate) user_id: Option<String>,
    /// What the client takes the conversation to be before `last`.
    pub(crate) past: Vec<UiMessage>,
    /// What is to be answered, or the reply that goes on.
    pub(crate) last: UiMessage,
    /// Whether the last reply, or the one named, is to be made anew.
    pub(crate) regenerates: bool,
    /// See above.
    pub(crate) message_id: Option<String>,
}

/// What `useChat` sends.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "what `Wire` is, as a document")]
pub(crate) struct ChatRequest {
    /// The conversation: a room of the key's own, at most 512 bytes, or with an admin key a whole ChatKey of one.
    #[schema(min_length = 1, max_length = 2048, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")]
    id: String,
    /// The conversation as the client has it. The last is what is said, at most 1 MiB of it, each part at most 64 objects and
    /// lists deep, or the reply whose requests are answered; those before are compared with the history, and not stored. All
    /// of it is at most 6 MiB.
    #[schema(min_items = 1)]
    messages: Option<Vec<crate::openapi::UiMessage>>,
    /// The last message alone, in place of `messages`: for a conversation that is longer.
    message: Option<crate::openapi::UiMessage>,
    /// `submit-message`, or `regenerate-message` for another try.
    #[schema(pattern = "^(submit|regenerate)-message$")]
    trigger: Option<String>,
    /// The message that is edited, or the reply that is made anew; none means the last.
    message_id: Option<String>,
    /// Who speaks; the key's name.
    #[schema(min_length = 1, max_length = 512, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")]
    user_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    id: Option<Value>,
    user_id: Option<Value>,
    messages: Option<Vec<UiMessage>>,
    message: Option<UiMessage>,
    trigger: Option<String>,
    message_id: Option<String>,
}

impl Body {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Problem> {
        // Where, but not what: the error's own text may quote a message.
        let wire: Wire = serde_json::from_slice(body).map_err(|error| {
            let detail = format!(
                "the body must be what useChat sends, {{id, messages, trigger?, messageId?}}; line {}, column {}",
                error.line(),
                error.column()
            );
            Problem::bad_request("bad-body", "The body is no chat request", detail)
        })?;
        let Some(Value::String(id)) = wire.id else {
            return Err(bad("give the conversation's id as \"id\""));
        };
        let regenerates = match wire.trigger.as_deref() {
            None | Some("submit-message") => false,
            Some("regenerate-message") => true,
            Some(_) => return Err(bad("the trigger is neither submit-message nor regenerate-message")),
        };
        let mut past = match (wire.messages, wire.message) {
            (Some(messages), None) => messages,
            (None, Some(message)) => vec![message],
            _ => {
                return Err(bad("give the conversation as \"messages\", or its last message as \"message\""));
            }
        };
        let last = past.pop().ok_or_else(|| bad("there are no messages"))?;
        if last.role == Role::System {
            return Err(bad("the last message is a system message"));
        }
        // What is stored; of an answer to what a reply asks, and of another try, nothing of it is.
        if last.role == Role::User && !regenerates {
            if last.parts.is_empty() {
                return Err(bad("the last message has no parts"));
            }
            if last.parts.iter().any(Part::is_too_deep) {
                return Err(bad(&PartError::TooDeep.to_string()));
            }
            let is_large = |parts| serde_json::to_vec(parts).is_ok_and(|json| json.len() > MAX_BODY_BYTES);
            if body.len() > MAX_BODY_BYTES && is_large(&last.parts) {
                return Err(Problem::too_large("the last message may have at most 1 MiB"));
            }
        }
        Ok(Self {
            id,
            user_id: wire.user_id.map(|id| user_id(Some(id))).transpose()?,
            past,
            last,
            regenerates,
            message_id: wire.message_id,
        })
    }
}

/// 400: it is JSON of that shape, but cannot be meant.
pub(crate) fn bad(detail: &str) -> Problem {
    Problem::bad_request("bad-chat", "The chat request is unusable", detail)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(body: &Value) -> Result<Body, String> {
        Body::parse(body.to_string().as_bytes()).map_err(|problem| problem.detail)
    }

    #[test]
    fn what_use_chat_sends_is_read() {
        let said =
            json!({"id": "m2", "role": "user", "parts": [{"type": "text", "text": "hi"}], "metadata": null});
        let reply = json!({"id": "m1/reply", "role": "assistant", "parts": []});
        let body = json!({"id": "r", "messages": [reply, said], "trigger": "submit-message", "extra": 1});
        let body = parse(&body).unwrap();
        assert_eq!((body.id.as_str(), body.past.len(), body.last.id.as_str()), ("r", 1, "m2"));
        assert!(!body.regenerates && body.message_id.is_none() && body.user_id.is_none());
        let body = json!({"id": "r", "message": said, "trigger": "regenerate-message", "messageId": "m1/reply", "userId": "ada"});
        let body = parse(&body).unwrap();
        assert!(body.regenerates && body.past.is_empty());
        assert_eq!((body.message_id.as_deref(), body.user_id.as_deref()), (Some("m1/reply"), Some("ada")));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_and_says_nothing_of_what_was_said() {
        let said = json!({"id": "m", "role": "user", "parts": [{"type": "text", "text": "secret"}]});
        for bad in [
            json!({"messages": [said]}),
            json!({"id": 7, "messages": [said]}),
            json!({"id": "r"}),
            json!({"id": "r", "messages": []}),
            json!({"id": "r", "messages": [said], "message": said}),
            json!({"id": "r", "messages": [said], "trigger": "resume-stream"}),
            json!({"id": "r", "messages": [{"id": "m", "role": "system", "parts": []}]}),
            json!({"id": "r", "messages": [{"id": "m", "role": "user", "parts": []}]}),
            json!({"id": "r", "messages": [{"id": "m", "role": "secret", "parts": []}]}),
            json!({"id": "r", "messages": [{"id": "m", "role": "user", "parts": ["secret"]}]}),
            json!({"id": "r", "messages": [said], "userId": ""}),
            json!("secret"),
        ] {
            let detail = parse(&bad).unwrap_err();
            assert!(!detail.contains("secret"), "{bad}: {detail}");
        }
    }
}
