//! Imports messages of a chat from another program, or another deployment.
//!
//! An imported message has the key that it would have if it had come through its channel: its own time and id. So a
//! message that came through the channel too is found, and nothing is stored twice. For the table's TTL and the archive
//! it is appended now: it stays as long as a message that comes today, and leaves the table after it is in a segment.
//! It asks for no answer. The sample item of a record is in `item.rs`.

use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::draft::Draft;
use annals_core::message::Role;
use annals_core::record::{Kind, Record};
use annals_core::sort_key::{SortKey, Timestamp};

use futures::{StreamExt, TryStreamExt, stream};

use super::archived::ArchivedMessage;
use super::item;
use super::table::{Anchored, Item, MAX_TRANSACTION};
use super::turn::Claim;
use super::{History, HistoryError};

/// Maximum time for which an import holds a chat to move the start of its context.
const LEASE: Duration = Duration::from_mins(1);

/// Number of transactions of an import that are made at the same time.
const TRANSACTIONS_AT_ONCE: usize = 4;

/// Maximum number of messages that [`History::import_all`] takes at a time.
pub const MAX_IMPORTED_AT_ONCE: usize = TRANSACTIONS_AT_ONCE * MAX_TRANSACTION;

/// Maximum size of the messages of a transaction, as JSON; DynamoDB takes 4 MB in all.
const MAX_TRANSACTION_BYTES: usize = 2 * 1024 * 1024;

/// Number of single messages of an import that are stored at the same time.
const IMPORTS_AT_ONCE: usize = 16;

/// Messages that are put together.
struct Batch {
    /// Their places among the messages to import.
    places: Vec<usize>,
    items: Vec<Item>,
    /// Size of the messages, as JSON.
    bytes: usize,
    /// The first of them, which registers the chat.
    first: Record,
}

/// A message to import: the `revision`th form of `draft`, at `key`.
#[derive(Clone, Debug)]
pub struct ToImport {
    pub draft: Draft,
    pub key: SortKey,
    /// Number of its form.
    pub revision: u32,
    /// True if the caller has read the history, the archive included, and found no form of the message.
    pub is_new: bool,
}

/// The result of importing a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imported {
    Stored,
    /// An older form of the message is stored already; this one is stored beside it.
    Revised,
    /// It is stored already.
    Present,
}

impl History {
    /// Appends messages of one chat, whose keys differ, as [`History::import`] does; returns the results in the same order.
    /// New first forms are put together, in transactions: one request for a hundred of them. If a key is taken all the same, each
    /// message of its transaction is put by itself.
    ///
    /// If the channel gives messages no stable time, each gets the marker of its time first: one put more.
    pub async fn import_all(&self, messages: &[ToImport]) -> Result<Vec<Imported>, HistoryError> {
        let is_marked = |message: &&ToImport| {
            let draft = &message.draft;
            message.revision == 0 && draft.role == Role::User && !draft.channel.is_platform()
        };
        let marked = messages.iter().filter(is_marked).map(async |ToImport { draft, .. }| {
            self.first_time(&draft.chat, &draft.message_id, draft.ts).await.map(drop)
        });
        stream::iter(marked).buffer_unordered(IMPORTS_AT_ONCE).try_collect::<()>().await?;
        let mut batches: Vec<Batch> = Vec::new();
        for (at, ToImport { draft, key, .. }) in
            messages.iter().enumerate().filter(|(_, message)| message.is_new && message.revision == 0)
        {
            let mut record = self.record_of(draft, key.clone(), 0);
            record.ask_nothing();
            let item = self.item_of(&record).await?;
            let bytes = item::text(&item, "message").map_or(0, str::len);
            match batches.last_mut() {
                Some(batch)
                    if batch.items.len() < MAX_TRANSACTION
                        && batch.bytes + bytes <= MAX_TRANSACTION_BYTES =>
                {
                    batch.places.push(at);
                    batch.items.push(item);
                    batch.bytes += bytes;
                }
                _ => batches.push(Batch { places: vec![at], items: vec![item], bytes, first: record }),
            }
        }
        let mut imported = vec![None; messages.len()];
        let mut storing = stream::iter(batches)
            .map(async |batch| {
                let places = batch.places.clone();
                self.import_together(batch)
                    .await
                    .map(|is_stored| places.into_iter().filter(move |_| is_stored))
            })
            .buffer_unordered(TRANSACTIONS_AT_ONCE);
        while let Some(stored) = storing.try_next().await? {
            stored.for_each(|at| imported[at] = Some(Imported::Stored));
        }
        drop(storing);
        let each =
            messages.iter().zip(imported).map(async |(ToImport { draft, key, revision, .. }, imported)| {
                match imported {
                    Some(imported) => Ok(imported),
                    None => self.import(draft, key, *revision).await,
                }
            });
        stream::iter(each).buffered(IMPORTS_AT_ONCE).try_collect().await
    }

    /// Puts the items of `batch`, all or none. Returns false if it stored none, since a key was taken.
    async fn import_together(&self, mut batch: Batch) -> Result<bool, HistoryError> {
        let registers = batch.items.first_mut().is_some_and(|item| self.register(item, &batch.first));
        let is_stored = self.table.put_all_new(batch.items).await?;
        if registers && is_stored {
            self.registry.remember(&batch.first.chat, batch.first.sent_at);
        }
        Ok(is_stored)
    }

    /// Appends `draft` at `key` as its `revision`th form, unless the key is taken, in the table or in the archive. A
    /// first form with a [`Draft::form_ts`] later than those of all known forms is an edit that no webhook reported,
    /// and becomes the next form. One put, and for an edited message that may have left the table a read of the head, and
    /// one of its record if it is archived; safe to repeat.
    pub async fn import(
        &self,
        draft: &Draft,
        key: &SortKey,
        revision: u32,
    ) -> Result<Imported, HistoryError> {
        let made_at = draft.form_ts.filter(|_| revision == 0 && draft.kind == Kind::Normal);
        let base = key.base();
        let archived = match made_at {
            Some(_) => self.archived_if_left(&draft.chat, &base).await?,
            None => ArchivedMessage::default(),
        };
        let mut record = self.record_of(draft, key.clone(), revision);
        record.ask_nothing();
        let Some(existing) = self.first_form(&record, &archived).await? else {
            if revision > 0 && *key == base.revision(revision) {
                self.count_revisions(&draft.chat, &draft.key(), revision).await?;
            }
            return Ok(Imported::Stored);
        };
        let Some(made_at) = made_at else { return Ok(Imported::Present) };
        let (mut forms, may_have_later) = existing.forms(&archived);
        if may_have_later {
            forms.extend(self.later_forms(&draft.chat, &base).await?);
        }
        if forms.iter().any(|form| form.made_at.is_none_or(|known| known >= made_at)) {
            return Ok(Imported::Present);
        }
        let next = forms.iter().map(|form| form.revision).max().unwrap_or(0) + 1;
        let mut edit = self.record_of(draft, base.revision(next), next);
        edit.ask_nothing();
        let anchored = self.put_anchored(&edit, existing.anchor_of(next)).await?;
        Ok(if matches!(anchored, Anchored::Done) { Imported::Revised } else { Imported::Present })
    }

    /// Sets the start of the context of `chat` to `from`, if it has none, or one that is later than `first`, the first
    /// message that was imported before it. So the next turn neither reads years, nor misses messages of its Session.
    /// `None` if a run has the chat, which finds the start itself. At most three writes.
    pub async fn read_from(
        &self,
        chat: &ChatKey,
        from: &SortKey,
        first: Option<Timestamp>,
    ) -> Result<Option<()>, HistoryError> {
        let known = self.head(chat).await?.context_from;
        let moves = match &known {
            None => true,
            Some(known) => from < known && first.is_some_and(|first| first < known.ts()),
        };
        if !moves {
            return Ok(Some(()));
        }
        let Claim::Claimed(lease) = self.claim_for_upkeep(chat, LEASE).await? else { return Ok(None) };
        let is_as_seen = lease.head.context_from == known;
        let written = if is_as_seen { self.reach_back(&lease, from).await } else { Ok(()) };
        let ended = match written {
            Ok(()) => self.release(&lease).await,
            failed => failed,
        };
        match ended {
            Err(HistoryError::LeaseLost) => Ok(None),
            ended => ended.map(Some),
        }
    }
}
