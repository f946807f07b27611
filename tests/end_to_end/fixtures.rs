//! Telegram: whole payloads, as recorded from bots and other libraries' tests.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::app::{TestApp, text_of};

/// The payloads of `folder`, below the workspace's root, by name; none where there is no such folder.
pub(crate) fn payloads(folder: &str) -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let read = |file: &PathBuf| serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    files.iter().map(|file| (file.display().to_string(), read(file))).collect()
}

fn chat_key(message: &Value) -> String {
    let chat = format!("telegram:chat:{}", message["chat"]["id"]);
    let topic = match (&message["is_topic_message"], &message["direct_messages_topic"]["topic_id"]) {
        (Value::Bool(true), _) => &message["message_thread_id"],
        (_, topic) => topic,
    };
    if topic.is_null() { chat } else { format!("{chat}:topic:{topic}") }
}

#[tokio::test]
async fn every_payload_is_taken_and_its_text_is_in_the_history() {
    let app = TestApp::builder().telegram().start().await;
    let own = payloads("tests/fixtures/telegram");
    assert!(own.len() >= 30);
    // Where a folder beside the project keeps more; not part of this repository.
    let payloads = [own, payloads("../shared/fixtures/telegram")].concat();
    for (name, update) in &payloads {
        assert_eq!(app.telegram(update).await, 200, "{name}");
    }
    app.idle_as_time_passes().await;
    for (name, update) in &payloads {
        for (kind, message) in update.as_object().unwrap() {
            if kind.ends_with("_query") || !(kind.ends_with("message") || kind.ends_with("post")) {
                continue;
            }
            let texts: Vec<&str> =
                ["text", "caption"].iter().filter_map(|field| message[field].as_str()).collect();
            if texts.is_empty() {
                continue;
            }
            let chat = chat_key(message);
            let history = app.history(&chat).await;
            for text in texts {
                let is_kept = history.iter().any(|message| text_of(message).contains(text));
                assert!(is_kept, "{name}: {text:?} is not under {chat}: {history:#?}");
            }
        }
    }
    app.finish().await;
}
