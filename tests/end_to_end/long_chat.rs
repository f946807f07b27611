//! A chat of any length, lived through as it would be: messages, turns with their compactions, the compactor's visits,
//! and records that leave the table when their time comes. [`Chat::costs`] measures each operation on it.

use std::fmt;
use std::time::Duration;

use annals_agent::Agent;
use annals_compactor::Compactor;
use annals_core::compaction::cut::Why;
use annals_core::draft::Draft;
use annals_core::sort_key::Timestamp;
use annals_store::history::turn::Ending;
use annals_store::history::{Outcome, Position};

use crate::memory::{findings, source, user};
use crate::meter::Consumed;
use crate::world::World;

/// Every which message asks for an answer.
const ASKS: u64 = 10;
/// Messages may take 6,400 tokens: some 70 of these.
const WINDOW: &str = "8000";
/// Number of messages between two requested compactions, and between two visits.
const STRETCH: u64 = 100;
/// Number of entries in the memory of a turn that recalls: a page of them.
const ENTRIES: u64 = 48;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cost {
    pub(crate) what: &'static str,
    pub(crate) consumed: Consumed,
}

impl fmt::Display for Cost {
    /// `<write units> W, <read units> R, <requests>`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Consumed { write_units, read_units, calls } = self.consumed;
        write!(f, "{write_units} W, {read_units} R, {calls} requests")
    }
}

pub(crate) struct Chat {
    world: World,
    agent: Agent,
    compactor: Compactor,
    said: u64,
    next_sweep: Timestamp,
    pace: Duration,
}

impl Chat {
    pub(crate) async fn new(pace: Duration) -> Self {
        let world = World::with(&[("CONTEXT_WINDOW", WINDOW)]).await;
        let (agent, compactor) = (world.agent_of(&world.history), world.compactor());
        Self { next_sweep: world.clock.now(), world, agent, compactor, said: 0, pace }
    }

    /// Goes on until `length` messages have been said.
    pub(crate) async fn live_until(&mut self, length: u64) {
        while self.said < length {
            self.pass().await;
            let draft = self.next_message((self.said + 1).is_multiple_of(ASKS));
            self.world.append(&draft).await;
            if draft.asks {
                Box::pin(self.agent.run(&draft.chat, &[draft.key()])).await.unwrap();
            }
        }
    }

    /// Measures each operation; the same ones at each length, so that lengths can be compared.
    pub(crate) async fn costs(&mut self) -> Vec<Cost> {
        let mut costs = Vec::new();
        // From the same place between two compactions.
        self.compact().await;
        let mut count = |what, consumed| costs.push(Cost { what, consumed });

        let head = self.world.head().await;
        let policy = self.agent.view.policy(0);
        self.take();
        let seen = self.world.history.context(&self.world.chat, &head, None, &policy).await.unwrap();
        count("context load", self.take());
        assert_eq!(seen.context.left_out, 0);
        let first = &seen.context.messages[0];
        assert!(first.metadata.fields().contains_key("sourceRange"), "a summary stands first");

        let draft = self.next_message(false);
        self.append_unregistered(&draft).await;
        count("append", self.take());
        assert_eq!(self.world.append(&draft).await.outcome, Outcome::Duplicate);
        count("the same again (duplicate)", self.take());
        count("turn, with no memory to recall", self.turn().await);
        self.remember().await;
        count("turn, with 48 entries of memory to recall from", self.turn().await);

        self.say_a_stretch().await;
        count("compaction of 100 messages", self.compact().await);
        self.say_a_stretch().await;
        self.world.clock.advance(Duration::from_hours(1));
        self.take();
        let visited = Box::pin(self.compactor.upkeep.visit(&self.world.chat)).await.unwrap();
        count("compactor's visit, 100 messages to archive", self.take());
        assert!(u64::from(visited.archived) >= STRETCH && visited.finished, "{visited:?}");
        Box::pin(self.compactor.upkeep.visit(&self.world.chat)).await.unwrap();
        count("compactor's visit, nothing to do", self.take());

        let newest = self.world.history.page(&self.world.chat, &Position::Newest, 50).await.unwrap();
        count("newest page of 50", self.take());
        let before = Position::Before(newest.before.unwrap());
        assert_eq!(self.world.history.page(&self.world.chat, &before, 50).await.unwrap().records.len(), 50);
        count("the page of 50 before it", self.take());
        self.fall_silent().await;
        // By a process that has read no segment yet.
        let other = self.world.another_process();
        self.take();
        let oldest = other.page(&self.world.chat, &Position::Oldest, 50).await.unwrap();
        count("oldest page of 50, from the archive", self.take());
        assert_eq!(oldest.records.len(), 50);
        costs
    }

    fn take(&self) -> Consumed {
        self.world.meter.take()
    }

    /// The next message, as the Telegram parser makes it, with 300 characters of text.
    fn next_message(&mut self, asks: bool) -> Draft {
        self.said += 1;
        let metadata = serde_json::json!({
            "senderName": "Ada Lovelace", "senderUsername": "ada_lovelace", "chatType": "private",
        });
        let story = "the beans, the plums and the new engine; ".repeat(7);
        let text = format!("message {:06} of ours: {story}", self.said);
        let ts = self.world.clock.now();
        let metadata = serde_json::from_value(metadata).unwrap();
        Draft { chat_id: "42".into(), ts, metadata, asks, ..self.world.message(self.said, 0, &text[..300]) }
    }

    /// Lets the time to the next message pass, with what is on a schedule.
    async fn pass(&mut self) {
        self.world.clock.advance(self.pace);
        if self.world.clock.now() < self.next_sweep {
            return;
        }
        self.next_sweep = self.world.clock.now().plus(Duration::from_hours(6));
        if self.world.due(42).await.is_some() {
            let report = self.compactor.run(self.next_sweep).await;
            assert_eq!((report.visited, report.failed), (1, 0));
        }
        self.world.expire_due().await;
    }

    /// Everybody falls silent, all is archived and leaves the table.
    async fn fall_silent(&mut self) {
        self.world.clock.advance(Duration::from_hours(24 * 20));
        Box::pin(self.compactor.upkeep.visit(&self.world.chat)).await.unwrap();
        self.world.expire_due().await;
    }

    /// Appends without the unit that registers the chat, once in 18 hours.
    async fn append_unregistered(&mut self, draft: &Draft) {
        let before = self.next_message(false);
        self.world.append(&before).await;
        self.take();
        self.world.append(draft).await;
    }

    async fn turn(&mut self) -> Consumed {
        let draft = self.next_message(true);
        self.world.append(&draft).await;
        self.take();
        Box::pin(self.agent.run(&draft.chat, &[draft.key()])).await.unwrap();
        self.take()
    }

    async fn say_a_stretch(&mut self) {
        for _ in 0..STRETCH {
            self.world.clock.advance(Duration::from_secs(10));
            let draft = self.next_message(false);
            self.world.append(&draft).await;
        }
    }

    /// `/compact`: the summaries that it takes, the reading of what they sum up included, the claim and the end not.
    async fn compact(&mut self) -> Consumed {
        let mut lease = self.world.claim().await;
        let compaction = self.world.compaction_of(&self.world.history);
        self.take();
        loop {
            let (world, policy) = (&self.world, self.agent.view.policy(0));
            let seen = world.history.context(&world.chat, &lease.head, None, &policy).await.unwrap();
            let compacted =
                Box::pin(compaction.run(&mut lease, &seen.records, Why::Asked, None)).await.unwrap();
            let Some(compacted) = compacted else { break };
            lease.head.context_from = compacted.context_from;
            lease.head.archive.get_or_insert_default();
            if !compacted.leaves_more {
                break;
            }
        }
        let consumed = self.take();
        self.world.history.finish(&lease, &Ending::default()).await.unwrap();
        self.take();
        consumed
    }

    async fn remember(&self) {
        for session in 0..ENTRIES / 8 {
            let text = |place: u64| {
                format!("The plum tree number {} stands beside shed {}.", session * 8 + place, place * 37)
            };
            let texts: Vec<String> = (0..8).map(text).collect();
            let source = source(&self.world.chat.to_string(), session + 1);
            self.world.memory.capture(&user("telegram-42"), &source, &findings(&texts)).await.unwrap();
        }
        self.take();
    }
}
