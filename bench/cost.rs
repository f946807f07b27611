//! What a chat costs with 100, 1,000 and 10,000 messages behind it, in DynamoDB's own units. See `bench/README.md`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure ends it with the line that failed")]

mod chat;

use chat::{Chat, Cost};

const LENGTHS: [u64; 3] = [100, 1_000, 10_000];

#[tokio::main]
async fn main() {
    let mut columns: Vec<Vec<Cost>> = Vec::new();
    for length in LENGTHS {
        let mut chat = Chat::new().await;
        chat.live_until(length).await;
        columns.push(chat.costs().await);
    }
    println!("| | {} |", LENGTHS.map(|length| format!("{length} messages")).join(" | "));
    println!("|---|{}", "---|".repeat(LENGTHS.len()));
    for (row, first) in columns[0].iter().enumerate() {
        let cells: Vec<String> = columns.iter().map(|column| column[row].to_string()).collect();
        println!("| {} | {} |", first.what, cells.join(" | "));
    }
}
