//! Telegram: delivery of replies, and its failures.

use std::time::Duration;

use annals_test_support::telegram_api::Sent;
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

/// The words of `text` that are numbered, in order.
fn numbered(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| word.len() == 5 && word[1..].bytes().all(|byte| byte.is_ascii_digit())).collect()
}

#[tokio::test]
async fn a_long_answer_arrives_in_pieces_with_nothing_lost() {
    let app = TestApp::start().await;
    let words = |letter: char, count: usize, each: &str| -> String {
        (0..count).map(|n| format!("{letter}{n:04}{each}")).collect::<Vec<_>>().concat()
    };
    let answer = format!(
        "# Plan\n\n{}\n\n```rust\n{}```\n\n{}\n\n- **{}**",
        words('a', 700, " 🌱 "),
        words('b', 600, ";\n"),
        words('c', 400, " — "),
        words('d', 300, " ").trim_end(),
    );
    assert!(answer.chars().count() > 10_000);
    app.model().answer_with(&answer);
    app.handle(private(42, 7, "plan my year")).await;

    let sent = app.telegram_api().sent();
    assert!(sent.len() >= 3, "{}", sent.len());
    assert!(sent.iter().all(|sent| sent.text.encode_utf16().count() <= 4096));
    let arrived = sent.iter().map(|sent| sent.text.as_str()).collect::<Vec<_>>().join("\n");
    assert_eq!(numbered(&arrived), numbered(&answer));
    assert!(!arrived.contains("```"));
    let is_code = |sent: &&Sent| sent.entities.iter().any(|entity| entity["type"] == "pre");
    assert!(sent.iter().filter(is_code).count() >= 1);
    let quotes: Vec<_> = sent.iter().map(|sent| sent.reply_to).collect();
    assert!(quotes[0] == Some(7) && quotes[1..].iter().all(Option::is_none), "{quotes:?}");
    assert_eq!(crate::app::text_of(&app.history(CHAT).await[1]), answer);
    app.finish().await;
}

#[tokio::test]
async fn a_message_whose_entities_telegram_refuses_is_sent_plain() {
    let app = app().await;
    app.telegram_api().refuse_entities(true);
    app.model().answer_with("Sow **beans** in `May`.");
    app.handle(private(42, 7, "when?")).await;
    let sent = app.telegram_api().sent();
    assert_eq!(sent.len(), 1);
    assert!(sent[0].entities.is_empty() && sent[0].text.contains("beans"), "{sent:?}");
    assert_eq!(failures(&app, CHAT).await, [Value::Null]);
    app.finish().await;
}

#[tokio::test]
async fn a_throttled_reply_waits_as_long_as_telegram_says() {
    let app = app().await;
    app.telegram_api().rate_limit(2, 7);
    app.handle_as_time_passes(private(42, 7, "hello")).await;
    assert_eq!(app.telegram_api().statuses("sendMessage"), [429, 429, 200]);
    assert!(app.clock().now().as_millis() >= (NOW + 14) * 1000);
    assert_eq!(failures(&app, CHAT).await, [Value::Null]);
    assert_eq!(app.model().count(), 1);
    app.finish().await;
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
