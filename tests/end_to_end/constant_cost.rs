//! The cost of a chat does not depend on its length. The figures themselves are in `bench/README.md`.

use crate::long_chat::{Chat, Cost};

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

/// Prints the table of `bench/README.md`.
#[tokio::test]
#[ignore = "takes minutes: cargo test -p annals --test end_to_end -- --ignored --nocapture costs_of_long_chats"]
async fn costs_of_long_chats() {
    const LENGTHS: [u64; 3] = [100, 1_000, 10_000];
    let mut columns = Vec::new();
    for length in LENGTHS {
        columns.push(costs(length).await);
    }
    println!("| | {} |", LENGTHS.map(|length| format!("{length} messages")).join(" | "));
    println!("|---|{}", "---|".repeat(LENGTHS.len()));
    for (row, first) in columns[0].iter().enumerate() {
        let cells: Vec<String> = columns.iter().map(|column| column[row].to_string()).collect();
        println!("| {} | {} |", first.what, cells.join(" | "));
    }
}
