//! The typing status and drafts.

use serde_json::{Value, json};

use super::refusal::{Refusal, refuse, too_many};
use crate::server::take;

/// A sign that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The chat.
    pub chat_id: i64,
    /// The topic.
    pub thread_id: Option<i64>,
    /// The business account that it was shown for.
    pub business_connection_id: Option<String>,
    /// The sign that was shown.
    pub sign: Sign,
    /// The place of its call in `calls`.
    pub at_seq: usize,
}

/// A sign that the bot is at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// "typing…"
    Typing,
    /// The draft of this id.
    Draft(i64, String),
}

/// The signs that were shown.
#[derive(Default)]
pub struct Signs {
    pub(super) shown: Vec<Shown>,
    /// So many drafts are answered 429, with this wait in seconds.
    pub rate_limit: (usize, u64),
    /// True if the API is older than drafts: 404.
    pub knows_no_drafts: bool,
}

impl Signs {
    /// `sendChatAction` to `chat_id`, as the call of this place.
    pub(super) fn chat_action(
        &mut self,
        chat_id: i64,
        body: &Value,
        at_seq: usize,
    ) -> Result<Value, Refusal> {
        if body["action"] != "typing" {
            return refuse(400, "Bad Request: wrong parameter action in request");
        }
        Ok(self.show(chat_id, body, at_seq, Sign::Typing))
    }

    /// `sendMessageDraft` to `chat_id`, as the call of this place.
    pub(super) fn draft(&mut self, chat_id: i64, body: &Value, at_seq: usize) -> Result<Value, Refusal> {
        if self.knows_no_drafts {
            return refuse(404, "Not Found: method not found");
        }
        if take(&mut self.rate_limit.0) {
            return Err(too_many(self.rate_limit.1));
        }
        // It takes neither a business connection nor a topic of a channel's direct messages.
        if chat_id <= 0 || !body["business_connection_id"].is_null() {
            return refuse(400, "Bad Request: TEXTDRAFT_PEER_INVALID");
        }
        let Some(id) = body["draft_id"].as_i64().filter(|id| *id != 0) else {
            return refuse(400, "Bad Request: draft_id must be non-zero");
        };
        let text = body["text"].as_str().unwrap_or_default();
        if text.encode_utf16().count() > 4096 {
            return refuse(400, "Bad Request: message is too long");
        }
        Ok(self.show(chat_id, body, at_seq, Sign::Draft(id, text.to_owned())))
    }

    fn show(&mut self, chat_id: i64, body: &Value, at_seq: usize, sign: Sign) -> Value {
        self.shown.push(Shown {
            chat_id,
            thread_id: body["message_thread_id"].as_i64(),
            business_connection_id: body["business_connection_id"].as_str().map(str::to_owned),
            sign,
            at_seq,
        });
        json!(true)
    }
}
