//! The queue of turns between the channels and the agent: in SQS, or in the local program's own queue.
//!
//! ```json
//! {"chat": "telegram:chat:42", "from": "1763765920000#00000000000000000007", "at": 1763765921000}
//! ```
//!
//! A turn carries no message: which messages are unanswered is derived from the history, so a turn delivered twice,
//! late or after another did its work does nothing. `from` is the key from which to read, for messages with an old
//! time. `at` is the arrival of the message, on channels whose people write in bursts. `"net": true` marks a turn that
//! its own function carries out, too: see [`Sqs::as_safety_net`].

use std::time::Duration;

use annals_aws::SdkConfig;
use annals_aws::service::Service;
use annals_core::chat_key::ChatKey;
use annals_core::sort_key::{SortKey, Timestamp};
use annals_io::errors::chain;
use annals_io::random;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::Instrument;

/// A request to answer the unanswered messages of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Turn {
    pub chat: ChatKey,
    /// The base of the message that asks or came late, or of the boundary.
    pub from: SortKey,
    /// Arrival of the message that asks, on channels whose people write in bursts: their chat is answered once it has
    /// been quiet for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// A failed request to the queue.
#[derive(Debug, thiserror::Error)]
#[error("a request to the queue failed: {reason}")]
pub struct QueueError {
    /// The answer of the queue, or the fault of the connection.
    pub reason: String,
}

/// A FIFO queue with one group per chat: turns of one chat in order and one at a time, at least once; chats in
/// parallel. [`Sqs`] in AWS; the local program has its own.
pub trait TurnQueue: Send + Sync {
    /// Stores the turn; returns once it is durable.
    fn enqueue<'a>(&'a self, turn: &'a Turn) -> BoxFuture<'a, Result<(), QueueError>>;
}

/// Returns a deduplication id for one call of `enqueue`: a new one each time, so that a queue drops repeats of that
/// very request and nothing else.
///
/// SQS drops a repeated id for five minutes, even after the first message was received and deleted. An id made of the
/// message would drop the turn of a message that was forgotten and comes again, and the second attempt at an edit. A
/// surplus turn does nothing.
pub fn deduplication_id() -> String {
    random::hex::<16>()
}

/// The FIFO queue of a deployed stack.
#[derive(Clone, Debug)]
pub struct Sqs {
    service: Service,
    url: String,
    is_net: bool,
}

impl Sqs {
    /// Opens the queue at `url`.
    pub fn new(aws: &SdkConfig, url: String) -> Self {
        Self { service: Service::sqs(aws), url, is_net: false }
    }

    /// Returns the queue for a function that carries its turns out itself. Its queued turns are for the case that it fails
    /// to, and are received a little later (see `annals_agent::batch`).
    #[must_use]
    pub fn as_safety_net(self) -> Self {
        Self { is_net: true, ..self }
    }

    /// Makes a received message visible again after `pause`, in place of the queue's own time.
    pub async fn retry_in(&self, receipt_handle: &str, pause: Duration) -> Result<(), QueueError> {
        self.call(
            "AmazonSQS.ChangeMessageVisibility",
            &json!({
                "QueueUrl": self.url,
                "ReceiptHandle": receipt_handle,
                "VisibilityTimeout": pause.as_secs(),
            }),
        )
        .await
    }

    async fn send(&self, queued: Queued) -> Result<(), QueueError> {
        let body =
            serde_json::to_string(&queued).map_err(|error| QueueError { reason: error.to_string() })?;
        self.call(
            "AmazonSQS.SendMessage",
            &json!({
                "QueueUrl": self.url,
                "MessageGroupId": queued.turn.chat.session_id().as_str(),
                "MessageDeduplicationId": deduplication_id(),
                "MessageBody": body,
            }),
        )
        .await
    }

    async fn call(&self, target: &'static str, input: &Value) -> Result<(), QueueError> {
        let answered = self.service.call(target, input).await;
        answered.map(drop).map_err(|error| QueueError { reason: chain(&error) })
    }
}

impl TurnQueue for Sqs {
    fn enqueue<'a>(&'a self, turn: &'a Turn) -> BoxFuture<'a, Result<(), QueueError>> {
        let sending = self.send(Queued { turn: turn.clone(), net: self.is_net });
        Box::pin(sending.instrument(tracing::info_span!("enqueue")))
    }
}

/// A turn as it is in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    #[serde(flatten)]
    pub turn: Turn,
    /// True if the sender set out to carry it out itself: [`Sqs::as_safety_net`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub net: bool,
}
