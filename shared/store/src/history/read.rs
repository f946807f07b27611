//! Reads a range of a chat, a page of it, and the chain of names that a chat has had. The sample item of a record is in
//! `item.rs`.

use std::collections::HashSet;
use std::time::Duration;

use annals_core::approval;
use annals_core::chat_key::ChatKey;
use annals_core::message::Part;
use annals_core::record::Record;
use annals_core::sort_key::SortKey;
use futures::future::try_join_all;

use super::cursor::{Cursor, CursorError};
use super::item::{self, Stored};
use super::merged::{Entry, directly_below};
use super::shelf::Segment;
use super::table::{Item, Span};
use super::turn::Head;
use super::{FIRST_KEY, History, HistoryError, LAST_KEY, partition};

/// The most records a page has.
pub const MAX_PAGE: usize = 200;

/// Maximum number of records that [`History::records_from`] reads at a time.
const BEHIND_PAGE: usize = 1_000;

/// The most text that a page has, in bytes; an answer of Lambda ends at 6 MB, and JSON escapes some.
const MAX_PAGE_BYTES: usize = 3 * 1024 * 1024;

/// Number of records that one request for the answer to a message reads.
const ANSWER_PAGE: usize = 20;

/// Number of such requests for a message that is not answered any more: its reply is not far, if there is one.
const LAPSED_PAGES: usize = 10;

/// Number of newest records among which [`History::are_covered_lately`] looks.
const LATELY: usize = 20;

/// Number of large bodies that a page fetches before it checks its size.
const BODIES_AT_ONCE: usize = 16;

/// Maximum number of names that a chat has had; a longer chain can only be a loop.
pub(super) const MAX_NAMES: usize = 8;

/// A name of a chat, and its head's [`Head::longest_segment`].
pub(super) type Name = (ChatKey, Option<Duration>);

/// The place of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    Newest,
    /// The one that ends directly before this record.
    Before(Cursor),
    /// The one that starts directly after this record.
    After(Cursor),
    Oldest,
}

/// A page of a history, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The records, of every kind.
    pub records: Vec<Record>,
    /// The end of the page before this one; `None` if there is nothing older.
    pub before: Option<Cursor>,
    /// The start of the page after this one; `None` if there is nothing newer.
    pub after: Option<Cursor>,
}

/// The state of a reply that a caller waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    /// It is stored, and does not continue before a person says something.
    Settled(Box<Record>),
    /// It is still to come.
    Open,
    /// It will not come: its message is gone, since the chat was forgotten.
    Forgotten,
}

impl History {
    /// Reads the records of `chat` from `from` (all if `None`), in order, with every page followed; only this name's.
    pub async fn range(&self, chat: &ChatKey, from: Option<&SortKey>) -> Result<Vec<Record>, HistoryError> {
        self.range_to(chat, from, LAST_KEY).await
    }

    /// Reads the records of `chat` after the one at `key`, in order. One query.
    pub async fn records_after(&self, chat: &ChatKey, key: &SortKey) -> Result<Vec<Record>, HistoryError> {
        self.records(chat, &Span::all(format!("{key}\u{1}"), LAST_KEY)).await
    }

    /// Reads as [`History::range`] does, up to `to`.
    pub(super) async fn range_to(
        &self,
        chat: &ChatKey,
        from: Option<&SortKey>,
        to: &str,
    ) -> Result<Vec<Record>, HistoryError> {
        self.records(chat, &Span::all(from.map_or(FIRST_KEY, SortKey::as_str), to)).await
    }

    /// Reads those records of `chat` from the message at `base` on that are `wanted`, of the table or the archive, in order.
    /// Returns `None` if `most` records or more are there, counted in whole pages of 1,000.
    pub async fn records_from(
        &self,
        chat: &ChatKey,
        base: &SortKey,
        most: usize,
        wanted: impl Fn(&Record) -> bool,
    ) -> Result<Option<Vec<Record>>, HistoryError> {
        let longest = self.longest_segment_if_left(chat, base).await?;
        let (mut from, mut found) = (base.to_string(), Vec::new());
        let page = most.min(BEHIND_PAGE);
        for _ in 0..most.div_ceil(BEHIND_PAGE) {
            let entries = self.entries(chat, longest, Span::all(from, LAST_KEY), page).await?;
            for stored in entries.iter().map(Entry::stored) {
                let stored = stored?;
                if wanted(stored.record()) {
                    found.push(self.whole(stored).await?);
                }
            }
            match entries.last() {
                Some(last) if entries.len() == page => {
                    from = format!("{}\u{1}", last.stored()?.record().key);
                }
                _ => return Ok(Some(found)),
            }
        }
        Ok(None)
    }

    /// Returns the longest segment of `chat` if the message at `base` may have left the table for one.
    async fn longest_segment_if_left(
        &self,
        chat: &ChatKey,
        base: &SortKey,
    ) -> Result<Option<Duration>, HistoryError> {
        let may_have_left = self.retention.may_have_left(base.ts(), self.clock.now());
        Ok(if may_have_left { self.head(chat).await?.longest_segment() } else { None })
    }

    /// Reads the record at `key` and all that belong to the same base.
    pub async fn message(&self, chat: &ChatKey, key: &SortKey) -> Result<Vec<Record>, HistoryError> {
        let base = key.base();
        self.records(chat, &Span::all(base.as_str(), base.end_of_base())).await
    }

    /// [`History::message`], also if it has left the table.
    pub async fn message_anywhere(&self, chat: &ChatKey, key: &SortKey) -> Result<Vec<Record>, HistoryError> {
        let mut records = self.message(chat, key).await?;
        records.extend(self.archived_if_left(chat, &key.base()).await?.records);
        // The table's copy comes first: it may have later attributes.
        records.sort_by(|a, b| a.key.cmp(&b.key));
        records.dedup_by(|later, first| later.key == first.key);
        Ok(records)
    }

    /// Like [`History::reply_to`], for a reply that does not continue before a person says something. A reply that
    /// requests an approval is stored before that.
    pub async fn settled_reply_to(&self, chat: &ChatKey, base: &SortKey) -> Result<Fate, HistoryError> {
        match self.answer_to(chat, base).await? {
            (_, Some(reply)) if !approval::requests(&reply.message).is_empty() => {
                self.settled(chat, &reply.key).await
            }
            (_, Some(reply)) => Ok(Fate::Settled(Box::new(reply))),
            (true, None) => Ok(Fate::Open),
            (false, None) => Ok(Fate::Forgotten),
        }
    }

    /// Reads the newest form of the reply at `reply`, if it does not continue before a person says something.
    pub async fn settled(&self, chat: &ChatKey, reply: &SortKey) -> Result<Fate, HistoryError> {
        let records = self.message_anywhere(chat, reply).await?;
        Ok(match approval::settled(&records, reply, self.clock.now()) {
            Some(record) => Fate::Settled(Box::new(record.clone())),
            None if records.is_empty() => Fate::Forgotten,
            None => Fate::Open,
        })
    }

    /// Reads the record that answers or confirms the message at `base`, if it is stored yet: anywhere after the
    /// message, since one reply may cover many. If a command became a message, by another text under its id, the
    /// command's confirmation does not answer it.
    pub async fn reply_to(&self, chat: &ChatKey, base: &SortKey) -> Result<Option<Record>, HistoryError> {
        Ok(self.answer_to(chat, base).await?.1)
    }

    /// Like [`History::reply_to`], but returns the newest form of a reply that requested approvals.
    pub async fn newest_reply_to(
        &self,
        chat: &ChatKey,
        base: &SortKey,
    ) -> Result<Option<Record>, HistoryError> {
        let Some(reply) = self.reply_to(chat, base).await? else { return Ok(None) };
        if approval::requests(&reply.message).is_empty() {
            return Ok(Some(reply));
        }
        let forms = self.message_anywhere(chat, &reply.key).await?;
        Ok(Some(approval::newest_form(&forms, &reply.key).cloned().unwrap_or(reply)))
    }

    /// Reads the answer as [`History::reply_to`] does, and returns whether the message itself is stored.
    ///
    /// Reads from the message on in small pages until it finds the reply, so the cost does not grow with the number of
    /// messages after an answered one. A message that has left the table is searched for in the archive.
    async fn answer_to(
        &self,
        chat: &ChatKey,
        base: &SortKey,
    ) -> Result<(bool, Option<Record>), HistoryError> {
        let longest = self.longest_segment_if_left(chat, base).await?;
        let (notice, own_reply, end) = (base.notice(), base.reply(), base.end_of_base());
        let (mut is_there, mut is_message, mut told) = (false, false, None);
        // A message that has passed its date is not answered any more.
        let (now, mut has_lapsed, mut pages) = (self.clock.now(), false, 0);
        let mut from = base.to_string();
        loop {
            pages += 1;
            let span = Span::all(from, LAST_KEY);
            let entries = self.entries(chat, longest, span, ANSWER_PAGE).await?;
            for stored in entries.iter().map(Entry::stored) {
                let stored = stored?;
                let record = stored.record();
                let is_own = record.key.as_str() < end.as_str();
                // An imported reply tells by its key alone what it answers.
                if record.covers().contains(base) || record.key == own_reply {
                    return Ok((is_there, Some(self.whole(stored).await?)));
                }
                is_there |= is_own;
                is_message |= is_own && record.asks();
                has_lapsed |= is_own && record.has_lapsed(now);
                if record.key == notice {
                    told = Some(stored);
                } else if !is_own && !is_message {
                    // Nothing covers a message that asks for no answer.
                    break;
                }
            }
            let is_over = entries.len() < ANSWER_PAGE || !is_message || (has_lapsed && pages >= LAPSED_PAGES);
            match entries.last() {
                Some(last) if !is_over => from = format!("{}\u{1}", last.stored()?.record().key),
                _ => break,
            }
        }
        let told = match told.filter(|_| !is_message) {
            Some(stored) => Some(self.whole(stored).await?),
            None => None,
        };
        Ok((is_there, told))
    }

    /// Returns true if the newest records of `chat` cover each of the messages at `bases`, and no approval that one of
    /// these records requests was answered: turns about these messages have nothing left to do. One small query.
    pub async fn are_covered_lately(&self, chat: &ChatKey, bases: &[SortKey]) -> Result<bool, HistoryError> {
        let Some(first) = bases.iter().min() else { return Ok(false) };
        let span = Span { newest_first: true, ..Span::first(LATELY, first.as_str(), LAST_KEY) };
        let items = self.table.query(&partition(chat), &span).await?;
        let covered: HashSet<&str> =
            items.iter().flat_map(|item| item::text(item, "covers").unwrap_or_default().lines()).collect();
        let is_verdict = |item: &Item| {
            let key = item::text(item, "sk").and_then(|sk| sk.parse::<SortKey>().ok());
            key.is_none_or(|key| key.belongs_to_reply())
        };
        Ok(bases.iter().all(|base| covered.contains(base.as_str())) && !items.iter().any(is_verdict))
    }

    /// Reads a page of at most `limit` records (1 to [`MAX_PAGE`]), over every name that the chat has had, archived or
    /// not.
    pub async fn page(
        &self,
        chat: &ChatKey,
        position: &Position,
        limit: usize,
    ) -> Result<Page, HistoryError> {
        let names = self.names(chat).await?;
        self.page_of(&names, position, limit).await
    }

    /// Reads the newest page of `chat`, the name that the chat has now, whose `head` is known.
    pub async fn newest(&self, chat: &ChatKey, head: &Head, limit: usize) -> Result<Page, HistoryError> {
        let names = self.names_from(chat.clone(), head.clone()).await?;
        self.page_of(&names, &Position::Newest, limit).await
    }

    async fn page_of(&self, names: &[Name], position: &Position, limit: usize) -> Result<Page, HistoryError> {
        let limit = limit.clamp(1, MAX_PAGE);
        if let Position::Before(cursor) | Position::After(cursor) = position
            && !names.iter().any(|(name, _)| *name == cursor.chat)
        {
            return Err(CursorError.into());
        }
        let newest_first = matches!(position, Position::Newest | Position::Before(_));
        let mut records = Vec::new();
        // One more than the page has tells whether there is anything further.
        'spans: for (name, longest, span) in spans(names, position) {
            let entries = self.entries(name, longest, span, limit + 1 - records.len()).await?;
            for entries in entries.chunks(BODIES_AT_ONCE) {
                let stored = entries.iter().map(Entry::stored).collect::<Result<Vec<_>, _>>()?;
                records.extend(self.whole_records(stored).await?);
                if how_many_fit(&records) < records.len() {
                    break 'spans;
                }
            }
            if records.len() > limit {
                break;
            }
        }
        let fitting = how_many_fit(&records);
        let further = records.len() > limit.min(fitting);
        records.truncate(limit.min(fitting));
        if newest_first {
            records.reverse();
        }
        let first = records.first().map(Cursor::of);
        let last = records.last().map(Cursor::of);
        let (before, after) = match position {
            Position::Newest => (first.filter(|_| further), None),
            Position::Before(cursor) => (first.filter(|_| further), last.or_else(|| Some(cursor.clone()))),
            Position::After(cursor) => (first.or_else(|| Some(cursor.clone())), last.filter(|_| further)),
            Position::Oldest => (None, last.filter(|_| further)),
        };
        Ok(Page { records, before, after })
    }

    /// Reads records of `segment`, in order, from the `from`th on: one page; none after its end.
    pub async fn segment_records(&self, segment: &Segment, from: usize) -> Result<Vec<Record>, HistoryError> {
        let records = segment.records.iter().skip(from).take(BODIES_AT_ONCE);
        self.whole_records(records.cloned().collect()).await
    }

    async fn whole_records(&self, stored: Vec<Stored>) -> Result<Vec<Record>, HistoryError> {
        try_join_all(stored.into_iter().map(|stored| self.whole(stored))).await
    }

    /// Reads the name that the chat has now, and its head.
    pub async fn current(&self, chat: &ChatKey) -> Result<(ChatKey, Head), HistoryError> {
        let mut newest = chat.clone();
        let mut head = self.head(&newest).await?;
        for _ in 0..MAX_NAMES {
            let Some(moved_to) = head.moved_to.take() else { break };
            head = self.head(&moved_to).await?;
            newest = moved_to;
        }
        Ok((newest, head))
    }

    /// Reads the first name that the chat had, which stays the same when the chat is renamed. One read, and one for
    /// each other name.
    pub async fn first_name(&self, chat: &ChatKey) -> Result<ChatKey, HistoryError> {
        Ok(self.names(chat).await?.pop().map_or_else(|| chat.clone(), |(name, _)| name))
    }

    /// Reads every name that the chat has had, the newest first.
    pub async fn all_names(&self, chat: &ChatKey) -> Result<Vec<ChatKey>, HistoryError> {
        Ok(self.names(chat).await?.into_iter().map(|(name, _)| name).collect())
    }

    /// Reads every name that the chat has had, the newest first, each with its head's [`Head::longest_segment`].
    pub(super) async fn names(&self, chat: &ChatKey) -> Result<Vec<Name>, HistoryError> {
        let (newest, head) = self.current(chat).await?;
        self.names_from(newest, head).await
    }

    /// Reads the earlier names of the chat that is called `newest` now and has this `head`.
    async fn names_from(&self, newest: ChatKey, mut head: Head) -> Result<Vec<Name>, HistoryError> {
        let mut names = vec![(newest, head.longest_segment())];
        while let Some(link) = head.continues.take()
            && names.len() < MAX_NAMES
            && !names.iter().any(|(name, _)| *name == link.chat)
        {
            head = self.head(&link.chat).await?;
            names.push((link.chat, head.longest_segment()));
        }
        Ok(names)
    }
}

/// Returns how many of `records` fit a page, at least one.
fn how_many_fit(records: &[Record]) -> usize {
    let mut bytes = 0;
    let fitting = records.iter().take_while(|record| {
        bytes += record.message.parts.iter().map(Part::json_len).sum::<usize>();
        bytes <= MAX_PAGE_BYTES
    });
    fitting.count().max(1)
}

/// Returns the spans to read for a page, in reading order: the cursor's name first, then the names beyond it.
fn spans<'a>(names: &'a [Name], position: &Position) -> Vec<(&'a ChatKey, Option<Duration>, Span)> {
    let newest_first = matches!(position, Position::Newest | Position::Before(_));
    let in_order: Vec<&Name> =
        if newest_first { names.iter().collect() } else { names.iter().rev().collect() };
    let cursor = match position {
        Position::Newest | Position::Oldest => None,
        Position::Before(cursor) | Position::After(cursor) => Some(cursor),
    };
    in_order
        .into_iter()
        .skip_while(|(name, _)| cursor.is_some_and(|cursor| *name != cursor.chat))
        .map(|(name, longest)| {
            let mut span = Span { from: FIRST_KEY.into(), to: LAST_KEY.into(), newest_first, limit: None };
            match cursor.filter(|cursor| *name == cursor.chat) {
                Some(cursor) if newest_first => span.to = directly_below(cursor.key.as_str()),
                // No key contains a control character, so this directly follows the cursor's.
                Some(cursor) => span.from = format!("{}\u{1}", cursor.key),
                None => {}
            }
            (name, *longest, span)
        })
        .filter(|(_, _, span)| span.from <= span.to)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directly_below_is_between_a_key_and_the_one_before() {
        let key: SortKey = "0000000000001#00000000000000000007".parse().unwrap();
        let before: SortKey = "0000000000001#00000000000000000006#4reply".parse().unwrap();
        let below = directly_below(key.as_str());
        assert!(before.as_str() < below.as_str() && below.as_str() < key.as_str());
    }
}
