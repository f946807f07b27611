//! The index of a segment as an object beside that of the segment.
//!
//! ```text
//! segments/telegram-3f1c0a9be21d4f5a6b7c8d9e/1763765920000-9f86d081884c7d65.jsonl.gz.index
//! ```
//!
//! It is gzip. Its first line names the messages, those of an [`Index`] in bytes follow it:
//!
//! ```json
//! {"version":1,"sha256":"b5bb9d8014a0f9b1…","messages":[{"place":"1763765920000#00000000000000000007","id":"7","revision":0},
//!  {"place":"1763765960000#00000000000000000009","id":"9@1","formTs":1763765999000,"revision":1,"isTakenBack":true}]}
//! ```
//!
//! It holds no text. It is created before the segment's pointer, and never changed; an index of another version, or of another
//! object than the pointer's, is not used, and the segment itself is read. It is deleted with the object: its key starts with
//! the object's.

use std::io::Read;

use annals_core::chat_key::ChatKey;
use annals_core::ranking::Index;
use annals_core::sort_key::{SortKey, Timestamp};
use flate2::read::GzDecoder;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::history::segment;
use crate::history::shelf::SegmentInfo;

/// The end of the keys of indexes; the rest is the key of the segment's object.
const INDEX: &str = ".index";

/// The version of the form, of the terms of a text and of their digests: an index of another one finds nothing.
const VERSION: u32 = 1;

/// Maximum size of an index that is read, in bytes; stored ones are far smaller.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum size of the indexes that a process keeps, in bytes.
pub(in crate::history) const MAX_KEPT_BYTES: u64 = 64 * 1024 * 1024;

/// The messages of a segment, or of the table, as a search needs them.
#[derive(Debug)]
pub(in crate::history) struct Indexed {
    /// The name that the records are stored under.
    pub(super) chat: ChatKey,
    /// True if they are those of a segment.
    pub(super) is_archived: bool,
    pub(super) index: Index,
    /// In the order of the index.
    pub(super) messages: Vec<IndexedMessage>,
}

/// A message of an [`Indexed`], in the newest form that is there.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IndexedMessage {
    /// The key that its forms share.
    #[serde(deserialize_with = "key")]
    pub(super) place: SortKey,
    pub(super) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) form_ts: Option<Timestamp>,
    pub(super) revision: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_taken_back: bool,
}

#[derive(Serialize, Deserialize)]
struct Header<M> {
    version: u32,
    sha256: String,
    messages: M,
}

impl IndexedMessage {
    /// Returns what orders the forms of a message.
    pub(super) fn form(&self) -> (Option<Timestamp>, u32) {
        (self.form_ts, self.revision)
    }
}

impl Indexed {
    /// Returns its size in memory, in bytes.
    pub(super) fn size(&self) -> u64 {
        (self.index.size() + self.messages.len() * (size_of::<IndexedMessage>() + 64)) as u64
    }

    /// Returns the stored form of the index of this segment.
    pub(super) fn to_bytes(&self, info: &SegmentInfo) -> Result<Vec<u8>, serde_json::Error> {
        let header = Header { version: VERSION, sha256: info.sha256.clone(), messages: &self.messages };
        let mut header = serde_json::to_vec(&header)?;
        header.push(b'\n');
        Ok(segment::compress([header.as_slice(), &self.index.to_bytes()].into_iter()))
    }

    /// Reads the stored form; `None` if `bytes` is not the index of this segment in this version.
    pub(super) fn from_bytes(bytes: &[u8], info: &SegmentInfo) -> Option<Self> {
        let mut unpacked = Vec::new();
        GzDecoder::new(bytes).take(MAX_BYTES).read_to_end(&mut unpacked).ok()?;
        let end = unpacked.iter().position(|byte| *byte == b'\n')?;
        let header: Header<Vec<IndexedMessage>> = serde_json::from_slice(&unpacked[..end]).ok()?;
        let index = Index::from_bytes(&unpacked[end + 1..])?;
        let is_of_it =
            header.version == VERSION && header.sha256 == info.sha256 && header.messages.len() == index.len();
        is_of_it.then(|| Self {
            chat: info.chat.clone(),
            is_archived: true,
            index,
            messages: header.messages,
        })
    }
}

pub(super) fn index_key(info: &SegmentInfo) -> String {
    format!("{}{INDEX}", info.object())
}

pub(in crate::history) fn is_index(key: &str) -> bool {
    key.ends_with(INDEX)
}

fn key<'de, D: Deserializer<'de>>(from: D) -> Result<SortKey, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use annals_core::ranking::Text;

    use super::*;
    use crate::history::shelf::tests::sample;

    #[test]
    fn a_stored_index_reads_back_for_its_own_segment_alone() {
        let info = sample("1763765920000#a", "1763765960000#b");
        let first = IndexedMessage {
            place: info.from.clone(),
            id: "a".into(),
            form_ts: None,
            revision: 0,
            line: None,
            is_taken_back: false,
        };
        let last = IndexedMessage {
            place: info.to.clone(),
            id: "b@2".into(),
            form_ts: Timestamp::from_millis(1_763_765_970_000),
            revision: 2,
            line: Some("business-1".into()),
            is_taken_back: true,
        };
        let texts = ["the boat", ""].map(|text| Text { text, ..Text::default() });
        let (index, messages) = (Index::of(texts), vec![first, last]);
        let indexed = Indexed { chat: info.chat.clone(), is_archived: true, index, messages };
        let bytes = indexed.to_bytes(&info).unwrap();
        let read = Indexed::from_bytes(&bytes, &info).unwrap();
        assert_eq!(format!("{read:?}"), format!("{indexed:?}"));
        let erased = SegmentInfo { sha256: "01".into(), ..info.clone() };
        assert!(Indexed::from_bytes(&bytes, &erased).is_none());
        assert!(Indexed::from_bytes(&bytes[..bytes.len() / 2], &info).is_none());
        assert!(Indexed::from_bytes(b"", &info).is_none());
        assert_eq!(index_key(&info), format!("{}.index", info.object()));
    }
}
