//! Telegram: commands act at once, are recorded, and are confirmed once.

use annals_test_support::model_api::texts_of;
use serde_json::Value;

use crate::app::TestApp;
use crate::updates::{Update, private};

const CHAT: &str = "telegram:chat:42";
const NEW: &str = "New conversation. What is on your mind?";
const RESET: &str = "Done: we start over. Earlier messages are no longer in view.";

/// Posts `command` three times, with a restart in between; returns the texts that its chat was sent.
async fn commanded(app: &mut TestApp, command: &Update) -> Vec<String> {
    let before = app.telegram_api().sent().len();
    app.handle(command).await;
    app.receive(command).await;
    app.restart().await;
    app.handle(command).await;
    app.sent_texts().split_off(before)
}

#[tokio::test]
async fn new_starts_a_session() {
    let mut app = TestApp::start().await;
    app.handle(private(42, 1, "I am Ada")).await;
    assert_eq!(commanded(&mut app, &private(42, 2, "/new").command()).await, [NEW]);
    assert_eq!(app.telegram_api().sent()[1].reply_to, Some(2));
    assert_eq!(app.context(CHAT).await, [Value::Null; 0]);

    app.handle(private(42, 3, "Who am I?")).await;
    assert_eq!(texts_of(&app.model().requests()[1], "user"), ["Who am I?"]);
    let session = ["3 user: Who am I?", "3/reply assistant: You said: Who am I?"];
    assert_eq!(
        app.lines(CHAT).await,
        [
            "1 user: I am Ada",
            "1/reply assistant: You said: I am Ada",
            "2/boundary user boundary: /new",
            &format!("2/notice assistant notice: {NEW}"),
            session[0],
            session[1],
        ]
    );
    assert_eq!(app.context_lines(CHAT).await, session);
    app.finish().await;
}

#[tokio::test]
async fn new_with_text_starts_a_session_with_that_message() {
    let mut app = TestApp::start().await;
    app.handle(private(42, 1, "I am Ada")).await;
    let command = private(42, 2, "/NEW@annals_test_bot What to\nsow?").command();
    assert_eq!(commanded(&mut app, &command).await, ["You said: What to\nsow?"]);
    assert_eq!(app.telegram_api().sent()[1].reply_to, Some(2));
    assert_eq!(texts_of(&app.model().requests()[1], "user"), ["What to\nsow?"]);
    assert_eq!(app.model().count(), 2);
    let session = ["2 user: What to\nsow?", "2/reply assistant: You said: What to\nsow?"];
    let boundary = "2/boundary user boundary: /NEW@annals_test_bot What to\nsow?";
    assert_eq!(app.lines(CHAT).await[2..], [boundary, session[0], session[1]]);
    assert_eq!(app.context_lines(CHAT).await, session);
    app.finish().await;
}

#[tokio::test]
async fn reset_starts_over_also_while_the_model_runs() {
    let mut app = TestApp::start().await;
    app.hold(private(42, 1, "I am Ada")).await;
    app.receive(private(42, 2, "/reset please").command()).await;
    assert_eq!(app.telegram_api().sent()[0].text, RESET);
    app.model().resume();
    app.idle().await;
    assert_eq!(app.context(CHAT).await, [Value::Null; 0]);
    assert_eq!(commanded(&mut app, &private(42, 2, "/reset please").command()).await, [""; 0]);
    assert_eq!(
        app.lines(CHAT).await,
        [
            "1 user: I am Ada",
            "1/reply assistant: You said: I am Ada",
            "2/boundary user boundary: /reset please",
            &format!("2/notice assistant notice: {RESET}"),
        ]
    );
    app.finish().await;
}

#[tokio::test]
async fn help_and_start_say_what_there_is_and_change_nothing() {
    let mut app = TestApp::start().await;
    app.handle(private(42, 1, "I am Ada")).await;
    let context = app.context(CHAT).await;
    for (id, command) in [(2, "/help"), (3, "/start ref_42"), (4, "/Help@annals_test_bot")] {
        let told = commanded(&mut app, &private(42, id, command).command()).await;
        assert!(told.len() == 1 && told[0].contains("/reset"), "{command}: {told:?}");
        assert_eq!(app.context(CHAT).await, context);
    }
    let ids = app.ids(CHAT).await;
    assert_eq!(ids, ["1", "1/reply", "2", "2/notice", "3", "3/notice", "4", "4/notice"]);
    assert_eq!(app.model().count(), 1);
    app.finish().await;
}

/// If Telegram is down, the redelivery sends the confirmation.
#[tokio::test]
async fn a_confirmation_that_was_not_sent_is_sent_by_the_redelivery() {
    let app = TestApp::builder().telegram().refusals_are_fine().start().await;
    app.telegram_api().fail(3, 502);
    let update: Value = private(42, 2, "/new").command().into();
    assert_eq!(app.as_time_passes(app.telegram(&update)).await, 503);
    app.receive(update.clone()).await;
    app.receive(update).await;
    assert_eq!(app.telegram_api().sent().len(), 1);
    let notice = format!("2/notice assistant notice: {NEW}");
    assert_eq!(app.lines(CHAT).await, ["2/boundary user boundary: /new", &notice]);
    app.finish().await;
}
