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
async fn a_backlog_is_answered_in_one_turn_or_in_turns_of_a_hundred_if_it_exceeds_half_of_the_budget() {
    for (window, padding, covers) in [("128000", 0, &[260][..]), ("10000", 252, &[100, 100, 60])] {
        let app = TestApp::builder().model().set("CONTEXT_WINDOW", window).start().await;
        let ids: Vec<String> = (0..260).map(|n| format!("{n:03}{}", "x".repeat(padding))).collect();
        let (records, first) = answered(&app, &ids).await;

        assert_eq!(records.iter().filter(|record| record.asks()).count(), 261);
        assert_answered_once(&records);
        let replies = replies(&records);
        assert_eq!(replies.iter().map(|reply| reply.covers().len()).collect::<Vec<_>>(), covers);
        assert_eq!(app.model().count(), covers.len() + 1);
        let covered: HashSet<_> = replies.iter().flat_map(|reply| reply.covers()).collect();
        assert_eq!(covered.len(), 260);

        assert_eq!(first["reply"]["id"], format!("{}/reply", ids[covers[0] - 1]));
        let said = first["reply"]["parts"][0]["text"].as_str().unwrap();
        assert!(said.starts_with("You said: message 1\nmessage 2\n"), "{said}");
        assert!(said.ends_with(&format!("\nmessage {}", covers[0])), "{said}");
        app.finish().await;
    }
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
