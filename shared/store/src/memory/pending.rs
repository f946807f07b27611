//! Entries that wait for an administrator's approval, over all owners.
//!
//! ```json
//! {"pk": "memory:user:telegram-42", "sk": "entry#0000000003", "markdown": "---\n…state: pending\n…", "isPending": true, …}
//! {"pk": "memory:pending", "sk": "dXNlcjp0ZWxlZ3JhbS00MiMz"}
//! ```
//!
//! The second item, whose sort key is the entry's public id, lists the first. It is put after the entry, and before the
//! capture is complete: so a crash in between is completed like the capture. An entry that is approved loses its item
//! afterwards; a reader of the list deletes the items of those that do not wait, so that a webhook, which may delete an entry, need not
//! be permitted to delete items. Forgetting an owner or a chat deletes the items of its entries, also of those that
//! were deleted before.

use annals_core::memory::StoredEntry;
use annals_core::memory::entry::Entry;
use annals_core::memory::id::EntryId;
use annals_core::memory::owner::Owner;
use aws_sdk_dynamodb::types::AttributeValue;

use super::{MAX_ATTEMPTS, Memory, MemoryError, entries_and_zone, entry_key, kept, number_of};
use crate::history::item::text;
use crate::history::table::{Item, Span, Update, Written, item_at, string};

const LIST: &str = "memory:pending";

/// Attribute of an entry that is, or was when it was deleted, in the list.
pub(super) const WAITS: &str = "isPending";

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
    /// Returns the first entries of all owners that wait for approval, of ids after `after`. One query, one read for each of at
    /// most [`MAX_PENDING`], and one write for each that does not wait any more.
    pub async fn pending(&self, after: Option<&EntryId>) -> Result<Pending, MemoryError> {
        let from = after.map_or_else(|| " ".into(), |after| format!("{after}\u{1}"));
        let span = Span { from, to: "~".into(), newest_first: false, limit: Some(MAX_PENDING) };
        let (items, has_more) = self.table.query_page(LIST, &span).await?;
        let ids: Vec<EntryId> =
            items.iter().filter_map(|item| text(item, "sk").and_then(|id| id.parse().ok())).collect();
        let after = ids.last().filter(|_| has_more).cloned();
        let mut entries = Vec::new();
        for id in ids {
            match self.get(&id).await? {
                Some(stored) if stored.entry.is_pending => entries.push(stored),
                _ => self.unlist(&id).await?,
            }
        }
        Ok(Pending { entries, after })
    }

    /// Approves an entry: it is recalled from then on, and the entries that it supersedes are not. Returns it, or `None` if there is none.
    /// Safe to repeat. One read, and two writes unless it was approved before.
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
                .remove([WAITS])
                .when("markdown = :old")
                .bind(":old", string(text(&item, "markdown").unwrap_or_default()));
            if let Written::Done(_) = self.table.update(&pk, &sk, update).await? {
                self.unlist(id).await?;
                return Ok(Some(StoredEntry { number, entry }));
            }
        }
        Err(MemoryError::Contended)
    }

    /// Puts the entry in `item` into the list, if it waits.
    pub(super) async fn list_pending(&self, owner: &Owner, item: &Item) -> Result<(), MemoryError> {
        let Some(number) = number_of(item).filter(|_| waits(item)) else { return Ok(()) };
        let id = EntryId { owner: owner.clone(), number };
        self.table.put_new(item_at(LIST, id.to_string())).await?;
        Ok(())
    }

    pub(super) async fn unlist(&self, id: &EntryId) -> Result<(), MemoryError> {
        Ok(self.table.delete(LIST, vec![id.to_string()]).await?)
    }

    /// Removes the entries of `owner` from the list whose items `is_one` selects. One query, and one write for each.
    pub(super) async fn unlist_those(
        &self,
        owner: &Owner,
        is_one: impl Fn(&Item) -> bool,
    ) -> Result<(), MemoryError> {
        let items = self.table.query(&owner.partition(), &entries_and_zone()).await?;
        let numbers = items.iter().filter(|item| waits(item) && is_one(item)).filter_map(number_of);
        let ids = numbers.map(|number| EntryId { owner: owner.clone(), number }.to_string()).collect();
        Ok(self.table.delete(LIST, ids).await?)
    }
}

/// Returns true if the entry in `item` waits for approval.
pub(super) fn waits(item: &Item) -> bool {
    matches!(item.get(WAITS), Some(AttributeValue::Bool(true)))
}
