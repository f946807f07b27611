//! The cost of a chat does not depend on its length. The figures themselves are in `bench/README.md`.

use std::time::Duration;

use crate::long_chat::{Chat, Cost};

/// Grow with the records of the last nine days, which a chat of 100 messages has not got yet.
const GROWS_WITH_THE_TABLE: [&str; 3] = [
    "compactor's visit, 100 messages to archive",
    "compactor's visit, nothing to do",
    "oldest page of 50, from the archive",
];

async fn costs(length: u64, pace: Duration) -> Vec<Cost> {
    let mut chat = Chat::new(pace).await;
    chat.live_until(length).await;
    chat.costs().await
}

#[tokio::test]
async fn a_chat_of_four_hundred_messages_costs_what_one_of_a_hundred_does() {
    // The table holds nine days: the last 220 messages.
    let pace = Duration::from_hours(1);
    let (short, long) = (costs(100, pace).await, costs(400, pace).await);
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
    /// The table holds some 650 messages: nine days of them.
    const PACE: Duration = Duration::from_mins(20);
    let mut columns = Vec::new();
    for length in LENGTHS {
        columns.push(costs(length, PACE).await);
    }
    println!("| | {} |", LENGTHS.map(|length| format!("{length} messages")).join(" | "));
    println!("|---|{}", "---|".repeat(LENGTHS.len()));
    for (row, first) in columns[0].iter().enumerate() {
        let cells: Vec<String> = columns.iter().map(|column| column[row].to_string()).collect();
        println!("| {} | {} |", first.what, cells.join(" | "));
    }
}
