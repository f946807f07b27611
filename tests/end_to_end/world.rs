//! [`World`]: stores, a clock, a chat and the processes that work on them, without the program.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use annals_agent::{Agent, TurnError};
use annals_aws::bucket::Bucket;
use annals_compactor::{Compactor, Report};
use annals_core::chat_key::ChatKey;
use annals_core::command::Command;
use annals_core::context::{Context, Policy, context};
use annals_core::draft::{Draft, Origin};
use annals_core::message::{Part, Role, UiMessage};
use annals_core::record::{Channel, Kind, Record};
use annals_core::settings::Env;
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use annals_core::testing::set;
use annals_engine::compaction::Compaction;
use annals_engine::ingress::{Ingress, IngressConfig};
use annals_engine::settings::AgentConfig;
use annals_engine::upkeep::Upkeep;
use annals_engine::usage::UsageConfig;
use annals_io::clock::Clock;
use annals_local::stores::{BUCKET, Stores, TABLE, dynamodb_client};
use annals_local::upkeep::sweep;
use annals_model::Model;
use annals_store::history::turn::{Claim, Head, Lease};
use annals_store::history::{
    Appended, Archived, History, MAX_PAGE, Position, Reply, Retention, SegmentInfo, ToArchive,
};
use annals_store::memory::Memory;
use annals_store::queue::{QueueError, Turn, TurnQueue};
use annals_store::settings::retention;
use annals_test_support::model_api::{API_KEY, ModelApi};
use aws_sdk_dynamodb::types::AttributeValue;
use futures::future::BoxFuture;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::app::{lines, wait_until};
use crate::faults::{Faults, Plan};
use crate::meter::Meter;

/// The first message's time, in epoch milliseconds.
pub(crate) const START: i64 = 1_795_305_512_000;
pub(crate) const LEASE: Duration = Duration::from_mins(5);
/// Longer than a record lives: 48 hours and 168.
pub(crate) const A_LIFE: Duration = Duration::from_hours(217);
/// A window of 300 tokens for messages; the last four messages stay.
pub(crate) const SMALL: &[(&str, &str)] = &[("CONTEXT_WINDOW", "375"), ("KEEP_RECENT", "4")];
pub(crate) const EVERYTHING: ToArchive =
    ToArchive { sent_before: None, up_to: None, max_segments: usize::MAX };

type Settings = BTreeMap<String, String>;

/// The stores of one test, a clock that only the test moves, and a private chat with Ada, who is user 42.
pub(crate) struct World {
    pub(crate) stores: Stores,
    pub(crate) clock: Clock,
    /// The capacity that all its processes have consumed.
    pub(crate) meter: Meter,
    pub(crate) chat: ChatKey,
    /// The history of a process that lives as long as the test and meets no fault.
    pub(crate) history: History,
    pub(crate) memory: Memory,
    /// The queue of [`World::ingress`], whose turns the test runs.
    pub(crate) queue: Turns,
    model: Option<ModelApi>,
    settings: Settings,
    dir: tempfile::TempDir,
}

impl World {
    /// Creates a world without settings, whose model is `echo`.
    pub(crate) async fn new() -> Self {
        Self::with(&[]).await
    }

    pub(crate) async fn with(settings: &[(&str, &str)]) -> Self {
        let start = Timestamp::from_millis(START).unwrap();
        Self::on(tempfile::tempdir().unwrap(), start, owned(settings)).await
    }

    /// Creates a world with an emulator of the model.
    pub(crate) async fn hosted(settings: &[(&str, &str)]) -> Self {
        let model = ModelApi::start().await;
        let base_url = model.base_url();
        let own = [("MODEL", "openai:test"), ("MODEL_BASE_URL", &base_url), ("MODEL_API_KEY", API_KEY)];
        Self { model: Some(model), ..Self::with(&[settings, &own].concat()).await }
    }

    /// Copies the data directory `template`, which no program may be using.
    pub(crate) async fn copy_of(template: &Path, now: Timestamp, settings: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        copy(template, dir.path());
        Self::on(dir, now, owned(settings)).await
    }

    async fn on(dir: tempfile::TempDir, now: Timestamp, settings: Settings) -> Self {
        let (stores, clock) = (Stores::open(dir.path()).await.unwrap(), Clock::manual(now));
        let meter = Meter::default();
        let history = process(&stores, Faults::default(), &meter, retention_of(&settings), &clock);
        let (memory, queue) = (Memory::beside(&history), Turns::default());
        let chat = ChatKey::telegram(42, None);
        Self { stores, clock, meter, chat, history, memory, queue, model: None, settings, dir }
    }

    /// Opens the stores again, as a process that starts does.
    pub(crate) async fn reopened(self) -> Self {
        Self::on(self.dir, self.clock.now(), self.settings).await
    }

    /// Returns the data directory's path.
    pub(crate) fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the data directory.
    pub(crate) fn into_dir(self) -> tempfile::TempDir {
        self.dir
    }

    /// Returns the emulator of the model.
    pub(crate) fn model(&self) -> &ModelApi {
        self.model.as_ref().unwrap()
    }

    pub(crate) fn config(&self) -> AgentConfig {
        AgentConfig::from_env(Env::new(&|name| self.settings.get(name).cloned()), Some("echo")).unwrap()
    }

    pub(crate) fn retention(&self) -> Retention {
        retention_of(&self.settings)
    }

    /// Returns the history of another process.
    pub(crate) fn another_process(&self) -> History {
        self.history_with(Faults::default())
    }

    /// Returns the history of another process, whose requests meet `faults`.
    pub(crate) fn history_with(&self, faults: Faults) -> History {
        process(&self.stores, faults, &self.meter, self.retention(), &self.clock)
    }

    /// Returns the history of another process, which has a clock of its own.
    pub(crate) fn history_at(&self, clock: &Clock) -> History {
        process(&self.stores, Faults::default(), &self.meter, self.retention(), clock)
    }

    /// Returns the history of another process, whose records never expire.
    pub(crate) fn keeping_history(&self) -> History {
        self.history_for(Retention { archive: false, ..self.retention() })
    }

    /// Returns the history of another process, whose records expire as `retention` says.
    pub(crate) fn history_for(&self, retention: Retention) -> History {
        process(&self.stores, Faults::default(), &self.meter, retention, &self.clock)
    }

    /// Returns the history of another process, and the count of its requests.
    pub(crate) fn counted(&self) -> (History, Faults) {
        let faults = Faults::default();
        (self.history_with(faults.clone()), faults)
    }

    /// Returns the agent of another process.
    pub(crate) fn agent(&self) -> Agent {
        self.agent_of(&self.another_process())
    }

    /// Returns the agent of a process whose requests to the stores meet `faults`.
    pub(crate) fn agent_with(&self, faults: Faults) -> Agent {
        self.agent_of(&self.history_with(faults))
    }

    /// Returns an agent that delivers nowhere.
    pub(crate) fn agent_of(&self, history: &History) -> Agent {
        let Upkeep { history, model, metrics, .. } = self.upkeep_of(history);
        let usage = UsageConfig::from_env(Env::new(&|name| self.settings.get(name).cloned())).unwrap();
        let outgoing = Some(self.ingress_of(&history));
        Agent { metrics, usage: Arc::new(usage), outgoing, ..Agent::new(history, model, &self.config()) }
    }

    pub(crate) fn upkeep(&self) -> Upkeep {
        self.upkeep_of(&self.history)
    }

    pub(crate) fn upkeep_of(&self, history: &History) -> Upkeep {
        let config = self.config();
        let model = Model::new(&config.model, history.clock(), None).unwrap();
        Upkeep::new(history.clone(), model, &config)
    }

    pub(crate) fn compaction_of(&self, history: &History) -> Compaction {
        let Upkeep { history, model, view, metrics, .. } = self.upkeep_of(history);
        let agent_id = "annals".into();
        Compaction { history, model, view, agent_id, profile_id: None, metrics }
    }

    pub(crate) fn compactor(&self) -> Compactor {
        Compactor::new(self.history.clone(), self.upkeep())
    }

    pub(crate) fn in_an_hour(&self) -> Timestamp {
        self.clock.now().plus(Duration::from_hours(1))
    }

    /// Runs the compactor for at most an hour.
    pub(crate) async fn run_compactor(&self) -> Report {
        Box::pin(self.compactor().run(self.in_an_hour())).await
    }

    pub(crate) fn ingress(&self) -> Ingress {
        self.ingress_of(&self.history)
    }

    pub(crate) fn ingress_of(&self, history: &History) -> Ingress {
        self.ingress_with(history, IngressConfig::default())
    }

    pub(crate) fn ingress_with(&self, history: &History, config: IngressConfig) -> Ingress {
        Ingress::new(history.clone(), Arc::new(self.queue.clone()), config)
    }

    pub(crate) fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// Moves the clock forward to so many seconds after the start; does nothing if it is later already.
    pub(crate) fn advance_to(&self, seconds: i64) {
        let at = Timestamp::from_millis(START + seconds * 1000).unwrap();
        self.clock.advance(at.since(self.clock.now()));
    }

    /// Returns the time since the start, in milliseconds.
    pub(crate) fn elapsed_millis(&self) -> i64 {
        self.clock.now().as_millis() - START
    }

    /// Creates a message of the chat, dated `ms` after the start.
    pub(crate) fn message(&self, id: u64, ms: i64, text: &str) -> Draft {
        message(&self.chat, id, ms, text)
    }

    pub(crate) async fn append(&self, draft: &Draft) -> Appended {
        self.history.append(draft).await.unwrap()
    }

    /// Appends a message that asks nothing.
    pub(crate) async fn say(&self, id: u64, ms: i64, text: &str) {
        self.append(&self.message(id, ms, text)).await;
    }

    /// Appends a message that asks for an answer.
    pub(crate) async fn ask(&self, id: u64, ms: i64, text: &str) -> SortKey {
        self.append(&Draft { asks: true, ..self.message(id, ms, text) }).await.base
    }

    /// Creates a message of Ada as Telegram's, so many seconds after the start, and moves the clock there. Its id is
    /// `seconds + 1`.
    pub(crate) fn draft(&self, seconds: i64, text: &str, asks: bool) -> Draft {
        self.advance_to(seconds);
        let id = u64::try_from(seconds).unwrap() + 1;
        let mut draft = Draft { chat_id: "42".into(), asks, ..self.message(id, seconds * 1000, text) };
        set(&mut draft.metadata, "chatType", "private");
        draft
    }

    /// Receives the [`World::draft`], whose turn is queued if it asks.
    pub(crate) async fn hear(&self, seconds: i64, text: &str, asks: bool) -> SortKey {
        self.ingress().receive(&self.draft(seconds, text, asks)).await.unwrap().base
    }

    /// Receives `/compact`.
    pub(crate) async fn hear_compact(&self, seconds: i64) -> SortKey {
        let draft = self.draft(seconds, "/compact", true);
        self.ingress().command(&Command::Compact, &draft).await.unwrap().appended.base
    }

    /// Starts a run of `agent` beside the test.
    pub(crate) fn start(&self, agent: Agent, from: &SortKey) -> JoinHandle<Result<(), TurnError>> {
        let (chat, from) = (self.chat.clone(), from.clone());
        tokio::spawn(async move { agent.run(&chat, &[from]).await.map_err(|undone| undone.error) })
    }

    /// Starts a run of another process beside the test.
    pub(crate) fn start_run(&self, from: &SortKey) -> JoinHandle<Result<(), TurnError>> {
        self.start(self.agent(), from)
    }

    /// Runs a turn in another process.
    pub(crate) async fn run(&self, from: &SortKey) {
        self.start_run(from).await.unwrap().unwrap();
    }

    /// Returns the result of a run that needs no more time.
    pub(crate) async fn ended(&self, run: JoinHandle<Result<(), TurnError>>) -> Result<(), TurnError> {
        wait_until("the run has ended", async || run.is_finished()).await;
        run.await.unwrap()
    }

    pub(crate) async fn claim(&self) -> Lease {
        claim(&self.history, &self.chat).await
    }

    /// Fails the chat's turn `times` times, as runs do if their model or platform fails.
    pub(crate) async fn fail_turn(&self, times: u32) {
        for _ in 0..times {
            self.history.release_unfinished(&self.claim().await, true, None).await.unwrap();
        }
    }

    pub(crate) async fn head(&self) -> Head {
        self.another_process().head(&self.chat).await.unwrap()
    }

    /// Returns the chat's records in the table, in order.
    pub(crate) async fn records(&self) -> Vec<Record> {
        self.another_process().range(&self.chat, None).await.unwrap()
    }

    pub(crate) async fn summaries(&self) -> Vec<Record> {
        self.records().await.into_iter().filter(|record| record.kind() == Kind::Summary).collect()
    }

    /// Returns the whole history of the chat, in order.
    pub(crate) async fn listed(&self) -> Vec<Record> {
        listed(&self.another_process(), &self.chat, MAX_PAGE).await
    }

    /// Returns the [`lines`] of the whole history.
    pub(crate) async fn lines(&self) -> Vec<String> {
        lines(&self.listed().await.iter().map(|record| json!(record.listed())).collect::<Vec<_>>())
    }

    /// Returns the context of a model with an unlimited window.
    pub(crate) async fn whole_context(&self) -> Context {
        let policy = Policy { token_budget: u32::MAX, ..self.config().view.policy(0) };
        context(&self.records().await, self.clock.now(), &policy)
    }

    pub(crate) async fn archive_everything(&self) -> Archived {
        archive_everything(&self.another_process(), &self.chat).await
    }

    pub(crate) async fn segments(&self) -> Vec<SegmentInfo> {
        self.another_process().segments(&self.chat).await.unwrap()
    }

    /// Returns the records in the chat's segments, and checks that each is in one.
    pub(crate) async fn archived(&self) -> BTreeMap<SortKey, Record> {
        archived(&self.another_process(), &self.chat).await
    }

    /// Deletes the record as the table's TTL does.
    pub(crate) async fn expire(&self, record: &Record) {
        expire(&self.stores, record).await;
    }

    /// Deletes the chat's records as the table's TTL does, whatever their date.
    pub(crate) async fn expire_all(&self) {
        for record in self.records().await {
            self.expire(&record).await;
        }
    }

    /// Deletes the chat's records that have expired, archived or not; returns them.
    pub(crate) async fn expire_due(&self) -> Vec<Record> {
        let now = self.clock.now().as_millis() / 1000;
        let mut due = self.records().await;
        due.retain(|record| record.expires_at.is_some_and(|expires_at| expires_at <= now));
        for record in &due {
            self.expire(record).await;
        }
        due
    }

    /// Deletes what has expired as the local program does; returns the number of items.
    pub(crate) async fn sweep(&self) -> usize {
        sweep(&self.stores.dynamodb, TABLE, self.clock.now()).await.unwrap()
    }

    /// Returns all that a process leaves behind: items, objects, queue and time. The random names of claims are left out.
    pub(crate) async fn state(&self) -> String {
        let item = |item: HashMap<String, AttributeValue>| {
            let item: BTreeMap<_, _> = item.into_iter().filter(|(name, _)| name != "claim").collect();
            format!("{item:?}")
        };
        let mut items: Vec<String> = scan(&self.stores).await.into_iter().map(item).collect();
        items.sort_unstable();
        let mut objects = Vec::new();
        for key in self.objects("").await {
            let content = hash(&self.stores.bucket.get(&key).await.unwrap());
            objects.push((key, content));
        }
        format!("{items:?} {objects:?} {:?} {:?}", self.queue.0.lock().unwrap(), self.clock.now())
    }

    /// Returns the keys of the objects of segments, without their indexes.
    pub(crate) async fn segment_objects(&self, prefix: &str) -> Vec<String> {
        let mut objects = self.objects(prefix).await;
        objects.retain(|key| key.ends_with(".jsonl.gz"));
        objects
    }

    /// Returns the keys of the bucket's objects.
    pub(crate) async fn objects(&self, prefix: &str) -> Vec<String> {
        self.stores.bucket.list(prefix).await.unwrap()
    }
}

/// Calls `act` with each of `plans` for its first request to the stores, its second and so on, until it makes fewer. Returns
/// how many it makes.
pub(crate) async fn at_each_request(
    plans: &[fn(usize) -> Plan],
    mut act: impl AsyncFnMut(&Faults, &str),
) -> usize {
    let mut number = 0;
    loop {
        number += 1;
        for (place, plan) in plans.iter().enumerate() {
            let faults = Faults::new(plan(number));
            Box::pin(act(&faults, &format!("{:?}", plan(number)))).await;
            if faults.requests() < number {
                assert_eq!(place, 0, "{:?} was not reached", plan(number));
                println!("{} requests", number - 1);
                return number - 1;
            }
        }
    }
}

fn owned(settings: &[(&str, &str)]) -> Settings {
    settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn retention_of(settings: &Settings) -> Retention {
    retention(Env::new(&|name| settings.get(name).cloned())).unwrap()
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Returns the history of a process of its own, which repeats no request.
fn process(stores: &Stores, faults: Faults, meter: &Meter, retention: Retention, clock: &Clock) -> History {
    let aws = faults.before(&stores.aws, meter);
    let (dynamodb, bucket) = (dynamodb_client(&aws), Bucket::new(&aws, BUCKET));
    History::new(dynamodb, TABLE.into(), bucket, clock.clone(), retention)
}

/// Copies the files and folders in a folder, but no sockets.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (to, kind) = (to.join(entry.file_name()), entry.file_type().unwrap());
        if kind.is_dir() {
            copy(&entry.path(), &to);
        } else if kind.is_file() {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Returns all items of the table, which must be one page.
pub(crate) async fn scan(stores: &Stores) -> Vec<HashMap<String, AttributeValue>> {
    let scanned = stores.dynamodb.scan().table_name(TABLE).send().await.unwrap();
    assert!(scanned.last_evaluated_key.is_none(), "the table is more than a page");
    scanned.items.unwrap_or_default()
}

/// Deletes the record as the table's TTL does.
pub(crate) async fn expire(stores: &Stores, record: &Record) {
    let delete = stores.dynamodb.delete_item().table_name(TABLE);
    let delete = delete.key("pk", AttributeValue::S(record.chat.to_string()));
    delete.key("sk", AttributeValue::S(record.key.to_string())).send().await.unwrap();
}

/// Changes the item at `pk` and `sk` in the table itself, by an expression such as `SET turn = :turn` and its values.
pub(crate) async fn change_item(
    stores: &Stores,
    (pk, sk): (&str, &str),
    expression: &str,
    values: &[(&str, AttributeValue)],
) {
    let key = |part: &str| AttributeValue::S(part.to_owned());
    let update = stores.dynamodb.update_item().table_name(TABLE).key("pk", key(pk)).key("sk", key(sk));
    let mut update = update.update_expression(expression);
    for (name, value) in values {
        update = update.expression_attribute_values(*name, value.clone());
    }
    update.send().await.unwrap();
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

/// Creates a reply that says `text` and answers `covers`, the newest of which has the id `number`.
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
        trace: None,
        counts: Vec::new(),
    }
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

pub(crate) async fn claim(history: &History, chat: &ChatKey) -> Lease {
    match history.claim(chat, LEASE).await.unwrap() {
        Claim::Claimed(lease) => *lease,
        Claim::Busy(until) => panic!("busy until {until}"),
    }
}

pub(crate) async fn archive_everything(history: &History, chat: &ChatKey) -> Archived {
    let lease = claim(history, chat).await;
    let archived = history.archive_all(&lease, &EVERYTHING).await.unwrap();
    history.release(&lease).await.unwrap();
    archived
}

/// Returns the records in the segments of `chat`, and checks that each is in one.
pub(crate) async fn archived(history: &History, chat: &ChatKey) -> BTreeMap<SortKey, Record> {
    let mut archived = BTreeMap::new();
    for info in history.segments(chat).await.unwrap() {
        for record in records_of(history, &info).await {
            let key = record.key.clone();
            assert!(archived.insert(key.clone(), record).is_none(), "{key} is in two segments");
        }
    }
    archived
}

/// Returns the records of a segment.
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

/// Returns the whole history of `chat` in pages of `limit`, in order.
pub(crate) async fn listed(history: &History, chat: &ChatKey, limit: usize) -> Vec<Record> {
    let (mut position, mut records) = (Position::Oldest, Vec::new());
    loop {
        let page = history.page(chat, &position, limit).await.unwrap();
        assert!(page.records.len() <= limit);
        records.extend(page.records);
        let Some(after) = page.after else { return records };
        position = Position::After(after);
    }
}
