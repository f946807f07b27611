//! The events under `infra/events/`, for `sam local invoke`: a program with the development secrets accepts
//! their requests, as the functions do, which have the same handlers.

use std::path::Path;

use annals_core::record::Channel;
use annals_store::queue::Turn;
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::loopback_client;
use crate::process::Process;

/// The key that `lark-encrypted.json` and `lark-challenge-encrypted.json` are encrypted with.
const ENCRYPT_KEY: &str = "annals-events";

fn event(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/events").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Sends the request of an API Gateway or function URL event to a program.
async fn answered(process: &Process, name: &str) -> (u16, String) {
    let event = event(name);
    assert_eq!((&event["version"], &event["isBase64Encoded"]), (&json!("2.0"), &json!(false)), "{name}");
    let http = &event["requestContext"]["http"];
    assert_eq!(http["path"], event["rawPath"], "{name}");
    let method: Method = http["method"].as_str().unwrap().parse().unwrap();
    let (path, query) = (event["rawPath"].as_str().unwrap(), event["rawQueryString"].as_str().unwrap());
    let mut request = loopback_client().request(method, format!("{}{path}?{query}", process.base));
    let of_the_way =
        |name: &str| name == "host" || name.starts_with("x-forwarded") || name.starts_with("x-amzn-");
    for (name, value) in event["headers"].as_object().unwrap() {
        if !of_the_way(name) {
            request = request.header(name, value.as_str().unwrap());
        }
    }
    let answer = request.body(event["body"].as_str().unwrap_or_default().to_owned()).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test]
async fn each_event_is_taken_by_what_it_is_for() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(dir.path(), &[]);
    let challenge = r#"{"challenge":"0e9c1f6a-7f0b-4f4e-9d3a-5b8d2f6c1a70"}"#;
    let events = [
        ("telegram-message.json", 200, ""),
        ("lark-message.json", 200, "{}"),
        ("lark-challenge.json", 200, challenge),
        ("discord-interaction.json", 200, r#"{"type":5}"#),
        ("discord-ping.json", 200, r#"{"type":1}"#),
        ("http-message.json", 202, r#""chatKey":"http:chat:dev:hello""#),
        ("http-history.json", 200, r#""id":"event-1""#),
        ("http-streaming-export.json", 200, r#"{"id":"event-1""#),
    ];
    for platform in Channel::platforms() {
        assert!(events.iter().any(|(name, ..)| name.starts_with(platform.as_str())), "{platform}");
    }
    for (name, status, answer) in events {
        let (code, body) = answered(&process, name).await;
        let is_it = match name {
            "http-streaming-export.json" => body.starts_with(answer),
            _ if name.starts_with("http") => body.contains(answer),
            _ => body == answer,
        };
        assert!(code == status && is_it, "{name}: {code} {body}");
    }
    drop(process);

    // A key leaves nothing plain to be taken.
    let app = [
        ("LARK_APP_ID", "cli_development".to_owned()),
        ("LARK_APP_SECRET", "development".into()),
        ("LARK_VERIFICATION_TOKEN", "dev-lark-token".into()),
        ("LARK_ENCRYPT_KEY", ENCRYPT_KEY.into()),
        // A private chat's message needs nothing of Lark, whose answer to it is not looked at here.
        ("LARK_API_BASE", "http://127.0.0.1:9".into()),
    ];
    let process = Process::start(dir.path(), &app);
    assert_eq!(answered(&process, "lark-encrypted.json").await, (200, "{}".into()));
    assert_eq!(answered(&process, "lark-challenge-encrypted.json").await, (200, challenge.into()));
    assert_eq!(answered(&process, "lark-message.json").await.0, 401);
}

#[test]
fn the_turn_is_that_of_the_telegram_message() {
    let batch = event("agent-turn.json");
    let turn: Turn = serde_json::from_str(batch["Records"][0]["body"].as_str().unwrap()).unwrap();
    let update: Value =
        serde_json::from_str(event("telegram-message.json")["body"].as_str().unwrap()).unwrap();
    let message = &update["message"];
    assert_eq!(turn.chat.to_string(), format!("telegram:chat:{}", message["chat"]["id"]));
    let key = format!("{}000#{:020}", message["date"], message["message_id"].as_u64().unwrap());
    assert_eq!(turn.from.as_str(), key);
    let group = &batch["Records"][0]["attributes"]["MessageGroupId"];
    assert_eq!(*group, turn.chat.session_id().as_str());
}
