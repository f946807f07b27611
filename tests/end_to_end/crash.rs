//! `kill -9` between receipt and delivery: the real binary, killed and started again on the same data.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use annals_test_support::model_api::ModelApi;
use annals_test_support::telegram_api::TelegramApi;
use serde_json::{Value, json};

use crate::process::Process;

const CHATS: i64 = 10;
const SECRET: &str = "crash-test-secret";
const DEADLINE: Duration = Duration::from_mins(1);

fn update(chat: i64, message_id: i64) -> Value {
    json!({"update_id": chat * 1000 + message_id, "message": {
        "message_id": message_id, "date": 1_795_305_512, "text": format!("message {message_id} of chat {chat}"),
        "chat": {"id": chat, "type": "private", "first_name": "A"},
        "from": {"id": chat, "is_bot": false, "first_name": "A"},
    }})
}

async fn send(client: &reqwest::Client, base: &str, update: &Value) -> bool {
    let sent = client
        .post(format!("{base}/telegram"))
        .header("X-Telegram-Bot-Api-Secret-Token", SECRET)
        .json(update)
        .send()
        .await;
    sent.is_ok_and(|response| response.status().is_success())
}

async fn history(client: &reqwest::Client, base: &str, chat: i64) -> Vec<Value> {
    let response = client
        .get(format!("{base}/v1/chats/telegram:chat:{chat}/messages?limit=200"))
        .bearer_auth("dev")
        .send()
        .await
        .unwrap();
    let body: Value = response.json().await.unwrap();
    body["messages"].as_array().unwrap().clone()
}

/// The program's neighbours, which outlive it: a model that takes its time, and Telegram.
struct Neighbours {
    model: ModelApi,
    telegram: TelegramApi,
}

impl Neighbours {
    async fn start() -> Self {
        let neighbours = Self { model: ModelApi::start().await, telegram: TelegramApi::start().await };
        neighbours.model.accept_any_key();
        neighbours.model.delay(Duration::from_millis(60));
        neighbours.telegram.delay(Duration::from_millis(20));
        neighbours
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            ("MODEL", "openai:test".into()),
            ("MODEL_BASE_URL", self.model.base_url()),
            ("HTTP_API_KEYS", "dev:dev:admin".into()),
            ("TELEGRAM_BOT_TOKEN", TelegramApi::token().into()),
            ("TELEGRAM_WEBHOOK_SECRET", SECRET.into()),
            ("TELEGRAM_API_BASE", self.telegram.base_url().to_owned()),
        ]
    }
}

/// Sends one message to each of the chats and kills the program `after` it has begun; then starts it again, repeats
/// what was not acknowledged, as Telegram does, and checks that each chat has one message with one answer. Returns
/// how many sends to Telegram were repeats: a send has no idempotency key, so a kill between the two can cause one.
async fn kill_and_check(after: Duration) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let client = reqwest::Client::new();
    let neighbours = Neighbours::start().await;
    let settings = neighbours.settings();
    let mut process = Process::start(dir.path(), &settings);
    let sending = tokio::spawn({
        let (client, base) = (client.clone(), process.base.clone());
        async move {
            let sent = (1..=CHATS).map(|chat| {
                let (client, base) = (client.clone(), base.clone());
                async move { (chat, send(&client, &base, &update(chat, 1)).await) }
            });
            futures::future::join_all(sent).await.into_iter().collect::<BTreeMap<i64, bool>>()
        }
    });
    pause(after).await;
    process.kill();
    let acknowledged = sending.await.unwrap();

    let process = Process::start(dir.path(), &settings);
    for (chat, acknowledged) in &acknowledged {
        if !acknowledged {
            assert!(send(&client, &process.base, &update(*chat, 1)).await);
        }
    }
    let deadline = Instant::now() + DEADLINE;
    let mut repeats = 0;
    for chat in 1..=CHATS {
        loop {
            let messages = history(&client, &process.base, chat).await;
            let roles: Vec<&str> = messages.iter().map(|m| m["role"].as_str().unwrap()).collect();
            let sent = neighbours.telegram.sent_to(chat).len();
            if roles == ["user", "assistant"] && sent > 0 {
                repeats += sent - 1;
                break;
            }
            assert!(roles.len() <= 2, "chat {chat} killed after {after:?}: {messages:#?}");
            assert!(
                Instant::now() < deadline,
                "chat {chat} killed after {after:?} has no answer: {messages:#?}"
            );
            pause(Duration::from_millis(20)).await;
        }
    }
    assert_eq!(neighbours.model.refusals(), Vec::<String>::new());
    repeats
}

#[allow(
    clippy::disallowed_methods,
    reason = "the program under test is a process of its own, on the system's clock"
)]
async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_chat_is_answered_once_whenever_the_program_is_killed() {
    // A round takes about 200 ms. `stopped.rs` stops a run and a visit at every request; these kills are for the rest: the
    // webhook, the local queue and the files of the stores.
    let mut repeats = 0;
    let kills = [5, 45, 90, 160];
    for millis in kills {
        repeats += kill_and_check(Duration::from_millis(millis)).await;
    }
    println!("sends that Telegram got twice: {repeats}");
}
