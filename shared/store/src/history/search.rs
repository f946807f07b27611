//! Searches a chat's whole history, archived or not: what the API and the agent's tool find.
//!
//! The messages of each segment are indexed when a search first reads it; segments never change, so their indexes are
//! kept in memory, by chat and id. The newest records of the table are read for each search: all that no segment holds
//! yet, and those that may be newer forms of archived messages. A late message or an edit far back in the history is
//! found once it is archived.
//!
//! *Invariant:* an index only proposes messages. Each hit is read again with its neighbours, as a page reads them, so
//! what is shown is the newest form, and nothing that was erased.
//!
//! A search is bounded: in segments, in records of the table, in time and in the size of its result.
//! [`Found::is_partial`] says if a bound was met.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::message::Part;
use annals_core::ranking::{self, Index, Text};
use annals_core::record::{Kind, Record};
use annals_core::sort_key::{SortKey, Timestamp};
use annals_core::terms::{query_terms, terms};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::item::{self, Stored};
use super::merged::Entry;
use super::read::Name;
use super::shelf::SegmentInfo;
use super::table::Span;
use super::{FIRST_KEY, History, HistoryError, LAST_KEY, partition};

/// Number of messages before a hit, and after it, that are shown with it.
pub const CONTEXT: usize = 2;

/// Maximum number of segments of a search, the newest.
const MAX_SEGMENTS: usize = 500;

/// Maximum time for which segments are indexed. What is indexed by then is kept for the next search.
const MAX_INDEXING: Duration = Duration::from_secs(8);

/// Number of segments that are read at the same time.
const SEGMENTS_AT_ONCE: usize = 16;

/// Number of records that one request reads from the table.
const RECORDS_AT_ONCE: usize = 500;

/// Maximum number of such requests.
const MAX_REQUESTS: usize = 20;

/// Number of hits that are read at the same time.
const HITS_AT_ONCE: usize = 8;

/// Number of records that are read on each side of a hit: not each is a message.
const LOOK_AROUND: usize = 12;

/// Maximum size of the messages of a result, in bytes of JSON: an answer of Lambda ends at 6 MB.
const MAX_BYTES: usize = 3 * 1024 * 1024;

/// Maximum size of the indexes that a process keeps, in bytes.
const MAX_KEPT_BYTES: usize = 64 * 1024 * 1024;

/// Maximum size of the text of one message that is indexed, in bytes.
const MAX_TEXT_BYTES: usize = 256 * 1024;

/// A question, and what it is asked of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search<'a> {
    /// The words.
    pub query: &'a str,
    /// The line of the chat to search (see [`Record::line`]); all lines if `None`.
    pub line: Option<Option<&'a str>>,
    /// Maximum number of hits.
    pub max_hits: usize,
    /// Ids of messages that are not searched.
    pub without: &'a [String],
}

impl<'a> Search<'a> {
    /// A search for at most `max_hits` messages that fit `query`, on all lines.
    pub fn new(query: &'a str, max_hits: usize) -> Self {
        Self { query, line: None, max_hits, without: &[] }
    }

    fn is_on_line(&self, line: Option<&str>) -> bool {
        self.line.is_none_or(|own| own == line)
    }
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The hits, the best first.
    pub hits: Vec<Hit>,
    /// True if a part of the history was not searched, or not each hit is shown.
    pub is_partial: bool,
}

/// A message that fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// Its newest form.
    pub record: Record,
    /// Its score, comparable only within the same search.
    pub score: f32,
    /// The messages before and after it, in chat order, each in its newest form.
    pub context: Vec<Record>,
}

/// The messages of a segment, or of the table, as a search needs them.
#[derive(Debug, Default)]
pub(super) struct Indexed {
    index: Index,
    messages: Vec<Said>,
}

/// A message of a [`Indexed`].
#[derive(Debug)]
struct Said {
    chat: ChatKey,
    place: SortKey,
    form: (Option<Timestamp>, u32),
    line: Option<String>,
    id: String,
    is_taken_back: bool,
}

/// The indexes of segments that this process has searched. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Indexes(Arc<Mutex<Kept>>);

/// Indexes, each with its segment, the latest last.
type Kept = VecDeque<(SegmentInfo, Arc<Indexed>)>;

impl Indexes {
    fn get(&self, info: &SegmentInfo) -> Option<Arc<Indexed>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter()
            .find(|(of, _)| of.id == info.id && of.chat == info.chat && of.sha256 == info.sha256)
            .map(|(_, part)| Arc::clone(part))
    }

    fn keep(&self, info: &SegmentInfo, part: &Arc<Indexed>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back((info.clone(), Arc::clone(part)));
        let mut bytes: usize = kept.iter().map(|(_, part)| part.size()).sum();
        while bytes > MAX_KEPT_BYTES
            && kept.len() > 1
            && let Some((_, oldest)) = kept.pop_front()
        {
            bytes -= oldest.size();
        }
    }

    /// Drops the indexes of `chat`.
    pub(super) fn evict(&self, chat: &ChatKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|(info, _)| info.chat != *chat);
    }
}

impl Indexed {
    fn size(&self) -> usize {
        self.index.size() + self.messages.len() * (size_of::<Said>() + 128)
    }
}

impl History {
    /// Searches `chat`, over every name that it has had.
    ///
    /// A message counts as its newest form, and one that was taken back is not found. Neither are notices, boundaries
    /// and summaries.
    pub async fn search(&self, chat: &ChatKey, search: &Search<'_>) -> Result<Found, HistoryError> {
        let names = self.names(chat).await?;
        let (parts, mut is_partial) = self.parts_of(chat, &names).await?;
        let newest = newest_forms(&parts);
        let is_shown = |part: usize, message: usize| {
            let said = &parts[part].messages[message];
            !said.is_taken_back
                && search.is_on_line(said.line.as_deref())
                && !search.without.contains(&said.id)
                && newest.get(&(&said.chat, &said.place)).is_none_or(|known| *known == (part, message))
        };
        let indexes: Vec<&Index> = parts.iter().map(|part| &part.index).collect();
        // More than are shown: some may have been erased or changed since.
        let proposed = search.max_hits.saturating_mul(2);
        let ranked = ranking::search(&indexes, search.query, CONTEXT, proposed, is_shown);
        let asked: HashSet<String> = query_terms(search.query).into_iter().collect();
        let mut hits: Vec<Hit> = Vec::new();
        let mut bytes = 0;
        let read: Vec<BoxFuture<'_, Result<Option<Hit>, HistoryError>>> = ranked
            .into_iter()
            .map(|ranked| {
                let said = &parts[ranked.index].messages[ranked.text];
                self.hit(&names, said, search, &asked, ranked.score).boxed()
            })
            .collect();
        let mut read = stream::iter(read).buffered(HITS_AT_ONCE);
        while hits.len() < search.max_hits
            && let Some(hit) = read.try_next().await?
        {
            let Some(mut hit) = hit else { continue };
            bytes += size_of_message(&hit.record);
            if bytes > MAX_BYTES && !hits.is_empty() {
                is_partial = true;
                break;
            }
            hit.context.retain(|record| {
                let size = size_of_message(record);
                let fits = bytes + size <= MAX_BYTES;
                bytes += if fits { size } else { 0 };
                fits
            });
            hits.push(hit);
        }
        Ok(Found { hits, is_partial })
    }

    /// Reads the messages of all names, the oldest first, and returns whether a bound was met.
    async fn parts_of(
        &self,
        chat: &ChatKey,
        names: &[Name],
    ) -> Result<(Vec<Arc<Indexed>>, bool), HistoryError> {
        // One more than the limit shows whether there are more.
        let mut infos = self.newest_segments(chat, MAX_SEGMENTS + 1).await?;
        let mut is_partial = infos.len() > MAX_SEGMENTS;
        infos.truncate(MAX_SEGMENTS);
        let until = self.clock.now().plus(MAX_INDEXING);
        let indexed: Vec<BoxFuture<'_, Result<Option<Arc<Indexed>>, HistoryError>>> =
            infos.iter().map(|info| self.index_segment(info, until).boxed()).collect();
        let indexed = stream::iter(indexed).buffered(SEGMENTS_AT_ONCE);
        let indexed: Vec<Option<Arc<Indexed>>> = indexed.try_collect().await?;
        is_partial |= indexed.iter().any(Option::is_none);
        let mut parts = Vec::new();
        let mut requests = MAX_REQUESTS;
        for (name, _) in names.iter().rev() {
            let of_name = infos.iter().zip(&indexed).filter(|(info, _)| info.chat == *name);
            let archived_to = infos.iter().filter(|info| info.chat == *name).map(|info| &info.to).max();
            let mut segments: Vec<_> = of_name.collect();
            segments.sort_by_key(|(info, _)| &info.from);
            parts.extend(segments.into_iter().filter_map(|(_, part)| part.clone()));
            let (part, is_whole) = self.index_table(name, archived_to, &mut requests).await?;
            is_partial |= !is_whole;
            parts.push(Arc::new(part));
        }
        Ok((parts, is_partial))
    }

    /// Returns the index of a segment: a kept one, or `None` if none is kept and the time to make one is over.
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
        let segment = self.shelf.segment(info).await?;
        let part = Arc::new(self.index_records(segment.records.clone()).await?);
        self.indexes.keep(info, &part);
        Ok(Some(part))
    }

    /// Reads the newest records of the table: one page, and all after `archived_to`. Returns false if a bound was met.
    async fn index_table(
        &self,
        name: &ChatKey,
        archived_to: Option<&SortKey>,
        requests: &mut usize,
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
            to = super::merged::directly_below(last.as_str());
        };
        stored.reverse();
        Ok((self.index_records(stored).await?, is_whole))
    }

    /// Indexes the newest form of each message of `stored`.
    async fn index_records(&self, stored: Vec<Stored>) -> Result<Indexed, HistoryError> {
        let mut newest: Vec<(Said, Stored)> = Vec::new();
        let mut places: HashMap<SortKey, usize> = HashMap::new();
        for stored in stored.into_iter().filter(|stored| is_said(stored.record())) {
            let record = stored.record();
            let said = Said {
                chat: record.chat.clone(),
                place: place_of(record),
                form: (record.form_ts(), record.revision()),
                line: record.line().map(str::to_owned),
                id: record.message_id.to_string(),
                is_taken_back: record.message.metadata.is_recalled(),
            };
            match places.get(&said.place) {
                Some(known) if newest[*known].0.form < said.form => newest[*known] = (said, stored),
                Some(_) => {}
                None => {
                    places.insert(said.place.clone(), newest.len());
                    newest.push((said, stored));
                }
            }
        }
        newest.sort_by(|(a, _), (b, _)| a.place.cmp(&b.place));
        let mut texts: Vec<(String, Option<String>)> = Vec::new();
        let mut messages = Vec::new();
        for (mut said, stored) in newest {
            let is_outside = matches!(stored, Stored::Body { .. });
            let record = self.whole(stored).await?;
            if is_outside {
                said.line = record.line().map(str::to_owned);
                said.is_taken_back = record.message.metadata.is_recalled();
            }
            let mut text = record.message.plain_text();
            text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
            let sender = record.message.metadata.sender_name().map(str::to_owned);
            texts.push((text, sender));
            messages.push(said);
        }
        let texts = texts.iter().zip(&messages).map(|((text, sender), said)| Text {
            text,
            sender: sender.as_deref(),
            at: Some(said.place.ts()),
        });
        Ok(Indexed { index: Index::of(texts), messages })
    }

    /// Reads the newest form of a message that an index proposes, and the messages around it. Returns `None` if it is
    /// not there any more, or its newest form has no word of the query.
    async fn hit(
        &self,
        names: &[Name],
        said: &Said,
        search: &Search<'_>,
        asked: &HashSet<String>,
        score: f32,
    ) -> Result<Option<Hit>, HistoryError> {
        let Some((name, longest)) = names.iter().find(|(name, _)| *name == said.chat) else {
            return Ok(None);
        };
        let end = said.place.base().end_of_base();
        let before = Span { newest_first: true, ..Span::all(FIRST_KEY, end.as_str()) };
        let after = Span::all(format!("{end}\u{1}"), LAST_KEY);
        let (before, after) = futures::try_join!(
            self.entries(name, *longest, before, LOOK_AROUND),
            self.entries(name, *longest, after, LOOK_AROUND),
        )?;
        let mut forms: Vec<Stored> = Vec::new();
        for entry in before.iter().rev().chain(&after).map(Entry::stored) {
            let stored = entry?;
            let record = stored.record();
            if !is_said(record) || !search.is_on_line(record.line()) {
                continue;
            }
            let place = place_of(record);
            match forms.iter_mut().find(|known| place_of(known.record()) == place) {
                Some(known) if form_of(known.record()) < form_of(record) => *known = stored,
                Some(_) => {}
                None => forms.push(stored),
            }
        }
        forms.retain(|stored| !stored.record().message.metadata.is_recalled());
        forms.sort_by_key(|stored| place_of(stored.record()));
        let Some(at) = forms.iter().position(|stored| place_of(stored.record()) == said.place) else {
            return Ok(None);
        };
        let from = at.saturating_sub(CONTEXT);
        let shown: Vec<Stored> = forms.into_iter().skip(from).take(at - from + 1 + CONTEXT).collect();
        let mut records: Vec<Record> = Vec::new();
        for stored in shown {
            records.push(self.whole(stored).await?);
        }
        let record = records.remove(at - from);
        if form_of(&record) != said.form
            && !terms(&record.message.plain_text()).iter().any(|term| asked.contains(term))
        {
            return Ok(None);
        }
        Ok(Some(Hit { record, score, context: records }))
    }
}

/// Returns, for each message that has forms in several parts, the part and number of its newest form.
fn newest_forms(parts: &[Arc<Indexed>]) -> HashMap<(&ChatKey, &SortKey), (usize, usize)> {
    let all = || {
        parts.iter().enumerate().flat_map(|(number, part)| {
            part.messages.iter().enumerate().map(move |(message, said)| (number, message, said))
        })
    };
    let mut newest: HashMap<(&ChatKey, &SortKey), (usize, usize)> = HashMap::new();
    for (part, message, said) in all() {
        newest
            .entry((&said.chat, &said.place))
            .and_modify(|known| {
                // Of the same form, the table's copy counts, which comes after those of segments.
                if parts[known.0].messages[known.1].form <= said.form {
                    *known = (part, message);
                }
            })
            .or_insert((part, message));
    }
    newest
}

/// Returns the key that all forms of a message share: its base, or for a reply its whole key.
fn place_of(record: &Record) -> SortKey {
    let base = record.key.base();
    if record.key.is_reply() || record.key.hangs_on_reply() { base.reply() } else { base }
}

fn is_said(record: &Record) -> bool {
    matches!(record.kind(), Kind::Normal | Kind::Event | Kind::Revision)
}

fn form_of(record: &Record) -> (Option<Timestamp>, u32) {
    (record.form_ts(), record.revision())
}

fn size_of_message(record: &Record) -> usize {
    record.message.parts.iter().map(Part::json_len).sum()
}
