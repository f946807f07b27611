//! Segments as objects in S3, with a pointer to each in its chat's partition.
//!
//! ```text
//! segments/telegram-3f1c0a9be21d4f5a6b7c8d9e/1763765920000-9f86d081884c7d65.jsonl.gz
//! ```
//!
//! ```json
//! {"pk": "telegram:chat:42", "sk": "!segment#1763765960000#00000000000000000009",
//!  "id": "1763765920000-9f86d081884c7d65", "from": "1763765920000#00000000000000000007",
//!  "to": "1763765960000#00000000000000000009", "fromId": "7", "toId": "9", "count": 3, "bytes": 512, "jsonBytes": 1731,
//!  "sha256": "b5bb9d8014a0f9b1…", "createdAt": 1764560000000, "expiresFrom": 1764543520}
//! ```
//!
//! An object is created once and never changed. A pointer is put after its object has been read back, so its object exists.
//! It is replaced only if records of a person were erased (`erase.rs`): then it has `replaces`, the key of the object
//! before, and its own object is called `<id>-<16 hex digits of its SHA-256>.jsonl.gz`; with `count` 0 it has none.
//! `expiresFrom` is the earliest `expiresAt` of the records.

use std::sync::Arc;
use std::time::Duration;

use annals_aws::bucket::BucketError;
use annals_core::chat_key::ChatKey;
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use serde::{Deserialize, Serialize};

use super::item::{self, Stored, text};
use super::segment::{self, FormatError, SegmentId};
use super::table::{Item, Span, Written, string};
use super::{History, HistoryError, LAST_KEY, partition};

/// Maximum size of the JSON of all segments that a process keeps decoded, in bytes.
pub(super) const MAX_KEPT_BYTES: u64 = 16 * 1024 * 1024;

/// The media type of segments and their indexes.
pub(super) const GZIP: &str = "application/gzip";

const POINTER: &str = "!segment#";

/// The attributes of a segment that its pointer contains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SegmentInfo {
    /// The name of the chat that its records are stored under.
    #[serde(rename = "chatKey")]
    pub chat: ChatKey,
    /// Its name, unique in the chat.
    pub id: SegmentId,
    /// Its first record. Records of other segments may lie between its ends.
    pub from: SortKey,
    /// Its last record.
    pub to: SortKey,
    /// The first record's message id.
    pub from_id: MessageId,
    /// The last record's message id.
    pub to_id: MessageId,
    pub count: u32,
    /// The size of its object, compressed.
    pub bytes: u64,
    pub json_bytes: u64,
    /// The SHA-256 of its object in hex.
    pub sha256: String,
    /// Time at which its pointer was put.
    pub created_at: Timestamp,
    /// The earliest time at which a record of it may leave the table, in epoch seconds; `None` if none ever does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_from: Option<i64>,
    /// The key of the object that was the segment's before records were erased from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
}

impl SegmentInfo {
    pub(super) fn object(&self) -> String {
        match &self.replaces {
            None => object_key(&self.chat, &self.id),
            Some(_) => format!("{}{}-{:.16}.jsonl.gz", folder(&self.chat), self.id, self.sha256),
        }
    }
}

#[derive(Debug)]
pub struct Segment {
    pub(super) info: SegmentInfo,
    pub(super) records: Vec<Stored>,
}

impl Segment {
    pub fn info(&self) -> &SegmentInfo {
        &self.info
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &SortKey> {
        self.records.iter().map(|stored| &stored.record().key)
    }
}

/// A failure to store or read a segment. Its records stay as they are.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// S3 failed. If it was a put, nothing refers to the object, and the next run puts it again.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// It was deleted; or records of a person were erased from it after its pointer was read.
    #[error(
        "the segment {key} is not in S3 any more: if a person was being erased at that moment, repeat the request; \
         otherwise restore it from an earlier version or a backup"
    )]
    Missing { key: String },
    /// An object that was put reads back with other content. Nothing refers to it; its records are still in the table.
    #[error(
        "the segment {key} does not read back as it was stored ({problem}): nothing refers to it, and its records are \
         still in the table; delete the object, and the next run stores it again"
    )]
    ReadBack { key: String, problem: FormatError },
    #[error("the segment {key} is damaged ({problem}): restore it from an earlier version or a backup")]
    Damaged { key: String, problem: FormatError },
    /// A pointer lacks an attribute, or points at another segment of the same end.
    #[error("the pointer {sk} of its chat is not valid: restore the table from a backup")]
    Pointer { sk: String },
}

impl SegmentError {
    /// Returns true if a retry may succeed without repair.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, Self::Bucket(_))
    }
}

impl History {
    /// Reads the segment of a pointer.
    pub(super) async fn segment_of(&self, info: &SegmentInfo) -> Result<Arc<Segment>, SegmentError> {
        if let Some(known) = self.segments.get(info) {
            return Ok(known);
        }
        if info.count == 0 {
            return Ok(Arc::new(Segment { info: info.clone(), records: Vec::new() }));
        }
        let key = info.object();
        let Some(bytes) = self.bucket.get(&key).await? else { return Err(SegmentError::Missing { key }) };
        let decoded = if segment::sha256(&bytes) == info.sha256 {
            segment::decode(&bytes, &info.chat, &info.from, &info.to)
        } else {
            Err(FormatError::Digest)
        };
        match decoded {
            Ok((records, _)) => {
                let segment = Arc::new(Segment { info: info.clone(), records });
                self.segments.keep(info, &segment, info.json_bytes);
                Ok(segment)
            }
            Err(problem) => Err(SegmentError::Damaged { key, problem }),
        }
    }

    /// Reads the pointers of every segment of `chat`, over every name that it has had, in order of their starts.
    pub async fn segments(&self, chat: &ChatKey) -> Result<Vec<SegmentInfo>, HistoryError> {
        let mut all = Vec::new();
        for (name, _) in self.names(chat).await?.into_iter().rev().filter(|(_, longest)| longest.is_some()) {
            let mut segments = self.pointers(&name, &all_pointers(false)).await?;
            segments.retain(|info| info.count > 0);
            segments.sort_by(|a, b| (&a.from, &a.to).cmp(&(&b.from, &b.to)));
            all.extend(segments);
        }
        Ok(all)
    }

    /// Reads the pointers of the segments of `chat` that end last, at most `limit`, over every name that it has had.
    pub(super) async fn newest_segments(
        &self,
        chat: &ChatKey,
        limit: usize,
    ) -> Result<Vec<SegmentInfo>, HistoryError> {
        let mut newest = Vec::new();
        for (name, _) in self.names(chat).await?.into_iter().filter(|(_, longest)| longest.is_some()) {
            let left = limit - newest.len();
            if left == 0 {
                break;
            }
            newest.extend(self.pointers(&name, &Span { limit: Some(left), ..all_pointers(true) }).await?);
        }
        Ok(newest)
    }

    /// Reads the segment `id` of `chat`, under any of its names; `None` if it does not exist.
    pub async fn segment(
        &self,
        chat: &ChatKey,
        id: &SegmentId,
    ) -> Result<Option<Arc<Segment>>, HistoryError> {
        for (name, longest) in self.names(chat).await? {
            let Some(longest) = longest else { continue };
            let from = pointer_key(SortKey::start_of(id.ts()).as_str());
            let span = Span::all(from, last_pointer(id.ts(), longest));
            let mut infos = self.pointers(&name, &span).await?.into_iter();
            if let Some(info) = infos.find(|info| info.id == *id && info.count > 0) {
                return Ok(Some(self.segment_of(&info).await?));
            }
        }
        Ok(None)
    }

    /// Reads the segment of the pointer `item`.
    pub(super) async fn segment_at(&self, item: &Item) -> Result<Arc<Segment>, HistoryError> {
        Ok(self.segment_of(&info_of(item)?).await?)
    }

    /// Reads the pointers in `span`.
    pub(super) async fn pointers(
        &self,
        chat: &ChatKey,
        span: &Span,
    ) -> Result<Vec<SegmentInfo>, HistoryError> {
        let items = self.table.query(&partition(chat), span).await?;
        Ok(items.iter().map(info_of).collect::<Result<_, _>>()?)
    }

    /// Reads the pointer of the segment that ends with `to`.
    pub(super) async fn pointer(
        &self,
        chat: &ChatKey,
        to: &SortKey,
    ) -> Result<Option<SegmentInfo>, HistoryError> {
        let item = self.table.get(&partition(chat), &pointer_key(to.as_str())).await?;
        Ok(item.as_ref().map(info_of).transpose()?)
    }

    /// Puts the pointer of a segment, unless it exists; returns the stored one. A pointer without records is replaced.
    pub(super) async fn point_at(&self, info: SegmentInfo) -> Result<SegmentInfo, HistoryError> {
        match self.table.put_new(item_of(&info)?).await? {
            Written::Done(_) => Ok(info),
            Written::Refused(item) => {
                let present = info_of(&item)?;
                if present.id == info.id && present.sha256 == info.sha256 {
                    Ok(present)
                } else if present.count == 0 {
                    let was = ("sha256", string(&present.sha256));
                    let written = self.table.put_over(item_of(&info)?, was).await?;
                    self.is_pointed_at(&written, &info).await?;
                    Ok(info)
                } else {
                    Err(SegmentError::Pointer { sk: pointer_key(info.to.as_str()) }.into())
                }
            }
        }
    }

    /// Puts the pointer `new` in place of `old`. Fails with [`HistoryError::LeaseLost`] if the pointer is neither any more.
    pub(super) async fn point_again(&self, old: &SegmentInfo, new: &SegmentInfo) -> Result<(), HistoryError> {
        let was = ("sha256", string(&old.sha256));
        let written = if new.to == old.to {
            self.table.put_over(item_of(new)?, was).await?
        } else {
            self.table.put_replacing(item_of(new)?, &pointer_key(old.to.as_str()), was).await?
        };
        self.is_pointed_at(&written, new).await
    }

    async fn is_pointed_at(&self, written: &Written, new: &SegmentInfo) -> Result<(), HistoryError> {
        if matches!(written, Written::Done(_))
            || self.pointer(&new.chat, &new.to).await?.as_ref() == Some(new)
        {
            return Ok(());
        }
        Err(HistoryError::LeaseLost)
    }
}

/// Returns the key of the object that a segment has first.
pub(super) fn object_key(chat: &ChatKey, id: &SegmentId) -> String {
    format!("{}{id}.jsonl.gz", folder(chat))
}

/// Returns the start of the keys of all segments of `chat`, pointed at or not.
pub(super) fn folder(chat: &ChatKey) -> String {
    format!("segments/{}/", chat.session_id())
}

/// Returns true if this is the sort key of a segment's pointer.
pub(super) fn is_pointer(sort_key: &str) -> bool {
    sort_key.starts_with(POINTER)
}

/// Returns the sort key of the pointer of a segment that ends with `to`, or the bound of pointers for a bound of
/// records.
pub(super) fn pointer_key(to: &str) -> String {
    format!("{POINTER}{to}")
}

pub(super) fn all_pointers(newest_first: bool) -> Span {
    Span { newest_first, ..Span::all(POINTER, pointer_key(LAST_KEY)) }
}

/// Returns a key after the pointers of all segments that start at `ts` or before, if none is longer than `longest`.
pub(super) fn last_pointer(ts: Timestamp, longest: Duration) -> String {
    // `$` sorts above the `#` that follows the time in a key.
    format!("{POINTER}{:013}$", ts.plus(longest).as_millis())
}

fn item_of(info: &SegmentInfo) -> Result<Item, serde_json::Error> {
    let mut item = item::plain_item(info)?;
    item.insert("sk".to_owned(), string(pointer_key(info.to.as_str())));
    Ok(item)
}

fn info_of(item: &Item) -> Result<SegmentInfo, SegmentError> {
    let invalid = |_| SegmentError::Pointer { sk: text(item, "sk").unwrap_or_default().to_owned() };
    item::plain(item).map_err(invalid)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns the pointer of a segment that goes from `from` to `to`.
    pub(in crate::history) fn sample(from: &str, to: &str) -> SegmentInfo {
        let (from, to): (SortKey, SortKey) = (from.parse().unwrap(), to.parse().unwrap());
        SegmentInfo {
            chat: ChatKey::telegram(42, None),
            id: SegmentId::of(&from, &to),
            from_id: MessageId::new("a").unwrap(),
            to_id: MessageId::new("b").unwrap(),
            count: 3,
            bytes: 512,
            json_bytes: 1731,
            sha256: "00".into(),
            created_at: Timestamp::from_millis(1_764_560_000_000).unwrap(),
            expires_from: Some(1),
            replaces: None,
            from,
            to,
        }
    }

    #[test]
    fn a_pointer_reads_back_and_is_within_the_longest_stretch() {
        let replaces = Some("segments/telegram-3f/1-2.jsonl.gz".into());
        let info = SegmentInfo { replaces, ..sample("1763765920000#a", "1763765960000#b#4reply") };
        let (from, to) = (&info.from, &info.to);
        let item = item_of(&info).unwrap();
        assert_eq!(info_of(&item).unwrap(), info);
        let sk = text(&item, "sk").unwrap();
        assert!(*sk < *last_pointer(from.ts(), to.ts().since(from.ts())));
        assert!(*sk > *last_pointer(from.ts(), Duration::from_millis(39_999)));
        assert!(*sk >= *pointer_key(to.as_str()) && *sk < *pointer_key(LAST_KEY));
    }
}
