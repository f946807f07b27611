//! `kill -9` in the middle of compactions: the real binary in a small window, killed and started again on the same data.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use annals_local::program::open_history;
use annals_shared::chat_key::ChatKey;
use annals_shared::clock::Clock;
use annals_shared::config::{Env, retention};
use annals_shared::record::Kind;
use serde_json::{Value, json};

use crate::app::wait_until;
use crate::crash::{DEADLINE, Neighbours, Process, history, pause, send};
use crate::support::world::records_of;

const CHATS: i64 = 4;
/// How long a summary takes, and an answer.
const MODEL_DELAY: Duration = Duration::from_millis(60);

/// Message `number` of a chat: three of them, with their answers, are more than the window takes.
fn update(chat: i64, number: i64) -> Value {
    let text = format!("message {number} of chat {chat}: {}", "lorem ipsum dolor sit ".repeat(10));
    let date = Clock::system().now().as_millis() / 1000;
    json!({"update_id": chat * 1000 + number, "message": {
        "message_id": number, "date": date, "text": text,
        "chat": {"id": chat, "type": "private", "first_name": "A"},
        "from": {"id": chat, "is_bot": false, "first_name": "A"},
    }})
}

/// The ids of a chat's messages and answers, without summaries.
async fn said(client: &reqwest::Client, base: &str, chat: i64) -> Vec<String> {
    let listed = history(client, base, chat).await;
    let said = listed.iter().filter(|message| message["metadata"]["kind"] == "normal");
    said.map(|message| message["id"].as_str().unwrap().to_owned()).collect()
}

/// What is in the stores of a program that is not there: each record in one segment at most, each message counted by
/// one summary at most. Answers with how many summaries there are, and how many that runs have committed to.
async fn check_stores(data_dir: &std::path::Path, what: &str) -> (usize, usize) {
    let retention = retention(Env::new(&|_| None)).unwrap();
    let history = open_history(data_dir, retention, Clock::system()).await.unwrap();
    let (mut summaries, mut planned) = (0, 0);
    for chat in 1..=CHATS {
        let chat = ChatKey::telegram(chat, None);
        let mut archived = BTreeSet::new();
        for info in history.segments(&chat).await.unwrap() {
            for record in records_of(&history, &info).await {
                assert!(archived.insert(record.key.clone()), "{what}: {} is in two segments", record.key);
            }
        }
        planned += usize::from(history.head(&chat).await.unwrap().compacting.is_some());
        let mut counted = BTreeSet::new();
        for record in history.range(&chat, None).await.unwrap() {
            summaries += usize::from(record.kind == Kind::Summary);
            for key in record.source.into_iter().flat_map(|source| source.counts) {
                assert!(archived.contains(&key), "{what}: {key} is summed up and in no segment");
                assert!(counted.insert(key.clone()), "{what}: {key} is summed up twice");
            }
        }
    }
    (summaries, planned)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_is_there_and_answered_once_whenever_a_compaction_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let client = reqwest::Client::new();
    let neighbours = Neighbours::start().await;
    neighbours.model.delay(MODEL_DELAY);
    let mut settings = neighbours.settings();
    settings.extend([("CONTEXT_WINDOW", "375".into()), ("KEEP_RECENT", "2".into())]);
    let (mut number, mut before) = (0, 0);
    let (mut done, mut cut_off, mut planned_only) = (0, 0, 0);
    // From the first request for a summary on: it is asked for, planned, archived, stored, and the answer asked for.
    for millis in [0, 50, 70, 90, 110, 140, 170, 200, 250, 600, 1200, 2500, 5000] {
        // The last are for machines that are slow.
        if millis > 600 && done > 0 {
            break;
        }
        let mut process = Process::start(dir.path(), &settings);
        // Until the next message makes a compaction.
        let asked_before = loop {
            number += 1;
            let asked = neighbours.model.requests_for_notes().len();
            let sent = (1..=CHATS)
                .map(async |chat| assert!(send(&client, &process.base, &update(chat, number)).await));
            futures::future::join_all(sent).await;
            let asks = async || neighbours.model.requests_for_notes().len() > asked;
            let is_answered = async || answered(&client, &process.base, number).await;
            wait_until("it is answered, or summed up", async || asks().await || is_answered().await).await;
            if asks().await {
                break asked;
            }
        };
        pause(Duration::from_millis(millis)).await;
        process.kill();
        let what = format!("killed {millis} ms behind the first request for a summary");
        let (summaries, planned) = check_stores(dir.path(), &what).await;
        let asked = neighbours.model.requests_for_notes().len() - asked_before;
        cut_off += asked - (summaries - before);
        planned_only += planned;
        done += summaries - before;

        let mut process = Process::start(dir.path(), &settings);
        let deadline = Instant::now() + DEADLINE;
        while !answered(&client, &process.base, number).await {
            assert!(Instant::now() < deadline, "{what}: there is no answer");
            pause(Duration::from_millis(20)).await;
        }
        for chat in 1..=CHATS {
            let expected: Vec<String> =
                (1..=number).flat_map(|number| [number.to_string(), format!("{number}/reply")]).collect();
            assert_eq!(said(&client, &process.base, chat).await, expected, "{what}");
        }
        process.kill();
        (before, _) = check_stores(dir.path(), &what).await;
    }
    println!(
        "{number} messages; of summaries, {done} done, {cut_off} cut off, {planned_only} of them planned"
    );
    assert!(done > 0 && cut_off > 0 && planned_only > 0, "{done}, {cut_off}, {planned_only}");
    assert_eq!(neighbours.model.refusals(), [""; 0]);
}

async fn answered(client: &reqwest::Client, base: &str, number: i64) -> bool {
    for chat in 1..=CHATS {
        if said(client, base, chat).await.last() != Some(&format!("{number}/reply")) {
            return false;
        }
    }
    true
}
