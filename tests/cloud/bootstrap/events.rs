//! The events of infra/events/ as they are, with the development secrets that they are made for.

use std::path::Path;

use annals_channel_lark::about::ABOUT as LARK;
use annals_channel_lark::channel::DEV_APP as DEV_LARK_APP;
use annals_channel_telegram::about::ABOUT as TELEGRAM;
use annals_core::record::Channel;
use annals_local::config::DEV_API_KEY;
use annals_test_support::telegram_api;
use serde_json::{Value, json};

use crate::bootstrap::emulated::{Emulated, event, queue, streamed};
use crate::stack::{beside, root};

/// The key of `lark-encrypted.json` and `lark-challenge-encrypted.json`.
const ENCRYPT_KEY: &str = "annals-events";

/// The answer's status and body.
fn answered(answer: &Value) -> (u64, &str) {
    (answer["statusCode"].as_u64().unwrap(), answer["body"].as_str().unwrap_or_default())
}

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn each_event_is_taken_by_the_function_that_it_is_for() {
    beside(async |stack| {
        let queue = queue(stack, "events").await;
        let api_keys = format!("dev:{DEV_API_KEY}:admin");
        let telegram = [
            ("ANNALS_SECRETS", ""),
            ("TELEGRAM_BOT_TOKEN", telegram_api::TOKEN),
            ("TELEGRAM_WEBHOOK_SECRET", TELEGRAM.development_secret),
        ];
        let lark = [
            ("ANNALS_SECRETS", ""),
            ("LARK_APP_ID", DEV_LARK_APP.0),
            ("LARK_APP_SECRET", DEV_LARK_APP.1),
            ("LARK_VERIFICATION_TOKEN", LARK.development_secret),
        ];
        let discord = [
            ("ANNALS_SECRETS", ""),
            ("DISCORD_APPLICATION_ID", "1000000000000000000"),
            // Of the local program's development key pair.
            ("DISCORD_PUBLIC_KEY", "ec6cf833bc6c7564cde8b4877e8a972e1fcb3febcec78167ce8b30707e1f4786"),
        ];
        let encrypted = [&lark[..], &[("LARK_ENCRYPT_KEY", ENCRYPT_KEY)]].concat();
        let http = [("ANNALS_SECRETS", ""), ("HTTP_API_KEYS", &*api_keys)];
        let challenge = r#"{"challenge":"0e9c1f6a-7f0b-4f4e-9d3a-5b8d2f6c1a70"}"#;
        let mut tried = Vec::new();
        for (function, variables, events) in [
            ("Telegram", &telegram[..], &[("telegram-message", 200, "")][..]),
            ("Lark", &lark[..], &[("lark-message", 200, "{}"), ("lark-challenge", 200, challenge)]),
            (
                "Lark",
                &encrypted[..],
                &[("lark-encrypted", 200, "{}"), ("lark-challenge-encrypted", 200, challenge)],
            ),
            (
                "Discord",
                &discord[..],
                &[("discord-interaction", 200, r#"{"type":5}"#), ("discord-ping", 200, r#"{"type":1}"#)],
            ),
            (
                "Http",
                &http[..],
                &[
                    ("http-message", 202, r#""chatKey":"http:chat:dev:hello""#),
                    ("http-history", 200, r#""id":"event-1""#),
                ],
            ),
        ] {
            let emulated = Emulated::start(stack, function, &queue, variables).await;
            for (name, status, part) in events {
                let answer = emulated.invoke(&event(name)).await;
                let (answered, body) = answered(&answer);
                // Any body contains an empty part.
                let is_wanted = body.contains(part) && part.is_empty() == body.is_empty();
                assert!(answered == *status && is_wanted, "{name}: {answer}: {}", emulated.log());
                tried.push((*name).to_owned());
            }
        }

        let emulated = Emulated::start(stack, "HttpStreaming", &queue, &http).await;
        let (prelude, body) = streamed(&emulated.invoke_raw(&event("http-streaming-export")).await);
        assert_eq!(prelude["statusCode"], 200, "{prelude}");
        assert_eq!(prelude["headers"]["content-type"], "application/x-ndjson", "{prelude}");
        assert!(body.starts_with(r#"{"id":"event-1""#), "{body}");

        let agent = Emulated::start(stack, "Agent", &queue, &[]).await;
        assert_eq!(
            agent.invoke(&event("agent-turn")).await,
            json!({"batchItemFailures": []}),
            "{}",
            agent.log()
        );
        let sent: Vec<_> = stack.telegram.sent_to(42).into_iter().map(|sent| sent.text).collect();
        assert_eq!(sent, ["You said: Hello, do you remember me?"]);

        // The compactor's has the test below.
        tried.extend(["http-streaming-export", "agent-turn", "compactor-schedule"].map(Into::into));
        tried.sort();
        assert_eq!(tried, names(&root().join("infra/events")));
        for platform in Channel::platforms() {
            assert!(tried.iter().any(|name| name.starts_with(platform.as_str())), "{platform}");
        }
    });
}

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn the_schedules_event_is_one_run_which_reports_its_figures() {
    beside(async |stack| {
        let queue = queue(stack, "compactor-alone").await;
        let compactor = Emulated::start(stack, "Compactor", &queue, &[]).await;
        assert_eq!(compactor.invoke(&event("compactor-schedule")).await, Value::Null, "{}", compactor.log());
        let log = compactor.log();
        let metrics = log.lines().find_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            line.get("_aws").is_some().then_some(line)
        });
        let metrics = metrics.unwrap_or_else(|| panic!("{log}"));
        assert_eq!(metrics["Table"], stack.output("TableName"));
        assert_eq!(metrics["_aws"]["CloudWatchMetrics"][0]["Namespace"], "Annals");
    });
}

/// The events that there are.
fn names(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<_> =
        files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}
