//! Two runs of one chat at once: the old one is slow, or dead, and its lease has run out.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use annals_agent::{Agent, TurnError};
use annals_channel::delivery::{DeliveryError, Outbox, OutboxEntry};
use annals_core::draft::Draft;
use annals_core::sort_key::{SortKey, Timestamp};
use annals_core::testing::set;
use annals_engine::delivery::Deliverer;
use annals_io::clock::Clock;
use annals_model::Model;
use annals_store::history::turn::{Ending, Lease, OpenTurn};
use annals_store::history::{History, HistoryError, ReplyAppended};
use futures::future::BoxFuture;
use serde_json::json;

use crate::turns::assert_answered_once;
use crate::world::{LEASE, START, World, reply};

#[derive(Default)]
struct Posts(Mutex<Vec<String>>);

impl Outbox for Posts {
    fn post<'a>(&'a self, _: &'a str, entry: OutboxEntry) -> BoxFuture<'a, Result<(), DeliveryError>> {
        self.0.lock().unwrap().push(entry.text);
        Box::pin(async { Ok(()) })
    }
}

struct Bench {
    world: World,
    posts: Arc<Posts>,
}

impl Bench {
    async fn new() -> Self {
        Self { world: World::new().await, posts: Arc::default() }
    }

    fn agent(&self, history: &History) -> Agent {
        let deliverer = Deliverer::new([], Some(self.posts.clone()));
        Agent { deliverer, ..self.world.agent_of(history) }
    }

    /// Appends message `number`, of that second of the minute before the start.
    async fn append(&self, number: u64, text: &str) -> SortKey {
        self.world.ask(number, millis_of(number), text).await
    }

    /// A run that claims and commits to `covers`, and is not heard of until its lease is over.
    async fn commit_and_fall_silent(&self, covers: &[SortKey]) -> Lease {
        let (lease, turn) = (self.world.claim().await, OpenTurn::new(covers.to_vec()));
        self.world.history.commit(&lease, &turn).await.unwrap();
        self.world.clock.advance(LEASE + Duration::from_secs(1));
        lease
    }

    /// Appends the reply to message 1.
    async fn append_reply(&self, covers: &[SortKey], text: &str) -> ReplyAppended {
        self.world.history.append_reply(&self.world.chat, reply(covers, 1, text)).await.unwrap()
    }

    async fn run(&self, from: &SortKey) {
        self.world.start(self.agent(&self.world.another_process()), from).await.unwrap().unwrap();
    }

    /// Returns the whole history, and checks that each message was answered once.
    async fn lines(&self) -> Vec<String> {
        assert_answered_once(&self.world.records().await);
        self.world.lines().await
    }

    fn posts(&self) -> Vec<String> {
        self.posts.0.lock().unwrap().clone()
    }
}

fn millis_of(number: u64) -> i64 {
    number.cast_signed() * 1000 - 60_000
}

#[tokio::test]
async fn the_next_run_sends_the_reply_that_a_dead_run_has_stored() {
    let bench = Bench::new().await;
    let one = bench.append(1, "one").await;
    let covers = [one.clone()];
    let old = bench.commit_and_fall_silent(&covers).await;
    let appended = bench.append_reply(&covers, "of the old run").await;
    assert!(matches!(appended, ReplyAppended::Stored(_)));
    bench.run(&one).await;
    let ended = bench.world.history.finish(&old, &Ending::default()).await;
    assert!(matches!(ended, Err(HistoryError::LeaseLost)), "{ended:?}");
    assert_eq!(bench.lines().await, ["1 user: one", "1/reply assistant: of the old run"]);
    assert_eq!(bench.posts(), ["of the old run"]);

    // A run that has made another one is given the stored one.
    let appended = bench.append_reply(&covers, "of a third run").await;
    let ReplyAppended::Present(stored) = appended else { panic!("{appended:?}") };
    assert_eq!(stored.message.plain_text(), "of the old run");
}

/// The others are of several lines, and older than what was committed to.
#[tokio::test]
async fn messages_that_a_dead_run_had_claimed_are_answered_on_their_own_line() {
    let bench = Bench::new().await;
    let own = bench.append(5, "own").await;
    bench.commit_and_fall_silent(std::slice::from_ref(&own)).await;
    for (number, line) in [(1, "bc_a"), (2, "bc_b"), (3, "bc_a"), (4, "bc_c")] {
        let said = bench.world.message(number, millis_of(number), &format!("{line} {number}"));
        let mut draft = Draft { asks: true, ..said };
        set(&mut draft.metadata, "telegram", json!({"businessConnectionId": line}));
        bench.world.append(&draft).await;
    }
    bench.run(&bench.world.message(1, millis_of(1), "").key()).await;
    assert_eq!(
        bench.lines().await,
        [
            "1 user: bc_a 1",
            "2 user: bc_b 2",
            "2/reply assistant: bc_b 2",
            "3 user: bc_a 3",
            "3/reply assistant: bc_a 1\nbc_a 3",
            "4 user: bc_c 4",
            "4/reply assistant: bc_c 4",
            "5 user: own",
            "5/reply assistant: own"
        ]
    );
    assert_eq!(bench.posts()[0], "own");
}

/// The old run's model takes longer than its lease, and its clock is behind.
#[tokio::test]
async fn a_run_that_was_overtaken_while_it_asked_sends_nothing() {
    let bench = Bench { world: World::hosted(&[]).await, posts: Arc::default() };
    let (world, model) = (&bench.world, bench.world.model());
    let one = bench.append(1, "one").await;
    model.answer_with("one");
    model.hang();
    let clock = Clock::manual(Timestamp::from_millis(START).unwrap());
    let old = world.start(bench.agent(&world.history_at(&clock)), &one);
    model.wait_for(1).await;
    let busy = world.start(bench.agent(&world.another_process()), &one).await.unwrap();
    assert!(matches!(busy, Err(TurnError::Busy { .. })), "{busy:?}");

    world.clock.advance(LEASE + Duration::from_secs(1));
    let next = Agent { model: Model::Echo, ..bench.agent(&world.another_process()) };
    world.start(next, &one).await.unwrap().unwrap();
    model.resume();
    let ended = old.await.unwrap();
    assert!(matches!(ended, Err(TurnError::History(HistoryError::LeaseLost))), "{ended:?}");
    assert_eq!(bench.lines().await, ["1 user: one", "1/reply assistant: one"]);
    assert_eq!(bench.posts(), ["one"]);
}
