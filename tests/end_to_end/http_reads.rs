//! HTTP: histories and contexts out.

use annals_test_support::model_api::without_times;
use reqwest::header::ACCEPT;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::app::{APP_KEY, NOW, TestApp, ids, lines, text_of};

const PATH: &str = "/v1/chats/c1/messages";
const CHAT: &str = "http:chat:app:c1";

async fn post(app: &TestApp, id: &str, ts: i64) {
    let body = json!({"userId": "ada", "text": format!("I am {id}"), "messageId": id, "ts": ts});
    app.say("c1", &body).await;
}

async fn page(app: &TestApp, query: &str) -> Value {
    let answer = app.call(Method::GET, &format!("{PATH}?{query}"), APP_KEY).await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.body);
    answer.body
}

fn ids_on(page: &Value) -> Vec<String> {
    ids(page["messages"].as_array().unwrap())
}

#[tokio::test]
async fn pages_go_back_and_take_late_arrivals_where_they_belong() {
    let app = TestApp::builder().start().await;
    let at = |n: i64| NOW * 1000 + n * 10;
    for n in 0..10 {
        post(&app, &format!("m{n}"), at(n)).await;
    }
    let newest = page(&app, "limit=6").await;
    assert_eq!(ids_on(&newest), ["m7", "m7/reply", "m8", "m8/reply", "m9", "m9/reply"]);
    assert_eq!(newest["after"], Value::Null);

    // One in what is yet to be read, one in what was read, one that is newer than all.
    post(&app, "m2-late", at(2) + 5).await;
    post(&app, "m8-late", at(8) + 5).await;
    post(&app, "m11", at(11)).await;
    let mut read = Vec::new();
    let mut oldest = newest;
    while let Some(before) = oldest["before"].as_str() {
        oldest = page(&app, &format!("limit=6&before={before}")).await;
        let ids = ids_on(&oldest);
        assert!(ids.len() == 6 || oldest["before"].is_null());
        read.splice(0..0, ids);
    }
    let expected = ["m0", "m1", "m2", "m2-late", "m3", "m4", "m5", "m6"];
    assert_eq!(read, expected.map(|id| [id.to_owned(), format!("{id}/reply")]).concat());
    assert_eq!(app.ids(CHAT).await.len(), 26);
    app.finish().await;
}

#[tokio::test]
async fn a_page_has_fifty_by_default_and_two_hundred_at_most_and_json_lines_have_all() {
    let app = TestApp::builder().start().await;
    for n in 0..103 {
        // Two records each: a command and its notice, which need no turn.
        let body = json!({"userId": "ada", "text": "/help", "messageId": format!("{n}"), "ts": NOW * 1000});
        assert_eq!(app.post(PATH, APP_KEY, &body).await.status, 202);
    }
    assert_eq!(ids_on(&page(&app, "").await).len(), 50);
    for (limit, count) in
        [("1", 1), ("200", 200), ("201", 200), ("99999999999999999999999999", 200), ("007", 7)]
    {
        let page = page(&app, &format!("limit={limit}")).await;
        assert_eq!(ids_on(&page).len(), count, "{limit}");
        assert!(page["before"].is_string() && page["after"].is_null());
    }
    let empty = app.call(Method::GET, "/v1/chats/nobody/messages", APP_KEY).await;
    assert_eq!(empty.body, json!({"messages": [], "before": null, "after": null}));

    post(&app, "m2\u{2028}", NOW * 1000 + 2).await;
    let all = app.history(CHAT).await;
    assert_eq!(all.len(), 208);
    assert_eq!(app.export_of(PATH, APP_KEY).await, all);
    for accept in ["text/html, application/x-ndjson;q=0.9", "application/x-ndjson, */*"] {
        let request = app.request(Method::GET, PATH).bearer_auth(APP_KEY).header(ACCEPT, accept);
        let response = request.send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "application/x-ndjson");
        let text = response.text().await.unwrap();
        let read: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, all, "{accept}");
    }
    let request = app.request(Method::GET, &format!("{PATH}?limit=many")).bearer_auth(APP_KEY);
    let refused = request.header(ACCEPT, "application/x-ndjson").send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    assert_eq!(app.export_of("/v1/chats/nobody/messages", APP_KEY).await, [Value::Null; 0]);
    app.finish().await;
}

#[tokio::test]
async fn the_context_is_what_the_model_sees() {
    let app = TestApp::builder().model().set("SYSTEM_PROMPT", "Be brief.").start().await;
    post(&app, "m1", NOW * 1000).await;
    app.model().hang();
    let body = json!({"userId": "ada", "text": "and?", "messageId": "m2", "ts": NOW * 1000 + 1});
    app.post(PATH, APP_KEY, &body).await;
    app.model().wait_for(2).await;
    let answer = app.call(Method::GET, "/v1/chats/c1/context", APP_KEY).await;
    assert_eq!(answer.status, 200);
    let context = answer.body;
    let messages = context["messages"].as_array().unwrap();
    let said = ["m1 user: I am m1", "m1/reply assistant: You said: I am m1", "m2 user: and?"];
    assert_eq!(lines(messages), said);
    assert_eq!((&context["system"], &context["window"]), (&json!("Be brief."), &json!(128_000)));
    assert!(context["tokens"].as_u64().unwrap() > 10);
    let asked = app.model().requests()[1]["messages"].as_array().unwrap().clone();
    let asked = asked[1..].iter().map(|said| without_times(said["content"].as_str().unwrap()));
    assert!(asked.eq(messages.iter().map(text_of)));

    let empty = app.call(Method::GET, "/v1/chats/nobody/context", APP_KEY).await;
    assert_eq!(empty.body["messages"], json!([]));
    app.model().resume();
    app.finish().await;
}
