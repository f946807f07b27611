//! The steps of a turn: `GET /v1/chats/{chatId}/turns/{id}`, and the count of its requests.

use std::time::Duration;

use annals_core::record::Kind;
use annals_core::trace::Trace;
use annals_test_support::model_api::times_of;
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{APP_KEY, OPS_KEY, TestApp, chat_path, passing, wait_until};
use crate::models::with_fallback;
use crate::outside_tools::OWN_TOOLS;
use crate::updates::private;
use crate::world::{LEASE, SMALL, World};

const CHAT: &str = "telegram:chat:42";
const TOOL: &str = "chat_history_search";

async fn turn(app: &TestApp, id: &str) -> Value {
    app.get(&chat_path(CHAT, &format!("turns/{}", id.replace('/', "%2F")))).await
}

/// Returns the steps of `turn` with their names and errors, in order, separated by commas.
fn steps(turn: &Value) -> String {
    let spans = turn["spans"].as_array().unwrap();
    let texts = |span: &Value| {
        let fields = ["step", "name", "error"].into_iter().filter_map(|field| span[field].as_str());
        fields.collect::<Vec<_>>().join(" ")
    };
    spans.iter().map(texts).collect::<Vec<_>>().join(", ")
}

/// The steps of a model that fails three times.
const THREE_FAILURES: &str =
    "request openai:test busy 503, pause, request openai:test busy 503, pause, request openai:test busy 503";

/// Returns the first span of `turn` that is this step.
fn span<'a>(turn: &'a Value, step: &str) -> &'a Value {
    turn["spans"].as_array().unwrap().iter().find(|span| span["step"] == step).unwrap()
}

#[tokio::test]
async fn a_turn_tells_its_time_in_the_queue_its_request_and_each_piece() {
    let app = TestApp::start().await;
    app.model().answer_with(format!("{} {}", "a".repeat(4000), "b".repeat(4000)));
    app.hold(private(42, 1, "one")).await;
    app.receive(private(42, 2, "two")).await;
    app.clock().advance(Duration::from_secs(7));
    app.model().resume();
    app.idle().await;

    let first = turn(&app, "1/reply").await;
    assert_eq!(steps(&first), "queue, read, prepare, request openai:test, piece, piece");
    let request = span(&first, "request");
    assert_eq!((&request["ms"], &request["firstTokenMs"]), (&json!(7000), &json!(7000)), "{first}");
    assert!(request["inputTokens"].as_u64().unwrap() > 0 && request["outputTokens"].as_u64().unwrap() > 0);
    assert_eq!((&first["requests"], &first["dropped"]), (&json!(1), &json!(0)));

    let second = turn(&app, "2").await;
    assert_eq!(second, turn(&app, "2/reply").await, "by the message that it answers, or its own id");
    assert_eq!(span(&second, "queue")["ms"], 7000, "{second}");
    assert_eq!(steps(&second), steps(&first), "the delivery of the last reply is in the head");
    assert_eq!(second["prompt"]["exact"], true, "{second}");
    let told = times_of(&app.last_request());
    assert_eq!(second["prompt"]["now"], format!("<time>{}</time>", told.last().unwrap()));
    assert_eq!(second["prompt"]["timeMarks"][0], format!("<time>{}</time>", told[0]));
    let asked: Vec<&str> =
        second["prompt"]["messages"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
    assert_eq!(asked, ["1", "1/reply", "2"]);
    // It is not listed, is kept in the archive, and is found by its time there.
    let records = app.records(CHAT).await;
    assert!(!json!(app.history(CHAT).await).to_string().contains("firstTokenMs"));
    app.leave_the_table(CHAT).await;
    let ts = records[0].ts.as_millis();
    let mut archived = app.get(&chat_path(CHAT, &format!("turns/1%2Freply?ts={ts}"))).await;
    assert_eq!(archived["prompt"]["exact"], false);
    archived["prompt"] = first["prompt"].clone();
    assert_eq!(archived, first);
    // A message stored without a turn, an unknown id and another key's chat have none.
    for (path, key) in [(CHAT, OPS_KEY), (CHAT, APP_KEY), ("c1", APP_KEY)] {
        let answer = app.call(Method::GET, &chat_path(path, "turns/9"), key).await;
        answer.assert_problem(404, "no-such-turn");
    }
    app.call(Method::GET, &chat_path(CHAT, "turns/1?ts=soon"), OPS_KEY).await.assert_problem(400, "bad-ts");
    app.finish().await;
}

/// Any text may be an id, also one like that of a form.
#[tokio::test]
async fn a_turn_is_found_by_any_id_and_its_time() {
    let app = TestApp::start().await;
    app.say("c", &json!({"userId": "ada", "messageId": "x@7", "text": "hello"})).await;
    let chat = "http:chat:app:c";
    let ts = app.records(chat).await[0].ts.as_millis();
    for id in ["x@7", "x@7%2Freply"] {
        let found = app.get(&chat_path(chat, &format!("turns/{id}?ts={ts}"))).await;
        assert_eq!(found["id"], "x@7/reply");
    }
    app.finish().await;
}

#[tokio::test]
async fn a_turn_tells_its_failed_requests_its_pauses_its_fallback_and_its_calls() {
    let (app, spare) = with_fallback().await;
    app.ada_says(1, "The gate code is 80-41-XQ, keep it.").await;
    app.ada_says(2, "Thank you.").await;
    app.handle(private(42, 3, "/compact").command()).await;
    let compacted = turn(&app, "3").await;
    assert!(steps(&compacted).starts_with("queue, read, compact, request openai:test"), "{compacted}");
    assert_eq!(compacted["prompt"], Value::Null, "a summary is not the turn's prompt");

    app.model().fail(3, 503);
    spare.answer_tools(&[(TOOL, json!({"query": "gate code"}))]);
    app.handle_as_time_passes(private(42, 4, "What was the gate code?")).await;
    let answered = turn(&app, "4/reply").await;
    let spares = "request anthropic:spare, tool chat_history_search, request anthropic:spare";
    let wanted = format!("queue, read, prepare, {THREE_FAILURES}, {spares}, piece");
    assert_eq!(steps(&answered), wanted, "{answered}");
    assert_eq!(answered["requests"], 5);
    let pauses = answered["spans"].as_array().unwrap().iter().filter(|span| span["step"] == "pause");
    let pauses: Vec<u64> = pauses.map(|span| span["ms"].as_u64().unwrap()).collect();
    assert!((500..1000).contains(&pauses[0]) && (1000..1500).contains(&pauses[1]), "{pauses:?}");
    app.finish().await;
}

#[tokio::test]
async fn a_turn_tells_the_whole_prompt_of_its_first_request() {
    let mut app = TestApp::builder().telegram().model().set("SYSTEM_PROMPT", "Be brief.").start().await;
    app.model().answer_tools(&[("memory_save", json!({"text": "Ada likes soup"}))]);
    app.ada_says(1, "I like soup").await;
    let known = async |app: &TestApp, id: &str| {
        let prompt = turn(app, id).await["prompt"].take();
        let texts =
            ["system", "memory"].map(|part| (prompt[part]["text"].clone(), prompt[part]["exact"].clone()));
        (texts, prompt["tools"].clone())
    };
    // The model saved the entry in this turn, so it was not sent it.
    let ([system, memory], tools) = known(&app, "1").await;
    assert_eq!(system, (json!("Be brief."), json!(true)));
    assert!(memory.0.as_str().unwrap().contains("Ada likes soup") && memory.1 == false, "{memory:?}");
    assert_eq!(tools, json!({"names": OWN_TOOLS, "more": 0}));
    app.ada_says(2, "What do I like?").await;
    let sent = app.last_request().to_string();
    let ([_, memory], _) = known(&app, "2").await;
    assert!(memory.0.as_str().unwrap().contains("Ada likes soup") && memory.1 == true, "{memory:?}");
    assert!(sent.contains("Ada likes soup") && sent.contains("Be brief."), "{sent}");
    app.set("SYSTEM_PROMPT", "").await;
    let ([system, memory], _) = known(&app, "2").await;
    assert_eq!((system, memory.1), ((Value::Null, json!(false)), json!(true)), "the settings have changed");
    app.finish().await;
}

#[tokio::test]
async fn a_turn_tells_all_of_its_attempts() {
    let mut app = TestApp::start().await;
    // Refused by the model in its first attempt, and cut off in its second.
    app.model().fail(3, 503);
    app.receive(private(42, 1, "hello")).await;
    let handed_back = async {
        let is_handed_back = async || {
            let head = app.open_history().head(&CHAT.parse().unwrap()).await.unwrap();
            head.failures == 1
        };
        wait_until("the first attempt has failed", is_handed_back).await;
        app.model().hang();
        app.model().wait_for(4).await;
    };
    app.as_time_passes(Box::pin(handed_back)).await;
    app.clock().advance(Duration::from_secs(20));
    app.stop().await;
    app.model().resume();
    app.restart().await;
    app.idle_as_time_passes().await;
    let told = turn(&app, "1").await;
    let again = "queue, lost, read, prepare, request openai:test, piece";
    assert_eq!(steps(&told), format!("queue, read, prepare, {THREE_FAILURES}, {again}"), "{told}");
    assert!(span(&told, "lost")["ms"].as_u64().unwrap() >= 20_000, "{told}");
    assert_eq!(told["requests"], 4, "what a lost run has asked is not known");
    assert_eq!(told["prompt"]["exact"], true);
    let head = app.open_history().head(&CHAT.parse().unwrap()).await.unwrap();
    assert_eq!((head.trace, head.running_since), (None, None));
    app.finish().await;
}

#[tokio::test]
async fn a_turn_makes_a_bounded_number_of_requests_in_all_of_its_attempts() {
    let world = World::hosted(SMALL).await;
    let spent = |requests| Trace { requests, ..Trace::new(world.clock.now()) };
    let first = world.hear(0, "hello", true).await;
    world.history.release_unfinished(&world.claim().await, true, Some(spent(118))).await.unwrap();
    world.model().fail(10, 503);
    passing(&world.clock, Duration::from_millis(100), world.start_run(&first)).await.unwrap().unwrap();
    assert_eq!(world.model().count(), 2, "of 120, two were left");
    let records = world.records().await;
    assert_eq!(records.last().unwrap().kind(), Kind::Notice);
    assert_eq!(records.last().unwrap().trace().unwrap().requests, 120);
    assert_eq!(world.head().await.trace, None, "the next turn has all of its requests");

    // After 40 requests no summary is made, but the answer is asked for.
    world.model().recover();
    for n in 1..20 {
        world.hear(n, &"lorem ipsum dolor ".repeat(10), false).await;
    }
    let long = world.hear(30, "And now?", true).await;
    world.history.release_unfinished(&world.claim().await, false, Some(spent(40))).await.unwrap();
    world.run(&long).await;
    assert_eq!((world.model().requests_for_notes().len(), world.summaries().await.len()), (0, 0));
    assert_eq!(world.records().await.last().unwrap().trace().unwrap().requests, 41);
    world.clock.advance(LEASE);
    let next = world.hear(600, "And then?", true).await;
    world.run(&next).await;
    assert!(!world.summaries().await.is_empty(), "the next turn makes them");
}
