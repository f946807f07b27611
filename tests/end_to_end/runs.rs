//! Two runs of one chat at once: the old one is slow, or dead, and its lease has run out.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use annals_agent::{Agent, TurnError, Undone};
use annals_channel::delivery::{DeliveryError, Outbox, OutboxEntry};
use annals_core::chat_key::ChatKey;
use annals_core::record::{Draft, Record};
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use annals_engine::delivery::Deliverer;
use annals_io::clock::Clock;
use annals_model::Model;
use annals_store::history::turn::{Ending, Lease, OpenTurn};
use annals_store::history::{History, HistoryError, ReplyAppended};
use annals_test_support::model_api::ModelApi;
use futures::future::BoxFuture;
use serde_json::json;

use crate::faults::Faults;
use crate::turns::assert_answered_once;
use crate::world::{self, LEASE, START, World, claim, default_retention, echo_agent, hosted, reply};

/// An outbox that keeps every send.
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
    world: World,
    posts: Arc<Posts>,
    history: History,
}

impl Bench {
    async fn new() -> Self {
        let world = World::new().await;
        Self { posts: Arc::default(), history: world.history(), world }
    }

    fn agent(&self, model: Model, clock: &Clock) -> Agent {
        Agent {
            model,
            deliverer: Deliverer::new([], Some(self.posts.clone())),
            lease: LEASE,
            ..echo_agent(&self.world.process(Faults::default(), default_retention(), clock))
        }
    }

    async fn append(&self, number: u64, text: &str) -> SortKey {
        self.history.append(&message(number, text)).await.unwrap().base
    }

    /// A run that claims and commits to `covers`, and is not heard of until its lease is over.
    async fn commit_and_fall_silent(&self, covers: &[SortKey]) -> (Lease, OpenTurn) {
        let (lease, turn) = (claim(&self.history, &chat()).await, OpenTurn::new(covers.to_vec()));
        self.history.commit(&lease, &turn).await.unwrap();
        self.world.clock.advance(LEASE + Duration::from_secs(1));
        (lease, turn)
    }

    /// A run of another process, that answers by echo.
    async fn run(&self, from: &SortKey) {
        self.agent(Model::Echo, &self.world.clock).run(&chat(), Some(from)).await.unwrap();
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

fn chat() -> ChatKey {
    ChatKey::telegram(42, None)
}

/// Message `number` of user 42, of that second.
fn message(number: u64, text: &str) -> Draft {
    let draft = world::message(&chat(), number, i64::try_from(number).unwrap() * 1000 - 60_000, text);
    Draft { form_ts: Some(draft.ts), asks: true, ..draft }
}

fn listed(lines: &[(&str, &str)]) -> Vec<(String, String)> {
    lines.iter().map(|(id, text)| ((*id).to_owned(), (*text).to_owned())).collect()
}

#[tokio::test]
async fn a_superseded_run_finds_the_next_run_s_reply_and_adds_no_other() {
    let bench = Bench::new().await;
    let one = bench.append(1, "one").await;
    let covers = [one.clone()];
    let (old, turn) = bench.commit_and_fall_silent(&covers).await;
    bench.run(&one).await;
    let all = listed(&[("1", "one"), ("1/reply", "one")]);
    assert_eq!(bench.listed().await, all);

    // The old run comes back, and goes on where it was.
    let appended = bench.history.append_reply(&chat(), reply(&covers, 1, "of the old run")).await.unwrap();
    assert!(
        matches!(&appended, ReplyAppended::Present(Record { message, .. }) if message.plain_text() == "one"),
        "{appended:?}"
    );
    let writes = [
        bench.history.commit(&old, &turn).await,
        bench.history.finish(&old, &Ending::default()).await,
        bench.history.release(&old).await,
    ];
    assert!(writes.iter().all(|write| matches!(write, Err(HistoryError::LeaseLost))), "{writes:?}");
    assert_eq!(bench.history.head(&chat()).await.unwrap().turn, None);
    bench.run(&one).await;
    assert_eq!(bench.listed().await, all);
    assert_eq!(bench.posts(), ["one"]);
}

#[tokio::test]
async fn the_next_run_sends_the_reply_that_a_dead_run_has_stored() {
    let bench = Bench::new().await;
    let one = bench.append(1, "one").await;
    let covers = [one.clone()];
    let (_, _) = bench.commit_and_fall_silent(&covers).await;
    let appended = bench.history.append_reply(&chat(), reply(&covers, 1, "of the old run")).await.unwrap();
    assert!(matches!(appended, ReplyAppended::Stored(_)));
    bench.run(&one).await;
    assert_eq!(bench.listed().await, listed(&[("1", "one"), ("1/reply", "of the old run")]));
    assert_eq!(bench.posts(), ["of the old run"]);
}

#[tokio::test]
async fn messages_that_a_dead_run_had_claimed_are_answered_without_later_ones() {
    let bench = Bench::new().await;
    let covers = [bench.append(1, "one").await, bench.append(2, "two").await];
    bench.commit_and_fall_silent(&covers).await;
    // One follows the claimed messages, and one is among them.
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
    assert_eq!(records[3].covers(), covers);
    assert_eq!(bench.posts(), ["one\ntwo", "late\nfive"]);
}

/// Also where the others are of more lines than one, and older than what was committed to.
#[tokio::test]
async fn messages_that_a_dead_run_had_claimed_are_answered_on_their_own_line() {
    let bench = Bench::new().await;
    let own = bench.append(5, "own").await;
    bench.commit_and_fall_silent(std::slice::from_ref(&own)).await;
    for (number, line) in [(1, "bc_a"), (2, "bc_b"), (3, "bc_a"), (4, "bc_c")] {
        let metadata = json!({"telegram": {"businessConnectionId": line}});
        let said = message(number, &format!("{line} {number}"));
        let draft = said.with_metadata(serde_json::from_value(metadata).unwrap());
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
    let clock = Clock::manual(Timestamp::from_millis(START).unwrap());
    let old = bench.agent(hosted(&api, &clock), &clock);
    let from = one.clone();
    let old = tokio::spawn(async move { old.run(&chat(), Some(&from)).await });
    api.wait_for(1).await;
    let busy = bench.agent(Model::Echo, &bench.world.clock).run(&chat(), Some(&one)).await;
    assert!(matches!(busy, Err(Undone { error: TurnError::Busy { .. }, .. })), "{busy:?}");

    bench.world.clock.advance(LEASE + Duration::from_secs(1));
    bench.run(&one).await;
    api.resume();
    let ended = old.await.unwrap();
    assert!(
        matches!(ended, Err(Undone { error: TurnError::History(HistoryError::LeaseLost), .. })),
        "{ended:?}"
    );
    assert_eq!(bench.listed().await, listed(&[("1", "one"), ("1/reply", "one")]));
    assert_eq!(bench.posts(), ["one"]);
}
