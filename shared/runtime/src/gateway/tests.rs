use std::path::Path;

use axum::body::Bytes;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::*;

fn event(raw_path: &str, raw_query: &str, more: &Value) -> Event {
    let mut event = json!({
        "version": "2.0", "routeKey": "$default", "rawPath": raw_path, "rawQueryString": raw_query,
        "headers": {"accept": "a/b,c/d", "x-name": "Zoë"}, "isBase64Encoded": false,
        "requestContext": {"http": {"method": "POST", "sourceIp": "203.0.113.20"}, "stage": "$default"},
    });
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(event).unwrap()
}

async fn body_of(event: Event) -> Bytes {
    to_bytes(event.request().unwrap().into_body(), usize::MAX).await.unwrap()
}

#[tokio::test]
async fn a_request_arrives_as_it_was_sent() {
    let request =
        event("/v1/chats/a%3Ab/messages", "limit=2&from=%2B1", &json!({"body": "hällo"})).request().unwrap();
    assert_eq!((request.method(), request.uri().path()), (&Method::POST, "/v1/chats/a%3Ab/messages"));
    assert_eq!(request.uri().query(), Some("limit=2&from=%2B1"));
    assert_eq!(request.headers()["accept"], "a/b,c/d");
    assert_eq!(request.headers()["x-name"], "Zoë".as_bytes());
    assert_eq!(request.extensions().get::<SourceIp>().unwrap().0.to_string(), "203.0.113.20");
    assert_eq!(body_of(event("/", "", &json!({"body": "hällo"}))).await, "hällo");
    let binary = json!({"body": "/wAB", "isBase64Encoded": true});
    assert_eq!(body_of(event("/", "", &binary)).await, &[255, 0, 1][..]);
    assert_eq!(body_of(event("/", "", &json!({}))).await, "");
}

#[test]
fn decoded_paths_are_encoded_again() {
    let paths =
        [("/a b/ü", "/a%20b/%C3%BC"), ("/what?/#1", "/what%3F/%231"), ("/{x}\"<>`", "/%7Bx%7D%22%3C%3E%60")];
    for (raw, encoded) in paths {
        let request = event(raw, "q=a b#c", &json!({})).request().unwrap();
        assert_eq!((request.uri().path(), request.uri().query()), (encoded, Some("q=a%20b%23c")));
    }
}

#[test]
fn an_event_that_is_no_request_is_an_error_and_ends_nothing() {
    assert!(serde_json::from_value::<Event>(json!({"Records": []})).is_err(), "an event of another service");
    assert!(event("/", "", &json!({"body": "no base64!", "isBase64Encoded": true})).request().is_err());
    assert!(event("no path", "", &json!({})).request().is_err());
    for headers in [json!({"a b": "c"}), json!({"a": "b\nc"})] {
        assert!(event("/", "", &json!({"headers": headers})).request().is_err(), "{headers}");
    }
    let unknown = json!({"http": {"method": "GET", "sourceIp": "unknown"}});
    let request = event("/", "", &json!({"requestContext": unknown})).request().unwrap();
    assert!(request.extensions().get::<SourceIp>().is_none());
}

#[test]
fn each_example_event_is_a_request() {
    let events = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../infra/events")).unwrap();
    for path in events.map(|entry| entry.unwrap().path()) {
        // Of the queue, and of the schedule.
        if path.ends_with("agent-turn.json") || path.ends_with("compactor-schedule.json") {
            continue;
        }
        let event: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let request = serde_json::from_value::<Event>(event.clone()).unwrap().request().unwrap();
        assert_eq!(request.uri().path(), event["rawPath"], "{path:?}");
    }
}

async fn answer(body: impl Into<Body>) -> Value {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::ACCEPTED;
    response.headers_mut().insert("content-type", HeaderValue::from_static("text/plain"));
    for name in ["origin", "accept"] {
        response.headers_mut().append("vary", HeaderValue::from_static(name));
    }
    serde_json::to_value(Answer::of(response).await.unwrap()).unwrap()
}

#[tokio::test]
async fn an_answer_is_text_where_it_can_be() {
    let headers = json!({"content-type": "text/plain", "vary": "origin, accept"});
    let text = json!({"statusCode": 202, "headers": headers, "body": "hällo", "isBase64Encoded": false});
    assert_eq!(answer("hällo").await, text);
    let binary = answer(vec![255, 0, 1]).await;
    assert_eq!((&binary["body"], &binary["isBase64Encoded"]), (&json!("/wAB"), &json!(true)));
}

#[test]
fn a_streamed_answer_begins_with_status_and_headers() {
    let mut response = Response::new(Body::from("body"));
    response.headers_mut().insert("content-type", HeaderValue::from_static("text/event-stream"));
    for name in ["origin", "accept"] {
        response.headers_mut().append("vary", HeaderValue::from_static(name));
    }
    let prelude = serde_json::to_value(streamed(response).metadata_prelude).unwrap();
    let headers = json!({"content-type": "text/event-stream", "vary": "origin, accept"});
    assert_eq!(prelude, json!({"statusCode": 200, "headers": headers, "cookies": []}));
}

#[tokio::test]
async fn a_streamed_answer_that_fails_ends_with_a_line_that_says_so() {
    let parts = [Ok("{}\n"), Err(std::io::Error::other("a secret")), Ok("{}\n")];
    let body = Body::from_stream(futures::stream::iter(parts));
    let sent: Vec<_> = streamed(Response::new(body)).stream.map(Result::unwrap).collect().await;
    assert_eq!((sent.len(), &sent[0][..]), (2, &b"{}\n"[..]));
    let last: Value = serde_json::from_slice(&sent[1]).unwrap();
    assert_eq!(last["type"], "urn:annals:problem:broken-off");
    assert!(sent[1].ends_with(b"\n") && !sent[1].windows(6).any(|bytes| bytes == b"secret"));
}
