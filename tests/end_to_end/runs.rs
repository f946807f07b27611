//! Two runs of one chat at once: the old one is slow, or dead, and its lease has run out.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use annals_agent::{Agent, TurnError, Undone};
use annals_local::stores::{BUCKET, Stores, TABLE};
use annals_shared::chat_key::ChatKey;
use annals_shared::clock::Clock;
use annals_shared::config::{Env, retention};
use annals_shared::delivery::{Deliverer, DeliveryError, Outbox, OutboxEntry};
use annals_shared::history::turn::{Claim, Ending, Lease, OpenTurn, Superseded};
use annals_shared::history::{History, Reply, ReplyAppended};
use annals_shared::message::{Part, Role, UiMessage};
use annals_shared::model::{Model, ModelChoice, ModelSettings};
use annals_shared::record::{Channel, Draft, Kind, Record};
use annals_shared::sort_key::{MessageId, SortKey, Timestamp};
use futures::future::BoxFuture;
use serde_json::json;

use crate::app::NOW;
use crate::support::model_api::{API_KEY, ModelApi};
use crate::support::world::echo_agent;
use crate::turns::assert_answered_once;

const LEASE: Duration = Duration::from_mins(5);

/// What is sent, as often as it is.
#[derive(Default)]
struct Posts(Mutex<Vec<String>>);

impl Outbox for Posts {
    fn post<'a>(&'a self, _: &'a str, entry: OutboxEntry) -> BoxFuture<'a, Result<(), DeliveryError>> {
        self.0.lock().unwrap().push(entry.text);
        Box::pin(async { Ok(()) })
    }
}

/// One table, and as many processes on it as a test makes.
struct Bench {
    stores: Stores,
    posts: Arc<Posts>,
    clock: Clock,
    history: History,
    _dir: tempfile::TempDir,
}

impl Bench {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let stores = Stores::open(dir.path()).await.unwrap();
        let clock = Clock::manual(Timestamp::from_secs(NOW));
        let history = history(&stores, &clock);
        Self { stores, posts: Arc::default(), clock, history, _dir: dir }
    }

    fn agent(&self, model: Model, clock: &Clock) -> Agent {
        Agent {
            model,
            deliverer: Deliverer::new(None, None, Some(self.posts.clone())),
            lease: LEASE,
            ..echo_agent(&history(&self.stores, clock))
        }
    }

    async fn append(&self, number: u64, text: &str) -> SortKey {
        self.history.append(&message(number, text)).await.unwrap().base
    }

    async fn claim(&self) -> Lease {
        match self.history.claim(&chat(), LEASE).await.unwrap() {
            Claim::Claimed(lease) => *lease,
            Claim::Busy(until) => panic!("busy until {until}"),
        }
    }

    /// A run that claims and commits to `covers`, and is not heard of until its lease is over.
    async fn commit_and_fall_silent(&self, covers: &[SortKey]) -> (Lease, OpenTurn) {
        let (lease, turn) = (self.claim().await, OpenTurn::new(covers.to_vec()));
        self.history.commit(&lease, &turn).await.unwrap().unwrap();
        self.clock.advance(LEASE + Duration::from_secs(1));
        (lease, turn)
    }

    /// A run of another process, that answers by echo.
    async fn run(&self, from: &SortKey) {
        self.agent(Model::Echo, &self.clock).run(&chat(), Some(from)).await.unwrap();
    }

    /// Each record as its id and text, and that each message was answered once.
    async fn listed(&self) -> Vec<(String, String)> {
        let records = self.history.range(&chat(), None).await.unwrap();
        assert_answered_once(&records);
        records.iter().map(|record| (record.message_id.to_string(), record.message.plain_text())).collect()
    }

    fn posts(&self) -> Vec<String> {
        self.posts.0.lock().unwrap().clone()
    }
}

fn history(stores: &Stores, clock: &Clock) -> History {
    let retention = retention(Env::new(&|_| None)).unwrap();
    let (dynamodb, s3) = (stores.dynamodb.clone(), stores.s3.clone());
    History::new(dynamodb, TABLE.into(), s3, BUCKET.into(), clock.clone(), retention)
}

fn chat() -> ChatKey {
    ChatKey::telegram(42, None)
}

/// Message `number` of user 42, of that second.
fn message(number: u64, text: &str) -> Draft {
    let ts = Timestamp::from_secs(NOW - 60).plus(Duration::from_secs(number));
    Draft {
        chat: chat(),
        channel: Channel::Telegram,
        chat_id: "42".into(),
        user_id: "42".into(),
        message_id: MessageId::number(number),
        ts,
        form_ts: Some(ts),
        role: Role::User,
        kind: Kind::Normal,
        parts: vec![Part::text(text)],
        metadata: serde_json::Map::new(),
        album: None,
        asks: true,
        opens_session: false,
        person: None,
    }
}

/// What the old run has to say, to `covers`, of which message `number` is the newest.
fn reply(number: u64, covers: &[SortKey]) -> Reply {
    Reply {
        kind: Kind::Normal,
        channel: Channel::Telegram,
        chat_id: "42".into(),
        agent_id: "annals".into(),
        message: UiMessage::text("", Role::Assistant, "of the old run"),
        behind: covers.last().unwrap().clone(),
        behind_id: MessageId::number(number),
        asked_at: None,
        covers: covers.to_vec(),
        revision: 0,
        covered_until: Vec::new(),
    }
}

fn listed(lines: &[(&str, &str)]) -> Vec<(String, String)> {
    lines.iter().map(|(id, text)| ((*id).to_owned(), (*text).to_owned())).collect()
}

#[tokio::test]
async fn a_superseded_run_finds_the_reply_of_the_next_and_adds_none() {
    let bench = Bench::new().await;
    let one = bench.append(1, "one").await;
    let covers = [one.clone()];
    let (old, turn) = bench.commit_and_fall_silent(&covers).await;
    bench.run(&one).await;
    let all = listed(&[("1", "one"), ("1/reply", "one")]);
    assert_eq!(bench.listed().await, all);

    // The old run comes back, and goes on where it was.
    let appended = bench.history.append_reply(&chat(), reply(1, &covers)).await.unwrap();
    assert!(
        matches!(&appended, ReplyAppended::Present(Record { message, .. }) if message.plain_text() == "one"),
        "{appended:?}"
    );
    assert_eq!(bench.history.commit(&old, &turn).await.unwrap(), Err(Superseded));
    assert_eq!(bench.history.finish(&old, &Ending::default()).await.unwrap(), Err(Superseded));
    assert_eq!(bench.history.release(&old).await.unwrap(), Err(Superseded));
    assert_eq!(bench.history.head(&chat()).await.unwrap().turn, None);
    bench.run(&one).await;
    assert_eq!(bench.listed().await, all);
    assert_eq!(bench.posts(), ["one"]);
}

#[tokio::test]
async fn what_a_dead_run_has_stored_is_what_the_next_sends() {
    let bench = Bench::new().await;
    let one = bench.append(1, "one").await;
    let covers = [one.clone()];
    let (_, _) = bench.commit_and_fall_silent(&covers).await;
    let appended = bench.history.append_reply(&chat(), reply(1, &covers)).await.unwrap();
    assert!(matches!(appended, ReplyAppended::Stored(_)));
    bench.run(&one).await;
    assert_eq!(bench.listed().await, listed(&[("1", "one"), ("1/reply", "of the old run")]));
    assert_eq!(bench.posts(), ["of the old run"]);
}

#[tokio::test]
async fn what_a_dead_run_committed_to_is_answered_without_what_came_since() {
    let bench = Bench::new().await;
    let covers = [bench.append(1, "one").await, bench.append(2, "two").await];
    bench.commit_and_fall_silent(&covers).await;
    // One stands behind what was committed to, and one in its midst.
    let five = bench.append(5, "five").await;
    let late = Draft { message_id: MessageId::number(9), ..message(1, "late") };
    bench.history.append(&late).await.unwrap();
    bench.run(&five).await;
    assert_eq!(
        bench.listed().await,
        listed(&[
            ("1", "one"),
            ("9", "late"),
            ("2", "two"),
            ("2/reply", "one\ntwo"),
            ("5", "five"),
            ("5/reply", "late\nfive"),
        ])
    );
    let records = bench.history.range(&chat(), None).await.unwrap();
    assert_eq!(records[3].covers, covers);
    assert_eq!(bench.posts(), ["one\ntwo", "late\nfive"]);
}

/// Also where the others are of more lines than one, and older than what was committed to.
#[tokio::test]
async fn what_a_dead_run_committed_to_is_answered_on_its_own_line() {
    let bench = Bench::new().await;
    let own = bench.append(5, "own").await;
    bench.commit_and_fall_silent(std::slice::from_ref(&own)).await;
    for (number, line) in [(1, "bc_a"), (2, "bc_b"), (3, "bc_a"), (4, "bc_c")] {
        let metadata = json!({"telegram": {"businessConnectionId": line}});
        let draft = Draft {
            metadata: metadata.as_object().unwrap().clone(),
            ..message(number, &format!("{line} {number}"))
        };
        bench.history.append(&draft).await.unwrap();
    }
    bench.run(&message(1, "").key()).await;
    assert_eq!(
        bench.listed().await,
        listed(&[
            ("1", "bc_a 1"),
            ("2", "bc_b 2"),
            ("2/reply", "bc_b 2"),
            ("3", "bc_a 3"),
            ("3/reply", "bc_a 1\nbc_a 3"),
            ("4", "bc_c 4"),
            ("4/reply", "bc_c 4"),
            ("5", "own"),
            ("5/reply", "own"),
        ])
    );
    assert_eq!(bench.posts()[0], "own");
}

/// The old run's model takes longer than its lease, and its clock is behind.
#[tokio::test]
async fn a_run_that_was_overtaken_while_it_asked_sends_nothing() {
    let bench = Bench::new().await;
    let one = bench.append(1, "one").await;
    let api = ModelApi::start().await;
    api.hang();
    let settings = ModelSettings {
        base_url: Some(api.base_url()),
        api_key: Some(API_KEY.into()),
        ..ModelSettings::new(ModelChoice::OpenAi("test".into()))
    };
    let clock = Clock::manual(Timestamp::from_secs(NOW));
    let old = bench.agent(Model::new(&settings, &clock, None).unwrap(), &clock);
    let from = one.clone();
    let old = tokio::spawn(async move { old.run(&chat(), Some(&from)).await });
    api.wait_for(1).await;
    let busy = bench.agent(Model::Echo, &bench.clock).run(&chat(), Some(&one)).await;
    assert!(matches!(busy, Err(Undone { error: TurnError::Busy { .. }, .. })), "{busy:?}");

    bench.clock.advance(LEASE + Duration::from_secs(1));
    bench.run(&one).await;
    api.resume();
    let ended = old.await.unwrap();
    assert!(matches!(ended, Err(Undone { error: TurnError::Superseded(_), .. })), "{ended:?}");
    assert_eq!(bench.listed().await, listed(&[("1", "one"), ("1/reply", "one")]));
    assert_eq!(bench.posts(), ["one"]);
}
