//! A chat in which nobody asks: only the index leads the compactor to it, which may be late by `ARCHIVE_GRACE`.

use std::collections::BTreeSet;
use std::time::Duration;

use annals_compactor::{Compactor, Report, metrics};
use annals_core::chat_key::ChatKey;
use annals_core::sort_key::SortKey;
use annals_core::testing::set;
use annals_local::stores::TABLE;
use annals_store::history::due::shard_of;
use annals_store::history::{History, MAX_PAGE, Position};

use crate::world::{World, echo_upkeep, message, records_of};

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
    history: History,
    chat: ChatKey,
    said: BTreeSet<SortKey>,
    /// Returns the age of the first message.
    elapsed: Duration,
}

impl Silence {
    async fn new() -> Self {
        let world = World::new().await;
        let (history, chat) = (world.history(), ChatKey::telegram(-7, None));
        let mut silence = Self { world, history, chat, said: BTreeSet::new(), elapsed: Duration::ZERO };
        for number in 1..=10 {
            let ts = i64::try_from(silence.elapsed.as_millis()).unwrap();
            let mut draft = message(&silence.chat, number, ts, "nobody is asked");
            set(&mut draft.metadata, "chatType", "group");
            assert!(!draft.asks);
            silence.history.append(&draft).await.unwrap();
            silence.said.insert(draft.key());
            // All within the time for which a process remembers that it has registered a chat: the first is the entry.
            silence.pass_until(Duration::from_mins(110) * u32::try_from(number).unwrap()).await;
        }
        silence
    }

    /// Time passes, an hour at a time; whatever has expired is deleted at each step.
    async fn pass_until(&mut self, elapsed: Duration) {
        while self.elapsed < elapsed {
            let step = elapsed.saturating_sub(self.elapsed).min(Duration::from_hours(1));
            self.world.clock.advance(step);
            self.elapsed += step;
            let now = self.world.clock.now().as_millis() / 1000;
            for record in self.history.range(&self.chat, None).await.unwrap() {
                if record.expires_at.unwrap() <= now {
                    self.world.expire(&record).await;
                }
            }
        }
    }

    fn compactor(&self) -> Compactor {
        Compactor::new(self.history.clone(), echo_upkeep(&self.history))
    }

    async fn run(&self, compactor: &Compactor) -> Report {
        compactor.run(self.world.clock.now().plus(GRACE)).await
    }

    /// Returns the metric of the alarm, from a run that sees the due chats and visits none.
    async fn grace_used(&self) -> f64 {
        let report = self.run(&Compactor { most: 0, ..self.compactor() }).await;
        assert_eq!(report.visited, 0);
        let line = metrics::embedded(&report, TABLE, GRACE, self.world.clock.now());
        line["GraceUsed"].as_f64().unwrap()
    }

    /// Counts the due entries of the index.
    async fn entries(&self) -> usize {
        let now = self.world.clock.now();
        let due = self.history.due(shard_of(&self.chat), now, 100, None).await.unwrap();
        due.chats.iter().map(|due| due.entries.len()).sum()
    }

    /// Returns the records in the table or in a segment.
    async fn kept(&self) -> BTreeSet<SortKey> {
        let table = self.history.range(&self.chat, None).await.unwrap();
        let mut kept: BTreeSet<SortKey> = table.into_iter().map(|record| record.key).collect();
        for info in self.history.segments(&self.chat).await.unwrap() {
            kept.extend(records_of(&self.history, &info).await.into_iter().map(|record| record.key));
        }
        kept
    }

    async fn listed(&self) -> BTreeSet<SortKey> {
        let page = self.world.history().page(&self.chat, &Position::Oldest, MAX_PAGE).await.unwrap();
        page.records.into_iter().map(|record| record.key).collect()
    }
}

#[tokio::test]
async fn a_silent_chat_loses_nothing_where_the_compactor_comes_within_the_grace() {
    let mut silence = Silence::new().await;
    silence.pass_until(just_before(DUE_AFTER)).await;
    assert_eq!((silence.entries().await, silence.grace_used().await.to_bits()), (0, 0));
    silence.pass_until(just_before(DUE_AFTER + GRACE)).await;
    assert_eq!(silence.entries().await, 1, "nothing else brings anybody here");
    let used = silence.grace_used().await;
    assert!((99.99..100.0).contains(&used), "{used}");
    let report = silence.run(&silence.compactor()).await;
    assert_eq!((report.visited, report.archived, report.failed, report.left), (1, 10, 0, 0));
    assert_eq!(silence.kept().await, silence.said);
    assert_eq!(silence.grace_used().await.to_bits(), 0);

    // And nobody comes any more.
    silence.pass_until(LIFETIME + GRACE).await;
    assert_eq!(silence.history.range(&silence.chat, None).await.unwrap(), []);
    assert_eq!((silence.kept().await, silence.listed().await), (silence.said.clone(), silence.said.clone()));
}

#[tokio::test]
async fn beyond_the_grace_a_silent_chat_is_lost_and_the_alarm_has_said_so() {
    let mut silence = Silence::new().await;
    silence.pass_until(just_before(DUE_AFTER + GRACE)).await;
    assert!(silence.grace_used().await < 100.0);
    silence.pass_until(DUE_AFTER + GRACE).await;
    assert!(silence.grace_used().await >= 100.0);
    // A visit would still do, since a chat is due before it is stale.
    silence.pass_until(just_before(LIFETIME)).await;
    assert_eq!(silence.kept().await, silence.said);
    assert!(silence.grace_used().await >= 100.0);
    silence.pass_until(LIFETIME).await;
    let report = silence.run(&silence.compactor()).await;
    // The first message was the entry, so nobody comes for the others either.
    assert_eq!((report.visited, silence.entries().await), (0, 0));
    assert_eq!(silence.kept().await.len(), 9);
    silence.pass_until(LIFETIME + DUE_AFTER).await;
    silence.run(&silence.compactor()).await;
    assert_eq!((silence.kept().await, silence.listed().await), (BTreeSet::new(), BTreeSet::new()));
}
