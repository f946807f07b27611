//! Searches the archive: the messages of the newest segments that fit a question best. A sample line of a segment is in
//! `segment.rs`.

use std::collections::HashMap;
use std::sync::Arc;

use annals_core::chat_key::ChatKey;
use annals_core::markup::Sender;
use annals_core::message::Role;
use annals_core::ranking::{rank, terms};
use annals_core::record::{Kind, Record};
use annals_core::sender;
use annals_core::sort_key::{MessageId, SortKey, Timestamp};

use super::item::Stored;
use super::shelf::Segment;
use super::{History, HistoryError, MAX_SEGMENT_BYTES};

/// Maximum number of characters of a message that a hit shows.
const EXCERPT_CHARS: usize = 400;

/// Maximum number of messages that are looked up in the table for one hit: those that were edited since do not count.
const LOOKS_PER_HIT: usize = 4;

/// A question, and the bounds of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search<'a> {
    /// The words.
    pub query: &'a str,
    /// The line of the chat to search: see [`Record::line`].
    pub line: Option<&'a str>,
    /// Maximum number of hits.
    pub max_hits: usize,
    /// Maximum number of segments to read.
    pub max_segments: usize,
    /// Maximum size of the JSON of all segments to read, in bytes; the first is read in any case.
    pub max_json_bytes: u64,
}

impl<'a> Search<'a> {
    /// A search for `query` on `line` that one run can afford: 8 hits out of 20 segments and 16 MB.
    pub fn new(query: &'a str, line: Option<&'a str>) -> Self {
        let max_json_bytes = 4 * MAX_SEGMENT_BYTES as u64;
        Self { query, line, max_hits: 8, max_segments: 20, max_json_bytes }
    }
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The hits, the best first.
    pub hits: Vec<Hit>,
    /// Number of segments that were searched.
    pub segments: usize,
    /// True if older segments were left out.
    pub is_cut_off: bool,
}

/// An archived message that fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The message's id.
    pub message_id: MessageId,
    /// The time of the message.
    pub ts: Timestamp,
    /// Its role.
    pub role: Role,
    /// The sender's name, or the platform's id of the sender.
    pub who: String,
    /// The sender as the model sees it; `None` for the agent.
    pub sender: Option<Sender>,
    /// The message, or the part of it around the first word of the question.
    pub excerpt: String,
}

impl History {
    /// Searches the segments of `chat`, the newest first, over every name that it has had.
    ///
    /// A message counts as its newest form, also if that is still in the table, and a message that was taken back is
    /// not found. Neither are notices, boundaries and summaries, nor messages whose body is outside their segment.
    pub async fn search_segments(&self, chat: &ChatKey, search: &Search<'_>) -> Result<Found, HistoryError> {
        // One more than the limit shows whether there are more.
        let mut infos = self.newest_segments(chat, search.max_segments + 1).await?;
        let total = infos.len();
        infos.truncate(search.max_segments);
        let (mut segments, mut json_bytes) = (Vec::new(), 0);
        for info in infos {
            json_bytes += info.json_bytes;
            if !segments.is_empty() && json_bytes > search.max_json_bytes {
                break;
            }
            segments.push(self.shelf.segment(&info).await?);
        }
        let newest = newest_forms(&segments);
        let said: Vec<(&Record, String)> = newest
            .into_iter()
            .filter(|record| record.line() == search.line && !is_taken_back(record))
            .map(|record| (record, record.message.plain_text()))
            .collect();
        let texts: Vec<&str> = said.iter().map(|(_, text)| text.as_str()).collect();
        let mut found =
            Found { hits: Vec::new(), segments: segments.len(), is_cut_off: segments.len() < total };
        for scored in rank(search.query, &texts, search.max_hits * LOOKS_PER_HIT) {
            if found.hits.len() >= search.max_hits {
                break;
            }
            let (record, text) = &said[scored.index];
            if !self.is_changed_in_table(record).await? {
                found.hits.push(hit(record, text, search.query));
            }
        }
        Ok(found)
    }

    /// Returns true if the table has a later form of a message, which was edited or taken back after it was archived.
    async fn is_changed_in_table(&self, record: &Record) -> Result<bool, HistoryError> {
        let forms = self.message(&record.chat, &record.key).await?;
        let is_later = |form: &Record| place_of(form) == place_of(record) && is_newer(form, record);
        Ok(forms.iter().any(|form| is_said(form) && is_later(form)))
    }
}

/// Returns the key that all forms of a message share: its base, or for a reply its whole key.
fn place_of(record: &Record) -> SortKey {
    let base = record.key.base();
    if record.key.is_reply() || record.key.hangs_on_reply() { base.reply() } else { base }
}

/// Returns the newest form of each message, the newest message first.
fn newest_forms(segments: &[Arc<Segment>]) -> Vec<&Record> {
    let mut newest: HashMap<(&ChatKey, SortKey), &Record> = HashMap::new();
    for stored in segments.iter().flat_map(|segment| &segment.records) {
        let Stored::Inline(record) = stored else { continue };
        if !is_said(record) {
            continue;
        }
        newest
            .entry((&record.chat, place_of(record)))
            .and_modify(|known| {
                if is_newer(record, known) {
                    *known = record;
                }
            })
            .or_insert(record);
    }
    let mut newest: Vec<&Record> = newest.into_values().collect();
    newest.sort_by(|a, b| b.key.cmp(&a.key));
    newest
}

fn is_said(record: &Record) -> bool {
    matches!(record.kind(), Kind::Normal | Kind::Event | Kind::Revision)
}

fn is_newer(record: &Record, known: &Record) -> bool {
    (record.form_ts(), record.revision()) > (known.form_ts(), known.revision())
}

fn is_taken_back(record: &Record) -> bool {
    record.message.metadata.is_recalled()
}

fn hit(record: &Record, text: &str, query: &str) -> Hit {
    let name = record.message.metadata.sender_name();
    Hit {
        message_id: record.message_id.clone(),
        ts: record.ts,
        role: record.role(),
        who: name.unwrap_or(&record.user_id).to_owned(),
        sender: sender::of(record),
        excerpt: excerpt(text, query),
    }
}

/// Returns at most [`EXCERPT_CHARS`] of `text`, around the first of its terms that `query` has; the longer terms count
/// first.
fn excerpt(text: &str, query: &str) -> String {
    if text.chars().count() <= EXCERPT_CHARS {
        return text.to_owned();
    }
    let lower = text.to_lowercase();
    let mut asked = terms(query);
    asked.sort_by_key(|term| std::cmp::Reverse(term.len()));
    // Lower case may have another length; an excerpt that is off by a few characters does no harm.
    let at = asked.iter().find_map(|term| lower.find(term.as_str())).unwrap_or(0);
    let before = lower[..at].chars().count().saturating_sub(EXCERPT_CHARS / 4);
    let shown: String = text.chars().skip(before).take(EXCERPT_CHARS).collect();
    let start = if before > 0 { "…" } else { "" };
    let end = if before + EXCERPT_CHARS < text.chars().count() { "…" } else { "" };
    format!("{start}{shown}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_around_the_first_word_of_the_question() {
        assert_eq!(excerpt("short", "x"), "short");
        let long = format!("{} 我们在北京烤鸭店见面 {}", "前".repeat(900), "后".repeat(900));
        let shown = excerpt(&long, "烤鸭");
        assert!(shown.contains("北京烤鸭店") && shown.starts_with('…') && shown.ends_with('…'));
        assert_eq!(shown.chars().count(), EXCERPT_CHARS + 2);
        assert!(excerpt(&format!("Tea {}", "x ".repeat(900)), "TEA").starts_with("Tea"));
        assert!(excerpt(&"x ".repeat(900), "y").ends_with('…'));
    }
}
