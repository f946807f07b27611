//! More messages wait than one turn can cover.

use std::collections::HashSet;

use annals_core::record::Record;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::app::{APP_KEY, NOW, TestApp};
use crate::turns::assert_answered_once;

const CHAT: &str = "http:chat:app:c1";
const PATH: &str = "/v1/chats/c1/messages";

fn body(number: usize, id: &str) -> Value {
    let ts = 1000 * NOW + i64::try_from(number).unwrap();
    json!({"userId": "ada", "text": format!("message {number}"), "messageId": id, "ts": ts})
}

/// Lets messages of these ids wait for a turn that runs; returns the records once all are answered, and
/// what a caller who waited for the reply to the first was told.
async fn answered(app: &TestApp, ids: &[String]) -> (Vec<Record>, Value) {
    app.model().hang();
    assert_eq!(app.post(PATH, APP_KEY, &body(0, "running")).await.status, 202);
    app.model().wait_for(1).await;
    let bodies: Vec<Value> = ids.iter().enumerate().map(|(at, id)| body(at + 1, id)).collect();
    for some in bodies.chunks(20) {
        for answer in join_all(some.iter().map(|body| app.post(PATH, APP_KEY, body))).await {
            assert_eq!(answer.status, 202, "{answer:?}");
        }
    }
    app.model().resume();
    let path = format!("{PATH}?wait=25");
    let first = app.as_time_passes(app.post(&path, APP_KEY, &bodies[0])).await;
    app.idle().await;
    assert_eq!(first.status, 200, "{first:?}");
    (app.records(CHAT).await, first.body)
}

/// The replies that cover messages of the backlog, in order.
fn replies(records: &[Record]) -> Vec<&Record> {
    records.iter().filter(|record| !record.covers().is_empty()).skip(1).collect()
}

#[tokio::test]
async fn a_backlog_that_fits_into_half_of_the_budget_is_answered_in_one_turn() {
    let app = TestApp::builder().model().start().await;
    let ids: Vec<String> = (0..260).map(|n| format!("m{n}")).collect();
    let (records, first) = answered(&app, &ids).await;
    assert_answered_once(&records);
    let covers: Vec<_> = replies(&records).iter().map(|reply| reply.covers().len()).collect();
    assert_eq!((covers, app.model().count()), (vec![260], 2));
    assert_eq!(first["reply"]["id"], "m259/reply");
    app.finish().await;
}

#[tokio::test]
async fn a_long_backlog_is_answered_in_turns_of_a_hundred() {
    // Half of the budget is less than a hundred messages with their senders take.
    let app = TestApp::builder().model().set("CONTEXT_WINDOW", "10000").start().await;
    let ids: Vec<String> = (0..260).map(|n| format!("{n:03}{}", "x".repeat(252))).collect();
    let (records, first) = answered(&app, &ids).await;

    assert_eq!(records.iter().filter(|record| record.asks()).count(), 261);
    assert_answered_once(&records);
    let replies = replies(&records);
    assert_eq!(replies.iter().map(|reply| reply.covers().len()).collect::<Vec<_>>(), [100, 100, 60]);
    assert_eq!(app.model().count(), 4);
    let covered: HashSet<_> = replies.iter().flat_map(|reply| reply.covers()).collect();
    assert_eq!(covered.len(), 260);

    assert_eq!(first["reply"]["id"], format!("{}/reply", ids[99]));
    let said = first["reply"]["parts"][0]["text"].as_str().unwrap();
    assert!(said.starts_with("You said: message 1\nmessage 2\n") && said.ends_with("\nmessage 100"));
    app.finish().await;
}

/// Ids of characters that a key spells in three bytes.
#[tokio::test]
async fn a_backlog_of_long_keys_is_answered_in_turns_that_a_head_can_hold() {
    let app = TestApp::builder().model().start().await;
    let ids: Vec<String> = (0..60).map(|n| format!("{n:03}{}", "#".repeat(252))).collect();
    let (records, first) = answered(&app, &ids).await;
    assert_answered_once(&records);
    let replies = replies(&records);
    assert_eq!(replies.iter().map(|reply| reply.covers().len()).sum::<usize>(), 60);
    assert!(replies.len() > 1);
    for reply in replies {
        let bytes: usize = reply.covers().iter().map(|base| base.as_str().len()).sum();
        assert!(bytes <= 32 * 1024, "{bytes}");
    }
    assert!(first["reply"].is_object());
    app.finish().await;
}
