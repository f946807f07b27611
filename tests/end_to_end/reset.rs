//! `POST /v1/chats/{id}/reset`: the context starts anew, the history continues.

use std::time::Duration;

use annals_test_support::model_api::texts_of;
use serde_json::{Value, json};

use crate::app::{APP_KEY, TestApp, chat_path};

const CHAT: &str = "http:chat:app:c";

#[tokio::test]
async fn after_a_reset_all_is_listed_and_only_new_messages_are_in_the_context() {
    let mut app = TestApp::builder().model().start().await;
    let say = async |app: &TestApp, id: &str, text: &str| {
        app.clock().advance(Duration::from_secs(1));
        let body = json!({"userId": "ada", "messageId": id, "text": text});
        assert_eq!(app.post(&chat_path("c", "messages"), APP_KEY, &body).await.status, 202);
        app.idle().await;
    };
    say(&app, "m1", "the gate code is 7").await;
    say(&app, "m2", "and the shed's is 8").await;
    let before = app.lines(CHAT).await;
    assert_eq!((before.len(), app.context_lines(CHAT).await), (4, before.clone()));

    app.clock().advance(Duration::from_secs(1));
    let reset = app.post(&chat_path("c", "reset"), APP_KEY, &json!({"userId": "ada"})).await;
    assert!(reset.status.is_success(), "{reset:?}");
    app.idle().await;
    assert_eq!(app.lines(CHAT).await[..4], before);
    assert_eq!(app.context(CHAT).await, [Value::Null; 0]);

    // Also after a restart: the records say so.
    app.restart().await;
    say(&app, "m3", "What is the gate code?").await;
    let asked = app.last_request();
    assert_eq!(texts_of(&asked, "user"), ["What is the gate code?"]);
    assert_eq!(texts_of(&asked, "assistant"), [""; 0]);
    let context = ["m3 user: What is the gate code?", "m3/reply assistant: You said: What is the gate code?"];
    assert_eq!(app.context_lines(CHAT).await, context);
    let listed = app.lines(CHAT).await;
    assert_eq!((&listed[..4], &listed[listed.len() - 2..]), (&before[..], &context.map(str::to_owned)[..]));
    assert_eq!(app.history(CHAT).await.len(), listed.len());
    app.finish().await;
}
