//! Puts of records: each registers its chat for the compactor, and puts a large message to S3 first.

use annals_core::draft::Draft;
use annals_core::record::{Kind, Record};
use annals_core::recording;
use annals_core::sort_key::{SortKey, Timestamp};

use super::counters::Addition;
use super::item::{self, MessageAttribute};
use super::table::{Anchor, Anchored, Item, Update, Written, number};
use super::{History, HistoryError, MAX_INLINE_BYTES, due, partition};

impl History {
    /// Moves the date on which `record` may leave the table to the date that it would have if it were appended at `now`,
    /// unless it is later already or has come: for records that the context still needs and no summary could take in.
    /// Without archiving it removes the date. One write. A record that covers a message must be prolonged before the
    /// message, from the same `now`.
    pub async fn prolong(&self, record: &Record, now: Timestamp) -> Result<(), HistoryError> {
        // A record that has passed its date is not revived: its reply may be gone.
        let update = match self.retention.expires_at(now) {
            Some(expires_at) => Update::default()
                .set("expiresAt", number(expires_at))
                .when("expiresAt < :expiresAt AND expiresAt > :now"),
            None => Update::default().remove(["expiresAt"]).when("expiresAt > :now"),
        };
        let update = update.bind(":now", number(self.clock.now().as_millis() / 1000));
        self.table.update(&partition(&record.chat), record.key.as_str(), update).await?;
        Ok(())
    }

    /// Puts any record, unless its key is taken. Registers its chat in the index of due chats (see [`due`]) if this
    /// process has not done so for a while; that is part of the put, and costs one write unit more.
    pub(super) async fn put(&self, record: &Record) -> Result<Written, HistoryError> {
        self.put_beside(record, false, &[]).await
    }

    /// [`History::put`], together with what it `counts`; with `is_registered`, another record has registered the chat already.
    pub(super) async fn put_beside(
        &self,
        record: &Record,
        is_registered: bool,
        counts: &[Addition],
    ) -> Result<Written, HistoryError> {
        let mut item = self.item_of(record).await?;
        let registers = !is_registered && self.register(&mut item, record);
        let written = if counts.is_empty() {
            self.table.put_new(item).await?
        } else {
            self.table.put_with(item, counts.iter().map(Addition::update).collect()).await?
        };
        // If it was refused, nothing of this item is stored.
        if registers && matches!(written, Written::Done(_)) {
            self.registry.remember(&record.chat, record.sent_at);
        }
        Ok(written)
    }

    /// Puts any record, unless its key is taken, as long as the item of `anchor` is in the table. Registers its chat as
    /// [`History::put`] does.
    pub(super) async fn put_anchored(
        &self,
        record: &Record,
        anchor: Anchor,
    ) -> Result<Anchored, HistoryError> {
        let mut item = self.item_of(record).await?;
        let registers = self.register(&mut item, record);
        let anchored = self.table.put_anchored(item, anchor).await?;
        if registers && matches!(anchored, Anchored::Done) {
            self.registry.remember(&record.chat, record.sent_at);
        }
        Ok(anchored)
    }

    /// Returns the record that is at the place of `record` after its put was `written`, and true if it is this one.
    pub(super) async fn stored(
        &self,
        record: Record,
        written: Written,
    ) -> Result<(Record, bool), HistoryError> {
        match written {
            Written::Done(_) => Ok((record, true)),
            Written::Refused(existing) => Ok((self.record(&existing).await?, false)),
        }
    }

    /// Makes `item`, that of `record`, an entry of the index of due chats if this process has not registered the chat
    /// for a while; returns whether it did.
    pub(super) fn register(&self, item: &mut Item, record: &Record) -> bool {
        let registers = self.registry.wants(&record.chat, record.sent_at, self.retention.due_after());
        if registers {
            due::register(item, &record.chat, record.sent_at, &self.retention);
        }
        registers
    }

    /// Returns the item of `record`, after putting a large message to S3.
    pub(super) async fn item_of(&self, record: &Record) -> Result<Item, HistoryError> {
        let json = serde_json::to_string(&record.message)?;
        let message = if json.len() > MAX_INLINE_BYTES {
            let digest = item::content_digest(&record.message);
            MessageAttribute::Body {
                key: super::bodies::put_body(&self.bucket, &record.chat, &record.key, &digest, json).await?,
                digest,
            }
        } else {
            MessageAttribute::Inline(json)
        };
        Ok(item::to_item(record, message)?)
    }

    /// Builds the record of `draft` as its `revision`th form at `key`.
    pub fn record_of(&self, draft: &Draft, key: SortKey, revision: u32) -> Record {
        let now = self.clock.now();
        let expires_at = match draft.kind {
            Kind::Boundary => self.retention.boundary_expires_at(now),
            _ => self.retention.expires_at(now),
        };
        Record { expires_at, ..recording::record_of(draft, key, revision, now) }
    }
}
