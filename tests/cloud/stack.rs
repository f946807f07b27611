//! The stack that `infra/cloud/run` has deployed, and the platforms and the model that its functions talk to:
//! [`beside`], [`alone`].

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{LazyLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use annals_channel::channel::ProvedCall;
use annals_core::record::Channel;
use annals_core::settings::Env;
use annals_io::clock::Clock;
use annals_runtime::channels;
use annals_store::history::{History, Retention};
use annals_store::settings::StoreConfig;
use annals_test_support::discord_api::DiscordApi;
use annals_test_support::fixtures::all_payloads;
use annals_test_support::lark_api::LarkApi;
use annals_test_support::model_api::ModelApi;
use annals_test_support::telegram_api::TelegramApi;
use aws_sdk_sqs::types::QueueAttributeName;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::Value;
use tokio::runtime::Runtime;

/// Timeout of one wait, including cold starts on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Timeout for the compactor: a minute until its schedule fires, and its run.
pub(crate) const UNTIL_THE_SCHEDULE: Duration = Duration::from_mins(4);

/// The deployed stack.
pub(crate) struct Stack {
    description: Value,
    /// Values in the secrets.
    pub(crate) secrets: BTreeMap<String, String>,
    pub(crate) s3: aws_sdk_s3::Client,
    pub(crate) sqs: aws_sdk_sqs::Client,
    pub(crate) http: reqwest::Client,
    pub(crate) telegram: TelegramApi,
    pub(crate) lark: LarkApi,
    pub(crate) discord: DiscordApi,
    pub(crate) model: ModelApi,
    history: History,
}

/// One of each for all tests of a process, since the functions know one address of each platform.
static SHARED: LazyLock<(Runtime, Stack)> = LazyLock::new(|| {
    let runtime = Runtime::new().unwrap();
    let stack = runtime.block_on(Stack::open());
    (runtime, stack)
});

/// Held for writing by a test that changes the stack, for reading by all others.
static CHANGES: RwLock<()> = RwLock::new(());

/// Runs `test` beside others.
pub(crate) fn beside(test: impl AsyncFnOnce(&'static Stack)) {
    let _guard = CHANGES.read().unwrap_or_else(PoisonError::into_inner);
    let (runtime, stack) = &*SHARED;
    runtime.block_on(test(stack));
}

/// Runs `test` while no other runs.
pub(crate) fn alone(test: impl AsyncFnOnce(&'static Stack)) {
    let _guard = CHANGES.write().unwrap_or_else(PoisonError::into_inner);
    let (runtime, stack) = &*SHARED;
    runtime.block_on(test(stack));
}

impl Stack {
    async fn open() -> Self {
        let description: Value =
            serde_json::from_slice(&std::fs::read(set("ANNALS_CLOUD_STACK")).unwrap()).unwrap();
        let secrets = serde_json::from_str(include_str!("secrets.json")).unwrap();
        let aws = annals_aws::config::anywhere().await;
        assert!(
            aws.endpoint_url().is_some_and(|url| url.starts_with("https://127.0.0.1:")),
            "not the real AWS"
        );
        let output = |name: &str| description["outputs"][name].as_str().unwrap().to_owned();
        let store = StoreConfig {
            table: output("TableName"),
            bucket: output("BucketName"),
            // What is written here never expires; only reads are made.
            retention: Retention { stale_after: None, archive_grace: Duration::MAX, archive: false },
        };
        let port = |variable: &str| set(variable).parse().unwrap();
        Self {
            secrets,
            s3: aws_sdk_s3::Client::new(&aws),
            sqs: aws_sdk_sqs::Client::new(&aws),
            http: annals_io::tls::client().build().unwrap(),
            telegram: TelegramApi::start_at(port("ANNALS_CLOUD_TELEGRAM_PORT")).await,
            lark: LarkApi::start_at(port("ANNALS_CLOUD_LARK_PORT")).await,
            discord: DiscordApi::start_at(port("ANNALS_CLOUD_DISCORD_PORT")).await,
            model: ModelApi::start_at(port("ANNALS_CLOUD_MODEL_PORT")).await,
            history: annals_runtime::aws::history(&aws, store, Clock::system()),
            description,
        }
    }

    /// An output of the stack.
    pub(crate) fn output(&self, name: &str) -> &str {
        self.description["outputs"][name].as_str().unwrap_or_else(|| panic!("the stack has no output {name}"))
    }

    /// The functions, and the variables that each was deployed with.
    pub(crate) fn environments(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        serde_json::from_value(self.description["environments"].clone()).unwrap()
    }

    /// A request to the HTTP API.
    pub(crate) fn api(&self, method: Method, path: &str) -> RequestBuilder {
        // By path, not by host: the emulator takes some paths for its own before it looks at the host.
        let api = self.description["resources"]["Api"].as_str().unwrap();
        self.http
            .request(method, format!("{}/_aws/execute-api/{api}/$default{path}", set("AWS_ENDPOINT_URL")))
    }

    /// A request to the function URL of `function`.
    pub(crate) fn function_url(&self, function: &str, method: Method, path: &str) -> RequestBuilder {
        let url = self.description["functionUrls"][function].as_str();
        let url = url.unwrap_or_else(|| panic!("{function} has no URL"));
        let id = url.trim_start_matches("https://").split('.').next().unwrap();
        self.http.request(method, format!("{}/_aws/lambda-url/{id}{path}", set("AWS_ENDPOINT_URL")))
    }

    /// Makes a call of the webhook of `channel`.
    pub(crate) async fn call(&self, channel: Channel, call: ProvedCall) -> Response {
        let request =
            self.api(Method::POST, &format!("/{channel}")).header("content-type", "application/json");
        let headers = call.headers.into_iter();
        let request = headers.fold(request, |request, (name, value)| request.header(name, value));
        request.body(call.body).send().await.unwrap()
    }

    /// Posts `event` as `channel` does.
    pub(crate) async fn post(&self, channel: Channel, event: &Value) -> u16 {
        self.call(channel, prove(&self.secrets, channel, event)).await.status().as_u16()
    }

    /// Posts `call` as Discord does, which from then on takes answers to it.
    pub(crate) async fn post_discord(&self, call: &Value) -> (u16, Value) {
        let proved = prove(&self.secrets, Channel::Discord, call);
        let response = self.call(Channel::Discord, proved).await;
        let status = response.status().as_u16();
        let body = response.json().await.unwrap_or_default();
        if status == 200 && call["token"].is_string() {
            self.discord.responded(call, &body);
        }
        (status, body)
    }

    /// The messages of `chat` in the table, oldest first: `<role>: <text>`.
    pub(crate) async fn stored(&self, chat: &str) -> Vec<String> {
        let records = self.history.range(&chat.parse().unwrap(), None).await.unwrap();
        let line = |message: &Value| {
            let texts = message["parts"].as_array().unwrap().iter().filter_map(|part| part["text"].as_str());
            format!("{}: {}", message["role"].as_str().unwrap(), texts.collect::<Vec<_>>().join(""))
        };
        records.iter().map(|record| line(&serde_json::to_value(&record.message).unwrap())).collect()
    }

    /// Counts the messages of the queue at `url`, including those in flight.
    pub(crate) async fn queued(&self, url: &str) -> usize {
        let (waiting, in_flight) = (
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        );
        let request = self.sqs.get_queue_attributes().queue_url(url);
        let counts = request.attribute_names(waiting).attribute_names(in_flight).send().await.unwrap();
        counts.attributes().unwrap().values().map(|count| count.parse::<usize>().unwrap()).sum()
    }

    /// Returns once no turn is left.
    pub(crate) async fn idle(&self) {
        wait_until("the queue is empty", PATIENCE, async || self.queued(self.output("QueueUrl")).await == 0)
            .await;
    }

    /// Runs a command of `infra/cloud/stack.py`.
    pub(crate) fn tool(arguments: &[&str]) {
        let tool = root().join("infra/cloud/stack.py");
        let status = Command::new(set("ANNALS_CLOUD_PYTHON")).arg(tool).args(arguments).status().unwrap();
        assert!(status.success(), "{arguments:?}");
    }
}

/// The call by which `channel` delivers `event` to a function with these `secrets`.
pub(crate) fn prove(secrets: &BTreeMap<String, String>, channel: Channel, event: &Value) -> ProvedCall {
    let entry = channels::local().into_iter().find(|entry| entry.about.channel == channel).unwrap();
    let secret = |name: &str| secrets.get(name).cloned();
    let channel = (entry.from_env)(Env::new(&secret)).unwrap();
    channel.prove(None, event.to_string().as_bytes()).unwrap()
}

/// The workspace's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Reads a variable that `infra/cloud/run` sets.
#[allow(clippy::disallowed_methods, reason = "where the stack is comes from the script that deploys it")]
pub(crate) fn set(variable: &str) -> String {
    std::env::var(variable)
        .unwrap_or_else(|_| panic!("{variable} is not set: run these tests by `just cloud`"))
}

/// The webhooks of a platform in `tests/fixtures/`, by name.
pub(crate) fn recorded(platform: &str) -> BTreeMap<String, Value> {
    all_payloads(platform).into_iter().collect()
}

/// [`wait_until`], for what takes no longer than a cold start or two.
pub(crate) async fn soon(what: &str, condition: impl AsyncFn() -> bool) {
    wait_until(what, PATIENCE, condition).await;
}

/// Looks at `condition` again and again until it holds.
#[allow(
    clippy::disallowed_methods,
    reason = "the functions are processes of their own, on the system's clock"
)]
pub(crate) async fn wait_until(what: &str, patience: Duration, condition: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + patience;
    while !condition().await {
        assert!(Instant::now() < deadline, "timed out after {patience:?} waiting until {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
