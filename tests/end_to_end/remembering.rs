//! Memory in turns: an ended session is captured once, and recalled for the people whom it is about.

use std::time::Duration;

use annals_test_support::model_api::{is_for_notes, is_for_summary, notes_of, texts_of};
use serde_json::{Value, json};

use crate::app::{APP_KEY, OPS_KEY, TestApp, chat_path, wait_until};
use crate::memory::list;
use crate::updates::{group, private};

/// Answers requests for what is worth keeping with what was said of tea in the conversation.
pub(crate) fn notes_of_tea(body: &Value) -> Option<String> {
    let is_capture = is_for_notes(body) && !is_for_summary(body);
    let said = texts_of(body, "user").concat();
    let tea = said.lines().find(|line| line.contains("tea") && !line.starts_with("- ["))?.to_owned();
    is_capture.then(|| format!("- [preference] {}", tea.rsplit(": ").next().unwrap_or_default()))
}

async fn says(app: &TestApp, person: i64, id: i64, text: &str) {
    app.handle(private(person, id, text)).await;
}

/// Returns the prompt and the memory section of the last request for an answer.
fn told(app: &TestApp) -> String {
    let request = app.last_request();
    let told = [texts_of(&request, "system").concat(), notes_of(&request)];
    told.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}

async fn memories(app: &TestApp, person: &str) -> Vec<Value> {
    list(app, &format!("userId={person}"), OPS_KEY).await
}

#[tokio::test]
async fn entries_of_a_session_are_recalled_in_the_person_s_next_one() {
    let app = TestApp::builder().set("SYSTEM_PROMPT", "Be brief.").telegram().model().start().await;
    app.model().answer_by(notes_of_tea);
    says(&app, 42, 1, "I only drink green tea").await;
    assert_eq!(told(&app), "Be brief.");
    app.handle(private(42, 2, "/new").command()).await;
    let [entry] = &memories(&app, "telegram-42").await[..] else { panic!("one entry") };
    assert_eq!((&entry["type"], &entry["scope"]), (&json!("preference"), &json!("user")));
    assert_eq!(entry["text"], "I only drink green tea");
    assert!(entry["markdown"].as_str().unwrap().starts_with("---\n"), "{entry}");
    assert_eq!(app.model().requests_for_notes().len(), 1);

    says(&app, 42, 3, "What do I drink?").await;
    assert!(told(&app).starts_with("Be brief.\n\n") && told(&app).contains("I only drink green tea"));
    let context = app.get(&chat_path("telegram:chat:42", "context")).await;
    assert_eq!(context["system"], told(&app));
    // It is recalled for nobody else, and asking again captures nothing again.
    says(&app, 43, 1, "What do I drink?").await;
    assert_eq!(told(&app), "Be brief.");
    says(&app, 42, 4, "Are you sure?").await;
    assert_eq!(app.model().requests_for_notes().len(), 1);
    app.finish().await;
}

/// Under `fresh`, a context that starts with its last message has not read the rest of the session.
#[tokio::test]
async fn an_ended_session_is_captured_whole_by_the_next_message_before_its_answer() {
    for (mode, stale_after) in [("", "48h"), ("fresh", "48h"), ("fresh", "0")] {
        let app = TestApp::builder().set("SESSION_MODE", mode).set("SESSION_STALE_AFTER", stale_after);
        let app = app.telegram().model().start().await;
        app.model().answer_by(notes_of_tea);
        for (id, text) in [(1, "I only drink green tea"), (2, "and water"), (3, "Good night")] {
            says(&app, 42, id, text).await;
            let seen = texts_of(&app.last_request(), "user");
            let count = if mode == "fresh" { 1 } else { usize::try_from(id).unwrap() };
            assert_eq!((seen.len(), seen.last().unwrap().as_str()), (count, text));
            assert_eq!(app.context("telegram:chat:42").await.len(), 2 * count);
        }
        if stale_after == "0" {
            app.handle(private(42, 4, "/new").command()).await;
        } else {
            app.clock().advance(Duration::from_hours(49));
        }
        assert_eq!(app.context("telegram:chat:42").await, [Value::Null; 0], "{mode} {stale_after}");
        says(&app, 42, 5 + 49 * 3600, "What do I drink?").await;
        let [captured] = &app.model().requests_for_notes()[..] else { panic!("one capture") };
        let said = texts_of(captured, "user").concat();
        for text in ["I only drink green tea", "and water", "Good night"] {
            assert!(said.contains(text), "{text} is not in {said}");
        }
        assert!(told(&app).contains("I only drink green tea"), "{}", told(&app));
        assert_eq!(texts_of(&app.last_request(), "user"), ["What do I drink?"], "the session itself is over");
        assert_eq!(memories(&app, "telegram-42").await.len(), 1);
        app.finish().await;
    }
}

#[tokio::test]
async fn a_failing_capture_holds_up_no_answer_and_is_made_up_for() {
    let app = TestApp::builder().telegram().model().start().await;
    app.model().answer_by(notes_of_tea);
    says(&app, 42, 1, "I only drink green tea").await;
    // The capture is asked for once in a run, and the answer of the next message is not the failure's.
    app.model().fail(1, 500);
    app.handle(private(42, 2, "/new").command()).await;
    assert_eq!(memories(&app, "telegram-42").await.len(), 0);
    says(&app, 42, 3, "What do I drink?").await;
    assert!(told(&app).contains("I only drink green tea"), "{}", told(&app));
    app.handle(private(42, 4, "/new").command()).await;
    assert_eq!(app.model().requests_for_notes().len(), 3, "the next session is captured at its end");
    app.finish().await;
}

#[tokio::test]
async fn a_session_that_was_not_captured_is_remembered_though_the_next_one_ends() {
    let app = TestApp::builder().telegram().model().start().await;
    app.model().answer_by(notes_of_tea);
    says(&app, 42, 1, "I only drink green tea").await;
    app.model().fail(1, 500);
    for id in 2..7 {
        app.handle(private(42, id, &format!("/new hello {id}")).command()).await;
    }
    app.clock().advance(Duration::from_hours(36));
    wait_until("a visit has captured it", async || {
        app.clock().advance(Duration::from_secs(1));
        !memories(&app, "telegram-42").await.is_empty()
    })
    .await;
    app.finish().await;
}

#[tokio::test]
async fn a_capture_that_a_content_filter_refuses_is_not_asked_for_again() {
    let app = TestApp::builder().telegram().model().start().await;
    says(&app, 42, 1, "I only drink green tea").await;
    app.model().finish_with("content_filter");
    app.handle(private(42, 2, "/new").command()).await;
    says(&app, 42, 3, "What do I drink?").await;
    says(&app, 42, 4, "And at night?").await;
    assert_eq!(app.model().requests_for_notes().len(), 1);
    assert_eq!(memories(&app, "telegram-42").await.len(), 0);
    app.finish().await;
}

#[tokio::test]
async fn of_a_capture_that_was_cut_off_the_last_line_is_dropped() {
    let app = TestApp::builder().telegram().model().start().await;
    says(&app, 42, 1, "I only drink green tea").await;
    app.model().answer_by(|body| {
        is_for_notes(body).then(|| "- [fact] (m1) Only drinks green tea.\n- [fact] (m1) I only dri".into())
    });
    app.model().finish_with("length");
    app.handle(private(42, 2, "/new").command()).await;
    let [entry] = &memories(&app, "telegram-42").await[..] else { panic!("one entry") };
    assert_eq!(entry["text"], "Only drinks green tea.");
    app.finish().await;
}

#[tokio::test]
async fn groups_have_a_memory_only_where_that_is_set_and_it_stays_there() {
    for (set, expected) in [("false", 0), ("true", 1)] {
        let app = TestApp::builder().set("CAPTURE_GROUP_MEMORY", set).set("GROUP_ACTIVATION", "always");
        let app = app.telegram().model().start().await;
        app.model().answer_by(notes_of_tea);
        app.handle(group(-7, 1, "We only drink green tea")).await;
        app.handle(group(-7, 2, "/new").command()).await;
        assert_eq!(app.model().requests_for_notes().len(), expected);
        app.handle(group(-7, 3, "What do we drink?")).await;
        assert_eq!(told(&app).contains("green tea"), expected == 1);
        // It is not recalled in Ada's own chat.
        says(&app, 42, 1, "What do I drink?").await;
        assert!(!told(&app).contains("green tea"));
        assert!(memories(&app, "telegram-42").await.is_empty());
        app.finish().await;
    }
}

#[tokio::test]
async fn a_conversation_of_two_callers_users_is_nobodys_memory() {
    let app = TestApp::builder().model().start().await;
    app.model().answer_by(notes_of_tea);
    let post = async |chat: &str, user: &str, text: &str| {
        // Within one millisecond, ids decide the order, and these are random.
        app.clock().advance(Duration::from_secs(1));
        app.say(chat, &json!({"userId": user, "text": text})).await;
    };
    post("shared", "ada", "I only drink green tea").await;
    post("shared", "bob", "I do not").await;
    let reset = async |chat: &str| {
        app.clock().advance(Duration::from_secs(1));
        app.post(&chat_path(chat, "reset"), APP_KEY, &json!({})).await;
        app.idle().await;
    };
    reset("shared").await;
    assert!(app.model().requests_for_notes().is_empty());

    post("own", "ada", "I only drink black tea").await;
    reset("own").await;
    post("other", "ada", "What do I drink?").await;
    assert!(told(&app).contains("black tea"), "a person is known in all of her conversations");
    post("bobs", "bob", "What do I drink?").await;
    assert_eq!(told(&app), "");
    // Where Bob joins, what is known of Ada is not told.
    post("other", "bob", "What does she drink?").await;
    assert_eq!(told(&app), "");
    app.finish().await;
}
