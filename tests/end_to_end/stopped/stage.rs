//! A chat with the processes that work on it, and checks of its final state: [`Stage`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use annals_agent::Agent;
use annals_compactor::Compactor;
use annals_core::chat_key::ChatKey;
use annals_core::command::Command;
use annals_core::context::{Policy, context};
use annals_core::memory::{Entry, Owner};
use annals_core::message::Part;
use annals_core::record::{Draft, Kind, Record};
use annals_core::settings::Env;
use annals_core::sort_key::{SortKey, Timestamp};
use annals_core::testing::set;
use annals_engine::ingress::Ingress;
use annals_engine::settings::ViewConfig;
use annals_engine::upkeep::Upkeep;
use annals_local::stores::TABLE;
use annals_local::upkeep::sweep;
use annals_store::history::due::{Due, shard_of};
use annals_store::history::turn::Head;
use annals_store::history::{History, MAX_PAGE, Position};
use annals_store::memory::Memory;
use annals_store::queue::Turn;

use crate::faults::Faults;
use crate::world::{START, Turns, World, echo_agent, echo_upkeep, message, records_of};

/// A chat and what works on it.
pub(super) struct Stage {
    pub(super) world: World,
    pub(super) view: ViewConfig,
    pub(super) chat: ChatKey,
    pub(super) queue: Turns,
    /// Of the processes that nothing happens to.
    pub(super) steady: History,
}

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

fn view_of(settings: &[(&str, &str)]) -> ViewConfig {
    let lookup = |name: &str| settings.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
    ViewConfig::from_env(Env::new(&lookup)).unwrap()
}

impl Stage {
    pub(super) fn new(world: World, settings: &[(&str, &str)], turns: VecDeque<Turn>) -> Self {
        let queue = Turns(Arc::new(Mutex::new(turns)));
        let steady = world.history();
        Self { world, view: view_of(settings), chat: ChatKey::telegram(42, None), queue, steady }
    }

    /// A history of a process of its own.
    pub(super) fn history(&self, faults: &Faults) -> History {
        self.world.history_with(faults.clone(), true)
    }

    pub(super) fn agent(&self, history: &History) -> Agent {
        Agent { view: self.view, ..echo_agent(history) }
    }

    pub(super) fn upkeep(&self, history: &History) -> Upkeep {
        Upkeep { view: self.view, ..echo_upkeep(history) }
    }

    pub(super) fn ingress(&self) -> Ingress {
        Ingress::new(self.steady.clone(), Arc::new(self.queue.clone()), "annals".into())
    }

    /// A message of some 30 tokens, so many seconds after the start.
    pub(super) fn draft(&self, seconds: i64, asks: bool) -> Draft {
        let id = u64::try_from(seconds).unwrap() + 1;
        let text = format!("message {id:06}: {}", "lorem ipsum ".repeat(8).trim());
        let mut draft = Draft { asks, ..message(&self.chat, id, seconds * 1000, &text) };
        draft.chat_id = "42".into();
        set(&mut draft.metadata, "chatType", "private");
        draft
    }

    /// Lets time pass up to so many seconds after the start.
    pub(super) fn at(&self, seconds: i64) {
        let at = Timestamp::from_millis(START + seconds * 1000).unwrap();
        self.world.clock.advance(at.since(self.world.clock.now()));
    }

    pub(super) async fn hear(&self, seconds: i64, asks: bool) {
        self.at(seconds);
        self.ingress().receive(&self.draft(seconds, asks)).await.unwrap();
    }

    pub(super) async fn command(&self, seconds: i64, command: &Command, text: &str) {
        self.at(seconds);
        let draft = self.draft(seconds, true);
        let draft = Draft { parts: vec![Part::text(text)], ..draft };
        self.ingress().command(command, &draft).await.unwrap();
    }

    pub(super) async fn say_and_answer(&self, seconds: i64) {
        self.hear(seconds, true).await;
        self.run_turns(self.steady.clone()).await.unwrap();
    }

    /// Runs what the queue holds, in order, until one fails.
    pub(super) async fn run_turns(&self, history: History) -> Option<()> {
        let agent = self.agent(&history);
        loop {
            let Some(turn) = self.queue.0.lock().unwrap().front().cloned() else { return Some(()) };
            agent.run(&turn.chat, Some(&turn.from)).await.ok()?;
            self.queue.0.lock().unwrap().pop_front();
        }
    }

    pub(super) async fn run_compactor(&self, history: History) -> Option<()> {
        let compactor = Compactor::new(history.clone(), self.upkeep(&history));
        let report = compactor.run(self.world.clock.now().plus(Duration::from_hours(1))).await;
        (report.failed + report.busy + report.left + report.unread_shards == 0).then_some(())
    }

    pub(super) async fn act(&self, act: Act, faults: &Faults) -> Option<()> {
        match act {
            Act::Turn => self.run_turns(self.history(faults)).await,
            Act::Visit => self.run_compactor(self.history(faults)).await,
        }
    }

    /// Does what the schedule and the queue do after a stop, in processes of their own.
    pub(super) async fn resume(&self, act: Act, what: &str) {
        // Behind any lease, and any pause of a chat that was put off.
        self.world.clock.advance(Duration::from_mins(31));
        self.run_turns(self.world.history()).await.unwrap_or_else(|| panic!("{what}: no turn"));
        if act == Act::Visit {
            self.run_compactor(self.world.history()).await.unwrap_or_else(|| panic!("{what}: no visit"));
        }
    }

    pub(super) async fn head(&self) -> Head {
        self.world.history().head(&self.chat).await.unwrap()
    }

    /// Every page of the list, oldest first.
    pub(super) async fn listed(&self, limit: usize) -> Vec<Record> {
        let history = self.world.history();
        let (mut position, mut records) = (Position::Oldest, Vec::new());
        loop {
            let page = history.page(&self.chat, &position, limit).await.unwrap();
            records.extend(page.records);
            let Some(after) = page.after else { return records };
            position = Position::After(after);
        }
    }

    /// Checks that each listed record is in one segment, as it is in the table; returns the records.
    pub(super) async fn check_archived(&self, what: &str) -> Vec<Record> {
        let history = self.world.history();
        let mut archived: BTreeMap<SortKey, Record> = BTreeMap::new();
        let segments = history.segments(&self.chat).await.unwrap();
        for info in &segments {
            for record in records_of(&history, info).await {
                let key = record.key.clone();
                assert!(archived.insert(key.clone(), record).is_none(), "{what}: {key} is in two segments");
            }
        }
        // What was kept has another date in the table.
        let undated = |record: Record| Record { expires_at: None, ..record };
        let archived: Vec<Record> = archived.into_values().map(undated).collect();
        let live = history.range(&self.chat, None).await.unwrap();
        assert_eq!(live.into_iter().map(undated).collect::<Vec<_>>(), archived, "{what}");
        let objects = self.world.objects("segments/").await;
        let storing = self.head().await.archive.and_then(|archive| archive.storing);
        assert_eq!((objects.len(), storing), (segments.len(), None), "{what}: {objects:?}");
        archived
    }

    /// Returns the result; fails if something is lost or there twice.
    pub(super) async fn check(&self, said: &BTreeSet<SortKey>, what: &str) -> Outcome {
        let records = self.listed(MAX_PAGE).await;
        assert!(records.is_sorted_by(|a, b| a.key < b.key), "{what}: {:?}", keys(&records));
        let bases: BTreeSet<SortKey> =
            records.iter().filter(|r| r.user_id == "42").map(|record| record.key.base()).collect();
        assert_eq!(bases, *said, "{what}: every message");
        let asked = records.iter().filter(|record| record.asks()).map(|record| record.key.base());
        let mut answered: Vec<SortKey> = records.iter().flat_map(|record| record.covers().to_vec()).collect();
        answered.sort();
        assert_eq!(answered, asked.collect::<Vec<_>>(), "{what}: every message is answered once");

        let (history, head) = (self.world.history(), self.head().await);
        assert_eq!(head.turn, None, "{what}");
        let seen = history.context(&self.chat, &head, None, &self.view.policy(0)).await.unwrap();
        let mut counted = BTreeSet::new();
        for key in records.iter().filter_map(|record| record.source()).flat_map(|s| &s.counts) {
            assert!(counted.insert(key.clone()), "{what}: {key} is counted twice");
        }
        // Whatever the budget leaves out for now, the Session's messages are summed up or shown, each.
        let whole = Policy { token_budget: u32::MAX, ..self.view.policy(0) };
        let whole = context(&seen.records, self.world.clock.now(), &whole);
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

    pub(super) async fn remembered(&self) -> Vec<Remembered> {
        let memory = Memory::beside(&self.world.history());
        let kept = memory.list(&Owner::User("telegram-42".into())).await.unwrap();
        let source = |entry: &Entry| format!("{:?}", entry.source);
        kept.into_iter().map(|kept| (kept.number, source(&kept.entry), kept.entry.text)).collect()
    }

    /// Months later: all is archived and has left the table, and is listed as before.
    pub(super) async fn check_in_months(&self, now: Timestamp, what: &str) -> Vec<Remembered> {
        self.world.clock.advance(now.plus(Duration::from_hours(1440)).since(self.world.clock.now()));
        let history = self.world.history();
        let due = history.due(shard_of(&self.chat), self.world.clock.now(), 100, None).await.unwrap();
        for Due { chat, entries } in due.chats {
            let visited = Box::pin(self.upkeep(&history).visit(&chat)).await.unwrap();
            assert_eq!((visited.finished, visited.next), (true, None), "{what}");
            history.settle(&chat, &entries, None, None).await.unwrap();
        }
        let archived = self.check_archived(what).await;
        sweep(&self.world.stores.dynamodb, TABLE, self.world.clock.now()).await.unwrap();
        assert_eq!(self.world.history().range(&self.chat, None).await.unwrap(), [], "{what}: left behind");
        let texts = |records: &[Record]| -> Vec<_> {
            records.iter().map(|record| (record.key.clone(), record.message.clone())).collect()
        };
        assert_eq!(texts(&self.listed(15).await), texts(&archived), "{what}: listed after the sweep");
        self.remembered().await
    }

    pub(super) async fn said(&self) -> BTreeSet<SortKey> {
        let records = self.world.history().range(&self.chat, None).await.unwrap();
        records.iter().filter(|record| record.user_id == "42").map(|record| record.key.base()).collect()
    }
}

fn keys(records: &[Record]) -> Vec<&SortKey> {
    records.iter().map(|record| &record.key).collect()
}
