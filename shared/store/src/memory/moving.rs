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

use annals_core::memory::entry::Entry;
use annals_core::memory::id::EntryId;
use annals_core::memory::owner::Owner;

use super::capture::is_at;
use super::{MAX_ATTEMPTS, Memory, MemoryError, entries, entry_key, kept, number_of, undoable};
use crate::history::item::text;
use crate::history::table::{Item, Written, number, string};

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
        let (now, mut moved) = (self.clock.now(), 0);
        let items = self.table.query(&from.partition(), &entries()).await?;
        let there = self.table.query(&to.partition(), &entries()).await?;
        let mut at = there.last().and_then(number_of).unwrap_or(0);
        for item in &items {
            let Some(old) = number_of(item).filter(|number| numbers.contains(number)) else { continue };
            if kept(from, item).is_none() && undoable(from, item, now).is_none() {
                continue;
            }
            let capture = format!("!moved#{from}#{old}");
            if !there.iter().any(|item| is_at(item, &capture, 0)) {
                let mut attempts = 0..MAX_ATTEMPTS;
                loop {
                    attempts.next().ok_or(MemoryError::Contended)?;
                    at += 1;
                    match self.table.put_new(moved_item(item, to, &capture, at)).await? {
                        Written::Done(_) => break,
                        Written::Refused(existing) if is_at(&existing, &capture, 0) => break,
                        // The number is another entry's.
                        Written::Refused(_) => {}
                    }
                }
            }
            self.delete(&EntryId { owner: from.clone(), number: old }).await?;
            moved += 1;
        }
        Ok(moved)
    }
}

/// Builds the item of the entry in `item` as the entry `at` of `to`.
fn moved_item(item: &Item, to: &Owner, capture: &str, at: u32) -> Item {
    let mut moved = Item::new();
    moved.insert("pk".into(), string(to.partition()));
    moved.insert("sk".into(), string(entry_key(at)));
    moved.insert("capture".into(), string(capture));
    moved.insert("position".into(), number(0));
    for attribute in ["markdown", "earlier"] {
        let entry = text(item, attribute).and_then(|document| Entry::parse(document).ok());
        if let Some(entry) = entry {
            moved.insert(attribute.into(), string(Entry { owner: to.clone(), ..entry }.render()));
        }
    }
    for attribute in ["undoUntil", "deletedAt"] {
        if let Some(value) = item.get(attribute) {
            moved.insert(attribute.into(), value.clone());
        }
    }
    moved
}
