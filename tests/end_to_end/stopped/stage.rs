//! The acts of processes that may be stopped, and checks of the chat's final state.

use std::collections::BTreeSet;
use std::time::Duration;

use annals_compactor::Compactor;
use annals_core::command::Command;
use annals_core::context::{Policy, context};
use annals_core::draft::Draft;
use annals_core::memory::{Entry, Owner};
use annals_core::message::Part;
use annals_core::record::{Kind, Record};
use annals_core::sort_key::{SortKey, Timestamp};
use annals_store::history::History;
use annals_store::history::due::{Due, shard_of};

use crate::faults::Faults;
use crate::world::{self, World};

/// The process that is stopped.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Act {
    /// The agent's run of the turn that waits.
    Turn,
    /// The compactor's, with the chat due.
    Visit,
}

/// The number, source and text of an entry.
pub(super) type Remembered = (u32, String, String);

/// The result, which is the same however often the path was stopped.
#[derive(Debug, PartialEq)]
pub(super) struct Outcome {
    /// The ids and texts of what the model sees.
    pub(super) context: Vec<(String, String)>,
    /// The key and text of each record.
    pub(super) listed: Vec<(String, String)>,
    /// The entries of memory.
    pub(super) memory: Vec<Remembered>,
}

impl World {
    /// A message of some 30 tokens, so many seconds after the start.
    pub(super) fn long_draft(&self, seconds: i64, asks: bool) -> Draft {
        let text = format!("message {:06}: {}", seconds + 1, "lorem ipsum ".repeat(8).trim());
        self.draft(seconds, &text, asks)
    }

    pub(super) async fn receive(&self, draft: &Draft) {
        self.ingress().receive(draft).await.unwrap();
    }

    pub(super) async fn command(&self, seconds: i64, command: &Command, text: &str) {
        let draft = Draft { parts: vec![Part::text(text)], ..self.long_draft(seconds, true) };
        self.ingress().command(command, &draft).await.unwrap();
    }

    pub(super) async fn say_and_answer(&self, seconds: i64) {
        self.receive(&self.long_draft(seconds, true)).await;
        self.run_turns(self.history.clone()).await.unwrap();
    }

    /// Runs what the queue holds, in order, until one fails.
    pub(super) async fn run_turns(&self, history: History) -> Option<()> {
        let agent = self.agent_of(&history);
        loop {
            let Some(turn) = self.queue.0.lock().unwrap().front().cloned() else { return Some(()) };
            agent.run(&turn.chat, &[turn.from]).await.ok()?;
            self.queue.0.lock().unwrap().pop_front();
        }
    }

    /// Runs a compactor; returns `None` if it leaves anything undone.
    pub(super) async fn visit(&self, history: History) -> Option<()> {
        let compactor = Compactor::new(history.clone(), self.upkeep_of(&history));
        let report = compactor.run(self.in_an_hour()).await;
        (report.failed + report.busy + report.left + report.unread_shards == 0).then_some(())
    }

    pub(super) async fn act(&self, act: Act, faults: &Faults) -> Option<()> {
        match act {
            Act::Turn => self.run_turns(self.history_with(faults.clone())).await,
            Act::Visit => self.visit(self.history_with(faults.clone())).await,
        }
    }

    /// Does what the schedule and the queue do after a stop, in processes of their own.
    pub(super) async fn resume(&self, act: Act, what: &str) {
        // Behind any lease, and any pause of a chat that was put off.
        self.clock.advance(Duration::from_mins(31));
        self.run_turns(self.another_process()).await.unwrap_or_else(|| panic!("{what}: no turn"));
        if act == Act::Visit {
            self.visit(self.another_process()).await.unwrap_or_else(|| panic!("{what}: no visit"));
        }
    }

    /// Checks that each record in the table is in one segment, as it is; returns the records.
    async fn check_archived(&self, what: &str) -> Vec<Record> {
        // What was kept has another date in the table.
        let undated = |record: Record| Record { expires_at: None, ..record };
        let archived: Vec<Record> = self.archived().await.into_values().map(undated).collect();
        let live = self.records().await.into_iter().map(undated).collect::<Vec<_>>();
        assert_eq!(live, archived, "{what}");
        let objects = self.segment_objects("segments/").await;
        let storing = self.head().await.archive.and_then(|archive| archive.storing);
        assert_eq!((objects.len(), storing), (self.segments().await.len(), None), "{what}: {objects:?}");
        archived
    }

    /// Returns the result; fails if something is lost or there twice.
    pub(super) async fn check(&self, said: &BTreeSet<SortKey>, what: &str) -> Outcome {
        let records = self.listed().await;
        assert!(records.is_sorted_by(|a, b| a.key < b.key), "{what}: {records:#?}");
        assert_eq!(said_in(&records), *said, "{what}: every message");
        let asked = records.iter().filter(|record| record.asks()).map(|record| record.key.base());
        let mut answered: Vec<SortKey> = records.iter().flat_map(|record| record.covers().to_vec()).collect();
        answered.sort();
        assert_eq!(answered, asked.collect::<Vec<_>>(), "{what}: every message is answered once");

        let (history, head, view) = (self.another_process(), self.head().await, self.config().view);
        assert_eq!(head.turn, None, "{what}");
        let seen = history.context(&self.chat, &head, None, &view.policy(0)).await.unwrap();
        let mut counted = BTreeSet::new();
        for key in records.iter().filter_map(|record| record.source()).flat_map(|s| &s.counts) {
            assert!(counted.insert(key.clone()), "{what}: {key} is counted twice");
        }
        // Whatever the budget leaves out for now, the Session's messages are summed up or shown, each.
        let whole = Policy { token_budget: u32::MAX, ..view.policy(0) };
        let whole = context(&seen.records, self.clock.now(), &whole);
        if let Some(start) = &whole.session_start {
            let shown: Vec<&str> = whole.messages.iter().map(|message| message.id.as_str()).collect();
            for record in
                records.iter().filter(|record| record.kind() == Kind::Normal && record.key >= *start)
            {
                let key = if record.key.is_reply() { record.key.clone() } else { record.key.base() };
                let is_shown = shown.contains(&record.message_id.as_str());
                assert!(is_shown != counted.contains(&key), "{what}: {key} in {shown:?}");
            }
        }
        let text = |record: &Record| record.message.plain_text();
        Outcome {
            context: seen.context.messages.iter().map(|m| (m.id.clone(), m.plain_text())).collect(),
            listed: records.iter().map(|record| (record.key.to_string(), text(record))).collect(),
            memory: self.remembered().await,
        }
    }

    async fn remembered(&self) -> Vec<Remembered> {
        let kept = self.memory.list(&Owner::User("telegram-42".into())).await.unwrap();
        let source = |entry: &Entry| format!("{:?}", entry.source);
        kept.into_iter().map(|kept| (kept.number, source(&kept.entry), kept.entry.text)).collect()
    }

    /// Months later: all is archived and has left the table, and is listed as before.
    pub(super) async fn check_in_months(&self, now: Timestamp, what: &str) -> Vec<Remembered> {
        self.clock.advance(now.plus(Duration::from_hours(1440)).since(self.clock.now()));
        let history = self.another_process();
        let due = history.due(shard_of(&self.chat), self.clock.now(), 100, None).await.unwrap();
        for Due { chat, entries } in due.chats {
            let visited = Box::pin(self.upkeep_of(&history).visit(&chat)).await.unwrap();
            assert_eq!((visited.finished, visited.next), (true, None), "{what}");
            history.settle(&chat, &entries, None, None).await.unwrap();
        }
        let archived = self.check_archived(what).await;
        self.sweep().await;
        assert_eq!(self.records().await, [], "{what}: left behind");
        let texts = |records: &[Record]| -> Vec<_> {
            records.iter().map(|record| (record.key.clone(), record.message.clone())).collect()
        };
        assert_eq!(
            texts(&world::listed(&history, &self.chat, 15).await),
            texts(&archived),
            "{what}: listed after the sweep"
        );
        self.remembered().await
    }

    /// Returns the messages of Ada in the table.
    pub(super) async fn said(&self) -> BTreeSet<SortKey> {
        said_in(&self.records().await)
    }
}

/// Returns the messages of Ada among `records`.
fn said_in(records: &[Record]) -> BTreeSet<SortKey> {
    records.iter().filter(|record| record.user_id == "42").map(|record| record.key.base()).collect()
}
