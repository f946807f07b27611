//! Where segments are: objects in S3, and a pointer to each in its chat's partition.
//!
//! ```text
//! segments/telegram-3f1c0a9be21d4f5a6b7c8d9e/1763765920000-9f86d081884c7d65.jsonl.gz
//! ```
//!
//! ```json
//! {"pk": "telegram:chat:42", "sk": "!segment#1763765960000#00000000000000000009",
//!  "id": "1763765920000-9f86d081884c7d65", "from": "1763765920000#00000000000000000007",
//!  "to": "1763765960000#00000000000000000009", "fromId": "7", "toId": "9", "count": 3, "bytes": 512, "jsonBytes": 1731,
//!  "sha256": "b5bb9d8014a0f9b1…", "createdAt": 1764560000000, "expiresFrom": 1764543520, "expiresTo": 1764543581}
//! ```
//!
//! Both are created once and never changed. A pointer is put after its object has been read back, so it never points at
//! nothing. `expiresFrom` and `expiresTo` are the earliest and the latest `expiresAt` of the records.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_s3::Client;
use aws_sdk_s3::error::DisplayErrorContext;
use aws_sdk_s3::operation::get_object::GetObjectError;
use aws_sdk_s3::primitives::ByteStream;

use super::bodies::delete_under;
use super::item::{Stored, integer, text};
use super::segment::{self, FormatError, SegmentId};
use super::table::{Item, Span, Written, number, string};
use super::{History, HistoryError, LAST_KEY, partition};
use crate::chat_key::ChatKey;
use crate::sort_key::{MessageId, SortKey, Timestamp};

/// How much JSON of segments a process keeps decoded, in bytes.
const MAX_CACHED_BYTES: u64 = 16 * 1024 * 1024;

const POINTER: &str = "!segment#";

/// What is known of a segment without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// The chat's name that its records are stored under.
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
    /// How many records it holds.
    pub count: u32,
    /// The size of its object, compressed.
    pub bytes: u64,
    /// The size of its JSON.
    pub json_bytes: u64,
    /// The SHA-256 of its object in hex.
    pub sha256: String,
    /// When it was first pointed at.
    pub created_at: Timestamp,
    /// The earliest time at which a record of it may leave the table, in epoch seconds; `None` where none ever does.
    pub expires_from: Option<i64>,
    /// The latest such time.
    pub expires_to: Option<i64>,
}

/// A segment with its records.
#[derive(Debug)]
pub struct Segment {
    pub(super) info: SegmentInfo,
    pub(super) records: Vec<Stored>,
}

impl Segment {
    /// What is known of it.
    pub fn info(&self) -> &SegmentInfo {
        &self.info
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &SortKey> {
        self.records.iter().map(|stored| &stored.record().key)
    }
}

/// A segment could not be stored or read. Its records stay as they are.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The put failed. Nothing refers to the object, and the next run puts it again.
    #[error("S3 could not store the segment {key}: {reason}")]
    Put {
        /// The object's key.
        key: String,
        /// What S3 or the connection said.
        reason: String,
    },
    /// The get failed.
    #[error("S3 could not give the segment {key}: {reason}")]
    Get {
        /// The object's key.
        key: String,
        /// What S3 or the connection said.
        reason: String,
    },
    /// A segment, or the list of them, could not be deleted or read; the rest is.
    #[error("S3 could not delete what lies under {prefix}: {reason}")]
    Delete {
        /// The start of the objects' keys.
        prefix: String,
        /// What S3 or the connection said.
        reason: String,
    },
    /// A pointer names an object that is not there.
    #[error("the segment {key} is not in S3 any more: restore it from an earlier version or a backup")]
    Missing {
        /// The object's key.
        key: String,
    },
    /// What was put reads back as something else. Nothing refers to the object; its records are still in the table.
    #[error(
        "the segment {key} does not read back as it was stored ({problem}): nothing refers to it, and its records are \
         still in the table; delete the object, and the next run stores it again"
    )]
    ReadBack {
        /// The object's key.
        key: String,
        /// What is wrong with it.
        problem: FormatError,
    },
    /// An object that a pointer names is not what was stored.
    #[error("the segment {key} is damaged ({problem}): restore it from an earlier version or a backup")]
    Damaged {
        /// The object's key.
        key: String,
        /// What is wrong with it.
        problem: FormatError,
    },
    /// A pointer lacks what makes it one.
    #[error("the pointer {sk} of its chat names no segment")]
    Pointer {
        /// The pointer's sort key.
        sk: String,
    },
}

impl SegmentError {
    /// Returns whether the same request may succeed later without anybody's help.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, Self::Put { .. } | Self::Get { .. } | Self::Delete { .. })
    }
}

/// The objects, and those read last.
#[derive(Clone, Debug)]
pub(super) struct Shelf {
    client: Client,
    bucket: String,
    cache: Arc<Mutex<VecDeque<Arc<Segment>>>>,
}

impl Shelf {
    pub(super) fn new(client: Client, bucket: String) -> Self {
        Self { client, bucket, cache: Arc::default() }
    }

    /// Puts the object unless there is one; answers whether it did.
    pub(super) async fn put_new(&self, key: &str, bytes: Vec<u8>) -> Result<bool, SegmentError> {
        let sent = self
            .client
            .put_object()
            .bucket(&self.bucket)
            .key(key)
            .if_none_match("*")
            .content_type("application/gzip")
            .body(ByteStream::from(bytes))
            .send()
            .await;
        match sent {
            Ok(_) => Ok(true),
            // 409: another put of it is under way.
            Err(error) if matches!(error.raw_response().map(|r| r.status().as_u16()), Some(409 | 412)) => {
                Ok(false)
            }
            Err(error) => {
                Err(SegmentError::Put { key: key.to_owned(), reason: DisplayErrorContext(error).to_string() })
            }
        }
    }

    /// Deletes the next segments of `chat`, pointed at or not; returns how many. None are left if it is 0.
    pub(super) async fn delete_some(&self, chat: &ChatKey) -> Result<usize, SegmentError> {
        let prefix = folder(chat);
        let deleted = delete_under(&self.client, &self.bucket, &prefix).await;
        self.cache
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|segment| segment.info.chat != *chat);
        deleted.map_err(|reason| SegmentError::Delete { prefix, reason })
    }

    /// The object, if there is one.
    pub(super) async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, SegmentError> {
        let failed = |reason: String| SegmentError::Get { key: key.to_owned(), reason };
        match self.client.get_object().bucket(&self.bucket).key(key).send().await {
            Ok(object) => {
                let body = object.body.collect().await.map_err(|error| failed(error.to_string()))?;
                Ok(Some(body.to_vec()))
            }
            Err(error) if error.as_service_error().is_some_and(GetObjectError::is_no_such_key) => Ok(None),
            Err(error) => Err(failed(DisplayErrorContext(error).to_string())),
        }
    }

    /// The segment that a pointer names.
    pub(super) async fn segment(&self, info: &SegmentInfo) -> Result<Arc<Segment>, SegmentError> {
        if let Some(cached) = self.cached(info) {
            return Ok(cached);
        }
        let key = object_key(&info.chat, &info.id);
        let Some(bytes) = self.get(&key).await? else { return Err(SegmentError::Missing { key }) };
        let decoded = if segment::sha256(&bytes) == info.sha256 {
            segment::decode(&bytes, &info.chat, &info.from, &info.to)
        } else {
            Err(FormatError::Digest)
        };
        match decoded {
            Ok((records, _)) => {
                let segment = Arc::new(Segment { info: info.clone(), records });
                self.keep(&segment);
                Ok(segment)
            }
            Err(problem) => Err(SegmentError::Damaged { key, problem }),
        }
    }

    fn cached(&self, info: &SegmentInfo) -> Option<Arc<Segment>> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let at = cache.iter().position(|segment| segment.info == *info)?;
        let segment = cache.remove(at)?;
        cache.push_back(Arc::clone(&segment));
        Some(segment)
    }

    /// Keeps `segment` for the next who reads it.
    pub(super) fn keep(&self, segment: &Arc<Segment>) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.push_back(Arc::clone(segment));
        let mut bytes: u64 = cache.iter().map(|segment| segment.info.json_bytes).sum();
        while bytes > MAX_CACHED_BYTES
            && cache.len() > 1
            && let Some(oldest) = cache.pop_front()
        {
            bytes -= oldest.info.json_bytes;
        }
    }
}

impl History {
    /// Every segment of `chat`, over every name that it has had, oldest first by where they start.
    pub async fn segments(&self, chat: &ChatKey) -> Result<Vec<SegmentInfo>, HistoryError> {
        let mut all = Vec::new();
        for (name, _) in self.names(chat).await?.into_iter().rev().filter(|(_, longest)| longest.is_some()) {
            let span =
                Span { from: POINTER.into(), to: pointer_key(LAST_KEY), newest_first: false, limit: None };
            let mut segments = self.pointers(&name, &span).await?;
            segments.sort_by(|a, b| (&a.from, &a.to).cmp(&(&b.from, &b.to)));
            all.extend(segments);
        }
        Ok(all)
    }

    /// The segments of `chat` that end last, at most `limit`, over every name that it has had.
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

    /// The segment `id` of `chat`, under whichever of its names; `None` where there is none such.
    pub async fn segment(
        &self,
        chat: &ChatKey,
        id: &SegmentId,
    ) -> Result<Option<Arc<Segment>>, HistoryError> {
        for (name, longest) in self.names(chat).await? {
            let Some(longest) = longest else { continue };
            let from = pointer_key(SortKey::start_of(id.ts()).as_str());
            let span = Span { from, to: last_pointer(id.ts(), longest), newest_first: false, limit: None };
            if let Some(info) = self.pointers(&name, &span).await?.into_iter().find(|info| info.id == *id) {
                return Ok(Some(self.shelf.segment(&info).await?));
            }
        }
        Ok(None)
    }

    /// The segment that the pointer `item` names.
    pub(super) async fn segment_at(&self, item: &Item) -> Result<Arc<Segment>, HistoryError> {
        Ok(self.shelf.segment(&info_of(item)?).await?)
    }

    /// The segments whose pointers are in `span`.
    pub(super) async fn pointers(
        &self,
        chat: &ChatKey,
        span: &Span,
    ) -> Result<Vec<SegmentInfo>, HistoryError> {
        let items = self.table.query(&partition(chat), span).await?;
        Ok(items.iter().map(info_of).collect::<Result<_, _>>()?)
    }

    /// The segment that ends with `to`.
    pub(super) async fn pointer(
        &self,
        chat: &ChatKey,
        to: &SortKey,
    ) -> Result<Option<SegmentInfo>, HistoryError> {
        let item = self.table.get(&partition(chat), &pointer_key(to.as_str())).await?;
        Ok(item.as_ref().map(info_of).transpose()?)
    }

    /// Points at a segment, unless that is done; answers with what the pointer says.
    pub(super) async fn point_at(&self, info: SegmentInfo) -> Result<SegmentInfo, HistoryError> {
        match self.table.put_new(item_of(&info)).await? {
            Written::Done(_) => Ok(info),
            Written::Refused(item) => {
                let present = info_of(&item)?;
                if present.id == info.id && present.sha256 == info.sha256 {
                    Ok(present)
                } else {
                    Err(SegmentError::Pointer { sk: pointer_key(info.to.as_str()) }.into())
                }
            }
        }
    }
}

/// The object's key.
pub(super) fn object_key(chat: &ChatKey, id: &SegmentId) -> String {
    format!("{}{id}.jsonl.gz", folder(chat))
}

fn folder(chat: &ChatKey) -> String {
    format!("segments/{}/", chat.session_id())
}

/// Returns whether this is the sort key of a segment's pointer.
pub(super) fn is_pointer(sort_key: &str) -> bool {
    sort_key.starts_with(POINTER)
}

/// The pointer's sort key for a segment that ends with `to`, or the bound of pointers that a bound of records stands for.
pub(super) fn pointer_key(to: &str) -> String {
    format!("{POINTER}{to}")
}

fn all_pointers(newest_first: bool) -> Span {
    Span { from: POINTER.into(), to: pointer_key(LAST_KEY), newest_first, limit: None }
}

/// Behind the pointer of every segment that starts at `ts` or before, none being longer than `longest`.
pub(super) fn last_pointer(ts: Timestamp, longest: Duration) -> String {
    // `$` sorts above the `#` that stands behind the time in a key.
    format!("{POINTER}{:013}$", ts.plus(longest).as_millis())
}

fn item_of(info: &SegmentInfo) -> Item {
    let mut item = Item::new();
    let mut set = |name: &str, value: AttributeValue| item.insert(name.to_owned(), value);
    set("pk", string(partition(&info.chat)));
    set("sk", string(pointer_key(info.to.as_str())));
    set("id", string(info.id.to_string()));
    set("from", string(info.from.as_str()));
    set("to", string(info.to.as_str()));
    set("fromId", string(info.from_id.as_str()));
    set("toId", string(info.to_id.as_str()));
    set("count", number(info.count));
    set("bytes", number(info.bytes));
    set("jsonBytes", number(info.json_bytes));
    set("sha256", string(&info.sha256));
    set("createdAt", number(info.created_at));
    if let Some(from) = info.expires_from {
        set("expiresFrom", number(from));
    }
    if let Some(to) = info.expires_to {
        set("expiresTo", number(to));
    }
    item
}

fn info_of(item: &Item) -> Result<SegmentInfo, SegmentError> {
    let key = |name| text(item, name).and_then(|key| key.parse::<SortKey>().ok());
    let id = |name| text(item, name).and_then(|id| serde_json::from_value::<MessageId>(id.into()).ok());
    let size = |name| integer(item, name).and_then(|n| u64::try_from(n).ok());
    let info = || {
        Some(SegmentInfo {
            chat: text(item, "pk")?.parse().ok()?,
            id: text(item, "id")?.parse().ok()?,
            from: key("from")?,
            to: key("to")?,
            from_id: id("fromId")?,
            to_id: id("toId")?,
            count: size("count").and_then(|n| u32::try_from(n).ok())?,
            bytes: size("bytes")?,
            json_bytes: size("jsonBytes")?,
            sha256: text(item, "sha256")?.to_owned(),
            created_at: integer(item, "createdAt").and_then(Timestamp::from_millis)?,
            expires_from: integer(item, "expiresFrom"),
            expires_to: integer(item, "expiresTo"),
        })
    };
    info().ok_or_else(|| SegmentError::Pointer { sk: text(item, "sk").unwrap_or_default().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_reads_back_and_stands_within_the_longest_stretch() {
        let (from, to): (SortKey, SortKey) =
            ("1763765920000#a".parse().unwrap(), "1763765960000#b#4reply".parse().unwrap());
        let info = SegmentInfo {
            chat: ChatKey::telegram(42, None),
            id: SegmentId::of(&from, &to),
            from_id: MessageId::new("a").unwrap(),
            to_id: MessageId::new("b").unwrap().derived("reply"),
            count: 3,
            bytes: 512,
            json_bytes: 1731,
            sha256: "00".into(),
            created_at: Timestamp::from_millis(1_764_560_000_000).unwrap(),
            expires_from: Some(1),
            expires_to: None,
            from: from.clone(),
            to: to.clone(),
        };
        let item = item_of(&info);
        assert_eq!(info_of(&item).unwrap(), info);
        let sk = text(&item, "sk").unwrap();
        assert!(*sk < *last_pointer(from.ts(), to.ts().since(from.ts())));
        assert!(*sk > *last_pointer(from.ts(), Duration::from_millis(39_999)));
        assert!(*sk >= *pointer_key(to.as_str()) && *sk < *pointer_key(LAST_KEY));
    }
}
