//! Deletes one person's records of a chat in which others speak too: in the table, and in its segments.
//!
//! A segment is never changed, so one that holds such records is replaced, in steps of which each may be the last:
//!
//! 1. **put** an object with the other records, under a name of its own, and its index for searches
//! 2. **put the pointer** in place of the earlier one, if that is still the one that was read. It names the object that it
//!    `replaces`. If the segment's last record was erased, the pointer moves to the key of the new last one, so that the
//!    erased one can be archived if it comes again
//! 3. **delete** that object and its index. Whoever erases in this chat next does this again
//!
//! Between any two steps the pointer refers to an object that exists. Of a segment of which no record is left, the pointer
//! counts 0 records, has no object, and is deleted last.

use std::collections::HashSet;

use annals_core::chat_key::ChatKey;
use annals_core::media::identity;
use annals_core::record::Record;
use annals_core::sort_key::Timestamp;

use super::due::DUE_AT;
use super::item::{self, Stored};
use super::segment::SegmentId;
use super::shelf::SegmentInfo;
use super::table::{Span, Update};
use super::turn::Lease;
use super::{FIRST_KEY, History, HistoryError, LAST_KEY, ToArchive, media, partition, segment, shelf};

/// Number of items that one step of a deletion reads and deletes.
const ITEMS_AT_ONCE: usize = 500;

/// Selects the records of one person.
pub type IsTheirs<'a> = dyn Fn(&Record) -> bool + Send + Sync + 'a;

/// A page of a chat from which one person's records were deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErasedOf {
    pub records: usize,
    /// The last sort key that was looked at; `None` if there are no more.
    pub last: Option<String>,
}

impl History {
    /// Prepares an erasure in the chat of `lease`: removes the title, which may be made of the person's words, and finishes
    /// the segment that a run has committed to, so that each record is either in the table alone or in a segment with a
    /// pointer.
    pub async fn prepare_to_erase(&self, lease: &Lease) -> Result<(), HistoryError> {
        if lease.head.title.is_some() {
            self.write_head(lease, Update::default().remove(["title"])).await?;
        }
        let nothing_new = ToArchive { sent_before: None, up_to: None, max_segments: 0 };
        self.archive_all(lease, &nothing_new).await.map(drop)
    }

    /// Deletes those records of the chat of `lease` that `is_theirs` selects, with their large bodies and their images:
    /// among the next that are in the table, after the sort key `after`. Safe to repeat.
    pub async fn erase_of(
        &self,
        lease: &Lease,
        after: Option<&str>,
        is_theirs: &IsTheirs<'_>,
    ) -> Result<ErasedOf, HistoryError> {
        let chat = &lease.chat;
        let from = after.map_or(FIRST_KEY.to_owned(), |after| format!("{after}\u{1}"));
        let (items, _) =
            self.table.query_page(&partition(chat), &Span::first(ITEMS_AT_ONCE, from, LAST_KEY)).await?;
        let (mut keys, mut due) = (Vec::new(), Vec::new());
        for item in &items {
            let stored = match item::from_item(item) {
                Ok(stored) => stored,
                Err(error) => {
                    tracing::warn!(
                        chat = %chat.session_id(), %error,
                        "failed to read a record while a person is erased; if it is the person's, it stays"
                    );
                    continue;
                }
            };
            if !is_theirs(stored.record()) {
                continue;
            }
            self.erase_objects_of(&stored).await?;
            due.extend(item::integer(item, DUE_AT).map(Timestamp::from_secs));
            keys.push(stored.record().key.to_string());
        }
        // The chat stays listed and due for a visit without the records that registered it.
        if let (Some(first), Some(last)) = (due.iter().min(), due.iter().max()) {
            self.ask_for_visit(chat, *first).await?;
            self.set_place(chat, last.minus(self.retention.due_after())).await?;
        }
        let last = items.last().and_then(|item| item::text(item, "sk")).map(str::to_owned);
        let records = keys.len();
        self.table.delete(&partition(chat), keys).await?;
        Ok(ErasedOf { records, last })
    }

    /// Reads the pointers of the segments of `chat` under this one name. Deletes what an erasure that broke off has left:
    /// replaced objects, and pointers to segments without records. The chat must be claimed.
    pub async fn segments_to_erase(&self, chat: &ChatKey) -> Result<Vec<SegmentInfo>, HistoryError> {
        let pointers = self.pointers(chat, &shelf::all_pointers(false)).await?;
        let (empty, segments): (Vec<_>, Vec<_>) = pointers.iter().cloned().partition(|info| info.count == 0);
        let objects: HashSet<String> = segments.iter().map(SegmentInfo::object).collect();
        for replaced in pointers.iter().filter_map(|info| info.replaces.as_ref()) {
            if !objects.contains(replaced) {
                self.bucket.delete_some(replaced).await?;
            }
        }
        let empty = empty.iter().map(|info| shelf::pointer_key(info.to.as_str())).collect();
        self.table.delete(&partition(chat), empty).await?;
        Ok(segments)
    }

    /// Replaces a segment by one without the records that `is_theirs` selects, and deletes their large bodies and their
    /// images; returns the number of those records. Its chat must be claimed. Safe to repeat.
    pub async fn erase_in_segment(
        &self,
        info: &SegmentInfo,
        is_theirs: &IsTheirs<'_>,
    ) -> Result<usize, HistoryError> {
        let segment = self.segment_of(info).await?;
        let (theirs, others): (Vec<&Stored>, Vec<&Stored>) =
            segment.records.iter().partition(|stored| is_theirs(stored.record()));
        if theirs.is_empty() {
            return Ok(0);
        }
        for stored in &theirs {
            self.erase_objects_of(stored).await?;
        }
        let lines = others.iter().map(|stored| segment::to_line(stored)).collect::<Result<Vec<_>, _>>()?;
        let bytes = segment::compress(lines.iter().map(Vec::as_slice));
        let mut rest = SegmentInfo {
            count: u32::try_from(others.len()).unwrap_or(u32::MAX),
            bytes: bytes.len() as u64,
            json_bytes: lines.iter().map(|line| line.len() as u64).sum(),
            sha256: segment::sha256(&bytes),
            replaces: Some(info.object()),
            ..info.clone()
        };
        if let (Some(first), Some(last)) = (others.first(), others.last()) {
            let (first, last) = (first.record(), last.record());
            (rest.from, rest.to) = (first.key.clone(), last.key.clone());
            (rest.from_id, rest.to_id) = (first.message_id.clone(), last.message_id.clone());
            rest.id = SegmentId::of(&rest.from, &rest.to);
            // Its name has its digest. In place of any: that another put of it is under way would not tell that it is there.
            self.bucket.put(&rest.object(), shelf::GZIP, bytes).await?;
            self.put_index(&rest, others.into_iter().cloned().collect()).await?;
        }
        self.point_again(info, &rest).await?;
        self.bucket.delete_some(&info.object()).await?;
        if rest.count == 0 {
            self.table.delete(&partition(&info.chat), vec![shelf::pointer_key(info.to.as_str())]).await?;
        }
        self.segments.evict(|other| other.chat == info.chat);
        self.indexes.evict(|other| other.chat == info.chat);
        Ok(theirs.len())
    }

    /// Deletes the large body of a record, and the images of its message.
    async fn erase_objects_of(&self, stored: &Stored) -> Result<(), HistoryError> {
        if let Stored::Body { body, .. } = stored {
            self.bucket.delete_some(body).await?;
        }
        let record = stored.record();
        for part in &record.message.parts {
            let identity = identity(part);
            if !identity.is_empty() {
                let file = media::key(&record.chat, record.message_id.as_str(), &identity);
                self.bucket.delete_some(&file).await?;
            }
        }
        Ok(())
    }
}
