//! The steps of a visit: archive, delete the head of a forgotten chat, capture memory, summarise or prolong,
//! finish, and tell the index.

use super::records::{due, expiry, see};
use super::state::{
    Content, Form, Item, Kept, Key, Lease, Object, Pointer, State, Stretch, Visit, VisitStep,
};
use super::{Flaw, Life};

impl Life {
    /// Starts a visit, which claims the chat: nobody has it.
    pub(super) fn begin_visit(&self, state: &mut State, slot: u8) {
        state.take(Lease::Upkeep);
        let is_without = self.is_without(Flaw::ExpiringHead);
        let head = state.head_mut();
        head.expires = head.expires.filter(|_| is_without);
        let forgotten_at = head.forgotten_at;
        let visit = Visit { is_newest: true, born: state.now, forgotten_at, ..Visit::default() };
        state.visits[usize::from(slot)] = Some(visit);
    }

    /// Does the next step of a visit, as `Upkeep::visit` and `History::archive_all` do.
    pub(super) fn visit(&self, state: &mut State, slot: u8) {
        let Some(mut visit) = state.visits[usize::from(slot)].take() else { return };
        let has_chat = visit.is_newest && state.head.is_some();
        let forgotten_until = visit.forgotten_at.map(due);
        let step = match visit.step {
            VisitStep::Choose => Self::choose(state, &mut visit),
            VisitStep::Object(stretch) => {
                if !state.objects.iter().any(|object| object.stretch == stretch) {
                    let records = std::mem::take(&mut visit.batch);
                    state.objects.push(Object { stretch, records });
                    state.objects.sort_by_key(|object| object.stretch);
                }
                visit.batch.clear();
                Some(VisitStep::Pointer(stretch))
            }
            VisitStep::Pointer(stretch) => {
                if !state.pointers.iter().any(|pointer| pointer.stretch.1 == stretch.1) {
                    state.pointers.push(Pointer { stretch, age: visit.age });
                    state.pointers.sort_by_key(|pointer| pointer.stretch.1);
                    state.runs.iter_mut().flatten().for_each(|run| run.meets_archiving = true);
                    for post in state.posts.iter_mut().filter(|post| post.is_under_way()) {
                        post.meets_archiving = true;
                    }
                }
                Some(VisitStep::Choose)
            }
            VisitStep::EndArchiving => has_chat.then(|| {
                state.head_mut().archiving = None;
                VisitStep::Empty
            }),
            VisitStep::Empty => match forgotten_until {
                Some(until) if state.table.is_empty() && state.pointers.is_empty() => {
                    visit.next = Some(until).filter(|until| *until > state.now);
                    Some(if visit.next.is_some() { VisitStep::Finish } else { VisitStep::RemoveHead })
                }
                _ => Some(VisitStep::See),
            },
            VisitStep::RemoveHead => has_chat.then(|| {
                state.listing = None;
                state.remove_head();
                VisitStep::Settle
            }),
            VisitStep::See => {
                self.see(state, &mut visit);
                Some(VisitStep::Capture)
            }
            VisitStep::Capture => {
                if !state.table.is_empty() || !visit.keep.is_empty() {
                    state.memory = state.memory.max(Some(visit.age));
                    if !self.is_without(Flaw::LatePlace) {
                        state.listing = state.listing.max(Some(visit.age));
                    }
                }
                Some(if visit.keep.is_empty() { VisitStep::Finish } else { VisitStep::Prolong })
            }
            VisitStep::Summary { place, counts } => {
                let key = Key { place, form: Form::Summary };
                state.put(Kept { key, content: Content::A, covers: counts, age: visit.age }, 0, true);
                Some(VisitStep::See)
            }
            VisitStep::Prolong => {
                let key = visit.keep.remove(0);
                let (now, until) = (state.now, expiry(state.now));
                let may_prolong = |item: &Item| item.expires > now || self.is_without(Flaw::RevivedAlone);
                let item = state.table.iter_mut().find(|item| item.kept.key == key);
                if let Some(item) = item.filter(|item| may_prolong(item)) {
                    item.expires = item.expires.max(until);
                }
                Some(if visit.keep.is_empty() { VisitStep::Finish } else { VisitStep::Prolong })
            }
            VisitStep::Finish => has_chat.then(|| {
                let is_over = forgotten_until.is_some_and(|until| until <= state.now);
                let head = state.head_mut();
                head.lease = Lease::Free;
                head.forgotten_at = head.forgotten_at.filter(|_| !is_over);
                VisitStep::Settle
            }),
            VisitStep::Settle => {
                Self::settle(state, &visit);
                if self.is_without(Flaw::LatePlace) {
                    state.listing = state.listing.max(Some(visit.age));
                }
                None
            }
        };
        // A visit that has lost the chat ends at its next write to the head.
        state.visits[usize::from(slot)] = step.map(|step| Visit { step, ..visit });
    }

    /// Finishes the stretch in the head, or else commits to the next one.
    fn choose(state: &mut State, visit: &mut Visit) -> Option<VisitStep> {
        let committed = state.head.and_then(|head| head.archiving);
        if let Some(stretch) = committed
            && !state.pointers.iter().any(|pointer| pointer.stretch.1 == stretch.1)
        {
            if state.objects.iter().any(|object| object.stretch == stretch) {
                return Some(VisitStep::Pointer(stretch));
            }
            visit.batch = Self::unarchived(state, |item| (stretch.0..=stretch.1).contains(&item.kept.key));
            if !visit.batch.is_empty() {
                return Some(VisitStep::Object(stretch));
            }
        }
        let now = state.now;
        visit.batch = Self::unarchived(state, |item| item.sent < now);
        let Some(stretch) = ends(&visit.batch) else {
            return Some(if committed.is_some() { VisitStep::EndArchiving } else { VisitStep::Empty });
        };
        if !visit.is_newest || state.head.is_none() {
            return None;
        }
        let head = state.head_mut();
        (head.archiving, head.has_archive) = (Some(stretch), true);
        Some(VisitStep::Object(stretch))
    }

    /// Returns the records in the table that no segment holds, as far as readers can tell.
    fn unarchived(state: &State, is_wanted: impl Fn(&Item) -> bool) -> Vec<Kept> {
        let is_known = |key: Key| state.found_in_archive().any(|kept| kept.key == key);
        let wanted = state.table.iter().filter(|item| is_wanted(item) && !is_known(item.kept.key));
        wanted.map(|item| item.kept).collect()
    }

    fn see(&self, state: &State, visit: &mut Visit) {
        let seen = see(self.script, &state.table, state.now);
        let is_alone = self.is_without(Flaw::ProlongedAlone);
        visit.keep = seen.keep;
        visit.keep.retain(|key| key.form != Form::Reply || !is_alone);
        let unsettled = state.table.iter().filter(|item| item.sent == state.now).map(|item| due(item.sent));
        let forgotten = visit.forgotten_at.map(due).filter(|until| *until > state.now);
        let next = seen.next.into_iter().chain(unsettled).chain(forgotten).min();
        visit.next = next.map(|next| next.max(state.now + 1));
    }

    /// Returns true if a visit may make a summary of what it sees now: everything up to there is archived.
    pub(super) fn can_summarise(&self, state: &State) -> bool {
        let Some(place) = see(self.script, &state.table, state.now).summary else { return false };
        let is_raw = |item: &Item| item.kept.key.place <= place;
        Self::unarchived(state, is_raw).is_empty()
    }

    /// Captures memory, and plans a summary.
    pub(super) fn summarise(&self, state: &mut State, slot: u8) {
        let seen = see(self.script, &state.table, state.now);
        let Some(place) = seen.summary else { return };
        let Some(visit) = &mut state.visits[usize::from(slot)] else { return };
        state.memory = state.memory.max(Some(visit.age));
        visit.step = VisitStep::Summary { place, counts: seen.counts };
        visit.keep.clear();
        if !visit.is_newest || state.head.is_none() {
            state.visits[usize::from(slot)] = None;
        }
    }

    /// Removes the entries that the visit has answered, and adds the one for the next visit.
    fn settle(state: &mut State, visit: &Visit) {
        let is_answered = |entry: &u8| *entry <= visit.born;
        if let Some(next) = visit.next {
            let head = state.head_mut();
            let due = head.due.filter(|entry| !is_answered(entry));
            head.due = Some(due.map_or(next, |due| due.min(next)));
        } else if let Some(head) = &mut state.head {
            head.due = head.due.filter(|entry| !is_answered(entry));
        }
        for item in &mut state.table {
            item.due = item.due.filter(|entry| !is_answered(entry));
        }
    }
}

/// Returns the ends of a segment of these records, which are in order.
fn ends(records: &[Kept]) -> Option<Stretch> {
    Some((records.first()?.key, records.last()?.key))
}
