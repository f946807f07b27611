//! The console: served if a setting is on, cacheable, under a policy that lets no message run scripts; and the routes of the
//! API that it uses.

use std::io::Read;

use flate2::read::GzDecoder;
use reqwest::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH,
};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::app::{APP_KEY, Answer, NOW, OPS_KEY, TestApp, chat_path};
use crate::updates::private;

async fn get(app: &TestApp, path: &str) -> Response {
    app.request(Method::GET, path).header(ACCEPT_ENCODING, "br, gzip").send().await.unwrap()
}

fn header<'a>(answer: &'a Response, name: &str) -> &'a str {
    answer.headers().get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
}

#[track_caller]
fn assert_guarded(answer: &Response) {
    let policy = header(answer, CONTENT_SECURITY_POLICY.as_str());
    let rules: Vec<&str> = policy.split(';').map(str::trim).collect();
    for rule in ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"] {
        assert!(rules.contains(&rule), "{policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    assert_eq!(header(answer, "x-content-type-options"), "nosniff");
    assert_eq!(header(answer, "referrer-policy"), "no-referrer");
}

#[tokio::test]
async fn the_page_and_its_files_come_compressed_and_are_kept() {
    let mut app = TestApp::builder().start().await;
    let page = get(&app, "/").await;
    assert_eq!(page.status(), StatusCode::OK);
    assert_guarded(&page);
    assert_eq!(header(&page, CONTENT_TYPE.as_str()), "text/html; charset=utf-8");
    assert_eq!(header(&page, CONTENT_ENCODING.as_str()), "gzip");
    assert_eq!(header(&page, CACHE_CONTROL.as_str()), "no-cache", "it names what is new");
    let etag = header(&page, ETAG.as_str()).to_owned();
    let mut html = String::new();
    GzDecoder::new(&*page.bytes().await.unwrap()).read_to_string(&mut html).unwrap();
    assert!(!html.contains("<script>") && !html.contains("<style") && !html.contains(" style="), "{html}");

    // As it is where a client takes nothing compressed, and not again where it has it.
    let plain = app.request(Method::GET, "/").send().await.unwrap();
    assert_eq!(plain.headers().get(CONTENT_ENCODING), None);
    assert_eq!(plain.text().await.unwrap(), html);
    for known in [etag.clone(), format!("\"other\", W/{etag}"), "*".to_owned()] {
        let again = app.request(Method::GET, "/").header(IF_NONE_MATCH, &known).send().await.unwrap();
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED, "{known}");
        assert_guarded(&again);
        assert_eq!(header(&again, ETAG.as_str()), etag);
        assert_eq!(again.bytes().await.unwrap().len(), 0);
    }
    let other = app.request(Method::GET, "/").header(IF_NONE_MATCH, "\"other\"").send().await.unwrap();
    assert_eq!(other.status(), StatusCode::OK);

    let files: Vec<&str> = html.split('"').filter(|part| part.starts_with("/console/")).collect();
    assert_eq!(files.len(), 2, "{html}");
    for path in files {
        let kind = match path.rsplit('.').next() {
            Some("js") => "text/javascript",
            _ => "text/css",
        };
        let file = get(&app, path).await;
        assert_eq!(file.status(), StatusCode::OK, "{path}");
        assert_guarded(&file);
        assert_eq!(header(&file, CONTENT_TYPE.as_str()), format!("{kind}; charset=utf-8"));
        assert_eq!(header(&file, CACHE_CONTROL.as_str()), "public, max-age=31536000, immutable");
        assert!(file.bytes().await.unwrap().len() < 300_000, "{path}");
    }
    for none in ["/console/nothing.js", "/console/", "/console/..%2fCargo.toml", "/index.html"] {
        assert_eq!(get(&app, none).await.status(), StatusCode::NOT_FOUND, "{none}");
    }
    // A name that is no UTF-8.
    let none = Answer::of(app.request(Method::GET, "/console/%ff")).await;
    none.assert_problem(404, "not-found");
    let post = app.request(Method::POST, "/").send().await.unwrap();
    assert_eq!(post.status(), StatusCode::METHOD_NOT_ALLOWED);

    app.set("CONSOLE", "false").await;
    for path in ["/", "/console/console.js"] {
        Answer::of(app.request(Method::GET, path)).await.assert_problem(404, "not-found");
    }
    app.finish().await;
}

#[tokio::test]
async fn one_chat_is_described_as_in_the_list_to_its_readers() {
    let app = TestApp::builder().start().await;
    app.receive(private(42, 7, "hello")).await;
    let body = json!({"userId": "ada", "text": "mine", "messageId": "m1"});
    app.post(&chat_path("c1", "messages"), APP_KEY, &body).await;
    app.idle().await;
    let listed = app.get("/v1/chats").await["chats"].as_array().unwrap().clone();
    assert_eq!(listed.len(), 2);
    for chat in &listed {
        let path = format!("/v1/chats/{}", chat["chatKey"].as_str().unwrap().replace(':', "%3A"));
        assert_eq!(app.get(&path).await, *chat);
    }
    let telegram = listed.iter().find(|chat| chat["channel"] == "telegram").unwrap();
    assert_eq!((&telegram["speaker"], &telegram["chatType"]), (&json!("Ada"), &json!("private")));
    let one = async |chat: &str, key: &str| app.call(Method::GET, &format!("/v1/chats/{chat}"), key).await;
    let own = one("c1", APP_KEY).await;
    assert_eq!((own.status, &own.body["chatKey"]), (StatusCode::OK, &json!("http:chat:app:c1")));
    assert_eq!(own.body["speaker"], "ada");
    for (chat, key) in [("c1", "other-secret"), ("telegram%3Achat%3A42", APP_KEY), ("nobody", OPS_KEY)] {
        let none = one(chat, key).await;
        none.assert_problem(404, "no-such-chat");
    }

    // A key can read its own name and rights.
    for (key, expected) in
        [(APP_KEY, json!({"name": "app", "admin": false})), (OPS_KEY, json!({"name": "ops", "admin": true}))]
    {
        let answer = app.call(Method::GET, "/v1/key", key).await;
        assert_eq!((answer.status, answer.body), (StatusCode::OK, expected));
    }
    assert_eq!(app.call(Method::GET, "/v1/key", "wrong").await.status, StatusCode::UNAUTHORIZED);
    app.finish().await;
}

/// The start of its session, its share of the window, and the owner of its memory.
#[tokio::test]
async fn a_context_says_why_it_is_what_it_is() {
    let app = TestApp::builder().set("CONTEXT_WINDOW", "1000").set("KEEP_RECENT", "2").start().await;
    let path = chat_path("http:chat:ops:c1", "context");
    let empty = app.get(&path).await;
    assert!(empty["sessionStart"].is_null() && empty["memoryOf"].is_null(), "{empty}");
    let say = async |id: &str, text: &str, minute: i64| {
        let ts = (NOW + 60 * minute) * 1000;
        app.advance_to(ts);
        let body = json!({"userId": "ada", "text": text, "messageId": id, "ts": ts});
        app.post(&chat_path("c1", "messages"), OPS_KEY, &body).await;
        app.idle().await;
    };
    say("m1", &"a long way ".repeat(40), -2).await;
    say("m2", "on foot", -1).await;
    let full = app.get(&path).await;
    let start = (NOW - 120) * 1000;
    assert_eq!(full["sessionStart"], start);
    assert_eq!(full["memoryOf"], json!({"userId": "ada"}));
    assert_eq!([&full["compactsAt"], &full["window"]], [&json!(800), &json!(1000)]);
    for name in ["leftOut", "unanswered", "systemTokens", "summaryTokens"] {
        assert_eq!(full[name], 0, "{name}");
    }
    app.post(&chat_path("c1", "compact"), OPS_KEY, &json!({"userId": "ada", "messageId": "m3"})).await;
    app.idle().await;
    let summed = app.get(&path).await;
    assert_eq!(summed["messages"][0]["metadata"]["kind"], "summary");
    let [summary, all] = ["summaryTokens", "tokens"].map(|name| summed[name].as_u64().unwrap());
    assert!(0 < summary && summary < all, "{summary} of {all}");
    assert_eq!(summed["sessionStart"], start, "a summary does not end it");
    app.post(&chat_path("c1", "reset"), OPS_KEY, &json!({"userId": "ada", "messageId": "m4"})).await;
    assert_eq!(app.get(&path).await["sessionStart"], Value::Null);
    app.finish().await;
}
