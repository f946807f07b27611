//! One durable history per chat: append-only records in DynamoDB, large bodies and archived segments in S3.
//! Records leave the table by its TTL alone, behind the archive; what deletes is `forget.rs`, where somebody asks for it.
//!
//! A chat is a partition. Its records have sort keys that start with a digit ([`SortKey`]); beside them stand items
//! that never look like messages, because `!` sorts below every digit and no read of records reaches them:
//!
//! ```json
//! {"pk": "telegram:chat:42", "sk": "!head", "fence": 17, "contextFrom": "1763765920000#00000000000000000007"}
//! {"pk": "http:chat:dev:c1", "sk": "!id#order-1", "ts": 1763765920000, "expiresAt": 1764543520}
//! {"pk": "telegram:chat:42", "sk": "!segment#1763765960000#00000000000000000009", "id": "1763765920000-9f86d081884c7d65", …}
//! ```
//!
//! The sample item of a record is in `history/item.rs`, that of a segment's pointer in `history/shelf.rs`; what the head
//! is for, in [`turn`].
//!
//! # Layout
//!
//! - `append.rs`: conditional puts that answer stored, duplicate or revision
//! - `import.rs`: what another program has of a chat
//! - `read.rs`: a range, a page, the whole; `merged.rs`: table and segments as one list
//! - `archive.rs`: records to segments; `segment.rs`: a segment's format; `shelf.rs`: where segments are
//! - `archived.rs`: one message in the archive, after it has left the table
//! - `search.rs`: what of the segments fits a question
//! - `forget.rs`: deleting a chat whole
//! - [`directory`]: the list of all chats
//! - `view.rs`: the context, from no more records than it is made of
//! - [`turn`]: the head: one run at a time, and where the context starts
//! - [`stop`]: how `/stop` takes a chat from its run
//! - [`due`]: which chats the compactor is to visit
//! - `item.rs`, `table.rs`, `bodies.rs`: the item's shape, DynamoDB, S3; `media.rs`: images that people sent, in S3

mod append;
mod archive;
mod archived;
mod bodies;
pub mod directory;
pub mod due;
mod forget;
mod import;
pub(crate) mod item;
mod media;
mod merged;
mod read;
mod search;
mod segment;
mod shelf;
pub mod stop;
pub mod strangers;
pub(crate) mod table;
mod tools;
pub mod turn;
mod view;

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use tokio::sync::Notify;

use crate::chat_key::ChatKey;
use crate::clock::Clock;
use crate::message::Part;
use crate::record::Record;
use crate::sort_key::{SortKey, Timestamp};

pub use append::{Appended, Form, Outcome, Reply, ReplyAppended, next_form};
pub use archive::{Archived, MAX_SEGMENT_BYTES, MAX_SEGMENT_RECORDS, Remaining, ToArchive};
pub use archived::ArchivedMessage;
pub use bodies::{BodyError, MAX_INLINE_BYTES};
pub use forget::{Erased, ToErase};
pub use import::Imported;
pub use item::ItemError;
pub use media::{Kept, MediaError};
pub use read::{Cursor, CursorError, Fate, MAX_PAGE, Page, Position};
pub use search::{Found, Hit, Search};
pub use segment::{FormatError, SegmentId, SegmentIdError};
pub use shelf::{Segment, SegmentError, SegmentInfo};
pub use table::{Consumed, Meter, TableError};
pub use view::Seen;

use bodies::Bodies;
use due::Registry;
use item::Stored;
use media::Media;
use shelf::Shelf;
use table::{Item, Table};

/// How long records stay in the table: `expiresAt` is written at the append, and moved on by [`History::prolong`] alone.
#[derive(Clone, Debug)]
pub struct Retention {
    /// `SESSION_STALE_AFTER`; `None` (0) counts as 48 hours here.
    pub stale_after: Option<Duration>,
    /// `ARCHIVE_GRACE`.
    pub archive_grace: Duration,
    /// `ARCHIVE_ON_COMPACT`; records never expire where it is `false`.
    pub archive: bool,
}

impl Retention {
    /// When a record that arrives at `arrival` may leave the table, in epoch seconds.
    pub fn expires_at(&self, arrival: Timestamp) -> Option<i64> {
        self.archive.then(|| arrival.plus(self.lifetime()).as_millis() / 1000)
    }

    /// Minimum time that a record stays in the table.
    pub fn lifetime(&self) -> Duration {
        self.stay_fresh().saturating_add(self.archive_grace)
    }

    /// Returns whether a record of this time may have left the table by `now`. Half of its lifetime is enough to look: a
    /// message may have come before its own time, and the settings may have changed.
    pub fn may_have_left(&self, ts: Timestamp, now: Timestamp) -> bool {
        now.since(ts) >= self.lifetime() / 2
    }

    /// The stale time, or 48 hours where there is none.
    fn stay_fresh(&self) -> Duration {
        self.stale_after.unwrap_or(WHERE_NEVER_STALE)
    }

    /// When a boundary that arrives at `arrival` may leave: long after all that was said before it, since TTL deletes in
    /// any order, and what is left of a Session must not go on in the next.
    pub fn boundary_expires_at(&self, arrival: Timestamp) -> Option<i64> {
        self.expires_at(arrival.plus(self.lifetime()))
    }

    /// What leaves the table soon, seen from `now`, of what leaves it at all.
    pub fn horizon(&self, now: Timestamp) -> Horizon {
        let stale_after = self.stay_fresh();
        // Whoever keeps the Session alive writes within the stale time; the quarter is for what comes in between.
        let soon = stale_after.saturating_add(self.archive_grace / 4);
        let before_long = soon.saturating_add(self.lifetime().saturating_sub(soon) / 2);
        let at = |from_now: Duration| now.plus(from_now).as_millis() / 1000;
        Horizon { soon: at(soon), before_long: at(before_long) }
    }
}

/// Returns the later of two dates at which records may leave the table; `None` is never.
pub fn later_expiry(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    Some(a?.max(b?))
}

/// What counts as the stale time for keeping records, where Sessions never grow stale.
const WHERE_NEVER_STALE: Duration = Duration::from_hours(48);

/// Dates, in epoch seconds, between now and the end of a record that is appended now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon {
    /// What a live Session shows must not leave before this: nobody may write until then.
    pub soon: i64,
    /// What leaves before this is summarised along with it, so that not every message brings a summary.
    pub before_long: i64,
}

/// The histories of all chats.
#[derive(Clone, Debug)]
pub struct History {
    table: Table,
    bodies: Bodies,
    media: Media,
    shelf: Shelf,
    clock: Clock,
    retention: Retention,
    registry: Registry,
    /// Woken by each `/stop` of this process.
    stops: Arc<Notify>,
}

/// A history could not be read or written. What was stored before stays stored.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// DynamoDB failed.
    #[error(transparent)]
    Table(#[from] TableError),
    /// S3 failed, or holds something else under a body's key.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// What is kept of files could not be deleted.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// A segment could not be stored or read.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// An item is no record.
    #[error(transparent)]
    Item(#[from] ItemError),
    /// The head of the chat is damaged.
    #[error(transparent)]
    Head(#[from] turn::HeadError),
    /// A message is no JSON: cannot happen for what was parsed from JSON.
    #[error("a message could not be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A message that a turn has committed to is not among the records.
    #[error("the message {key}, which a turn covers, is not in the history")]
    Missing {
        /// The message.
        key: String,
    },
    /// A page was asked for by a cursor of another chat.
    #[error(transparent)]
    Cursor(#[from] CursorError),
    /// The chat was deleted while a large message was stored in it; its body may be gone.
    #[error("the chat of the message {key} was forgotten while the message was stored; deliver it again")]
    ForgottenMeanwhile {
        /// The message.
        key: SortKey,
    },
    /// Another user's message has this id already. Nothing was stored.
    #[error("the message {key} is another user's")]
    Taken {
        /// The message.
        key: SortKey,
    },
    /// The same message was changed by so many writers at once that no form could be stored.
    #[error("too many writers changed the message {key} of one chat at once; try again")]
    Contended {
        /// The message.
        key: SortKey,
    },
}

impl History {
    /// The histories in `table` and `bucket`.
    pub fn new(
        dynamodb: aws_sdk_dynamodb::Client,
        table: String,
        s3: aws_sdk_s3::Client,
        bucket: String,
        clock: Clock,
        retention: Retention,
    ) -> Self {
        Self {
            table: Table::new(dynamodb, table),
            bodies: Bodies::new(s3.clone(), bucket.clone()),
            media: Media::new(s3.clone(), bucket.clone()),
            shelf: Shelf::new(s3, bucket),
            clock,
            retention,
            registry: Registry::default(),
            stops: Arc::default(),
        }
    }

    /// The time that appends, claims and contexts go by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// How long records stay in the table.
    pub fn retention(&self) -> &Retention {
        &self.retention
    }

    /// Counts what the table's operations consume.
    pub fn meter(&self) -> &Meter {
        self.table.meter()
    }

    /// The table, for what else lies in it.
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// The records of `items`, their large bodies fetched side by side.
    async fn records(&self, items: &[Item]) -> Result<Vec<Record>, HistoryError> {
        try_join_all(items.iter().map(|item| self.record(item))).await
    }

    async fn record(&self, item: &Item) -> Result<Record, HistoryError> {
        self.whole(item::from_item(item)?).await
    }

    /// The record with its message, wherever that lies.
    async fn whole(&self, stored: Stored) -> Result<Record, HistoryError> {
        match stored {
            Stored::Inline(record) => Ok(record),
            Stored::Body { mut record, body } => {
                match self.bodies.get(&body).await {
                    Ok(message) => record.message = message,
                    // What is lost for good must not take the rest of its chat with it.
                    Err(error @ (BodyError::Missing { .. } | BodyError::Unreadable { .. })) => {
                        tracing::error!(%error, "a message has lost its body");
                        record.message.parts = vec![Part::text("[the content of this message is lost]")];
                    }
                    Err(error) => return Err(error.into()),
                }
                Ok(record)
            }
        }
    }
}

/// The ends of the range of sort keys that records have.
const FIRST_KEY: &str = "0";
const LAST_KEY: &str = ":";

/// The head of a chat, in every place that reads it.
const HEAD: &str = "!head";

fn partition(chat: &ChatKey) -> String {
    chat.to_string()
}
