use annals_core::sort_key::{MessageId, Timestamp};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use serde_json::json;

use super::*;
use crate::stores::Stores;

fn chat(id: i64) -> ChatKey {
    ChatKey::telegram(id, None)
}

fn key(number: u64) -> SortKey {
    SortKey::message(Timestamp::from_secs(1_763_765_920), &MessageId::number(number))
}

fn open(dir: &tempfile::TempDir) -> (LocalQueue, Ready) {
    LocalQueue::open(dir.path(), Clock::system()).unwrap()
}

async fn enqueue(queue: &LocalQueue, chat_id: i64, number: u64) {
    queue.enqueue(&Turn { chat: chat(chat_id), from: key(number), at: None }).await.unwrap();
}

/// Returns the numbers and messages of the pending turns of a chat, in order.
fn waiting(queue: &LocalQueue, chat_id: i64) -> Vec<(u64, SortKey)> {
    let waiting = queue.waiting();
    let entries = waiting.get(&chat(chat_id)).into_iter().flatten();
    entries.map(|entry| (entry.number, entry.turn.from.clone())).collect()
}

#[tokio::test]
async fn pending_turns_survive_a_restart_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let (queue, _) = open(&dir);
    // More than nine, and not in the order of the messages: a later turn may be of an older message.
    for number in (1..=12).rev() {
        enqueue(&queue, 1, number).await;
    }
    enqueue(&queue, 2, 50).await;
    enqueue(&queue, 1, 13).await;
    let (first, second) = (waiting(&queue, 1), waiting(&queue, 2));
    assert_eq!((first.len(), second.len()), (13, 1));

    let (again, Ready(mut ready)) = open(&dir);
    assert_eq!((waiting(&again, 1), waiting(&again, 2)), (first.clone(), second));
    let announced = [ready.try_recv().unwrap(), ready.try_recv().unwrap()];
    assert_eq!(announced, [chat(1), chat(2)], "each once, the one that has waited longest first");
    assert!(ready.try_recv().is_err());

    // New turns follow, and replace none.
    enqueue(&again, 1, 99).await;
    assert_eq!(waiting(&again, 1).last(), Some(&(15, key(99))));
    let (again, _) = open(&dir);
    assert_eq!(waiting(&again, 1)[..13], first);
    assert_eq!(waiting(&again, 1).len(), 14);
}

#[test]
fn deleted_rows_are_overwritten_in_this_build() {
    let stored = Connection::open_in_memory().unwrap();
    let overwrites: bool = stored.query_row("PRAGMA secure_delete", [], |row| row.get(0)).unwrap();
    assert!(overwrites, "SQLite was built without the flag of .cargo/config.toml");
}

#[tokio::test]
async fn finished_turns_are_deleted_and_newer_ones_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let (queue, _) = open(&dir);
    for number in 1..=3 {
        enqueue(&queue, 1, number).await;
    }
    let batch: Vec<Entry> = queue.waiting()[&chat(1)].iter().cloned().collect();
    enqueue(&queue, 1, 4).await;
    enqueue(&queue, 2, 5).await;
    queue.done(&chat(1), &batch).await;
    let (again, _) = open(&dir);
    for queue in [&queue, &again] {
        assert_eq!(waiting(queue, 1), [(4, key(4))]);
        assert_eq!(waiting(queue, 2), [(5, key(5))]);
    }
}

#[tokio::test]
async fn turns_of_an_earlier_version_are_taken_over_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let dynamodb = Stores::open(dir.path()).await.unwrap().dynamodb;
    let (queue, _) = open(&dir);
    // A folder of this version has no such table.
    queue.take_over(&dynamodb).await.unwrap();
    let mut table =
        dynamodb.create_table().table_name("annals-queue").billing_mode(BillingMode::PayPerRequest);
    for (name, kind) in [("pk", KeyType::Hash), ("sk", KeyType::Range)] {
        let key = KeySchemaElement::builder().attribute_name(name).key_type(kind).build().unwrap();
        let of = AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S);
        table = table.key_schema(key).attribute_definitions(of.build().unwrap());
    }
    table.send().await.unwrap();
    for number in (0..=12).rev() {
        let turn = json!({"chat": chat(1), "from": key(number)}).to_string();
        // A damaged one, which is skipped.
        let turn = if number == 0 { "{".to_owned() } else { turn };
        let put =
            dynamodb.put_item().table_name("annals-queue").item("pk", AttributeValue::S("turns".into()));
        let number = AttributeValue::S(format!("{number:020}"));
        put.item("sk", number).item("turn", AttributeValue::S(turn)).send().await.unwrap();
    }
    for _ in 0..2 {
        queue.take_over(&dynamodb).await.unwrap();
        let taken: Vec<SortKey> = waiting(&open(&dir).0, 1).into_iter().map(|(_, key)| key).collect();
        assert_eq!(taken, (1..=12).map(key).collect::<Vec<_>>());
    }
    assert!(dynamodb.describe_table().table_name("annals-queue").send().await.is_err());
}
