//! The life of a record as a model: append, redelivery, revision, answer, prolonging, summary, visit, archive, TTL,
//! DELETE and a repeated message, step by step, with every fault that can happen between two steps.
//!
//! One chat is modelled, with two messages at most. A step is one request to a store, or several of one process if no
//! other process can see a state between them. The product's own functions decide the number of a form, the messages
//! that may have left the table, the next step of a run, the records that a visit shows, and every date ([`records`]).
//!
//! These assumptions replace the product's timing:
//!
//! - A process lives for minutes and a tick is hours: a process meets one end of a tick at most. It meets
//!   none if it has met the archiving of a record, which is a tick before that may leave the table.
//! - A visit prolongs the records that it has read within seconds, so before the time moves on.
//! - A deletion that empties the head does so again within seconds if the answer is lost.
//! - The compactor works: the time moves on after each chat that was due has been visited.
//! - A deletion that breaks off is requested again before the time moves on, except with [`Life::gives_up`].
//! - A lease ends after its holder is dead.
//!
//! TTL deletes each item at any time from its date on, in any order, or never.
//!
//! Not modelled are large bodies, files, `/stop`, other names of the chat, several lines of a chat, and the hint for
//! the start of a context.
//!
//! - [`state`]: the parts of a state
//! - [`records`]: a state in the form that the product's functions take
//! - [`properties`]: the properties
//! - `life/stores.rs`: the stores; `life/processes.rs`: the processes, and the one that has the chat
//! - `life/posts.rs`, `life/runs.rs`, `life/visits.rs`, `life/deletes.rs`: the steps of each process

mod deletes;
mod posts;
mod processes;
pub mod properties;
pub mod records;
mod runs;
pub mod state;
mod stores;
mod visits;

use stateright::{Model, Property};

use self::records::Script;
use self::state::{
    Budget, Content, Delete, DeleteStep, Form, Key, Lease, Post, PostStep, Registry, State, Tick, VisitStep,
};

/// A message, or an edit of it, that its platform delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Said {
    /// The message: 0 or 1.
    pub place: u8,
    pub content: Content,
    /// The first tick in which it is delivered.
    pub from: Tick,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Life {
    pub script: Script,
    /// The deliveries, each by a webhook of its own.
    pub said: Vec<Said>,
    pub runs: usize,
    pub visits: usize,
    pub deletes: usize,
    /// Number of items that a deletion deletes at once.
    pub page: usize,
    /// The last tick.
    pub last: Tick,
    /// True if a deletion that broke off is never requested again.
    pub gives_up: bool,
    pub budget: Budget,
    /// A part of the protocol that is left out.
    pub flaw: Option<Flaw>,
}

/// A part of the protocol that is left out, to check that it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// An append reads only the table.
    BlindAppend,
    /// An emptied head has a date, which only a run's claim removes.
    ExpiringHead,
    /// A deletion does not wait for the process that lost the chat.
    HastyDelete,
    /// A message counts as unanswered for a while after its date.
    LateLapse,
    /// A visit prolongs a message without the reply or notice that covers it.
    ProlongedAlone,
    /// A run does not read the messages of the turn in the head from the archive.
    BlockedTurn,
    /// A run does not read the reply of the turn in the head from the archive.
    LostReply,
    /// A visit prolongs a message even after its date, when TTL may have deleted the record that covers it.
    RevivedAlone,
    /// A deletion that breaks off leaves no entry in the index.
    AbandonedDelete,
    /// The place in the list of chats is set after the visit has freed the chat.
    LatePlace,
    /// A later form depends on any first form, instead of the one that was read.
    BareAnchor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Process {
    /// The webhook with this delivery.
    Post(u8),
    Run(u8),
    Visit(u8),
    Delete(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Step(Process),
    /// A process does its next step, but the answer is lost, and it repeats the step.
    Lose(Process),
    Crash(Process),
    /// A platform delivers an acknowledged message again.
    Repeat(u8),
    /// The queue delivers its first turn to this process.
    Deliver(u8),
    /// The queue's first turn becomes visible again while its run lives.
    Lapse,
    BeginVisit(u8),
    /// A visit makes a summary of the records that it would prolong.
    Summarise(u8),
    /// A caller asks to delete the chat.
    BeginDelete(u8),
    /// The lease of a dead process ends.
    EndLease,
    Expire(Key),
    ExpireHead,
    Tick,
}

impl Life {
    /// Lists the actions that processes can take without faults and without time passing.
    fn steps(&self, state: &State, actions: &mut Vec<Action>) {
        for process in state.processes() {
            let Process::Post(slot) = process else {
                actions.push(Action::Step(process));
                continue;
            };
            if self.said[usize::from(slot)].from <= state.now {
                actions.push(Action::Step(process));
            }
        }
        let free = |slots: &[bool]| slots.iter().position(|is_free| *is_free).map(index);
        let runs: Vec<bool> = state.runs.iter().map(Option::is_none).collect();
        if let Some(slot) = free(&runs).filter(|_| state.turns > 0 && state.held_by.is_none()) {
            actions.push(Action::Deliver(slot));
        }
        let visits: Vec<bool> = state.visits.iter().map(Option::is_none).collect();
        let is_free = state.head.is_none_or(|head| head.lease == Lease::Free);
        if let Some(slot) = free(&visits).filter(|_| is_free && state.is_due()) {
            actions.push(Action::BeginVisit(slot));
        }
        for (slot, visit) in (0..).zip(&state.visits) {
            let Some(visit) = visit else { continue };
            if visit.step == VisitStep::Capture && self.can_summarise(state) {
                actions.push(Action::Summarise(slot));
            }
        }
        let deletes: Vec<bool> = state.deletes.iter().map(Option::is_none).collect();
        let is_asked_again = state.is_forgetting && !deletes.contains(&false);
        if let Some(slot) = free(&deletes).filter(|_| is_asked_again || state.left.deletes > 0) {
            actions.push(Action::BeginDelete(slot));
        }
        if state.head.is_some_and(|head| head.lease != Lease::Free) && !state.has_living_holder() {
            actions.push(Action::EndLease);
        }
    }

    /// Lists the possible faults, the actions of TTL, and the next tick.
    fn faults(&self, state: &State, actions: &mut Vec<Action>) {
        for process in state.processes() {
            let has_begun = state.has_begun(process);
            if state.left.crashes > 0 && has_begun {
                actions.push(Action::Crash(process));
            }
            if state.left.losses > 0 && state.writes_next(process) {
                actions.push(Action::Lose(process));
            }
        }
        for (slot, post) in (0..).zip(&state.posts) {
            if state.left.repeats > 0 && post.step == PostStep::Done {
                actions.push(Action::Repeat(slot));
            }
        }
        if state.left.lapses > 0 && state.held_by.is_some() {
            actions.push(Action::Lapse);
        }
        for item in state.table.iter().filter(|item| item.expires <= state.now) {
            actions.push(Action::Expire(item.kept.key));
        }
        if state.head.and_then(|head| head.expires).is_some_and(|at| at <= state.now) {
            actions.push(Action::ExpireHead);
        }
        if state.now < self.last && !state.is_due() && !state.is_forgetting && !state.has_old_process() {
            actions.push(Action::Tick);
        }
    }

    pub fn apply(&self, state: &State, action: Action) -> State {
        let mut state = state.clone();
        match action {
            Action::Step(process) => self.step(&mut state, process),
            Action::Lose(process) => {
                let before = state.clone();
                self.step(&mut state, process);
                state.repeat_step(&before, process);
                state.left.losses -= 1;
            }
            Action::Crash(process) => {
                state.left.crashes -= 1;
                match process {
                    Process::Post(slot) => state.posts[usize::from(slot)] = Post::WAITING,
                    Process::Run(slot) => state.end_run(slot, false),
                    Process::Visit(slot) => state.visits[usize::from(slot)] = None,
                    Process::Delete(slot) => {
                        state.deletes[usize::from(slot)] = None;
                        state.is_forgetting &= !self.gives_up;
                    }
                }
            }
            Action::Repeat(slot) => {
                state.left.repeats -= 1;
                state.posts[usize::from(slot)] = Post::WAITING;
            }
            Action::Deliver(slot) => Self::begin_run(&mut state, slot),
            Action::Lapse => {
                state.left.lapses -= 1;
                state.held_by = None;
            }
            Action::BeginVisit(slot) => self.begin_visit(&mut state, slot),
            Action::Summarise(slot) => self.summarise(&mut state, slot),
            Action::BeginDelete(slot) => {
                if !state.is_forgetting || state.deletes.iter().any(Option::is_some) {
                    state.left.deletes -= 1;
                }
                let delete = Delete { step: DeleteStep::Claim, is_newest: false, born: state.now };
                state.deletes[usize::from(slot)] = Some(delete);
            }
            Action::EndLease => state.head_mut().lease = Lease::Free,
            Action::Expire(key) => state.expire(key),
            Action::ExpireHead => state.remove_head(),
            Action::Tick => {
                state.now += 1;
                state.registry = Registry::default();
            }
        }
        state
    }

    fn step(&self, state: &mut State, process: Process) {
        match process {
            Process::Post(slot) => self.post(state, slot),
            Process::Run(slot) => self.run(state, slot),
            Process::Visit(slot) => self.visit(state, slot),
            Process::Delete(slot) => self.delete(state, slot),
        }
    }

    /// Returns true if this part of the protocol is left out.
    fn is_without(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}

impl Model for Life {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            posts: vec![Post::WAITING; self.said.len()],
            runs: vec![None; self.runs],
            visits: vec![None; self.visits],
            deletes: vec![None; self.deletes],
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
        properties::all()
    }
}

impl Key {
    /// Returns the key of the first form of the message at `place`.
    pub fn first(place: u8) -> Self {
        Self { place, form: Form::First }
    }
}

fn index(slot: usize) -> u8 {
    u8::try_from(slot).unwrap_or(u8::MAX)
}
