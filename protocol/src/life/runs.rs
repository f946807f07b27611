//! The steps of a run: claim, read, commit, put the reply, finish.

use super::records::{Decision, Look, decide};
use super::state::{Age, Content, Form, Kept, Key, Lease, Places, Run, RunStep, State};
use super::{Flaw, Life};

impl Life {
    /// Starts a run with the queue's first turn.
    pub(super) fn begin_run(state: &mut State, slot: u8) {
        state.held_by = Some(slot);
        state.runs[usize::from(slot)] = Some(Run::new(state.now));
    }

    /// Does the next step of a run, as `Agent::run` does.
    pub(super) fn run(&self, state: &mut State, slot: u8) {
        let Some(run) = state.runs[usize::from(slot)] else { return };
        let has_chat = run.is_newest && state.head.is_some();
        let run = match run.step {
            RunStep::Claim => match Self::claim_for_run(state, run) {
                Some(run) => run,
                None => return state.end_run(slot, false),
            },
            RunStep::Look => self.look(state, run),
            RunStep::Commit if has_chat => {
                state.head_mut().turn = Some(run.covers);
                Run { step: RunStep::Put, ..run }
            }
            RunStep::Put => {
                Self::put_reply(state, run);
                Run { step: RunStep::Finish { goes_on: run.leaves_more }, ..run }
            }
            RunStep::Finish { goes_on } if has_chat => {
                let head = state.head_mut();
                (head.lease, head.turn) = (Lease::Free, None);
                if !goes_on {
                    return state.end_run(slot, true);
                }
                Run { born: run.born, meets_archiving: run.meets_archiving, ..Run::new(state.now) }
            }
            RunStep::Release { is_done } if has_chat => {
                state.head_mut().lease = Lease::Free;
                return state.end_run(slot, is_done);
            }
            // Somebody else has the chat.
            RunStep::Commit | RunStep::Finish { .. } | RunStep::Release { .. } => {
                return state.end_run(slot, false);
            }
        };
        state.runs[usize::from(slot)] = Some(run);
    }

    /// Claims the chat; `None` if somebody has it.
    fn claim_for_run(state: &mut State, run: Run) -> Option<Run> {
        let head = state.head.unwrap_or_default();
        // A run whose claim was carried out, and whose answer was lost, recognises itself.
        if !run.is_newest {
            if matches!(head.lease, Lease::Run | Lease::Forgetting) {
                return None;
            }
            state.take(Lease::Run);
        }
        let is_taken = head.is_taken || head.lease == Lease::Upkeep;
        let head = state.head_mut();
        (head.is_taken, head.expires) = (is_taken, None);
        let claimed = head.turn;
        Some(Run { step: RunStep::Look, is_newest: true, age: Age::Fresh, claimed, ..run })
    }

    fn look(&self, state: &State, run: Run) -> Run {
        let is_blind = self.is_without(Flaw::BlockedTurn);
        let knows_replies = !self.is_without(Flaw::LostReply);
        let is_read = |kept: &&Kept| match kept.key.form {
            Form::First | Form::Later(_) => !is_blind,
            Form::Reply => knows_replies,
            Form::Summary => false,
        };
        let archived = state.found_in_archive().filter(|_| run.claimed.is_some()).filter(is_read);
        let mut archived: Vec<Kept> = archived.map(|kept| Kept { age: Age::Fresh, ..*kept }).collect();
        archived.sort_by_key(|kept| kept.key);
        let decision = decide(
            self.script,
            Look {
                table: state.table.clone(),
                archived,
                turn: run.claimed,
                lapses_late_by: u8::from(self.is_without(Flaw::LateLapse)),
                now: state.now,
            },
        );
        match decision {
            Decision::Nothing => Run { step: RunStep::Release { is_done: true }, ..run },
            // As an error, after which the queue delivers the turn again.
            Decision::Missing if is_blind => Run { step: RunStep::Release { is_done: false }, ..run },
            Decision::Missing => Run { step: RunStep::Finish { goes_on: false }, ..run },
            Decision::Answer { covers, covered_until, leaves_more, has_reply } => {
                let step = match (has_reply, run.claimed) {
                    (true, _) => RunStep::Finish { goes_on: leaves_more },
                    (false, Some(_)) => RunStep::Put,
                    (false, None) => RunStep::Commit,
                };
                Run { step, covers, covered_until, leaves_more, ..run }
            }
        }
    }

    fn put_reply(state: &mut State, run: Run) {
        let place = last(run.covers);
        let key = Key { place, form: Form::Reply };
        let kept = Kept { key, content: Content::A, covers: run.covers, age: run.age };
        // An entry of the message that it answers comes due after a reply within the same tick.
        let asked_now = state.item(Key::first(place)).is_some_and(|item| item.sent == state.now);
        let registers = !asked_now && !state.registry.agent;
        if !state.put(kept, run.covered_until, registers) {
            return;
        }
        state.registry.agent |= registers;
        if run.age == Age::Fresh {
            for (place, times) in state.covered.iter_mut().enumerate() {
                *times = (*times + (run.covers >> place & 1)).min(2);
            }
        }
    }
}

impl State {
    /// Ends a run. The queue's turn is done, or comes again, unless it has become somebody else's.
    pub(super) fn end_run(&mut self, slot: u8, is_done: bool) {
        self.runs[usize::from(slot)] = None;
        if self.held_by == Some(slot) {
            self.held_by = None;
            self.turns -= u8::from(is_done);
        }
    }
}

impl Run {
    fn new(now: u8) -> Self {
        Self { born: now, ..Self::default() }
    }
}

fn last(places: Places) -> u8 {
    u8::try_from((Places::BITS - 1).saturating_sub(places.leading_zeros())).unwrap_or(0)
}
