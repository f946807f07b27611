//! A segment: whole records of one chat as gzip JSONL, one record a line, in key order. Pure format, no I/O.
//!
//! ```json
//! {"chatKey":"telegram:chat:42","sk":"1763765920000#00000000000000000007","actorKey":"telegram:chat:42:user:42",
//!  "channel":"telegram","chatId":"42","userId":"42","messageId":"7","ts":1763765920000,"sentAt":1763765920512,
//!  "role":"user","kind":"normal","tokens":6,"expiresAt":1764543520,"asks":true,
//!  "message":{"id":"7","role":"user","parts":[{"type":"text","text":"hello"}]}}
//! ```
//!
//! The names are those of the table's items, and the same ones are optional (`history/fields.rs`). A message whose body
//! is in S3 has `body`, the body's key, in place of `message`: bodies are never changed, and so a segment stays small.

use std::fmt;
use std::io::{Read, Write};
use std::str::FromStr;

use annals_core::chat_key::ChatKey;
use annals_core::sort_key::{SortKey, Timestamp};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use ring::digest;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::fields::Fields;
use super::item::Stored;

/// Maximum size of a segment's JSON when it is read, in bytes; written segments are far smaller.
const MAX_JSON_BYTES: u64 = 256 * 1024 * 1024;

/// The name of a segment in its chat: `<13 digits of its first record's time>-<16 hex digits>`, made of the keys of its
/// first and its last record. Each record is in one segment, so no two segments share a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, utoipa::ToSchema)]
#[serde(transparent)]
#[schema(pattern = "^[0-9]{13}-[0-9a-f]{16}$")]
pub struct SegmentId(String);

/// A string that is not the name of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a segment: expected <13 digits>-<16 hex digits>")]
pub struct SegmentIdError;

impl SegmentId {
    /// Returns the name of the segment that goes from `from` to `to`, both included.
    pub fn of(from: &SortKey, to: &SortKey) -> Self {
        let digest = digest::digest(&digest::SHA256, format!("{from}\n{to}").as_bytes());
        Self(format!("{:013}-{}", from.ts().as_millis(), hex::encode(&digest.as_ref()[..8])))
    }

    /// Returns the time of its first record.
    pub(super) fn ts(&self) -> Timestamp {
        self.0
            .get(..13)
            .and_then(|ts| ts.parse().ok())
            .and_then(Timestamp::from_millis)
            .unwrap_or(Timestamp::MIN)
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SegmentId {
    type Err = SegmentIdError;

    fn from_str(id: &str) -> Result<Self, SegmentIdError> {
        let is_id = id.split_once('-').is_some_and(|(ts, digest)| {
            ts.len() == 13
                && ts.bytes().all(|b| b.is_ascii_digit())
                && digest.len() == 16
                && digest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        });
        if is_id { Ok(Self(id.to_owned())) } else { Err(SegmentIdError) }
    }
}

impl<'de> Deserialize<'de> for SegmentId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// A fault in an object that should be a segment. Names the place, never the content, since that may be a message's
/// text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    #[error("it is not a complete gzip file")]
    Gzip,
    #[error("it contains no records")]
    Empty,
    #[error("line {0} is not a record")]
    Line(usize),
    /// A record does not belong there: of another chat, outside the segment's range or out of order.
    #[error("line {0} is of another chat, or out of order")]
    Place(usize),
    #[error("its SHA-256 is not the one in its pointer")]
    Digest,
}

/// Writes a record as a line, with the line feed that ends it.
pub(super) fn to_line(stored: &Stored) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(&Line::of(stored)?)?;
    line.push(b'\n');
    Ok(line)
}

/// Compresses `lines` to a segment.
pub(super) fn compress<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    for line in lines {
        // Writing into memory does not fail.
        let _ = encoder.write_all(line);
    }
    encoder.finish().unwrap_or_default()
}

/// Reads a segment of `chat` whose keys are in `from..=to`; returns its records and the size of its JSON in bytes.
pub(super) fn decode(
    bytes: &[u8],
    chat: &ChatKey,
    from: &SortKey,
    to: &SortKey,
) -> Result<(Vec<Stored>, u64), FormatError> {
    let mut json = Vec::new();
    GzDecoder::new(bytes).take(MAX_JSON_BYTES).read_to_end(&mut json).map_err(|_| FormatError::Gzip)?;
    let mut records: Vec<Stored> = Vec::new();
    for (index, line) in json.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let number = index + 1;
        let line: Line = serde_json::from_slice(line).map_err(|_| FormatError::Line(number))?;
        let stored = line.stored().ok_or(FormatError::Line(number))?;
        let record = stored.record();
        let is_in_order = records.last().is_none_or(|before| before.record().key < record.key);
        if record.chat != *chat || record.key < *from || record.key > *to || !is_in_order {
            return Err(FormatError::Place(number));
        }
        records.push(stored);
    }
    if records.is_empty() {
        return Err(FormatError::Empty);
    }
    Ok((records, json.len() as u64))
}

/// Reads the segment `gzip` of `chat`, and returns its lines as they would be written. For the tests of hostile input.
#[doc(hidden)]
pub fn reread_segment(gzip: &[u8], chat: &ChatKey) -> Result<Vec<u8>, FormatError> {
    let (from, to) = (SortKey::start_of(Timestamp::MIN), SortKey::start_of(Timestamp::MAX));
    let (records, _) = decode(gzip, chat, &from, &to)?;
    let lines: Result<Vec<Vec<u8>>, _> = records.iter().map(to_line).collect();
    lines.map(|lines| lines.concat()).map_err(|_| FormatError::Line(0))
}

/// Returns the SHA-256 of `bytes` in hex.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, bytes))
}

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    fields: Fields,
    /// Parsed on its own, as in the table: within a line a message is nested one level deeper, which could exceed the
    /// parser's limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

impl Line {
    fn of(stored: &Stored) -> Result<Self, serde_json::Error> {
        let (message, body) = match stored {
            Stored::Inline(record) => (Some(to_raw_value(&record.message)?), None),
            Stored::Body { body, .. } => (None, Some(body.clone())),
        };
        Ok(Self { fields: Fields::of(stored.record()), message, body })
    }

    fn stored(self) -> Option<Stored> {
        match (self.message, self.body) {
            (Some(message), None) => {
                let message = serde_json::from_str(message.get()).ok()?;
                Some(Stored::Inline(self.fields.record(Some(message))?))
            }
            (None, Some(body)) => Some(Stored::Body { record: self.fields.record(None)?, body }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
