//! Deleting what is stored of a chat: the one place that deletes, and only because somebody asked for just that.
//!
//! It is done page by page. What is deleted is gone, so a deletion that broke off goes on where it ended. The heads, which
//! know the chat's other names, are emptied last. An emptied head keeps its fence, so that nothing that was in flight under
//! an earlier one holds, and a date for the compactor: a process that had registered the chat before does not register it
//! again for a while (see [`due`](super::due)), and what is said meanwhile must be visited. That visit deletes the head.

use super::directory::PLACE;
use super::due::{DUE_AT, DUE_SHARD, seconds_up, shard_of};
use super::item;
use super::shelf::is_pointer;
use super::table::{Item, Span, Written, number, string};
use super::turn::{Lease, Superseded};
use super::{FIRST_KEY, HEAD, History, HistoryError, LAST_KEY, partition};
use crate::chat_key::ChatKey;
use crate::record::Record;

/// Number of items that one step of a deletion reads and deletes.
const ITEMS_AT_ONCE: usize = 500;

/// Number of segments that one step reads: each may be 4 MB of JSON.
const SEGMENTS_AT_ONCE: usize = 4;

/// Objects that were deleted of a chat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// Segments of the archive.
    pub segments: usize,
    /// Bodies of large messages.
    pub bodies: usize,
    /// What is kept of files.
    pub media: usize,
}

/// The next items of a chat that is being deleted, and what they say of who spoke.
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
        let span = Span {
            from: format!("{HEAD}\u{1}"),
            to: LAST_KEY.into(),
            newest_first: false,
            limit: Some(ITEMS_AT_ONCE),
        };
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
                    // What is lost already must not keep the rest from being forgotten.
                    Err(HistoryError::Segment(error)) if !error.may_pass() => {
                        tracing::warn!(chat = %chat.session_id(), %error, "who spoke in a lost segment is not known");
                    }
                    Err(error) => return Err(error),
                }
            } else if key >= FIRST_KEY {
                match item::from_item(item) {
                    Ok(stored) => next.records.push(stored.record().clone()),
                    Err(error) => {
                        tracing::warn!(chat = %chat.session_id(), %error, "who wrote a damaged record is not known");
                    }
                }
            }
            next.keys.push(key.to_owned());
        }
        Ok(Some(next))
    }

    /// Deletes these items; returns how many records they were. Safe to repeat.
    pub async fn erase_items(&self, items: ToErase) -> Result<usize, HistoryError> {
        let records = items.keys.iter().filter(|key| key.as_str() >= FIRST_KEY).count();
        self.table.delete(&partition(&items.chat), items.keys).await?;
        Ok(records)
    }

    /// Deletes the next objects of `chat`: segments, bodies, files. None are left if it returns no number above 0. The
    /// pointers to segments must be gone.
    pub async fn erase_objects(&self, chat: &ChatKey) -> Result<Erased, HistoryError> {
        Ok(Erased {
            segments: self.shelf.delete_some(chat).await?,
            bodies: self.bodies.delete_some(chat).await?,
            media: self.media.delete_some(chat).await?,
        })
    }

    /// Empties the head of `lease`, after everything else is deleted, and frees the chat. One write.
    pub async fn empty_head(&self, lease: &Lease) -> Result<Result<(), Superseded>, HistoryError> {
        let now = self.clock.now();
        let visit = now.plus(self.retention.due_after());
        let mut head = Item::new();
        head.insert("pk".into(), string(partition(&lease.chat)));
        head.insert("sk".into(), string(HEAD));
        head.insert("fence".into(), number(lease.fence));
        head.insert("forgottenAt".into(), number(now));
        head.insert(DUE_SHARD.into(), string(shard_of(&lease.chat).to_string()));
        head.insert(DUE_AT.into(), number(seconds_up(visit)));
        // The next message that this process stores there lists the chat again.
        self.registry.forget(&lease.chat);
        Ok(match self.table.put_over(head, lease.fence).await? {
            Written::Done(_) => Ok(()),
            Written::Refused(_) => Err(Superseded),
        })
    }

    /// Returns whether `chat` has no record and no segment. One read.
    pub async fn is_empty(&self, chat: &ChatKey) -> Result<bool, HistoryError> {
        let span =
            Span { from: format!("{PLACE}\u{1}"), to: LAST_KEY.into(), newest_first: false, limit: Some(1) };
        Ok(self.table.query(&partition(chat), &span).await?.is_empty())
    }

    /// Deletes the emptied head of `lease`, and its place in the list of chats. Two writes.
    pub async fn remove_head(&self, lease: &Lease) -> Result<Result<(), Superseded>, HistoryError> {
        let pk = partition(&lease.chat);
        self.table.delete_one(&pk, PLACE, None).await?;
        let is_deleted = self.table.delete_one(&pk, HEAD, Some(lease.fence)).await?;
        Ok(is_deleted.then_some(()).ok_or(Superseded))
    }
}
