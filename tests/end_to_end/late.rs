//! Late messages: one with an old time queues a turn, though it asks nothing.

use std::sync::Arc;
use std::time::Duration;

use annals_core::record::Draft;
use annals_core::sort_key::Timestamp;
use annals_engine::ingress::Ingress;
use annals_store::history::{Consumed, Outcome};

use crate::world::{self, Turns, World};

/// One that asks nothing.
fn message(number: u64, ts: Timestamp, text: &str) -> Draft {
    Draft { ts, asks: false, ..world::message(&world::chat(1), number, 0, text) }
}

#[tokio::test]
async fn a_late_message_queues_a_turn_and_costs_no_further_write() {
    let world = World::new().await;
    let (now, queue) = (world.clock.now(), Turns::default());
    let ingress = Ingress::new(world.history(), Arc::new(queue.clone()), "annals".into());
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

    // A later form belongs to a message that has queued its turn.
    let edited = message(3, late.ts, "hello there");
    assert_eq!(ingress.receive(&edited).await.unwrap().outcome, Outcome::Revision(1));
    assert_eq!(queue.take(), []);
}
