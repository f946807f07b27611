//! The properties of a record's life.

use std::cell::RefCell;
use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use stateright::Property;

use super::records::{Decision, Look, decide};
use super::state::{Age, Budget, Content, Form, Lease, PostStep, State};
use super::{Action, Life, Process, Said};

pub const LISTED: &str = "an acknowledged message is listed exactly once until it is forgotten";
pub const FORGOTTEN: &str = "what is forgotten stays forgotten";
pub const COVERED: &str = "each message is covered exactly once";
pub const PROGRESS: &str = "a chat with something unanswered can always make progress";
pub const ARCHIVED: &str = "nothing leaves the table that no segment holds";

/// Maximum number of steps after which everything that was begun is done.
const STEPS: usize = 200;

thread_local! {
    /// The states from which everything is answered once nothing more goes wrong.
    static SETTLING: RefCell<HashSet<u64>> = RefCell::default();
}

pub(super) fn all() -> Vec<Property<Life>> {
    vec![
        Property::always(LISTED, |model: &Life, state: &State| {
            let listed = state.listed();
            let is_listed_once = |said: &Said| {
                let is_form = |form| matches!(form, Form::First | Form::Later(_));
                let of_it =
                    listed.iter().filter(|kept| kept.key.place == said.place && is_form(kept.key.form));
                of_it.filter(|kept| kept.content == said.content).count() == 1
            };
            let mut acknowledged = model.said.iter().filter(|said| state.acknowledged & said.bit() != 0);
            acknowledged.all(is_listed_once)
        }),
        Property::always(FORGOTTEN, |_, state: &State| {
            let archived = state.objects.iter().flat_map(|object| &object.records);
            let kept = state.table.iter().map(|item| &item.kept).chain(archived).map(|kept| kept.age);
            let pointers = state.pointers.iter().map(|pointer| pointer.age);
            !kept.chain(pointers).chain(state.memory).chain(state.listing).any(|age| age == Age::Forgotten)
        }),
        // Once at most; that each is covered at all follows from the next property.
        Property::always(COVERED, |_, state: &State| state.covered.iter().all(|times| *times <= 1)),
        Property::always(PROGRESS, Life::settles),
        Property::always(ARCHIVED, |_, state: &State| !state.has_lost),
        Property::always("one process at most has the newest fence", |_, state: &State| {
            let runs = state.runs.iter().flatten().filter(|run| run.is_newest).count();
            let visits = state.visits.iter().flatten().filter(|visit| visit.is_newest).count();
            let deletes = state.deletes.iter().flatten().filter(|delete| delete.is_newest).count();
            runs + visits + deletes <= 1
        }),
        Property::sometimes("a message is in the archive alone", |_, state: &State| {
            let has_left = |kept: &super::state::Kept| {
                let is_message = kept.key.form == Form::First && kept.content == Content::A;
                is_message && state.item(kept.key).is_none()
            };
            state.found_in_archive().any(has_left)
        }),
        Property::sometimes("all is done", |model: &Life, state: &State| {
            state.is_at_rest() && state.now == model.last && state.acknowledged != 0
        }),
    ]
}

impl Life {
    /// Returns true if something in the table waits for its answer.
    fn waits(&self, state: &State) -> bool {
        let (table, now) = (state.table.clone(), state.now);
        let look = Look { table, archived: Vec::new(), turn: None, lapses_late_by: 0, now };
        decide(self.script, look) != Decision::Nothing
    }

    /// Returns true if everything is answered and visited once nothing more goes wrong, by one fair way on.
    fn settles(&self, state: &State) -> bool {
        // The same whatever might still have gone wrong.
        let mut state = State { left: Budget::default(), ..state.clone() };
        let mut way = Vec::new();
        for _ in 0..STEPS {
            let mark = self.mark(&state);
            if SETTLING.with_borrow(|known| known.contains(&mark)) {
                SETTLING.with_borrow_mut(|known| known.extend(way));
                return true;
            }
            way.push(mark);
            let mut actions = Vec::new();
            self.steps(&state, &mut actions);
            let rank = |action: &Action| match action {
                Action::Step(Process::Delete(_)) => Some(0),
                Action::Step(Process::Post(_)) => Some(1),
                Action::Step(Process::Run(_)) => Some(2),
                Action::Step(Process::Visit(_)) => Some(3),
                Action::EndLease => Some(4),
                Action::BeginDelete(_) => Some(5),
                Action::Deliver(_) => Some(6),
                Action::BeginVisit(_) => Some(7),
                _ => None,
            };
            let next = actions.into_iter().filter_map(|action| Some((rank(&action)?, action)));
            let Some((_, action)) = next.min_by_key(|(rank, _)| *rank) else {
                let is_settled = self.is_settled(&state);
                if is_settled {
                    SETTLING.with_borrow_mut(|known| known.extend(way));
                }
                return is_settled;
            };
            state = self.apply(&state, action);
        }
        false
    }

    fn is_settled(&self, state: &State) -> bool {
        let is_free = state.head.is_none_or(|head| head.lease == Lease::Free && head.turn.is_none());
        is_free && state.turns == 0 && !self.waits(state) && !state.is_due()
    }

    fn mark(&self, state: &State) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self, state).hash(&mut hasher);
        hasher.finish()
    }
}

impl State {
    /// Returns true if everything that was begun is done.
    fn is_at_rest(&self) -> bool {
        let is_quiet = |post: &super::state::Post| post.step == PostStep::Done;
        self.turns == 0
            && self.posts.iter().all(is_quiet)
            && self.runs.iter().all(Option::is_none)
            && self.visits.iter().all(Option::is_none)
            && self.deletes.iter().all(Option::is_none)
    }
}
