//! Logs and spans of an invocation: each names it, and its chat if it is about one.
#![allow(clippy::unwrap_used, reason = "a panic is a failure that names its line")]

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;

use annals_core::chat_key::ChatKey;
use annals_test_support::http::serve;
use annals_test_support::lambda_api::LambdaApi;
use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Returns a call of the webhook, as API Gateway passes it on.
fn call(update: &Value) -> String {
    json!({
        "version": "2.0", "routeKey": "POST /telegram", "rawPath": "/telegram", "rawQueryString": "",
        "headers": {"content-type": "application/json", "x-telegram-bot-api-secret-token": "hunter2"},
        "requestContext": {
            "http": {"method": "POST", "path": "/telegram", "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1"},
            "stage": "$default", "requestId": "the-api's-own", "timeEpoch": 1_763_765_920_000_i64,
        },
        "body": update.to_string(), "isBase64Encoded": false,
    })
    .to_string()
}

/// Output of a function that has handled two calls, of which the second is about a chat and fails.
struct Handled {
    /// Its log.
    written: String,
    /// Its spans, once for each call.
    sent: [String; 2],
    /// Trace in which it called AWS first.
    trace: String,
}

/// Runs the function at this level of logs.
async fn handle_at(level: &str) -> Handled {
    let message = json!({
        "message_id": 7, "date": 1_763_765_920, "text": "a secret plan",
        "chat": {"id": 42, "type": "private"}, "from": {"id": 42, "is_bot": false, "first_name": "Lovelace"},
    });
    let calls = [json!({"update_id": 1, "poll": {"id": "1"}}), json!({"update_id": 2, "message": message})];
    let mut api = LambdaApi::start(calls.each_ref().map(call).into_iter(), || 9_999_999_999_999).await;
    let (called, mut calls_made) = mpsc::unbounded_channel();
    let (noted, mut spans_sent) = mpsc::unbounded_channel();
    // What a function asks of AWS, which here takes nothing but spans.
    let aws = Router::new()
        .route("/v1/traces", post(async move |body: String| drop(noted.send(body))))
        .fallback(async move |headers: HeaderMap| {
            drop(called.send(headers["x-amzn-trace-id"].to_str().unwrap().to_owned()));
            (StatusCode::BAD_REQUEST, r#"{"__type": "ValidationException"}"#)
        });
    let aws = serve(aws).await;

    let mut function = Command::new(env!("CARGO_BIN_EXE_telegram"))
        .env_clear()
        .envs([
            ("AWS_LAMBDA_RUNTIME_API", api.address()),
            ("AWS_LAMBDA_FUNCTION_NAME", "telegram"),
            ("AWS_LAMBDA_FUNCTION_VERSION", "1"),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128"),
            ("AWS_REGION", "eu-central-1"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_ENDPOINT_URL", &aws),
            ("ANNALS_TABLE", "t"),
            ("ANNALS_BUCKET", "b"),
            ("ANNALS_QUEUE_URL", "http://127.0.0.1:9/q.fifo"),
            ("TELEGRAM_BOT_TOKEN", "77:token"),
            ("TELEGRAM_WEBHOOK_SECRET", "hunter2"),
            ("RUST_LOG", level),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &aws),
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Read at once, since the function waits for a reader of what it writes.
    let mut output = function.stdout.take().unwrap();
    let reader = thread::spawn(move || {
        let mut written = String::new();
        output.read_to_string(&mut written).map(|_| written)
    });
    let mut statuses = Vec::new();
    for _ in &calls {
        let answer: Value = serde_json::from_str(&api.answer().await).unwrap();
        statuses.push(answer["statusCode"].as_u64().unwrap());
    }
    function.kill().unwrap();
    function.wait().unwrap();
    assert_eq!(statuses, [200, 503]);
    Handled {
        written: reader.join().unwrap().unwrap(),
        // Spans are sent before an invocation ends.
        sent: [spans_sent.try_recv().unwrap(), spans_sent.try_recv().unwrap()],
        trace: calls_made.recv().await.unwrap(),
    }
}

#[tokio::test]
async fn no_level_of_logs_writes_a_text_a_name_or_a_secret() {
    for level in ["info", "trace"] {
        let Handled { written, sent, .. } = handle_at(level).await;
        assert!(level == "info" || written.contains("TRACE"), "{written}");
        let written = written + &sent.concat();
        for private in ["secret plan", "Lovelace", "hunter2", "77:token"] {
            assert!(!written.contains(private), "{level}: {written}");
        }
    }
}

#[tokio::test]
async fn each_line_names_its_invocation_and_one_about_a_chat_the_chat() {
    let Handled { written, sent, trace } = handle_at("info").await;
    assert_eq!(trace, "Root=1-1", "a trace goes on in what is called");

    let lines: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |message: &str| {
        let mut found = lines.iter().filter(|line| line["message"] == message);
        found.next().unwrap_or_else(|| panic!("{written}"))
    };
    let ignored = of("event ignored");
    assert_eq!((&ignored["requestId"], &ignored["xrayTraceId"]), (&"request-0".into(), &"Root=1-0".into()));
    assert_eq!(ignored.get("session"), None);
    let failed = of("failed to store an event; the platform will deliver it again");
    assert_eq!(failed["requestId"], "request-1");
    assert_eq!(failed["session"], ChatKey::telegram(42, None).session_id().to_string());
    for line in &lines {
        assert!(line["requestId"].is_string(), "{line}");
    }

    let parsed: Value = serde_json::from_str(&sent[1]).unwrap();
    let spans = parsed["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let names: Vec<&str> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["append", "request"], "each as it ends");
    let (append, request) = (&spans[0], &spans[1]);
    assert_eq!(append["parentSpanId"], request["spanId"]);
    let session = json!({"key": "session", "value": {"stringValue": failed["session"]}});
    assert!(spans.iter().all(|span| span["attributes"].as_array().unwrap().contains(&session)), "{parsed}");
}
