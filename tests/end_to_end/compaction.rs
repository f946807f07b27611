//! Compaction on the whole program: the context after it, the list, and its failures.

use annals_test_support::model_api::{is_for_summary, summary_of, texts_of};
use serde_json::{Value, json};

use crate::app::{APP_KEY, Builder, NOW, OPS_KEY, TestApp, chat_path, ids, text_of, wait_until};
use crate::updates::{START, private};

const CHAT: &str = "http:chat:app:c";

/// A small window: some 300 tokens for messages, 60 for the current time; the last four stay.
fn small() -> Builder {
    TestApp::builder().set("CONTEXT_WINDOW", "450").set("KEEP_RECENT", "4")
}

/// Posts message `n`, some 20 tokens long, `n` minutes after [`NOW`], and waits for its answer.
async fn say(app: &TestApp, n: i64) {
    app.advance_to((NOW + n * 60) * 1000);
    let body = json!({
        "userId": "ada", "messageId": format!("m{n:03}"), "ts": (NOW + n * 60) * 1000,
        "text": format!("message {n:03}: {}", "lorem ipsum ".repeat(5).trim()),
    });
    app.say("c", &body).await;
}

/// Asks for `/compact`; returns its answer.
async fn compact(app: &TestApp, body: &Value) -> String {
    let path = chat_path("c", "compact?wait=20");
    let answer = app.as_time_passes(app.post(&path, APP_KEY, body)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.reply_text()
}

#[tokio::test]
async fn compact_sums_up_all_but_the_recent_and_says_so() {
    let app = TestApp::builder().set("KEEP_RECENT", "4").start().await;
    for n in 0..6 {
        say(&app, n).await;
    }
    let done = "Done: 8 messages are in the summary now. The last 4 stay as they were said.";
    assert_eq!(compact(&app, &json!({"focus": "the numbers"})).await, done);
    let context = app.context(CHAT).await;
    assert_eq!(ids(&context), ["m003/reply/summary", "m004", "m004/reply", "m005", "m005/reply"]);
    let range = json!({"fromId": "m000", "toId": "m003/reply", "count": 8});
    assert_eq!(context[0]["metadata"]["sourceRange"], range);
    let nothing = "There is nothing to compact: the last 4 messages always stay as they were said.";
    assert_eq!(compact(&app, &json!({})).await, nothing);

    // A late message is in the next summary, and messages after it continue from that.
    let late = json!({"userId": "ada", "messageId": "late", "ts": (NOW + 90) * 1000, "text": "the key is 7"});
    app.say("c", &late).await;
    assert_eq!(compact(&app, &json!({})).await, nothing, "the late message alone was summarized");
    let shown = ["m003/reply/summary", "late", "late/reply", "m004", "m004/reply", "m005", "m005/reply"];
    assert_eq!(ids(&app.context(CHAT).await), shown);
    say(&app, 10).await;
    compact(&app, &json!({})).await;
    let context = app.context(CHAT).await;
    assert_eq!(ids(&context), ["m004/reply/summary", "m005", "m005/reply", "m010", "m010/reply"]);
    let range = json!({"fromId": "m000", "toId": "m004/reply", "count": 12});
    assert_eq!(context[0]["metadata"]["sourceRange"], range);
    let text = text_of(&context[0]);
    assert!(text.contains("message 000") && text.contains("the key is 7"), "{text}");
    app.finish().await;
}

/// A private chat with Ada, whose messages are some 40 tokens long.
const ADA: &str = "telegram:chat:42";

async fn ada_says(app: &TestApp, id: i64) {
    app.handle(private(42, id, &format!("message {id}: {}", "lorem ipsum dolor ".repeat(10).trim()))).await;
}

#[tokio::test]
async fn a_model_summarises_what_leaves_its_view_and_goes_on_from_that() {
    let app = small().set("SYSTEM_PROMPT", "Be brief.").telegram().model().start().await;
    app.model().answer_by(|body| is_for_summary(body).then(|| "Facts: the code is 4711.".into()));
    for id in 1..12 {
        ada_says(&app, id).await;
    }
    let notes = app.model().requests_for_notes();
    assert!(notes.len() > 1, "{} requests for summaries", notes.len());
    for request in &notes {
        assert!(!request.to_string().contains("Be brief."), "the system prompt of answers: {request}");
    }
    let first = texts_of(&notes[0], "user").concat();
    assert!(first.contains("<conversation>") && first.contains("Ada: message 1: lorem"), "{first}");
    assert_eq!(summary_of(&notes[0]), "");
    let second = texts_of(&notes[1], "user").concat();
    assert_eq!(summary_of(&notes[1]), "Facts: the code is 4711.");
    assert!(!second.contains("message 1:"), "{second}");

    let asked = app.last_request();
    assert_eq!(texts_of(&asked, "system"), ["Be brief."]);
    assert_eq!(summary_of(&asked), "Facts: the code is 4711.");
    let first = asked["messages"][1]["content"].as_str().unwrap();
    assert!(first.starts_with("Summary of the conversation so far:\n<summary>\n"), "{first}");
    assert_eq!(asked.to_string().matches("4711").count(), 1, "an older summary is shown: {asked}");
    assert!(texts_of(&asked, "user").last().unwrap().starts_with("message 11:"));
    app.finish().await;
}

#[tokio::test]
async fn a_turn_without_a_summary_runs_and_changes_nothing() {
    let app = small().telegram().model().start().await;
    let refusal = || "I'm sorry, but I can't help with that.".to_owned();
    app.model().answer_by(move |body| is_for_summary(body).then(refusal));
    for id in 1..8 {
        ada_says(&app, id).await;
    }
    let history = app.history(ADA).await;
    assert!(history.iter().all(|message| message["metadata"]["kind"] != "summary"), "{history:#?}");
    let reply = history.last().unwrap();
    assert_eq!(reply["role"], "assistant");
    let left_out = reply["metadata"]["context"]["leftOut"].as_u64();
    assert!(left_out > Some(0), "the reply does not say that messages were left out: {history:#?}");
    app.finish().await;
}

#[tokio::test]
async fn messages_of_another_turn_use_none_of_this_turn_s_budget() {
    let app = small().telegram().model().start().await;
    app.hold(private(42, 1, "one")).await;
    let post = json!({"userId": "olle", "text": "by HTTP", "messageId": "h", "ts": START * 1000 + 1500});
    let path = chat_path("telegram:chat:42", "messages");
    assert_eq!(app.post(&path, OPS_KEY, &post).await.status, 202);
    for id in 2..32 {
        app.receive(private(42, id, &format!("message {id}: {}", "lorem ipsum ".repeat(15)))).await;
    }
    wait_until("all is stored", async || app.records("telegram:chat:42").await.len() == 32).await;
    app.model().resume();
    app.idle().await;
    let requests = app.model().requests();
    assert_eq!(texts_of(&requests[1], "assistant"), ["You said: one"], "the reply as it was said");
    assert_eq!(app.model().requests_for_notes().len(), 1, "for the one turn that needs the space");
    app.finish().await;
}

#[tokio::test]
async fn a_window_smaller_than_configured_still_shows_summaries() {
    let app = TestApp::builder().model().set("KEEP_RECENT", "4").start().await;
    for n in 0..30 {
        say(&app, n).await;
    }
    // Tools take some 500 of that.
    app.model().limit_context(1500);
    for n in 30..33 {
        say(&app, n).await;
    }
    let too_long = app.model().too_long();
    say(&app, 33).await;
    assert_eq!(app.model().too_long(), too_long, "a request was too long though there is room");
    assert_eq!(app.context(CHAT).await[0]["metadata"]["kind"], "summary");
    app.finish().await;

    // A tiny one fits its summary.
    let app = TestApp::builder().set("CONTEXT_WINDOW", "220").set("KEEP_RECENT", "1").start().await;
    for n in 0..6 {
        say(&app, n).await;
    }
    let context = app.get(&chat_path(CHAT, "context")).await;
    assert!(context["tokens"].as_u64().unwrap() <= 176, "{context}");
    assert_eq!(context["messages"][0]["metadata"]["kind"], "summary");
    app.finish().await;
}
