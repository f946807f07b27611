//! A batch of the queue: the turns of one chat as one run, chats side by side, and each failure handed back alone.

use std::collections::BTreeMap;

use annals_shared::chat_key::ChatKey;
use annals_shared::queue::{Sqs, Turn};
use annals_shared::sort_key::SortKey;
use aws_lambda_events::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use futures::future::join_all;

use crate::{Agent, Delivery};

/// The turns of one chat in a batch.
#[derive(Debug, Default)]
struct Group {
    from: Option<SortKey>,
    deliveries: u32,
    messages: Vec<(String, Option<String>)>,
}

/// Answers the chats of `event`; names the queue messages whose turns are not done, so that only those come again.
pub async fn handle(agent: &Agent, queue: &Sqs, event: SqsEvent) -> SqsBatchResponse {
    let (groups, unreadable) = group(event);
    let failed = join_all(groups.into_iter().map(async |(chat, group)| {
        let delivery = Delivery(group.deliveries);
        let Err(error) = agent.run(&chat, group.from.as_ref(), delivery).await else { return Vec::new() };
        tracing::error!(chat = %chat.session_id(), %error, ?delivery, "a turn is not done");
        let pause = error.retry_after(agent.clock.now(), delivery);
        for receipt in group.messages.iter().filter_map(|(_, receipt)| receipt.as_deref()) {
            // Else it comes again after the queue's own time, which is longer than any run.
            if let Err(error) = queue.retry_in(receipt, pause).await {
                tracing::warn!(chat = %chat.session_id(), %error, "the turn comes again later than it could");
            }
        }
        group.messages.into_iter().map(|(id, _)| id).collect()
    }))
    .await;
    let mut response = SqsBatchResponse::default();
    response.batch_item_failures = failed
        .into_iter()
        .flatten()
        .chain(unreadable)
        .map(|id| {
            let mut failure = BatchItemFailure::default();
            failure.item_identifier = id;
            failure
        })
        .collect();
    response
}

/// The turns by chat, and the ids of the messages that are none: those go to the dead letters.
fn group(event: SqsEvent) -> (BTreeMap<ChatKey, Group>, Vec<String>) {
    let mut groups: BTreeMap<ChatKey, Group> = BTreeMap::new();
    let mut unreadable = Vec::new();
    for message in event.records {
        let id = message.message_id.clone().unwrap_or_default();
        let body = message.body.as_deref().unwrap_or_default();
        let Ok(turn) = serde_json::from_str::<Turn>(body) else {
            tracing::error!(message_id = id, "a queue message is no turn");
            unreadable.push(id);
            continue;
        };
        let group = groups.entry(turn.chat).or_default();
        group.from = Some(group.from.take().map_or(turn.from.clone(), |from| from.min(turn.from)));
        group.deliveries = group.deliveries.max(deliveries(&message));
        group.messages.push((id, message.receipt_handle));
    }
    (groups, unreadable)
}

fn deliveries(message: &SqsMessage) -> u32 {
    message.attributes.get("ApproximateReceiveCount").and_then(|count| count.parse().ok()).unwrap_or(1)
}
