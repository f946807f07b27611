//! Validity of entries, computed from all entries of their owner: [`validities`].

use std::collections::HashMap;

use super::dates::{dates, end_of};
use super::entry::StoredEntry;
use crate::sort_key::Timestamp;

/// Validity of an entry. It starts with [`Entry::valid_from`](super::Entry::valid_from).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validity {
    /// Time at which it ends or ended; `None` if nothing ends it.
    pub to: Option<Timestamp>,
    /// Number of the entry that superseded it.
    pub superseded_by: Option<u32>,
}

impl Validity {
    /// Returns true if the entry is not valid any more at `now`.
    pub fn is_past(&self, now: Timestamp) -> bool {
        self.superseded_by.is_some() || self.to.is_some_and(|to| to <= now)
    }
}

/// Returns the validity of each of `entries`, which are entries of one owner in any order. An entry that is newer than all
/// of them changes nothing of older ones, so the newest entries are enough.
///
/// The first newer entry that supersedes one ends it when that was said, unless it still waits for approval. Otherwise an
/// entry ends with its [term](super::EntryKind::term), which starts at its last date: when it was said or corrected, or a
/// date that its text names.
pub fn validities(entries: &[StoredEntry]) -> Vec<Validity> {
    let mut newer: HashMap<u32, &StoredEntry> = HashMap::new();
    for stored in entries.iter().filter(|stored| !stored.entry.is_pending) {
        for number in stored.entry.supersedes.iter().filter(|number| **number < stored.number) {
            let first = newer.entry(*number).or_insert(stored);
            if stored.number < first.number {
                *first = stored;
            }
        }
    }
    entries
        .iter()
        .map(|stored| match newer.get(&stored.number) {
            Some(newer) => Validity { to: Some(newer.entry.valid_from()), superseded_by: Some(newer.number) },
            None => Validity { to: end_of_term(stored), superseded_by: None },
        })
        .collect()
}

fn end_of_term(StoredEntry { entry, .. }: &StoredEntry) -> Option<Timestamp> {
    let term = entry.kind.term()?;
    let told = dates(&entry.text).into_iter().filter_map(end_of);
    let last = told.chain(entry.updated).chain([entry.created, entry.valid_from()]).max()?;
    Some(last.plus(term))
}

/// Returns those of `entries` that are valid at `now`, in order; entries that wait for approval count.
pub fn valid(entries: Vec<StoredEntry>, now: Timestamp) -> Vec<StoredEntry> {
    let validities = validities(&entries);
    let pairs = entries.into_iter().zip(validities).filter(|(_, validity)| !validity.is_past(now));
    pairs.map(|(stored, _)| stored).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::memory::EntryKind;
    use crate::testing::{entry, hours};

    fn stored(number: u32, kind: EntryKind, text: &str, supersedes: &[u32]) -> StoredEntry {
        let mut stored = entry(number, text);
        stored.entry.kind = kind;
        stored.entry.created = hours(0).plus(Duration::from_secs(u64::from(number)));
        stored.entry.supersedes = supersedes.to_vec();
        stored
    }

    fn superseded(entries: &[StoredEntry]) -> Vec<Option<u32>> {
        validities(entries).iter().map(|validity| validity.superseded_by).collect()
    }

    #[test]
    fn a_newer_entry_ends_the_older_one_when_it_was_said() {
        let fact = |number, supersedes: &[u32]| stored(number, EntryKind::Fact, "x", supersedes);
        let jobs = [fact(1, &[]), fact(2, &[1]), fact(3, &[2, 1])];
        let found = validities(&jobs);
        assert_eq!(found[0], Validity { to: Some(jobs[1].entry.created), superseded_by: Some(2) });
        assert!(found[0].is_past(Timestamp::MIN) && !found[2].is_past(Timestamp::MAX));
        // In any order, and only by those that are there.
        assert_eq!(superseded(&[fact(3, &[2, 1]), fact(2, &[1]), fact(1, &[])]), [None, Some(3), Some(2)]);
        assert_eq!(superseded(&[fact(1, &[]), fact(3, &[2, 1])]), [Some(3), None]);
        assert_eq!(superseded(&[fact(1, &[]), fact(2, &[])]), [None, None]);
        // Not by itself, by an older one, or by one that waits for approval.
        assert_eq!(superseded(&[fact(1, &[1, 2]), fact(2, &[])]), [None, None]);
        let mut pending = fact(2, &[1]);
        pending.entry.is_pending = true;
        assert_eq!(superseded(&[fact(1, &[]), pending]), [None, None]);
    }

    #[test]
    fn a_term_starts_at_the_last_date() {
        let days = |days: u64| Duration::from_hours(24 * days);
        let to = |kind, text| validities(&[stored(0, kind, text, &[])])[0].to;
        assert_eq!(to(EntryKind::Task, "Call Bo."), Some(hours(0).plus(days(90))));
        assert_eq!(to(EntryKind::Note, "Said: hello"), Some(hours(0).plus(days(180))));
        let due = Timestamp::parse_rfc3339("2026-05-08T00:00:00Z").unwrap();
        assert_eq!(to(EntryKind::Task, "Renew the passport by 2026-05-07."), Some(due.plus(days(90))));
        assert_eq!(to(EntryKind::Task, "Was due on 2020-05-07."), Some(hours(0).plus(days(90))));
        for lasting in [EntryKind::Fact, EntryKind::Preference, EntryKind::Decision] {
            assert_eq!(to(lasting, "x"), None);
        }
        let mut corrected = stored(0, EntryKind::Task, "Call Bo.", &[]);
        corrected.entry.updated = Some(hours(0).plus(days(9)));
        assert_eq!(validities(&[corrected])[0].to, Some(hours(0).plus(days(99))));
    }
}
