//! `DELETE /v1/chats/{chatId}`: nothing of the chat is left in any store, and everything of others is.

use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::memory::Owner;
use aws_sdk_dynamodb::types::AttributeValue;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::app::{APP_KEY, NOW, OPS_KEY, TestApp};
use crate::memory::{memory_of, remember, user};
use crate::updates::{group, private};
use crate::world::{change_item, scan};

const CHAT: &str = "telegram:chat:42";

/// All items of the table and keys of the bucket, each with what it holds, that mention `what`.
async fn left_of(app: &TestApp, what: &[String]) -> Vec<String> {
    let items = scan(app.stores()).await;
    let keys = app.stores().bucket.list("").await.unwrap();
    let all = items.iter().map(|item| format!("{item:?}")).chain(keys);
    all.filter(|text| what.iter().any(|what| text.contains(what.as_str()))).collect()
}

fn names_of(chat: &str) -> Vec<String> {
    let chat: ChatKey = chat.parse().unwrap();
    vec![chat.to_string(), chat.session_id().to_string()]
}

/// A private chat with archived and large messages, a summary of nothing, and memory; and others beside it.
async fn lived_in() -> TestApp {
    let mut app =
        TestApp::builder().set("CAPTURE_GROUP_MEMORY", "true").set("CONTEXT_WINDOW", "1000000").start().await;
    for (id, text) in [(1, "hello".to_owned()), (2, "x".repeat(400 * 1024)), (3, "archived".into())] {
        app.handle(private(42, id, &text)).await;
    }
    app.receive(group(-7, 1, "@annals_bot others")).await;
    app.handle(private(43, 1, "another's")).await;
    for chat in [CHAT, "telegram:chat:43"] {
        app.archive_everything(chat).await;
    }
    app.restart().await;
    app.handle(private(42, 4, "not archived")).await;
    remember(&app, &user("telegram-42"), CHAT, &["Likes tea.", "Has a dog."]).await;
    remember(&app, &user("telegram-42"), "lark:chat:oc_elsewhere", &["Speaks Norwegian."]).await;
    remember(&app, &Owner::Chat("telegram:chat:-7".parse().unwrap()), "telegram:chat:-7", &["A group."])
        .await;
    app
}

#[tokio::test]
async fn a_chat_is_forgotten_in_every_place_and_nothing_else_is() {
    let app = lived_in().await;
    let others = async || {
        let mut all = Vec::new();
        for chat in ["telegram:chat:43", "telegram:chat:-7"] {
            all.push((app.history(chat).await, left_of(&app, &names_of(chat)).await.len()));
        }
        all
    };
    let before = others().await;
    let answer = app.forget(CHAT, OPS_KEY).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    // Four messages with their replies; of the long one's both bodies.
    let removed = json!({"records": 8, "segments": 1, "bodies": 2, "media": 0, "memories": 2});
    assert_eq!(answer.body, json!({"chatKey": CHAT, "removed": removed}));

    let left = left_of(&app, &names_of(CHAT)).await;
    assert!(left.len() == 3 && left.iter().all(|item| !item.contains("markdown")), "{left:#?}");
    let head = left.iter().find(|item| item.contains("!head")).unwrap();
    for gone in ["contextFrom", "leaseUntil", "longestSegment", "capturedTo"] {
        assert!(!head.contains(gone), "{head}");
    }
    assert!(head.contains("forgottenAt") && head.contains("dueAt") && !head.contains("expiresAt"), "{head}");
    // The numbers of what was remembered are not given again.
    assert_eq!(left.iter().filter(|item| item.contains("deletedAt")).count(), 2);
    let memory = memory_of(&app).list(&user("telegram-42")).await.unwrap();
    assert_eq!(memory.iter().map(|kept| kept.entry.text.as_str()).collect::<Vec<_>>(), ["Speaks Norwegian."]);
    assert_eq!(app.history(CHAT).await, [Value::Null; 0]);
    assert_eq!(app.get(&format!("/v1/chats/{CHAT}/segments")).await, json!({"segments": []}));
    assert_eq!(others().await, before);

    // Again there is nothing; and what is written from now on is kept, and found by the compactor.
    let none = json!({"records": 0, "segments": 0, "bodies": 0, "media": 0, "memories": 0});
    assert_eq!(app.forget(CHAT, OPS_KEY).await.body["removed"], none);
    app.handle(private(42, 5, "hello again")).await;
    assert_eq!(app.lines(CHAT).await, ["5 user: hello again", "5/reply assistant: hello again"]);
    let head =
        left_of(&app, &[CHAT.to_owned()]).await.into_iter().find(|item| item.contains("!head")).unwrap();
    assert!(!head.contains("expiresAt") && head.contains("dueAt"), "{head}");
    app.finish().await;
}

#[tokio::test]
async fn a_key_forgets_its_own_conversations_and_waits_for_another_deletion_alone() {
    let app = TestApp::builder().start().await;
    let say = json!({"userId": "ada", "messageId": "m1", "text": "hello"});
    app.post("/v1/chats/c/messages", APP_KEY, &say).await;
    app.idle().await;
    let other = app.forget("http:chat:app:c", "other-secret").await;
    assert_eq!((other.status, &other.body["removed"]["records"]), (StatusCode::OK, &json!(0)));
    assert_eq!(app.history("http:chat:app:c").await.len(), 2);
    assert_eq!(app.forget("c", "wrong").await.status, StatusCode::UNAUTHORIZED);

    let until = (NOW + 3600) * 1000;
    let claim = async |what: &str| {
        let until = [(":until", AttributeValue::N(until.to_string()))];
        let claim = format!("SET leaseUntil = :until{what}");
        change_item(app.stores(), ("http:chat:app:c", "!head"), &claim, &until).await;
    };
    claim(", forgetting = fence").await;
    let busy = app.forget("c", APP_KEY).await;
    busy.assert_problem(409, "busy");
    assert_eq!(app.history("http:chat:app:c").await.len(), 2, "nothing is deleted under another deletion");

    app.clock().advance(Duration::from_hours(2));
    assert_eq!(app.forget("c", APP_KEY).await.body["removed"]["records"], 2);
    app.post("/v1/chats/c/messages", APP_KEY, &say).await;
    app.idle().await;
    claim("").await;
    let forgotten = app.forget("c", APP_KEY).await;
    assert_eq!(forgotten.body["removed"]["records"], 2, "a run does not hold it up: {forgotten:?}");
    assert_eq!(app.history("http:chat:app:c").await, [Value::Null; 0]);
    app.finish().await;
}

#[tokio::test]
async fn a_chat_whose_head_cannot_be_read_is_not_forgotten() {
    let app = TestApp::start().await;
    app.say("c", &json!({"userId": "ada", "messageId": "m1", "text": "hello"})).await;
    let damaged = [(":damaged", AttributeValue::N("7".into()))];
    change_item(app.stores(), ("http:chat:app:c", "!head"), "SET turn = :damaged", &damaged).await;
    app.call(Method::DELETE, "/v1/chats/c", APP_KEY).await.assert_problem(503, "not-forgotten");
    app.finish().await;
}

#[tokio::test]
async fn a_group_is_forgotten_under_all_its_names() {
    let app = TestApp::builder().set("CAPTURE_GROUP_MEMORY", "true").start().await;
    let old = "telegram:chat:-7";
    app.handle(group(-7, 1, "@annals_bot under the old name")).await;
    remember(&app, &Owner::Chat(old.parse().unwrap()), old, &["A group."]).await;
    let history = app.open_history();
    let new: ChatKey = "telegram:chat:-1007".parse().unwrap();
    history.rename(&old.parse().unwrap(), &new, app.clock().now()).await.unwrap();
    app.handle(group(-1007, 2, "@annals_bot under the new one")).await;
    let all = app.history("telegram:chat:-1007").await.len();
    // By either name.
    let answer = app.forget(old, OPS_KEY).await;
    assert_eq!(answer.body["removed"]["records"], all, "{answer:?}");
    assert_eq!(answer.body["removed"]["memories"], 1);
    let left = left_of(&app, &names_of(old)).await;
    assert!(left.len() == 1 && left[0].contains("!head"), "of the old name, an emptied head: {left:?}");
    assert!(!left[0].contains("movedTo"), "{left:?}");
    assert_eq!(app.history("telegram:chat:-1007").await, [Value::Null; 0]);
    app.finish().await;
}
