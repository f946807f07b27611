//! Compaction on the whole program: what the model sees behind it, what is listed, and what happens where it fails.

use serde_json::{Value, json};

use crate::app::{APP_KEY, Builder, NOW, OPS_KEY, TestApp, chat_path, lines, text_of, wait_until};
use crate::support::model_api::texts_of;
use crate::updates::{START, private};

const CHAT: &str = "http:chat:app:c";

/// A small window: 300 tokens for messages, the last four stay.
fn small() -> Builder {
    TestApp::builder().set("CONTEXT_WINDOW", "375").set("KEEP_RECENT", "4")
}

/// Posts message `n`, some 20 tokens long, `n` minutes behind [`NOW`], and waits for its answer.
async fn say(app: &TestApp, n: i64) {
    let body = json!({
        "userId": "ada", "messageId": format!("m{n:03}"), "ts": (NOW + n * 60) * 1000,
        "text": format!("message {n:03}: {}", "lorem ipsum ".repeat(5).trim()),
    });
    let answer = app.post(&chat_path("c", "messages"), APP_KEY, &body).await;
    assert_eq!(answer.status, 202, "{:?}", answer.body);
    app.idle().await;
}

fn kinds(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["metadata"]["kind"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_chat_that_outgrows_its_window_goes_on_with_a_summary() {
    let app = small().start().await;
    for n in 0..20 {
        say(&app, n).await;
        let context = app.get(&chat_path(CHAT, "context")).await;
        assert!(context["tokens"].as_u64().unwrap() <= 300, "{context}");
    }
    let context = app.context(CHAT).await;
    assert_eq!(kinds(&context)[..2], ["summary", "normal"], "{:#?}", lines(&context));
    let summary = &context[0];
    assert_eq!(summary["role"], "assistant");
    let range = &summary["metadata"]["sourceRange"];
    let shown = context.len() - 1;
    assert_eq!(range["fromId"], "m000");
    assert_eq!(range["count"].as_u64().unwrap() as usize + shown, 40, "each message once: {range}");
    assert_eq!(context.last().unwrap()["id"], "m019/reply");
    // Nothing of it is gone from the history.
    let history = app.history(CHAT).await;
    let said = history.iter().filter(|message| message["metadata"]["kind"] == "normal").count();
    assert_eq!(said, 40);
    assert!(kinds(&history).contains(&"summary"));
    app.finish().await;
}

#[tokio::test]
async fn compact_sums_up_all_but_the_recent_and_says_so() {
    let app = TestApp::builder().set("KEEP_RECENT", "4").start().await;
    for n in 0..6 {
        say(&app, n).await;
    }
    let path = format!("{}?wait=20", chat_path("c", "compact"));
    let focus = json!({"focus": "the numbers"});
    let answer = app.as_time_passes(app.post(&path, APP_KEY, &focus)).await;
    assert_eq!(answer.status, 200, "{:?}", answer.body);
    let told = text_of(&answer.body["reply"]);
    assert_eq!(told, "Done: 8 messages are in the summary now. The last 4 stay as they were said.");
    let context = app.context(CHAT).await;
    let ids: Vec<&str> = context.iter().map(|message| message["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["m003/reply/summary", "m004", "m004/reply", "m005", "m005/reply"]);
    assert_eq!(
        context[0]["metadata"]["sourceRange"],
        json!({"fromId": "m000", "toId": "m003/reply", "count": 8})
    );

    let again = app.as_time_passes(app.post(&path, APP_KEY, &json!({}))).await;
    let told = text_of(&again.body["reply"]);
    assert_eq!(told, "There is nothing to compact: the last 4 messages always stay as they were said.");
    // What is said behind it goes on from the summary.
    say(&app, 10).await;
    let ids: Vec<String> =
        app.context(CHAT).await.iter().map(|message| message["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.first().map(String::as_str), Some("m003/reply/summary"));
    assert_eq!(ids.last().map(String::as_str), Some("m010/reply"));
    app.finish().await;
}

#[tokio::test]
async fn a_late_message_is_folded_into_the_summary_and_not_lost_behind_it() {
    let app = TestApp::builder().set("KEEP_RECENT", "4").start().await;
    for n in 0..6 {
        say(&app, n).await;
    }
    let path = format!("{}?wait=20", chat_path("c", "compact"));
    let compact = async || app.as_time_passes(app.post(&path, APP_KEY, &json!({}))).await.status;
    assert_eq!(compact().await, 200);
    let late = json!({"userId": "ada", "messageId": "late", "ts": (NOW + 90) * 1000, "text": "the key is 7"});
    assert_eq!(app.post(&chat_path("c", "messages"), APP_KEY, &late).await.status, 202);
    app.idle().await;
    assert_eq!(compact().await, 200);
    let context = app.context(CHAT).await;
    let ids: Vec<&str> = context.iter().map(|message| message["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["late/reply/summary", "m004", "m004/reply", "m005", "m005/reply"]);
    assert_eq!(
        context[0]["metadata"]["sourceRange"],
        json!({"fromId": "m000", "toId": "m003/reply", "count": 10})
    );
    let text = text_of(&context[0]);
    assert!(text.contains("message 000") && text.contains("the key is 7"), "{text}");
    app.finish().await;
}

#[tokio::test]
async fn what_another_turn_answers_takes_no_room_from_this_one() {
    let app = small().telegram().model().start().await;
    app.model().hang();
    app.receive(private(42, 1, "one")).await;
    app.model().wait_for(1).await;
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
    assert_eq!(texts_of(&requests[1], "assistant"), ["You said: one"], "as it was said");
    assert_eq!(app.model().requests_for_notes().len(), 1, "one summary, for the turn that needs the room");
    app.finish().await;
}

#[tokio::test]
async fn the_recent_stay_as_they_were_said_where_they_fit() {
    let app = small().set("KEEP_RECENT", "10").start().await;
    for n in 0..20 {
        say(&app, n).await;
        let context = app.get(&chat_path(CHAT, "context")).await;
        assert!(context["tokens"].as_u64().unwrap() <= 300, "{context}");
        let kinds = kinds(context["messages"].as_array().unwrap()).join(" ");
        let said = kinds.matches("normal").count();
        assert!(said >= 10.min(2 * (n as usize + 1)), "{n}: {kinds}");
    }
    assert_eq!(kinds(&app.context(CHAT).await)[0], "summary");
    app.finish().await;
}

#[tokio::test]
async fn a_window_that_is_smaller_than_it_is_said_to_be_sees_summaries_too() {
    let app = TestApp::builder().model().set("KEEP_RECENT", "4").start().await;
    for n in 0..30 {
        say(&app, n).await;
    }
    app.model().limit_context(1000);
    for n in 30..33 {
        say(&app, n).await;
    }
    let too_long = app.model().too_long();
    say(&app, 33).await;
    assert_eq!(app.model().too_long(), too_long, "there is room now");
    assert_eq!(kinds(&app.context(CHAT).await)[0], "summary");
    app.finish().await;
}

#[tokio::test]
async fn a_tiny_window_has_room_for_its_summary() {
    let app = TestApp::builder().set("CONTEXT_WINDOW", "70").set("KEEP_RECENT", "1").start().await;
    for n in 0..6 {
        say(&app, n).await;
    }
    let context = app.get(&chat_path(CHAT, "context")).await;
    assert!(context["tokens"].as_u64().unwrap() <= 56, "{context}");
    assert_eq!(kinds(context["messages"].as_array().unwrap())[0], "summary");
    app.finish().await;
}
