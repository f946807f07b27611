//! SQS: `SendMessage` to the in-process queue, as to a FIFO queue.
//!
//! A deduplication id is required, as by SQS, but not used: a surplus turn does nothing. The queue is the local program's own, so
//! it takes turns only, and the group of a turn is its chat. Attributes of messages are ignored: turns have none.
//!
//! Source: <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html>.

use annals_store::queue::Turn;
use md5::{Digest, Md5};
use serde::Deserialize;
use serde_json::{Value, json};

use super::fault::Fault;
use crate::queue::LocalQueue;

/// Account of all resources.
pub(super) const ACCOUNT: &str = "000000000000";
/// Name of the queue.
pub(super) const QUEUE: &str = "annals.fifo";

const MAX_BODY_BYTES: usize = 1024 * 1024;

/// The SQS service.
pub(super) struct Sqs {
    queue: LocalQueue,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SendMessage {
    queue_url: String,
    message_body: String,
    message_group_id: Option<String>,
    message_deduplication_id: Option<String>,
    delay_seconds: Option<i64>,
}

impl Sqs {
    pub(super) fn new(queue: LocalQueue) -> Self {
        Self { queue }
    }

    /// Carries out the operation `name`.
    pub(super) async fn call(&self, name: &str, body: &[u8]) -> Result<Value, Fault> {
        if name != "SendMessage" {
            let message = format!(
                "{name} is not supported here: the program itself reads the queue, which takes SendMessage only"
            );
            return Err(Fault::new("com.amazonaws.sqs#UnsupportedOperation", message));
        }
        let request: SendMessage = serde_json::from_slice(body).map_err(|_| {
            Fault::new("com.amazon.coral.service#SerializationException", "not a SendMessage")
        })?;
        self.send_message(request).await
    }

    async fn send_message(&self, request: SendMessage) -> Result<Value, Fault> {
        let turn = request.turn()?;
        request.check(&turn)?;
        let number = self.queue.send(&turn).await.map_err(|error| {
            tracing::error!(%error, "failed to store a message of SQS");
            Fault::internal()
        })?;
        // Twenty digits that increase, even across restarts.
        let sequence_number = format!("{number:020}");
        Ok(json!({
            "MessageId": uuid(&sequence_number),
            "MD5OfMessageBody": hex::encode(Md5::digest(&request.message_body)),
            "SequenceNumber": sequence_number,
        }))
    }
}

impl SendMessage {
    fn turn(&self) -> Result<Turn, Fault> {
        let queue = self.queue_url.trim_end_matches('/');
        if !queue.ends_with(&format!("/{ACCOUNT}/{QUEUE}")) {
            let message = "The specified queue does not exist.";
            return Err(Fault::new("com.amazonaws.sqs#QueueDoesNotExist", message));
        }
        if self.message_body.is_empty() || self.message_body.len() > MAX_BODY_BYTES {
            return Err(invalid(
                "One or more parameters are invalid. Reason: Message must be 1 to 1048576 bytes long.",
            ));
        }
        serde_json::from_str(&self.message_body).map_err(|_| {
            let message =
                "this queue takes turns only, {\"chat\": …, \"from\": …}: it has no dead-letter queue";
            Fault::new("com.amazonaws.sqs#InvalidMessageContents", message)
        })
    }

    /// Checks the parameters beside `turn`, whose group must be its chat's.
    fn check(&self, turn: &Turn) -> Result<(), Fault> {
        let Some(group) = &self.message_group_id else {
            let message = "The request must contain the parameter MessageGroupId.";
            return Err(Fault::new("com.amazonaws.sqs#MissingParameter", message));
        };
        let Some(id) = &self.message_deduplication_id else {
            return Err(invalid(
                "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly",
            ));
        };
        for (name, value) in [("MessageGroupId", group), ("MessageDeduplicationId", id)] {
            if !(1..=128).contains(&value.len()) || !value.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(invalid(format!(
                    "Value for parameter {name} is invalid. Reason: {name} can only include alphanumeric and \
                     punctuation characters. 1 to 128 in length."
                )));
            }
        }
        if let Some(seconds) = self.delay_seconds.filter(|seconds| *seconds != 0) {
            return Err(invalid(format!(
                "Value {seconds} for parameter DelaySeconds is invalid. Reason: The request include parameter that is \
                 not valid for this queue type."
            )));
        }
        if turn.chat.session_id().as_str() != group {
            return Err(invalid(
                "this queue has one group for each chat: MessageGroupId must be the chat's session id",
            ));
        }
        Ok(())
    }
}

fn invalid(message: impl Into<String>) -> Fault {
    Fault::new("com.amazonaws.sqs#InvalidParameterValue", message)
}

fn uuid(name: &str) -> String {
    let hex = hex::encode(Md5::digest(name));
    format!("{}-{}-4{}-a{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
}
