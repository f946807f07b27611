//! Entries that wait for an administrator's approval, over all owners.
//!
//! ```json
//! {"pk": "memory:user:telegram-42", "sk": "entry#0000000003", "markdown": "---\n…state: pending\n…",
//!  "dueShard": "pending", "dueAt": 0, …}
//! ```
//!
//! As long as it waits, an entry is in a partition of the index of due chats that no visit reads. The write that stores,
//! approves, forgets or deletes it lists it or takes it out.

use annals_core::memory::StoredEntry;
use annals_core::memory::entry::Entry;
use annals_core::memory::id::EntryId;
use aws_sdk_dynamodb::types::AttributeValue;

use super::{MAX_ATTEMPTS, Memory, MemoryError, entry_key, kept, number_of};
use crate::history::due::{DUE_AT, DUE_SHARD};
use crate::history::item::text;
use crate::history::table::{Item, Update, Written, item_at, number, string};

/// The partition of the index that holds these entries.
const SHARD: &str = "pending";

/// Maximum number of entries of a page.
pub const MAX_PENDING: usize = 50;

/// A page of entries that wait for approval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    pub entries: Vec<StoredEntry>,
    /// Last id of the page, after which the next one starts; `None` if there is none.
    pub after: Option<EntryId>,
}

impl Memory {
    /// Returns the next entries of all owners that wait for approval, after the entry `after`. One that was stored a moment
    /// ago may be missing. One query, and one read for each of at most [`MAX_PENDING`]; more if none of these waits any more.
    pub async fn pending(&self, after: Option<&EntryId>) -> Result<Pending, MemoryError> {
        let mut start = after.map(|after| {
            let mut key = item_at(after.owner.partition(), entry_key(after.number));
            key.extend(listing());
            key
        });
        loop {
            let (keys, next) = self.table.query_due(SHARD, 0, false, MAX_PENDING, start).await?;
            let mut entries = Vec::new();
            for key in &keys {
                let (Some(pk), Some(sk)) = (text(key, "pk"), text(key, "sk")) else { continue };
                // The index may be some moments old.
                entries.extend(self.table.get(pk, sk).await?.as_ref().and_then(waiting));
            }
            if next.is_none() || !entries.is_empty() {
                let after = entries.last().filter(|_| next.is_some()).map(StoredEntry::id);
                return Ok(Pending { entries, after });
            }
            start = next;
        }
    }

    /// Approves an entry: it is recalled from then on, and the entries that it supersedes are not. Returns it, or `None` if there is none.
    /// Safe to repeat. One read, and one write unless it was approved before.
    pub async fn approve(&self, id: &EntryId) -> Result<Option<StoredEntry>, MemoryError> {
        let (pk, sk) = (id.owner.partition(), entry_key(id.number));
        for _ in 0..MAX_ATTEMPTS {
            let Some(item) = self.table.get(&pk, &sk).await? else { return Ok(None) };
            let Some(StoredEntry { number, entry }) = kept(&id.owner, &item) else { return Ok(None) };
            if !entry.is_pending {
                return Ok(Some(StoredEntry { number, entry }));
            }
            let entry = Entry { is_pending: false, ..entry };
            let update = Update::default()
                .set("markdown", string(entry.render()))
                .when("markdown = :old")
                .bind(":old", string(text(&item, "markdown").unwrap_or_default()));
            if let Written::Done(_) = self.table.update(&pk, &sk, listed(update, &entry)).await? {
                return Ok(Some(StoredEntry { number, entry }));
            }
        }
        Err(MemoryError::Contended)
    }
}

/// Returns the entry of `item`, if it waits. Its document names the owner, as not every partition does.
fn waiting(item: &Item) -> Option<StoredEntry> {
    let entry = Entry::parse(text(item, "markdown")?).ok().filter(|entry| entry.is_pending)?;
    Some(StoredEntry { number: number_of(item)?, entry })
}

/// Returns the attributes by which an entry is in the index.
pub(super) fn listing() -> [(String, AttributeValue); 2] {
    [(DUE_SHARD.to_owned(), string(SHARD)), (DUE_AT.to_owned(), number(0))]
}

/// Adds to `update`, which stores `entry`, that the index has it if it waits, and only then.
pub(super) fn listed(update: Update, entry: &Entry) -> Update {
    if entry.is_pending {
        listing().into_iter().fold(update, |update, (name, value)| update.set(&name, value))
    } else {
        update.remove([DUE_SHARD, DUE_AT])
    }
}
