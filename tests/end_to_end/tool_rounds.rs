//! Calls of tools: their number in a turn, and their results beside them.

use std::collections::HashSet;

use annals_test_support::model_api::texts_of;
use serde_json::{Value, json};

use crate::app::TestApp;
use crate::turns::assert_has;
use crate::updates::private;

const CHAT: &str = "telegram:chat:42";
const TOOL: &str = "chat_history_search";

async fn compact(app: &TestApp, id: i64) {
    app.handle(private(42, id, "/compact").command()).await;
}

/// A chat with something archived, where the gate code was said.
async fn archived() -> TestApp {
    let app = TestApp::builder().set("KEEP_RECENT", "2").telegram().model().start().await;
    app.ada_says(1, "The gate code is 80-41-XQ, keep it.").await;
    app.ada_says(2, "Thank you.").await;
    compact(&app, 3).await;
    assert_eq!(app.context(CHAT).await.len(), 3);
    app
}

fn offers_tools(request: &Value) -> bool {
    request["tools"].is_array()
}

/// `<state>`, or what else a part is, in order.
fn states(reply: &Value) -> Vec<&str> {
    let parts = reply["parts"].as_array().unwrap();
    parts.iter().map(|part| part["state"].as_str().or(part["type"].as_str()).unwrap()).collect()
}

#[tokio::test]
async fn a_call_and_its_result_are_summed_up_together_and_leave_together() {
    let app = archived().await;
    app.model().answer_tools(&[(TOOL, json!({"query": "gate code"}))]);
    app.ada_says(4, "What was the gate code?").await;
    let answered = app.context(CHAT).await;
    assert_eq!(states(answered.last().unwrap()), ["step-start", "output-available", "step-start", "text"]);
    let seen = |request: &Value| request["messages"].to_string();
    app.ada_says(5, "Good.").await;
    let request = app.last_request();
    let roles: Vec<&str> =
        request["messages"].as_array().unwrap().iter().rev().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles[..5], ["user", "assistant", "tool", "assistant", "user"], "a call is sent as a call");
    assert!(seen(&request).contains(TOOL), "so far it is in view");

    let noted = app.model().requests_for_notes().len();
    compact(&app, 6).await;
    let [request] = &app.model().requests_for_notes()[noted..] else { panic!("one summary") };
    let asked = texts_of(request, "user").concat();
    let messages: Vec<&str> = asked.split("<reply>").collect();
    let quoted: Vec<&&str> = messages.iter().filter(|message| message.contains(TOOL)).collect();
    let [message] = quoted[..] else { panic!("{asked}") };
    let call = format!("[tool {TOOL} {{\"query\":\"gate code\"}} -> {{\"messages\":[");
    assert!(message.starts_with(&call), "{message}");
    assert_has(message, &["80-41-XQ", "\nYou said: What was the gate code?</reply>"]);

    // Neither half is left, not even as a part without text.
    let context = app.context(CHAT).await;
    assert_eq!(context.len(), 3);
    assert!(!json!(context).to_string().contains(TOOL), "{context:#?}");
    app.ada_says(7, "And now?").await;
    let request = app.last_request();
    assert!(!seen(&request).contains(TOOL), "{request}");
    assert!(!request["messages"].to_string().contains("tool_call"), "{request}");
    // The history has both.
    let reply = app.history(CHAT).await.into_iter().find(|message| message["id"] == "4/reply").unwrap();
    assert_eq!(reply["parts"], answered.last().unwrap()["parts"]);
    app.finish().await;
}

/// In a request, and in what a search finds; a long one too, of which an excerpt is shown.
#[tokio::test]
async fn forwarded_words_are_their_author_s() {
    let app = TestApp::builder().set("KEEP_RECENT", "2").telegram().model().start().await;
    app.model().answer_with("Noted.");
    let bob = json!({"id": 43, "is_bot": false, "first_name": "Bob"});
    let bob = json!({"type": "user", "sender_user": bob, "date": 1_763_765_920});
    let long = format!("I pay 600. {}", "Later. ".repeat(2_000));
    for (id, text) in [(1, "I pay 500."), (2, long.as_str())] {
        app.handle(private(42, id, text).with("forward_origin", bob.clone())).await;
    }
    let words_of_bob = "[forwarded: these are the words of Bob, not of the sender]";
    let seen = texts_of(&app.model().requests()[0], "user").concat();
    assert!(seen.contains(&format!("{words_of_bob}\nI pay 500.")), "{seen}");
    app.ada_says(3, "Thank you.").await;
    compact(&app, 4).await;
    app.model().answer_tools(&[(TOOL, json!({"query": "pay"}))]);
    app.ada_says(5, "Who pays?").await;
    let found = texts_of(&app.last_request(), "tool").concat();
    for paid in ["I pay 500.", "I pay 600."] {
        assert!(found.contains(&format!("{words_of_bob}\\n{paid}")), "{found}");
    }
    app.finish().await;
}

#[tokio::test]
async fn after_eight_rounds_the_model_is_asked_without_tools() {
    let app = archived().await;
    for n in 0..20 {
        app.model().answer_tools(&[(TOOL, json!({"query": format!("gate {n}")}))]);
    }
    let before = app.model().count();
    app.ada_says(4, "What was the gate code?").await;
    let requests = &app.model().requests()[before..];
    let offered = requests.iter().map(offers_tools).collect::<Vec<_>>();
    assert_eq!(offered, [true, true, true, true, true, true, true, true, false]);
    let results = requests.iter().map(|request| texts_of(request, "tool").len());
    assert_eq!(results.collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7, 8], "each round sees those before");
    let history = app.history(CHAT).await;
    let reply = history.last().unwrap();
    let parts = reply["parts"].as_array().unwrap();
    assert_eq!(states(reply)[..4], ["step-start", "output-available", "step-start", "output-available"]);
    let queries: Vec<String> =
        parts.iter().filter_map(|part| part["input"]["query"].as_str().map(str::to_owned)).collect();
    assert_eq!(queries, (0..8).map(|n| format!("gate {n}")).collect::<Vec<_>>());
    let ids: HashSet<&str> = parts.iter().filter_map(|part| part["toolCallId"].as_str()).collect();
    assert_eq!(ids.len(), 8);
    app.export(CHAT, "eight-rounds").await;
    assert!(parts.last().unwrap()["text"].as_str().unwrap().starts_with("You said: "), "it ends in words");
    app.finish().await;
}

/// Models may end a reply without a word after its calls, and do so again if they are asked the same.
#[tokio::test]
async fn an_empty_answer_after_a_call_ends_the_reply() {
    let app = archived().await;
    app.model().answer_tools(&[(TOOL, json!({"query": "gate code"}))]);
    app.model().answer_by(|body| (!texts_of(body, "tool").is_empty()).then(String::new));
    let before = app.model().count();
    app.handle_as_time_passes(private(42, 4, "Look for the gate code.")).await;
    assert_eq!(app.model().count() - before, 3, "one that calls, one with the result, one repeat");
    assert_eq!(app.last_sent().text, "Done.");
    let history = app.history(CHAT).await;
    let reply = history.last().unwrap();
    assert_eq!(states(reply), ["step-start", "output-available", "step-start", "text"]);
    assert!(reply["metadata"]["cause"].is_null(), "{reply}");
    app.finish().await;
}

#[tokio::test]
async fn of_ten_simultaneous_calls_eight_are_made_and_two_are_refused() {
    let app = archived().await;
    let calls: Vec<(&str, Value)> = (0..10).map(|_| (TOOL, json!({"query": "gate code"}))).collect();
    app.model().answer_tools(&calls);
    let before = app.model().count();
    app.ada_says(4, "What was the gate code?").await;
    let [_, request] = &app.model().requests()[before..] else { panic!("one round") };
    let results = texts_of(request, "tool");
    assert!(results[..8].iter().all(|result| result.contains("80-41-XQ")), "{results:?}");
    let refused = r#"{"error":"only 8 calls are carried out at once"}"#;
    assert_eq!(results[8..], [refused, refused]);
    let history = app.history(CHAT).await;
    let (done, failed) = ("output-available", "output-error");
    app.export(CHAT, "ten-calls").await;
    let states = states(history.last().unwrap());
    assert_eq!(states[..9], ["step-start", done, done, done, done, done, done, done, done]);
    assert_eq!(states[9..], [failed, failed, "step-start", "text"]);
    app.finish().await;
}

/// A result holds whole messages: each hit with those beside it, in chat order, each once, and none that is in view; as many as
/// fit. Of a message that is longer than half of the result, it holds an excerpt.
#[tokio::test]
async fn a_search_returns_whole_messages_with_their_neighbours() {
    let app = TestApp::builder().set("KEEP_RECENT", "2").telegram().model().start().await;
    let long =
        format!("{} the gate code of the cellar is 11-22 {}", "before ".repeat(2000), "after ".repeat(2000));
    let middle = format!("the gate code of the attic is 33-44, {}", "and more of it, ".repeat(60));
    for (id, text) in
        (1..).zip(["Hello.", &long, "A chat about beans.", "It rains.", &middle, "The sun is out."])
    {
        app.ada_says(id, text).await;
    }
    compact(&app, 7).await;
    app.model().answer_tools(&[(TOOL, json!({"query": "gate code of the attic"}))]);
    app.ada_says(8, "What was the code?").await;
    let reply = app.history(CHAT).await.into_iter().rev().find(|message| message["id"] == "8/reply").unwrap();
    let call = reply["parts"].as_array().unwrap().iter().find(|part| part["output"].is_object()).unwrap();
    let (output, messages) = (&call["output"], call["output"]["messages"].as_array().unwrap());
    assert_eq!(output["olderMessagesWereNotSearched"], false);
    let ids: Vec<&str> = messages.iter().map(|message| message["id"].as_str().unwrap()).collect();
    let unique: HashSet<&&str> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
    let place = ids.iter().position(|id| *id == "5").unwrap();
    assert_eq!(ids[place - 1..=place + 1], ["4/reply", "5", "5/reply"], "in chat order");
    assert!(!ids.contains(&"6"), "it is in view: {ids:?}");
    let of = |id: &str| messages.iter().find(|message| message["id"] == id).unwrap();
    assert_eq!((&of("5")["text"], &of("5")["hit"]), (&json!(middle), &json!(true)));
    assert_eq!([&of("4")["text"], &of("4")["who"]], ["It rains.", "Ada"]);
    assert!(of("4").get("hit").is_none());
    let excerpt = of("2")["text"].as_str().unwrap();
    assert!(excerpt.chars().count() < 500 && excerpt.starts_with('…'), "{excerpt}");
    assert_has(excerpt, &["cellar"]);
    app.finish().await;
}
