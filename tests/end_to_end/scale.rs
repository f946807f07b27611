//! The compactor with many chats: concurrent visits, and an index that is not scanned.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use annals_compactor::{Compactor, Report};
use annals_core::chat_key::ChatKey;
use annals_engine::upkeep::Visited;
use annals_store::history::due::{SHARDS, shard_of};
use tokio::sync::Barrier;

use crate::meter::Consumed;
use crate::world::{World, chat, message};

/// Time from a message until its chat is due, with the default settings.
const DUE_AFTER: Duration = Duration::from_hours(36);
/// Timeout for what hangs, in real time: many times what the test takes otherwise.
const GUARD: Duration = Duration::from_secs(5);

/// A message in each of so many chats, an hour after those of `world`.
async fn fill(world: &World, chats: std::ops::Range<usize>) {
    world.clock.advance(Duration::from_hours(1));
    for number in chats {
        world.append(&message(&chat(number), 1, 0, "hello")).await;
    }
}

#[tokio::test]
async fn eight_chats_are_visited_at_a_time_and_no_more() {
    let world = World::new().await;
    fill(&world, 0..24).await;
    world.clock.advance(DUE_AFTER);
    let compactor = world.compactor();
    assert_eq!(compactor.parallel, 8);
    for parallel in [1, 7, 8] {
        // Each visit waits until eight are running: the barrier, the running visits, and their maximum.
        let visits = Arc::new((Barrier::new(8), AtomicUsize::new(0), AtomicUsize::new(0)));
        let limited = Compactor { parallel, ..compactor.clone() };
        let run = limited.run_visiting(world.in_an_hour(), |_| {
            let visits = visits.clone();
            async move {
                let (barrier, now, most) = &*visits;
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                barrier.wait().await;
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(Visited { finished: true, ..Visited::default() })
            }
        });
        // With fewer than eight at a time, no visit ends.
        let guard = if parallel < 8 { GUARD / 20 } else { GUARD };
        let report = tokio::time::timeout(guard, run).await.ok();
        let expected = (parallel == 8).then(|| Report { visited: 24, ..Report::default() });
        assert_eq!(report, expected, "{parallel}");
        assert_eq!(visits.2.load(Ordering::SeqCst), parallel);
    }
}

/// Measures a run with one chat that is due, among so many that are not.
async fn run_among(others: usize) -> Consumed {
    let world = World::new().await;
    fill(&world, 0..1).await;
    fill(&world, 1..1 + others).await;
    world.clock.advance(DUE_AFTER.saturating_sub(Duration::from_hours(1)));
    let compactor = world.compactor();

    // One that only looks.
    world.meter.take();
    let left = Compactor { most: 0, ..compactor.clone() }.run(world.in_an_hour()).await;
    assert_eq!((left.visited, left.left), (0, 1));
    let index = world.meter.take();
    let shards = u32::from(SHARDS);
    assert_eq!((index.calls, index.write_units.to_bits()), (shards, 0), "among {others}: {index:?}");
    assert!(index.read_units <= 0.5 * f64::from(shards), "among {others}: {index:?}");

    let report = compactor.run(world.in_an_hour()).await;
    assert_eq!((report.visited, report.archived), (1, 1));
    world.meter.take()
}

#[tokio::test]
async fn one_chat_that_is_due_costs_the_same_among_five_hundred() {
    let alone = run_among(0).await;
    assert_eq!(run_among(500).await, alone);
    println!("a run for one chat: {alone:?}");
}

/// A thousand messages a second, each the only one of its chat in eighteen hours, is the most that they can make: each is an
/// entry, and so one write to the index; each entry is removed by the visit that it comes due for, another; and where a chat
/// wants another visit its head is set and removed as well, two more: 4,000 writes a second in all, 250 for each of the 16
/// shards, and 300 for one that has 1.2 times the mean. A partition takes 1,000.
#[test]
fn no_shard_of_the_index_is_hot() {
    let telegram = (0..4_000).map(|number| ChatKey::telegram(1_000_000 + number, None));
    let groups = (0..4_000).map(|number| ChatKey::telegram(-100_000_000_000 - 7 * number, None));
    let http = (0..4_000).map(|number| format!("http:chat:app:c{number}").parse().unwrap());
    let lark = (0..4_000).map(|number| format!("lark:chat:oc_{number:032x}").parse().unwrap());
    let of_kinds: [Vec<ChatKey>; 4] = [telegram.collect(), groups.collect(), http.collect(), lark.collect()];
    let mut counts = [0_u32; SHARDS as usize];
    for chat in of_kinds.iter().flatten() {
        counts[usize::from(shard_of(chat))] += 1;
    }
    let mean = 16_000.0 / f64::from(SHARDS);
    assert_eq!(counts.iter().sum::<u32>(), 16_000);
    for count in counts {
        assert!((mean / 1.2..=mean * 1.2).contains(&f64::from(count)), "{counts:?}");
    }
}
