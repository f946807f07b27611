//! A message belongs to its author: under its id nobody else changes it, has it answered again, approves its calls, or puts
//! words into its author's memory.

use std::time::Duration;

use serde_json::{Value, json};

use crate::app::{APP_KEY, Answer, NOW, OPS_KEY, TestApp, chat_path, lines};
use crate::chat::{post as stream, user as user_message};
use crate::outside_tools::start_with_shop;
use crate::updates::group;

const CHAT: &str = "http:chat:app:c";

async fn post(app: &TestApp, body: &Value) -> Answer {
    app.ask("c", APP_KEY, body).await
}

#[track_caller]
fn assert_taken(answer: &Answer) {
    answer.assert_problem(409, "message-id-taken");
    assert!(answer.body["detail"].as_str().unwrap().contains("another userId"), "{:#}", answer.body);
}

#[tokio::test]
async fn under_another_s_message_id_nothing_is_stored_answered_approved_or_remembered() {
    let (shop, app) = start_with_shop(&json!({"tools": {"refund": {"approval": true}}})).await;
    app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    let ada = json!({"userId": "ada", "text": "Pay A1 back.", "messageId": "m1"});
    let asked = post(&app, &ada).await;
    assert_eq!(asked.body["reply"]["parts"][0]["state"], "approval-requested");
    let before = app.history(CHAT).await;

    for (text, late) in [("Pay mallory.", 0), ("Pay A1 back.", 5), ("/approve", 0), ("/new I am Ada", 0)] {
        let ts = NOW * 1000 + late;
        assert_taken(&post(&app, &json!({"userId": "bob", "text": text, "messageId": "m1", "ts": ts})).await);
    }
    for path in ["reset", "compact"] {
        let body = json!({"userId": "bob", "messageId": "m1"});
        assert_eq!(app.post(&chat_path("c", path), APP_KEY, &body).await.status, 409, "{path}");
    }
    assert_eq!(lines(&app.history(CHAT).await), lines(&before));
    let told = post(&app, &json!({"userId": "bob", "text": "/approve", "messageId": "m2"})).await;
    assert!(told.reply_text().starts_with("Only the person who asked"), "{told:?}");
    app.idle_as_time_passes().await;
    assert_eq!(shop.carried_out(), []);

    // Her own edit, and her own repeat, are hers.
    assert_eq!(post(&app, &ada).await.body["duplicate"], true);
    let edit = json!({"userId": "ada", "text": "Pay A1 back, please.", "messageId": "m1"});
    assert_eq!(post(&app, &edit).await.body["revision"], 1);
    app.clock().advance(Duration::from_hours(50));
    app.post(&chat_path("c", "reset"), APP_KEY, &json!({"userId": "ada"})).await;
    app.idle_as_time_passes().await;
    assert!(!app.model().requests_for_notes().is_empty(), "the session was not captured");
    for request in app.model().raw_requests() {
        assert!(!request.to_string().contains("mallory"), "{request}");
    }
    app.finish().await;
}

/// An admin key may write into any chat, and is no author of what is there.
#[tokio::test]
async fn the_id_of_a_message_or_command_stays_its_author_s_also_when_it_has_left_the_table() {
    let app = TestApp::builder().model().start().await;
    for text in ["/new", "/help", "/stop"] {
        let id = text.trim_start_matches('/');
        let body = |user: &str| json!({"userId": user, "text": text, "messageId": id});
        assert!(post(&app, &body("ada")).await.status.is_success());
        assert_taken(&post(&app, &body("bob")).await);
        assert!(post(&app, &body("ada")).await.status.is_success());
    }
    let ada = json!({"userId": "ada", "text": "mine", "messageId": "m1"});
    post(&app, &ada).await;
    let lines = app.lines(CHAT).await;
    let body = json!({"userId": "ops", "text": "not mine", "messageId": "m1"});
    assert_taken(&app.post(&chat_path(CHAT, "messages"), OPS_KEY, &body).await);
    app.leave_the_table(CHAT).await;
    app.clock().advance(Duration::from_hours(24 * 31));
    assert_taken(&post(&app, &json!({"userId": "bob", "text": "his", "messageId": "m1"})).await);
    assert_eq!(post(&app, &ada).await.body["duplicate"], true);
    assert_eq!(app.lines(CHAT).await, lines);
    app.finish().await;
}

#[tokio::test]
async fn on_the_web_nobody_says_another_s_message_again_and_another_try_leaves_it_its_author_s() {
    const ROOM: &str = "web:room:app:r1";
    let app = TestApp::builder().model().start().await;
    let ask = |user: &str, trigger: &str, text: &str| json!({"id": "r1", "userId": user, "trigger": trigger, "messages": [user_message("u1", text)]});
    stream(&app, &ask("ada", "submit-message", "mine")).await.rest().await;
    let before = app.history(ROOM).await;
    for (user, text) in [("bob", "his"), ("bob", "mine"), ("app", "the key's own")] {
        assert_taken(&app.post("/api/chat", APP_KEY, &ask(user, "submit-message", text)).await);
    }
    assert_eq!(app.history(ROOM).await, before);
    stream(&app, &ask("bob", "regenerate-message", "his")).await.rest().await;
    app.idle().await;
    let history = app.history(ROOM).await;
    let forms = ["u1@1 user revision: mine", "u1/reply@1 assistant revision: You said: mine"];
    assert_eq!(lines(&history)[2..], forms);
    assert_eq!(history[2]["metadata"]["userId"], "ada");
    app.finish().await;
}

/// On a platform an edit comes from somebody whom the platform lets edit, and the first form names the sender.
#[tokio::test]
async fn on_a_platform_the_first_form_decides_who_asks_and_who_speaks() {
    const GROUP: &str = "telegram:chat:-7";
    let (shop, app) = start_with_shop(&json!({"tools": {"refund": {"approval": true}}})).await;
    let bob = json!({"id": 43, "is_bot": false, "first_name": "Bob"});
    app.receive(group(-7, 1, "Pay A1 back.")).await;
    app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    let edit = group(-7, 1, "").with("from", bob.clone()).edited(20, "@annals_test_bot pay A1 back.");
    app.handle(edit.mention()).await;
    let [message, _] = &app.context(GROUP).await[..] else { panic!("one message and its reply") };
    let metadata = &message["metadata"];
    assert_eq!((&metadata["userId"], &metadata["senderName"]), (&json!("42"), &json!("Ada")));
    assert_eq!(metadata["actorKey"], "telegram:chat:-7:user:42");
    let approve = |user: &Value, id: i64| group(-7, id, "/approve").with("from", user.clone()).command();
    app.handle(approve(&bob, 2)).await;
    assert_eq!(shop.carried_out(), [], "who edits is not who asked");
    app.handle(group(-7, 3, "/approve").command()).await;
    assert_eq!(shop.carried_out().len(), 1);
    app.finish().await;
}
