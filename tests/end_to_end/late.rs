//! What arrives late: a message with an old time announces itself by a turn, though it asks nothing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use annals_local::stores::{BUCKET, Stores, TABLE};
use annals_shared::clock::Clock;
use annals_shared::config::{Env, retention};
use annals_shared::history::{Consumed, History, Outcome};
use annals_shared::ingress::Ingress;
use annals_shared::queue::{QueueError, Turn, TurnQueue};
use annals_shared::record::Draft;
use annals_shared::sort_key::Timestamp;
use futures::future::BoxFuture;

use crate::app::NOW;
use crate::support::world;

/// A queue that keeps what it is given.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Turn>>>);

impl TurnQueue for Kept {
    fn enqueue<'a>(&'a self, turn: &'a Turn) -> BoxFuture<'a, Result<(), QueueError>> {
        self.0.lock().unwrap().push(turn.clone());
        Box::pin(async { Ok(()) })
    }
}

impl Kept {
    fn take(&self) -> Vec<Turn> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// One that asks nothing.
fn message(number: u64, ts: Timestamp, text: &str) -> Draft {
    Draft { ts, asks: false, ..world::message(&world::chat(1), number, 0, text) }
}

#[tokio::test]
async fn a_late_message_queues_a_turn_and_costs_no_further_write() {
    let dir = tempfile::tempdir().unwrap();
    let stores = Stores::open(dir.path()).await.unwrap();
    let now = Timestamp::from_secs(NOW);
    let history = History::new(
        stores.dynamodb,
        TABLE.into(),
        stores.s3,
        BUCKET.into(),
        Clock::manual(now),
        retention(Env::new(&|_| None)).unwrap(),
    );
    let queue = Kept::default();
    let ingress = Ingress::new(history, Arc::new(queue.clone()), "annals".into());
    let one_put = Consumed { read_units: 0.0, write_units: 1.0, calls: 1 };

    // On time: within the time that a platform takes, or by a clock that goes ahead.
    for (number, ts) in [(1, now.plus(Duration::from_secs(5))), (2, now.minus(Duration::from_secs(10)))] {
        ingress.receive(&message(number, ts, "hello")).await.unwrap();
        assert_eq!(queue.take(), []);
    }

    let late = message(3, now.minus(Duration::from_millis(10_001)), "hello");
    ingress.history().meter().take();
    ingress.receive(&late).await.unwrap();
    assert_eq!(ingress.history().meter().take(), one_put);
    let first = queue.take();
    let [turn] = &first[..] else { panic!("{first:?}") };
    assert_eq!((&turn.chat, &turn.from), (&late.chat, &late.key()), "it is read from there");

    // Delivered again, since the first delivery may have crashed between the two: the same turn.
    assert_eq!(ingress.receive(&late).await.unwrap().outcome, Outcome::Duplicate);
    assert_eq!(queue.take(), first);

    // A later form stands beside a message that was announced.
    let edited = message(3, late.ts, "hello there");
    assert_eq!(ingress.receive(&edited).await.unwrap().outcome, Outcome::Revision(1));
    assert_eq!(queue.take(), []);
}
