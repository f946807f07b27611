//! Turns, `/compact` and visits, stopped at every request to a store and gone on with by the queue's redelivery and the
//! next visit: nothing is lost, nothing is there twice, and the model sees what it would have seen.
//!
//! A program that dies before request n + 1 and one that dies while the answer to request n is on its way leave the same
//! stores, so each path is stopped before each request. Beside that each answer is lost once to a program that lives on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use annals_agent::{Agent, Delivery};
use annals_compactor::Compactor;
use annals_local::stores::TABLE;
use annals_local::upkeep::sweep;
use annals_shared::chat_key::ChatKey;
use annals_shared::command::Command;
use annals_shared::config::{Env, ViewConfig};
use annals_shared::context::{Policy, context};
use annals_shared::delivery::Deliverer;
use annals_shared::history::due::{Due, shard_of};
use annals_shared::history::turn::Head;
use annals_shared::history::{History, MAX_PAGE, Position};
use annals_shared::ingress::Ingress;
use annals_shared::memory::{Entry, Memory, Owner};
use annals_shared::message::Part;
use annals_shared::model::Model;
use annals_shared::queue::{QueueError, Turn, TurnQueue};
use annals_shared::record::{Draft, Kind, Record};
use annals_shared::sort_key::{SortKey, Timestamp};
use annals_shared::upkeep::Upkeep;
use futures::future::BoxFuture;
use serde_json::json;

use crate::support::faults::{Faults, Plan};
use crate::support::world::{LEASE, START, World, message, records_of};

const HOUR: i64 = 3600;
/// The compactor's first request behind those that read the index, one for each shard; before it nothing is done.
const BEHIND_THE_INDEX: usize = 16;

/// A chat and what works on it.
struct Stage {
    world: World,
    view: ViewConfig,
    chat: ChatKey,
    queue: Arc<Queue>,
    /// Of the processes that nothing happens to.
    steady: History,
}

/// Turns that wait, each until a run of it has succeeded.
#[derive(Default)]
struct Queue(Mutex<VecDeque<Turn>>);

impl TurnQueue for Queue {
    fn enqueue<'a>(&'a self, turn: &'a Turn, _: &'a str) -> BoxFuture<'a, Result<(), QueueError>> {
        self.0.lock().unwrap().push_back(turn.clone());
        Box::pin(async { Ok(()) })
    }
}

/// What is stopped.
#[derive(Clone, Copy, PartialEq)]
enum Act {
    /// The agent's run of the turn that waits.
    Turn,
    /// The compactor's, with the chat due.
    Visit,
}

/// A path: what there is before it, and what is done then.
struct Path {
    settings: &'static [(&'static str, &'static str)],
    prepare: fn(&Stage) -> Pin<Box<dyn Future<Output = ()> + '_>>,
    act: Act,
    /// Before which request the first stop is.
    first: usize,
    /// Where the two messages belong that come between stop and resumption, in seconds behind the start.
    late: Option<i64>,
}

/// The number, source and text of an entry.
type Remembered = (u32, String, String);

/// What is the same, however often the path was stopped.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// The ids and texts of what the model sees.
    context: Vec<(String, String)>,
    /// Where everything stands, and what it says.
    listed: Vec<(String, String)>,
    /// What is remembered.
    memory: Vec<Remembered>,
}

fn view_of(settings: &[(&str, &str)]) -> ViewConfig {
    let lookup = |name: &str| settings.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
    ViewConfig::from_env(Env::new(&lookup)).unwrap()
}

impl Stage {
    fn new(world: World, settings: &[(&str, &str)], turns: VecDeque<Turn>) -> Self {
        let queue = Arc::new(Queue(Mutex::new(turns)));
        let steady = world.history();
        Self { world, view: view_of(settings), chat: ChatKey::telegram(42, None), queue, steady }
    }

    /// A history of a process of its own.
    fn history(&self, faults: &Faults) -> History {
        self.world.history_with(faults.clone(), true)
    }

    fn agent(&self, history: History) -> Agent {
        Agent {
            history,
            model: Model::Echo,
            deliverer: Deliverer::default(),
            surroundings: None,
            view: self.view,
            groups_remember: false,
            system_prompt: None,
            agent_id: "annals".into(),
            lease: LEASE,
            clock: self.world.clock.clone(),
        }
    }

    fn upkeep(&self, history: History) -> Upkeep {
        Upkeep {
            history,
            model: Model::Echo,
            view: self.view,
            groups_remember: false,
            agent_id: "annals".into(),
        }
    }

    fn ingress(&self) -> Ingress {
        let queue: Arc<dyn TurnQueue> = self.queue.clone();
        Ingress::new(self.steady.clone(), queue, "annals".into())
    }

    /// A message of some 35 tokens, said so many seconds behind the start.
    fn draft(&self, seconds: i64, asks: bool) -> Draft {
        let id = u64::try_from(seconds).unwrap() + 1;
        let text = format!("message {id:06}: {}", "lorem ipsum ".repeat(10).trim());
        let mut draft = Draft { asks, ..message(&self.chat, id, seconds * 1000, &text) };
        draft.chat_id = "42".into();
        draft.metadata.insert("chatType".into(), json!("private"));
        draft
    }

    /// Lets time pass up to so many seconds behind the start.
    fn at(&self, seconds: i64) {
        let at = Timestamp::from_millis(START + seconds * 1000).unwrap();
        self.world.clock.advance(at.since(self.world.clock.now()));
    }

    async fn hear(&self, seconds: i64, asks: bool) {
        self.at(seconds);
        self.ingress().receive(&self.draft(seconds, asks)).await.unwrap();
    }

    async fn command(&self, seconds: i64, command: &Command, text: &str) {
        self.at(seconds);
        let draft = self.draft(seconds, true);
        let draft = Draft { parts: vec![Part::text(text)], ..draft };
        self.ingress().command(command, &draft).await.unwrap();
    }

    async fn say_and_answer(&self, seconds: i64) {
        self.hear(seconds, true).await;
        self.run_turns(self.steady.clone()).await.unwrap();
    }

    /// Runs what the queue holds, in order, until one fails.
    async fn run_turns(&self, history: History) -> Option<()> {
        let agent = self.agent(history);
        loop {
            let Some(turn) = self.queue.0.lock().unwrap().front().cloned() else { return Some(()) };
            agent.run(&turn.chat, Some(&turn.from), Delivery(1)).await.ok()?;
            self.queue.0.lock().unwrap().pop_front();
        }
    }

    async fn run_compactor(&self, history: History) -> Option<()> {
        let compactor = Compactor::new(history.clone(), self.upkeep(history));
        let report = compactor.run(self.world.clock.now().plus(Duration::from_hours(1))).await;
        (report.failed + report.busy + report.left + report.unread_shards == 0).then_some(())
    }

    async fn act(&self, act: Act, faults: &Faults) -> Option<()> {
        match act {
            Act::Turn => self.run_turns(self.history(faults)).await,
            Act::Visit => self.run_compactor(self.history(faults)).await,
        }
    }

    /// What the schedule and the queue do behind a stop, with processes of their own.
    async fn resume(&self, act: Act, what: &str) {
        // Behind any lease, and any pause of a chat that was put off.
        self.world.clock.advance(Duration::from_mins(31));
        self.run_turns(self.world.history()).await.unwrap_or_else(|| panic!("{what}: no turn"));
        if act == Act::Visit {
            self.run_compactor(self.world.history()).await.unwrap_or_else(|| panic!("{what}: no visit"));
        }
    }

    async fn head(&self) -> Head {
        self.world.history().head(&self.chat).await.unwrap()
    }

    /// Every page of the list, oldest first.
    async fn listed(&self, limit: usize) -> Vec<Record> {
        let history = self.world.history();
        let (mut position, mut records) = (Position::Oldest, Vec::new());
        loop {
            let page = history.page(&self.chat, &position, limit).await.unwrap();
            records.extend(page.records);
            let Some(after) = page.after else { return records };
            position = Position::After(after);
        }
    }

    /// Everything that is listed is in one segment, as it is in the table; answers with it.
    async fn check_archived(&self, what: &str) -> Vec<Record> {
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
        let archiving = self.head().await.archiving;
        assert_eq!((objects.len(), archiving), (segments.len(), None), "{what}: {objects:?}");
        archived
    }

    /// What everything says that was to be said; fails where something is lost or there twice.
    async fn check(&self, said: &BTreeSet<SortKey>, is_compacted: bool, what: &str) -> Outcome {
        let records = self.listed(MAX_PAGE).await;
        assert!(records.is_sorted_by(|a, b| a.key < b.key), "{what}: {:?}", keys(&records));
        let bases: BTreeSet<SortKey> =
            records.iter().filter(|r| r.user_id == "42").map(|record| record.key.base()).collect();
        assert_eq!(bases, *said, "{what}: every message");
        let asked = records.iter().filter(|record| record.asks).map(|record| record.key.base());
        let mut answered: Vec<SortKey> = records.iter().flat_map(|record| record.covers.clone()).collect();
        answered.sort();
        assert_eq!(answered, asked.collect::<Vec<_>>(), "{what}: every message is answered once");

        let (history, head) = (self.world.history(), self.head().await);
        assert_eq!(head.turn, None, "{what}");
        let seen = history.context(&self.chat, &head, None, &self.view.policy(0)).await.unwrap();
        if is_compacted {
            assert_eq!(seen.context.left_out, 0, "{what}");
        }
        let mut counted = BTreeSet::new();
        for key in records.iter().filter_map(|record| record.source.as_ref()).flat_map(|s| &s.counts) {
            assert!(counted.insert(key.clone()), "{what}: {key} is counted twice");
        }
        // Whatever the budget leaves out for now, the Session's messages are summed up or shown, each.
        let whole = Policy { token_budget: u32::MAX, ..self.view.policy(0) };
        let whole = context(&seen.records, self.world.clock.now(), &whole);
        if let Some(start) = &whole.session_start {
            let shown: Vec<&str> = whole.messages.iter().map(|message| message.id.as_str()).collect();
            for record in records.iter().filter(|record| record.kind == Kind::Normal && record.key >= *start)
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
        let memory = Memory::beside(&self.world.history());
        let kept = memory.list(&Owner::User("telegram-42".into())).await.unwrap();
        let source = |entry: &Entry| format!("{:?}", entry.source);
        kept.into_iter().map(|kept| (kept.number, source(&kept.entry), kept.entry.text)).collect()
    }

    /// Months later: all is archived and has left the table, and is listed as before.
    async fn check_in_months(&self, now: Timestamp, what: &str) -> Vec<Remembered> {
        self.world.clock.advance(now.plus(Duration::from_hours(1440)).since(self.world.clock.now()));
        let history = self.world.history();
        let due = history.due(shard_of(&self.chat), self.world.clock.now(), 100, None).await.unwrap();
        for Due { chat, entries } in due.chats {
            let visited = self.upkeep(history.clone()).visit(&chat).await.unwrap();
            assert_eq!((visited.finished, visited.next), (true, None), "{what}");
            history.settle(&chat, &entries, None).await.unwrap();
        }
        let archived = self.check_archived(what).await;
        sweep(&self.world.stores.dynamodb, TABLE, self.world.clock.now()).await.unwrap();
        assert_eq!(self.world.history().range(&self.chat, None).await.unwrap(), [], "{what}: left behind");
        let texts = |records: &[Record]| -> Vec<_> {
            records.iter().map(|record| (record.key.clone(), record.message.clone())).collect()
        };
        assert_eq!(texts(&self.listed(15).await), texts(&archived), "{what}: listed behind the sweep");
        self.remembered().await
    }

    async fn said(&self) -> BTreeSet<SortKey> {
        let records = self.world.history().range(&self.chat, None).await.unwrap();
        records.iter().filter(|record| record.user_id == "42").map(|record| record.key.base()).collect()
    }
}

fn keys(records: &[Record]) -> Vec<&SortKey> {
    records.iter().map(|record| &record.key).collect()
}

/// A data directory that a path starts from.
struct Prepared {
    dir: tempfile::TempDir,
    now: Timestamp,
    turns: VecDeque<Turn>,
    said: BTreeSet<SortKey>,
    summaries: usize,
}

impl Path {
    fn prepare(&self) -> Prepared {
        let (world, now, turns, said, summaries) = block_on(async {
            let stage = Stage::new(World::new().await, self.settings, VecDeque::new());
            (self.prepare)(&stage).await;
            let (now, said) = (stage.world.clock.now(), stage.said().await);
            let turns = stage.queue.0.lock().unwrap().clone();
            let summaries = summaries(&stage.listed(MAX_PAGE).await);
            (stage.world, now, turns, said, summaries)
        });
        Prepared { dir: world.into_dir(), now, turns, said, summaries }
    }

    async fn stage(&self, prepared: &Prepared) -> Stage {
        let world = World::copy_of(prepared.dir.path(), prepared.now).await;
        Stage::new(world, self.settings, prepared.turns.clone())
    }

    /// Stops the path at each request, and answers at how many. `expect` looks at the path that was not stopped.
    fn stop_everywhere(&self, expect: impl Fn(&Outcome, usize)) {
        let prepared = self.prepare();
        let checked_at = prepared.now.plus(Duration::from_hours(1));
        let (reference, requests, made) = block_on(async {
            let stage = self.stage(&prepared).await;
            let faults = Faults::default();
            stage.act(self.act, &faults).await.unwrap();
            let requests = faults.requests();
            let made = summaries(&stage.listed(MAX_PAGE).await) - prepared.summaries;
            stage.world.clock.advance(checked_at.since(stage.world.clock.now()));
            let outcome = stage.check(&prepared.said, true, "undisturbed").await;
            let memory = stage.check_in_months(prepared.now, "undisturbed").await;
            ((outcome, memory), requests, made)
        });
        expect(&reference.0, made);
        assert!(requests > self.first, "{requests}");
        let lates = if self.late.is_some() { &[None, self.late][..] } else { &[None] };
        for number in self.first..=requests {
            for is_stop in [true, false] {
                // What is late comes to one that was stopped.
                for late in lates.iter().filter(|late| late.is_none() || is_stop) {
                    let plan = || if is_stop { Plan::Before(number) } else { Plan::Lost(number) };
                    let what = format!("{:?} of {requests}, late: {late:?}", plan());
                    block_on(async {
                        let stage = self.stage(&prepared).await;
                        let faults = Faults::new(plan());
                        stage.act(self.act, &faults).await;
                        assert!(faults.requests() >= number, "{what}: was not stopped");
                        let mut said = prepared.said.clone();
                        if let Some(at) = late {
                            for draft in [stage.draft(*at, false), stage.draft(at + 1, true)] {
                                said.insert(draft.key().base());
                                stage.ingress().receive(&draft).await.unwrap();
                            }
                        }
                        stage.resume(self.act, &what).await;
                        stage.world.clock.advance(checked_at.since(stage.world.clock.now()));
                        let outcome = stage.check(&said, is_stop && late.is_none(), &what).await;
                        let memory = stage.check_in_months(prepared.now, &what).await;
                        if late.is_none() && is_stop {
                            assert_eq!((outcome, memory), reference, "{what}");
                        } else {
                            // Of the same Sessions, though these may look otherwise.
                            assert_eq!(sources(&memory), sources(&reference.1), "{what}");
                        }
                    });
                }
            }
        }
        println!("{requests} requests, {made} summaries");
    }
}

fn sources(memory: &[Remembered]) -> Vec<&str> {
    memory.iter().map(|(_, source, _)| source.as_str()).collect()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(Box::pin(future))
}

/// How many of the records that are listed are summaries.
fn summaries(records: &[Record]) -> usize {
    records.iter().filter(|record| record.kind == Kind::Summary).count()
}

/// A window of 300 tokens for messages, and four that stay.
const SMALL: &[(&str, &str)] = &[("CONTEXT_WINDOW", "375"), ("KEEP_RECENT", "4")];

#[test]
fn a_turn_that_makes_room_before_it_answers() {
    let path = Path {
        settings: SMALL,
        prepare: |stage| {
            Box::pin(async move {
                for n in 0..4 {
                    stage.say_and_answer(n * 60).await;
                }
                for n in 4..12 {
                    stage.hear(n * 60, false).await;
                }
                stage.hear(800, true).await;
            })
        },
        act: Act::Turn,
        first: 1,
        late: Some(130),
    };
    // Each folds the one before.
    path.stop_everywhere(|outcome, made| assert!(made >= 2, "{made}: {outcome:#?}"));
}

#[test]
fn a_compaction_that_somebody_asks_for() {
    let path = Path {
        settings: &[("CONTEXT_WINDOW", "450"), ("KEEP_RECENT", "2")],
        prepare: |stage| {
            Box::pin(async move {
                for n in 0..5 {
                    stage.say_and_answer(n * 60).await;
                }
                stage.command(400, &Command::Compact, "/compact the numbers").await;
            })
        },
        act: Act::Turn,
        first: 1,
        late: Some(130),
    };
    path.stop_everywhere(|outcome, made| {
        assert!(made >= 2, "{made}: {outcome:#?}");
        let told = &outcome.listed.last().unwrap().1;
        assert!(told.starts_with("Done: 8 messages"), "{told}");
    });
}

#[test]
fn a_visit_to_a_chat_that_has_grown_quiet() {
    let path = Path {
        settings: SMALL,
        prepare: |stage| {
            Box::pin(async move {
                for n in 0..3 {
                    stage.say_and_answer(n * 60).await;
                }
                stage.at(60 * HOUR);
            })
        },
        act: Act::Visit,
        first: BEHIND_THE_INDEX,
        late: None,
    };
    path.stop_everywhere(|outcome, _| {
        assert_eq!((outcome.context.len(), outcome.memory.len()), (0, 1), "{outcome:#?}");
    });
}

/// A chat where somebody has written every 40 hours, so that its first records leave the table soon; nobody visited it.
async fn live(stage: &Stage) {
    for n in 0..4 {
        stage.say_and_answer(n * 40 * HOUR).await;
    }
}

#[test]
fn a_visit_to_a_live_chat_whose_records_leave_the_table_soon() {
    let path = Path {
        settings: SMALL,
        prepare: |stage| {
            Box::pin(async move {
                live(stage).await;
                stage.at(130 * HOUR);
            })
        },
        act: Act::Visit,
        first: BEHIND_THE_INDEX,
        late: Some(20 * HOUR),
    };
    path.stop_everywhere(|outcome, made| assert_eq!((made, outcome.context.len()), (1, 5), "{outcome:#?}"));
}

#[test]
fn a_turn_of_a_live_chat_that_no_compactor_has_visited() {
    let path = Path {
        settings: SMALL,
        prepare: |stage| {
            Box::pin(async move {
                live(stage).await;
                stage.hear(160 * HOUR, true).await;
            })
        },
        act: Act::Turn,
        first: 1,
        late: Some(20 * HOUR),
    };
    path.stop_everywhere(|outcome, made| assert_eq!(made, 1, "{outcome:#?}"));
}

#[test]
fn a_turn_behind_new() {
    let path = Path {
        settings: SMALL,
        prepare: |stage| {
            Box::pin(async move {
                for n in 0..4 {
                    stage.say_and_answer(n * 60).await;
                }
                let new = Command::New { first_message: Some("And now?".into()) };
                stage.command(300, &new, "/new And now?").await;
            })
        },
        act: Act::Turn,
        first: 1,
        late: None,
    };
    path.stop_everywhere(|outcome, _| {
        assert_eq!((outcome.context.len(), outcome.memory.len()), (2, 1), "{outcome:#?}");
    });
}

/// A visit stands still before each of its requests, a run takes the chat over, and the visit goes on.
#[test]
fn a_visit_that_a_turn_overtakes() {
    let path = Path {
        settings: SMALL,
        prepare: |stage| {
            Box::pin(async move {
                live(stage).await;
                stage.at(158 * HOUR);
            })
        },
        act: Act::Visit,
        first: 1,
        late: None,
    };
    let prepared = path.prepare();
    let checked_at = prepared.now.plus(Duration::from_hours(1));
    let asked = 158 * HOUR + 60;
    let go_on = async |stage: &Stage, late: Option<i64>| {
        if let Some(late) = late {
            stage.ingress().receive(&stage.draft(late, false)).await.unwrap();
        }
        stage.hear(asked, true).await;
        stage.run_turns(stage.world.history()).await.unwrap();
    };
    let look = async |stage: &Stage, late: Option<i64>, what: &str| {
        let of = |at: i64| stage.draft(at, true).key().base();
        let said = prepared.said.iter().cloned().chain([of(asked)]).chain(late.map(of)).collect();
        stage.world.clock.advance(checked_at.since(stage.world.clock.now()));
        stage.run_compactor(stage.world.history()).await.unwrap_or_else(|| panic!("{what}: no visit"));
        let outcome = stage.check(&said, late.is_none(), what).await;
        (outcome, stage.check_in_months(prepared.now, what).await)
    };
    let (reference, requests) = block_on(async {
        let stage = path.stage(&prepared).await;
        let faults = Faults::default();
        stage.upkeep(stage.history(&faults)).visit(&stage.chat).await.unwrap();
        let requests = faults.requests();
        go_on(&stage, None).await;
        (look(&stage, None, "undisturbed").await, requests)
    });
    for number in 1..=requests {
        for late in [None, Some(20 * HOUR)] {
            let what = format!("before {number} of {requests}, late: {late:?}");
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            let runtime = runtime.worker_threads(3).enable_all().build().unwrap();
            runtime.block_on(Box::pin(async {
                let stage = path.stage(&prepared).await;
                let ((stalled, has_stalled), (go, goes)) = (mpsc::channel(), mpsc::channel());
                let faults = Faults::new(Plan::Stall(number, Mutex::new((stalled, goes))));
                let (upkeep, chat) = (stage.upkeep(stage.history(&faults)), stage.chat.clone());
                let visit = tokio::spawn(async move { upkeep.visit(&chat).await });
                has_stalled.recv().unwrap();
                go_on(&stage, late).await;
                go.send(()).unwrap();
                // It may find out that it was overtaken, or be through with all that it does.
                let _ = visit.await.unwrap();
                let found = look(&stage, late, &what).await;
                if late.is_none() {
                    assert_eq!(found, reference, "{what}");
                }
            }));
        }
    }
    println!("{requests} requests");
}
