//! The binary in its two homes, on the stores of a local program and emulators of Discord.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is a failure that names its line")]

use std::collections::HashMap;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use annals_core::settings::Env;
use annals_io::clock::Clock;
use annals_local::config::LocalConfig;
use annals_local::program::Program;
use annals_test_support::discord_api::{APPLICATION_ID, BOT_TOKEN, DiscordApi, public_key};
use annals_test_support::discord_gateway::{DiscordGateway, Post};
use annals_test_support::http::{client, serve};
use annals_test_support::lambda_api::LambdaApi;
use axum::Router;
use axum::routing::get;
use serde_json::{Value, json};
use tempfile::TempDir;

const DIRECT: u64 = 60;
const CHAT: &str = "agent%3Aannals%3Auser%3A42";

/// Discord, and a local program whose stores and queue serve as AWS's.
struct World {
    api: DiscordApi,
    gateway: DiscordGateway,
    base: String,
    variables: Vec<(&'static str, String)>,
    _data: TempDir,
}

impl World {
    async fn start() -> Self {
        let (api, gateway) = (DiscordApi::start().await, DiscordGateway::start(now()).await);
        api.set_gateway(gateway.url());
        gateway.add_channel(DIRECT, None, 1);
        let data = tempfile::tempdir().unwrap();
        let directory = data.path().to_str().unwrap().to_owned();
        let setting = |name: &str| match name {
            "ANNALS_DATA_DIR" => Some(directory.clone()),
            "ANNALS_PORT" | "REPLY_QUIET" => Some("0".to_owned()),
            _ => None,
        };
        let config = LocalConfig::from_env(Env::new(&setting)).unwrap();
        let program = Program::start(config.clone(), Clock::system()).await.unwrap();
        let program = program.with_aws("127.0.0.1:0".parse().unwrap(), &config).await.unwrap();
        let base = format!("http://{}", program.address().unwrap());
        let mut variables = program.gateway().unwrap().variables().unwrap();
        variables.retain(|(name, _)| *name != "ANNALS_SECRETS");
        variables.extend([
            ("DISCORD_APPLICATION_ID", APPLICATION_ID.into()),
            ("DISCORD_PUBLIC_KEY", public_key()),
            ("DISCORD_BOT_TOKEN", BOT_TOKEN.into()),
            ("DISCORD_API_BASE", api.base_url().to_owned()),
        ]);
        tokio::spawn(program.serve(std::future::pending()));
        Self { api, gateway, base, variables, _data: data }
    }

    fn run(&self, variables: &[(&str, String)]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_relay"));
        command.env_clear().envs(self.variables.iter().cloned());
        command.envs(variables.iter().cloned());
        Running(command.spawn().unwrap())
    }

    fn say(&self, text: &str) {
        self.gateway.set_time(now());
        self.gateway.post(Post { channel: DIRECT, author: 42, text, ..Post::default() });
    }

    /// Waits until these messages of Ada are stored.
    async fn until_stored(&self, expected: &[&str]) {
        until("they are stored", async || self.stored().await.len() >= expected.len()).await;
        assert_eq!(self.stored().await, expected);
    }

    async fn stored(&self) -> Vec<String> {
        let url = format!("{}/v1/chats/{CHAT}/messages", self.base);
        let answer = client().get(url).bearer_auth("dev").send().await.unwrap();
        let page: Value = answer.json().await.unwrap();
        let messages = page["messages"].as_array().cloned().unwrap_or_default();
        let asked = messages.iter().filter(|message| message["role"] == "user");
        asked.map(|message| message["parts"][0]["text"].as_str().unwrap().to_owned()).collect()
    }
}

/// The binary; it ends with this value.
struct Running(Child);

impl Running {
    /// Sends SIGTERM, and waits until it has ended.
    async fn stop(mut self) -> ExitStatus {
        assert!(Command::new("kill").arg(self.0.id().to_string()).status().unwrap().success());
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(20) {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            pause().await;
        }
        panic!("it does not end");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Variables of the function whose events come from `api`.
fn in_lambda(api: &LambdaApi) -> [(&'static str, String); 4] {
    [
        ("AWS_LAMBDA_RUNTIME_API", api.address()),
        ("AWS_LAMBDA_FUNCTION_NAME", "relay"),
        ("AWS_LAMBDA_FUNCTION_VERSION", "1"),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
}

fn now() -> i64 {
    Clock::system().now().as_millis()
}

async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < Duration::from_secs(30), "{what}");
        pause().await;
    }
}

#[allow(clippy::disallowed_methods, reason = "another process lives in real time")]
async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_relays_until_sigterm_and_the_next_one_goes_on_at_once() {
    let world = World::start().await;
    let container = world.run(&[]);
    until("it has a session", async || world.gateway.identifies() == 1).await;
    world.say("to the first");
    world.until_stored(&["to the first"]).await;
    assert!(container.stop().await.success());
    until("the connection is gone", async || world.gateway.connections() == 0).await;
    world.say("to nobody");

    // Its credentials come from where its service offers them.
    let (keys, others): (Vec<_>, _) = world
        .variables
        .clone()
        .into_iter()
        .partition(|(name, _)| name.starts_with("AWS_") && name.contains("KEY"));
    let keys: HashMap<_, _> = keys.into_iter().collect();
    let offered = json!({
        "AccessKeyId": keys["AWS_ACCESS_KEY_ID"], "SecretAccessKey": keys["AWS_SECRET_ACCESS_KEY"],
        "Token": "token", "Expiration": "2100-01-01T00:00:00Z",
    });
    let router = Router::new().route("/keys", get(async move || offered.to_string()));
    let url = serve(router).await + "/keys";
    let world = World { variables: others, ..world };
    let next = world.run(&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)]);
    // Far less than the lease: it was released.
    world.until_stored(&["to the first", "to nobody"]).await;
    assert_eq!((world.gateway.identifies(), world.gateway.resumes()), (1, 1));
    assert!(next.stop().await.success());
    assert_eq!(world.gateway.client_closes(), [0_u16; 0]);
    assert_eq!(world.api.count("GET /gateway/bot"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_that_the_operator_must_repair_ends_the_container() {
    let world = World::start().await;
    let mut container = world.run(&[("GROUP_ACTIVATION", "always".into())]);
    let status = tokio::task::spawn_blocking(move || container.0.wait().unwrap()).await.unwrap();
    assert!(!status.success());
    assert_eq!(world.gateway.identifies(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn invocations_of_lambda_hand_the_session_over() {
    let world = World::start().await;
    // Each ends 22 seconds after it began.
    let mut api = LambdaApi::start(std::iter::repeat("{}".to_owned()), || now() + 22_000).await;
    let _function = world.run(&in_lambda(&api));
    let mut texts: Vec<String> = Vec::new();
    for invocation in 1..=3 {
        until("an invocation is connected", async || {
            world.gateway.identifies() + world.gateway.resumes() == invocation
        })
        .await;
        texts.push(format!("to invocation {invocation}"));
        world.say(texts.last().unwrap());
        world.until_stored(&texts.iter().map(String::as_str).collect::<Vec<_>>()).await;
        assert_eq!(api.answer().await, "null");
    }
    assert_eq!(world.gateway.identifies(), 1);
    assert_eq!(world.gateway.client_closes(), [0_u16; 0]);
    assert_eq!(world.gateway.faults(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invocation_that_receives_nothing_fails() {
    let world = World::start().await;
    world.gateway.change(|gateway| gateway.is_refusing_connections = true);
    let mut api = LambdaApi::start(std::iter::repeat("{}".to_owned()), || now() + 25_000).await;
    let _function = world.run(&in_lambda(&api));
    let answer = api.answer().await;
    assert!(answer.contains("nothing of Discord's gateway was received"), "{answer}");
    world.gateway.change(|gateway| gateway.is_refusing_connections = false);
    until("an invocation is connected", async || world.gateway.identifies() == 1).await;
    while api.answer().await != "null" {}
}
