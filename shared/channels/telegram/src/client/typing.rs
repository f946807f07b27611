//! Shows that an answer is being made: "typing…" and drafts of the answer.
//!
//! ```text
//! POST …/sendChatAction   {"chat_id": 42, "action": "typing"}
//! POST …/sendMessageDraft {"chat_id": 42, "draft_id": 7, "text": "Sow the bea"}
//! ```
//!
//! Both are tried once, since they are useless later. Telegram's clients show only one of them at a time: the later one
//! replaces the other.
//!
//! Sources: <https://core.telegram.org/bots/api#sendchataction>, <https://core.telegram.org/bots/api#sendmessagedraft>
//! (open to all bots since Bot API 9.5).

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::{CallError, Client, chunks, topic, without_nulls};
use crate::address::Address;

/// Pause after a 404, which an API without drafts returns.
const WITHOUT_DRAFTS: Duration = Duration::from_hours(1);

/// Earliest time of the next draft, in epoch milliseconds. Shared by the whole process, since Telegram's rate limit is
/// per bot.
#[derive(Debug, Default)]
pub(super) struct Drafts(AtomicI64);

impl Client {
    /// Shows "typing…" in the chat for about five seconds.
    pub async fn send_typing(&self, address: &Address) -> Result<(), CallError> {
        let body = without_nulls(json!({
            "chat_id": address.chat_id,
            "message_thread_id": topic(address.thread_id),
            "business_connection_id": address.business_connection_id,
            "action": "typing",
        }));
        self.try_once("sendChatAction", &body).await.map(|_: Value| ())
    }

    /// Shows an unfinished answer for 30 seconds or until a message is sent. A later draft with the same `id` (not 0)
    /// replaces it.
    ///
    /// The draft shows the last message that `markdown` would become, as plain text: a style may be incomplete, and the
    /// next draft would show it differently. Returns false without sending if there is no text, or while drafts are
    /// paused after a rate limit.
    pub async fn send_draft(&self, address: &Address, id: i64, markdown: &str) -> Result<bool, CallError> {
        let now = self.api.clock.now();
        let Some(chunk) = chunks(markdown).pop().filter(|chunk| !chunk.text.trim().is_empty()) else {
            return Ok(false);
        };
        if now.as_millis() < self.drafts.0.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let body = without_nulls(json!({
            "chat_id": address.chat_id,
            "message_thread_id": topic(address.thread_id),
            "draft_id": id,
            "text": chunk.text,
        }));
        let sent = self.try_once("sendMessageDraft", &body).await.map(|_: Value| true);
        let pause = match &sent {
            Err(CallError::RateLimited { retry_after: Some(wait), .. }) => *wait,
            Err(CallError::Refused { status: 404, .. }) => WITHOUT_DRAFTS,
            _ => return sent,
        };
        self.drafts.0.store(now.plus(pause).as_millis(), Ordering::Relaxed);
        sent
    }
}

impl Address {
    /// Returns true if the chat takes drafts: a private chat, and not on behalf of a business account.
    pub fn takes_drafts(&self) -> bool {
        self.chat_id > 0 && self.business_connection_id.is_none() && self.direct_messages_topic_id.is_none()
    }
}
