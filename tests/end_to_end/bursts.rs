//! `REPLY_QUIET`: what people send in several messages gets one answer.

use std::time::Duration;

use annals_test_support::model_api::texts_of;
use serde_json::json;

use crate::app::{TestApp, a_while};
use crate::turns::assert_answered_once;
use crate::updates::{group, private};

const CHAT: &str = "telegram:chat:42";

async fn with_quiet(quiet: &str) -> TestApp {
    TestApp::builder().telegram().model().set("REPLY_QUIET", quiet).start().await
}

#[tokio::test]
async fn a_burst_gets_one_answer_once_the_chat_is_quiet() {
    let app = with_quiet("").await;
    for (id, text) in [(1, "So"), (2, "I have a question"), (3, "about beans")] {
        app.receive(private(42, id, text)).await;
        app.clock().advance(Duration::from_millis(900));
        a_while().await;
        assert_eq!(app.model().count(), 0, "{text}");
    }
    app.clock().advance(Duration::from_millis(99));
    a_while().await;
    assert_eq!(app.model().count(), 0, "a second is not over");
    app.clock().advance(Duration::from_millis(1));
    app.idle().await;
    assert_eq!(texts_of(&app.model().requests()[0], "user"), ["So\nI have a question\nabout beans"]);
    assert_eq!((app.model().count(), app.telegram_api().sent().len()), (1, 1));
    assert_answered_once(&app.records(CHAT).await);
    app.finish().await;
}

#[tokio::test]
async fn a_burst_without_end_is_answered_after_five_quiet_times() {
    let app = with_quiet("2s").await;
    for second in 0..10 {
        app.receive(private(42, second + 1, "and")).await;
        assert_eq!(app.model().count(), 0, "{second}");
        app.clock().advance(Duration::from_secs(1));
        a_while().await;
    }
    app.model().wait_for(1).await;
    assert_eq!(texts_of(&app.model().requests()[0], "user"), [["and"; 10].join("\n")]);
    app.idle_as_time_passes().await;
    assert_eq!(app.model().count(), 1);
    app.finish().await;
}

/// In a group only those are waited for who wait for their answer, with whatever they say.
#[tokio::test]
async fn in_a_group_only_the_asker_s_own_messages_extend_the_wait() {
    let app = with_quiet("1s").await;
    let by = |user: i64, id, text: &str| group(-100, id, text).by(user);
    app.receive(by(42, 1, "@annals_test_bot what is this?").mention()).await;
    app.clock().advance(Duration::from_millis(600));
    app.receive(by(43, 2, "lunch?")).await;
    a_while().await;
    app.clock().advance(Duration::from_millis(400));
    app.idle().await;
    assert_eq!(app.model().count(), 1);

    app.receive(by(42, 3, "@annals_test_bot and this?").mention()).await;
    app.clock().advance(Duration::from_millis(600));
    app.receive(by(42, 4, "the blue one")).await;
    a_while().await;
    app.clock().advance(Duration::from_millis(400));
    a_while().await;
    assert_eq!(app.model().count(), 1, "the same person goes on");
    app.clock().advance(Duration::from_millis(600));
    app.idle().await;
    assert_eq!(app.model().count(), 2);
    app.finish().await;
}

/// Messages of programs, commands, and messages that have waited for long, as after a restart.
#[tokio::test]
async fn programs_commands_and_old_messages_are_answered_without_waiting() {
    let mut app = with_quiet("10s").await;
    app.say("c1", &json!({"userId": "ada", "text": "hello"})).await;
    assert_eq!(app.model().count(), 1);
    app.handle(private(42, 1, "/compact").command()).await;
    assert_eq!(app.telegram_api().sent().len(), 1);
    app.receive(private(42, 2, "hello")).await;
    app.stop().await;
    app.clock().advance(Duration::from_mins(1));
    app.restart().await;
    app.idle().await;
    assert_eq!(app.model().count(), 2);
    app.finish().await;
}
