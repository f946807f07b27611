//! Telegram: which messages of a group are answered.

use annals_test_support::model_api::lines_said;
use annals_test_support::telegram_api::BOT_ID;
use serde_json::{Value, json};

use crate::app::TestApp;
use crate::updates::{Update, channel_post, group, supergroup};

fn annals() -> Value {
    json!({"id": BOT_ID, "is_bot": true, "first_name": "Annals", "username": "annals_test_bot"})
}

fn another_bot() -> Value {
    json!({"id": 7_000_002, "is_bot": true, "first_name": "Weather", "username": "weather_bot"})
}

/// Sends each message in a group of its own, and checks if it is answered. All other rules are the parser's tests'.
async fn check(app: &TestApp, cases: Vec<(&str, Update, bool)>) {
    for (name, update, is_answered) in cases {
        let update: Value = update.into();
        let chat_id = update["message"]["chat"]["id"].as_i64().unwrap();
        app.handle(update).await;
        let history = app.lines(&format!("telegram:chat:{chat_id}")).await;
        assert_eq!(history.len(), 1 + usize::from(is_answered), "{name}: {history:#?}");
        assert_eq!(app.telegram_api().sent_to(chat_id).len(), usize::from(is_answered), "{name}");
    }
}

#[tokio::test]
async fn messages_that_address_the_bot_are_answered() {
    let app = TestApp::start().await;
    let mention = group(-1, 1, "👩‍🌾👍 @annals_test_bot when is frost?").mention();
    let cases = vec![
        ("a mention after emoji", mention, true),
        ("no mention", group(-2, 1, "when is frost?"), false),
        ("a reply to the bot", group(-3, 2, "why?").reply_to(1, &annals()), true),
        ("a mention in a supergroup", supergroup(-4, 1, "hi @annals_test_bot").mention(), true),
    ];
    check(&app, cases).await;
    app.finish().await;
}

#[tokio::test]
async fn with_group_activation_always_every_person_is_answered() {
    let app = TestApp::builder().telegram().model().set("GROUP_ACTIVATION", "always").start().await;
    let cases = vec![
        ("no mention", group(-1, 1, "when is frost?"), true),
        ("another bot", group(-3, 1, "it rains").with("from", another_bot()), false),
    ];
    check(&app, cases).await;
    app.finish().await;
}

#[tokio::test]
async fn unaddressed_messages_are_context_of_the_next_answer() {
    let app = TestApp::start().await;
    app.receive(group(-1, 1, "I sow beans")).await;
    app.receive(group(-1, 2, "It rains").with("from", another_bot())).await;
    app.handle(group(-1, 3, "@annals_test_bot too early?").mention()).await;
    let requests = app.model().requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(
        lines_said(&requests[0]),
        ["Ada: I sow beans", "Weather: It rains", "Ada: @annals_test_bot too early?"]
    );
    assert_eq!(app.history("telegram:chat:-1").await.len(), 4);
    let sent = app.telegram_api().sent();
    assert_eq!((sent.len(), sent[0].reply_to), (1, Some(3)));
    app.finish().await;
}

#[tokio::test]
async fn a_channels_post_is_recorded_as_the_channels() {
    let app = TestApp::start().await;
    app.receive(channel_post(-1_002_000_300_600, 31, "First strawberries")).await;
    app.handle(channel_post(-1_002_000_300_600, 32, "@annals_test_bot how many?").mention()).await;
    let history = app.history("telegram:chat:-1002000300600").await;
    assert_eq!(history[0]["metadata"]["userId"], "-1002000300600");
    assert_eq!(history[0]["metadata"]["chatType"], "channel");
    assert_eq!(history.len(), 3);
    assert_eq!(app.telegram_api().sent_to(-1_002_000_300_600)[0].reply_to, Some(32));
    app.finish().await;
}
