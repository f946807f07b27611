//! Turns on their way from a door to the agent: in SQS, or in the local program's own queue.
//!
//! ```json
//! {"chat": "telegram:chat:42", "from": "1763765920000#00000000000000000007", "at": 1763765921000}
//! ```
//!
//! A turn carries no message: what is unanswered is derived from the history, so a turn delivered twice, late or
//! after another did its work does nothing. `from` only says how far back to look, for messages with an old time, and `at` when
//! the message came, where more may follow at once.

use std::time::Duration;

use aws_lc_rs::digest;
use aws_sdk_sqs::error::DisplayErrorContext;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tracing::Instrument;

use crate::chat_key::ChatKey;
use crate::history::Outcome;
use crate::sort_key::{SortKey, Timestamp};

/// "Look at this chat."
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Turn {
    /// The chat.
    pub chat: ChatKey,
    /// The base of the message that asks or came late, or of the boundary.
    pub from: SortKey,
    /// When the message that asks came, where its channel's people write in bursts: their chat is answered once it has
    /// been quiet for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// The queue did not take a turn.
#[derive(Debug, thiserror::Error)]
#[error("the queue did not take a turn: {reason}")]
pub struct QueueError {
    /// What the queue or the connection said.
    pub reason: String,
}

/// A FIFO queue with one group per chat: turns of one chat in order and one at a time, at least once; chats side by
/// side. [`Sqs`] in AWS; the local program has its own.
pub trait TurnQueue: Send + Sync {
    /// Returns once the turn is durable. `deduplication_id` (see [`deduplication_id`]) lets a queue drop repeats.
    fn enqueue<'a>(
        &'a self,
        turn: &'a Turn,
        deduplication_id: &'a str,
    ) -> BoxFuture<'a, Result<(), QueueError>>;
}

/// An id that is the same for each delivery of one form of one message: SHA-256 in hex, 64 characters.
pub fn deduplication_id(turn: &Turn, outcome: Outcome) -> String {
    let form = match outcome {
        Outcome::Stored | Outcome::Duplicate => 0,
        Outcome::Revision(n) => n,
    };
    let content = format!("{}\n{}\n{form}", turn.chat, turn.from);
    hex::encode(digest::digest(&digest::SHA256, content.as_bytes()))
}

/// The FIFO queue of a deployed stack.
#[derive(Clone, Debug)]
pub struct Sqs {
    client: aws_sdk_sqs::Client,
    url: String,
}

impl Sqs {
    /// The queue at `url`.
    pub fn new(client: aws_sdk_sqs::Client, url: String) -> Self {
        Self { client, url }
    }

    /// Makes a received message visible again after `pause`, in place of the queue's own time.
    pub async fn retry_in(&self, receipt_handle: &str, pause: Duration) -> Result<(), QueueError> {
        let sent = self
            .client
            .change_message_visibility()
            .queue_url(&self.url)
            .receipt_handle(receipt_handle)
            .visibility_timeout(i32::try_from(pause.as_secs()).unwrap_or(i32::MAX))
            .send()
            .await;
        sent.map(drop).map_err(|error| QueueError { reason: DisplayErrorContext(error).to_string() })
    }
}

impl TurnQueue for Sqs {
    fn enqueue<'a>(
        &'a self,
        turn: &'a Turn,
        deduplication_id: &'a str,
    ) -> BoxFuture<'a, Result<(), QueueError>> {
        let sending = async move {
            let body =
                serde_json::to_string(turn).map_err(|error| QueueError { reason: error.to_string() })?;
            let sent = self
                .client
                .send_message()
                .queue_url(&self.url)
                .message_group_id(turn.chat.session_id().as_str())
                .message_deduplication_id(deduplication_id)
                .message_body(body)
                .send()
                .await;
            sent.map(drop).map_err(|error| QueueError { reason: DisplayErrorContext(error).to_string() })
        };
        Box::pin(sending.instrument(tracing::info_span!("enqueue")))
    }
}
