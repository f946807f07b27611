//! A relay between the emulated gateway and a history on the embedded DynamoDB engine: [`World`].

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use annals_core::chat_key::{ChatKey, Place};
use annals_core::draft::{Draft, Origin};
use annals_core::message::Part;
use annals_core::record::Channel;
use annals_core::sort_key::{MessageId, Timestamp};
use annals_io::clock::Clock;
use annals_local::stores::{Stores, TABLE};
use annals_relay::{Host, HostError, Relay, RelayConfig, RelayError};
use annals_store::history::{History, MAX_PAGE, Position, Retention};
use annals_store::relay::{RelayPlace, RelayStatus, RelayStore};
use annals_test_support::discord_gateway::{BOT_ID, DiscordGateway, Post, TOKEN};
use aws_sdk_dynamodb::config::interceptors::BeforeTransmitInterceptorContextRef;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

pub(crate) const GUILD: u64 = 5;
pub(crate) const CHANNEL: u64 = 50;
pub(crate) const DIRECT: u64 = 60;

/// Time at which the tests begin: the 23rd of November 2026.
pub(crate) const START: i64 = 1_795_435_200_000;

/// The gateway, the stores and a clock that runs 20 times as fast as the system's.
pub(crate) struct World {
    pub(crate) gateway: Arc<DiscordGateway>,
    pub(crate) clock: Clock,
    pub(crate) store: RelayStore,
    pub(crate) sink: Sink,
    pub(crate) outage: Outage,
    history: History,
    ticking: JoinHandle<()>,
    _dir: TempDir,
}

/// Stores messages, unless a test keeps it from that. Clones share everything.
#[derive(Clone)]
pub(crate) struct Sink {
    /// API from which missed messages are read.
    gateway: Arc<DiscordGateway>,
    history: History,
    state: Arc<SinkState>,
}

#[derive(Default)]
struct SinkState {
    /// Number of the next calls that fail.
    failures: AtomicUsize,
    is_blocked: AtomicBool,
    /// True if calls are blocked, and fail, only after they stored the message.
    is_storing_first: AtomicBool,
    unblocked: Notify,
    /// Type and id of each dispatch, before it is stored.
    received: Mutex<Vec<(String, String)>>,
    /// Ids of the channels that were read.
    reads: Mutex<Vec<String>>,
}

/// An outage of DynamoDB, as its client's interceptor. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outage(Arc<AtomicBool>);

impl Outage {
    /// Begins or ends it.
    pub(crate) fn set(&self, is_down: bool) {
        self.0.store(is_down, Ordering::SeqCst);
    }
}

impl Intercept for Outage {
    fn name(&self) -> &'static str {
        "Outage"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if self.0.load(Ordering::SeqCst) { Err("outage".into()) } else { Ok(()) }
    }
}

/// A running relay.
pub(crate) struct Running {
    shutdown: Arc<Notify>,
    pub(crate) task: JoinHandle<Result<bool, RelayError>>,
}

fn chat(channel: &str) -> ChatKey {
    let [agent_id, guild_id] = ["annals", "5"].map(str::to_owned);
    ChatKey::new(Place::DiscordChannel { agent_id, guild_id, channel_id: channel.into() }).unwrap()
}

/// Returns the message of a dispatch as a channel would store it.
fn draft(message: &Value) -> Option<Draft> {
    let [id, channel, content] = ["id", "channel_id", "content"].map(|name| message[name].as_str());
    let (id, channel) = (id?.parse::<u64>().ok()?, channel?.to_owned());
    let user_id = message["author"]["id"].as_str()?.to_owned();
    let ts = Timestamp::from_millis(i64::try_from(id >> 22).unwrap() + 1_420_070_400_000)?;
    let origin = Origin { chat: chat(&channel), channel: Channel::Discord, chat_id: channel, user_id };
    Some(Draft::new(origin, MessageId::number(id), ts).with_parts(vec![Part::text(content?)]).asking(true))
}

impl Sink {
    /// Fails the next `count` calls.
    pub(crate) fn fail(&self, count: usize) {
        self.state.failures.store(count, Ordering::SeqCst);
    }

    /// Keeps calls waiting before they store anything.
    pub(crate) fn block(&self) {
        self.state.is_blocked.store(true, Ordering::SeqCst);
    }

    /// Keeps calls waiting after they stored their message.
    pub(crate) fn block_after_storing(&self) {
        self.state.is_storing_first.store(true, Ordering::SeqCst);
        self.block();
    }

    pub(crate) fn unblock(&self) {
        self.state.is_blocked.store(false, Ordering::SeqCst);
        self.state.unblocked.notify_waiters();
    }

    /// Returns the type and the id of every dispatch that arrived, stored or not.
    pub(crate) fn received(&self) -> Vec<(String, String)> {
        self.state.received.lock().unwrap().clone()
    }

    /// Returns the channels that were read.
    pub(crate) fn reads(&self) -> Vec<String> {
        self.state.reads.lock().unwrap().clone()
    }

    async fn pass(&self) -> Result<(), HostError> {
        loop {
            let unblocked = self.state.unblocked.notified();
            if !self.state.is_blocked.load(Ordering::SeqCst) {
                break;
            }
            unblocked.await;
        }
        let count = |left: usize| left.checked_sub(1);
        match self.state.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count) {
            Ok(_) => Err(HostError::Failed("the store is down".into())),
            Err(_) => Ok(()),
        }
    }
}

impl Host for Sink {
    async fn receive(&self, dispatch: Value) -> Result<(), HostError> {
        let [kind, id] =
            [&dispatch["t"], &dispatch["d"]["id"]].map(|value| value.as_str().unwrap().to_owned());
        self.state.received.lock().unwrap().push((kind.clone(), id));
        if !self.state.is_storing_first.load(Ordering::SeqCst) {
            self.pass().await?;
        }
        if kind == "MESSAGE_DELETE" {
            return Ok(());
        }
        let draft = draft(&dispatch["d"]).ok_or_else(|| HostError::Refused("not a message".into()))?;
        self.history.append(&draft).await.map_err(|error| HostError::Failed(error.into()))?;
        if self.state.is_storing_first.load(Ordering::SeqCst) {
            self.pass().await?;
        }
        Ok(())
    }

    async fn messages_after(&self, channel_id: &str, after: u64) -> Result<Vec<Value>, HostError> {
        self.state.reads.lock().unwrap().push(channel_id.to_owned());
        self.pass().await?;
        let page = self.gateway.messages_after(channel_id.parse().unwrap(), after, 100);
        page.ok_or_else(|| HostError::Refused("50001: Missing Access".into()))
    }

    async fn direct_channels(&self) -> Result<Vec<String>, HostError> {
        Ok(vec![DIRECT.to_string()])
    }
}

impl World {
    /// A guild with one channel, and a channel of direct messages.
    pub(crate) async fn new() -> Self {
        let world = Self::without_guild().await;
        world.gateway.add_guild(GUILD);
        world.gateway.add_channel(CHANNEL, Some(GUILD), 0);
        world
    }

    /// A channel of direct messages.
    pub(crate) async fn without_guild() -> Self {
        let gateway = Arc::new(DiscordGateway::start(START).await);
        gateway.add_channel(DIRECT, None, 1);
        let clock = Clock::manual(Timestamp::from_millis(START).unwrap());
        let dir = tempfile::tempdir().unwrap();
        let outage = Outage::default();
        let stores = Stores::open(dir.path()).await.unwrap();
        let config = stores.dynamodb.config().to_builder().interceptor(outage.clone()).build();
        let dynamodb = aws_sdk_dynamodb::Client::from_conf(config);
        let retention =
            Retention { stale_after: None, archive_grace: Duration::from_hours(168), archive: true };
        let history = History::new(dynamodb, TABLE.into(), stores.bucket, clock.clone(), retention);
        let store = RelayStore::beside(&history, BOT_ID);
        let sink = Sink { gateway: Arc::clone(&gateway), history: history.clone(), state: Arc::default() };
        let ticking = tokio::spawn(tick(clock.clone()));
        Self { gateway, clock, store, sink, outage, history, ticking, _dir: dir }
    }

    /// A relay that stores with this world's sink.
    pub(crate) fn relay(&self, change: impl FnOnce(&mut RelayConfig)) -> Relay<Sink> {
        let mut config = RelayConfig {
            application_id: BOT_ID.into(),
            bot_id: BOT_ID.into(),
            token: TOKEN.into(),
            api_base: self.gateway.api_base().into(),
            user_agent: "DiscordBot (test, 1)",
            needs_message_content: false,
        };
        change(&mut config);
        Relay::new(config, self.store.clone(), self.sink.clone(), self.clock.clone())
    }

    /// Starts a relay.
    pub(crate) fn start(&self) -> Running {
        Running::of(self.relay(|_| {}))
    }

    /// Starts a relay, and waits until it has a session.
    pub(crate) async fn started(&self) -> Running {
        let running = self.start();
        until("a session is saved", async || self.place().await.session.is_some()).await;
        running
    }

    /// Sends a message that mentions the bot. Returns its id.
    pub(crate) fn say(&self, channel: u64, text: &str) -> u64 {
        self.gateway.set_time(self.clock.now().as_millis());
        self.gateway.post(Post { channel, author: 7, text, mentions_bot: true, ..Post::default() })
    }

    /// Waits until exactly `texts` are stored of the channel.
    pub(crate) async fn until_stored(&self, channel: u64, texts: &[&str]) {
        until(&format!("{texts:?} are stored"), async || self.stored(channel).await.len() >= texts.len())
            .await;
        assert_eq!(self.stored(channel).await, texts);
    }

    /// Returns the texts that are stored of a channel, in order, with every further form.
    pub(crate) async fn stored(&self, channel: u64) -> Vec<String> {
        let chat = chat(&channel.to_string());
        let page = self.history.page(&chat, &Position::Oldest, MAX_PAGE).await.unwrap();
        page.records.iter().map(|record| record.message.plain_text()).collect()
    }

    pub(crate) async fn place(&self) -> RelayPlace {
        self.store.place().await.unwrap()
    }

    pub(crate) async fn status(&self) -> RelayStatus {
        self.store.status().await.unwrap()
    }

    /// Checks that no client did anything against the protocol, and that none ended its session.
    pub(crate) fn assert_well_behaved(&self) {
        assert_eq!(self.gateway.faults(), [""; 0]);
        let closes = self.gateway.client_closes();
        assert!(!closes.iter().any(|code| matches!(code, 1000 | 1001)), "{closes:?}");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.ticking.abort();
    }
}

impl Running {
    pub(crate) fn of(relay: Relay<Sink>) -> Self {
        let shutdown = Arc::new(Notify::new());
        let stopped = Arc::clone(&shutdown);
        Self { shutdown, task: tokio::spawn(async move { relay.run(stopped.notified()).await }) }
    }

    /// Ends the relay as its home does. Returns true if it had relayed, or not had the lease.
    pub(crate) async fn shut_down(self) -> bool {
        self.shutdown.notify_one();
        self.task.await.unwrap().unwrap()
    }

    /// Ends the relay as a crash does.
    pub(crate) async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

/// Waits in real time until `holds`.
pub(crate) async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let waiting = async {
        while !holds().await {
            pause(10).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), waiting).await.is_ok(), "{what}");
}

/// Lets real time pass, for what must not happen.
#[allow(clippy::disallowed_methods, reason = "the emulated gateway lives in real time")]
pub(crate) async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Lets a manual clock run 20 times as fast as the system's.
async fn tick(clock: Clock) {
    loop {
        pause(5).await;
        clock.advance(Duration::from_millis(100));
    }
}
