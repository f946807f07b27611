//! HTTP: permissions of keys, and the form of refusals.

use std::collections::BTreeSet;

use annals_core::record::Channel;
use reqwest::header::{ALLOW, HOST, ORIGIN};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::app::{APP_KEY, Answer, OPS_KEY, TestApp, chat_path};
use crate::openapi::{concrete, methods};
use crate::updates::private;

const PATH: &str = "/v1/chats/c1/messages";

/// Checks that `answer` is a problem of this kind, and repeats no text of the request.
#[track_caller]
fn assert_problem(answer: &Answer, status: u16, kind: &str, what: &str) {
    answer.assert_problem(status, kind);
    assert_eq!(answer.body["status"], status, "{what}");
    assert!(answer.body["title"].is_string() && answer.body["detail"].is_string(), "{what}");
    assert!(!answer.body.to_string().contains("hunter2"), "{what}: {}", answer.body);
}

#[tokio::test]
async fn every_route_but_health_wants_a_known_key() {
    let app = TestApp::builder().start().await;
    let health = Answer::of(app.request(Method::GET, "/health")).await;
    assert_eq!((health.status, health.body), (StatusCode::OK, json!({"status": "ok"})));
    let body = json!({"userId": "ada", "text": "hunter2", "messageId": "m1"});
    let schemes = ["", "Bearer", "Bearer ", "app-secret", "Basic app-secret"];
    let keys = ["wrong", "app", "app-secre", "app-secrett", "app-secret ops-secret"];
    let keys = keys.map(|key| format!("Bearer {key}"));
    for (method, path) in [
        (Method::POST, PATH),
        (Method::GET, PATH),
        (Method::POST, "/v1/messages"),
        (Method::GET, "/v1/chats/c1/context"),
        (Method::POST, "/v1/chats/c1/reset"),
        (Method::DELETE, "/v1/chats/c1"),
    ] {
        for header in schemes.into_iter().chain(keys.iter().map(String::as_str)) {
            let mut request = app.request(method.clone(), path).json(&body);
            if !header.is_empty() {
                request = request.header("Authorization", header);
            }
            let answer = Answer::of(request).await;
            assert_problem(&answer, 401, "unauthorized", &format!("{method} {path} {header:?}"));
        }
    }
    assert_eq!(app.history("http:chat:app:c1").await, [Value::Null; 0]);
    let known = app.request(Method::GET, PATH).header("Authorization", "bearer app-secret");
    assert_eq!(Answer::of(known).await.status, 200);
    app.finish().await;
}

#[tokio::test]
async fn only_an_admin_reaches_the_chats_of_others() {
    let app = TestApp::builder().telegram().start().await;
    app.receive(private(42, 7, "hello")).await;
    let body = json!({"userId": "ada", "text": "mine", "messageId": "m1"});
    app.post(PATH, APP_KEY, &body).await;
    app.idle().await;
    for chat in ["c1", "http:chat:app:c1", "http%3Achat%3Aapp%3Ac1", "telegram:chat:42", "app:c1"] {
        for what in ["messages", "context"] {
            let path = chat_path(chat, what);
            let answer = app.call(Method::GET, &path, "other-secret").await;
            assert_eq!((answer.status.as_u16(), &answer.body["messages"]), (200, &json!([])), "{path}");
        }
    }
    for chat in ["http:chat:app:c1", "telegram:chat:42"] {
        assert_eq!(app.history(chat).await.len(), 2);
        assert_eq!(app.context(chat).await.len(), 2);
        let jsonl = app.export_of(&chat_path(chat, "messages"), "other-secret").await;
        assert_eq!(jsonl, [Value::Null; 0]);
    }

    // What others write there is in a chat of their own.
    let answer = app.post(&chat_path("telegram:chat:42", "messages"), APP_KEY, &body).await;
    assert_eq!(answer.body["chatKey"], "http:chat:app:telegram%3Achat%3A42");
    let answer = app.call(Method::POST, &chat_path("http:chat:other:c1", "reset"), APP_KEY).await;
    assert_eq!(answer.body["chatKey"], "http:chat:app:http%3Achat%3Aother%3Ac1");
    app.idle().await;
    assert_eq!(app.history("telegram:chat:42").await.len(), 2);

    // An admin's own conversations need no key.
    let answer = app.post(PATH, OPS_KEY, &body).await;
    assert_eq!(answer.body["chatKey"], "http:chat:ops:c1");
    let answer = app.call(Method::POST, &chat_path("telegram:chat:42", "reset"), OPS_KEY).await;
    assert_eq!(answer.body["chatKey"], "telegram:chat:42");
    // Once a bot is set up, the outbox is for admins, too.
    assert_eq!(app.call(Method::GET, "/local/outbox", APP_KEY).await.status, 401);
    app.finish().await;
}

/// A cursor names a place; in another's mouth it opens nothing.
#[tokio::test]
async fn a_cursor_of_another_chat_shows_nothing_of_it() {
    let app = TestApp::builder().start().await;
    for (n, text) in ["one", "two"].into_iter().enumerate() {
        app.post(PATH, OPS_KEY, &json!({"userId": "ada", "text": text, "messageId": n.to_string()})).await;
        app.post(PATH, APP_KEY, &json!({"userId": "ada", "text": "mine", "messageId": n.to_string()})).await;
    }
    app.idle().await;
    let page = app.get("/v1/chats/http%3Achat%3Aops%3Ac1/messages?limit=1").await;
    let cursor = page["before"].as_str().unwrap();
    for direction in ["before", "after"] {
        let path = format!("{PATH}?{direction}={cursor}");
        let answer = app.call(Method::GET, &path, APP_KEY).await;
        assert_problem(&answer, 400, "bad-cursor", direction);
    }
    app.finish().await;
}

#[tokio::test]
async fn an_invalid_message_is_refused_with_the_field_s_name() {
    let app = TestApp::builder().start().await;
    let ada = |kind: &'static str, rest: Value| {
        let mut body = json!({"userId": "ada"});
        body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        (body.to_string(), kind)
    };
    let part = json!({"type": "text", "text": "hunter2"});
    let broken =
        ["", "hunter2", "[\"hunter2\"]", "{\"userId\": \"ada\", \"text\": \"hunter2", "\"hunter2\"", "null"];
    let mut cases: Vec<(String, &str)> = broken.map(|body| (body.to_owned(), "bad-body")).into();
    cases.push((json!({"text": "hunter2"}).to_string(), "missing-user"));
    let (long, longer) = ("x".repeat(513), "x".repeat(450_000));
    let users = [json!(""), json!(7), json!("a\u{0}b"), json!("a\nb"), json!(long), json!(longer)];
    let users = users.map(|user| (user, "bad-user")).into_iter().chain([(Value::Null, "missing-user")]);
    cases.extend(users.map(|(user, kind)| (json!({"text": "hunter2", "userId": user}).to_string(), kind)));
    let texts = [json!(""), json!(" \n\t"), json!(7)].map(|text| json!({ "text": text }));
    let parts =
        [json!([]), json!({}), json!(["hunter2"]), json!([{"text": "hunter2"}]), json!([{"type": ""}])];
    let parts = parts.map(|parts| json!({ "parts": parts }));
    let messages = texts.into_iter().chain(parts);
    let messages = messages.chain([json!({}), json!({"text": "hunter2", "parts": [part]})]);
    cases.extend(messages.map(|rest| ada("bad-message", rest)));
    let ids = [json!(""), json!(7), json!("a\u{7f}"), json!("a\nb"), json!("m".repeat(257))];
    cases.extend(ids.map(|id| ada("bad-message-id", json!({"text": "hunter2", "messageId": id}))));
    let times = [json!(-1), json!(1.5), json!("1763765920000"), json!(10_000_000_000_000_i64)];
    cases.extend(times.map(|ts| ada("bad-ts", json!({"text": "hunter2", "ts": ts}))));
    for path in [PATH, "/v1/messages"] {
        for (body, kind) in &cases {
            let request = app.request(Method::POST, path).bearer_auth(APP_KEY).body(body.clone());
            assert_problem(&Answer::of(request).await, 400, kind, body);
        }
    }
    assert_eq!(app.history("http:chat:app:c1").await, [Value::Null; 0]);
    app.finish().await;
}

#[tokio::test]
async fn an_invalid_chat_id_query_route_or_method_is_refused_with_a_problem() {
    let app = TestApp::builder().start().await;
    let mut requests = Vec::new();
    for chat in ["%0A", "a%00b", "%7F", "%C2%85", "%FF", "%E2%82", &"x".repeat(513)] {
        for (method, what) in
            [("POST", "messages"), ("GET", "messages"), ("GET", "context"), ("POST", "reset")]
        {
            requests.push((method, format!("/v1/chats/{chat}/{what}"), 400, "bad-chat-id"));
        }
    }
    let waits = ["wait=", "wait=soon", "wait=-1", "wait=NaN", "wait=inf", "wait=1&wait=2"];
    requests.extend(waits.map(|query| ("POST", format!("{PATH}?{query}"), 400, "bad-wait")));
    let limits = ["limit=", "limit=0", "limit=-1", "limit=%2B5", "limit=1.5", "limit=ten"];
    requests.extend(limits.map(|query| ("GET", format!("{PATH}?{query}"), 400, "bad-limit")));
    let cursors = ["before=", "before=0", "after=hello", "after=e30"];
    requests.extend(cursors.map(|query| ("GET", format!("{PATH}?{query}"), 400, "bad-cursor")));
    requests.push(("GET", "/v1/chats//messages".to_owned(), 400, "bad-chat-id"));
    let unknown = [("GET", "/v2"), ("GET", "/v1"), ("POST", "/v1/chats/a/b/messages")];
    requests.extend(unknown.map(|(method, path)| (method, path.to_owned(), 404, "not-found")));
    let others = [
        ("PUT", "/v1/chats/c1"),
        ("DELETE", PATH),
        ("PUT", "/v1/messages"),
        ("POST", "/v1/chats/c1/context"),
        ("GET", "/v1/chats/c1/reset"),
        ("POST", "/health"),
        ("POST", "/local/outbox"),
    ];
    requests.extend(others.map(|(method, path)| (method, path.to_owned(), 405, "method-not-allowed")));
    requests.extend(Channel::platforms().map(|of| ("GET", format!("/{of}"), 405, "method-not-allowed")));
    for (method, path, status, kind) in requests {
        let request = app.request(method.parse().unwrap(), &path).bearer_auth(OPS_KEY);
        let request = request.body(json!({"userId": "ada", "text": "hunter2"}).to_string());
        assert_problem(&Answer::of(request).await, status, kind, &format!("{method} {path}"));
    }
    assert_eq!(app.history("http:chat:ops:c1").await, [Value::Null; 0]);
    app.finish().await;
}

/// A web page that somebody opened on this machine must not reach the program.
#[tokio::test]
async fn only_this_machine_and_pages_of_its_own_are_answered() {
    let app = TestApp::builder().start().await;
    let own = app.base().to_owned();
    let port = own.rsplit_once(':').unwrap().1.to_owned();
    for (header, value, status) in [
        (HOST, "annals.example".to_owned(), 403),
        (HOST, format!("annals.example:{port}"), 403),
        (HOST, format!("127.0.0.1.annals.example:{port}"), 403),
        (HOST, format!("localhost:{port}"), 200),
        (HOST, format!("[::1]:{port}"), 200),
        (ORIGIN, "https://annals.example".to_owned(), 403),
        (ORIGIN, "null".to_owned(), 403),
        (ORIGIN, format!("http://localhost:{port}"), 403),
        (ORIGIN, own.clone(), 200),
    ] {
        for path in ["/", "/health", "/local/outbox", PATH] {
            let request = app.request(Method::GET, path).bearer_auth(OPS_KEY).header(&header, &value);
            let answer = Answer::of(request).await;
            assert_eq!(answer.status, status, "{header}: {value} {path}");
            if status == 403 {
                assert_problem(&answer, 403, "not-local", &value);
            }
        }
    }
    app.finish().await;
}

#[tokio::test]
async fn the_document_has_the_routes_and_methods_of_the_router() {
    const ROUTER: &str = include_str!("../../functions/http/src/lib.rs");
    let app = TestApp::builder().start().await;
    let given = app.request(Method::GET, "/openapi.json").send().await.unwrap();
    assert_eq!(given.headers()["content-type"], "application/json");
    assert_eq!(given.json::<Value>().await.unwrap(), annals_http::openapi());

    let routed = ROUTER.lines().filter_map(|line| line.trim().strip_prefix(".route(\"")?.split_once('"'));
    // The console is a page, and no part of the API.
    let routed = routed.filter(|(path, _)| *path != "/" && !path.starts_with("/console/"));
    let routed: BTreeSet<String> = routed.map(|(path, _)| concrete(path)).collect();
    let documented: BTreeSet<String> = methods().map(|(path, _)| concrete(path)).collect();
    assert!(routed.len() > 10, "{routed:?}");
    assert_eq!(routed, documented);
    for (path, methods) in methods() {
        // No route takes this one; a router says which it does.
        let method = Method::from_bytes(b"PROPFIND").unwrap();
        let answer = app.request(method, &concrete(path)).send().await.unwrap();
        assert_eq!(answer.status(), 405, "{path}");
        let allowed = answer.headers()[ALLOW].to_str().unwrap().split(',').map(str::to_owned);
        let allowed: BTreeSet<String> = allowed.filter(|method| method != "HEAD").collect();
        assert_eq!(allowed, methods.into_iter().collect(), "{path}");
    }
    app.finish().await;
}
