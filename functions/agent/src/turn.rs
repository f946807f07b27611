//! One turn of one chat: claim the chat, find the work, do it, deliver the reply, finish.
//!
//! A crash between any two steps leaves either nothing (the next run starts again), or a committed turn, which the next
//! run finishes first: with the same covered messages, so with the same key of the reply, and from the first piece on that
//! was not delivered. Why no message is answered twice in the history is written in `annals_store::history::turn`.

use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::record::{Channel, Record};
use annals_core::sort_key::SortKey;
use annals_core::title::Title;
use annals_core::trace::Delivery;
use annals_io::metrics::Metric;
use annals_io::recorder::Recorder;
use annals_store::history::HistoryError;
use annals_store::history::turn::{Claim, Ending, Lease};
use futures::future::pending;

use crate::agent::Agent;
use crate::answer::{answer, answer_compact_command, answer_for_operator, refuse};
use crate::deliver::deliver;
use crate::error::{TurnError, Undone};
use crate::find::{announce, are_answered, find};
use crate::join::carry_out_joins;
use crate::making::Making;
use crate::next::has_stopped;
use crate::resume::resume;
use crate::retry_policy::{Attempt, MAX_REQUESTS};
use crate::run::Run;
use crate::stop::end;
use crate::task::{Found, Task, Work};
use crate::typing::{self, Typing};

/// Time after which a platform is asked for a chat's title again.
const ASK_TITLE_AGAIN: Duration = Duration::from_hours(24);

/// Maximum time that asking for a title takes. The reply has been delivered by then.
const ASK_TITLE_WITHIN: Duration = Duration::from_secs(5);

impl Agent {
    /// Answers the unanswered messages of `chat`; `named` are the messages that its turns of the queue name.
    /// If it fails, the turns are not done; the queue tries them again after [`Undone::retry_after`].
    pub async fn run(&self, chat: &ChatKey, named: &[SortKey]) -> Result<(), Undone> {
        let mut attempt = Attempt::FIRST;
        let ended = run_turns(self, chat, named, &mut attempt).await;
        if ended.as_ref().is_err_and(|error| !error.continues_elsewhere()) {
            self.metrics.add(Metric::TurnFailures, 1);
        }
        ended.map_err(|error| Undone { error, attempt })
    }

    /// Does the same as [`Agent::run`] in an environment that outlives an invocation, or is frozen between two: no run outlives
    /// its lease.
    pub async fn run_within_lease(&self, chat: &ChatKey, named: &[SortKey]) -> Result<(), Undone> {
        let done = self.clock.within(self.lease, Box::pin(self.run(chat, named))).await;
        done.unwrap_or(Err(Undone { error: TurnError::OutOfTime, attempt: Attempt::FIRST }))
    }
}

/// Runs turn after turn until no message is unanswered. Only the first looks for the `named` messages alone.
async fn run_turns(
    agent: &Agent,
    chat: &ChatKey,
    named: &[SortKey],
    attempt: &mut Attempt,
) -> Result<(), TurnError> {
    let started = agent.clock.now();
    let mut is_first = true;
    let (making, mut unstored) = (Making::default(), None);
    let mut lost: Option<Box<Lease>> = None;
    let mut recorder = Recorder::default();
    loop {
        let continues = lost.is_some();
        let claim = match lost.take() {
            Some(lost) => agent.history.claim_after_stop(&lost, agent.lease).await?,
            None => agent.history.claim(chat, agent.lease).await?,
        };
        let lease = match claim {
            Claim::Claimed(lease) => lease,
            Claim::Busy(until) => return Err(TurnError::Busy { until }),
        };
        *attempt = Attempt::after(lease.head.failures);
        if !continues {
            let (trace, running_since) = (lease.head.trace.clone(), lease.head.running_since);
            recorder = Recorder::new(&agent.clock, MAX_REQUESTS, trace, running_since);
        }
        let agent = &match agent.for_run(&lease, recorder.clone()).await {
            Ok(agent) => agent,
            Err(error) => return Err(release_after(error.into(), agent, &lease, &recorder).await),
        };
        let typing = Typing::default();
        let mut shown = Box::pin(typing::show(agent, typing.watch(), &making));
        let run = Run {
            lease: &lease,
            named,
            is_first,
            attempt: *attempt,
            ends_at: started.plus(agent.lease),
            typing: &typing,
            making: &making,
            unstored: unstored.as_ref(),
        };
        let done = tokio::select! {
            // On the heap: it is a long way through.
            done = Box::pin(run_claimed(agent, &run)) => done,
            // Dropped at any point, as in a crash: the run that has the chat now continues from there.
            () = agent.history.overtaken(&lease) => Err(HistoryError::LeaseLost.into()),
            // It ends after the run.
            done = async { shown.as_mut().await; pending().await } => done,
        };
        typing.end();
        shown.await;
        match done {
            Ok(MayLeaveMore(false)) => return Ok(()),
            // Another turn may take all the rest of the time that the process has.
            Ok(_) if agent.clock.now().since(started) > agent.lease / 10 => {
                return Err(TurnError::Unfinished);
            }
            Ok(_) => {
                is_first = false;
                // Its listeners hear of it no more.
                drop(making.take());
            }
            // This process has the queue's turn, so nobody else can carry the command out, and what was said of the reply.
            Err(error) if error.is_lease_lost() => {
                let head = agent.history.head(chat).await?;
                if head.stopped_to.is_some() {
                    unstored = making.take().or(unstored);
                    lost = Some(lease);
                } else if head.takeover.is_some() {
                    // The operator's messages, which wait for this turn, do not wait for its repeat.
                    drop(making.take());
                } else {
                    return Err(error);
                }
            }
            Err(error) => return Err(release_after(error, agent, &lease, &recorder).await),
        }
    }
}

/// Releases the chat of a run that failed with `error`, since the next attempt would wait for the lease to end. Returns the error
/// for the queue: that of the store if the chat may still be held.
async fn release_after(error: TurnError, agent: &Agent, lease: &Lease, recorder: &Recorder) -> TurnError {
    match agent.history.release_unfinished(lease, error.counts(), recorder.take()).await {
        Ok(()) | Err(HistoryError::LeaseLost) => error,
        Err(held) => {
            tracing::error!(%error, "failed to run a turn, and then to release its chat");
            held.into()
        }
    }
}

/// True if the chat may have more to do after the run's turn.
struct MayLeaveMore(bool);

async fn run_claimed(agent: &Agent, run: &Run<'_>) -> Result<MayLeaveMore, TurnError> {
    let Run { lease, typing, .. } = *run;
    Box::pin(carry_out_joins(agent, run)).await?;
    let found = if run.is_first && are_answered(agent, lease, run.named).await? {
        Found { task: Task::Nothing, ending: Ending::default(), leaves_more: false }
    } else {
        Box::pin(find(agent, run)).await?
    };
    let Found { task, ending, leaves_more } = found;
    let (mut turn, work) = match task {
        Task::Nothing => {
            let is_untouched =
                lease.head.turn.is_none() && lease.head.failures == 0 && lease.head.trace.is_none();
            if is_untouched && ending == Ending::default() {
                agent.history.release(lease).await?;
            } else {
                agent.history.finish(lease, &ending).await?;
            }
            return Ok(MayLeaveMore(leaves_more));
        }
        Task::End(stopped) => {
            Box::pin(end(agent, run, stopped)).await?;
            return Ok(MayLeaveMore(leaves_more));
        }
        Task::Turn(turn, work) => (turn, work),
    };
    announce(agent, typing, &turn.lease, &turn.turn, &turn.records);
    let feed = agent.live.begin(&lease.chat, turn.begun());
    run.making.begin(&turn.turn, &feed);
    agent.recorder.begin_turn(turn.asked_since());
    let mut shown_parts = 0;
    let reply = match work {
        Work::Deliver(reply) => *reply,
        Work::Send => answer_for_operator(agent, &mut turn).await?,
        Work::Answer { offered, from } => {
            match Box::pin(answer(agent, run, &mut turn, offered, from, &feed)).await {
                Err(TurnError::TakenBack) => {
                    agent.history.release(lease).await?;
                    return Ok(MayLeaveMore(true));
                }
                answered => answered?,
            }
        }
        Work::Refuse { quota, until } => refuse(agent, &mut turn, &quota, until).await?,
        Work::Compact => Box::pin(answer_compact_command(agent, run, &mut turn)).await?,
        Work::Resume { offered, paused } => {
            shown_parts = paused.shown_parts;
            Box::pin(resume(agent, run, &mut turn, offered, &paused, &feed)).await?
        }
    };
    feed.stored(&reply);
    turn.address_dispatch(agent.clock.now());
    let (reached, paced) = deliver(agent, run, &turn, &reply, shown_parts).await?;
    let delivered = agent.recorder.take().and_then(|trace| Delivery::new(reply.key.base().reply(), trace));
    let ending = Ending {
        delivered,
        reached,
        discord_channel: discord_channel(&turn.newest),
        paced,
        title: asked_title(agent, &turn.newest, lease, ending.title).await,
        // By the head as it was claimed: a turn that was committed before the command does not carry it out.
        has_stopped: has_stopped(&lease.head),
        answered_to: turn.turn.covers.last().cloned().max(lease.head.answered_to.clone()),
        ..ending
    };
    agent.history.finish(lease, &ending).await?;
    agent.metrics.add(Metric::Turns, 1);
    // Listeners hear of the turn until it is finished.
    drop(feed);
    Ok(MayLeaveMore(leaves_more))
}

/// Returns the channel of `newest`, if it is a direct message on Discord.
fn discord_channel(newest: &Record) -> Option<String> {
    let is_direct = newest.channel == Channel::Discord && !newest.is_group();
    is_direct.then(|| newest.chat_id.clone())
}

/// Asks the platform for the title of the chat of `newest`, if its events do not carry it and it was not asked lately.
/// `title` is what the records say, if that is new; so is the result. A failure is only logged: the chat keeps its title.
async fn asked_title(agent: &Agent, newest: &Record, lease: &Lease, title: Option<Title>) -> Option<Title> {
    let now = agent.clock.now();
    let known = title.clone().or_else(|| lease.head.title.clone()).unwrap_or_default();
    if known.asked_at.is_some_and(|at| now.since(at) < ASK_TITLE_AGAIN) {
        return title;
    }
    let Some(platform) = agent.deliverer.platform(newest) else { return title };
    let told = match agent.clock.within(ASK_TITLE_WITHIN, platform.chat_title(newest)).await {
        Some(told) => told.map(|told| told.map_err(|error| error.to_string())),
        None => Some(Err("it took too long".to_owned())),
    };
    let Some(told) = told else { return title };
    let name = told.unwrap_or_else(|error| {
        tracing::info!(error, "failed to ask a platform for the title of a chat; it is asked again later");
        None
    });
    Some(known.asked(name.as_deref(), now))
}
