//! Telegram: a bot that may not write to a chat retries rarely, and answers again as soon as it may.

use std::time::Duration;

use serde_json::json;

use crate::app::TestApp;
use crate::updates::{Update, private, supergroup};

const GROUP: i64 = -1_002_000_300_500;

/// Counts the sends of a message, accepted or refused.
fn sends(app: &TestApp) -> usize {
    app.telegram_api().statuses("sendMessage").len()
}

/// Somebody asks in the group; returns the number of sends so far.
async fn ask(app: &TestApp, id: i64, place: impl Fn(Update) -> Update) -> usize {
    app.handle(place(supergroup(GROUP, id, "@annals_test_bot hello").mention())).await;
    sends(app)
}

#[tokio::test]
async fn a_topic_that_refused_is_asked_again_after_an_hour() {
    let place =
        |update: Update| update.with("message_thread_id", json!(17)).with("is_topic_message", json!(true));
    let app = TestApp::builder().telegram().model().refusals_are_fine().start().await;
    let later = |minutes| app.clock().advance(Duration::from_mins(minutes));
    app.telegram_api().block(GROUP);
    assert_eq!(ask(&app, 1, &place).await, 1);
    assert_eq!(ask(&app, 2, &place).await, 1);
    later(59);
    assert_eq!(ask(&app, 3, &place).await, 1, "within the hour");
    later(2);
    assert_eq!(ask(&app, 4, &place).await, 2, "after an hour");
    assert_eq!(ask(&app, 5, &place).await, 2, "once");
    later(59);
    assert_eq!(ask(&app, 6, &place).await, 2, "within the hour of the second refusal");

    app.telegram_api().unblock(GROUP);
    later(2);
    assert_eq!(ask(&app, 7, &place).await, 3);
    assert_eq!(ask(&app, 8, &place).await, 4, "nothing is left of the refusal");
    let quotes: Vec<_> = app.telegram_api().sent().iter().map(|sent| sent.reply_to).collect();
    assert_eq!(quotes, [Some(7), Some(8)]);
    // Every message was answered in the history, and records the result of the delivery.
    let history = app.history(&format!("telegram:chat:{GROUP}:topic:17")).await;
    let failed: Vec<bool> = history
        .iter()
        .filter(|message| message["role"] == "assistant")
        .map(|reply| reply["metadata"]["deliveryFailure"]["reason"].is_string())
        .collect();
    assert_eq!(failed, [true, true, true, true, true, true, false, false]);
    app.finish().await;
}

/// A person who writes has unblocked the bot; for one who does not, an hour changes nothing.
#[tokio::test]
async fn a_person_is_written_to_as_soon_as_they_write() {
    let app = TestApp::builder().telegram().model().refusals_are_fine().start().await;
    app.telegram_api().block(42);
    app.handle(private(42, 1, "hello")).await;
    assert_eq!(sends(&app), 1);
    app.telegram_api().unblock(42);
    app.clock().advance(Duration::from_hours(2));
    // Said before the block, and delivered late.
    app.handle(private(42, 2, "are you there?")).await;
    assert_eq!(sends(&app), 1, "it was said before the refusal");
    app.handle(private(42, 3, "me again").at(70)).await;
    assert_eq!(sends(&app), 2, "sent after the refusal");
    app.finish().await;
}
