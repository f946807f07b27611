//! Turns, `/compact` and visits, stopped at every request to a store and continued by the queue's redelivery and the
//! next visit: nothing is lost or doubled, and the model sees the same context.
//!
//! A program that dies before request n + 1 and one that dies while the answer to request n is on its way leave the same
//! stores, so each path is stopped before each request. Beside that each answer is lost once to a program that lives on.

mod stage;

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::pin::Pin;
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

/// A path: what there is before it, and what is done then.
struct Path {
    settings: &'static [(&'static str, &'static str)],
    prepare: fn(&World) -> Pin<Box<dyn Future<Output = ()> + '_>>,
    act: Act,
    /// Before which request the first stop is.
    first: usize,
    /// Time of the two messages that arrive between stop and resumption, in seconds after the start.
    late: Option<i64>,
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
            let world = World::with(self.settings).await;
            (self.prepare)(&world).await;
            let (now, said) = (world.clock.now(), world.said().await);
            let turns = world.queue.take().into();
            let summaries = summaries(&world.listed().await);
            (world, now, turns, said, summaries)
        });
        Prepared { dir: world.into_dir(), now, turns, said, summaries }
    }

    async fn world(&self, prepared: &Prepared) -> World {
        let world = World::copy_of(prepared.dir.path(), prepared.now, self.settings).await;
        world.queue.0.lock().unwrap().clone_from(&prepared.turns);
        world
    }

    /// Stops the path at each request, and answers at how many. `expect` looks at the path that was not stopped.
    fn stop_everywhere(&self, expect: impl Fn(&Outcome, usize)) {
        let prepared = self.prepare();
        let checked_at = prepared.now.plus(Duration::from_hours(1));
        let (reference, requests, made) = block_on(async {
            let world = self.world(&prepared).await;
            let faults = Faults::default();
            world.act(self.act, &faults).await.unwrap();
            let requests = faults.requests();
            let made = summaries(&world.listed().await) - prepared.summaries;
            world.clock.advance(checked_at.since(world.clock.now()));
            let outcome = world.check(&prepared.said, "undisturbed").await;
            let memory = world.check_in_months(prepared.now, "undisturbed").await;
            ((outcome, memory), requests, made)
        });
        expect(&reference.0, made);
        assert!(requests > self.first, "{requests}");
        // What follows a stop depends on what was left behind alone, so each such state is continued once.
        let mut continued = HashSet::new();
        let lates = if self.late.is_some() { &[None, self.late][..] } else { &[None] };
        for number in self.first..=requests {
            for is_stop in [true, false] {
                // Late messages come to a path that was stopped.
                for late in lates.iter().filter(|late| late.is_none() || is_stop) {
                    let plan = || if is_stop { Plan::Before(number) } else { Plan::Lost(number) };
                    let what = format!("{:?} of {requests}, late: {late:?}", plan());
                    block_on(async {
                        let world = self.world(&prepared).await;
                        let faults = Faults::new(plan());
                        world.act(self.act, &faults).await;
                        assert!(faults.requests() >= number, "{what}: was not stopped");
                        let mut said = prepared.said.clone();
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
                        world.clock.advance(checked_at.since(world.clock.now()));
                        let outcome = world.check(&said, &what).await;
                        let memory = world.check_in_months(prepared.now, &what).await;
                        if is_exact {
                            assert_eq!((outcome, memory), reference, "{what}");
                        } else {
                            // Of the same Sessions, though these may look otherwise.
                            assert_eq!(sources(&memory), sources(&reference.1), "{what}");
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
    let path = Path {
        settings: SMALL,
        prepare: |world| {
            Box::pin(async move {
                for n in 0..4 {
                    world.say_and_answer(n * 60).await;
                }
                for n in 4..10 {
                    world.receive(&world.long_draft(n * 60, false)).await;
                }
                world.receive(&world.long_draft(800, true)).await;
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
        prepare: |world| {
            Box::pin(async move {
                for n in 0..4 {
                    world.say_and_answer(n * 60).await;
                }
                world.command(400, &Command::Compact, "/compact the numbers").await;
            })
        },
        act: Act::Turn,
        first: 1,
        late: Some(130),
    };
    path.stop_everywhere(|outcome, made| {
        assert!(made >= 2, "{made}: {outcome:#?}");
        let told = &outcome.listed.last().unwrap().1;
        assert!(told.starts_with("Done: 6 messages"), "{told}");
    });
}

#[test]
fn a_visit_to_a_chat_that_has_grown_quiet() {
    let path = Path {
        settings: SMALL,
        prepare: |world| {
            Box::pin(async move {
                for n in 0..3 {
                    world.say_and_answer(n * 60).await;
                }
                world.advance_to(60 * HOUR);
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
async fn live(world: &World) {
    for n in 0..4 {
        world.say_and_answer(n * 40 * HOUR).await;
    }
}

#[test]
fn a_visit_to_a_live_chat_whose_records_leave_the_table_soon() {
    let path = Path {
        settings: WIDER,
        prepare: |world| {
            Box::pin(async move {
                live(world).await;
                world.advance_to(130 * HOUR);
            })
        },
        act: Act::Visit,
        first: BEHIND_THE_INDEX,
        late: Some(20 * HOUR),
    };
    path.stop_everywhere(|outcome, made| {
        assert_eq!(made, 1, "{outcome:#?}");
        assert!(outcome.context[0].0.ends_with("/summary"), "{outcome:#?}");
    });
}

#[test]
fn a_turn_of_a_live_chat_that_no_compactor_has_visited() {
    let path = Path {
        settings: SMALL,
        prepare: |world| {
            Box::pin(async move {
                live(world).await;
                world.receive(&world.long_draft(160 * HOUR, true)).await;
            })
        },
        act: Act::Turn,
        first: 1,
        late: Some(20 * HOUR),
    };
    path.stop_everywhere(|outcome, made| assert_eq!(made, 1, "{outcome:#?}"));
}

#[test]
fn a_turn_after_new() {
    let path = Path {
        settings: SMALL,
        prepare: |world| {
            Box::pin(async move {
                for n in 0..4 {
                    world.say_and_answer(n * 60).await;
                }
                let new = Command::New { first_message: Some("And now?".into()) };
                world.command(300, &new, "/new And now?").await;
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

#[test]
fn a_turn_that_sends_an_operators_message() {
    let path = Path {
        settings: SMALL,
        prepare: |world| {
            Box::pin(async move {
                world.say_and_answer(0).await;
                let ingress = world.ingress();
                let desk = async || ingress.desk(&world.chat).await.unwrap().unwrap();
                ingress.take_over(&desk().await, "Grace").await.unwrap();
                for n in 1..3 {
                    world.receive(&world.long_draft(n * 60, true)).await;
                }
                let (id, text) = (MessageId::new("op-1").unwrap(), vec![Part::text("I am here.")]);
                ingress.send(&desk().await, "Grace", id, text).await.unwrap();
            })
        },
        act: Act::Turn,
        first: 1,
        late: None,
    };
    path.stop_everywhere(|outcome, _| {
        assert_eq!(outcome.context.last().unwrap().1, "I am here.", "{outcome:#?}");
    });
}

/// A visit stalls before each of its requests, a run takes the chat over, and the visit continues.
#[test]
fn a_visit_that_a_turn_overtakes() {
    let path = Path {
        settings: SMALL,
        prepare: |world| {
            Box::pin(async move {
                live(world).await;
                world.advance_to(158 * HOUR);
            })
        },
        act: Act::Visit,
        first: 1,
        late: None,
    };
    let prepared = path.prepare();
    let checked_at = prepared.now.plus(Duration::from_hours(1));
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
        let said = prepared.said.iter().cloned().chain([of(asked)]).chain(late.map(of)).collect();
        world.clock.advance(checked_at.since(world.clock.now()));
        world.visit(world.another_process()).await.unwrap_or_else(|| panic!("{what}: no visit"));
        let outcome = world.check(&said, what).await;
        (outcome, world.check_in_months(prepared.now, what).await)
    };
    let (reference, requests) = block_on(async {
        let world = path.world(&prepared).await;
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
                let world = path.world(&prepared).await;
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
    let path = Path {
        settings: WIDER,
        prepare: |world| {
            Box::pin(async move {
                live(world).await;
                world.advance_to(130 * HOUR);
            })
        },
        act: Act::Visit,
        first: BEHIND_THE_INDEX,
        late: None,
    };
    let prepared = path.prepare();
    block_on(async {
        let world = path.world(&prepared).await;
        let mut number = 0;
        while world.head().await.compacting.is_none() {
            number += 1;
            assert!(number < 100, "no visit gets as far as its plan");
            world.act(Act::Visit, &Faults::new(Plan::Before(number))).await;
            world.clock.advance(LEASE + Duration::from_secs(1));
        }
        let now = (world.clock.now().since(prepared.now).as_secs()).cast_signed() + 130 * HOUR;
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
