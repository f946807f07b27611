//! Large messages, whose bodies are in S3.

use std::path::PathBuf;

use annals_test_support::model_api::texts_of;
use serde_json::{Value, json};

use crate::app::{NOW, OPS_KEY, TestApp, chat_path, lines, text_of};
use crate::updates::{group, private};

const LOST: &str = "[the content of this message is lost]";

fn bodies(app: &TestApp) -> Vec<PathBuf> {
    let chats = std::fs::read_dir(app.data_dir().join("s3/annals/bodies")).unwrap();
    let files = chats.flat_map(|chat| std::fs::read_dir(chat.unwrap().path()).unwrap());
    files.map(|file| file.unwrap().path()).collect()
}

#[tokio::test]
async fn a_lost_body_takes_no_other_message_with_it() {
    const CHAT: &str = "http:chat:app:c1";
    let mut app = TestApp::builder().model().set("CONTEXT_WINDOW", "1000000").start().await;
    app.model().answer_with("Noted.");
    let post = async |app: &TestApp, id: &str, ts: i64, text: &str| {
        let body = json!({"userId": "ada", "text": text, "messageId": id, "ts": 1000 * NOW + ts});
        app.say("c1", &body).await;
    };
    post(&app, "gone", 1, &"a".repeat(400 * 1024)).await;
    let gone = bodies(&app);
    post(&app, "unreadable", 2, &"b".repeat(400 * 1024)).await;
    // One is deleted, and one is no message.
    let unreadable = bodies(&app).into_iter().find(|file| !gone.contains(file)).unwrap();
    let key = unreadable.strip_prefix(app.data_dir().join("s3/annals")).unwrap().to_str().unwrap();
    app.stores().bucket.put(key, "application/json", b"{\"id\":".to_vec()).await.unwrap();
    std::fs::remove_file(&gone[0]).unwrap();
    app.restart().await;
    post(&app, "next", 3, "still there?").await;

    let listed = [
        format!("gone user: {LOST}"),
        "gone/reply assistant: Noted.".into(),
        format!("unreadable user: {LOST}"),
        "unreadable/reply assistant: Noted.".into(),
        "next user: still there?".into(),
        "next/reply assistant: Noted.".into(),
    ];
    assert_eq!(app.lines(CHAT).await, listed);
    assert_eq!(lines(&app.export_of(&chat_path(CHAT, "messages"), OPS_KEY).await), listed);
    assert_eq!(app.context_lines(CHAT).await, listed);
    assert_eq!(texts_of(&app.model().requests()[2], "user"), [LOST, LOST, "still there?"]);
    app.finish().await;
}

#[tokio::test]
async fn equal_texts_keep_their_own_ids_and_senders() {
    let app = TestApp::start().await;
    let text = "The 🌱 bean. ".repeat(30_000);
    assert!(text.len() > 400_000);
    let bo = json!({"id": 43, "is_bot": false, "first_name": "Bo"});
    app.receive(group(-100, 7, &text)).await;
    app.receive(group(-100, 8, &text).with("from", bo)).await;
    app.receive(group(-100, 9, &text)).await;
    assert_eq!(bodies(&app).len(), 3);
    let history = app.history("telegram:chat:-100").await;
    assert_eq!(history.len(), 3);
    assert!(history.iter().all(|message| text_of(message) == text));
    for (message, said) in history.iter().zip([["7", "Ada", "42"], ["8", "Bo", "43"], ["9", "Ada", "42"]]) {
        let metadata = &message["metadata"];
        assert_eq!([&metadata["messageId"], &metadata["senderName"], &metadata["userId"]], said);
        assert_eq!(message["id"], said[0]);
    }

    // A person's own chat has a folder of its own.
    app.model().answer_with("Noted.");
    app.handle(private(42, 7, &text)).await;
    assert_eq!(bodies(&app).len(), 4);
    app.finish().await;
}

#[tokio::test]
async fn pages_of_large_messages_are_cut_by_bytes_and_follow_each_other() {
    const MESSAGES: i64 = 8;
    let app = TestApp::builder().telegram().start().await;
    for id in 1..=MESSAGES {
        app.receive(group(-100, id, &format!("{id:02} {}", "x".repeat(900 * 1024)))).await;
    }
    let path = format!("{}?limit=5", chat_path("telegram:chat:-100", "messages"));
    let ids = |page: &Value| -> Vec<i64> {
        let messages = page["messages"].as_array().unwrap();
        assert!(page.to_string().len() < 6_000_000, "an answer of Lambda ends at 6 MB");
        let is_last = page["before"].is_null() | page["after"].is_null();
        assert!(messages.len() == 3 || messages.len() < 3 && is_last);
        messages.iter().map(|message| message["id"].as_str().unwrap().parse().unwrap()).collect()
    };
    let all: Vec<i64> = (1..=MESSAGES).collect();

    let mut page = app.get(&path).await;
    let mut backward = ids(&page);
    while let Some(before) = page["before"].as_str() {
        page = app.get(&format!("{path}&before={before}")).await;
        backward.splice(0..0, ids(&page));
    }
    assert_eq!(backward, all);

    let mut forward = ids(&page);
    while let Some(after) = page["after"].as_str() {
        page = app.get(&format!("{path}&after={after}")).await;
        forward.extend(ids(&page));
    }
    assert_eq!(forward, all);

    let exported = app.export_of(&chat_path("telegram:chat:-100", "messages"), OPS_KEY).await;
    let starts: Vec<i64> = exported.iter().map(|message| text_of(message)[..2].parse().unwrap()).collect();
    assert_eq!(starts, all);
    app.finish().await;
}
