//! The stores of a state: the table, the archive, the index of due chats.

use super::records::{due, expiry};
use super::state::{Age, Form, Forms, Item, Kept, Key, State, Stretch};

impl State {
    /// Returns the record at `key` in the table.
    pub(super) fn item(&self, key: Key) -> Option<&Item> {
        self.table.iter().find(|item| item.kept.key == key)
    }

    /// Puts a record, unless its key is taken; returns if it did. `registers` makes it an entry of the index.
    pub(super) fn put(&mut self, kept: Kept, covered_until: u8, registers: bool) -> bool {
        let Err(at) = self.table.binary_search_by_key(&kept.key, |item| item.kept.key) else { return false };
        let expires = super::records::later(expiry(self.now), covered_until);
        let due = registers.then(|| due(self.now));
        self.table.insert(at, Item { kept, sent: self.now, expires, due });
        true
    }

    /// Deletes a record whose date has come.
    pub(super) fn expire(&mut self, key: Key) {
        let Some(at) = self.table.iter().position(|item| item.kept.key == key) else { return };
        let Kept { key, content, covers, age } = self.table.remove(at).kept;
        let is_it = |kept: &Kept| (kept.key, kept.content, kept.covers) == (key, content, covers);
        self.has_lost |= age == Age::Fresh && !self.archived().any(is_it);
    }

    /// Returns the records that pointers lead to.
    pub(super) fn archived(&self) -> impl Iterator<Item = &Kept> {
        let is_pointed_at = |stretch: Stretch| self.pointers.iter().any(|pointer| pointer.stretch == stretch);
        self.objects
            .iter()
            .filter(move |object| is_pointed_at(object.stretch))
            .flat_map(|object| &object.records)
    }

    /// Returns the same, if the head says that the chat has segments.
    pub(super) fn found_in_archive(&self) -> impl Iterator<Item = &Kept> {
        let has_archive = self.head.is_some_and(|head| head.has_archive);
        self.archived().filter(move |_| has_archive)
    }

    /// Returns the records that the listing shows, each key once; the table's copy counts.
    pub(super) fn listed(&self) -> Vec<Kept> {
        let mut listed: Vec<Kept> = self.table.iter().map(|item| item.kept).collect();
        for kept in self.found_in_archive() {
            if !listed.iter().any(|other| other.key == kept.key) {
                listed.push(*kept);
            }
        }
        listed
    }

    /// Returns the forms of the message at `place` among `records`.
    pub(super) fn forms<'a>(records: impl Iterator<Item = &'a Kept>, place: u8) -> Forms {
        let mut forms = Forms::default();
        for kept in records.filter(|kept| kept.key.place == place) {
            let number = match kept.key.form {
                Form::First => 0,
                Form::Later(number) => usize::from(number),
                Form::Reply | Form::Summary => continue,
            };
            forms[number.min(2)] = Some(kept.content);
        }
        forms
    }

    /// Returns true if an entry of the index is due.
    pub(super) fn is_due(&self) -> bool {
        let entries = self.table.iter().map(|item| item.due);
        entries.chain(self.head.map(|head| head.due)).flatten().any(|due| due <= self.now)
    }

    /// Changes the relation to deletions of everything that the stores and the processes have.
    pub(super) fn grow_old(&mut self, from: Age, to: Age) {
        let change = |age: &mut Age| {
            if *age == from {
                *age = to;
            }
        };
        self.table.iter_mut().for_each(|item| change(&mut item.kept.age));
        self.pointers.iter_mut().for_each(|pointer| change(&mut pointer.age));
        self.objects.iter_mut().flat_map(|object| &mut object.records).for_each(|kept| change(&mut kept.age));
        self.memory.iter_mut().chain(&mut self.listing).for_each(change);
        self.runs.iter_mut().flatten().for_each(|run| change(&mut run.age));
        for visit in self.visits.iter_mut().flatten() {
            change(&mut visit.age);
            visit.batch.iter_mut().for_each(|kept| change(&mut kept.age));
        }
    }
}
