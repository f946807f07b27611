//! What a chat costs does not depend on what lies behind it. The figures themselves are in `bench/README.md`.

use crate::bench::{Chat, Cost};

/// Grow with the records of the last nine days, which a chat of 100 messages has not got yet.
const GROWS_WITH_THE_TABLE: [&str; 3] = [
    "compactor's visit, 100 messages to archive",
    "compactor's visit, nothing to do",
    "oldest page of 50, from the archive",
];

async fn costs(length: u64) -> Vec<Cost> {
    let mut chat = Chat::new().await;
    chat.live_until(length).await;
    chat.costs().await
}

#[tokio::test]
async fn a_chat_of_a_thousand_messages_costs_what_one_of_a_hundred_does() {
    let (short, long) = (costs(100).await, costs(1_000).await);
    assert_eq!(short.len(), 11);
    for (short, long) in short.iter().zip(&long) {
        if !GROWS_WITH_THE_TABLE.contains(&short.what) {
            assert_eq!(short, long);
        }
    }
    let turn = &long.iter().find(|cost| cost.what.starts_with("turn, with no")).unwrap().consumed;
    assert!(turn.write_units <= 4.0 && turn.calls <= 6, "{turn:?}");
}
