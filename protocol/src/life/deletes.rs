//! The steps of a deletion: claim, wait, delete memory and items by pages, delete the objects, empty the
//! head.

use super::records::{due, expiry};
use super::state::{Age, DeleteStep, Head, Lease, RunStep, State, VisitStep};
use super::{Flaw, Life};

impl Life {
    /// Does the next step of a deletion, as `forgetting::forget` does.
    pub(super) fn delete(&self, state: &mut State, slot: u8) {
        let Some(mut delete) = state.deletes[usize::from(slot)].take() else { return };
        let has_chat = delete.is_newest && state.head.is_some();
        let next = match delete.step {
            DeleteStep::Claim => self.claim_to_forget(state, &mut delete.is_newest),
            DeleteStep::Wait => {
                state.end_losers();
                Some(DeleteStep::Memory)
            }
            // Both read the page; who spoke in it is forgotten before it is.
            DeleteStep::Memory if state.has_nothing_to_erase() => Some(DeleteStep::Objects),
            DeleteStep::Memory => {
                state.memory = None;
                Some(DeleteStep::Page)
            }
            DeleteStep::Page => has_chat.then(|| {
                self.delete_page(state);
                DeleteStep::Memory
            }),
            DeleteStep::Objects => {
                state.objects.clear();
                Some(DeleteStep::Empty)
            }
            DeleteStep::Empty => {
                if has_chat {
                    let has_date = self.is_without(Flaw::ExpiringHead);
                    state.head = Some(Head {
                        forgotten_at: Some(state.now),
                        due: Some(due(state.now)),
                        expires: has_date.then(|| expiry(state.now)),
                        ..Head::default()
                    });
                    state.is_forgetting = false;
                    state.grow_old(Age::Doomed, Age::Forgotten);
                }
                None
            }
        };
        if let Some(step) = next {
            delete.step = step;
            state.deletes[usize::from(slot)] = Some(delete);
        }
    }

    /// Claims the chat, and takes it from everybody but another deletion, which has it.
    fn claim_to_forget(&self, state: &mut State, is_newest: &mut bool) -> Option<DeleteStep> {
        let head = state.head.unwrap_or_default();
        if !*is_newest {
            if head.lease == Lease::Forgetting {
                return None;
            }
            state.take(Lease::Forgetting);
            *is_newest = true;
            state.begin_forgetting();
        }
        let is_taken = head.is_taken || matches!(head.lease, Lease::Run | Lease::Upkeep);
        let next = due(state.now);
        let head = state.head_mut();
        (head.is_taken, head.expires) = (is_taken, None);
        if !self.is_without(Flaw::AbandonedDelete) {
            head.due = head.due.or(Some(next));
        }
        let waits = is_taken && !self.is_without(Flaw::HastyDelete);
        Some(if waits { DeleteStep::Wait } else { DeleteStep::Memory })
    }

    /// Deletes the next items; pointers come before records.
    fn delete_page(&self, state: &mut State) {
        state.listing = None;
        let pointers = self.page.min(state.pointers.len());
        state.pointers.drain(..pointers);
        let records = (self.page - pointers).min(state.table.len());
        state.table.drain(..records);
    }
}

impl State {
    /// Notes that everything up to now is to be forgotten, and that nothing of it has to be there from now
    /// on.
    fn begin_forgetting(&mut self) {
        self.is_forgetting = true;
        self.acknowledged = 0;
        self.covered = [0; 2];
        self.grow_old(Age::Fresh, Age::Doomed);
        for post in &mut self.posts {
            post.overlaps |= post.is_under_way();
        }
    }

    /// Returns true if a deletion finds no more items.
    fn has_nothing_to_erase(&self) -> bool {
        self.table.is_empty() && self.pointers.is_empty() && self.listing.is_none()
    }

    /// Lets who has lost the chat die.
    fn end_losers(&mut self) {
        for slot in 0..self.runs.len() {
            let has_lost = |run: &super::state::Run| !run.is_newest && run.step != RunStep::Claim;
            if self.runs[slot].as_ref().is_some_and(has_lost) {
                self.end_run(super::index(slot), false);
            }
        }
        for visit in &mut self.visits {
            // What follows a visit is not ended with it.
            let has_lost = |visit: &super::state::Visit| !visit.is_newest && visit.step != VisitStep::Settle;
            if visit.as_ref().is_some_and(has_lost) {
                *visit = None;
            }
        }
    }
}
