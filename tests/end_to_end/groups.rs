//! Telegram: which messages of a group are answered.

use serde_json::{Value, json};

use crate::app::TestApp;
use crate::support::model_api::lines_said;
use crate::support::telegram_api::BOT_ID;
use crate::updates::{Update, channel_post, group, supergroup};

fn annals() -> Value {
    json!({"id": BOT_ID, "is_bot": true, "first_name": "Annals", "username": "annals_test_bot"})
}

fn another_bot() -> Value {
    json!({"id": 7_000_002, "is_bot": true, "first_name": "Weather", "username": "weather_bot"})
}

/// Each message in a group of its own, and whether it is answered.
async fn check(app: &TestApp, cases: Vec<(&str, Update, bool)>) {
    for (name, update, is_answered) in cases {
        let update: Value = update.into();
        let chat_id = update["message"]["chat"]["id"].as_i64().unwrap();
        app.receive(update).await;
        app.idle().await;
        let history = app.lines(&format!("telegram:chat:{chat_id}")).await;
        assert_eq!(history.len(), 1 + usize::from(is_answered), "{name}: {history:#?}");
        assert_eq!(app.telegram_api().sent_to(chat_id).len(), usize::from(is_answered), "{name}");
    }
}

#[tokio::test]
async fn who_addresses_the_bot_is_answered() {
    let app = TestApp::start().await;
    let to_bot = |entity: &str| group(-6, 1, "Annals, you there?").entity(entity, "Annals");
    let text_mention = |user: Value| {
        let mut update: Value = to_bot("text_mention").into();
        update["message"]["entities"][0]["user"] = user;
        to_bot("bold").with("entities", update["message"]["entities"].clone())
    };
    check(
        &app,
        vec![
            ("a mention behind emoji", group(-1, 1, "👩‍🌾👍 @annals_test_bot when is frost?").mention(), true),
            (
                "a mention in other letters",
                group(-2, 1, "@ANNALS_Test_Bot hi").entity("mention", "@ANNALS_Test_Bot"),
                true,
            ),
            ("nobody", group(-3, 1, "when is frost?"), false),
            ("another", group(-4, 1, "@annals_test_bot2 hi").entity("mention", "@annals_test_bot2"), false),
            (
                "an address with the name in it",
                group(-5, 1, "a@annals_test_bot.com").entity("email", "a@annals_test_bot.com"),
                false,
            ),
            ("a mention without a name", text_mention(annals()), true),
            (
                "a mention of somebody without a name",
                text_mention(json!({"id": 43})).with("chat", json!({"id": -7, "type": "group"})),
                false,
            ),
            ("a reply to the bot", group(-8, 2, "why?").reply_to(1, &annals()), true),
            (
                "a reply to a person",
                group(-9, 2, "why?").reply_to(1, &json!({"id": 43, "is_bot": false})),
                false,
            ),
            ("a reply to another bot", group(-10, 2, "why?").reply_to(1, &another_bot()), false),
            ("a command with its name", group(-11, 1, "/weather@annals_test_bot").command(), true),
            ("another bot's command", group(-12, 1, "/weather@weather_bot").command(), false),
            ("a supergroup's mention", supergroup(-13, 1, "hi @annals_test_bot").mention(), true),
            (
                "another bot",
                group(-14, 1, "@annals_test_bot it rains").mention().with("from", another_bot()),
                false,
            ),
            (
                "another bot's reply",
                group(-15, 2, "it rains").reply_to(1, &annals()).with("from", another_bot()),
                false,
            ),
            ("a mention in a caption", group(-16, 1, "@annals_test_bot this?").mention().captioned(), true),
        ],
    )
    .await;
    app.finish().await;
}

#[tokio::test]
async fn with_activation_always_every_person_is_answered() {
    let app = TestApp::builder().telegram().model().set("GROUP_ACTIVATION", "always").start().await;
    check(
        &app,
        vec![
            ("nobody addressed", group(-1, 1, "when is frost?"), true),
            ("another bot's command", group(-2, 1, "/weather@weather_bot").command(), false),
            ("another bot", group(-3, 1, "it rains").with("from", another_bot()), false),
        ],
    )
    .await;
    app.finish().await;
}

#[tokio::test]
async fn what_was_not_addressed_is_in_view_of_the_next_answer() {
    let app = TestApp::start().await;
    app.receive(group(-1, 1, "I sow beans")).await;
    app.receive(group(-1, 2, "It rains").with("from", another_bot())).await;
    app.receive(group(-1, 3, "@annals_test_bot too early?").mention()).await;
    app.idle().await;
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
    app.receive(channel_post(-1_002_000_300_600, 32, "@annals_test_bot how many?").mention()).await;
    app.idle().await;
    let history = app.history("telegram:chat:-1002000300600").await;
    assert_eq!(history[0]["metadata"]["userId"], "-1002000300600");
    assert_eq!(history[0]["metadata"]["chatType"], "channel");
    assert_eq!(history.len(), 3);
    assert_eq!(app.telegram_api().sent_to(-1_002_000_300_600)[0].reply_to, Some(32));
    app.finish().await;
}
