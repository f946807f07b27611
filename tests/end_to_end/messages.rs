//! Telegram: a message is recorded once and answered once.

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{Answer, NOW, TELEGRAM_SECRET, TestApp};
use crate::updates::{START, private};

const CHAT: &str = "telegram:chat:42";

#[tokio::test]
async fn a_message_becomes_one_record_and_one_reply() {
    let app = TestApp::start().await;
    app.handle(private(42, 7, "hello")).await;

    let history = app.history(CHAT).await;
    let [message, reply] = &history[..] else { panic!("{history:#?}") };
    let ts = (START + 7) * 1000;
    assert_eq!(
        *message,
        json!({
            "id": "7", "role": "user", "parts": [{"type": "text", "text": "hello"}],
            "metadata": {
                "senderName": "Ada", "senderUsername": "ada_l", "chatType": "private",
                "ts": ts, "chatKey": CHAT, "channel": "telegram", "chatId": "42", "userId": "42",
                "actorKey": "telegram:chat:42:user:42", "messageId": "7", "kind": "normal",
            },
        })
    );
    assert_eq!((&reply["id"], &reply["role"]), (&json!("7/reply"), &json!("assistant")));
    assert_eq!(reply["parts"], json!([{"type": "text", "text": "You said: hello"}]));
    let metadata = &reply["metadata"];
    assert_eq!((&metadata["ts"], &metadata["sentAt"]), (&json!(ts), &json!(NOW * 1000)));
    assert_eq!((&metadata["chatKey"], &metadata["userId"]), (&json!(CHAT), &json!("annals")));
    assert_eq!(metadata["kind"], "normal");

    let sent = app.telegram_api().sent();
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].chat_id, sent[0].reply_to, sent[0].thread_id), (42, Some(7), None));
    assert_eq!(sent[0].text, "You said: hello");
    app.finish().await;
}

#[tokio::test]
async fn duplicates_change_nothing_concurrently_and_after_a_restart() {
    let mut app = TestApp::start().await;
    let update: Value = private(42, 7, "hello").into();
    for _ in 0..2 {
        futures::future::join_all((0..20).map(|_| app.handle(update.clone()))).await;
        assert_eq!(app.lines(CHAT).await, ["7 user: hello", "7/reply assistant: You said: hello"]);
        assert_eq!((app.model().count(), app.telegram_api().sent().len()), (1, 1));
        app.restart().await;
    }
    app.finish().await;
}

#[tokio::test]
async fn without_the_secret_nothing_is_stored_and_an_invalid_update_is_refused_permanently() {
    const SECRET: &str = "X-Telegram-Bot-Api-Secret-Token";
    let app = TestApp::start().await;
    let update: Value = private(42, 7, "hello").into();
    for secret in [None, Some(""), Some("wrong"), Some("s3cret_Webhook-"), Some("s3cret_Webhook-1 1")] {
        let mut request = app.request(Method::POST, "/telegram").json(&update);
        if let Some(secret) = secret {
            request = request.header(SECRET, secret);
        }
        Answer::of(request).await.assert_problem(401, "unauthorized");
    }
    for body in ["", "{", "hello", "[]", "[{\"update_id\":1}]", "null", "7", "\"x\"", "\u{feff}{}"] {
        let request = app.request(Method::POST, "/telegram").header(SECRET, TELEGRAM_SECRET).body(body);
        Answer::of(request).await.assert_problem(400, "not-an-update");
    }
    app.idle().await;
    assert_eq!(app.lines(CHAT).await, [""; 0]);
    assert_eq!(app.model().count(), 0);
    app.finish().await;
}

#[tokio::test]
async fn without_settings_it_uses_development_secrets_and_an_outbox() {
    let app = TestApp::builder().set("HTTP_API_KEYS", "").start().await;
    app.handle(private(42, 7, "hello")).await;
    let outbox = app.request(Method::GET, "/local/outbox").send().await.unwrap();
    let outbox: Value = outbox.json().await.unwrap();
    assert_eq!(outbox, json!([{"channel": "telegram", "chatId": "42", "text": "hello", "ts": NOW * 1000}]));
    let history = app.request(Method::GET, "/v1/chats/telegram%3Achat%3A42/messages").bearer_auth("dev");
    let history: Value = history.send().await.unwrap().json().await.unwrap();
    let lines = crate::app::lines(history["messages"].as_array().unwrap());
    assert_eq!(lines, ["7 user: hello", "7/reply assistant: hello"]);
    app.finish().await;
}
