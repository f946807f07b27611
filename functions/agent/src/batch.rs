//! A batch of the queue: the turns of one chat as one run, chats side by side, and each failure handed back alone.
//!
//! Turns of one chat are of one message group, and are done or not done together: none is acknowledged after one that
//! failed. A queue message that is not a turn fails alone, even before turns of its group. Those turns are done anyway,
//! since a turn carries no message and names no other; to hand them back too would delay answers, and use up attempts, for
//! a message that nobody can read.
//!
//! An endpoint that runs its own turns queues each as well, in case that its run does not finish ([`Queued::net`]). Such a
//! turn is put back unread the first time, since the endpoint has only just begun; after that it costs a look at the chat,
//! and a run if anything is unanswered.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::sort_key::{SortKey, Timestamp};
use annals_io::metrics::Metric;
use annals_runtime::telemetry;
use annals_store::history::HistoryError;
use annals_store::queue::{Queued, Sqs};
use aws_lambda_events::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use futures::FutureExt;
use futures::future::join_all;
use tracing::Instrument;

use crate::{Agent, Attempt, TurnError};

/// The turns of one chat in a batch.
#[derive(Debug, Default)]
struct Group {
    named: Vec<SortKey>,
    at: Option<Timestamp>,
    /// Highest number of times that the queue has delivered one of the turns.
    deliveries: u32,
    /// True if one of the turns is not run by its endpoint.
    is_to_run: bool,
    messages: Vec<Message>,
}

/// Time that an endpoint gets to run its own turn: most answers are stored by then. The chat's other turns wait as long.
const NET_PAUSE: Duration = Duration::from_secs(20);

/// The id and the receipt handle of a message.
type Message = (String, Option<String>);

/// Answers the chats of `event`; returns the ids of the queue messages whose turns are not done, so that only those are
/// delivered again.
pub async fn handle(agent: &Agent, queue: &Sqs, event: SqsEvent) -> SqsBatchResponse {
    let (groups, unreadable) = group(event);
    // At once, so that they reach the dead letters without delaying their groups.
    hand_back(queue, &unreadable, Duration::ZERO).await;
    let failed = join_all(groups.into_iter().map(|(chat, group)| {
        let span = telemetry::of_chat(&chat);
        run(agent, queue, chat, group).instrument(span)
    }))
    .await;
    let mut response = SqsBatchResponse::default();
    response.batch_item_failures = failed
        .into_iter()
        .flatten()
        .chain(unreadable.into_iter().map(|(id, _)| id))
        .map(|id| {
            let mut failure = BatchItemFailure::default();
            failure.item_identifier = id;
            failure
        })
        .collect();
    response
}

/// Makes messages visible again after `pause`. Otherwise the queue delivers them after its visibility timeout, which is longer
/// than any run, and holds their group until then.
async fn hand_back(queue: &Sqs, messages: &[Message], pause: Duration) {
    for receipt in messages.iter().filter_map(|(_, receipt)| receipt.as_deref()) {
        if let Err(error) = queue.retry_in(receipt, pause).await {
            tracing::warn!(%error, "failed to make a queue message visible; it is delivered again after the visibility timeout");
        }
    }
}

/// Runs the turns of one chat; returns the ids of those that are not done, which are all or none.
async fn run(agent: &Agent, queue: &Sqs, chat: ChatKey, group: Group) -> Vec<String> {
    if !group.is_to_run {
        if group.deliveries <= 1 {
            hand_back(queue, &group.messages, NET_PAUSE).await;
            return group.messages.into_iter().map(|(id, _)| id).collect();
        }
        match is_done(agent, &chat, group.named.iter().min()).await {
            Ok(true) => return Vec::new(),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "failed to check whether a turn is done; it is run"),
        }
    }
    agent.settle(group.at).await;
    let run = agent.run_within_lease(&chat, &group.named);
    // A panic is a failure of this chat; the other chats continue.
    let pause = match AssertUnwindSafe(run).catch_unwind().await {
        Ok(Ok(())) => return Vec::new(),
        Ok(Err(undone)) => {
            let (error, attempt) = (&undone.error, undone.attempt.0);
            if error.continues_elsewhere() {
                tracing::info!(%error, attempt, deliveries = group.deliveries, "a turn is not over; the queue delivers it again");
            } else {
                tracing::error!(%error, attempt, deliveries = group.deliveries, "failed to finish a turn; the queue delivers it again");
            }
            let pause = undone.retry_after(agent.clock.now(), group.deliveries);
            match error {
                // The run that has the chat is the one that the net is for, and it may fail long before its lease ends.
                TurnError::Busy { .. } if !group.is_to_run => pause.min(NET_PAUSE),
                _ => pause,
            }
        }
        Err(_) => {
            tracing::error!(
                deliveries = group.deliveries,
                "failed to finish a turn: the run panicked; the queue delivers it again"
            );
            agent.metrics.add(Metric::TurnFailures, 1);
            Attempt(group.deliveries).pause()
        }
    };
    hand_back(queue, &group.messages, pause).await;
    group.messages.into_iter().map(|(id, _)| id).collect()
}

/// Returns true if nothing is unanswered in `chat` from `from` on, and no run has left anything open. Two reads.
async fn is_done(agent: &Agent, chat: &ChatKey, from: Option<&SortKey>) -> Result<bool, HistoryError> {
    let head = agent.history.head(chat).await?;
    if head.turn.is_some() || head.stopped_to.is_some() {
        return Ok(false);
    }
    let seen = agent.history.context(chat, &head, from, &agent.policy(0)).await?.context;
    let is_open = [&seen.unanswered, &seen.to_compact, &seen.to_send, &seen.to_resume];
    Ok(is_open.into_iter().all(Vec::is_empty))
}

/// Returns the turns by chat, and the queue messages that are not turns.
fn group(event: SqsEvent) -> (BTreeMap<ChatKey, Group>, Vec<Message>) {
    let mut groups: BTreeMap<ChatKey, Group> = BTreeMap::new();
    let mut unreadable = Vec::new();
    for message in event.records {
        let id = message.message_id.clone().unwrap_or_default();
        let body = message.body.as_deref().unwrap_or_default();
        let Ok(Queued { turn, net }) = serde_json::from_str(body) else {
            tracing::error!(
                message_id = id,
                "failed to parse a queue message as a turn; it goes to the dead letters"
            );
            unreadable.push((id, message.receipt_handle));
            continue;
        };
        let group = groups.entry(turn.chat).or_default();
        group.named.push(turn.from);
        group.at = group.at.max(turn.at);
        group.is_to_run |= !net;
        group.deliveries = group.deliveries.max(deliveries(&message));
        group.messages.push((id, message.receipt_handle));
    }
    (groups, unreadable)
}

fn deliveries(message: &SqsMessage) -> u32 {
    message.attributes.get("ApproximateReceiveCount").and_then(|count| count.parse().ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const OWN: &str = "telegram:chat:42";
    const OTHER: &str = "http:chat:app:c1";

    fn turn(chat: &str, from: u64) -> String {
        json!({"chat": chat, "from": format!("1763765920000#{from:020}")}).to_string()
    }

    /// Returns a message of the queue, received for the `count`th time.
    fn message(id: &str, body: &str, count: &str) -> Value {
        json!({
            "messageId": id, "receiptHandle": format!("receipt-{id}"), "body": body,
            "attributes": {"ApproximateReceiveCount": count, "MessageGroupId": "g"}, "eventSource": "aws:sqs",
        })
    }

    fn event(messages: &[Value]) -> SqsEvent {
        serde_json::from_value(json!({"Records": messages})).unwrap()
    }

    #[test]
    fn the_turns_of_a_chat_are_one_run_from_the_earliest_message_on() {
        let (groups, unreadable) = group(event(&[
            message("a", &turn(OWN, 7), "1"),
            message("b", &turn(OTHER, 1), "1"),
            message("c", &turn(OWN, 5), "3"),
            message("d", &turn(OWN, 9), "2"),
        ]));
        assert_eq!((groups.len(), unreadable.len()), (2, 0));
        let own = &groups[&OWN.parse().unwrap()];
        let named: Vec<_> = own.named.iter().map(|key| &key.as_str()[32..]).collect();
        assert_eq!(named, ["07", "05", "09"]);
        assert_eq!(own.deliveries, 3, "of the turn that was delivered most often");
        let receipt = |id: &str| (id.to_owned(), Some(format!("receipt-{id}")));
        assert_eq!(own.messages, ["a", "c", "d"].map(receipt), "each is handed back, and made visible again");
        let other = &groups[&OTHER.parse().unwrap()];
        assert_eq!((other.deliveries, &other.messages[..]), (1, &[receipt("b")][..]));
        assert!(own.is_to_run && other.is_to_run);
    }

    #[test]
    fn a_turn_that_its_endpoint_runs_is_left_to_it_unless_the_chat_has_others() {
        let net = |chat: &str, from: u64| {
            let mut turn: Value = serde_json::from_str(&turn(chat, from)).unwrap();
            turn["net"] = true.into();
            turn.to_string()
        };
        let (groups, unreadable) = group(event(&[
            message("a", &net(OWN, 7), "1"),
            message("b", &net(OTHER, 1), "1"),
            message("c", &turn(OTHER, 2), "1"),
        ]));
        assert!(unreadable.is_empty());
        assert!(!groups[&OWN.parse().unwrap()].is_to_run);
        assert!(groups[&OTHER.parse().unwrap()].is_to_run);
    }

    #[test]
    fn a_message_that_is_not_a_turn_fails_and_keeps_no_turn_from_running() {
        let head = json!({"chat": OWN, "from": "!head"}).to_string();
        let nobody = json!({"chat": "nonsense", "from": "1763765920000#7"}).to_string();
        let mut without_body = message("none", "", "1");
        without_body.as_object_mut().unwrap().remove("body");
        let (groups, unreadable) = group(event(&[
            message("text", "hello", "1"),
            message("head", &head, "1"),
            message("good", &turn(OWN, 7), "1"),
            message("nobody", &nobody, "1"),
            without_body,
        ]));
        let unreadable: Vec<_> = unreadable.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(unreadable, ["text", "head", "nobody", "none"]);
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[&OWN.parse().unwrap()].messages[0].0, "good");
    }

    #[test]
    fn a_message_without_a_count_counts_as_the_first_delivery() {
        let counted = |attributes: Value| {
            let mut message = message("a", &turn(OWN, 7), "1");
            message["attributes"] = attributes;
            let (groups, _) = group(event(&[message]));
            groups[&OWN.parse().unwrap()].deliveries
        };
        for (attributes, deliveries) in [
            (json!({"ApproximateReceiveCount": "1"}), 1),
            (json!({"ApproximateReceiveCount": "15"}), 15),
            (json!({"ApproximateReceiveCount": "many"}), 1),
            (json!({}), 1),
            (Value::Null, 1),
        ] {
            assert_eq!(counted(attributes.clone()), deliveries, "{attributes}");
        }
    }
}
