//! A chat in which nobody asks: only the index leads the compactor to it, which may be late by `ARCHIVE_GRACE`.

use std::collections::BTreeSet;
use std::time::Duration;

use annals_compactor::{Compactor, Report, metrics};
use annals_core::sort_key::{SortKey, Timestamp};
use annals_core::testing::set;
use annals_local::stores::TABLE;

use crate::world::{START, World};

/// Time from the first message until its chat is due, with the default settings.
const DUE_AFTER: Duration = Duration::from_hours(36);
const GRACE: Duration = Duration::from_hours(168);
/// Time at which the first message may leave the table.
const LIFETIME: Duration = Duration::from_hours(48 + 168);

fn just_before(elapsed: Duration) -> Duration {
    elapsed.saturating_sub(Duration::from_secs(1))
}

/// A group where ten messages were said, the last of them long ago.
struct Silence {
    world: World,
    said: BTreeSet<SortKey>,
}

impl Silence {
    async fn new() -> Self {
        let mut silence = Self { world: World::new().await, said: BTreeSet::new() };
        for number in 1..=10 {
            let mut draft = silence.world.message(number, silence.world.elapsed_millis(), "nobody is asked");
            set(&mut draft.metadata, "chatType", "group");
            assert!(!draft.asks);
            silence.said.insert(silence.world.append(&draft).await.base);
            // All within the time for which a process remembers that it has registered a chat: the first is the entry.
            silence.pass_until(Duration::from_mins(110) * u32::try_from(number).unwrap()).await;
        }
        silence
    }

    /// Time passes, an hour at a time; whatever has expired is deleted at each step.
    async fn pass_until(&self, elapsed: Duration) {
        let until = Timestamp::from_millis(START).unwrap().plus(elapsed);
        while self.world.clock.now() < until {
            self.world.clock.advance(until.since(self.world.clock.now()).min(Duration::from_hours(1)));
            self.world.expire_due().await;
        }
    }

    async fn run(&self, compactor: &Compactor) -> Report {
        compactor.run(self.world.clock.now().plus(GRACE)).await
    }

    /// Returns the metric of the alarm, from a run that sees the due chats and visits none.
    async fn grace_used(&self) -> f64 {
        let report = self.run(&Compactor { most: 0, ..self.world.compactor() }).await;
        assert_eq!(report.visited, 0);
        let line = metrics::embedded(&report, TABLE, GRACE, self.world.clock.now());
        line["GraceUsed"].as_f64().unwrap()
    }

    async fn entries(&self) -> usize {
        self.world.due(42).await.map_or(0, |due| due.entries.len())
    }

    /// Returns the records in the table or in a segment.
    async fn kept(&self) -> BTreeSet<SortKey> {
        let table = self.world.records().await.into_iter().map(|record| record.key);
        table.chain(self.world.archived().await.into_keys()).collect()
    }

    async fn listed(&self) -> BTreeSet<SortKey> {
        self.world.listed().await.into_iter().map(|record| record.key).collect()
    }
}

#[tokio::test]
async fn a_silent_chat_loses_nothing_where_the_compactor_comes_within_the_grace() {
    let silence = Silence::new().await;
    silence.pass_until(just_before(DUE_AFTER)).await;
    assert_eq!((silence.entries().await, silence.grace_used().await.to_bits()), (0, 0));
    silence.pass_until(just_before(DUE_AFTER + GRACE)).await;
    assert_eq!(silence.entries().await, 1, "nothing else brings anybody here");
    let used = silence.grace_used().await;
    assert!((99.99..100.0).contains(&used), "{used}");
    let report = silence.run(&silence.world.compactor()).await;
    assert_eq!((report.visited, report.archived, report.failed, report.left), (1, 10, 0, 0));
    assert_eq!(silence.kept().await, silence.said);
    assert_eq!(silence.grace_used().await.to_bits(), 0);

    // And nobody comes any more.
    silence.pass_until(LIFETIME + GRACE).await;
    assert_eq!(silence.world.records().await, []);
    assert_eq!((silence.kept().await, silence.listed().await), (silence.said.clone(), silence.said.clone()));
}

#[tokio::test]
async fn beyond_the_grace_a_silent_chat_is_lost_and_the_alarm_has_said_so() {
    let silence = Silence::new().await;
    silence.pass_until(just_before(DUE_AFTER + GRACE)).await;
    assert!(silence.grace_used().await < 100.0);
    silence.pass_until(DUE_AFTER + GRACE).await;
    assert!(silence.grace_used().await >= 100.0);
    // A visit would still do, since a chat is due before it is stale.
    silence.pass_until(just_before(LIFETIME)).await;
    assert_eq!(silence.kept().await, silence.said);
    assert!(silence.grace_used().await >= 100.0);
    silence.pass_until(LIFETIME).await;
    let report = silence.run(&silence.world.compactor()).await;
    // The first message was the entry, so nobody comes for the others either.
    assert_eq!((report.visited, silence.entries().await), (0, 0));
    assert_eq!(silence.kept().await.len(), 9);
    silence.pass_until(LIFETIME + DUE_AFTER).await;
    silence.run(&silence.world.compactor()).await;
    assert_eq!((silence.kept().await, silence.listed().await), (BTreeSet::new(), BTreeSet::new()));
}
