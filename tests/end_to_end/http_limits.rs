//! HTTP: limits on bodies and rates, origins, and request ids.

use std::time::Duration;

use reqwest::header::{ALLOW, HeaderMap, ORIGIN, RETRY_AFTER, VARY};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::app::{APP_KEY, OPS_KEY, TestApp, lines};

const PATH: &str = "/v1/chats/c1/messages";
const PAGE: &str = "https://app.example.com";

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

async fn problem_of(response: Response) -> Value {
    assert_eq!(header(response.headers(), "content-type"), Some("application/problem+json"));
    let id = header(response.headers(), "x-request-id").unwrap().to_owned();
    let problem: Value = response.json().await.unwrap();
    assert_eq!(problem["requestId"], id);
    problem
}

#[tokio::test]
async fn a_key_over_its_rate_limit_gets_a_retry_after() {
    let app = TestApp::builder().set("HTTP_RATE_LIMIT", "0.5:3").start().await;
    let get =
        async |key: &str, path: &str| app.request(Method::GET, path).bearer_auth(key).send().await.unwrap();
    for _ in 0..3 {
        assert_eq!(get(APP_KEY, PATH).await.status(), StatusCode::OK);
    }
    let refused = get(APP_KEY, PATH).await;
    assert_eq!((refused.status().as_u16(), &refused.headers()[RETRY_AFTER]), (429, &"2".parse().unwrap()));
    assert_eq!(problem_of(refused).await["type"], "urn:annals:problem:too-many-requests");
    // Nothing of a refused message is stored, and requests with another key, or with none, are counted separately.
    let body = json!({"userId": "ada", "text": "hello", "messageId": "m1"});
    assert_eq!(app.post(PATH, APP_KEY, &body).await.status, 429);
    assert_eq!(get("wrong", PATH).await.status(), 401);
    assert_eq!(get("other-secret", PATH).await.status(), 200);
    assert_eq!(app.request(Method::GET, "/health").send().await.unwrap().status(), 200);

    app.clock().advance(Duration::from_millis(1500));
    assert_eq!(get(APP_KEY, PATH).await.headers()[RETRY_AFTER], "1", "whole seconds, and none too few");
    app.clock().advance(Duration::from_millis(500));
    let page: Value = get(APP_KEY, PATH).await.json().await.unwrap();
    assert_eq!(page["messages"], json!([]));
    app.finish().await;
}

#[tokio::test]
async fn a_body_that_is_larger_than_its_limit_is_refused() {
    let app = TestApp::builder().start().await;
    let body = |bytes: usize| {
        let empty = json!({"userId": "ada", "messageId": "m1", "text": ""}).to_string();
        empty.replace("\"text\":\"\"", &format!("\"text\":\"{}\"", "x".repeat(bytes - empty.len())))
    };
    let large = body(1024 * 1024 + 1);
    let larger = json!({"id": "r1", "messages": ["x".repeat(6 * 1024 * 1024)]}).to_string();
    for (method, path, body) in [
        (Method::POST, PATH, &large),
        (Method::POST, "/api/chat/r1/stop", &large),
        (Method::PUT, "/v1/memory/dXNlcjphcHAvYWRhIzE", &large),
        (Method::POST, "/api/chat", &larger),
    ] {
        let request = app.request(method, path).bearer_auth(APP_KEY).body(body.clone());
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 413, "{path}");
        assert_eq!(problem_of(response).await["type"], "urn:annals:problem:too-large");
    }
    assert_eq!(app.history("http:chat:app:c1").await, [Value::Null; 0], "what is too large is not stored");
    let request = app.request(Method::POST, PATH).bearer_auth(APP_KEY).body(body(1024 * 1024));
    assert_eq!(request.send().await.unwrap().status(), 202, "a mebibyte is not too large");
    app.finish().await;
}

/// A body that breaks off after a chunk is not reported as too large, although its length is unknown.
#[tokio::test]
async fn a_body_that_breaks_off_is_no_large_one() {
    let app = TestApp::builder().start().await;
    for path in [PATH, "/v1/chats/c1/reset", "/api/chat"] {
        let mut stream = TcpStream::connect(app.base().strip_prefix("http://").unwrap()).await.unwrap();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {APP_KEY}\r\nConnection: close\r\n\
             Transfer-Encoding: chunked\r\n\r\n5\r\n{{\"use\r\nno length\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{path}: {answer}");
        assert!(answer.contains("urn:annals:problem:bad-body"), "{path}: {answer}");
    }
    app.finish().await;
}

/// Each route names the shape that it expects.
#[tokio::test]
async fn a_body_of_the_wrong_shape_gets_the_expected_one() {
    let app = TestApp::builder().start().await;
    for (path, shape) in [
        (PATH, "{userId, text or parts, "),
        ("/v1/chats/c1/reset", "{userId?, messageId?};"),
        ("/v1/chats/c1/compact", "{userId?, messageId?, focus?}"),
        ("/api/chat/r1/stop", "{userId?, messageId?};"),
    ] {
        for body in ["{", "[null, null]", "7"] {
            let response =
                app.request(Method::POST, path).bearer_auth(APP_KEY).body(body).send().await.unwrap();
            assert_eq!(response.status(), 400, "{path} {body}");
            let problem = problem_of(response).await;
            assert_eq!(problem["type"], "urn:annals:problem:bad-body", "{path} {body}");
            assert!(problem["detail"].as_str().unwrap().contains(shape), "{path} {body}: {problem}");
        }
    }
    app.finish().await;
}

#[tokio::test]
async fn a_request_has_one_name_in_its_answer_and_in_its_problem() {
    let app = TestApp::builder().start().await;
    let named = async |path: &str, id: Option<&str>| {
        let mut request = app.request(Method::GET, path).bearer_auth(APP_KEY);
        if let Some(id) = id {
            request = request.header("x-request-id", id);
        }
        let response = request.send().await.unwrap();
        let name = header(response.headers(), "x-request-id").unwrap().to_owned();
        if response.status() != 200 {
            problem_of(response).await;
        }
        name
    };
    for path in [PATH, "/health", "/nowhere", "/telegram", "/v1/chats/c1/segments/x"] {
        assert_eq!(named(path, Some("trace-1:a/b=c+d.e_f")).await, "trace-1:a/b=c+d.e_f", "{path}");
        let (one, two) = (named(path, None).await, named(path, None).await);
        assert!(one.starts_with("req_") && one.len() == 28 && one != two, "{path}: {one}");
        let long = "x".repeat(129);
        for unfit in ["", "a b", "<script>", "{\"a\":1}", long.as_str()] {
            assert!(named(path, Some(unfit)).await.starts_with("req_"), "{path} {unfit}");
        }
    }
    // CORS headers are sent even if the request does not reach a route.
    let request = app.request(Method::GET, PATH).header(ORIGIN, PAGE).header("x-request-id", "abc");
    let refused = request.send().await.unwrap();
    assert_eq!(refused.status(), 403);
    assert_eq!(problem_of(refused).await["requestId"], "abc");

    // Without the setting no page of another origin may call.
    let preflight = app.request(Method::OPTIONS, PATH).header("access-control-request-method", "POST");
    let own = preflight.try_clone().unwrap().send().await.unwrap();
    assert_eq!((own.status().as_u16(), header(own.headers(), ALLOW.as_str())), (405, Some("POST,GET,HEAD")));
    assert_eq!(preflight.header(ORIGIN, PAGE).send().await.unwrap().status(), 403);
    let answer = app.request(Method::GET, PATH).bearer_auth(APP_KEY).send().await.unwrap();
    assert!(answer.headers().keys().all(|name| !name.as_str().starts_with("access-control-")));
    app.finish().await;
}

#[tokio::test]
async fn pages_of_named_origins_may_call_the_api_and_nothing_else() {
    let app =
        TestApp::builder().set("HTTP_CORS_ORIGINS", &format!("{PAGE},https://b.example.com")).start().await;
    for (method, path) in [("POST", PATH), ("DELETE", "/v1/memory/x"), ("GET", "/openapi.json")] {
        let preflight = app.request(Method::OPTIONS, path).header(ORIGIN, PAGE);
        let preflight = preflight.header("access-control-request-method", method);
        let preflight = preflight.header("access-control-request-headers", "authorization,content-type");
        let answer = preflight.send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        let said = |name: &str| header(answer.headers(), name).unwrap_or_default().to_lowercase();
        assert_eq!(said("access-control-allow-origin"), PAGE);
        assert!(said("access-control-allow-methods").contains(&method.to_lowercase()));
        assert!(said("access-control-allow-headers").contains("authorization"));
        assert!(said("access-control-allow-credentials").is_empty());
        assert!(said(VARY.as_str()).contains("origin"));
    }
    let body = json!({"userId": "ada", "text": "hello", "messageId": "m1"});
    let request = app.request(Method::POST, PATH).bearer_auth(APP_KEY).header(ORIGIN, PAGE).json(&body);
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 202);
    assert_eq!(header(answer.headers(), "access-control-allow-origin"), Some(PAGE));
    assert!(header(answer.headers(), "access-control-expose-headers").unwrap().contains("retry-after"));
    app.idle().await;

    // The page can read a problem, too.
    let request = app.request(Method::GET, PATH).header(ORIGIN, PAGE);
    let refused = request.send().await.unwrap();
    assert_eq!(header(refused.headers(), "access-control-allow-origin"), Some(PAGE));
    assert_eq!(problem_of(refused).await["type"], "urn:annals:problem:unauthorized");
    for (path, origin) in [
        (PATH, "https://evil.example"),
        (PATH, "https://app.example.com.evil.example"),
        ("/local/outbox", PAGE),
        ("/telegram", PAGE),
    ] {
        let request = app.request(Method::GET, path).bearer_auth(APP_KEY).header(ORIGIN, origin);
        assert_eq!(request.send().await.unwrap().status(), 403, "{path} {origin}");
    }
    app.finish().await;
}

/// A repeated id gets the same answer, also for requests that are not messages.
#[tokio::test]
async fn a_repeated_reset_or_compact_does_it_once() {
    let app = TestApp::builder().model().start().await;
    for n in 1..=2 {
        let body = json!({"userId": "ada", "text": format!("message {n}"), "messageId": format!("m{n}")});
        app.ask("c1", APP_KEY, &body).await;
    }
    let mut answers = Vec::new();
    // Nor does another focus make it another command.
    for focus in ["the piers", "the piers", "the boats"] {
        let body = json!({"messageId": "k1", "focus": focus});
        let compact = app.post("/v1/chats/c1/compact?wait=20", APP_KEY, &body);
        answers.push(app.as_time_passes(compact).await);
    }
    for (answer, is_duplicate) in answers.iter().zip([false, true, true]) {
        assert_eq!((answer.status, &answer.body["duplicate"]), (StatusCode::OK, &json!(is_duplicate)));
        assert_eq!((&answer.body["reply"], answer.body.get("revision")), (&answers[0].body["reply"], None));
    }
    for duplicate in [false, true, true] {
        let answer = app.post("/v1/chats/c1/reset", APP_KEY, &json!({"messageId": "r1"})).await;
        let expected = json!({"chatKey": "http:chat:app:c1", "messageId": "r1", "duplicate": duplicate});
        assert_eq!((answer.status.as_u16(), answer.body), (202, expected));
        app.idle_as_time_passes().await;
    }
    let history = lines(&app.history("http:chat:app:c1").await);
    let count = |start: &str| history.iter().filter(|line| line.starts_with(start)).count();
    assert_eq!((count("r1"), count("k1"), count("k1/")), (2, 2, 1), "{history:#?}");
    // If the id is taken, no command is carried out, and the stored entry stays as it was.
    for (route, taken) in [("reset", "m1"), ("compact", "m1"), ("reset", "k1"), ("compact", "r1")] {
        let answer = app.post(&format!("/v1/chats/c1/{route}"), APP_KEY, &json!({"messageId": taken})).await;
        answer.assert_problem(409, "message-id-taken");
    }
    app.idle_as_time_passes().await;
    assert_eq!(lines(&app.history("http:chat:app:c1").await), history);
    // An id that has become a message's is taken.
    app.ask("c1", APP_KEY, &json!({"userId": "app", "text": "a question", "messageId": "r1"})).await;
    assert_eq!(app.post("/v1/chats/c1/reset", APP_KEY, &json!({"messageId": "r1"})).await.status, 409);
    assert_eq!(app.history("http:chat:app:c1").await.len(), history.len() + 2);
    for bad in [json!({"messageId": 7}), json!({"messageId": ""}), json!({"messageId": "a\nb"})] {
        for route in ["reset", "compact"] {
            let answer = app.post(&format!("/v1/chats/c1/{route}"), OPS_KEY, &bad).await;
            answer.assert_problem(400, "bad-message-id");
        }
    }
    app.finish().await;
}
