//! Turns, `/compact` and visits, stopped at every request to a store and continued by the queue's redelivery and the
//! next visit: nothing is lost or doubled, and the model sees the same context.
//!
//! A program that dies before request n + 1 and one that dies while the answer to request n is on its way leave the same
//! stores, so each path is stopped before each request. Beside that each answer is lost once to a program that lives on.

mod stage;

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::time::Duration;

use annals_core::command::Command;
use annals_core::message::Part;
use annals_core::record::{Kind, Record};
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use annals_store::queue::Turn;

use self::stage::{Act, Outcome, Remembered};
use crate::faults::{Faults, Plan};
use crate::world::{LEASE, SMALL, World};

const HOUR: i64 = 3600;
/// The compactor's first request after those that read the index, one for each shard; before it nothing is done.
const BEHIND_THE_INDEX: usize = 16;

/// A window in which a summary of [`live`] fits, with the times of its messages.
const WIDER: &[(&str, &str)] = &[("CONTEXT_WINDOW", "500"), ("KEEP_RECENT", "4")];

/// A path: what is there before it, in a data directory, and what is done then.
struct Path {
    settings: &'static [(&'static str, &'static str)],
    act: Act,
    dir: tempfile::TempDir,
    now: Timestamp,
    turns: VecDeque<Turn>,
    said: BTreeSet<SortKey>,
    summaries: usize,
}

impl Path {
    fn new(
        settings: &'static [(&'static str, &'static str)],
        act: Act,
        prepare: impl AsyncFnOnce(&World),
    ) -> Self {
        block_on(async {
            let world = World::with(settings).await;
            prepare(&world).await;
            let (now, said) = (world.clock.now(), world.said().await);
            let turns = world.queue.take().into();
            let summaries = summaries(&world.listed().await);
            Self { settings, act, dir: world.into_dir(), now, turns, said, summaries }
        })
    }

    async fn world(&self) -> World {
        let world = World::copy_of(self.dir.path(), self.now, self.settings).await;
        world.queue.0.lock().unwrap().clone_from(&self.turns);
        world
    }

    /// Checks the result an hour later, and months later.
    async fn check(&self, world: &World, said: &BTreeSet<SortKey>, what: &str) -> (Outcome, Vec<Remembered>) {
        world.clock.advance(self.now.plus(Duration::from_hours(1)).since(world.clock.now()));
        let outcome = world.check(said, what).await;
        (outcome, world.check_in_months(self.now, what).await)
    }

    /// Stops the path at each request. `expect` looks at the path that was not stopped, and at the number of its summaries.
    /// With `late`, two messages of this time, in seconds after the start, arrive between stop and resumption.
    fn stop_everywhere(&self, late: Option<i64>, expect: impl Fn(&Outcome, usize)) {
        let (reference, requests, made) = block_on(async {
            let world = self.world().await;
            let faults = Faults::default();
            world.act(self.act, &faults).await.unwrap();
            let requests = faults.requests();
            let made = summaries(&world.listed().await) - self.summaries;
            (self.check(&world, &self.said, "undisturbed").await, requests, made)
        });
        expect(&reference.0, made);
        let first = if self.act == Act::Visit { BEHIND_THE_INDEX } else { 1 };
        assert!(requests > first, "{requests}");
        // What follows a stop depends on what was left behind alone, so each such state is continued once.
        let mut continued = HashSet::new();
        let lates = if late.is_some() { &[None, late][..] } else { &[None] };
        for number in first..=requests {
            for is_stop in [true, false] {
                // Late messages come to a path that was stopped.
                for late in lates.iter().filter(|late| late.is_none() || is_stop) {
                    let plan = || if is_stop { Plan::Before(number) } else { Plan::Lost(number) };
                    let what = format!("{:?} of {requests}, late: {late:?}", plan());
                    block_on(async {
                        let world = self.world().await;
                        let faults = Faults::new(plan());
                        world.act(self.act, &faults).await;
                        assert!(faults.requests() >= number, "{what}: was not stopped");
                        let mut said = self.said.clone();
                        if let Some(at) = late {
                            for draft in [world.long_draft(*at, false), world.long_draft(at + 1, true)] {
                                said.insert(draft.key().base());
                                world.receive(&draft).await;
                            }
                        }
                        let is_exact = late.is_none() && is_stop;
                        if !continued.insert((world.state().await, is_exact)) {
                            return;
                        }
                        world.resume(self.act, &what).await;
                        let found = self.check(&world, &said, &what).await;
                        if is_exact {
                            assert_eq!(found, reference, "{what}");
                        } else {
                            // Of the same Sessions, though these may look otherwise.
                            assert_eq!(sources(&found.1), sources(&reference.1), "{what}");
                        }
                    });
                }
            }
        }
        println!("{requests} requests, {} states, {made} summaries", continued.len());
    }
}

fn sources(memory: &[Remembered]) -> Vec<&str> {
    memory.iter().map(|(_, source, _)| source.as_str()).collect()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(Box::pin(future))
}

/// Counts the summaries among `records`.
fn summaries(records: &[Record]) -> usize {
    records.iter().filter(|record| record.kind() == Kind::Summary).count()
}

#[test]
fn a_turn_that_summarises_before_it_answers() {
    let path = Path::new(SMALL, Act::Turn, async |world| {
        for n in 0..4 {
            world.say_and_answer(n * 60).await;
        }
        for n in 4..10 {
            world.receive(&world.long_draft(n * 60, false)).await;
        }
        world.receive(&world.long_draft(800, true)).await;
    });
    // Each folds the one before.
    path.stop_everywhere(Some(130), |outcome, made| assert!(made >= 2, "{made}: {outcome:#?}"));
}

#[test]
fn a_compaction_that_somebody_asks_for() {
    let settings = &[("CONTEXT_WINDOW", "450"), ("KEEP_RECENT", "2")];
    let path = Path::new(settings, Act::Turn, async |world| {
        for n in 0..4 {
            world.say_and_answer(n * 60).await;
        }
        world.command(400, &Command::Compact, "/compact the numbers").await;
    });
    path.stop_everywhere(Some(130), |outcome, made| {
        assert!(made >= 2, "{made}: {outcome:#?}");
        let told = &outcome.listed.last().unwrap().1;
        assert!(told.starts_with("Done: 6 messages"), "{told}");
    });
}

#[test]
fn a_visit_to_a_chat_that_has_grown_quiet() {
    let path = Path::new(SMALL, Act::Visit, async |world| {
        for n in 0..3 {
            world.say_and_answer(n * 60).await;
        }
        world.advance_to(60 * HOUR);
    });
    path.stop_everywhere(None, |outcome, _| {
        assert_eq!((outcome.context.len(), outcome.memory.len()), (0, 1), "{outcome:#?}");
    });
}

/// A chat where somebody has written every 40 hours, so that its first records leave the table soon; nobody visited it until
/// `hour`.
async fn live(world: &World, hour: i64) {
    for n in 0..4 {
        world.say_and_answer(n * 40 * HOUR).await;
    }
    world.advance_to(hour * HOUR);
}

#[test]
fn a_visit_to_a_live_chat_whose_records_leave_the_table_soon() {
    let path = Path::new(WIDER, Act::Visit, async |world| live(world, 130).await);
    path.stop_everywhere(Some(20 * HOUR), |outcome, made| {
        assert_eq!(made, 1, "{outcome:#?}");
        assert!(outcome.context[0].0.ends_with("/summary"), "{outcome:#?}");
    });
}

#[test]
fn a_turn_of_a_live_chat_that_no_compactor_has_visited() {
    let path = Path::new(SMALL, Act::Turn, async |world| {
        live(world, 160).await;
        world.receive(&world.long_draft(160 * HOUR, true)).await;
    });
    path.stop_everywhere(Some(20 * HOUR), |outcome, made| assert_eq!(made, 1, "{outcome:#?}"));
}

#[test]
fn a_turn_after_new() {
    let path = Path::new(SMALL, Act::Turn, async |world| {
        for n in 0..4 {
            world.say_and_answer(n * 60).await;
        }
        let new = Command::New { first_message: Some("And now?".into()) };
        world.command(300, &new, "/new And now?").await;
    });
    path.stop_everywhere(None, |outcome, _| {
        assert_eq!((outcome.context.len(), outcome.memory.len()), (2, 1), "{outcome:#?}");
    });
}

#[test]
fn a_turn_that_sends_an_operators_message() {
    let path = Path::new(SMALL, Act::Turn, async |world| {
        world.say_and_answer(0).await;
        let ingress = world.ingress();
        let desk = async || ingress.desk(&world.chat).await.unwrap().unwrap();
        ingress.take_over(&desk().await, "Grace").await.unwrap();
        for n in 1..3 {
            world.receive(&world.long_draft(n * 60, true)).await;
        }
        let (id, text) = (MessageId::new("op-1").unwrap(), vec![Part::text("I am here.")]);
        ingress.send(&desk().await, "Grace", id, text).await.unwrap();
    });
    path.stop_everywhere(None, |outcome, _| {
        assert_eq!(outcome.context.last().unwrap().1, "I am here.", "{outcome:#?}");
    });
}

/// A visit stalls before each of its requests, a run takes the chat over, and the visit continues.
#[test]
fn a_visit_that_a_turn_overtakes() {
    let path = Path::new(SMALL, Act::Visit, async |world| live(world, 158).await);
    let asked = 158 * HOUR + 60;
    let go_on = async |world: &World, late: Option<i64>| {
        if let Some(late) = late {
            world.receive(&world.long_draft(late, false)).await;
        }
        world.receive(&world.long_draft(asked, true)).await;
        world.run_turns(world.another_process()).await.unwrap();
    };
    let look = async |world: &World, late: Option<i64>, what: &str| {
        let of = |at: i64| world.long_draft(at, true).key().base();
        let said = path.said.iter().cloned().chain([of(asked)]).chain(late.map(of)).collect();
        world.clock.advance(path.now.plus(Duration::from_hours(1)).since(world.clock.now()));
        world.visit(world.another_process()).await.unwrap_or_else(|| panic!("{what}: no visit"));
        path.check(world, &said, what).await
    };
    let (reference, requests) = block_on(async {
        let world = path.world().await;
        let faults = Faults::default();
        world.upkeep_of(&world.history_with(faults.clone())).visit(&world.chat).await.unwrap();
        let requests = faults.requests();
        go_on(&world, None).await;
        (look(&world, None, "undisturbed").await, requests)
    });
    for number in 1..=requests {
        for late in [None, Some(20 * HOUR)] {
            let what = format!("before {number} of {requests}, late: {late:?}");
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            let runtime = runtime.worker_threads(3).enable_all().build().unwrap();
            runtime.block_on(Box::pin(async {
                let world = path.world().await;
                let (faults, stall) = Faults::stalling(number);
                let (upkeep, chat) =
                    (world.upkeep_of(&world.history_with(faults.clone())), world.chat.clone());
                let visit = tokio::spawn(async move { upkeep.visit(&chat).await });
                stall.reached();
                go_on(&world, late).await;
                stall.go_on();
                // It may find out that it was overtaken, or be through with all that it does.
                let _ = visit.await.unwrap();
                let found = look(&world, late, &what).await;
                if late.is_none() {
                    assert_eq!(found, reference, "{what}");
                }
            }));
        }
    }
    println!("{requests} requests");
}

/// A plan that nobody carried out, of a Session that is over now, does not keep the next one from being compacted.
#[test]
fn a_plan_of_a_session_that_has_ended_holds_nothing_up() {
    let path = Path::new(WIDER, Act::Visit, async |world| live(world, 130).await);
    block_on(async {
        let world = path.world().await;
        let mut number = 0;
        while world.head().await.compacting.is_none() {
            number += 1;
            assert!(number < 100, "no visit gets as far as its plan");
            world.act(Act::Visit, &Faults::new(Plan::Before(number))).await;
            world.clock.advance(LEASE + Duration::from_secs(1));
        }
        let now = (world.clock.now().since(path.now).as_secs()).cast_signed() + 130 * HOUR;
        world.command(now, &Command::New { first_message: Some("And now?".into()) }, "/new And now?").await;
        world.say_and_answer(now + 60).await;
        world.say_and_answer(now + 120).await;
        assert!(world.head().await.compacting.is_some());
        world.command(now + 180, &Command::Compact, "/compact").await;
        world.run_turns(world.another_process()).await.unwrap();
        let listed = world.listed().await;
        let told = listed.last().unwrap().message.plain_text();
        assert!(told.starts_with("Done: 1 message is"), "{told}");
        assert_eq!((summaries(&listed), world.head().await.compacting), (1, None));
    });
}
