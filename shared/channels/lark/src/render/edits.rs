//! Changes of a text: [`Edits`].

use std::collections::BTreeMap;
use std::ops::Range;

/// An invisible character that separates characters which together would be markup.
pub(super) const BREAK: &str = "\u{200b}";

/// Non-overlapping changes of a text.
#[derive(Default)]
pub(super) struct Edits(BTreeMap<usize, (usize, String)>);

impl Edits {
    /// Replaces `range` by `by`, unless it overlaps an earlier change.
    pub(super) fn replace(&mut self, range: Range<usize>, by: impl Into<String>) {
        let before = self.0.range(..=range.start).next_back();
        let is_free = before.is_none_or(|(start, (end, _))| *end <= range.start && *start != range.start)
            && self.0.range(range.start..).next().is_none_or(|(start, _)| *start >= range.end);
        if is_free {
            self.0.insert(range.start, (range.end, by.into()));
        }
    }

    pub(super) fn apply(self, source: &str) -> String {
        let mut out = String::with_capacity(source.len());
        let mut seen = 0;
        for (start, (end, by)) in self.0 {
            out.push_str(&source[seen..start]);
            out.push_str(&by);
            seen = end;
        }
        out.push_str(&source[seen..]);
        out
    }
}

/// Replaces each `mark` in `range` of `source` by a character reference.
pub(super) fn refer(edits: &mut Edits, source: &str, range: Range<usize>, mark: char) {
    for (at, mark) in source[range.clone()].match_indices(mark) {
        let at = range.start + at;
        let number = mark.chars().next().map_or(0, u32::from);
        edits.replace(at..at + mark.len(), format!("&#{number};"));
    }
}
