//! Entries in DynamoDB: [`Memory`]. They are in the table of the histories, in partitions of their own:
//!
//! ```json
//! {"pk": "memory:user:telegram-42", "sk": "entry#0000000003", "markdown": "---\ntype: preference\n…", "position": 2,
//!  "capture": "!capture#telegram-5b1f0c9a2d3e4f5061728394#1763766220000#00000000000000000012"}
//! {"pk": "memory:user:telegram-42", "sk": "entry#0000000002", "deletedAt": 1763800000000, "position": 1, "capture": "…"}
//! {"pk": "memory:user:telegram-42", "sk": "timeZone", "zoneName": "Asia/Shanghai"}
//! ```
//!
//! The person's own time zone (`/timezone`) is here, since the query that recalls entries for a turn reads it too: it sorts
//! directly after them.
//!
//! Entries are numbered from 1, without gaps, in order of creation. A deleted entry leaves its number, and no text, so a
//! number never comes to mean another entry. The `capture` of one that the agent saved says from which message on, so that
//! the capture of that Session does not find it again. Nothing here expires. `memory/capture.rs` makes entries of Sessions;
//! `memory/moving.rs` moves them to another owner; `memory/pending.rs` lists those that wait for approval.
//!
//! # Undoing changes by the agent
//!
//! ```json
//! {"pk": "memory:user:telegram-42", "sk": "entry#0000000004", "deletedAt": 1763799520000, "earlier": "---\n…", "undoUntil": 1764404320000, …}
//! ```
//!
//! If the agent replaces an entry, a new entry supersedes it, and to undo that is to delete the new one. If a tool forgets an
//! entry, the same write keeps it beside the deletion for [`UNDO_FOR`]. Only [`Memory::undo`] restores it. It is in the same
//! item, so a person's correction or deletion removes it in the same write. After that time it is not returned any more, and
//! the next reader of its owner's entries deletes it.

mod capture;
mod moving;
mod pending;

use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::memory::entry::{Correction, Entry, StoredEntry};
use annals_core::memory::id::EntryId;
use annals_core::memory::owner::Owner;
use annals_core::memory::section::{fitting, section};
use annals_core::memory::validity::{Validity, validities};
use annals_core::ranking::{Text, rank};
use annals_core::sort_key::{SortKey, Timestamp};
use annals_core::time_zone::TimeZone;
use annals_io::clock::Clock;
use capture::{captures_of, saving_of, savings_of};
use pending::listed;

use crate::history::due::{DUE_AT, DUE_SHARD};
use crate::history::item::{text, time};
use crate::history::table::{Item, Span, Table, Update, Written, number, string};
use crate::history::{History, TableError};
pub use capture::{Captured, Saved};
pub use pending::{MAX_PENDING, Pending};

/// Maximum number of an owner's newest entries that are ranked for a message, so that the cost of a turn has a bound.
pub const MAX_RECALLED_FROM: usize = 200;

/// Maximum number of attempts at one write while others correct the same entry, or take the number meant for this one.
const MAX_ATTEMPTS: u32 = 100;

/// Sort key of the item of an owner's time zone, and its attribute: DynamoDB reserves `timeZone`.
const TIME_ZONE: &str = "timeZone";
const ZONE_NAME: &str = "zoneName";

/// Time for which a change by the agent's tools can be undone.
pub const UNDO_FOR: Duration = Duration::from_hours(7 * 24);

/// The entries of everybody.
#[derive(Clone, Debug)]
pub struct Memory {
    table: Table,
    clock: Clock,
}

/// All entries of an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// The entries, in order of creation, valid or not.
    pub kept: Vec<StoredEntry>,
    /// The changes that can be undone, in the same order.
    pub undoable: Vec<Undoable>,
    /// The places at which the agent saved entries that are deleted now.
    pub forgotten: Vec<Saving>,
    /// The time zone that the owner has chosen.
    pub time_zone: Option<TimeZone>,
}

/// The place in a history at which the agent saved an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saving {
    /// [`SessionId`](annals_core::chat_key::SessionId) of the chat.
    pub chat: String,
    /// Key of the first message that the agent was answering.
    pub from: SortKey,
}

/// An entry that the agent's tools replaced or forgot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undoable {
    pub earlier: StoredEntry,
    /// Number of the entry that superseded it; `None` if it was forgotten.
    pub superseded_by: Option<u32>,
    /// Time until which it can be undone.
    pub until: Timestamp,
}

impl Undoable {
    /// Returns true if it was forgotten, and not replaced.
    pub fn is_forgotten(&self) -> bool {
        self.superseded_by.is_none()
    }
}

/// An entry that [`Memory::recall`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recollection {
    pub stored: StoredEntry,
    pub validity: Validity,
}

/// The result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    Now,
    Before,
    /// No entry ever had this id.
    Unknown,
}

/// A failure to read or write memory. Entries that were stored before stay stored.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    #[error(transparent)]
    Table(#[from] TableError),
    #[error("failed to convert the findings of a session to or from JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("too many writers changed one memory at once; try again")]
    Contended,
}

impl Memory {
    /// Opens the entries in the table of `history`.
    pub fn beside(history: &History) -> Self {
        Self { table: history.table().clone(), clock: history.clock().clone() }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the valid entries of `owner` that fit `query` best, as a section for the system part of at most `token_budget`
    /// tokens, `None` if there are none, or none fits; and the time zone. One query, eventually consistent.
    pub async fn recall_section(
        &self,
        owner: &Owner,
        query: &str,
        token_budget: u32,
    ) -> Result<(Option<String>, Option<TimeZone>), MemoryError> {
        let (mut newest_first, time_zone) = self.newest(owner).await?;
        let now = self.clock.now();
        newest_first.retain(|found| !found.validity.is_past(now));
        let ranked = ranked(newest_first, query).into_iter().map(|found| found.stored).collect();
        Ok((section(&fitting(ranked, token_budget)), time_zone))
    }

    /// Returns entries of `owner`, also past ones: those that share words with `query`, the best first, then the others, the
    /// newest first; as many as fit. Only the newest [`MAX_RECALLED_FROM`] entries are read.
    pub async fn recall(
        &self,
        owner: &Owner,
        query: &str,
        token_budget: u32,
    ) -> Result<Vec<Recollection>, MemoryError> {
        let ranked = ranked(self.newest(owner).await?.0, query);
        let fitting = fitting(ranked.iter().map(|found| found.stored.clone()).collect(), token_budget);
        let found = fitting.into_iter().filter_map(|stored| {
            let Recollection { validity, .. } =
                ranked.iter().find(|found| found.stored.number == stored.number)?;
            Some(Recollection { stored, validity: *validity })
        });
        Ok(found.collect())
    }

    /// Returns the newest [`MAX_RECALLED_FROM`] entries of `owner` without those that wait for approval, the newest first;
    /// and the time zone. Entries that supersede one are newer, so validity is that of all entries.
    async fn newest(&self, owner: &Owner) -> Result<(Vec<Recollection>, Option<TimeZone>), MemoryError> {
        let span = Span { newest_first: true, limit: Some(MAX_RECALLED_FROM + 1), ..entries_and_zone() };
        let mut items = self.table.query_eventually(&owner.partition(), &span).await?;
        let time_zone = items.first().and_then(zone_of);
        items.retain(|item| number_of(item).is_some());
        items.truncate(MAX_RECALLED_FROM);
        self.purge(owner, &items).await?;
        let mut newest_first: Vec<StoredEntry> = items.iter().filter_map(|item| kept(owner, item)).collect();
        newest_first.retain(|stored| !stored.entry.is_pending);
        let validities = validities(&newest_first);
        let found = newest_first.into_iter().zip(validities);
        Ok((found.map(|(stored, validity)| Recollection { stored, validity }).collect(), time_zone))
    }

    /// Returns the time zone that `owner` has chosen. One read.
    pub async fn time_zone(&self, owner: &Owner) -> Result<Option<TimeZone>, MemoryError> {
        Ok(self.table.get(&owner.partition(), TIME_ZONE).await?.as_ref().and_then(zone_of))
    }

    /// Sets the time zone of `owner`. One write.
    pub async fn set_time_zone(&self, owner: &Owner, zone: TimeZone) -> Result<(), MemoryError> {
        let update = Update::default().set(ZONE_NAME, string(zone.name()));
        self.table.update(&owner.partition(), TIME_ZONE, update).await?;
        Ok(())
    }

    /// Returns the entries of `owner`, in order of creation, without deleted ones.
    pub async fn list(&self, owner: &Owner) -> Result<Vec<StoredEntry>, MemoryError> {
        Ok(self.overview(owner).await?.kept)
    }

    /// Returns the entries of `owner`, the changes that can be undone, and the time zone.
    pub async fn overview(&self, owner: &Owner) -> Result<Overview, MemoryError> {
        let items = self.table.query(&owner.partition(), &entries_and_zone()).await?;
        self.purge(owner, &items).await?;
        let now = self.clock.now();
        let kept: Vec<StoredEntry> = items.iter().filter_map(|item| kept(owner, item)).collect();
        let mut undoable: Vec<Undoable> =
            items.iter().filter_map(|item| undoable(owner, item, now)).collect();
        undoable.extend(superseded(&kept, now));
        undoable.sort_by_key(|undoable| undoable.earlier.number);
        let is_deleted = |item: &&Item| !item.contains_key("markdown");
        let forgotten = items.iter().filter(is_deleted).filter_map(saving_of).collect();
        Ok(Overview { time_zone: items.last().and_then(zone_of), kept, undoable, forgotten })
    }

    /// Deletes the earlier forms among `items` that can no longer be restored. One write for each.
    async fn purge(&self, owner: &Owner, items: &[Item]) -> Result<(), MemoryError> {
        let now = self.clock.now();
        for item in items.iter().filter(|item| item.contains_key("earlier")) {
            let (Some(number_of_it), Some(until)) = (number_of(item), time(item, "undoUntil")) else {
                continue;
            };
            if until > now {
                continue;
            }
            let update = Update::default().remove(["earlier", "undoUntil"]).when("undoUntil = :until");
            let update = update.bind(":until", number(until));
            self.table.update(&owner.partition(), &entry_key(number_of_it), update).await?;
        }
        Ok(())
    }

    /// Reads one entry; `None` if there is none, or none any more.
    pub async fn get(&self, id: &EntryId) -> Result<Option<StoredEntry>, MemoryError> {
        let item = self.table.get(&id.owner.partition(), &entry_key(id.number)).await?;
        Ok(item.and_then(|item| kept(&id.owner, &item)))
    }

    /// Corrects an entry for a person, who knows its text now: no change of it can be undone after that. Returns it, or
    /// `None` if there is none. An entry that the agent forgot is restored, as long as that can be undone. One read and
    /// one write.
    pub async fn correct(
        &self,
        id: &EntryId,
        correction: &Correction,
    ) -> Result<Option<StoredEntry>, MemoryError> {
        let (pk, sk) = (id.owner.partition(), entry_key(id.number));
        for _ in 0..MAX_ATTEMPTS {
            let Some(item) = self.table.get(&pk, &sk).await? else { return Ok(None) };
            let now = self.clock.now();
            let (is, known) = match (kept(&id.owner, &item), undoable(&id.owner, &item, now)) {
                (Some(kept), _) => ("markdown", kept),
                (None, Some(undoable)) => ("earlier", undoable.earlier),
                (None, None) => return Ok(None),
            };
            let StoredEntry { number, entry } = known;
            let entry = correction.apply(&entry, now);
            let update = Update::default()
                .set("markdown", string(entry.render()))
                .remove(["earlier", "undoUntil", "deletedAt"])
                .when(match is {
                    "markdown" => "markdown = :old",
                    _ => "attribute_not_exists(markdown) AND earlier = :old",
                })
                .bind(":old", string(text(&item, is).unwrap_or_default()));
            if let Written::Done(_) = self.table.update(&pk, &sk, listed(update, &entry)).await? {
                return Ok(Some(StoredEntry { number, entry }));
            }
        }
        Err(MemoryError::Contended)
    }

    /// Forgets an entry for the agent; it can be restored for [`UNDO_FOR`]. Safe to repeat. One read and one write.
    pub async fn set_aside(&self, id: &EntryId) -> Result<Deleted, MemoryError> {
        let (pk, sk) = (id.owner.partition(), entry_key(id.number));
        for _ in 0..MAX_ATTEMPTS {
            let Some(item) = self.table.get(&pk, &sk).await? else { return Ok(Deleted::Unknown) };
            let Some(document) = text(&item, "markdown") else { return Ok(Deleted::Before) };
            let now = self.clock.now();
            let update = Update::default()
                .set("earlier", string(document))
                .set("undoUntil", number(now.plus(UNDO_FOR)))
                .set("deletedAt", number(now))
                .remove(["markdown", DUE_SHARD, DUE_AT])
                .when("markdown = :old")
                .bind(":old", string(document));
            if let Written::Done(_) = self.table.update(&pk, &sk, update).await? {
                return Ok(Deleted::Now);
            }
        }
        Err(MemoryError::Contended)
    }

    /// Undoes what the agent did to an entry: restores one that a tool forgot, or deletes the one that superseded it.
    /// Returns the entry as it is valid again, or `None` if there is nothing to undo. A query, a read if it was
    /// forgotten, and a write.
    pub async fn undo(&self, id: &EntryId) -> Result<Option<StoredEntry>, MemoryError> {
        let overview = self.overview(&id.owner).await?;
        let mut undoable = overview.undoable.into_iter();
        let Some(undoable) = undoable.find(|undoable| undoable.earlier.number == id.number) else {
            return Ok(None);
        };
        if let Some(number) = undoable.superseded_by {
            self.delete(&EntryId { owner: id.owner.clone(), number }).await?;
            return Ok(Some(undoable.earlier));
        }
        let (pk, sk) = (id.owner.partition(), entry_key(id.number));
        let Some(item) = self.table.get(&pk, &sk).await? else { return Ok(None) };
        let Some(earlier) = text(&item, "earlier") else { return Ok(None) };
        let update = Update::default()
            .set("markdown", string(earlier))
            .remove(["earlier", "undoUntil", "deletedAt"])
            .when("earlier = :markdown");
        let update = listed(update, &undoable.earlier.entry);
        Ok(match self.table.update(&pk, &sk, update).await? {
            Written::Done(_) => Some(undoable.earlier),
            Written::Refused(_) => None,
        })
    }

    /// Deletes an entry for a person: its text and any earlier form are removed, and its number is not used again. Safe
    /// to repeat. One write.
    pub async fn delete(&self, id: &EntryId) -> Result<Deleted, MemoryError> {
        let update = Update::default()
            .set("deletedAt", number(self.clock.now()))
            .remove(["markdown", "earlier", "undoUntil", DUE_SHARD, DUE_AT])
            .when("attribute_exists(markdown) OR attribute_exists(earlier)");
        let (pk, sk) = (id.owner.partition(), entry_key(id.number));
        let written = self.table.update(&pk, &sk, update).await?;
        Ok(match written {
            Written::Done(_) => Deleted::Now,
            Written::Refused(item) if item.is_empty() => Deleted::Unknown,
            Written::Refused(_) => Deleted::Before,
        })
    }

    /// Deletes everything of `owner`: entries, what can be undone of them, and the items of captures. Returns the number
    /// of entries. Safe to repeat.
    pub async fn forget_all(&self, owner: &Owner) -> Result<usize, MemoryError> {
        let Overview { kept, undoable, .. } = self.overview(owner).await?;
        let count = kept.len() + undoable.iter().filter(|undoable| undoable.is_forgotten()).count();
        let pk = owner.partition();
        let keys = self.table.keys(&pk).await?;
        self.table.delete(&pk, keys).await?;
        Ok(count)
    }

    /// Deletes the entries of `owner` from `chat`, and the items of captures there; for a group's own memory, all of
    /// it. Returns the number of entries. Safe to repeat.
    pub async fn forget_chat(&self, owner: &Owner, chat: &ChatKey) -> Result<usize, MemoryError> {
        let is_group = *owner == Owner::Chat(chat.clone());
        let Overview { mut kept, undoable, .. } = self.overview(owner).await?;
        // Entries that the agent has forgotten count as well: they are deleted only now.
        kept.extend(undoable.into_iter().filter(Undoable::is_forgotten).map(|gone| gone.earlier));
        kept.retain(|kept| is_group || kept.entry.source.as_ref().is_some_and(|source| source.chat == *chat));
        for kept in &kept {
            self.delete(&kept.id()).await?;
        }
        let pk = owner.partition();
        let mut keys = self.table.keys(&pk).await?;
        let (captures, savings) = (captures_of(chat), savings_of(chat));
        keys.retain(|key| is_group || key.starts_with(&captures) || key.starts_with(&savings));
        self.table.delete(&pk, keys).await?;
        Ok(kept.len())
    }
}

/// Returns the span of all entries of an owner, in order.
fn entries() -> Span {
    Span { from: "entry#".into(), to: "entry#:".into(), newest_first: false, limit: None }
}

/// Returns the span of all entries of an owner, in order, and the time zone after them.
fn entries_and_zone() -> Span {
    Span { to: TIME_ZONE.into(), ..entries() }
}

fn zone_of(item: &Item) -> Option<TimeZone> {
    TimeZone::named(text(item, ZONE_NAME)?)
}

/// Returns the sort key of the entry with this number: ten digits, the most that a `u32` has.
fn entry_key(number: u32) -> String {
    format!("entry#{number:010}")
}

fn number_of(item: &Item) -> Option<u32> {
    text(item, "sk")?.strip_prefix("entry#")?.parse().ok()
}

/// Returns the change of `item` that can be undone at `now`.
fn undoable(owner: &Owner, item: &Item, now: Timestamp) -> Option<Undoable> {
    let until = time(item, "undoUntil").filter(|until| *until > now && !item.contains_key("markdown"))?;
    Some(Undoable { earlier: entry_of(owner, item, "earlier")?, superseded_by: None, until })
}

/// Returns the entries among `kept` that others have superseded, as long as that can be undone at `now`.
fn superseded(kept: &[StoredEntry], now: Timestamp) -> impl Iterator<Item = Undoable> {
    let found: Vec<(Validity, &StoredEntry)> = validities(kept).into_iter().zip(kept).collect();
    let by_number = found.clone();
    found.into_iter().filter_map(move |(validity, stored)| {
        let number = validity.superseded_by?;
        let (of_newer, newer) = by_number.iter().find(|(_, newer)| newer.number == number)?;
        // Without it, the entry that superseded it would supersede this one.
        let is_newest = of_newer.superseded_by.is_none();
        let until = newer.entry.created.plus(UNDO_FOR);
        // What it superseded only since that had superseded others does not come back alone.
        let is_last = newer.entry.supersedes.first() == Some(&stored.number);
        // A person who has corrected the new one wants it.
        let is_of_agent = newer.entry.updated.is_none();
        let undoable = Undoable { earlier: stored.clone(), superseded_by: Some(newer.number), until };
        (is_newest && is_last && is_of_agent && until > now).then_some(undoable)
    })
}

/// Returns `newest_first` in the order of [`Memory::recall`].
fn ranked(newest_first: Vec<Recollection>, query: &str) -> Vec<Recollection> {
    let texts = newest_first.iter().map(|Recollection { stored: StoredEntry { entry, .. }, .. }| Text {
        text: &entry.text,
        sender: None,
        at: Some(entry.created),
    });
    let texts: Vec<Text<'_>> = texts.collect();
    let best = rank(query, &texts);
    let mut left: Vec<Option<Recollection>> = newest_first.into_iter().map(Some).collect();
    let mut ranked: Vec<Recollection> = best.iter().filter_map(|place| left[*place].take()).collect();
    ranked.extend(left.into_iter().flatten());
    ranked
}

/// Returns the entry of `item`, unless it was deleted.
fn kept(owner: &Owner, item: &Item) -> Option<StoredEntry> {
    entry_of(owner, item, "markdown")
}

fn entry_of(owner: &Owner, item: &Item, attribute: &str) -> Option<StoredEntry> {
    let (number, document) = (number_of(item)?, text(item, attribute)?);
    match Entry::parse(document) {
        // The partition decides the owner.
        Ok(entry) => Some(StoredEntry { number, entry: Entry { owner: owner.clone(), ..entry } }),
        Err(error) => {
            tracing::error!(number, %error, "failed to read an entry of memory: it is left out; correct or delete it");
            None
        }
    }
}
