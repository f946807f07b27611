//! Telegram: messages of a group and of a channel. The parser's tests have the rules by which they are answered.

use annals_test_support::model_api::{lines_said, texts_of};
use serde_json::{Value, json};

use crate::app::TestApp;
use crate::updates::{channel_post, group};

fn another_bot() -> Value {
    json!({"id": 7_000_002, "is_bot": true, "first_name": "Weather", "username": "weather_bot"})
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

/// With privacy mode, the bot gets the other message only within the reply.
#[tokio::test]
async fn the_model_sees_what_a_message_replies_to() {
    let app = TestApp::start().await;
    let bob = json!({"id": 43, "is_bot": false, "first_name": "Bob"});
    let photo = json!([{"file_id": "p", "width": 1}]);
    let original = json!({"message_id": 1, "from": bob, "caption": "Frost kills beans.\nSay \"never\".", "photo": photo});
    let asked = |id| {
        group(-1, id, "@annals_test_bot is this true?").mention().with("reply_to_message", original.clone())
    };
    app.handle(asked(2)).await;
    let seen = texts_of(&app.last_request(), "user").concat();
    let told = "[in reply to Bob: \"Frost kills beans. Say 'never'. [file, image/jpeg, photo]\"]\n@annals_test_bot is";
    assert!(seen.contains(told), "{seen}");
    // A quotation of it is what the message is about.
    app.handle(asked(3).with("quote", json!({"text": "kills beans"}))).await;
    let seen = texts_of(&app.last_request(), "user").concat();
    assert!(seen.contains("[in reply to Bob: \"kills beans\"]\n@annals_test_bot is"), "{seen}");
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
