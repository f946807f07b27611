//! Support for tests without the program: the stores with a clock ([`World`]), messages, an agent, a queue.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use annals_agent::Agent;
use annals_core::chat_key::ChatKey;
use annals_core::message::{Part, Role, UiMessage};
use annals_core::record::{Channel, Draft, Origin, Record};
use annals_core::settings::Env;
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use annals_engine::delivery::Deliverer;
use annals_engine::live::Live;
use annals_engine::settings::AgentConfig;
use annals_engine::upkeep::Upkeep;
use annals_io::clock::Clock;
use annals_local::stores::{BUCKET, Stores, TABLE};
use annals_model::{Model, ModelSettings};
use annals_store::history::turn::{Claim, Lease};
use annals_store::history::{Archived, History, Reply, Retention, SegmentInfo, ToArchive};
use annals_store::queue::{QueueError, Turn, TurnQueue};
use annals_test_support::model_api::{API_KEY, ModelApi};
use aws_sdk_s3::config::retry::RetryConfig;
use futures::future::BoxFuture;

use crate::faults::Faults;

/// The first message's time, in epoch milliseconds.
pub(crate) const START: i64 = 1_795_305_512_000;
pub(crate) const LEASE: Duration = Duration::from_mins(5);

/// The stores of one test, and a clock.
pub(crate) struct World {
    pub(crate) stores: Stores,
    pub(crate) clock: Clock,
    dir: tempfile::TempDir,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::on(tempfile::tempdir().unwrap(), Timestamp::from_millis(START).unwrap()).await
    }

    /// Copies the data directory `template`, which no program may be using.
    pub(crate) async fn copy_of(template: &Path, now: Timestamp) -> Self {
        let dir = tempfile::tempdir().unwrap();
        copy(template, dir.path());
        Self::on(dir, now).await
    }

    async fn on(dir: tempfile::TempDir, now: Timestamp) -> Self {
        let stores = Stores::open(dir.path()).await.unwrap();
        Self { stores, clock: Clock::manual(now), dir }
    }

    /// Opens the stores again, as a process that starts does.
    pub(crate) async fn reopened(self) -> Self {
        Self::on(self.dir, self.clock.now()).await
    }

    /// The data directory's path.
    pub(crate) fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// The data directory.
    pub(crate) fn into_dir(self) -> tempfile::TempDir {
        self.dir
    }

    pub(crate) fn history(&self) -> History {
        self.history_with(Faults::default(), true)
    }

    /// A history whose requests meet `faults`; its records expire unless `archive` is off.
    pub(crate) fn history_with(&self, faults: Faults, archive: bool) -> History {
        self.process(faults, Retention { archive, ..default_retention() }, &self.clock)
    }

    /// The history of a process of its own.
    pub(crate) fn process(&self, faults: Faults, retention: Retention, clock: &Clock) -> History {
        let dynamodb = self.stores.dynamodb.config().to_builder();
        let s3 = self.stores.s3.config().to_builder();
        let dynamodb = dynamodb.retry_config(RetryConfig::disabled()).interceptor(faults.clone()).build();
        let s3 = s3.retry_config(RetryConfig::disabled()).interceptor(faults).build();
        History::new(
            aws_sdk_dynamodb::Client::from_conf(dynamodb),
            TABLE.into(),
            aws_sdk_s3::Client::from_conf(s3),
            BUCKET.into(),
            clock.clone(),
            retention,
        )
    }

    /// A history, and the count of its requests.
    pub(crate) fn counted(&self) -> (History, Faults) {
        let faults = Faults::default();
        (self.history_with(faults.clone(), true), faults)
    }

    pub(crate) async fn expire(&self, record: &Record) {
        expire(&self.stores, record).await;
    }

    /// The keys of the bucket's objects.
    pub(crate) async fn objects(&self, prefix: &str) -> Vec<String> {
        let listed = self.stores.s3.list_objects_v2().bucket(BUCKET).prefix(prefix).send().await.unwrap();
        listed.contents().iter().map(|object| object.key().unwrap().to_owned()).collect()
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Deletes the record as the table's TTL does.
pub(crate) async fn expire(stores: &Stores, record: &Record) {
    let text = |value: String| aws_sdk_dynamodb::types::AttributeValue::S(value);
    let delete = stores.dynamodb.delete_item().table_name(TABLE);
    let delete = delete.key("pk", text(record.chat.to_string())).key("sk", text(record.key.to_string()));
    delete.send().await.unwrap();
}

pub(crate) fn chat(number: usize) -> ChatKey {
    ChatKey::telegram(i64::try_from(number).unwrap() + 1, None)
}

pub(crate) fn message(chat: &ChatKey, id: u64, ts: i64, text: &str) -> Draft {
    let origin =
        Origin { chat: chat.clone(), channel: Channel::Telegram, chat_id: "1".into(), user_id: "42".into() };
    let ts = Timestamp::from_millis(START + ts).unwrap();
    Draft::new(origin, MessageId::number(id), ts).with_parts(vec![Part::text(text)])
}

/// The retention without any setting: 48 hours to a Session's end, a week until records leave the table.
pub(crate) fn default_retention() -> Retention {
    annals_store::settings::retention(Env::new(&|_| None)).unwrap()
}

/// A reply that says `text` and answers `covers`, the newest of which has the id `number`.
pub(crate) fn reply(covers: &[SortKey], number: u64, text: &str) -> Reply {
    Reply {
        is_notice: false,
        channel: Channel::Telegram,
        chat_id: "42".into(),
        agent_id: "annals".into(),
        message: UiMessage::text("", Role::Assistant, text),
        follows: covers.last().unwrap().clone(),
        follows_id: MessageId::number(number),
        asked_at: None,
        covers: covers.to_vec(),
        revision: 0,
        covered_until: Vec::new(),
    }
}

/// The model that `api` emulates.
pub(crate) fn hosted(api: &ModelApi, clock: &Clock) -> Model {
    let settings = ModelSettings {
        base_url: Some(api.base_url()),
        api_key: Some(API_KEY.into()),
        ..ModelSettings::new("openai:test".parse().unwrap())
    };
    Model::new(&settings, clock, None).unwrap()
}

/// A queue whose turns the test runs, the oldest first.
#[derive(Clone, Default)]
pub(crate) struct Turns(pub(crate) Arc<Mutex<VecDeque<Turn>>>);

impl Turns {
    pub(crate) fn take(&self) -> Vec<Turn> {
        self.0.lock().unwrap().drain(..).collect()
    }
}

impl TurnQueue for Turns {
    fn enqueue<'a>(&'a self, turn: &'a Turn) -> BoxFuture<'a, Result<(), QueueError>> {
        self.0.lock().unwrap().push_back(turn.clone());
        Box::pin(async { Ok(()) })
    }
}

/// Returns an agent of `history` that echoes messages and delivers nowhere, with default settings.
pub(crate) fn echo_agent(history: &History) -> Agent {
    let Upkeep { history, model, view, memory, agent_id, metrics, access: _ } = echo_upkeep(history);
    let clock = history.clock().clone();
    let (deliverer, surroundings) = (Deliverer::default(), Vec::new());
    let (system_prompt, lease, quiet) = (None, LEASE, Duration::ZERO);
    Agent {
        history,
        model,
        deliverer,
        surroundings,
        servers: None,
        view,
        memory,
        system_prompt,
        agent_id,
        metrics,
        live: Live::default(),
        stream_replies: false,
        lease,
        quiet,
        clock,
    }
}

pub(crate) fn echo_upkeep(history: &History) -> Upkeep {
    let config = AgentConfig::from_env(Env::new(&|_| None), Some("echo")).unwrap();
    Upkeep::new(history.clone(), Model::Echo, &config)
}

pub(crate) async fn claim(history: &History, chat: &ChatKey) -> Lease {
    match history.claim(chat, LEASE).await.unwrap() {
        Claim::Claimed(lease) => *lease,
        Claim::Busy(until) => panic!("busy until {until}"),
    }
}

/// Fails the chat's turn `times` times, as runs do whose model or platform fails.
pub(crate) async fn fail_turn(history: &History, chat: &ChatKey, times: u32) {
    for _ in 0..times {
        let lease = claim(history, chat).await;
        history.release_failed(&lease).await.unwrap();
    }
}

pub(crate) const EVERYTHING: ToArchive =
    ToArchive { sent_before: None, up_to: None, max_segments: usize::MAX };

pub(crate) async fn archive_everything(history: &History, chat: &ChatKey) -> Archived {
    let lease = claim(history, chat).await;
    let archived = history.archive_all(&lease, &EVERYTHING).await.unwrap();
    history.release(&lease).await.unwrap();
    archived
}

/// The records of a segment.
pub(crate) async fn records_of(history: &History, info: &SegmentInfo) -> Vec<Record> {
    let segment = history.segment(&info.chat, &info.id).await.unwrap().unwrap();
    let mut records = Vec::new();
    loop {
        let more = history.segment_records(&segment, records.len()).await.unwrap();
        if more.is_empty() {
            return records;
        }
        records.extend(more);
    }
}
