//! Pages of a history while messages arrive.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::app::{APP_KEY, NOW, TestApp};

const PATH: &str = "/v1/chats/c1/messages";
const CHAT: &str = "/v1/chats/http%3Achat%3Aapp%3Ac1/messages";

async fn say(app: &TestApp, id: &str, ts: i64) {
    let body = json!({"userId": "ada", "text": id, "messageId": id, "ts": ts});
    assert_eq!(app.post(PATH, APP_KEY, &body).await.status, 202);
    app.idle_as_time_passes().await;
}

/// Walks from the newest page to the oldest, or from the oldest to the newest, while between any two pages a message
/// comes now, one comes that was said long ago, and one whose time lies within what is still to be read.
async fn walked(app: &TestApp, direction: &str, step: usize) -> Vec<Value> {
    let mut pages: Vec<Vec<Value>> = Vec::new();
    let mut path = match direction {
        "before" => format!("{CHAT}?limit=3"),
        _ => format!("{CHAT}?limit=3&after={}", oldest_cursor(app).await),
    };
    loop {
        let page = app.get(&path).await;
        pages.push(page["messages"].as_array().unwrap().clone());
        let Some(cursor) = page[direction].as_str() else { break };
        path = format!("{CHAT}?limit=3&{direction}={cursor}");
        // They end, so that a walk to the newest does.
        if pages.len() < 5 {
            let n = step * 10 + pages.len();
            let now = app.clock().now().as_millis();
            say(app, &format!("now-{n}"), now).await;
            say(app, &format!("late-{n}"), NOW * 1000 - 3_000_000 + i64::try_from(n).unwrap()).await;
            say(app, &format!("between-{n}"), NOW * 1000 - 60_000 + i64::try_from(n).unwrap()).await;
        }
        assert!(pages.len() < 100);
    }
    if direction == "before" {
        pages.reverse();
    }
    pages.into_iter().flatten().collect()
}

/// A cursor in front of all that there is: that of the oldest page, which has nothing before it.
async fn oldest_cursor(app: &TestApp) -> String {
    let mut page = app.get(&format!("{CHAT}?limit=1")).await;
    while let Some(before) = page["before"].as_str().map(str::to_owned) {
        page = app.get(&format!("{CHAT}?limit=1&before={before}")).await;
    }
    // The records after the oldest message; that one itself is not requested again.
    page["after"].as_str().unwrap().to_owned()
}

fn id(message: &Value) -> &str {
    message["id"].as_str().unwrap()
}

fn place(message: &Value) -> i64 {
    message["metadata"]["ts"].as_i64().unwrap()
}

#[tokio::test]
async fn pages_neither_skip_nor_repeat_while_messages_arrive() {
    let app = TestApp::builder().model().start().await;
    for n in 0..8 {
        say(&app, &format!("m{n}"), NOW * 1000 - 120_000 + n * 10_000).await;
        app.clock().advance(Duration::from_secs(1));
    }
    for (step, direction) in ["before", "after", "before"].into_iter().enumerate() {
        let there = app.history("http:chat:app:c1").await;
        let walked = walked(&app, direction, step + 1).await;
        let mut times: BTreeMap<&str, usize> = BTreeMap::new();
        for message in &walked {
            *times.entry(id(message)).or_default() += 1;
        }
        let repeated: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
        assert!(repeated.is_empty(), "{direction}: {repeated:?}");
        // From the oldest on, the walk began after the first.
        let expected = there.iter().skip(usize::from(direction == "after")).map(id);
        let skipped: Vec<&str> = expected.filter(|id| !times.contains_key(id)).collect();
        assert!(skipped.is_empty(), "{direction}: {skipped:?}");
        assert!(walked.is_sorted_by_key(place), "{direction}");
        // Some of what came meanwhile is among it, so it was not a walk through what stood still.
        let new = walked.iter().filter(|message| there.iter().all(|old| id(old) != id(message)));
        assert!(new.count() > 0, "{direction}");
    }
    // A reader that follows at the end sees what comes, each once.
    let page = app.get(&format!("{CHAT}?limit=1")).await;
    assert_eq!(page["after"], Value::Null);
    app.finish().await;
}

/// A reply follows its message, and so precedes the cursor of a page that was read before: it is in the
/// newest page, and in a walk back.
#[tokio::test]
async fn a_late_message_is_in_the_newest_page() {
    let app = TestApp::builder().model().start().await;
    app.model().hang();
    let start = NOW * 1000 - 60_000;
    for (at, id) in ["m1", "m2", "m3"].into_iter().enumerate() {
        let ts = start + 1000 * i64::try_from(at).unwrap();
        let body = json!({"userId": "ada", "text": id, "messageId": id, "ts": ts});
        assert_eq!(app.post(PATH, APP_KEY, &body).await.status, 202);
        app.model().wait_for(1).await;
    }
    let ids =
        |page: &Value| page["messages"].as_array().unwrap().iter().map(id).collect::<Vec<_>>().join(" ");
    let newest = app.get(&format!("{CHAT}?limit=1")).await;
    let two = app.get(&format!("{CHAT}?limit=2&before={}", newest["before"].as_str().unwrap())).await;
    assert_eq!(ids(&two), "m1 m2");
    app.model().resume();
    app.idle_as_time_passes().await;
    let behind = app.get(&format!("{CHAT}?after={}", two["after"].as_str().unwrap())).await;
    assert_eq!((ids(&behind).as_str(), &behind["after"]), ("m3 m3/reply", &Value::Null));
    let newest = app.get(&format!("{CHAT}?limit=10")).await;
    assert_eq!((ids(&newest).as_str(), &newest["before"]), ("m1 m1/reply m2 m3 m3/reply", &Value::Null));
    app.finish().await;
}
