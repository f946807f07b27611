//! [`TestApp`]: the whole program, on a data directory, a runtime and emulators of its own.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use annals_aws::bucket::Bucket;
use annals_aws::connector::Https;
use annals_channel::channel::ProvedCall;
use annals_core::record::{Channel, Record};
use annals_core::settings::Env;
use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use annals_local::config::LocalConfig;
use annals_local::program::Program;
use annals_local::queue::LocalQueue;
use annals_local::stores::{BUCKET, Stores, TABLE, dynamodb_client};
use annals_runtime::channels;
use annals_store::history::History;
use annals_store::settings::retention;
use annals_test_support::fault_proxy::{Dice, FaultProxy, Service};
use annals_test_support::model_api::{self, ModelApi};
use annals_test_support::telegram_api::{self, Sent, TelegramApi};
use aws_sdk_dynamodb::config::retry::RetryConfig;
use axum::Router;
use axum::extract::Request;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::openapi;
use crate::updates::private;
use crate::world::{self, A_LIFE};

/// The secret that `/telegram` requires in its header.
pub(crate) const TELEGRAM_SECRET: &str = "s3cret_Webhook-1";
/// The secret of the key `app`, which reads its own chats only.
pub(crate) const APP_KEY: &str = "app-secret";
/// The secret of the key `ops`, an admin's.
pub(crate) const OPS_KEY: &str = "ops-secret";
const API_KEYS: &str = "app:app-secret,other:other-secret,ops:ops-secret:admin";

/// Start of a manual clock, in epoch seconds: a minute after [`updates::START`](crate::updates::START).
pub(crate) const NOW: i64 = crate::updates::START + 60;

/// Pause between two polls, and their number: 30 seconds, far more than anything here takes.
const POLL_PAUSE: Duration = Duration::from_millis(10);
const MAX_POLLS: usize = 3000;

/// A running program. End each test with [`TestApp::finish`].
pub(crate) struct TestApp {
    data: TempDir,
    settings: BTreeMap<String, String>,
    clock: Clock,
    telegram: Option<TelegramApi>,
    model: Option<ModelApi>,
    http: reqwest::Client,
    running: Option<Running>,
    /// The program's, past any proxy.
    stores: Option<Stores>,
    /// The proxies in front of DynamoDB and S3, and the others.
    proxies: Vec<FaultProxy>,
    refusals_are_fine: bool,
    is_finished: bool,
}

/// One start of the program, on a runtime that ends with it, so that none of its tasks survives a restart.
struct Running {
    base: String,
    runtime: Runtime,
    shutdown: oneshot::Sender<()>,
    served: JoinHandle<anyhow::Result<()>>,
}

/// Setup of a [`TestApp`]. By default its model is `echo`, and it sends to the outbox.
#[derive(Default)]
pub(crate) struct Builder {
    settings: BTreeMap<String, String>,
    /// At [`NOW`] if `None`.
    clock: Option<Clock>,
    telegram: bool,
    /// Value of `MODEL`; `echo` if `None`.
    model: Option<&'static str>,
    dice: Option<Dice>,
    /// A data directory to copy.
    data: Option<std::path::PathBuf>,
    refusals_are_fine: bool,
}

impl Builder {
    /// Starts on a copy of the data directory `data`.
    pub(crate) fn on_copy_of(mut self, data: &std::path::Path) -> Self {
        self.data = Some(data.to_owned());
        self
    }

    /// Sets the manual clock to this time, in epoch milliseconds.
    pub(crate) fn at(mut self, millis: i64) -> Self {
        self.clock = Some(Clock::manual(Timestamp::from_millis(millis).unwrap()));
        self
    }

    /// Puts proxies in front of the stores, of Telegram and of the model, which fail as `dice` decide.
    pub(crate) fn faulty(mut self, dice: &Dice) -> Self {
        self.dice = Some(dice.clone());
        self
    }

    pub(crate) fn telegram(mut self) -> Self {
        self.telegram = true;
        self
    }

    /// Adds an emulator of the model, which answers `You said: …`.
    pub(crate) fn model(self) -> Self {
        self.model_of("openai:test")
    }

    /// Adds an emulator of another provider's model, such as one of [`ModelApi::models`].
    pub(crate) fn model_of(mut self, model: &'static str) -> Self {
        self.model = Some(model);
        self
    }

    /// Sets the environment variable `name`; an empty value counts as not set.
    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }

    /// Sets each of these environment variables.
    pub(crate) fn set_all<T: AsRef<str>>(self, settings: &[(&str, T)]) -> Self {
        settings.iter().fold(self, |builder, (name, value)| builder.set(name, value.as_ref()))
    }

    /// Uses the system's clock instead of one that only the test moves.
    pub(crate) fn system_clock(mut self) -> Self {
        self.clock = Some(Clock::system());
        self
    }

    pub(crate) fn refusals_are_fine(mut self) -> Self {
        self.refusals_are_fine = true;
        self
    }

    pub(crate) async fn start(self) -> TestApp {
        let Self { mut settings, clock, telegram, model, dice, data: template, refusals_are_fine } = self;
        let clock = clock.unwrap_or_else(|| Clock::manual(Timestamp::from_secs(NOW)));
        let data = tempfile::tempdir().unwrap();
        if let Some(template) = template {
            world::copy(&template, data.path());
        }
        let mut proxies = match &dice {
            Some(dice) => in_front_of_the_stores(&Stores::open(data.path()).await.unwrap(), dice).await,
            None => Vec::new(),
        };
        let mut set = |name: &str, value: &str| {
            settings.entry(name.into()).or_insert_with(|| value.into());
        };
        set("ANNALS_DATA_DIR", data.path().to_str().unwrap());
        set("ANNALS_PORT", "0");
        set("HTTP_API_KEYS", API_KEYS);
        set("REPLY_QUIET", "0");
        set("DELIVERY_PACING", "false");
        let telegram = if telegram { Some(TelegramApi::start().await) } else { None };
        if let Some(telegram) = &telegram {
            set("TELEGRAM_BOT_TOKEN", telegram_api::TOKEN);
            set("TELEGRAM_WEBHOOK_SECRET", TELEGRAM_SECRET);
            let base = through(&mut proxies, dice.as_ref(), telegram.service(), telegram.base_url()).await;
            set("TELEGRAM_API_BASE", &base);
        }
        let (name, model) = match model {
            Some(name) => (name, Some(ModelApi::start().await)),
            None => ("", None),
        };
        if let Some(model) = &model {
            set("MODEL", name);
            set("MODEL_API_KEY", model_api::API_KEY);
            let (provider, _) = name.split_once(':').unwrap();
            let base = model.url_of(provider);
            set("MODEL_BASE_URL", &through(&mut proxies, dice.as_ref(), Service::Model, &base).await);
        }
        let mut app = TestApp {
            data,
            settings,
            clock,
            telegram,
            model,
            http: loopback_client(),
            running: None,
            stores: None,
            proxies,
            refusals_are_fine,
            is_finished: false,
        };
        app.run().await;
        app
    }
}

impl TestApp {
    pub(crate) fn builder() -> Builder {
        Builder::default()
    }

    /// Starts one with a Telegram and a model.
    pub(crate) async fn start() -> Self {
        Self::builder().telegram().model().start().await
    }

    async fn run(&mut self) {
        let settings = &self.settings;
        let config = LocalConfig::from_env(Env::new(&|name| settings.get(name).cloned())).unwrap();
        let clock = self.clock.clone();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let proxied = self.store_proxies();
        let opened = Arc::new(OnceLock::new());
        let kept = Arc::clone(&opened);
        let started = Program::start_through(config, clock, move |stores| {
            kept.set(stores.clone()).unwrap();
            match &proxied {
                Some(urls) => clients_of(stores, urls),
                None => stores,
            }
        });
        let program = runtime.spawn(started).await.unwrap().unwrap();
        self.stores = opened.get().cloned();
        let base = format!("http://{}", program.address().unwrap());
        let (shutdown, is_shut_down) = oneshot::channel();
        let served = runtime.spawn(program.serve(async { drop(is_shut_down.await) }));
        self.running = Some(Running { base, runtime, shutdown, served });
    }

    fn store_proxies(&self) -> Option<[String; 2]> {
        let [dynamodb, s3, ..] = &self.proxies[..] else { return None };
        Some([dynamodb, s3].map(|proxy| proxy.url().to_owned()))
    }

    /// Stops the program and starts it on the same data, as a deployment does.
    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        self.run().await;
    }

    /// Starts the program again with a clock that shows another time.
    pub(crate) async fn restart_at(&mut self, now: Timestamp) {
        self.clock = Clock::manual(now);
        self.restart().await;
    }

    /// Starts the program again with another value of a setting.
    pub(crate) async fn set(&mut self, name: &str, value: &str) {
        self.settings.insert(name.into(), value.into());
        self.restart().await;
    }

    /// Stops the program and cuts off running turns.
    pub(crate) async fn stop(&mut self) {
        let Some(Running { runtime, shutdown, served, .. }) = self.running.take() else { return };
        // An idle connection would hold the server open.
        self.http = loopback_client();
        let _ = shutdown.send(());
        served.await.unwrap().unwrap();
        tokio::task::spawn_blocking(move || runtime.shutdown_timeout(Duration::from_secs(10))).await.unwrap();
    }

    /// Waits until the queue is empty, and checks that neither the model nor Telegram refused a request.
    pub(crate) async fn finish(mut self) {
        self.is_finished = true;
        self.idle().await;
        self.stop().await;
        if let Some(model) = &self.model {
            assert_eq!(model.refusals(), [""; 0], "the model refused requests");
        }
        if let Some(telegram) = &self.telegram
            && !self.refusals_are_fine
        {
            let refused: Vec<_> = telegram.calls().into_iter().filter(|call| call.status != 200).collect();
            assert!(refused.is_empty(), "Telegram refused {refused:?}");
        }
    }

    pub(crate) fn telegram_api(&self) -> &TelegramApi {
        self.telegram.as_ref().unwrap()
    }

    pub(crate) fn model(&self) -> &ModelApi {
        self.model.as_ref().unwrap()
    }

    /// Moves the clock forward to this time, in epoch milliseconds; does nothing if it is later already.
    pub(crate) fn advance_to(&self, millis: i64) {
        let at = Timestamp::from_millis(millis).unwrap();
        self.clock.advance(at.since(self.clock.now()));
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn data_dir(&self) -> &std::path::Path {
        self.data.path()
    }

    pub(crate) fn base(&self) -> &str {
        &self.running.as_ref().unwrap().base
    }

    /// Returns the call by which `channel`, which is set up, delivers `body`.
    pub(crate) fn prove(&self, channel: Channel, body: &[u8]) -> ProvedCall {
        let entry = channels::local().into_iter().find(|entry| entry.about.channel == channel).unwrap();
        let settings = |name: &str| self.settings.get(name).cloned();
        (entry.from_env)(Env::new(&settings)).unwrap().prove(None, body).unwrap()
    }

    /// Posts `update` to `/telegram` with the right secret.
    pub(crate) async fn telegram(&self, update: &Value) -> StatusCode {
        let secret = if self.telegram.is_some() {
            TELEGRAM_SECRET.to_owned()
        } else {
            self.own_key(annals_channel_telegram::about::ABOUT.development_secret)
        };
        let request = self.request(Method::POST, "/telegram").json(update);
        request.header("X-Telegram-Bot-Api-Secret-Token", secret).send().await.unwrap().status()
    }

    /// Returns the token of `/lark`'s events if Lark is not set up.
    pub(crate) fn lark_token(&self) -> String {
        self.own_key(annals_channel_lark::about::ABOUT.development_secret)
    }

    /// Returns the data directory's key if a platform is set up, and `development` otherwise.
    fn own_key(&self, development: &str) -> String {
        let key = std::fs::read_to_string(self.data_dir().join("api-key"));
        key.map_or_else(|_| development.to_owned(), |key| key.trim().to_owned())
    }

    /// Posts `update` to `/telegram`, which must accept it.
    #[track_caller]
    pub(crate) fn receive(&self, update: impl Into<Value>) -> impl Future<Output = ()> {
        let (update, at) = (update.into(), std::panic::Location::caller());
        async move { assert_eq!(self.telegram(&update).await, StatusCode::OK, "{at}: {update}") }
    }

    /// Posts `update` to `/telegram` and waits until its turn is done.
    #[track_caller]
    pub(crate) fn handle(&self, update: impl Into<Value>) -> impl Future<Output = ()> {
        let received = self.receive(update);
        async move {
            received.await;
            self.idle().await;
        }
    }

    /// Calls [`TestApp::handle`] while time passes.
    #[track_caller]
    pub(crate) fn handle_as_time_passes(&self, update: impl Into<Value>) -> impl Future<Output = ()> {
        let received = self.receive(update);
        async move {
            received.await;
            self.idle_as_time_passes().await;
        }
    }

    /// Posts `update` to `/telegram` and waits until the model is asked, which answers nothing until `model().resume()`.
    pub(crate) async fn hold(&self, update: impl Into<Value>) {
        let requests = self.model().count();
        self.model().hang();
        self.receive(update).await;
        self.model().wait_for(requests + 1).await;
    }

    /// Returns the texts of the messages that Telegram took, in order.
    pub(crate) fn sent_texts(&self) -> Vec<String> {
        self.telegram_api().sent().into_iter().map(|sent| sent.text).collect()
    }

    /// Returns the last message that Telegram took.
    pub(crate) fn last_sent(&self) -> Sent {
        self.telegram_api().sent().pop().unwrap()
    }

    /// Returns the model's last request for an answer.
    pub(crate) fn last_request(&self) -> Value {
        self.model().requests().pop().unwrap()
    }

    /// Sends a message of Ada, who is user 42, to the bot and waits until its turn is done.
    pub(crate) async fn ada_says(&self, id: i64, text: &str) {
        self.handle(private(42, id, text)).await;
    }

    /// Creates a plain request to `path`.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base()))
    }

    /// Sends `GET path` with an admin key.
    pub(crate) async fn get(&self, path: &str) -> Value {
        let answer = self.call(Method::GET, path, OPS_KEY).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {answer:?}");
        answer.body
    }

    /// Returns the replies in the outbox.
    pub(crate) async fn get_outbox(&self) -> Vec<Value> {
        let request = self.request(Method::GET, "/local/outbox").bearer_auth(OPS_KEY);
        request.send().await.unwrap().json().await.unwrap()
    }

    /// Posts `body` to `path` with the API key `key`.
    pub(crate) async fn post(&self, path: &str, key: &str, body: &Value) -> Answer {
        Answer::of(self.request(Method::POST, path).bearer_auth(key).json(body)).await
    }

    /// Posts a message to the conversation `chat` of the key `app`, and waits until its turn is done.
    #[track_caller]
    pub(crate) fn say(&self, chat: &str, body: &Value) -> impl Future<Output = ()> {
        let (path, at) = (chat_path(chat, "messages"), std::panic::Location::caller());
        async move {
            let answer = self.post(&path, APP_KEY, body).await;
            assert_eq!(answer.status, StatusCode::ACCEPTED, "{at}: {answer:?}");
            self.idle().await;
        }
    }

    /// Posts a message to `chat` and waits for its reply, while time passes.
    pub(crate) async fn ask(&self, chat: &str, key: &str, body: &Value) -> Answer {
        let path = chat_path(chat, "messages?wait=20");
        self.as_time_passes(Box::pin(self.post(&path, key, body))).await
    }

    /// Sends a request without a body, with the API key `key`.
    pub(crate) async fn call(&self, method: Method, path: &str, key: &str) -> Answer {
        Answer::of(self.request(method, path).bearer_auth(key)).await
    }

    /// Forgets `chat`, while time passes; asks again for what a request had no time for, as its answer says.
    pub(crate) async fn forget(&self, chat: &str, key: &str) -> Answer {
        let path = format!("/v1/chats/{}", utf8_percent_encode(chat, NON_ALPHANUMERIC));
        for _ in 0..10 {
            let answer = self.as_time_passes(Box::pin(self.call(Method::DELETE, &path, key))).await;
            if answer.status != StatusCode::SERVICE_UNAVAILABLE {
                return answer;
            }
        }
        panic!("{chat} is not forgotten by ten requests")
    }

    /// Returns the lines of JSON that `path` exports, without the empty ones.
    pub(crate) async fn export_of(&self, path: &str, key: &str) -> Vec<Value> {
        let request = self.request(Method::GET, path).bearer_auth(key).header(ACCEPT, "application/x-ndjson");
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/x-ndjson", "{path}");
        let text = response.text().await.unwrap();
        let lines = text.lines().filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns the whole listed history of `chat_key`, oldest first.
    pub(crate) async fn history(&self, chat_key: &str) -> Vec<Value> {
        self.pages_back(chat_key, 200).await
    }

    /// Reads the history of `chat_key` in pages of `limit`, the newest first; returns it, oldest first.
    pub(crate) async fn pages_back(&self, chat_key: &str, limit: usize) -> Vec<Value> {
        let path = format!("{}?limit={limit}", chat_path(chat_key, "messages"));
        let mut page = self.get(&path).await;
        let mut messages = taken(&mut page["messages"]);
        while let Some(before) = page["before"].as_str().map(str::to_owned) {
            page = self.get(&format!("{path}&before={before}")).await;
            messages.splice(0..0, taken(&mut page["messages"]));
        }
        messages
    }

    /// Reads the history of `chat_key` in pages of `limit`, from the oldest on.
    pub(crate) async fn pages_forward(&self, chat_key: &str, limit: usize) -> Vec<Value> {
        let path = format!("{}?limit={limit}", chat_path(chat_key, "messages"));
        let mut page = self.get(&path).await;
        while let Some(before) = page["before"].as_str().map(str::to_owned) {
            page = self.get(&format!("{path}&before={before}")).await;
        }
        let mut messages = taken(&mut page["messages"]);
        while let Some(after) = page["after"].as_str().map(str::to_owned) {
            page = self.get(&format!("{path}&after={after}")).await;
            assert!(page["before"].is_string(), "{page}");
            messages.extend(taken(&mut page["messages"]));
        }
        messages
    }

    pub(crate) async fn ids(&self, chat_key: &str) -> Vec<String> {
        ids(&self.history(chat_key).await)
    }

    /// Writes the history and the context of `chat_key`, as the API returns them, for `tests/ai-sdk/run`, which checks
    /// that the AI SDK accepts them.
    pub(crate) async fn export(&self, chat_key: &str, name: &str) {
        let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("ai-sdk");
        std::fs::create_dir_all(&folder).unwrap();
        let both = serde_json::json!({
            "history": self.history(chat_key).await, "context": self.context(chat_key).await,
        });
        std::fs::write(folder.join(format!("{name}.json")), both.to_string()).unwrap();
    }

    /// Returns the [`lines`] of the history of `chat_key`.
    pub(crate) async fn lines(&self, chat_key: &str) -> Vec<String> {
        lines(&self.history(chat_key).await)
    }

    pub(crate) async fn context(&self, chat_key: &str) -> Vec<Value> {
        taken(&mut self.get(&chat_path(chat_key, "context")).await["messages"])
    }

    /// Returns the [`lines`] of the context of `chat_key`.
    pub(crate) async fn context_lines(&self, chat_key: &str) -> Vec<String> {
        lines(&self.context(chat_key).await)
    }

    /// Returns the records of `chat_key` as stored in the table, in order.
    pub(crate) async fn records(&self, chat_key: &str) -> Vec<Record> {
        self.open_history().range(&chat_key.parse().unwrap(), None).await.unwrap()
    }

    /// Returns the histories, without what the program remembers.
    pub(crate) fn open_history(&self) -> History {
        self.history_of(self.stores().clone())
    }

    /// Returns the histories through the proxies.
    pub(crate) fn open_history_through_proxies(&self) -> History {
        self.history_of(clients_of(self.stores().clone(), &self.store_proxies().unwrap()))
    }

    fn history_of(&self, Stores { dynamodb, bucket, .. }: Stores) -> History {
        let retention = retention(Env::new(&|name| self.settings.get(name).cloned())).unwrap();
        History::new(dynamodb, TABLE.into(), bucket, self.clock.clone(), retention)
    }

    /// Returns the stores of the program, which are there when it has stopped, too.
    pub(crate) fn stores(&self) -> &Stores {
        self.stores.as_ref().unwrap()
    }

    /// Counts the items of any kind in the partition of `chat_key`.
    pub(crate) async fn items(&self, chat_key: &str) -> usize {
        let items = world::scan(self.stores()).await;
        items.iter().filter(|item| item["pk"].as_s().is_ok_and(|pk| pk == chat_key)).count()
    }

    /// Deletes the record like the table's TTL.
    pub(crate) async fn expire(&self, record: &Record) {
        world::expire(self.stores(), record).await;
    }

    pub(crate) async fn archive_everything(&self, chat_key: &str) {
        world::archive_everything(&self.open_history(), &chat_key.parse().unwrap()).await;
    }

    /// Archives the chat, lets its records expire and deletes them like the table's TTL.
    pub(crate) async fn leave_the_table(&self, chat_key: &str) {
        self.archive_everything(chat_key).await;
        self.clock.advance(A_LIFE);
        for record in self.records(chat_key).await {
            self.expire(&record).await;
        }
    }

    /// Waits until no turn is left in the queue.
    pub(crate) async fn idle(&self) {
        wait_until("the queue is empty", async || self.is_idle()).await;
    }

    pub(crate) fn is_idle(&self) -> bool {
        let (queue, _) = LocalQueue::open(self.data_dir(), self.clock.clone()).unwrap();
        queue.pending().is_empty()
    }

    /// Calls [`TestApp::idle`] while time passes.
    pub(crate) async fn idle_as_time_passes(&self) {
        self.as_time_passes(Box::pin(self.idle())).await;
    }

    /// Calls [`TestApp::idle`] during a lasting fault: a manual clock runs a thousand times as fast as real time.
    pub(crate) async fn idle_as_hours_pass(&self) {
        passing(&self.clock, 1000 * POLL_PAUSE, Box::pin(self.idle())).await;
    }

    /// Waits for `what` while a manual clock runs ten times as fast as real time.
    pub(crate) async fn as_time_passes<T>(&self, what: impl Future<Output = T>) -> T {
        passing(&self.clock, 10 * POLL_PAUSE, what).await
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.runtime.shutdown_background();
        }
        assert!(self.is_finished || std::thread::panicking(), "end the test with `app.finish().await`");
    }
}

/// Serves the stores on sockets, and starts a proxy in front of each.
async fn in_front_of_the_stores(stores: &Stores, dice: &Dice) -> Vec<FaultProxy> {
    let (engine, bucket) = (stores.engine.clone(), stores.folder.service(None).unwrap());
    let dynamodb = Router::new().fallback(async move |request: Request| engine.answer(request).await);
    let s3 = Router::new().fallback(async move |request: Request| bucket.answer(request).await);
    let mut proxies = Vec::new();
    for (service, router) in [(Service::DynamoDb, dynamodb), (Service::S3, s3)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        proxies.push(FaultProxy::start(service, &url, dice).await);
    }
    proxies
}

/// Returns the URL of a proxy in front of `url`, or `url` itself without dice.
async fn through(proxies: &mut Vec<FaultProxy>, dice: Option<&Dice>, service: Service, url: &str) -> String {
    let Some(dice) = dice else { return url.to_owned() };
    proxies.push(FaultProxy::start(service, url, dice).await);
    proxies[proxies.len() - 1].url().to_owned()
}

/// Returns the stores with clients as a deployed function has them, which retry sooner, at these URLs of DynamoDB and S3.
fn clients_of(mut stores: Stores, [dynamodb, s3]: &[String; 2]) -> Stores {
    let retries = RetryConfig::standard().with_initial_backoff(Duration::from_millis(10));
    let aws = stores.aws.to_builder().http_client(Https::new()).retry_config(retries).build();
    let at = |url: &str| aws.to_builder().endpoint_url(url).build();
    stores.dynamodb = dynamodb_client(&at(dynamodb));
    stores.bucket = Bucket::new(&at(s3), BUCKET);
    stores
}

/// Creates a client of programs and emulators on this machine.
pub(crate) fn loopback_client() -> reqwest::Client {
    annals_io::tls::loopback_client().build().unwrap()
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) content_type: String,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) async fn of(request: RequestBuilder) -> Self {
        let (client, request) = request.build_split();
        let request = request.unwrap();
        let (method, path) = (request.method().to_string(), request.url().path().to_owned());
        let response = client.execute(request).await.unwrap();
        let header = response.headers().get(CONTENT_TYPE).map(|value| value.to_str().unwrap().to_owned());
        let status = response.status();
        let content_type = header.unwrap_or_default();
        let body = response.json().await.unwrap_or_default();
        openapi::check(&method, &path, status.as_u16(), &content_type, &body);
        Self { status, content_type, body }
    }

    /// Checks that it is a problem of this kind.
    #[track_caller]
    pub(crate) fn assert_problem(&self, status: u16, kind: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.content_type, "application/problem+json", "{self:?}");
        assert_eq!(self.body["type"], format!("urn:annals:problem:{kind}"), "{self:?}");
    }

    /// Returns the text of the reply in it.
    pub(crate) fn reply_text(&self) -> String {
        text_of(&self.body["reply"])
    }

    /// Returns the body without the request's id, which differs in each answer.
    pub(crate) fn unnamed(&self) -> Value {
        let mut body = self.body.clone();
        if let Some(problem) = body.as_object_mut() {
            assert!(problem.remove("requestId").is_some(), "{problem:?}");
        }
        body
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the one place where tests wait: the program's own work is real"
)]
pub(crate) async fn wait_until(what: &str, condition: impl AsyncFn() -> bool) {
    for _ in 0..MAX_POLLS {
        if condition().await {
            return;
        }
        tokio::time::sleep(POLL_PAUSE).await;
    }
    panic!("timed out waiting until {what}");
}

/// Waits for `what` while `clock` moves forward by `step` at each poll.
pub(crate) async fn passing<T>(clock: &Clock, step: Duration, what: impl Future<Output = T>) -> T {
    let time = wait_until("time ends", async || {
        clock.advance(step);
        false
    });
    tokio::select! {
        result = what => result,
        () = time => unreachable!("time has no end"),
    }
}

/// Gives the program time to act, so that a premature action is noticed.
pub(crate) async fn a_while() {
    let polls = Cell::new(0);
    wait_until("a while is over", async || {
        polls.set(polls.get() + 1);
        polls.get() > 20
    })
    .await;
}

pub(crate) fn ids(messages: &[Value]) -> Vec<String> {
    messages.iter().map(|message| message["id"].as_str().unwrap().to_owned()).collect()
}

/// Returns `/v1/chats/<chat, percent-encoded>/<what>`.
pub(crate) fn chat_path(chat: &str, what: &str) -> String {
    format!("/v1/chats/{}/{what}", utf8_percent_encode(chat, NON_ALPHANUMERIC))
}

/// Formats each message as one line: `<id> <role> <kind>: <text>`, without the kind if it is `normal`.
pub(crate) fn lines(messages: &[Value]) -> Vec<String> {
    let line = |message: &Value| {
        let [id, role] = ["id", "role"].map(|name| message[name].as_str().unwrap());
        let kind = message["metadata"]["kind"].as_str().unwrap_or("without a kind");
        let kind = if kind == "normal" { String::new() } else { format!(" {kind}") };
        format!("{id} {role}{kind}: {}", text_of(message))
    };
    messages.iter().map(line).collect()
}

/// Returns the text parts of a message, joined by newlines.
pub(crate) fn text_of(message: &Value) -> String {
    let parts = message["parts"].as_array().unwrap();
    let texts = parts.iter().filter(|part| part["type"] == "text").map(|part| part["text"].as_str().unwrap());
    texts.collect::<Vec<_>>().join("\n")
}

fn taken(array: &mut Value) -> Vec<Value> {
    match array.take() {
        Value::Array(values) => values,
        other => panic!("no list: {other}"),
    }
}
