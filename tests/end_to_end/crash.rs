//! `kill -9` at any moment between receipt and delivery: the real binary, killed and started again on the same data.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const CHATS: i64 = 10;
const DEADLINE: Duration = Duration::from_mins(1);

/// The binary, answering at `base`.
struct Process {
    child: Child,
    base: String,
}

impl Process {
    fn start(data_dir: &std::path::Path, settings: &[(&str, &str)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_annals"))
            .env_clear()
            .env("ANNALS_DATA_DIR", data_dir)
            .env("ANNALS_PORT", "0")
            .env("RUST_LOG", "off")
            .envs(settings.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().expect("the program prints where it answers").unwrap();
        let base = first.strip_prefix("Annals answers at ").expect("an address").to_owned();
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, base }
    }

    /// SIGKILL, as `kill -9`: nothing in the program gets to run.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

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
        .header("X-Telegram-Bot-Api-Secret-Token", "dev-telegram-secret")
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

/// Sends one message to each of the chats and kills the program `after` it has begun; then starts it again, repeats
/// what was not acknowledged, as Telegram does, and checks that each chat has one message with one answer.
async fn kill_and_check(after: Duration) {
    let dir = tempfile::tempdir().unwrap();
    let client = reqwest::Client::new();
    let mut process = Process::start(dir.path(), &[]);
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

    let process = Process::start(dir.path(), &[]);
    for (chat, acknowledged) in &acknowledged {
        if !acknowledged {
            assert!(send(&client, &process.base, &update(*chat, 1)).await);
        }
    }
    let deadline = Instant::now() + DEADLINE;
    for chat in 1..=CHATS {
        loop {
            let messages = history(&client, &process.base, chat).await;
            let roles: Vec<&str> = messages.iter().map(|m| m["role"].as_str().unwrap()).collect();
            if roles == ["user", "assistant"] {
                break;
            }
            assert!(roles.len() < 2, "chat {chat} killed after {after:?}: {messages:#?}");
            assert!(
                Instant::now() < deadline,
                "chat {chat} killed after {after:?} has no answer: {messages:#?}"
            );
            pause(Duration::from_millis(20)).await;
        }
    }
    let outbox: Vec<Value> =
        client.get(format!("{}/local/outbox", process.base)).send().await.unwrap().json().await.unwrap();
    for chat in 1..=CHATS {
        let to_chat =
            outbox.iter().filter(|entry| entry["chatId"].as_str() == Some(chat.to_string().as_str())).count();
        assert!(to_chat <= 1, "chat {chat} killed after {after:?} was answered {to_chat} times");
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the program under test is a process of its own, on the system's clock"
)]
async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

#[tokio::test]
async fn each_chat_is_answered_once_whenever_the_program_is_killed() {
    // From before the first append to after the last delivery: a whole round takes about 100 ms.
    for millis in [0, 5, 10, 15, 20, 25, 30, 40, 50, 70, 100, 150] {
        kill_and_check(Duration::from_millis(millis)).await;
    }
}
