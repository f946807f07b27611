//! The model is told the date and the time: of messages, and the current one, in the time zone of the person.

use std::time::Duration;

use annals_core::sort_key::Timestamp;
use annals_test_support::model_api::{ModelApi, is_for_notes, is_for_summary, texts_of, times_of};
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{Builder, OPS_KEY, TestApp, chat_path, text_of};
use crate::chat::post;
use crate::memory::call;
use crate::people::{by_person, http};
use crate::turns::assert_has;
use crate::updates::{group, private};

const CHAT: &str = "http:chat:app:c1";

fn in_zone(zone: &str) -> Builder {
    TestApp::builder().set("TIME_ZONE", zone).set("SESSION_STALE_AFTER", "0").model()
}

async fn says(app: &TestApp, chat: &str, text: &str) {
    app.say(chat, &json!({"userId": "ada", "text": text})).await;
}

/// Posts a command to the conversation `chat` of the key `app`, and returns its confirmation.
async fn commands(app: &TestApp, chat: &str, text: &str) -> String {
    app.clock().advance(Duration::from_secs(1));
    says(app, chat, text).await;
    text_of(app.history(&format!("http:chat:app:{chat}")).await.last().unwrap())
}

fn at(app: &TestApp, rfc3339: &str) {
    app.advance_to(Timestamp::parse_rfc3339(rfc3339).unwrap().as_millis());
}

/// Returns the times of the last request for an answer: of messages, and the current one without its explanation.
fn told(app: &TestApp) -> Vec<String> {
    let mut times = times_of(&app.last_request());
    let now = times.pop().unwrap();
    times.push(now.split_once(". ").unwrap().0.to_owned());
    times
}

/// Returns the time zone that the last request for an answer names.
fn zone(app: &TestApp) -> String {
    told(app).pop().unwrap().rsplit(' ').next().unwrap().to_owned()
}

#[tokio::test]
async fn what_was_said_yesterday_can_be_told_across_midnight() {
    let app = in_zone("Asia/Shanghai").set("SYSTEM_PROMPT", "Be brief.").start().await;
    at(&app, "2026-11-24T15:50:00Z");
    says(&app, "c1", "I bought a red bike").await;
    let now = "Now: Tuesday 2026-11-24 23:50 +08:00, in the time zone Asia/Shanghai";
    assert_eq!(told(&app), ["Tuesday 2026-11-24 23:50 +08:00", now]);
    at(&app, "2026-11-24T16:10:20Z");
    says(&app, "c1", "What did I say yesterday?").await;
    let request = app.last_request();
    let said: Vec<&str> =
        request["messages"].as_array().unwrap().iter().map(|m| m["content"].as_str().unwrap()).collect();
    assert_eq!(said.len(), 4, "{said:?}");
    assert_eq!(said[0], "Be brief.");
    assert_eq!(said[1], "<time>Tuesday 2026-11-24 23:50 +08:00</time>\nI bought a red bike");
    let now = "<time>Now: Wednesday 2026-11-25 00:10 +08:00, in the time zone Asia/Shanghai. A time before a message says when \
               that message was sent. Answer without such elements.</time>";
    assert_eq!(
        said[3],
        format!("<time>Wednesday 2026-11-25 00:10 +08:00</time>\nWhat did I say yesterday?\n{now}")
    );
    // Without a pause there is no further time.
    app.clock().advance(Duration::from_secs(40));
    says(&app, "c1", "And today?").await;
    let later = "Now: Wednesday 2026-11-25 00:11 +08:00, in the time zone Asia/Shanghai";
    assert_eq!(told(&app)[1..], ["Wednesday 2026-11-25 00:10 +08:00", later]);

    // Nothing of it is stored.
    for record in app.records(CHAT).await {
        let stored = serde_json::to_string(&record.listed()).unwrap();
        let quotes_the_request = record.role() == annals_core::message::Role::Assistant;
        assert!(quotes_the_request || !stored.contains("time>"), "{stored}");
    }
    let context = app.get(&chat_path(CHAT, "context")).await;
    let marks = ["Tuesday 2026-11-24 23:50", "Wednesday 2026-11-25 00:10"];
    let marks = marks.map(|time| format!("<time>{time} +08:00</time>"));
    assert_eq!(context["timeMarks"], json!([marks[0], null, marks[1], null, null, null]));
    assert!(context["now"].as_str().unwrap().starts_with(&format!("<time>{later}. ")), "{context}");
    assert!(context["tokens"].as_u64() > context["systemTokens"].as_u64().map(|tokens| tokens + 60));
    app.finish().await;
}

/// Returns the texts of a request without the current time at its end, up to where the next one may go on.
fn beginning(request: &Value) -> String {
    let messages = request["messages"].as_array().unwrap().iter();
    let lines =
        messages.map(|m| format!("{}: {}", m["role"].as_str().unwrap(), m["content"].as_str().unwrap()));
    let text = lines.collect::<Vec<_>>().join("\n");
    let (before, now) = text.rsplit_once("<time>Now: ").unwrap();
    assert!(now.ends_with("</time>"), "{now}");
    before.trim_end().to_owned()
}

#[tokio::test]
async fn a_request_starts_with_the_whole_one_before_except_its_current_time() {
    for model in ModelApi::models() {
        let app = TestApp::builder().set("TIME_ZONE", "America/New_York").set("SYSTEM_PROMPT", "Be brief.");
        let app = app.set("MODEL_PROMPT_CACHE", "true").model_of(model).start().await;
        // Minutes, hours, and a night.
        for (number, minutes) in [1, 3, 20, 61, 1, 700, 14, 16, 2, 90].into_iter().enumerate() {
            app.clock().advance(Duration::from_mins(minutes));
            says(&app, "c1", &format!("{number}: {}", "lorem ipsum ".repeat(30))).await;
        }
        let requests = app.model().requests();
        assert_eq!(requests.len(), 10);
        for pair in requests.windows(2) {
            let (before, after) = (beginning(&pair[0]), beginning(&pair[1]));
            assert!(after.starts_with(&before), "{model}\n{before}\n---\n{after}");
        }
        let cached = app.model().cached_tokens();
        println!("{model}: cached tokens {cached:?}");
        assert!(cached.windows(2).skip(2).all(|pair| pair[0] + 80 < pair[1]), "{model}: {cached:?}");
        app.finish().await;
    }
}

#[tokio::test]
async fn the_current_time_is_the_same_in_all_requests_of_a_turn() {
    let app = in_zone("UTC").start().await;
    says(&app, "c1", "hello").await;
    app.model().answer_tools(&[("memory_search", json!({"query": "tea"}))]);
    app.clock().advance(Duration::from_secs(59));
    says(&app, "c1", "What do I drink?").await;
    let requests = app.model().requests();
    let [.., first, second] = &requests[..] else { panic!("two requests") };
    assert_eq!(times_of(first), times_of(second));
    let (first, second) = (first["messages"].as_array().unwrap(), second["messages"].as_array().unwrap());
    assert!(second.starts_with(first) && second.len() > first.len());
    app.finish().await;
}

#[tokio::test]
async fn a_person_has_a_time_zone_in_all_direct_chats_and_a_group_has_the_setting_s() {
    let app = TestApp::builder().set("TIME_ZONE", "Europe/Berlin").telegram().model().start().await;
    says(&app, "c1", "hello").await;
    assert_eq!(zone(&app), "Europe/Berlin");
    for (command, answer) in [
        (
            "/timezone",
            "You have not chosen a time zone. Yours is Europe/Berlin. To change it: /timezone and a name such as Asia/Shanghai",
        ),
        (
            "/timezone shangai",
            "I do not know this time zone. Did you mean Asia/Shanghai? Names are like Asia/Shanghai or Europe/Berlin.",
        ),
        (
            "/TimeZone asia/shanghai",
            "Your time zone is Asia/Shanghai now. Reminders that are set keep theirs.",
        ),
    ] {
        assert_eq!(commands(&app, "c1", command).await, answer);
    }
    assert!(commands(&app, "c1", "/timezone").await.starts_with("Your time zone is Asia/Shanghai."));
    for chat in ["c1", "c2"] {
        says(&app, chat, "What time is it?").await;
        assert_eq!(zone(&app), "Asia/Shanghai", "{chat}");
    }
    let context = app.get(&chat_path(CHAT, "context")).await;
    assert!(context["now"].as_str().unwrap().contains("in the time zone Asia/Shanghai."));
    app.say("c3", &json!({"userId": "bo", "text": "hello"})).await;
    assert_eq!(zone(&app), "Europe/Berlin", "it is another person's");

    let unknown = "没有这个时区。时区名的写法如 Asia/Shanghai 或 Europe/Berlin。";
    assert_eq!(commands(&app, "c1", "/timezone 上海").await, unknown);

    // On a platform, and never for others in a group.
    app.handle(private(42, 1, "/timezone Asia/Tokyo").command()).await;
    assert_eq!(app.sent_texts(), ["Your time zone is Asia/Tokyo now. Reminders that are set keep theirs."]);
    app.handle(private(42, 2, "hello")).await;
    assert_eq!(zone(&app), "Asia/Tokyo");
    app.handle(group(-7, 1, "/timezone Asia/Tokyo").command()).await;
    let here =
        "The time zone here is Europe/Berlin. Your own is for direct chats with me: use /timezone there.";
    assert_eq!(app.sent_texts().last().unwrap(), here);
    app.finish().await;
}

#[tokio::test]
async fn a_time_zone_needs_no_memory_and_is_forgotten_with_the_person() {
    let app = TestApp::builder().set("MEMORY", "off").model().start().await;
    commands(&app, "c1", "/timezone Asia/Kathmandu").await;
    says(&app, "c1", "What time is it?").await;
    assert_eq!(zone(&app), "Asia/Kathmandu");
    let person = "/v1/people/app%2Fada";
    let gone = app.as_time_passes(Box::pin(app.call(Method::DELETE, person, OPS_KEY))).await;
    assert!(gone.status.is_success(), "{gone:?}");
    says(&app, "c2", "What time is it?").await;
    assert_eq!(zone(&app), "UTC");
    app.finish().await;
}

#[tokio::test]
async fn a_link_brings_the_time_zone_along() {
    let app = by_person().start().await;
    app.handle(private(42, 1, "/timezone Asia/Tokyo").command()).await;
    let links = json!({"links": ["telegram-42"]});
    let linked = call(&app, Method::PUT, "/v1/people/ada/links", OPS_KEY, Some(links)).await;
    assert!(linked.status.is_success(), "{linked:?}");
    app.idle_as_time_passes().await;
    http(&app, "ada", "What time is it?").await;
    assert_eq!(zone(&app), "Asia/Tokyo");
    app.finish().await;
}

#[tokio::test]
async fn a_client_may_name_the_time_zone_of_its_person() {
    let app = TestApp::builder().model().start().await;
    let ask = async |id: &str, metadata: Value| {
        let parts = json!([{"type": "text", "text": "What time is it?"}]);
        let message = json!({"id": id, "role": "user", "parts": parts, "metadata": metadata});
        let body = json!({"id": "r1", "trigger": "submit-message", "message": message});
        post(&app, &body).await.rest().await;
    };
    ask("m1", json!({"timeZone": "America/Lima"})).await;
    assert_eq!(zone(&app), "America/Lima");
    ask("m2", json!({"timeZone": "Mars/Olympus"})).await;
    assert_eq!(zone(&app), "UTC");
    app.finish().await;
}

#[tokio::test]
async fn requests_for_summaries_and_memories_have_the_times_and_ask_for_dates() {
    let app = TestApp::builder().set("KEEP_RECENT", "2").model().start().await;
    at(&app, "2026-11-24T15:50:00Z");
    commands(&app, "c1", "/timezone Asia/Shanghai").await;
    says(&app, "c1", &"I saw the doctor yesterday. ".repeat(20)).await;
    at(&app, "2026-11-24T23:00:00Z");
    says(&app, "c1", "thanks").await;
    commands(&app, "c1", "/compact").await;
    commands(&app, "c1", "/new").await;
    let notes = app.model().requests_for_notes();
    assert_eq!(notes.iter().map(is_for_summary).collect::<Vec<_>>(), [true, false]);
    for (request, times) in
        notes.iter().zip([&["Tuesday 2026-11-24 23:50 +08:00"][..], &["Wednesday 2026-11-25 07:00 +08:00"]])
    {
        assert!(is_for_notes(request));
        assert_eq!(times_of(request), times);
        let instructions = texts_of(request, "system").concat();
        assert_has(&instructions, &["Write days as dates", "never as yesterday"]);
    }
    app.finish().await;
}
