//! `/api/chat` with tools: calls, results and approval requests are streamed, and `useChat` answers the requests.

use std::collections::BTreeSet;
use std::slice::from_ref;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::app::{APP_KEY, TestApp};
use crate::approvals::refund;
use crate::chat::{ROOM, Stream, kinds, post, regenerate, resume, streamed, submit, user};
use crate::outside_tools::start_with_shop;
use crate::world::A_LIFE;

fn asks() -> Value {
    json!({"tools": {"refund": {"approval": true}}})
}

/// Says `m1`, for which the model makes `call`. Returns that message, the chunks of the stream, and the reply.
async fn called(app: &TestApp, call: (&str, Value)) -> (Value, Vec<Value>, Value) {
    app.model().answer_tools(&[call]);
    let said = user("m1", "See to A1.");
    let chunks = post(app, &submit(from_ref(&said))).await.rest().await;
    app.idle().await;
    (said, chunks, app.history(ROOM).await.pop().unwrap())
}

/// The reply as the client has it, its requests answered.
fn answered(reply: &Value, approved: bool) -> Value {
    let mut reply = reply.clone();
    for part in reply["parts"].as_array_mut().unwrap() {
        if part["state"] == "approval-requested" {
            part["state"] = "approval-responded".into();
            part["approval"]["approved"] = approved.into();
            part["approval"]["reason"] = "since I say so".into();
        }
    }
    reply
}

fn states(message: &Value) -> Vec<&str> {
    message["parts"].as_array().unwrap().iter().filter_map(|part| part["state"].as_str()).collect()
}

#[tokio::test]
async fn calls_and_results_are_streamed_with_their_steps() {
    let (_shop, app) = start_with_shop(&asks()).await;
    let (_, chunks, reply) = called(&app, ("shop_lookup", json!({"order": "A1"}))).await;
    assert_eq!(
        kinds(&chunks).join(" "),
        "start start-step tool-input-start tool-input-available tool-output-available finish-step \
         start-step text-start text-delta text-end finish-step finish"
    );
    assert_eq!(chunks[3]["input"], json!({"order": "A1"}));
    let parts: Vec<&str> =
        reply["parts"].as_array().unwrap().iter().map(|part| part["type"].as_str().unwrap()).collect();
    assert_eq!(parts, ["step-start", "tool-shop_lookup", "step-start", "text"]);
    assert_eq!(reply["parts"][1]["output"], chunks[4]["output"]);
    assert_eq!(reply["parts"][3]["text"], streamed(&chunks));
    app.finish().await;
}

#[tokio::test]
async fn a_request_is_answered_in_the_stream_that_asked_and_its_call_is_made_once() {
    let (shop, app) = start_with_shop(&asks()).await;
    let (said, chunks, reply) = called(&app, refund("A1")).await;
    let asked = chunks.iter().find(|chunk| chunk["type"] == "tool-approval-request").unwrap();
    assert_eq!(chunks.last().unwrap()["finishReason"], "tool-calls");
    assert_eq!(reply["parts"][1]["approval"]["id"], asked["approvalId"]);
    // Neither who did not ask nor an id that nobody gave out.
    let answer = submit(&[said.clone(), answered(&reply, true)]);
    let mut other = answer.clone();
    other["userId"] = "eve".into();
    assert_eq!(app.post("/api/chat", APP_KEY, &other).await.status, StatusCode::FORBIDDEN);
    let mut forged = answer.clone();
    forged["messages"][1]["parts"][1]["approval"]["id"] = "0123456789abcdef".into();
    post(&app, &forged).await.rest().await;
    assert!(shop.carried_out().is_empty());

    let chunks = post(&app, &answer).await.rest().await;
    let expected = "start tool-output-available start-step text-start text-delta text-end finish-step finish";
    assert_eq!(kinds(&chunks).join(" "), expected);
    assert_eq!(chunks[0]["messageId"], "m1/reply");
    // The same answer again, and another one: the first counts, and the reply is there.
    for again in [answer, submit(&[said.clone(), answered(&reply, false)])] {
        let chunks = post(&app, &again).await.rest().await;
        assert_eq!(kinds(&chunks).last(), Some(&"finish"), "{chunks:?}");
    }
    app.idle().await;
    assert_eq!(shop.carried_out().len(), 1);
    let history = app.history(ROOM).await;
    let forms: Vec<_> = history.iter().filter(|m| m["metadata"]["messageId"] == "m1/reply").collect();
    assert_eq!(forms.len(), 4, "there are not the forms asked, answered, carried out and said: {history:#?}");
    assert_eq!(states(forms[3]), ["output-available"]);
    assert_eq!(forms[3]["id"], "m1/reply@3");
    app.export(ROOM, "chat-approved").await;

    // A repeat of the question gets the reply from the archive.
    app.leave_the_table(ROOM).await;
    let chunks = post(&app, &submit(from_ref(&said))).await.rest().await;
    assert_eq!(kinds(&chunks).last(), Some(&"finish"), "{chunks:?}");
    app.finish().await;
}

/// `useChat` would send the answer again and again if the stream ended as usual, with the request open as before.
#[tokio::test]
async fn a_request_that_has_lapsed_is_not_there() {
    let (_shop, app) = start_with_shop(&asks()).await;
    let (said, _, reply) = called(&app, refund("A1")).await;
    app.clock().advance(A_LIFE);
    let answer = app.post("/api/chat", APP_KEY, &submit(&[said, answered(&reply, true)])).await;
    answer.assert_problem(404, "unknown-message");
    app.finish().await;
}

/// `useChat` with `lastAssistantMessageIsCompleteWithToolCalls` would submit a reply that ends in calls, such as a stopped one,
/// again and again.
#[tokio::test]
async fn a_reply_that_waits_for_no_answer_is_refused() {
    let (_shop, app) = start_with_shop(&asks()).await;
    let (said, _, mut reply) = called(&app, ("shop_lookup", json!({"order": "A1"}))).await;
    post(&app, &submit(&[said.clone(), reply.clone()])).await.rest().await;
    let parts = reply["parts"].as_array_mut().unwrap();
    // As if the text had come first.
    parts.rotate_left(2);
    app.post("/api/chat", APP_KEY, &submit(&[said, reply])).await.assert_problem(400, "bad-chat");
    app.finish().await;
}

#[tokio::test]
async fn a_denied_call_is_not_made_and_another_try_asks_anew() {
    let (shop, app) = start_with_shop(&asks()).await;
    let (said, _, reply) = called(&app, refund("A1")).await;
    let chunks = post(&app, &submit(&[said.clone(), answered(&reply, false)])).await.rest().await;
    assert_eq!(chunks[1]["type"], "tool-output-denied");
    app.model().answer_tools(&[refund("A1")]);
    let chunks = post(&app, &regenerate(from_ref(&said), None)).await.rest().await;
    let second = chunks.iter().find(|chunk| chunk["type"] == "tool-approval-request").unwrap();
    assert_ne!(second["approvalId"], reply["parts"][1]["approval"]["id"]);
    app.idle().await;
    let reply = app.history(ROOM).await.pop().unwrap();
    let chunks = post(&app, &submit(&[said, answered(&reply, true)])).await.rest().await;
    // It goes on under the id that the client has for it.
    assert_ne!(reply["id"], "m1/reply");
    assert_eq!(chunks[0]["messageId"], reply["id"]);
    assert_eq!(kinds(&chunks).last(), Some(&"finish"), "{chunks:?}");
    app.idle().await;
    assert_eq!(shop.carried_out().len(), 1);
    let ids = app.ids(ROOM).await;
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "two forms have the same id: {ids:?}");
    app.export(ROOM, "chat-asked-again").await;
    app.finish().await;
}

/// As after a reload: the history lists the reply in the form that asks.
#[tokio::test]
async fn a_second_request_of_a_reply_is_answered_in_the_form_that_asks() {
    let (shop, app) = start_with_shop(&asks()).await;
    let (said, _, first) = called(&app, refund("A1")).await;
    app.model().answer_tools(&[refund("A2")]);
    post(&app, &submit(&[said.clone(), answered(&first, true)])).await.rest().await;
    app.idle().await;
    let second = app.history(ROOM).await.pop().unwrap();
    assert_ne!(second["id"], first["id"]);
    let chunks = post(&app, &submit(&[said, answered(&second, true)])).await.rest().await;
    assert_eq!(chunks[0]["messageId"], second["id"]);
    app.idle().await;
    assert_eq!(shop.carried_out().len(), 2);
    app.finish().await;
}

/// The call is under way when the client comes back: the whole reply is replayed.
#[tokio::test]
async fn a_reply_that_goes_on_is_resumed_from_its_beginning() {
    let (shop, app) = start_with_shop(&json!({"tools": {"slow": {"approval": true}}})).await;
    let (said, _, reply) = called(&app, ("shop_slow", json!({}))).await;
    drop(post(&app, &submit(&[said, answered(&reply, true)])).await);
    let back = Stream::of(resume(&app).await);
    shop.release();
    let chunks = back.rest().await;
    let expected = "start start-step tool-input-start tool-input-available tool-approval-request";
    assert_eq!(kinds(&chunks)[..5].join(" "), expected);
    assert!(kinds(&chunks).contains(&"tool-output-available"), "{chunks:?}");
    app.finish().await;
}
