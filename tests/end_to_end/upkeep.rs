//! The local program's schedule: chats are visited and records expire as time passes, without anybody asking.

use std::time::Duration;

use annals_store::history::due::{Entry, shard_of};

use crate::app::{TestApp, wait_until};
use crate::updates::private;

const CHAT: &str = "telegram:chat:42";

#[tokio::test]
async fn chats_are_visited_when_due_and_records_expire_afterwards() {
    let app = TestApp::start().await;
    app.handle(private(42, 1, "hello")).await;
    let told = app.history(CHAT).await;
    assert_eq!(told.len(), 2);
    let arrived = app.clock().now();
    let is_stored = async || !app.records(CHAT).await.is_empty();
    let history = app.open_history();
    let chat = CHAT.parse().unwrap();
    let due = async || -> Vec<Entry> {
        let page = history.due(shard_of(&chat), app.clock().now(), 100, None).await.unwrap();
        page.chats.into_iter().flat_map(|due| due.entries).collect()
    };

    app.clock().advance(Duration::from_hours(36) - Duration::from_secs(1));
    assert_eq!(due().await, []);
    app.clock().advance(Duration::from_secs(1));
    wait_until("the chat is visited", async || {
        app.clock().advance(Duration::from_secs(1));
        due().await.is_empty()
    })
    .await;
    assert!(is_stored().await);
    assert_eq!(app.history(CHAT).await, told, "archived, and still in the table");

    let expiry = arrived.plus(Duration::from_hours(48 + 168));
    while app.clock().now() < expiry.minus(Duration::from_hours(3)) {
        app.clock().advance(Duration::from_hours(2));
        assert!(is_stored().await, "at {}, which is before {expiry}", app.clock().now());
    }
    wait_until("the records have expired", async || {
        app.clock().advance(Duration::from_mins(5));
        !is_stored().await
    })
    .await;
    assert!(app.clock().now() > expiry, "{} is before {expiry}", app.clock().now());
    assert_eq!(app.history(CHAT).await, told, "from the archive alone");
    app.finish().await;
}
