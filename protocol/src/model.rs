//! The steps of the protocol, and the properties of every state: [`Protocol`].

use stateright::{Model, Property};

use crate::records::{Decision, decide, extended, finds_something};
use crate::state::{Budget, Entry, Kind, Lease, Places, Post, Reply, Run, Said, State, Step, Turn};

/// The model that is explored.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// The messages, in the order of their keys.
    pub said: Vec<Said>,
    pub runs: usize,
    pub pieces: u8,
    pub budget: Budget,
    /// A rule that the protocol omits, to show that it is needed.
    pub flaw: Option<Flaw>,
}

/// A rule that the protocol might have left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A commit succeeds under any fence.
    UnfencedCommits,
    /// A run does not take over the turn that it finds in the head.
    ForgottenTurns,
    /// `/stop` leaves the fence as it is.
    UnfencedStops,
    /// A duplicate's turn is not queued.
    SilentDuplicates,
    /// A failed run counts as done.
    LostFailures,
    /// A run that ended a turn removes the command from the head, even if messages are unanswered.
    HastyStops,
    /// A run adds messages to a turn that an earlier run has committed to.
    LateAdditions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The ingress does its next step with the message at this place.
    Post(u8),
    /// The ingress does its next step, but the queue drops the turn as a duplicate.
    PostDropped(u8),
    PostCrash(u8),
    Repeat(u8),
    /// The queue delivers its first turn to this process.
    Deliver(u8),
    Run(u8),
    /// The model answers a run with calls; once they are made, the run adds to its turn what has come since.
    Round(u8),
    /// A run's question to the model, or its sending of a piece, fails.
    Fail(u8),
    /// A run's question to the model fails, and the run gives the model up, at any attempt.
    GiveUp(u8),
    /// A run sees that another process has the chat, and drops its turn.
    Notice(u8),
    Crash(u8),
    /// The queue's first turn becomes visible again while its run lives.
    Lapse,
    Expire,
    Visit,
    VisitEnds,
    VisitCrash,
}

impl Protocol {
    /// Lists what each process can do next.
    fn steps(&self, state: &State, actions: &mut Vec<Action>) {
        for (place, post) in state.posts.iter().enumerate() {
            let at = place_u8(place);
            if *post != Post::Done {
                actions.push(Action::Post(at));
            }
            let enqueues = match self.said[place] {
                Said::Stop => *post == Post::Taken,
                _ => *post == Post::Appended,
            };
            if enqueues && state.queued & 1 << place != 0 {
                actions.push(Action::PostDropped(at));
            }
        }
        for (slot, run) in state.runs.iter().enumerate() {
            if run.is_some() {
                actions.push(Action::Run(place_u8(slot)));
            }
        }
        let free = state.runs.iter().position(Option::is_none);
        if let (Some(entry), Some(slot)) = (state.queue.first(), free)
            && entry.held_by.is_none()
        {
            actions.push(Action::Deliver(place_u8(slot)));
        }
        if state.visit.is_some() {
            actions.push(Action::VisitEnds);
        }
        if matches!(state.head.lease, Lease::Run | Lease::Upkeep) && !state.has_living_holder() {
            actions.push(Action::Expire);
        }
    }

    /// Lists the faults that can happen next.
    fn faults(&self, state: &State, actions: &mut Vec<Action>) {
        let left = &state.left;
        for (place, post) in state.posts.iter().enumerate() {
            let at = place_u8(place);
            if left.crashes > 0 && !matches!(post, Post::Waiting | Post::Done) {
                actions.push(Action::PostCrash(at));
            }
            // A command that has been confirmed has no further effect.
            if left.repeats > 0 && *post == Post::Done && self.said[place] != Said::Stop {
                actions.push(Action::Repeat(at));
            }
        }
        for (slot, run) in state.runs.iter().enumerate() {
            let (Some(run), at) = (run, place_u8(slot)) else { continue };
            if left.rounds > 0 && run.step == Step::Ask {
                actions.push(Action::Round(at));
            }
            if left.failures > 0 && matches!(run.step, Step::Ask | Step::Send(_)) {
                actions.push(Action::Fail(at));
            }
            if left.failures > 0 && run.step == Step::Ask {
                actions.push(Action::GiveUp(at));
            }
            if !run.is_newest && !matches!(run.step, Step::Claim | Step::LookWhoTookIt) {
                actions.push(Action::Notice(at));
            }
            if left.crashes > 0 {
                actions.push(Action::Crash(at));
            }
        }
        if left.lapses > 0 && state.queue.first().is_some_and(|entry| entry.held_by.is_some()) {
            actions.push(Action::Lapse);
        }
        if left.expiries > 0 && state.head.lease == Lease::Run && state.has_living_holder() {
            actions.push(Action::Expire);
        }
        if left.visits > 0 && state.visit.is_none() && matches!(state.head.lease, Lease::Free | Lease::Over) {
            actions.push(Action::Visit);
        }
        if left.crashes > 0 && state.visit.is_some() {
            actions.push(Action::VisitCrash);
        }
    }

    pub fn apply(&self, state: &State, action: Action) -> State {
        let mut state = state.clone();
        match action {
            Action::Post(place) => self.post(&mut state, place.into(), true),
            Action::PostDropped(place) => self.post(&mut state, place.into(), false),
            Action::PostCrash(place) => {
                state.left.crashes -= 1;
                state.posts[usize::from(place)] = Post::Waiting;
            }
            Action::Repeat(place) => {
                state.left.repeats -= 1;
                state.posts[usize::from(place)] = Post::Waiting;
            }
            Action::Deliver(slot) => {
                let entry = &mut state.queue[0];
                entry.held_by = Some(slot);
                state.runs[usize::from(slot)] = Some(Run::new(*entry));
            }
            Action::Run(slot) => self.run(&mut state, slot.into()),
            Action::Round(slot) => {
                state.left.rounds -= 1;
                self.round(&mut state, slot.into());
            }
            Action::Fail(slot) => {
                state.left.failures -= 1;
                state.run_mut(slot.into()).step = Step::Release { is_done: false };
            }
            Action::GiveUp(slot) => {
                state.left.failures -= 1;
                let run = state.run_mut(slot.into());
                run.step = Self::behind_asking(*run, Kind::Failure);
            }
            Action::Notice(slot) => state.run_mut(slot.into()).step = Step::LookWhoTookIt,
            Action::Crash(slot) => {
                state.left.crashes -= 1;
                state.end(slot.into(), self.flaw == Some(Flaw::LostFailures));
            }
            Action::Lapse => {
                state.left.lapses -= 1;
                state.queue[0].held_by = None;
            }
            Action::Expire => {
                if state.has_living_holder() {
                    state.left.expiries -= 1;
                }
                state.head.lease = Lease::Over;
            }
            Action::Visit => {
                state.left.visits -= 1;
                state.take();
                state.end_claims();
                state.head.lease = Lease::Upkeep;
                state.visit = Some(true);
            }
            Action::VisitEnds => {
                if state.visit == Some(true) {
                    state.head.lease = Lease::Free;
                }
                state.visit = None;
            }
            Action::VisitCrash => {
                state.left.crashes -= 1;
                state.visit = None;
            }
        }
        state
    }

    fn post(&self, state: &mut State, place: usize, is_taken: bool) {
        let said = self.said[place];
        state.posts[place] = match (state.posts[place], said) {
            (Post::Waiting, Said::Tells) => {
                state.stored |= 1 << place;
                Post::Done
            }
            (Post::Waiting, _) => {
                state.repeated |= state.stored & 1 << place;
                state.stored |= 1 << place;
                Post::Appended
            }
            (Post::Appended, Said::Stop) => {
                let is_mine = state.head.stopped_to == Some(place_u8(place));
                let has_ended = state.replies.iter().flatten().any(|reply| reply.kind == Kind::Stopped);
                match finds_something(&self.said, state, place) {
                    true => Post::Decided,
                    false if is_mine || has_ended => Post::Taken,
                    false => Post::Done,
                }
            }
            (Post::Decided, _) => {
                if state.head.stopped_to.is_none_or(|stop| usize::from(stop) < place) {
                    if self.flaw != Some(Flaw::UnfencedStops) {
                        state.take();
                        // For a moment, only the stopped run may claim the chat.
                        if state.head.lease != Lease::Run {
                            state.head.lease = Lease::Free;
                        }
                    }
                    state.head.stopped_to = Some(place_u8(place));
                    let committed = state.head.turn.map_or(0, |turn| turn.covers);
                    state.to_stop = self.unanswered(state) & ((1 << place) - 1) & !committed;
                }
                Post::Taken
            }
            (Post::Appended | Post::Taken, _) => {
                let is_silent = self.flaw == Some(Flaw::SilentDuplicates) && state.repeated & 1 << place != 0;
                if is_taken && !is_silent {
                    state.queue.push(Entry { from: place_u8(place), held_by: None });
                    state.queued |= 1 << place;
                }
                Post::Done
            }
            (Post::Done, _) => Post::Done,
        };
    }

    /// Takes a run's next step; after its last one the run is removed.
    fn run(&self, state: &mut State, slot: usize) {
        let run = *state.run_mut(slot);
        // Step after an action that the fence did not allow.
        let or_lost = |is_allowed: bool, step: Step| if is_allowed { step } else { Step::LookWhoTookIt };
        let step = match run.step {
            Step::Claim if state.head.lease == Lease::Run && !run.is_last_claim => {
                return state.end(slot, false);
            }
            Step::Claim => {
                self.claim(state, slot);
                Step::Look
            }
            Step::Look => self.look(state, slot),
            Step::Ask => Self::behind_asking(run, Kind::Answer),
            Step::Commit(kind) => or_lost(self.commit(state, run, run.turn), Step::Put(kind)),
            Step::Put(kind) => self.put(state, run, kind),
            Step::Recommit => or_lost(self.commit(state, run, run.turn), Step::Send(run.turn.sent)),
            Step::Send(piece) => {
                let times = &mut state.sent[run.turn.place()][usize::from(piece)];
                *times = times.saturating_add(1);
                state.run_mut(slot).late_sends += u8::from(!run.is_newest);
                if piece + 1 < self.pieces { Step::Note(piece + 1) } else { Self::last_step(run) }
            }
            Step::Note(sent) => or_lost(self.commit(state, run, Turn { sent, ..run.turn }), Step::Send(sent)),
            Step::Finish { .. } | Step::Release { is_done: true } if !run.is_newest => Step::LookWhoTookIt,
            Step::Finish { has_stopped, goes_on } => {
                (state.head.lease, state.head.turn) = (Lease::Free, None);
                if has_stopped {
                    state.head.stopped_to = None;
                }
                if !goes_on {
                    return state.end(slot, true);
                }
                *state.run_mut(slot) = run.anew();
                Step::Claim
            }
            Step::Release { is_done } => {
                if run.is_newest {
                    state.head.lease = Lease::Free;
                }
                return state.end(slot, is_done);
            }
            Step::LookWhoTookIt if state.head.stopped_to.is_none() => return state.end(slot, false),
            Step::LookWhoTookIt => {
                *state.run_mut(slot) = Run { is_last_claim: run.is_last_claim, ..run.anew() };
                Step::Claim
            }
        };
        state.run_mut(slot).step = step;
    }

    fn claim(&self, state: &mut State, slot: usize) {
        state.take();
        state.end_claims();
        state.head.lease = Lease::Run;
        let head = state.head;
        let is_forgotten = self.flaw == Some(Flaw::ForgottenTurns);
        let run = state.run_mut(slot);
        *run = Run {
            turn_claimed: head.turn.filter(|_| !is_forgotten),
            stop_claimed: head.stopped_to,
            is_newest: true,
            is_last_claim: true,
            ..run.anew()
        };
    }

    /// Reads the records, and follows the code's decision.
    fn look(&self, state: &mut State, slot: usize) -> Step {
        let run = *state.run_mut(slot);
        let is_committed = run.turn_claimed.is_some();
        let has_stopped = run.stop_claimed.is_some() && !is_committed;
        let decision = decide(&self.said, state, run.turn_claimed, run.stop_claimed);
        let own = state.run_mut(slot);
        match decision {
            Decision::Nothing if has_stopped => Step::Finish { has_stopped, goes_on: false },
            Decision::Nothing => Step::Release { is_done: true },
            Decision::End(turn) => {
                (own.turn, own.ends, own.leaves_more) = (turn, true, true);
                match state.replies[turn.place()] {
                    Some(_) => Step::Finish { has_stopped: false, goes_on: true },
                    None if is_committed => Step::Put(Kind::Stopped),
                    None => Step::Commit(Kind::Stopped),
                }
            }
            Decision::Answer { turn, leaves_more, has_reply } => {
                (own.turn, own.leaves_more) = (turn, leaves_more);
                if has_reply { Step::Send(turn.sent) } else { Step::Ask }
            }
        }
    }

    fn round(&self, state: &mut State, slot: usize) {
        let run = *state.run_mut(slot);
        let claimed = run.turn_claimed.filter(|_| self.flaw != Some(Flaw::LateAdditions));
        if let Some(turn) = extended(&self.said, state, claimed, run.stop_claimed, run.turn) {
            let added = run.added | turn.covers & !run.turn.covers;
            *state.run_mut(slot) = Run { turn, added, ..run };
        }
    }

    fn put(&self, state: &mut State, run: Run, kind: Kind) -> Step {
        let place = &mut state.replies[run.turn.place()];
        let is_stored = place.is_none();
        if is_stored {
            *place = Some(Reply { covers: run.turn.covers, kind });
        }
        match (run.ends, is_stored) {
            (true, _) => Step::Finish { has_stopped: self.flaw == Some(Flaw::HastyStops), goes_on: true },
            (false, true) => Step::Send(run.turn.sent),
            (false, false) => Step::Recommit,
        }
    }

    /// Sets the turn, if `run` has the newest fence.
    fn commit(&self, state: &mut State, run: Run, turn: Turn) -> bool {
        let is_allowed = run.is_newest || self.flaw == Some(Flaw::UnfencedCommits);
        if is_allowed {
            state.head.turn = Some(turn);
        }
        is_allowed
    }

    fn behind_asking(run: Run, kind: Kind) -> Step {
        if run.turn_claimed.is_some() { Step::Put(kind) } else { Step::Commit(kind) }
    }

    fn last_step(run: Run) -> Step {
        let has_stopped = run.stop_claimed.is_some() && run.turn_claimed.is_none();
        Step::Finish { has_stopped, goes_on: run.leaves_more }
    }

    /// Returns the messages that ask and are not covered.
    fn unanswered(&self, state: &State) -> Places {
        let covered = state.replies.iter().flatten().fold(0, |places, reply| places | reply.covers);
        let asks = |place: &usize| matches!(self.said[*place], Said::Asks | Said::Compact);
        let asking = (0..self.said.len()).filter(asks).fold(0, |places, place| places | 1 << place);
        state.stored & asking & !covered
    }

    /// Returns true if everything that has begun is done.
    pub fn is_at_rest(state: &State) -> bool {
        state.queue.is_empty()
            && state.runs.iter().all(Option::is_none)
            && state.visit.is_none()
            && state.posts.iter().all(|post| *post == Post::Done)
    }

    /// Returns true if nothing is open.
    fn is_settled(&self, state: &State) -> bool {
        let head = state.head;
        self.unanswered(state) == 0 && head.turn.is_none() && head.stopped_to.is_none()
    }

    /// Returns true if everything is answered on one fair path from here without further faults.
    fn settles(&self, state: &State) -> bool {
        let mut state = state.clone();
        for _ in 0..400 {
            let mut actions = Vec::new();
            self.steps(&state, &mut actions);
            let rank = |action: &Action| match action {
                Action::Post(_) => 0,
                Action::Run(_) => 1,
                Action::VisitEnds => 2,
                Action::Expire => 3,
                Action::Deliver(_) => 4,
                _ => 5,
            };
            let Some(action) = actions.into_iter().min_by_key(rank) else { return self.is_settled(&state) };
            state = self.apply(&state, action);
        }
        false
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let places = self.said.len();
        vec![State {
            posts: vec![Post::Waiting; places],
            replies: vec![None; places],
            runs: vec![None; self.runs],
            sent: vec![vec![0; self.pieces.into()]; places],
            left: self.budget,
            ..State::default()
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.steps(state, actions);
        self.faults(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        Some(self.apply(state, action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no message is covered twice", |_, state: &State| {
                let mut covered: Places = 0;
                state.replies.iter().flatten().all(|reply| {
                    let is_new = covered & reply.covers == 0;
                    covered |= reply.covers;
                    is_new
                })
            }),
            Property::always(
                "a reply stands after the last that it covers, all of which is stored",
                |_, state: &State| {
                    let after = |(place, reply): (usize, &Option<Reply>)| {
                        reply.is_none_or(|reply| {
                            let turn = Turn { covers: reply.covers, sent: 0 };
                            turn.place() == place && reply.covers & !state.stored == 0
                        })
                    };
                    state.replies.iter().enumerate().all(after)
                },
            ),
            Property::always(
                "a run that has the chat and a turn finds that very turn in the head",
                |_, state: &State| {
                    state.runs.iter().flatten().all(|run| {
                        let is_open = matches!(run.step, Step::Put(_) | Step::Send(_) | Step::Note(_));
                        let covers = state.head.turn.map(|turn| turn.covers);
                        !run.is_newest || !is_open || covers == Some(run.turn.covers)
                    })
                },
            ),
            Property::always("one run at most has the newest fence", |_, state: &State| {
                let runs = state.runs.iter().flatten().filter(|run| run.is_newest).count();
                runs + usize::from(state.visit == Some(true)) <= 1
            }),
            Property::always("only what is stored is sent", |_, state: &State| {
                state.sent.iter().enumerate().all(|(place, pieces)| {
                    pieces.iter().all(|times| *times == 0) || state.replies[place].is_some()
                })
            }),
            Property::always("who has lost the chat sends one piece at most", |_, state: &State| {
                state.runs.iter().flatten().all(|run| run.late_sends <= 1)
            }),
            Property::always(
                "a piece is sent again after a fault only, and once for each",
                |model: &Self, state: &State| {
                    let spent = |of: fn(&Budget) -> u8| of(&model.budget) - of(&state.left);
                    let stops = u8::from(model.said.contains(&Said::Stop));
                    let faults = spent(|b| b.crashes) + spent(|b| b.expiries) + spent(|b| b.failures) + stops;
                    let again =
                        |pieces: &Vec<u8>| pieces.iter().map(|times| times.saturating_sub(1)).sum::<u8>();
                    state.sent.iter().map(again).sum::<u8>() <= faults
                },
            ),
            Property::always("what was stopped is not answered", |_, state: &State| {
                let others = state.replies.iter().flatten().filter(|reply| reply.kind != Kind::Stopped);
                others.fold(0, |covered, reply| covered | reply.covers) & state.to_stop == 0
            }),
            Property::always("at rest nothing is open", |model: &Self, state: &State| {
                !Self::is_at_rest(state) || model.is_settled(state)
            }),
            Property::always("everything is answered once nothing goes wrong", Self::settles),
            Property::sometimes(
                "a reply answers what came while it was made",
                |model: &Self, state: &State| {
                    let answers = |run: &Run| run.added != 0 && run.step == Step::Send(0);
                    model.budget.rounds == 0 || state.runs.iter().flatten().any(answers)
                },
            ),
            Property::sometimes("all is answered", |model: &Self, state: &State| {
                Self::is_at_rest(state) && model.is_settled(state)
            }),
        ]
    }
}

impl State {
    fn run_mut(&mut self, slot: usize) -> &mut Run {
        self.runs[slot].get_or_insert_default()
    }

    /// Gives the next fence to another process: no run has the newest.
    fn take(&mut self) {
        for run in self.runs.iter_mut().flatten() {
            run.is_newest = false;
        }
        self.visit = self.visit.map(|_| false);
    }

    /// Makes a claim the last one.
    fn end_claims(&mut self) {
        for run in self.runs.iter_mut().flatten() {
            run.is_last_claim = false;
        }
    }

    /// Returns true if the holder of the lease is alive.
    fn has_living_holder(&self) -> bool {
        let is_held = |run: &Run| run.is_newest && run.step != Step::Claim;
        self.runs.iter().flatten().any(is_held) || self.visit == Some(true)
    }

    /// Ends a run. The queue's turn is done, or is delivered again, unless another run has it by then.
    fn end(&mut self, slot: usize, is_done: bool) {
        self.runs[slot] = None;
        if self.queue.first().is_some_and(|entry| entry.held_by == Some(place_u8(slot))) {
            if is_done {
                self.queue.remove(0);
            } else {
                self.queue[0].held_by = None;
            }
        }
    }
}

impl Run {
    fn new(entry: Entry) -> Self {
        Self { from: entry.from, ..Self::default() }
    }

    /// Returns the run before its next claim.
    fn anew(self) -> Self {
        Self { from: self.from, ..Self::default() }
    }
}

fn place_u8(place: usize) -> u8 {
    u8::try_from(place).unwrap_or(u8::MAX)
}
