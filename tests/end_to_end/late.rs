//! Late messages: one with an old time queues a turn, though it asks nothing.

use annals_store::history::Outcome;

use crate::meter::Consumed;
use crate::world::World;

#[tokio::test]
async fn a_late_message_queues_a_turn_and_costs_no_further_write() {
    let world = World::new().await;
    let (ingress, queue) = (world.ingress(), &world.queue);
    let one_put = Consumed { read_units: 0.0, write_units: 1.0, calls: 1 };

    // On time: within the time that a platform takes, or by a clock that goes ahead.
    for (number, ms) in [(1, 5_000), (2, -10_000)] {
        ingress.receive(&world.message(number, ms, "hello")).await.unwrap();
        assert_eq!(queue.take(), []);
    }

    let late = world.message(3, -10_001, "hello");
    world.meter.take();
    ingress.receive(&late).await.unwrap();
    assert_eq!(world.meter.take(), one_put);
    let first = queue.take();
    let [turn] = &first[..] else { panic!("{first:?}") };
    assert_eq!((&turn.chat, &turn.from), (&late.chat, &late.key()), "it is read from there");

    // Delivered again, since the first delivery may have crashed between the two: the same turn.
    assert_eq!(ingress.receive(&late).await.unwrap().outcome, Outcome::Duplicate);
    assert_eq!(queue.take(), first);

    // A later form belongs to a message that has queued its turn.
    let edited = world.message(3, -10_001, "hello there");
    assert_eq!(ingress.receive(&edited).await.unwrap().outcome, Outcome::Revision(1));
    assert_eq!(queue.take(), []);
}
