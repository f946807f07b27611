//! What shows that an answer is being made: "typing…", and the answer as it grows.
//!
//! ```text
//! POST …/sendChatAction   {"chat_id": 42, "action": "typing"}
//! POST …/sendMessageDraft {"chat_id": 42, "draft_id": 7, "text": "Sow the bea"}
//! ```
//!
//! Both are tried once, since they are only worth something now. To Telegram's clients both are what the bot does at the
//! moment, so one takes the other's place.
//!
//! Sources: <https://core.telegram.org/bots/api#sendchataction>, <https://core.telegram.org/bots/api#sendmessagedraft> (all
//! bots may since Bot API 9.5).

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde_json::{Map, Value};

use super::{Client, SendError, chunks, insert_some, topic};
use crate::channel::telegram::address::Address;

/// How long an API that has no drafts is not asked for another.
const WITHOUT_DRAFTS: Duration = Duration::from_hours(1);

/// From when on drafts are sent, in epoch milliseconds. One for the process: it is the bot that is asked to slow down.
#[derive(Debug, Default)]
pub(super) struct Drafts(AtomicI64);

impl Client {
    /// Shows "typing…" in the chat for about five seconds.
    pub async fn send_typing(&self, address: &Address) -> Result<(), SendError> {
        let mut body = Map::new();
        body.insert("chat_id".into(), address.chat_id.into());
        insert_some(&mut body, "message_thread_id", topic(address.thread_id));
        insert_some(&mut body, "business_connection_id", address.business_connection_id.clone());
        body.insert("action".into(), "typing".into());
        self.try_once("sendChatAction", &body).await.map(|_: Value| ())
    }

    /// Shows what there is of an answer, for 30 seconds or until a message comes; a later draft of the same id (not 0)
    /// takes its place. Of `markdown` it is the last message that it would become, without styles: half of it may stand
    /// in the next draft as a mark. Answers whether it was sent: not where there is nothing to read, nor while Telegram wants
    /// no drafts.
    pub async fn send_draft(&self, address: &Address, id: i64, markdown: &str) -> Result<bool, SendError> {
        let now = self.clock.now();
        let Some(chunk) = chunks(markdown).pop().filter(|chunk| !chunk.text.trim().is_empty()) else {
            return Ok(false);
        };
        if now.as_millis() < self.drafts.0.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let mut body = Map::new();
        body.insert("chat_id".into(), address.chat_id.into());
        insert_some(&mut body, "message_thread_id", topic(address.thread_id));
        body.insert("draft_id".into(), id.into());
        body.insert("text".into(), chunk.text.into());
        let sent = self.try_once("sendMessageDraft", &body).await.map(|_: Value| true);
        let pause = match &sent {
            Err(SendError::RateLimited { retry_after }) => *retry_after,
            Err(SendError::Refused { status: 404, .. }) => WITHOUT_DRAFTS,
            _ => return sent,
        };
        self.drafts.0.store(now.plus(pause).as_millis(), Ordering::Relaxed);
        sent
    }
}

impl Address {
    /// Whether drafts are taken here: in private chats, and not on behalf of a business.
    pub fn takes_drafts(&self) -> bool {
        self.chat_id > 0 && self.business_connection_id.is_none() && self.direct_messages_topic_id.is_none()
    }
}
