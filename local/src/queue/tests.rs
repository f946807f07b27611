use annals_core::sort_key::MessageId;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Region};

use super::*;
use crate::stores::Stores;

fn chat(id: i64) -> ChatKey {
    ChatKey::telegram(id, None)
}

fn key(number: u64) -> SortKey {
    SortKey::message(Timestamp::from_secs(1_763_765_920), &MessageId::number(number))
}

async fn enqueue(queue: &LocalQueue, chat_id: i64, number: u64) {
    queue.enqueue(&Turn { chat: chat(chat_id), from: key(number), at: None }).await.unwrap();
}

/// Returns the numbers and messages of the pending turns of a chat, in order.
fn waiting(queue: &LocalQueue, chat_id: i64) -> Vec<(u64, SortKey)> {
    let state = queue.state();
    let entries = state.waiting.get(&chat(chat_id)).into_iter().flatten();
    entries.map(|entry| (entry.number, entry.turn.from.clone())).collect()
}

#[tokio::test]
async fn pending_turns_survive_a_restart_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let client = Stores::open(dir.path()).await.unwrap().dynamodb;
    let (queue, _) = LocalQueue::open(client.clone(), Clock::system()).await.unwrap();
    // More than nine, and not in the order of the messages: a later turn may be of an older message.
    for number in (1..=12).rev() {
        enqueue(&queue, 1, number).await;
    }
    enqueue(&queue, 2, 50).await;
    enqueue(&queue, 1, 13).await;
    let (first, second) = (waiting(&queue, 1), waiting(&queue, 2));
    assert_eq!((first.len(), second.len()), (13, 1));

    let (again, Ready(mut ready)) = LocalQueue::open(client.clone(), Clock::system()).await.unwrap();
    assert_eq!((waiting(&again, 1), waiting(&again, 2)), (first.clone(), second));
    let announced = [ready.try_recv().unwrap(), ready.try_recv().unwrap()];
    assert_eq!(announced, [chat(1), chat(2)], "each once, the one that has waited longest first");
    assert!(ready.try_recv().is_err());

    // New turns follow, and replace none.
    enqueue(&again, 1, 99).await;
    assert_eq!(waiting(&again, 1).last(), Some(&(14, key(99))));
    let (again, _) = LocalQueue::open(client, Clock::system()).await.unwrap();
    assert_eq!(waiting(&again, 1)[..13], first);
    assert_eq!(waiting(&again, 1).len(), 14);
}

#[tokio::test]
async fn finished_turns_are_deleted_and_newer_ones_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let client = Stores::open(dir.path()).await.unwrap().dynamodb;
    let (queue, _) = LocalQueue::open(client.clone(), Clock::system()).await.unwrap();
    for number in 1..=3 {
        enqueue(&queue, 1, number).await;
    }
    let batch: Vec<Entry> = queue.state().waiting[&chat(1)].iter().cloned().collect();
    enqueue(&queue, 1, 4).await;
    enqueue(&queue, 2, 5).await;
    queue.done(&chat(1), &batch).await;
    let (again, _) = LocalQueue::open(client, Clock::system()).await.unwrap();
    for queue in [&queue, &again] {
        assert_eq!(waiting(queue, 1), [(3, key(4))]);
        assert_eq!(waiting(queue, 2), [(4, key(5))]);
    }
}

/// A put whose answer is lost is one that failed, for its caller.
#[tokio::test]
async fn a_turn_that_may_be_stored_is_announced() {
    let dir = tempfile::tempdir().unwrap();
    let client = Stores::open(dir.path()).await.unwrap().dynamodb;
    let (queue, Ready(mut ready)) = LocalQueue::open(client, Clock::system()).await.unwrap();
    let nowhere = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("local"))
        .allow_no_auth()
        .endpoint_url("http://127.0.0.1:9")
        .retry_config(RetryConfig::disabled());
    let cut_off = LocalQueue { client: Client::from_conf(nowhere.build()), ..queue.clone() };
    let turn = Turn { chat: chat(1), from: key(1), at: None };
    cut_off.send(&turn).await.unwrap_err();
    assert_eq!(waiting(&queue, 1), [(0, key(1))]);
    assert_eq!(ready.try_recv().unwrap(), chat(1));
}
