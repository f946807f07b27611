//! Turns: everything that asks is answered once, whatever the model does meanwhile.

use std::time::Duration;

use annals_core::record::Record;
use annals_test_support::model_api::{last_user_line, texts_of};
use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{APP_KEY, NOW, OPS_KEY, TestApp, chat_path, text_of, wait_until};
use crate::updates::private;

const CHAT: &str = "telegram:chat:42";
const NOTICE: &str =
    "Sorry, I could not answer that: the model is not available at the moment. Please ask again later.";

/// Checks that each message of `records` that asks is covered by exactly one reply, which follows all it covers.
pub(crate) fn assert_answered_once(records: &[Record]) {
    for message in records.iter().filter(|record| record.asks() && record.revision() == 0) {
        let replies: Vec<&Record> =
            records.iter().filter(|reply| reply.covers().contains(&message.key.base())).collect();
        assert_eq!(replies.len(), 1, "replies to {}: {records:#?}", message.key);
        assert!(replies[0].key > message.key);
    }
    for reply in records.iter().filter(|record| !record.covers().is_empty()) {
        assert_eq!(reply.key.base(), *reply.covers().last().unwrap(), "directly after the newest");
    }
}

/// Checks that `text` contains each of `parts`.
#[track_caller]
pub(crate) fn assert_has(text: impl AsRef<str>, parts: &[&str]) {
    let text = text.as_ref();
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[tokio::test]
async fn no_chat_waits_for_another() {
    let app = TestApp::start().await;
    app.model().hang();
    for chat in 1..=100 {
        app.receive(private(chat, 1, "hello")).await;
    }
    wait_until("all chats ask the model", async || app.model().running() == 100).await;
    app.model().resume();
    app.idle().await;
    assert_eq!(app.telegram_api().sent().len(), 100);
    app.finish().await;
}

#[tokio::test]
async fn a_model_that_fails_on_ends_in_one_notice_within_a_minute() {
    let app = TestApp::start().await;
    app.model().fail(1000, 500);
    app.handle_as_time_passes(private(42, 7, "hello")).await;
    assert_eq!(app.model().count(), 9, "three tries in each of three deliveries");
    assert!(app.clock().now().as_millis() < (NOW + 60) * 1000, "{}", app.clock().now());
    assert_eq!(app.lines(CHAT).await, ["7 user: hello", &format!("7/notice assistant notice: {NOTICE}")]);
    assert_answered_once(&app.records(CHAT).await);
    assert_eq!(app.sent_texts(), [NOTICE]);

    // It counts as answered, and stays in the Context.
    app.handle(private(42, 7, "hello")).await;
    assert_eq!(app.model().count(), 9);
    assert_eq!(app.context_lines(CHAT).await, ["7 user: hello"]);

    app.model().recover();
    app.handle(private(42, 8, "and now?")).await;
    assert_eq!(texts_of(app.model().requests().last().unwrap(), "user"), ["hello\nand now?"]);
    assert_eq!(app.lines(CHAT).await[3], "8/reply assistant: You said: hello\nand now?");
    assert_eq!(app.telegram_api().sent().len(), 2);
    app.finish().await;
}

/// With a key or a name that the provider does not take, no try can succeed. The clock stands still.
#[tokio::test]
async fn what_cannot_succeed_is_asked_once_and_administrators_are_told_why() {
    let app = TestApp::builder().model().start().await;
    for (number, status, check) in [
        (1, 401, "MODEL_API_KEY"),
        (2, 403, "what MODEL_API_KEY may use, or the role and model subscription in Bedrock"),
        (3, 404, "MODEL and MODEL_BASE_URL"),
    ] {
        app.model().fail(1, status);
        let cause = format!("the model's endpoint refused the request with {status}: check {check}");
        let chat = format!("/v1/chats/c{number}/messages");
        let asked = json!({"userId": "ada", "text": "hello", "messageId": "1"});
        app.post(&chat, APP_KEY, &asked).await;
        app.idle().await;
        assert_eq!(app.model().count(), number);
        let waiting = app.post(&format!("{chat}?wait=20"), APP_KEY, &asked).await;
        let notice = &waiting.body["reply"];
        assert!(text_of(notice).starts_with("Sorry, I could not answer that"), "{notice}");
        let whole = format!("http:chat:app:c{number}");
        for path in [format!("{chat}?limit=9"), chat.replace("/messages", "/context")] {
            let read = app.call(Method::GET, &path, APP_KEY).await.body.to_string();
            assert!(!read.contains("refused"), "{path}: {read}");
        }
        assert!(!notice.to_string().contains("refused"), "{notice}");
        let of_app = app.export_of(&chat, APP_KEY).await;
        assert!(!json!(of_app).to_string().contains("refused"), "{of_app:?}");
        let listed = &app.history(&whole).await[1];
        assert_eq!(listed["metadata"]["cause"], cause);
        assert_eq!(listed["metadata"]["kind"], "notice");
        assert_eq!(app.export_of(&chat_path(&whole, "messages"), OPS_KEY).await[1], *listed);
    }
    // It counts as answered.
    app.say("c1", &json!({"userId": "ada", "text": "and now?", "messageId": "2"})).await;
    app.idle().await;
    let records = app.records("http:chat:app:c1").await;
    assert_answered_once(&records);
    assert_eq!(records.last().unwrap().covers().len(), 1);
    app.finish().await;
}

/// A failing turn takes what came meanwhile with it, each message once.
#[tokio::test]
async fn messages_during_a_model_s_failure_are_answered_when_it_recovers() {
    let app = TestApp::start().await;
    app.model().fail(1000, 500);
    app.receive(private(42, 7, "hello")).await;
    app.as_time_passes(app.model().wait_for(2)).await;
    app.receive(private(42, 8, "anybody?")).await;
    app.model().recover();
    app.idle_as_time_passes().await;
    assert_answered_once(&app.records(CHAT).await);
    let history = app.lines(CHAT).await.join("\n");
    assert_has(&history, &["hello", "anybody?"]);
    assert!(!history.contains("notice"), "{history}");
    app.finish().await;
}

#[tokio::test]
async fn each_chat_has_one_run_at_a_time() {
    let app = TestApp::start().await;
    app.model().delay(Duration::from_millis(5));

    let updates =
        (2..8).flat_map(|id| (1..5).map(move |chat| private(chat, id, &format!("chat{chat} {id}"))));
    join_all(updates.map(|update| app.handle(update))).await;
    let chat_of = |body: &Value| last_user_line(body).split(' ').next().unwrap().to_owned();
    let most = app.model().max_concurrent_by(chat_of);
    assert_eq!(most.len(), 4);
    assert!(most.values().all(|most| *most == 1), "{most:?}");
    for chat in 1..5 {
        let records = app.records(&format!("telegram:chat:{chat}")).await;
        assert_eq!(records.iter().filter(|record| record.asks()).count(), 6);
        assert_answered_once(&records);
    }
    app.finish().await;
}

#[tokio::test]
async fn each_request_contains_the_system_prompt_verbatim() {
    const PROMPT: &str = "You are \"Annals\".\r\n\n\tKeep {this} <b>& that</b> — 逐字. \n";
    let app = TestApp::builder().telegram().model().set("SYSTEM_PROMPT", PROMPT).start().await;
    for id in 1..4 {
        app.handle(private(42, id, &format!("message {id}"))).await;
    }
    for (index, request) in app.model().requests().iter().enumerate() {
        assert_eq!(texts_of(request, "system"), [PROMPT]);
        let roles: Vec<&str> =
            request["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
        let alternating = ["user", "assistant"].into_iter().cycle().take(2 * index + 1);
        assert_eq!(roles, ["system"].into_iter().chain(alternating).collect::<Vec<_>>());
    }
    let context = app.get(&format!("/v1/chats/{CHAT}/context")).await;
    assert_eq!(context["system"], PROMPT);
    app.finish().await;
}

#[tokio::test]
async fn the_answer_to_a_late_message_follows_it_directly() {
    let app = TestApp::builder().model().start().await;
    // The last lies outside of the Session of the others.
    for (id, ts) in [("a", NOW * 1000), ("b", NOW * 1000 - 5000), ("c", NOW * 1000 - 2500), ("d", 1)] {
        let body = json!({"userId": "ada", "text": format!("I am {id}"), "messageId": id, "ts": ts});
        app.say("c1", &body).await;
        assert_eq!(last_user_line(app.model().requests().last().unwrap()), format!("I am {id}"));
    }
    let history = app.history("http:chat:app:c1").await;
    let ids: Vec<&Value> = history.iter().map(|message| &message["id"]).collect();
    assert_eq!(ids, ["d", "d/reply", "b", "b/reply", "c", "c/reply", "a", "a/reply"]);
    for pair in history.chunks(2) {
        assert_eq!(pair[0]["metadata"]["ts"], pair[1]["metadata"]["ts"]);
        assert_eq!(text_of(&pair[1]), format!("You said: {}", text_of(&pair[0])));
    }
    assert_answered_once(&app.records("http:chat:app:c1").await);
    app.finish().await;
}

#[tokio::test]
async fn a_small_window_leaves_out_the_oldest_and_never_the_question() {
    let app = TestApp::builder().set("CONTEXT_WINDOW", "175").set("COMPACT_THRESHOLD", "1");
    let app = app.set("SYSTEM_PROMPT", "Be brief.").telegram().model().start().await;
    app.model().answer_with("Noted.");
    let text = |id: i64| format!("message {id} {}", "beans ".repeat(14));
    for id in 1..7 {
        app.handle(private(42, id, &text(id))).await;
    }
    let last = app.last_request();
    let asked = texts_of(&last, "user");
    assert!(asked.len() < 6 && asked.len() > 1, "{asked:?}");
    assert!(asked.last().unwrap().starts_with("message 6"));
    assert!(!asked.iter().any(|text| text.starts_with("message 1")));
    let context = app.get(&format!("/v1/chats/{CHAT}/context")).await;
    assert_eq!(context["window"], 175);
    assert!(context["tokens"].as_u64().unwrap() <= 175);

    app.handle(private(42, 7, &text(7).repeat(20))).await;
    let last = app.last_request();
    // What no window holds is asked with its middle left out; the history keeps the whole, and says so.
    let [asked] = &texts_of(&last, "user")[..] else { panic!("{last}") };
    assert!(asked.starts_with("message 7 beans") && asked.trim_end().ends_with("beans"), "{asked}");
    assert!(asked.contains("characters are left out here") && asked.len() < 600, "{asked}");
    let history = app.history(CHAT).await;
    let [.., question, reply] = &history[..] else { panic!("{history:?}") };
    assert_eq!(text_of(question), text(7).repeat(20));
    assert_eq!(text_of(reply), "Noted.");
    assert_eq!(reply["metadata"]["context"]["shortened"], json!(["7"]));
    app.finish().await;
}

#[tokio::test]
async fn messages_unanswered_at_a_stop_are_answered_after_the_restart() {
    let mut app = TestApp::start().await;
    app.hold(private(42, 1, "one")).await;
    app.receive(private(42, 2, "two")).await;
    app.restart().await;
    app.model().resume();
    app.idle().await;
    assert_answered_once(&app.records(CHAT).await);
    assert_eq!(app.lines(CHAT).await[2], "2/reply assistant: You said: one\ntwo");
    assert_eq!(app.telegram_api().sent().len(), 1);
    app.finish().await;
}
