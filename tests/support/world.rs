//! The stores of a test without the program, and a clock: [`World`].

use std::path::Path;
use std::time::Duration;

use annals_agent::Agent;
use annals_local::stores::{BUCKET, Stores, TABLE};
use annals_shared::chat_key::ChatKey;
use annals_shared::clock::Clock;
use annals_shared::config::{AgentConfig, Env};
use annals_shared::delivery::Deliverer;
use annals_shared::history::turn::{Claim, Lease};
use annals_shared::history::{Archived, History, Retention, SegmentInfo, ToArchive};
use annals_shared::live::Live;
use annals_shared::message::{Part, Role};
use annals_shared::model::Model;
use annals_shared::record::{Channel, Draft, Kind, Record};
use annals_shared::sort_key::{MessageId, Timestamp};
use annals_shared::upkeep::Upkeep;
use aws_sdk_s3::config::retry::RetryConfig;

use crate::support::faults::Faults;

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

    /// One whose stores hold what the data directory `template` does, at `now`. No program may be using that.
    pub(crate) async fn copy_of(template: &Path, now: Timestamp) -> Self {
        let dir = tempfile::tempdir().unwrap();
        copy(template, dir.path());
        Self::on(dir, now).await
    }

    async fn on(dir: tempfile::TempDir, now: Timestamp) -> Self {
        let stores = Stores::open(dir.path()).await.unwrap();
        Self { stores, clock: Clock::manual(now), dir }
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
        let retention = Retention {
            stale_after: Some(Duration::from_hours(48)),
            archive_grace: Duration::from_hours(168),
            archive,
        };
        let dynamodb = self.stores.dynamodb.config().to_builder();
        let s3 = self.stores.s3.config().to_builder();
        let dynamodb = dynamodb.retry_config(RetryConfig::disabled()).interceptor(faults.clone()).build();
        let s3 = s3.retry_config(RetryConfig::disabled()).interceptor(faults).build();
        History::new(
            aws_sdk_dynamodb::Client::from_conf(dynamodb),
            TABLE.into(),
            aws_sdk_s3::Client::from_conf(s3),
            BUCKET.into(),
            self.clock.clone(),
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
    Draft {
        chat: chat.clone(),
        channel: Channel::Telegram,
        chat_id: "1".into(),
        user_id: "42".into(),
        message_id: MessageId::number(id),
        ts: Timestamp::from_millis(START + ts).unwrap(),
        form_ts: None,
        role: Role::User,
        kind: Kind::Normal,
        parts: vec![Part::text(text)],
        metadata: serde_json::Map::new(),
        album: None,
        asks: false,
        opens_session: false,
        person: None,
    }
}

/// An agent of `history` that answers with what was said, and delivers nowhere. With nothing set, as the upkeep beside it.
pub(crate) fn echo_agent(history: &History) -> Agent {
    let Upkeep { history, model, view, memory, agent_id, metrics, access: _ } = echo_upkeep(history);
    let clock = history.clock().clone();
    let (deliverer, surroundings) = (Deliverer::default(), None);
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

/// Fails the chat's turn so often, as runs do whose model or platform fails.
pub(crate) async fn fail_turn(history: &History, chat: &ChatKey, times: u32) {
    for _ in 0..times {
        let lease = claim(history, chat).await;
        history.release_failed(&lease).await.unwrap().unwrap();
    }
}

pub(crate) const EVERYTHING: ToArchive =
    ToArchive { sent_before: None, up_to: None, max_segments: usize::MAX };

pub(crate) async fn archive_everything(history: &History, chat: &ChatKey) -> Archived {
    let lease = claim(history, chat).await;
    let archived = history.archive_all(&lease, &EVERYTHING).await.unwrap().unwrap();
    history.release(&lease).await.unwrap().unwrap();
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
