//! Deletes what is stored of a chat. Only this and `erase.rs` delete, and only because a person asked.
//!
//! A deletion goes page by page. What is deleted is gone, so a deletion that broke off continues where it ended. The
//! heads, which contain the chat's other names, are emptied last:
//!
//! ```json
//! {"pk": "telegram:chat:42", "sk": "!head", "fence": 18, "forgottenAt": 1763766220000, "dueShard": "4", "dueAt": 1763895820}
//! ```
//!
//! An emptied head keeps its fence, so that no write under an earlier one holds, and a date for the compactor: a
//! process that had registered the chat before does not register it again for a while (see [`due`](super::due)), and
//! what is said meanwhile must be visited. That visit deletes the head.

use annals_core::chat_key::ChatKey;
use annals_core::record::Record;
use annals_core::sort_key::SortKey;

use super::directory::PLACE;
use super::due::{DUE_AT, DUE_SHARD, seconds_up, shard_of};
use super::shelf::{self, is_pointer};
use super::table::{Span, Written, item_at, number, string};
use super::turn::Lease;
use super::{FIRST_KEY, HEAD, History, HistoryError, LAST_KEY, partition};
use super::{bodies, item, media, search};

/// Number of items that one step of a deletion reads and deletes.
const ITEMS_AT_ONCE: usize = 500;

/// Number of segments that one step reads: each may be 4 MB of JSON.
const SEGMENTS_AT_ONCE: usize = 4;

/// Numbers of objects that were deleted of a chat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    pub segments: usize,
    pub indexes: usize,
    /// Bodies of large messages.
    pub bodies: usize,
    /// Stored files.
    pub media: usize,
}

/// The next items of a chat that is being deleted, and the records in them, which name those who spoke.
#[derive(Debug)]
pub struct ToErase {
    chat: ChatKey,
    keys: Vec<String>,
    /// The records among them, and those of the segments that they point at; without large bodies.
    pub records: Vec<Record>,
}

impl History {
    /// Reads the next items of `chat` to delete, all but its head; `None` if there are no more.
    pub async fn to_erase(&self, chat: &ChatKey) -> Result<Option<ToErase>, HistoryError> {
        let span = Span::first(ITEMS_AT_ONCE, format!("{HEAD}\u{1}"), LAST_KEY);
        let (items, _) = self.table.query_page(&partition(chat), &span).await?;
        if items.is_empty() {
            return Ok(None);
        }
        let mut next = ToErase { chat: chat.clone(), keys: Vec::new(), records: Vec::new() };
        let mut segments = 0;
        for item in &items {
            let Some(key) = item::text(item, "sk") else { continue };
            if is_pointer(key) {
                if segments == SEGMENTS_AT_ONCE {
                    break;
                }
                segments += 1;
                match self.segment_at(item).await {
                    Ok(segment) => next.records.extend(segment.records.iter().map(|s| s.record().clone())),
                    // A segment that is lost already must not keep the rest from being forgotten.
                    Err(HistoryError::Segment(error)) if !error.may_pass() => {
                        tracing::warn!(
                            chat = %chat.session_id(), %error,
                            "failed to read a segment of a deleted chat; its authors' memory may stay"
                        );
                    }
                    Err(error) => return Err(error),
                }
            } else if key >= FIRST_KEY {
                match item::from_item(item) {
                    Ok(stored) => next.records.push(stored.record().clone()),
                    Err(error) => {
                        tracing::warn!(
                            chat = %chat.session_id(), %error,
                            "failed to read a record of a deleted chat; its author's memory may stay"
                        );
                    }
                }
            }
            next.keys.push(key.to_owned());
        }
        Ok(Some(next))
    }

    /// Deletes these items; returns the number of records among them. Safe to repeat.
    pub async fn erase_items(&self, items: ToErase) -> Result<usize, HistoryError> {
        let records = items.keys.iter().filter(|key| key.as_str() >= FIRST_KEY).count();
        let pk = partition(&items.chat);
        // Messages before what covers them: should the deletion break off, none is answered again.
        let is_reply = |key: &String| key.parse().is_ok_and(|key: SortKey| key.is_reply());
        let (replies, others) = items.keys.into_iter().partition(is_reply);
        self.table.delete(&pk, others).await?;
        self.table.delete(&pk, replies).await?;
        Ok(records)
    }

    /// Deletes the next objects of `chat`: segments, indexes, bodies, files. None are left if all numbers are 0. The pointers to
    /// segments must be gone.
    pub async fn erase_objects(&self, chat: &ChatKey) -> Result<Erased, HistoryError> {
        let archived = self.bucket.delete_some(&shelf::folder(chat)).await?;
        let indexes = archived.iter().filter(|key| search::is_index(key)).count();
        let erased = Erased {
            segments: archived.len() - indexes,
            indexes,
            bodies: self.bucket.delete_some(&bodies::folder(chat)).await?.len(),
            media: self.bucket.delete_some(&media::folder(chat)).await?.len(),
        };
        self.segments.evict(|info| info.chat == *chat);
        self.indexes.evict(|info| info.chat == *chat);
        Ok(erased)
    }

    /// Empties the head of `lease`, after everything else is deleted, and frees the chat. One write.
    pub async fn empty_head(&self, lease: &Lease) -> Result<(), HistoryError> {
        let now = self.clock.now();
        let visit = now.plus(self.retention.due_after());
        let mut head = item_at(partition(&lease.chat), HEAD);
        head.insert("fence".into(), number(lease.fence));
        head.insert("forgottenAt".into(), number(now));
        head.insert(DUE_SHARD.into(), string(shard_of(&lease.chat).to_string()));
        head.insert(DUE_AT.into(), number(seconds_up(visit)));
        // The next message that this process stores there lists the chat again.
        self.registry.forget(&lease.chat);
        match self.table.put_over(head, ("fence", number(lease.fence))).await? {
            Written::Done(_) => Ok(()),
            Written::Refused(_) => Err(HistoryError::LeaseLost),
        }
    }

    /// Returns true if `chat` has no record and no segment. One read.
    pub async fn is_empty(&self, chat: &ChatKey) -> Result<bool, HistoryError> {
        let span = Span::first(1, format!("{PLACE}\u{1}"), LAST_KEY);
        Ok(self.table.query(&partition(chat), &span).await?.is_empty())
    }

    /// Deletes the emptied head of `lease`, and its place in the list of chats. Two writes.
    pub async fn remove_head(&self, lease: &Lease) -> Result<(), HistoryError> {
        let pk = partition(&lease.chat);
        self.table.delete_one(&pk, PLACE, None).await?;
        let is_deleted = self.table.delete_one(&pk, HEAD, Some(lease.fence)).await?;
        is_deleted.then_some(()).ok_or(HistoryError::LeaseLost)
    }
}
