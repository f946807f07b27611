//! Searches a chat's whole history, archived or not: what the API and the agent's tool find.
//!
//! The messages of each segment are indexed when it is archived (`search/stored.rs`); segments never change, so a process
//! keeps the indexes that it has read. The newest records of the table are read for each search: all that no segment holds
//! yet, and those that may be newer forms of archived messages. A late message or an edit far back in the history is
//! found once it is archived.
//!
//! *Invariant:* an index only proposes messages. Each hit is read again with its neighbours, as a page reads them, so
//! what is shown is the newest form, and nothing that was erased.
//!
//! A search is bounded: in segments and their records, in records of the table, in time and in the size of its result.
//! [`Found::is_partial`] says if a bound was met.
//!
//! - `search/parts.rs`: the indexes of a chat, and the records of the table that no segment holds
//! - `search/stored.rs`: the form of an index in S3

mod parts;
mod stored;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use annals_core::chat_key::ChatKey;
use annals_core::message::Part;
use annals_core::ranking::{self, Index};
use annals_core::record::{Kind, Record};
use annals_core::sort_key::{SortKey, Timestamp};
use annals_core::terms::{query_terms, terms};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::item::Stored;
use super::merged::Entry;
use super::read::Name;
use super::table::Span;
use super::{FIRST_KEY, History, HistoryError, LAST_KEY};

use stored::IndexedMessage;
pub(super) use stored::{Indexed, MAX_KEPT_BYTES, is_index};

/// Number of messages on each side of a hit that are always shown with it. A message so near to a better one is no hit of
/// its own if there are others.
const CONTEXT: usize = 2;

/// More messages are shown as long as the text of all on that side is within this number of characters: an exchange of
/// short messages is understood from more of them.
const CONTEXT_CHARS: usize = 150;

/// Maximum number of messages on each side of a hit.
const MAX_CONTEXT: usize = 10;

/// Maximum number of proposals for each hit: some may have been erased or changed since they were indexed.
const PROPOSALS_PER_HIT: usize = 2;

/// Number of hits that are read at the same time.
const HITS_AT_ONCE: usize = 8;

/// Number of records that are read on each side of a hit: not each is a message.
const LOOK_AROUND: usize = 24;

/// Maximum size of the messages of a result, in bytes of JSON: an answer of Lambda ends at 6 MB.
const MAX_BYTES: usize = 3 * 1024 * 1024;

/// A question, and what it is asked of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search<'a> {
    pub query: &'a str,
    /// The line of the chat to search (see [`Record::line`]); all lines if `None`.
    pub line: Option<Option<&'a str>>,
    pub max_hits: usize,
    /// Ids of messages that are not searched.
    pub without: &'a [String],
    /// Key of the first message that is searched and shown; all if `None`.
    pub since: Option<&'a SortKey>,
}

impl<'a> Search<'a> {
    /// A search for at most `max_hits` messages that fit `query`, on all lines.
    pub fn new(query: &'a str, max_hits: usize) -> Self {
        Self { query, line: None, max_hits, without: &[], since: None }
    }

    fn is_since(&self, place: &SortKey) -> bool {
        self.since.is_none_or(|since| place >= since)
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
    pub record: Record,
    /// Its score, comparable only within the same search.
    pub score: f32,
    /// The messages before and after it, in chat order, each in its newest form.
    pub context: Vec<Record>,
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
                && search.is_since(&said.place)
                && !search.without.contains(&said.id)
                && newest.get(&(&parts[part].chat, &said.place)).is_none_or(|known| *known == (part, message))
        };
        let indexes: Vec<&Index> = parts.iter().map(|part| &part.index).collect();
        let proposed = search.max_hits.saturating_mul(PROPOSALS_PER_HIT);
        let ranked = ranking::search(&indexes, search.query, CONTEXT, proposed, is_shown);
        let asked: HashSet<String> = query_terms(search.query).into_iter().collect();
        let mut hits: Vec<Hit> = Vec::new();
        let mut bytes = 0;
        let read: Vec<BoxFuture<'_, Result<Option<Hit>, HistoryError>>> = ranked
            .into_iter()
            .map(|ranked| {
                let part = &parts[ranked.index];
                let said = &part.messages[ranked.text];
                self.hit(&names, &part.chat, said, search, &asked, ranked.score).boxed()
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

    /// Reads the newest form of a message that an index proposes, and the messages around it. Returns `None` if it is
    /// not there any more, or its newest form has no word of the query.
    async fn hit(
        &self,
        names: &[Name],
        chat: &ChatKey,
        said: &IndexedMessage,
        search: &Search<'_>,
        asked: &HashSet<String>,
        score: f32,
    ) -> Result<Option<Hit>, HistoryError> {
        let Some((name, longest)) = names.iter().find(|(name, _)| name == chat) else {
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
            if !search.is_since(&place) {
                continue;
            }
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
        let chars = |stored: &Stored| stored.record().message.plain_text().chars().count();
        let from = at - shown_of(forms[..at].iter().rev().map(chars));
        let to = at + shown_of(forms[at + 1..].iter().map(chars));
        let mut records: Vec<Record> = Vec::new();
        for stored in forms.into_iter().skip(from).take(to - from + 1) {
            records.push(self.whole(stored).await?);
        }
        let record = records.remove(at - from);
        if form_of(&record) != said.form()
            && !terms(&record.message.plain_text()).iter().any(|term| asked.contains(term))
        {
            return Ok(None);
        }
        Ok(Some(Hit { record, score, context: records }))
    }
}

/// Returns the number of messages that are shown on one side of a hit; `chars` are the lengths of those that are there,
/// the nearest first.
fn shown_of(chars: impl Iterator<Item = usize>) -> usize {
    let mut total = 0;
    let fits = |(place, chars): &(usize, usize)| {
        total += chars;
        *place < CONTEXT || total <= CONTEXT_CHARS
    };
    chars.enumerate().take(MAX_CONTEXT).take_while(fits).count()
}

/// Returns, for each message that may have forms in several parts, the part and number of its newest form. A message of a
/// segment that is there in its first form alone is not among them.
fn newest_forms(parts: &[Arc<Indexed>]) -> HashMap<(&ChatKey, &SortKey), (usize, usize)> {
    let mut newest: HashMap<(&ChatKey, &SortKey), (usize, usize)> = HashMap::new();
    for (number, part) in parts.iter().enumerate() {
        for (message, said) in part.messages.iter().enumerate() {
            if part.is_archived && said.form() == (None, 0) {
                continue;
            }
            let place = newest.entry((&part.chat, &said.place));
            place
                .and_modify(|known| {
                    // Of the same form, the table's copy counts, which comes after those of segments.
                    if parts[known.0].messages[known.1].form() <= said.form() {
                        *known = (number, message);
                    }
                })
                .or_insert((number, message));
        }
    }
    newest
}

/// Returns the key that all forms of a message share: its base, or for a reply its whole key.
fn place_of(record: &Record) -> SortKey {
    let base = record.key.base();
    if record.key.is_reply() || record.key.belongs_to_reply() { base.reply() } else { base }
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

#[cfg(test)]
mod tests {
    use super::shown_of;

    #[test]
    fn short_messages_are_shown_with_more_of_their_neighbours() {
        assert_eq!(shown_of([0; 0].into_iter()), 0);
        assert_eq!(shown_of([900, 900, 900].into_iter()), 2);
        assert_eq!(shown_of([50, 50, 50, 50].into_iter()), 3);
        assert_eq!(shown_of([140, 20, 1].into_iter()), 2);
        assert_eq!(shown_of([1; 99].into_iter()), 10);
    }
}
