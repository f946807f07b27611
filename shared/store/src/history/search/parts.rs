//! The indexes of a chat: one of each segment, and one of the records of the table that no segment holds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::ranking::{Index, Text};
use annals_core::sender;
use annals_core::sort_key::{SortKey, Timestamp};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::stored::{Indexed, IndexedMessage, index_key};
use super::{is_said, place_of};
use crate::history::item::{self, Stored};
use crate::history::merged::directly_below;
use crate::history::read::Name;
use crate::history::shelf::{GZIP, SegmentInfo};
use crate::history::table::Span;
use crate::history::{FIRST_KEY, History, HistoryError, LAST_KEY, partition};

/// Maximum number of segments of a search, the newest: a chat that is used daily gets one or two a day, most of them small.
const MAX_SEGMENTS: usize = 3_000;

/// Maximum number of records in these segments: their indexes are in memory together.
const MAX_ARCHIVED: u32 = 500_000;

/// Maximum time for which indexes are read. What is read by then is kept for the next search.
const MAX_INDEXING: Duration = Duration::from_secs(8);

/// Number of indexes that are read at the same time.
const SEGMENTS_AT_ONCE: usize = 16;

/// Number of records that one request reads from the table.
const RECORDS_AT_ONCE: usize = 500;

/// Maximum number of such requests.
const MAX_READS: usize = 20;

/// Maximum size of the text of one message that is indexed, in bytes.
const MAX_TEXT_BYTES: usize = 256 * 1024;

impl History {
    /// Reads the messages of all names, the oldest first, and returns whether a bound was met.
    pub(super) async fn parts_of(
        &self,
        chat: &ChatKey,
        names: &[Name],
    ) -> Result<(Vec<Arc<Indexed>>, bool), HistoryError> {
        // One more than the limit shows whether there are more.
        let mut infos = self.newest_segments(chat, MAX_SEGMENTS + 1).await?;
        let searched = count_searched(&infos);
        let mut is_partial = searched < infos.len();
        infos.truncate(searched);
        let until = self.clock.now().plus(MAX_INDEXING);
        let indexed: Vec<BoxFuture<'_, Result<Option<Arc<Indexed>>, HistoryError>>> =
            infos.iter().map(|info| self.index_segment(info, until).boxed()).collect();
        let indexed = stream::iter(indexed).buffered(SEGMENTS_AT_ONCE);
        let indexed: Vec<Option<Arc<Indexed>>> = indexed.try_collect().await?;
        is_partial |= indexed.iter().any(Option::is_none);
        let mut parts = Vec::new();
        let mut requests = MAX_READS;
        for (name, _) in names.iter().rev() {
            let of_name = infos.iter().zip(&indexed).filter(|(info, _)| info.chat == *name);
            let archived_to = infos.iter().filter(|info| info.chat == *name).map(|info| &info.to).max();
            let mut segments: Vec<_> = of_name.collect();
            segments.sort_by_key(|(info, _)| &info.from);
            parts.extend(segments.into_iter().filter_map(|(_, part)| part.clone()));
            let (part, is_whole) = self.index_table(name, archived_to, &mut requests, until).await?;
            is_partial |= !is_whole;
            parts.push(Arc::new(part));
        }
        Ok((parts, is_partial))
    }

    /// Returns the index of a segment: a kept one, the stored one, or one that is made of its records. `None` if none is
    /// kept and the time to read one is over.
    async fn index_segment(
        &self,
        info: &SegmentInfo,
        until: Timestamp,
    ) -> Result<Option<Arc<Indexed>>, HistoryError> {
        if let Some(part) = self.indexes.get(info) {
            return Ok(Some(part));
        }
        if self.clock.now() >= until {
            return Ok(None);
        }
        let stored = self.bucket.get(&index_key(info)).await?;
        let part = if let Some(part) = stored.and_then(|bytes| Indexed::from_bytes(&bytes, info)) {
            part
        } else {
            // It was archived by an earlier version.
            let segment = self.segment_of(info).await?;
            self.index_records(&info.chat, segment.records.clone(), true, None).await?.0
        };
        let part = Arc::new(part);
        self.indexes.keep(info, &part, part.size());
        Ok(Some(part))
    }

    /// Stores the index of a segment with these records beside its object.
    pub(in crate::history) async fn put_index(
        &self,
        info: &SegmentInfo,
        records: Vec<Stored>,
    ) -> Result<(), HistoryError> {
        let (part, _) = self.index_records(&info.chat, records, true, None).await?;
        self.bucket.put_new(&index_key(info), GZIP, part.to_bytes(info)?).await?;
        Ok(())
    }

    /// Reads the newest records of the table: one page, and all after `archived_to`. Returns false if a bound was met.
    async fn index_table(
        &self,
        name: &ChatKey,
        archived_to: Option<&SortKey>,
        requests: &mut usize,
        until: Timestamp,
    ) -> Result<(Indexed, bool), HistoryError> {
        let (mut stored, mut to): (Vec<Stored>, String) = (Vec::new(), LAST_KEY.into());
        let is_whole = loop {
            if *requests == 0 {
                break false;
            }
            *requests -= 1;
            let span = Span { newest_first: true, ..Span::first(RECORDS_AT_ONCE, FIRST_KEY, to.as_str()) };
            let (items, has_more) = self.table.query_page(&partition(name), &span).await?;
            for item in &items {
                stored.push(item::from_item(item)?);
            }
            let Some(last) = stored.last().filter(|_| has_more).map(|stored| &stored.record().key) else {
                break true;
            };
            if archived_to.is_some_and(|archived_to| last <= archived_to) {
                break true;
            }
            to = directly_below(last.as_str());
        };
        stored.reverse();
        let (part, has_all) = self.index_records(name, stored, false, Some(until)).await?;
        Ok((part, is_whole && has_all))
    }

    /// Indexes the newest form of each message of `stored`. Leaves out what is in S3 and is not read at `until`; returns
    /// false then.
    async fn index_records(
        &self,
        chat: &ChatKey,
        stored: Vec<Stored>,
        is_archived: bool,
        until: Option<Timestamp>,
    ) -> Result<(Indexed, bool), HistoryError> {
        let mut newest: Vec<(IndexedMessage, Stored)> = Vec::new();
        let mut places: HashMap<SortKey, usize> = HashMap::new();
        for stored in stored.into_iter().filter(|stored| is_said(stored.record())) {
            let record = stored.record();
            let said = IndexedMessage {
                place: place_of(record),
                form_ts: record.form_ts(),
                revision: record.revision(),
                line: record.line().map(str::to_owned),
                id: record.message_id.to_string(),
                is_taken_back: record.message.metadata.is_recalled(),
            };
            match places.get(&said.place) {
                Some(known) if newest[*known].0.form() < said.form() => newest[*known] = (said, stored),
                Some(_) => {}
                None => {
                    places.insert(said.place.clone(), newest.len());
                    newest.push((said, stored));
                }
            }
        }
        newest.sort_by(|(a, _), (b, _)| a.place.cmp(&b.place));
        let mut texts: Vec<(String, Option<String>)> = Vec::new();
        let (mut messages, mut has_all) = (Vec::new(), true);
        // The newest first, so that the oldest are left out.
        for (mut said, stored) in newest.into_iter().rev() {
            let is_outside = matches!(stored, Stored::Body { .. });
            if is_outside && until.is_some_and(|until| self.clock.now() >= until) {
                has_all = false;
                continue;
            }
            let record = self.whole(stored).await?;
            if is_outside {
                said.line = record.line().map(str::to_owned);
                said.is_taken_back = record.message.metadata.is_recalled();
            }
            let mut text = record.message.plain_text();
            text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
            text.shrink_to_fit();
            let name = record.message.metadata.sender_name().map(str::to_owned);
            let sender = name.or_else(|| sender::of(&record).map(|sender| sender.name));
            texts.push((text, sender));
            messages.push(said);
        }
        texts.reverse();
        messages.reverse();
        let texts = texts.iter().zip(&messages).map(|((text, sender), said)| Text {
            text,
            sender: sender.as_deref(),
            at: Some(said.place.ts()),
        });
        let index = Index::of(texts);
        Ok((Indexed { chat: chat.clone(), is_archived, index, messages }, has_all))
    }
}

/// Returns the number of `infos`, the newest first, whose segments are searched.
fn count_searched(infos: &[SegmentInfo]) -> usize {
    let mut records = 0_u32;
    let searched = infos.iter().take(MAX_SEGMENTS).take_while(|info| {
        records = records.saturating_add(info.count);
        records <= MAX_ARCHIVED
    });
    searched.count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::shelf::tests::sample;

    #[test]
    fn years_of_small_segments_are_searched_and_as_many_records_as_fit_in_memory() {
        for (segments, count, searched) in [(2_000, 30, 2_000), (3_001, 30, 3_000), (600, 1_000, 500)] {
            let info = SegmentInfo { count, ..sample("1763765920000#a", "1763765960000#b") };
            assert_eq!(count_searched(&vec![info; segments]), searched, "{segments} of {count}");
        }
    }
}
