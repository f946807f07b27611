//! Telegram: delivery of replies, and its failures.

use std::time::Duration;

use serde_json::{Value, json};

use crate::app::{NOW, TestApp, wait_until};
use crate::updates::{group, membership, private};

const CHAT: &str = "telegram:chat:42";

async fn app() -> TestApp {
    TestApp::builder().telegram().model().refusals_are_fine().start().await
}

/// Counts the sends of a message, accepted or refused.
fn sends(app: &TestApp) -> usize {
    app.telegram_api().statuses("sendMessage").len()
}

/// Returns the reason why each reply of `chat` was not delivered.
async fn failures(app: &TestApp, chat: &str) -> Vec<Value> {
    let history = app.history(chat).await;
    let replies = history.iter().filter(|message| message["role"] == "assistant");
    replies.map(|reply| reply["metadata"]["deliveryFailure"]["reason"].clone()).collect()
}

/// The model has its time before hours pass in moments.
async fn is_answered(app: &TestApp, records: usize) {
    wait_until("the reply is stored", async || app.records(CHAT).await.len() == records).await;
}

#[tokio::test]
async fn a_reply_outlasts_an_outage_of_telegrams() {
    let app = app().await;
    // Three tries in each delivery of the queue: this is an outage of ten minutes.
    app.telegram_api().fail(25, 502);
    app.receive(private(42, 7, "hello")).await;
    is_answered(&app, 2).await;
    app.idle_as_hours_pass().await;
    assert_eq!((app.telegram_api().sent().len(), app.model().count()), (1, 1));
    assert_eq!(failures(&app, CHAT).await, [Value::Null]);

    app.telegram_api().fail(45, 502);
    app.receive(private(42, 8, "again")).await;
    is_answered(&app, 4).await;
    app.idle_as_hours_pass().await;
    assert_eq!(app.telegram_api().sent().len(), 1, "a reply was sent after its delivery was given up");
    assert!(failures(&app, CHAT).await[1].is_string());
    app.finish().await;
}

/// The queue counts how often its turns came; the tries of a reply that Telegram did not take are not those of the next.
#[tokio::test]
async fn a_message_after_an_undelivered_reply_has_its_own_attempts() {
    let app = app().await;
    // Three tries in each of three deliveries; at the fourth it arrives, and that run goes on.
    app.telegram_api().fail(9, 502);
    app.receive(private(42, 7, "hello")).await;
    is_answered(&app, 2).await;
    app.model().fail(3, 529);
    app.handle_as_time_passes(private(42, 8, "and now?")).await;
    assert_eq!(app.model().count(), 1 + 3 + 1);
    let told = app.sent_texts();
    assert_eq!(told, ["You said: hello", "You said: and now?"]);
    assert_eq!(app.lines(CHAT).await[3], "8/reply assistant: You said: and now?");
    app.finish().await;
}

#[tokio::test]
async fn a_group_that_removed_the_bot_is_written_to_when_it_is_a_member_again() {
    let app = app().await;
    let mention = |id| group(-5, id, "@annals_test_bot hello").mention();
    app.telegram_api().block(-5);
    app.handle(mention(7)).await;
    assert_eq!(sends(&app), 1);

    app.clock().advance(Duration::from_mins(1));
    app.handle(mention(8).at(100)).await;
    assert_eq!(sends(&app), 1, "a reply was sent to a group without the bot");
    let reason = || json!("Forbidden: bot was blocked by the user");
    assert_eq!(failures(&app, "telegram:chat:-5").await, [reason(), reason()]);

    app.telegram_api().unblock(-5);
    let chat = json!({"id": -5, "type": "group", "title": "Allotment"});
    app.receive(membership(&chat, "member", NOW + 60)).await;
    app.handle(mention(9).at(130)).await;
    assert_eq!(app.telegram_api().sent().iter().map(|sent| sent.reply_to).collect::<Vec<_>>(), [Some(9)]);

    app.receive(membership(&chat, "kicked", NOW + 90)).await;
    app.handle(mention(10).at(160)).await;
    assert_eq!(sends(&app), 2, "a reply was sent to a group that had announced the removal");
    app.finish().await;
}
