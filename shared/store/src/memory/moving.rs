//! Moves entries to another owner: those of a person whose identities are linked, or separated again.
//!
//! ```json
//! {"pk": "memory:user:ada", "sk": "entry#0000000007", "markdown": "---\n…", "capture": "!moved#user:telegram-42#3", "position": 0}
//! ```
//!
//! 1. The entry is put, create-only, at the new owner's next free number, with what can be undone of it. `capture` names
//!    where it was, so that a repeat finds it, also after it was deleted there.
//! 2. The old entry is deleted, which leaves its number.
//!
//! A crash between the two leaves both until the next repeat.
//!
//! Numbers that an entry supersedes become those of the same entries at the new owner; without those that do not move.

use std::collections::HashMap;

use annals_core::memory::entry::Entry;
use annals_core::memory::id::EntryId;
use annals_core::memory::owner::Owner;

use super::capture::is_at;
use super::{MAX_ATTEMPTS, Memory, MemoryError, entries, entry_key, kept, number_of, undoable};
use crate::history::due::{DUE_AT, DUE_SHARD};
use crate::history::item::text;
use crate::history::table::{Item, Written, item_at, number, string};

impl Memory {
    /// Moves the entries `numbers` of `from` to `to`, with what the agent has changed or forgotten of them and people can
    /// undo; returns how many there were. Safe to repeat. Two queries, and two writes for each entry.
    pub async fn move_entries(
        &self,
        from: &Owner,
        to: &Owner,
        numbers: &[u32],
    ) -> Result<usize, MemoryError> {
        if from == to || numbers.is_empty() {
            return Ok(0);
        }
        let (now, mut numbers_there, mut moved) = (self.clock.now(), HashMap::new(), 0);
        let items = self.table.query(&from.partition(), &entries()).await?;
        let there = self.table.query(&to.partition(), &entries()).await?;
        let mut at = there.last().and_then(number_of).unwrap_or(0);
        for item in &items {
            let Some(old) = number_of(item).filter(|number| numbers.contains(number)) else { continue };
            let capture = format!("!moved#{from}#{old}");
            if let Some(new) = there.iter().find(|item| is_at(item, &capture, 0)) {
                numbers_there.extend(number_of(new).map(|new| (old, new)));
            }
            if kept(from, item).is_none() && undoable(from, item, now).is_none() {
                continue;
            }
            if !numbers_there.contains_key(&old) {
                let mut attempts = 0..MAX_ATTEMPTS;
                loop {
                    attempts.next().ok_or(MemoryError::Contended)?;
                    at += 1;
                    let new = moved_item(item, to, &capture, at, &numbers_there);
                    match self.table.put_new(new).await? {
                        Written::Done(_) => break,
                        Written::Refused(existing) if is_at(&existing, &capture, 0) => break,
                        // The number is another entry's.
                        Written::Refused(_) => {}
                    }
                }
                numbers_there.insert(old, at);
            }
            self.delete(&EntryId { owner: from.clone(), number: old }).await?;
            moved += 1;
        }
        Ok(moved)
    }
}

/// Builds the item of the entry in `item` as the entry `at` of `to`.
fn moved_item(item: &Item, to: &Owner, capture: &str, at: u32, numbers_there: &HashMap<u32, u32>) -> Item {
    let mut moved = item_at(to.partition(), entry_key(at));
    moved.insert("capture".into(), string(capture));
    moved.insert("position".into(), number(0));
    for attribute in ["markdown", "earlier"] {
        let entry = text(item, attribute).and_then(|document| Entry::parse(document).ok());
        if let Some(entry) = entry {
            let supersedes =
                entry.supersedes.iter().filter_map(|old| numbers_there.get(old).copied()).collect();
            moved.insert(attribute.into(), string(Entry { owner: to.clone(), supersedes, ..entry }.render()));
        }
    }
    for attribute in ["undoUntil", "deletedAt", DUE_SHARD, DUE_AT] {
        if let Some(value) = item.get(attribute) {
            moved.insert(attribute.into(), value.clone());
        }
    }
    moved
}
