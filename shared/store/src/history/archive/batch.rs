//! The lines of a segment that is being built.

use std::collections::HashSet;
use std::time::Duration;

use annals_core::record::Record;
use annals_core::sort_key::{SortKey, Timestamp};

use super::{MAX_SEGMENT_BYTES, MAX_SEGMENT_RECORDS};
use crate::history::bodies::MAX_INLINE_BYTES;
use crate::history::item::Stored;
use crate::history::segment;
use crate::history::turn::Stretch;

/// Records that are in no segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remaining {
    /// Time at which the earliest was appended.
    pub sent_at: Timestamp,
    /// The earliest time at which one may leave the table, in epoch seconds; `None` if none ever does.
    pub expires_at: Option<i64>,
}

impl Remaining {
    pub(super) fn of(record: &Record) -> Self {
        Self { sent_at: record.sent_at, expires_at: record.expires_at }
    }

    pub(super) fn and(self, other: Self) -> Self {
        let expires_at = match (self.expires_at, other.expires_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self { sent_at: self.sent_at.min(other.sent_at), expires_at }
    }
}

/// The lines of a segment that is being built.
#[derive(Default)]
pub(super) struct Batch {
    /// Key, times, the size by which it counts, and the line itself of each record.
    pub(super) lines: Vec<(SortKey, Remaining, usize, Vec<u8>)>,
    bytes: usize,
}

impl Batch {
    pub(super) fn fits(&self, stored: &Stored, line: &[u8]) -> bool {
        self.lines.is_empty()
            || self.lines.len() < MAX_SEGMENT_RECORDS && self.bytes + size(stored, line) <= MAX_SEGMENT_BYTES
    }

    /// Returns true if `record` is further from the last one than the lifetime of a record. A late message and an edit
    /// of an old one get a segment of their own: a segment from there to now would make every reader read pointers that
    /// far.
    pub(super) fn is_far_from(&self, record: &Record, lifetime: Duration) -> bool {
        self.lines.last().is_some_and(|(last, ..)| record.key.ts().since(last.ts()) > lifetime)
    }

    pub(super) fn push(&mut self, stored: &Stored, line: Vec<u8>) {
        let (record, size) = (stored.record(), size(stored, &line));
        self.bytes += size;
        self.lines.push((record.key.clone(), Remaining::of(record), size, line));
    }

    pub(super) fn remove(&mut self, keys: &HashSet<&SortKey>) {
        self.lines.retain(|(key, ..)| !keys.contains(key));
        self.bytes = self.lines.iter().map(|(_, _, size, _)| size).sum();
    }

    /// Returns the stretch from its first record to its last. It must not be empty.
    pub(super) fn stretch(&self) -> Stretch {
        let (first, last) = (&self.lines[0], &self.lines[self.lines.len() - 1]);
        Stretch { from: first.0.clone(), to: last.0.clone() }
    }

    pub(super) fn compressed(&self) -> Vec<u8> {
        segment::compress(self.lines.iter().map(|(.., line)| line.as_slice()))
    }

    pub(super) fn remaining(&self) -> Option<Remaining> {
        self.lines.iter().map(|(_, remaining, ..)| *remaining).reduce(Remaining::and)
    }
}

/// Returns the size by which a record with this line counts. The body of a large message is read for the segment's index,
/// and a thousand of them would take all of the compactor's memory.
fn size(stored: &Stored, line: &[u8]) -> usize {
    match stored {
        Stored::Inline(_) => line.len(),
        Stored::Body { .. } => line.len() + MAX_INLINE_BYTES,
    }
}
