//! A stretch of a chat whose records are in the table, in segments or in both, as one list in key order.
//!
//! Only what the list needs is read: the pointers of segments that can reach into it, and of those segments the ones
//! that may contain records that have left the table, nearest first, until no unread segment can be nearer than the
//! records found. If both contain a record, the table's copy counts: it may have a later attribute (`deliveryFailure`).
//! The sample items are in `item.rs` and `shelf.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::sort_key::Timestamp;

use super::item::{self, Stored, text};
use super::shelf::{Segment, SegmentInfo, last_pointer, pointer_key};
use super::table::{Item, Span};
use super::{History, HistoryError, LAST_KEY, partition};

/// Number of pointers that one request reads.
const POINTERS_AT_ONCE: usize = 25;

/// A record of a list, in the table or in a segment.
pub(super) enum Entry {
    Table(Item),
    /// The record of the segment with this number.
    Archived(Arc<Segment>, usize),
}

impl Entry {
    /// Returns the record, and the place of its message.
    pub(super) fn stored(&self) -> Result<Stored, HistoryError> {
        Ok(match self {
            Self::Table(item) => item::from_item(item)?,
            Self::Archived(segment, number) => segment.records[*number].clone(),
        })
    }
}

impl History {
    /// Reads the first `limit` records of `span`, in its order. `longest` is that of the chat's head.
    pub(super) async fn entries(
        &self,
        chat: &ChatKey,
        longest: Option<Duration>,
        span: Span,
        limit: usize,
    ) -> Result<Vec<Entry>, HistoryError> {
        let span = Span { limit: Some(limit), ..span };
        let items = self.table.query(&partition(chat), &span).await?;
        let Some(longest) = longest else { return Ok(items.into_iter().map(Entry::Table).collect()) };
        let mut list = List { newest_first: span.newest_first, limit, found: BTreeMap::new() };
        for item in items {
            list.found.insert(text(&item, "sk").unwrap_or_default().to_owned(), Entry::Table(item));
        }
        self.add_archived(chat, longest, &span, &mut list).await?;
        Ok(list.in_order())
    }

    async fn add_archived(
        &self,
        chat: &ChatKey,
        longest: Duration,
        span: &Span,
        list: &mut List,
    ) -> Result<(), HistoryError> {
        let newest_first = span.newest_first;
        // If the table has enough records, only the stretch up to the last of them is open.
        let (mut from, mut to) = (span.from.clone(), span.to.clone());
        if let Some(edge) = list.edge() {
            edge.clone_into(if newest_first { &mut from } else { &mut to });
        }
        let now = self.clock.now().as_millis() / 1000;
        let mut unread = Some(Span {
            from: pointer_key(&from),
            to: ts_of(&to).map_or_else(|| pointer_key(LAST_KEY), |ts| last_pointer(ts, longest)),
            newest_first,
            limit: Some(POINTERS_AT_ONCE),
        });
        // The nearest key that a segment can reach whose pointer is unread.
        let mut horizon = if newest_first { to.clone() } else { from.clone() };
        let mut waiting: Vec<(String, SegmentInfo)> = Vec::new();
        loop {
            let nearest = waiting
                .iter()
                .enumerate()
                .reduce(|a, b| if list.is_nearer(&b.1.0, &a.1.0) { b } else { a })
                .map(|(at, (near, _))| (at, near.as_str()));
            let is_near = |place: &str| list.edge().is_none_or(|edge| list.is_nearer(place, edge));
            let pointers_first = nearest.is_none_or(|(_, near)| list.is_nearer(&horizon, near));
            if let Some(span) = unread.as_mut().filter(|_| pointers_first && is_near(&horizon)) {
                let infos = self.pointers(chat, span).await?;
                match infos.last().filter(|_| infos.len() >= POINTERS_AT_ONCE) {
                    None => unread = None,
                    Some(furthest) if newest_first => {
                        horizon = furthest.to.to_string();
                        span.to = directly_below(&pointer_key(furthest.to.as_str()));
                    }
                    Some(furthest) => {
                        horizon = format!("{:013}", furthest.to.ts().minus(longest).as_millis());
                        span.from = format!("{}\u{1}", pointer_key(furthest.to.as_str()));
                    }
                }
                // A segment adds nothing as long as none of its records may have left the table.
                let may_add = |info: &SegmentInfo| {
                    info.expires_from.is_some_and(|expires| expires <= now)
                        && *info.from.as_str() <= *to
                        && *info.to.as_str() >= *from
                };
                waiting.extend(infos.into_iter().filter(may_add).map(|info| {
                    let near = if newest_first {
                        to.as_str().min(info.to.as_str())
                    } else {
                        from.as_str().max(info.from.as_str())
                    };
                    (near.to_owned(), info)
                }));
            } else if let Some((at, _)) = nearest.filter(|(_, near)| is_near(near)) {
                let (_, info) = waiting.swap_remove(at);
                list.add(&self.segment_of(&info).await?, &from, &to);
            } else {
                return Ok(());
            }
        }
    }
}

/// The nearest records found so far, by key.
struct List {
    newest_first: bool,
    limit: usize,
    found: BTreeMap<String, Entry>,
}

impl List {
    fn is_nearer(&self, a: &str, b: &str) -> bool {
        if self.newest_first { a > b } else { a < b }
    }

    /// Returns the furthest record of a full list.
    fn edge(&self) -> Option<&str> {
        if self.found.len() < self.limit {
            return None;
        }
        let end = if self.newest_first { self.found.keys().next() } else { self.found.keys().next_back() };
        end.map(String::as_str)
    }

    /// Adds the records of `segment` in `from..=to`.
    fn add(&mut self, segment: &Arc<Segment>, from: &str, to: &str) {
        for (number, key) in segment.keys().enumerate().filter(|(_, key)| (from..=to).contains(&key.as_str()))
        {
            let entry = || Entry::Archived(Arc::clone(segment), number);
            self.found.entry(key.to_string()).or_insert_with(entry);
        }
        while self.found.len() > self.limit {
            if self.newest_first {
                self.found.pop_first()
            } else {
                self.found.pop_last()
            };
        }
    }

    fn in_order(self) -> Vec<Entry> {
        if self.newest_first {
            self.found.into_values().rev().collect()
        } else {
            self.found.into_values().collect()
        }
    }
}

/// Returns the time in a bound of sort keys, if it has one.
fn ts_of(bound: &str) -> Option<Timestamp> {
    bound.get(..13)?.parse().ok().and_then(Timestamp::from_millis)
}

/// Returns a string below `key` and above every key before it: the key with its last character lowered, followed by the
/// highest character.
pub(super) fn directly_below(key: &str) -> String {
    let mut chars: Vec<char> = key.chars().collect();
    if let Some(last) = chars.last_mut() {
        let code = *last as u32;
        // Skips the surrogates, which are not characters.
        *last = char::from_u32(if code == 0xE000 { 0xD7FF } else { code.saturating_sub(1) }).unwrap_or('\0');
    }
    let mut below: String = chars.into_iter().collect();
    below.push(char::MAX);
    below
}
