//! One durable history per chat: append-only records in DynamoDB, large bodies and archived segments in S3. Records
//! leave the table by its TTL alone, after they are archived; only `forget.rs` and `erase.rs` delete, when a person asks for
//! it.
//!
//! A chat is a partition. Its records have sort keys that start with a digit ([`SortKey`]); the other items start with
//! `!`, which sorts below every digit, so no read of records reaches them:
//!
//! ```json
//! {"pk": "telegram:chat:42", "sk": "!head", "fence": 17, "contextFrom": "1763765920000#00000000000000000007"}
//! {"pk": "http:chat:dev:c1", "sk": "!id#order-1", "ts": 1763765920000}
//! {"pk": "telegram:chat:42", "sk": "!place", "dueShard": "placed-4", "dueAt": 1763765920000}
//! {"pk": "telegram:chat:42", "sk": "!schedule#stand-up", "dueShard": "schedules", "dueAt": 1763852400000, …}
//! {"pk": "telegram:chat:42", "sk": "!segment#1763765960000#00000000000000000009", "id": "1763765920000-9f86d081884c7d65", …}
//! ```
//!
//! The bucket has its large messages, its images, and the archived records with their indexes:
//!
//! ```text
//! bodies/telegram-3f1c0a9be21d4f5a6b7c8d9e/…
//! media/telegram-3f1c0a9be21d4f5a6b7c8d9e/…
//! segments/telegram-3f1c0a9be21d4f5a6b7c8d9e/…
//! ```
//!
//! The sample item of a record is in `history/item.rs`, of a segment's pointer in `history/shelf.rs`, of a head in
//! [`turn`].
//!
//! # Layout
//!
//! - `append.rs`: people's messages, each stored, a duplicate or a revision; `form.rs`: the forms of a message
//! - `reply.rs`: the agent's records; `put.rs`: the puts of all records
//! - `import.rs`: messages from another program
//! - `read.rs`: a range, a page, the whole; `merged.rs`: table and segments as one list
//! - `cursor.rs`: cursors as text
//! - `view.rs`: the context, from no more records than it is made of
//! - `archive.rs`: records to segments; `segment.rs`: a segment's format; `shelf.rs`: segments in S3
//! - `archived.rs`: one message in the archive, after it has left the table
//! - `search.rs`: the search in the whole history
//! - `forget.rs`: the deletion of a chat; `erase.rs`: of one person's records in a chat of others
//! - [`directory`]: the list of all chats
//! - [`turn`]: the head: one run at a time, and the start of the context
//! - [`stop`]: the command `/stop`; `takeover.rs`: chats that an operator has; `chat_settings.rs`: settings of one chat
//! - [`due`]: the chats that the compactor must visit
//! - `schedules.rs`: what chats are to say, or to be asked, at a time
//! - [`counters`]: usage by day, for limits
//! - [`strangers`]: people who were refused; `tools.rs`: destructive outside tools
//! - `fields.rs`: the stored fields of a record; `item.rs`: a record as an item; `table.rs`: DynamoDB
//! - `cache.rs`: what was read of segments; `bodies.rs`: large messages; `media.rs`: images that people sent

mod append;
mod archive;
mod archived;
mod bodies;
mod cache;
mod chat_settings;
pub mod counters;
mod cursor;
pub mod directory;
pub mod due;
mod erase;
mod fields;
mod forget;
mod form;
mod import;
pub(crate) mod item;
mod media;
mod merged;
mod put;
mod read;
mod reply;
mod schedules;
mod search;
mod segment;
mod shelf;
pub mod stop;
pub mod strangers;
pub(crate) mod table;
mod takeover;
mod tools;
pub mod turn;
mod view;

use std::sync::Arc;
use std::time::Duration;

use annals_aws::bucket::Bucket;
pub use annals_aws::bucket::BucketError;
use annals_core::chat_key::ChatKey;
use annals_core::message::Part;
use annals_core::record::Record;
use annals_core::sort_key::{SortKey, Timestamp};
use annals_io::clock::Clock;
use futures::future::try_join_all;
use tokio::sync::Notify;

pub use append::{Appended, Outcome};
pub use archive::{Archived, MAX_SEGMENT_BYTES, MAX_SEGMENT_RECORDS, Remaining, ToArchive};
pub use archived::ArchivedMessage;
pub use bodies::MAX_INLINE_BYTES;
pub use cursor::{Cursor, CursorError};
pub use erase::{ErasedOf, IsTheirs};
pub use forget::{Erased, ToErase};
pub use form::{Form, next_form};
pub use import::{Imported, MAX_IMPORTED_AT_ONCE, ToImport};
pub use item::ItemError;
pub use media::StoredFile;
pub use read::{Fate, MAX_PAGE, Page, Position};
pub use reply::{Reply, ReplyAppended};
pub use schedules::{Fired, Reuse, StoredSchedule};
pub use search::{Found, Hit, Search};
#[doc(hidden)]
pub use segment::reread_segment;
pub use segment::{FormatError, SegmentId, SegmentIdError};
pub use shelf::{Segment, SegmentError, SegmentInfo};
pub use table::TableError;
pub use view::ContextRead;

use cache::Cache;
use due::Registry;
use item::Stored;
use table::{Item, Span, Table};

/// The lifetime of records in the table: the append sets `expiresAt`, and only [`History::prolong`] moves it on.
#[derive(Clone, Debug)]
pub struct Retention {
    /// `SESSION_STALE_AFTER`; `None` (0) counts as 48 hours here.
    pub stale_after: Option<Duration>,
    pub archive_grace: Duration,
    /// `ARCHIVE_ON_COMPACT`; records never expire if it is `false`.
    pub archive: bool,
}

impl Retention {
    /// Returns the date on which a record that arrives at `arrival` may leave the table, in epoch seconds.
    pub fn expires_at(&self, arrival: Timestamp) -> Option<i64> {
        self.archive.then(|| arrival.plus(self.lifetime()).as_millis() / 1000)
    }

    /// Returns the minimum time that a record stays in the table.
    pub fn lifetime(&self) -> Duration {
        self.stay_fresh().saturating_add(self.archive_grace)
    }

    /// Returns true if a record of this time may have left the table by `now`: after a day, since the settings may have been
    /// shorter when it came, or half of its lifetime, since it may have come before its own time.
    pub fn may_have_left(&self, ts: Timestamp, now: Timestamp) -> bool {
        now.since(ts) >= SURELY_THERE.min(self.lifetime() / 2)
    }

    /// Returns the stale time, or 48 hours if Sessions never grow stale.
    fn stay_fresh(&self) -> Duration {
        self.stale_after.unwrap_or(STALE_AFTER_IF_NEVER)
    }

    /// Returns the date on which a boundary that arrives at `arrival` may leave: long after all messages before it,
    /// since TTL deletes in any order, and the rest of a Session must not continue in the next.
    pub fn boundary_expires_at(&self, arrival: Timestamp) -> Option<i64> {
        self.expires_at(arrival.plus(self.lifetime()))
    }

    /// Returns the dates before which a record leaves the table soon, as of `now`.
    pub fn horizon(&self, now: Timestamp) -> Horizon {
        let stale_after = self.stay_fresh();
        // A live Session gets a message within the stale time; the quarter is for delays.
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

/// Time for which a record stays in the table under any settings but those of a trial.
const SURELY_THERE: Duration = Duration::from_hours(24);

/// The stale time that decides the lifetime of records if Sessions never grow stale.
const STALE_AFTER_IF_NEVER: Duration = Duration::from_hours(48);

/// Dates, in epoch seconds, between now and the end of a record that is appended now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon {
    /// A record that a live Session shows must not leave before this: the next message may come as late.
    pub soon: i64,
    /// Records that leave before this are summarised along with it, so that not every message brings a summary.
    pub before_long: i64,
}

/// The histories of all chats.
#[derive(Clone, Debug)]
pub struct History {
    table: Table,
    bucket: Bucket,
    segments: Arc<Cache<SegmentInfo, Segment>>,
    indexes: Arc<Cache<SegmentInfo, search::Indexed>>,
    clock: Clock,
    retention: Retention,
    registry: Registry,
    /// Woken by each `/stop` of this process.
    stops: Arc<Notify>,
}

/// A failure to read or write a history. Records that were stored before stay stored.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    #[error(transparent)]
    Table(#[from] TableError),
    /// S3 failed. What was stored or deleted before stays so.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    #[error(transparent)]
    Segment(#[from] SegmentError),
    #[error(transparent)]
    Item(#[from] ItemError),
    #[error(transparent)]
    Head(#[from] turn::HeadError),
    /// A message could not be written as JSON, which cannot happen for one that was parsed from JSON; or the state of a
    /// link, a schedule or a head could not be converted to or from JSON.
    #[error("failed to convert stored data to or from JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the message {key}, which a turn covers, is not in the history")]
    Missing { key: String },
    #[error(transparent)]
    Cursor(#[from] CursorError),
    /// The chat was deleted while a large message was stored in it; its body may be gone.
    #[error("the chat of the message {key} was forgotten while the message was stored; deliver it again")]
    ForgottenMeanwhile { key: SortKey },
    /// Another user's message has this id already. Nothing was stored.
    #[error("the message {key} belongs to another user: choose another id")]
    Taken { key: SortKey },
    /// Another process has claimed the chat, or a `/stop` or a takeover took it. The holder must end and write nothing more.
    #[error(
        "the lease on the chat is lost: another process, a /stop or a takeover has it now, and continues"
    )]
    LeaseLost,
    /// The head of one chat changed between each read and write. Nothing was stored.
    #[error("too many processes changed this chat at once: repeat the request")]
    ChatContended,
    #[error("too many writers changed the message {key} of one chat at once; try again")]
    Contended { key: SortKey },
    /// Many writers changed the state of one link at once. What was stored before stays stored.
    #[error("too many writers changed one link at once; try again")]
    LinkContended,
}

impl HistoryError {
    /// Returns true if a retry may succeed without repair: nothing that is stored is damaged or missing.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Segment(error) => error.may_pass(),
            Self::Item(_) | Self::Head(_) | Self::Json(_) => false,
            _ => true,
        }
    }
}

impl History {
    /// Opens the histories in `table` and `bucket`.
    pub fn new(
        dynamodb: aws_sdk_dynamodb::Client,
        table: String,
        bucket: Bucket,
        clock: Clock,
        retention: Retention,
    ) -> Self {
        Self {
            table: Table::new(dynamodb, table),
            segments: Arc::new(Cache::new(shelf::MAX_KEPT_BYTES)),
            indexes: Arc::new(Cache::new(search::MAX_KEPT_BYTES)),
            bucket,
            clock,
            retention,
            registry: Registry::default(),
            stops: Arc::default(),
        }
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn retention(&self) -> &Retention {
        &self.retention
    }

    /// Returns the table, for the other items in it.
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// Reads the records of `chat` in `span`, in order, and their large bodies at the same time. One query.
    async fn records(&self, chat: &ChatKey, span: &Span) -> Result<Vec<Record>, HistoryError> {
        let items = self.table.query(&partition(chat), span).await?;
        try_join_all(items.iter().map(|item| self.record(item))).await
    }

    async fn record(&self, item: &Item) -> Result<Record, HistoryError> {
        self.whole(item::from_item(item)?).await
    }

    /// Returns the record with its message, after fetching that from S3 if necessary.
    async fn whole(&self, stored: Stored) -> Result<Record, HistoryError> {
        match stored {
            Stored::Inline(record) => Ok(record),
            Stored::Body { mut record, body } => {
                // A body that is lost must not make the rest of its chat unreadable.
                match bodies::body(&self.bucket, &body).await? {
                    Some(message) => record.message = message,
                    None => record.message.parts = vec![Part::text("[the content of this message is lost]")],
                }
                Ok(record)
            }
        }
    }
}

/// The bounds of the sort keys of records.
const FIRST_KEY: &str = "0";
const LAST_KEY: &str = ":";

/// The sort key of a chat's head.
const HEAD: &str = "!head";

fn partition(chat: &ChatKey) -> String {
    chat.to_string()
}
