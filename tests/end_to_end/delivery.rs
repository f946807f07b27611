//! Telegram: delivery of replies, and its failures. A bot that may not write to a chat retries rarely, and answers again as
//! soon as it may.

use std::time::Duration;

use serde_json::{Value, json};

use crate::app::{NOW, TestApp, wait_until};
use crate::updates::{Update, group, membership, private, supergroup};

const CHAT: &str = "telegram:chat:42";
const GROUP: i64 = -1_002_000_300_500;

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

/// Somebody asks in the group; returns the number of sends so far.
async fn ask(app: &TestApp, id: i64, place: impl Fn(Update) -> Update) -> usize {
    app.handle(place(supergroup(GROUP, id, "@annals_test_bot hello").mention())).await;
    sends(app)
}

#[tokio::test]
async fn a_topic_that_refused_is_asked_again_after_an_hour() {
    let place =
        |update: Update| update.with("message_thread_id", json!(17)).with("is_topic_message", json!(true));
    let app = app().await;
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
    let failed = failures(&app, &format!("telegram:chat:{GROUP}:topic:17")).await;
    let failed: Vec<bool> = failed.iter().map(Value::is_string).collect();
    assert_eq!(failed, [true, true, true, true, true, true, false, false]);
    app.finish().await;
}

/// A person who writes has unblocked the bot; for one who does not, an hour changes nothing.
#[tokio::test]
async fn a_person_is_written_to_as_soon_as_they_write() {
    let app = app().await;
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
