//! Raw records go to S3 first: a summary is stored only if the records that it counts are archived and can be read back.

use std::collections::BTreeSet;

use annals_core::message::Role;
use annals_core::record::Kind;
use annals_core::sort_key::SortKey;

use crate::faults::{Faults, Plan};
use crate::world::World;

/// A chat that has outgrown its window by a little: some 1,600 tokens for messages beside the tools, of which one summary can
/// take in all but the six that stay.
async fn outgrown() -> World {
    let world = World::hosted(&[("CONTEXT_WINDOW", "2400"), ("KEEP_RECENT", "6")]).await;
    world.model().answer_with("Noted.");
    for n in 0..9 {
        world.hear(n, &format!("message {n}: {}", "lorem ipsum dolor ".repeat(60).trim()), false).await;
    }
    world
}

/// A turn whose compaction meets `faults` is answered, without a summary.
async fn answers_without_a_summary(world: &World, faults: Faults) {
    let asked = world.hear(20, "And now?", true).await;
    let mut expected: Vec<String> = world.whole_context().await.messages.into_iter().map(|m| m.id).collect();
    assert_eq!(expected.len(), 10);
    expected.push(format!("{}/reply", expected[9]));
    world.start(world.agent_with(faults), &asked).await.unwrap().unwrap();
    assert_eq!(world.model().requests_for_notes().len(), 1, "a compaction was tried, once");
    let records = world.records().await;
    let reply = records.last().unwrap();
    assert_eq!((reply.role(), reply.kind(), reply.covers()), (Role::Assistant, Kind::Normal, &[asked][..]));
    assert!(reply.message.metadata.fields()["context"]["leftOut"].as_u64().unwrap() > 0, "{reply:?}");

    assert_eq!(world.summaries().await, []);
    assert_eq!(world.segments().await, [], "nothing points at S3");
    let shown: Vec<String> = world.whole_context().await.messages.into_iter().map(|m| m.id).collect();
    assert_eq!(shown, expected, "the context is as it was");
}

/// The next turn makes up for it: one summary, and one segment that holds exactly what that counts.
async fn recovers(world: &World) {
    let asked = world.hear(21, "And now?", true).await;
    world.run(&asked).await;
    let [summary] = &world.summaries().await[..] else { panic!("one summary") };
    let counts: BTreeSet<SortKey> = summary.source().unwrap().counts.iter().cloned().collect();
    assert_eq!(world.segments().await.len(), 1);
    let held = world.archived().await;
    assert_eq!(held.keys().cloned().collect::<BTreeSet<_>>(), counts);
    let stored = world.records().await.into_iter().filter(|record| counts.contains(&record.key));
    assert!(held.into_values().eq(stored), "each as it is in the table");
    let reply = world.records().await.pop().unwrap();
    assert_eq!(reply.covers(), [asked]);
    assert!(reply.message.metadata.fields().get("context").is_none(), "all that is left is seen");
}

#[tokio::test]
async fn without_a_stored_and_readable_segment_there_is_no_summary() {
    // The time in the header is another: it unpacks to the same, and is not what was put.
    let altered = Plan::Altered(|gzip| gzip[4] ^= 1);
    for (plan, objects) in [(Plan::NoSegments, 0), (altered, 1)] {
        let world = outgrown().await;
        answers_without_a_summary(&world, Faults::new(plan)).await;
        assert_eq!(world.objects("segments/").await.len(), objects);
        recovers(&world).await;
    }
}
