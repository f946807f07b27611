//! A relay whose process is killed between an event and its record.

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use annals_io::environment::process_env;
use annals_relay::Relay;
use annals_test_support::discord_gateway::{DiscordGateway, Post};

use crate::world::{CHANNEL, GUILD, START, Sink, config, open, stored, tick, until};

const DIRECTORY: &str = "RELAY_TEST_DIRECTORY";
const API_BASE: &str = "RELAY_TEST_API_BASE";
const NOW: &str = "RELAY_TEST_NOW";
/// Moment at which the process waits to be killed.
const HELD: &str = "RELAY_TEST_HELD";

/// A relay in a process of its own.
struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(dir: &Path, gateway: &DiscordGateway, now: i64, held: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["killed::process", "--exact", "--ignored", "--nocapture"])
            .env(DIRECTORY, dir)
            .env(API_BASE, gateway.api_base())
            .env(NOW, now.to_string())
            .env(HELD, held)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Waits until the process prints `line`.
    async fn prints(mut self, line: &'static str) -> Self {
        let reading = move || {
            assert!(
                self.lines.any(|printed| printed.unwrap().ends_with(line)),
                "the process ends before {line}"
            );
            self
        };
        tokio::time::timeout(Duration::from_mins(1), tokio::task::spawn_blocking(reading))
            .await
            .unwrap()
            .unwrap()
    }

    /// Kills the process with SIGKILL.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The other process: prints each step.
#[tokio::test]
#[ignore = "run by the tests of this module"]
async fn process() {
    let [dir, api_base, now, held] = [DIRECTORY, API_BASE, NOW, HELD].map(|name| process_env(name).unwrap());
    let clock = Clock::manual(Timestamp::from_millis(now.parse().unwrap()).unwrap());
    let (history, store) = open(Path::new(&dir), &clock).await;
    let sink = Sink::new(None, history.clone());
    match held.as_str() {
        "before the append" => sink.block(),
        "after the append" => sink.block_after_storing(),
        _ => {}
    }
    let relay = Relay::new(config(&api_base), store.clone(), sink.clone(), clock.clone());
    let watching = async {
        until("a session", async || store.place().await.unwrap().session.is_some()).await;
        println!("\nsession");
        until("an event", async || !sink.received().is_empty()).await;
        if held == "after the append" {
            until("the append", async || !stored(&history, CHANNEL).await.is_empty()).await;
        }
        println!("\nreceived");
        until("a save", async || store.place().await.unwrap().session.unwrap().seq >= 3).await;
        println!("\nsaved");
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = tick(clock.clone()) => {}
        () = watching => {}
        ended = relay.run(std::future::pending()) => ended.unwrap(),
    }
}

async fn check(held: &str) {
    let gateway = DiscordGateway::start(START).await;
    gateway.add_guild(GUILD);
    gateway.add_channel(CHANNEL, Some(GUILD), 0);
    let dir = tempfile::tempdir().unwrap();

    let killed = Process::start(dir.path(), &gateway, START, held).prints("session").await;
    gateway.post(Post { channel: CHANNEL, author: 7, text: "hello", mentions_bot: true, ..Post::default() });
    killed.prints("received").await.kill();
    gateway.post(Post {
        channel: CHANNEL,
        author: 7,
        text: "anyone?",
        mentions_bot: true,
        ..Post::default()
    });

    // After the end of the lease.
    let now = START + 600_000;
    let restarted = Process::start(dir.path(), &gateway, now, "never").prints("saved").await;
    let (identifies, resumes) = (gateway.identifies(), gateway.resumes());
    let clock = Clock::manual(Timestamp::from_millis(now).unwrap());
    let (history, _) = open(dir.path(), &clock).await;
    until("both are stored", async || stored(&history, CHANNEL).await.len() >= 2).await;
    restarted.kill();
    assert_eq!(stored(&history, CHANNEL).await, ["hello", "anyone?"]);
    assert_eq!((identifies, resumes), (1, 1));
    assert_eq!(gateway.faults(), [""; 0]);
}

#[tokio::test]
async fn between_event_and_append_loses_nothing() {
    check("before the append").await;
}

#[tokio::test]
async fn between_append_and_save_stores_nothing_twice() {
    check("after the append").await;
}
