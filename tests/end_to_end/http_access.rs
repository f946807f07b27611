//! HTTP: permissions of keys, and the form of refusals.

use reqwest::header::{HOST, ORIGIN};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::app::{APP_KEY, Answer, OPS_KEY, TestApp, chat_path};
use crate::updates::private;

const PATH: &str = "/v1/chats/c1/messages";

/// Checks that `answer` is a problem of this kind, and says nothing that was said.
#[track_caller]
fn assert_problem(answer: &Answer, status: u16, kind: &str, what: &str) {
    assert_eq!(answer.status, status, "{what}: {}", answer.body);
    assert_eq!(answer.content_type, "application/problem+json", "{what}");
    assert_eq!(answer.body["type"], format!("urn:annals:problem:{kind}"), "{what}");
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
    for (method, path) in [
        (Method::POST, PATH),
        (Method::GET, PATH),
        (Method::POST, "/v1/messages"),
        (Method::GET, "/v1/chats/c1/context"),
        (Method::POST, "/v1/chats/c1/reset"),
        (Method::DELETE, "/v1/chats/c1"),
    ] {
        for header in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer wrong",
            "Bearer app",
            "app-secret",
            "Basic app-secret",
            "Bearer app-secret ops-secret",
        ] {
            let mut request = app.request(method.clone(), path).json(&body);
            if !header.is_empty() {
                request = request.header("Authorization", header);
            }
            assert_problem(
                &Answer::of(request).await,
                401,
                "unauthorized",
                &format!("{method} {path} {header:?}"),
            );
        }
    }
    assert_eq!(app.history("http:chat:app:c1").await, [Value::Null; 0]);
    app.finish().await;
}

#[tokio::test]
async fn only_an_admin_reaches_the_chats_of_others() {
    let app = TestApp::builder().start().await;
    app.receive(private(42, 7, "hello")).await;
    let body = json!({"userId": "ada", "text": "mine", "messageId": "m1"});
    app.post(PATH, APP_KEY, &body).await;
    app.idle().await;
    for chat in ["c1", "http:chat:app:c1", "http%3Achat%3Aapp%3Ac1", "telegram:chat:42", "app:c1"] {
        for what in ["messages", "context"] {
            let path = chat_path(chat, what);
            let answer = Answer::of(app.request(Method::GET, &path).bearer_auth("other-secret")).await;
            assert_eq!((answer.status.as_u16(), &answer.body["messages"]), (200, &json!([])), "{path}");
        }
    }
    for chat in ["http:chat:app:c1", "telegram:chat:42"] {
        assert_eq!(app.history(chat).await.len(), 2);
        assert_eq!(app.context(chat).await.len(), 2);
        let jsonl = app.request(Method::GET, &chat_path(chat, "messages")).bearer_auth("other-secret");
        let jsonl = jsonl.header("Accept", "application/x-ndjson").send().await.unwrap();
        assert_eq!(jsonl.text().await.unwrap(), "");
    }

    // What others write there is in a chat of their own.
    let answer = app.post(&chat_path("telegram:chat:42", "messages"), APP_KEY, &body).await;
    assert_eq!(answer.body["chatKey"], "http:chat:app:telegram%3Achat%3A42");
    let answer =
        Answer::of(app.request(Method::POST, &chat_path("http:chat:other:c1", "reset")).bearer_auth(APP_KEY))
            .await;
    assert_eq!(answer.body["chatKey"], "http:chat:app:http%3Achat%3Aother%3Ac1");
    app.idle().await;
    assert_eq!(app.history("telegram:chat:42").await.len(), 2);

    // An admin's own conversations need no key.
    let answer = app.post(PATH, OPS_KEY, &body).await;
    assert_eq!(answer.body["chatKey"], "http:chat:ops:c1");
    let answer =
        Answer::of(app.request(Method::POST, &chat_path("telegram:chat:42", "reset")).bearer_auth(OPS_KEY))
            .await;
    assert_eq!(answer.body["chatKey"], "telegram:chat:42");
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
        let answer = Answer::of(app.request(Method::GET, &path).bearer_auth(APP_KEY)).await;
        assert_problem(&answer, 400, "bad-cursor", direction);
    }
    app.finish().await;
}

#[tokio::test]
async fn an_invalid_message_is_refused_with_the_field_s_name() {
    let app = TestApp::builder().start().await;
    let ada = |rest: Value| {
        let mut body = json!({"userId": "ada"});
        body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        body.to_string()
    };
    let text = |rest: Value| {
        let mut body = json!({"text": "hunter2"});
        body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        body.to_string()
    };
    let cases: Vec<(String, &str)> = vec![
        (String::new(), "bad-body"),
        ("hunter2".into(), "bad-body"),
        ("[\"hunter2\"]".into(), "bad-body"),
        ("{\"userId\": \"ada\", \"text\": \"hunter2".into(), "bad-body"),
        ("\"hunter2\"".into(), "bad-body"),
        ("null".into(), "bad-body"),
        (text(json!({})), "missing-user"),
        (text(json!({"userId": null})), "missing-user"),
        (text(json!({"userId": ""})), "bad-user"),
        (text(json!({"userId": 7})), "bad-user"),
        (text(json!({"userId": "a\u{0}b"})), "bad-user"),
        (text(json!({"userId": "a\nb"})), "bad-user"),
        (text(json!({"userId": "x".repeat(513)})), "bad-user"),
        (text(json!({"userId": "x".repeat(450_000)})), "bad-user"),
        (ada(json!({})), "bad-message"),
        (ada(json!({"text": ""})), "bad-message"),
        (ada(json!({"text": " \n\t"})), "bad-message"),
        (ada(json!({"text": 7})), "bad-message"),
        (ada(json!({"text": "hunter2", "parts": [{"type": "text", "text": "hunter2"}]})), "bad-message"),
        (ada(json!({"parts": []})), "bad-message"),
        (ada(json!({"parts": {}})), "bad-message"),
        (ada(json!({"parts": ["hunter2"]})), "bad-message"),
        (ada(json!({"parts": [{"text": "hunter2"}]})), "bad-message"),
        (ada(json!({"parts": [{"type": ""}]})), "bad-message"),
        (ada(json!({"text": "hunter2", "messageId": ""})), "bad-message-id"),
        (ada(json!({"text": "hunter2", "messageId": 7})), "bad-message-id"),
        (ada(json!({"text": "hunter2", "messageId": "a\u{7f}"})), "bad-message-id"),
        (ada(json!({"text": "hunter2", "messageId": "a\nb"})), "bad-message-id"),
        (ada(json!({"text": "hunter2", "messageId": "m".repeat(257)})), "bad-message-id"),
        (ada(json!({"text": "hunter2", "ts": -1})), "bad-ts"),
        (ada(json!({"text": "hunter2", "ts": 1.5})), "bad-ts"),
        (ada(json!({"text": "hunter2", "ts": "1763765920000"})), "bad-ts"),
        (ada(json!({"text": "hunter2", "ts": 10_000_000_000_000_i64})), "bad-ts"),
    ];
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
async fn an_invalid_chat_id_is_refused() {
    let app = TestApp::builder().start().await;
    let long = "x".repeat(513);
    for chat in ["%0A", "a%00b", "%7F", "%C2%85", "%FF", "%E2%82", long.as_str()] {
        for (method, what) in [
            (Method::POST, "messages"),
            (Method::GET, "messages"),
            (Method::GET, "context"),
            (Method::POST, "reset"),
        ] {
            let path = format!("/v1/chats/{chat}/{what}");
            let request = app.request(method, &path).bearer_auth(APP_KEY);
            let request = request.body(json!({"userId": "ada", "text": "hunter2"}).to_string());
            assert_problem(&Answer::of(request).await, 400, "bad-chat-id", &path);
        }
    }
    app.finish().await;
}

#[tokio::test]
async fn an_invalid_query_is_refused() {
    let app = TestApp::builder().start().await;
    for (method, query, kind) in [
        (Method::POST, "wait=", "bad-wait"),
        (Method::POST, "wait=soon", "bad-wait"),
        (Method::POST, "wait=-1", "bad-wait"),
        (Method::POST, "wait=NaN", "bad-wait"),
        (Method::POST, "wait=inf", "bad-wait"),
        (Method::POST, "wait=1&wait=2", "bad-wait"),
        (Method::GET, "limit=", "bad-limit"),
        (Method::GET, "limit=0", "bad-limit"),
        (Method::GET, "limit=-1", "bad-limit"),
        (Method::GET, "limit=%2B5", "bad-limit"),
        (Method::GET, "limit=1.5", "bad-limit"),
        (Method::GET, "limit=ten", "bad-limit"),
        (Method::GET, "before=", "bad-cursor"),
        (Method::GET, "before=0", "bad-cursor"),
        (Method::GET, "after=hello", "bad-cursor"),
        (Method::GET, "after=e30", "bad-cursor"),
    ] {
        let path = format!("{PATH}?{query}");
        let request = app.request(method, &path).bearer_auth(APP_KEY);
        let request = request.body(json!({"userId": "ada", "text": "hunter2"}).to_string());
        assert_problem(&Answer::of(request).await, 400, kind, query);
    }
    assert_eq!(app.history("http:chat:app:c1").await, [Value::Null; 0]);
    app.finish().await;
}

#[tokio::test]
async fn an_unknown_route_is_answered_with_a_problem() {
    let app = TestApp::builder().start().await;
    for (method, path, status, kind) in [
        (Method::GET, "/v2", 404, "not-found"),
        (Method::GET, "/v1", 404, "not-found"),
        (Method::PUT, "/v1/chats/c1", 405, "method-not-allowed"),
        (Method::GET, "/v1/chats//messages", 400, "bad-chat-id"),
        (Method::POST, "/v1/chats/a/b/messages", 404, "not-found"),
        (Method::DELETE, PATH, 405, "method-not-allowed"),
        (Method::PUT, "/v1/messages", 405, "method-not-allowed"),
        (Method::POST, "/v1/chats/c1/context", 405, "method-not-allowed"),
        (Method::GET, "/v1/chats/c1/reset", 405, "method-not-allowed"),
        (Method::POST, "/health", 405, "method-not-allowed"),
        (Method::GET, "/telegram", 405, "method-not-allowed"),
        (Method::POST, "/local/outbox", 405, "method-not-allowed"),
    ] {
        let answer = Answer::of(app.request(method.clone(), path).bearer_auth(OPS_KEY)).await;
        assert_problem(&answer, status, kind, &format!("{method} {path}"));
    }
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
        for path in ["/health", "/local/outbox", PATH] {
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
