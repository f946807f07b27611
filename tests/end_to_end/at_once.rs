//! Two compactions of one chat at once end as one: both use the plan that one of them has stored.

use std::sync::atomic::{AtomicUsize, Ordering};

use annals_core::compaction::cut::Why;
use annals_core::record::Record;
use annals_engine::compaction::Compacted;
use annals_store::history::turn::Lease;
use annals_test_support::model_api::is_for_notes;

use crate::faults::Faults;
use crate::world::World;

/// A chat whose lease has a plan that is not carried out, and a model that summarises it as A, then as B.
struct Two {
    world: World,
    lease: Lease,
    records: Vec<Record>,
}

impl Two {
    async fn new() -> Self {
        let world = World::hosted(&[]).await;
        let summaries = AtomicUsize::new(0);
        world.model().answer_by(move |body| {
            let letter = || if summaries.fetch_add(1, Ordering::SeqCst) == 0 { "A" } else { "B" };
            is_for_notes(body).then(|| format!("Goal: {}", letter()))
        });
        for id in 1..=8_u64 {
            let text = format!("message {id}: {}", "lorem ipsum ".repeat(5));
            world.say(id, id.cast_signed() * 1000, &text).await;
        }
        let records = world.records().await;
        let mut lease = world.claim().await;
        world.history.plan_summary(&mut lease, &records[5].key).await.unwrap();
        assert_eq!(lease.head.compacting, world.head().await.compacting);
        Self { world, lease, records }
    }

    /// A run of a process whose stores meet `faults`.
    fn start(&self, faults: Faults) -> tokio::task::JoinHandle<Compacted> {
        let compaction = self.world.compaction_of(&self.world.history_with(faults));
        let (mut lease, records) = (self.lease.clone(), self.records.clone());
        tokio::spawn(async move {
            compaction.run(&mut lease, &records, Why::Asked, None).await.unwrap().expect("there is a plan")
        })
    }

    /// There is one summary, which both have, and no record is in two segments.
    async fn check(&self, both: [&Compacted; 2]) -> String {
        let [summary] = &self.world.summaries().await[..] else { panic!("one summary") };
        for compacted in both {
            assert_eq!(compacted.summary, *summary);
        }
        let source = summary.source().unwrap();
        assert_eq!((&source.to, source.count), (&self.records[5].key, 6));
        let archived = self.world.archived().await;
        assert!(archived.keys().eq(self.records[..6].iter().map(|record| &record.key)), "{archived:#?}");
        let head = self.world.head().await;
        assert_eq!((head.compacting, head.archive.and_then(|archive| archive.storing)), (None, None));
        assert_eq!(self.world.model().requests_for_notes().len(), 2, "each has asked");
        summary.message.plain_text()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn two_compactions_at_once_end_as_one_summary() {
    // Either of the two stalls after its answer.
    for (first_stands_still, expected) in [(false, "Goal: A"), (true, "Goal: B")] {
        let two = Two::new().await;
        let (slow, stall) = Faults::stalling(1);
        let mut slow = Some(slow);
        let model = two.world.model();
        model.hang();
        let first = two.start(slow.take_if(|_| first_stands_still).unwrap_or_default());
        model.wait_for_notes(1).await;
        let second = two.start(slow.take().unwrap_or_default());
        model.wait_for_notes(2).await;
        model.resume();
        stall.reached();
        let (ahead, behind) = if first_stands_still { (second, first) } else { (first, second) };
        let ahead = ahead.await.unwrap();
        stall.go_on();
        let behind = behind.await.unwrap();
        assert_eq!(two.check([&ahead, &behind]).await, expected);
    }
}
