//! The processes of a state, and who of them has the chat.

use super::Process;
use super::state::{DeleteStep, Head, Lease, Post, PostStep, RunStep, State, VisitStep};

impl State {
    /// Lists the processes that have a next step.
    pub(super) fn processes(&self) -> Vec<Process> {
        let mut processes = Vec::new();
        for (slot, post) in (0..).zip(&self.posts) {
            if post.step != PostStep::Done {
                processes.push(Process::Post(slot));
            }
        }
        processes
            .extend((0..).zip(&self.runs).filter(|(_, run)| run.is_some()).map(|(at, _)| Process::Run(at)));
        let visits = (0..).zip(&self.visits).filter(|(_, visit)| visit.is_some());
        processes.extend(visits.map(|(at, _)| Process::Visit(at)));
        let deletes = (0..).zip(&self.deletes).filter(|(_, delete)| delete.is_some());
        processes.extend(deletes.map(|(at, _)| Process::Delete(at)));
        processes
    }

    /// Returns true if `process` has made a request: before that, its death changes nothing.
    pub(super) fn has_begun(&self, process: Process) -> bool {
        match process {
            Process::Post(slot) => self.posts[usize::from(slot)].is_under_way(),
            Process::Run(slot) => self.runs[usize::from(slot)].is_some_and(|run| run.step != RunStep::Claim),
            Process::Visit(_) => true,
            Process::Delete(slot) => {
                self.deletes[usize::from(slot)].is_some_and(|delete| delete.step != DeleteStep::Claim)
            }
        }
    }

    /// Returns true if the next step of `process` is a write.
    pub(super) fn writes_next(&self, process: Process) -> bool {
        match process {
            Process::Post(slot) => self.posts[usize::from(slot)].is_under_way(),
            Process::Run(slot) => self.runs[usize::from(slot)].is_some_and(|run| run.step != RunStep::Look),
            Process::Visit(slot) => self.visits[usize::from(slot)]
                .as_ref()
                .is_some_and(|visit| !matches!(visit.step, VisitStep::See | VisitStep::Empty)),
            Process::Delete(slot) => {
                self.deletes[usize::from(slot)].is_some_and(|delete| delete.step != DeleteStep::Wait)
            }
        }
    }

    /// Lets `process` do its step again, which it did from `before` on without learning so.
    pub(super) fn repeat_step(&mut self, before: &State, process: Process) {
        let has_head = self.head.is_some();
        match process {
            Process::Post(slot) => {
                let slot = usize::from(slot);
                self.posts[slot] = before.posts[slot];
            }
            Process::Run(slot) => {
                let slot = usize::from(slot);
                let is_newest = self.runs[slot].map(|run| run.is_newest);
                self.runs[slot] = before.runs[slot];
                // The queue learns of a run's end after it.
                (self.turns, self.held_by) = (before.turns, before.held_by);
                if let (Some(run), Some(is_newest)) = (&mut self.runs[slot], is_newest) {
                    // A run that has finished has no claim under way yet.
                    run.is_newest = has_head && (is_newest || run.step != RunStep::Claim && run.is_newest);
                }
            }
            Process::Visit(slot) => {
                let slot = usize::from(slot);
                self.visits[slot].clone_from(&before.visits[slot]);
                if let Some(visit) = &mut self.visits[slot] {
                    visit.is_newest &= has_head;
                }
            }
            Process::Delete(slot) => {
                let slot = usize::from(slot);
                let is_newest = self.deletes[slot].map(|delete| delete.is_newest);
                self.deletes[slot] = before.deletes[slot];
                if let Some(delete) = &mut self.deletes[slot] {
                    delete.is_newest = is_newest.unwrap_or(delete.is_newest);
                }
            }
        }
    }

    /// Returns the head, which the first update makes.
    pub(super) fn head_mut(&mut self) -> &mut Head {
        self.head.get_or_insert_default()
    }

    /// Gives the next fence to somebody: no process has the newest.
    pub(super) fn take(&mut self, lease: Lease) {
        self.lose_fences();
        let head = self.head_mut();
        head.lease = lease;
    }

    pub(super) fn lose_fences(&mut self) {
        self.runs.iter_mut().flatten().for_each(|run| run.is_newest = false);
        self.visits.iter_mut().flatten().for_each(|visit| visit.is_newest = false);
        self.deletes.iter_mut().flatten().for_each(|delete| delete.is_newest = false);
    }

    pub(super) fn remove_head(&mut self) {
        self.lose_fences();
        self.head = None;
    }

    /// Returns true if who has the lease is alive.
    pub(super) fn has_living_holder(&self) -> bool {
        self.runs.iter().flatten().any(|run| run.is_newest)
            || self.visits.iter().flatten().any(|visit| visit.is_newest && visit.step != VisitStep::Settle)
            || self.deletes.iter().flatten().any(|delete| delete.is_newest)
    }

    /// Returns true if some process must end before the time moves on.
    pub(super) fn has_old_process(&self) -> bool {
        let mut posts = self.posts.iter().filter(|post| post.is_under_way());
        posts.any(|post| post.born < self.now || post.meets_archiving)
            || self.runs.iter().flatten().any(|run| run.born < self.now || run.meets_archiving)
            || self.visits.iter().flatten().any(|visit| visit.born < self.now || !visit.keep.is_empty())
            || self
                .deletes
                .iter()
                .flatten()
                .any(|delete| delete.born < self.now || delete.step == DeleteStep::Empty)
    }
}

impl Post {
    /// Returns true if its process has made a request.
    pub(super) fn is_under_way(&self) -> bool {
        !matches!(self.step, PostStep::Waiting | PostStep::Done)
    }
}
