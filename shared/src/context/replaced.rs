//! What a message that was said again replaces: an edit or another try of `useChat`, which goes on from an earlier place of
//! the conversation.
//!
//! Such a message stands at its own time and names the place that it goes on from ([`Record::replaces_from`]). What was
//! said from there up to it stays in the history and leaves the context, as long as the message itself is in it: who goes
//! back behind an edit brings back what that had replaced.

use super::view::Message;
use crate::record::Record;
use crate::sort_key::SortKey;

/// A stretch of a history that a later message stands in for.
struct Replaced<'a> {
    from: SortKey,
    by: &'a Record,
}

impl Replaced<'_> {
    fn has(&self, base: &SortKey) -> bool {
        self.from <= *base && *base < self.by.key.base()
    }
}

/// Marks those of `messages` that others among `records` replace. What waits is not, since nobody has answered it, but for
/// the earlier forms of what was said again. They are still of their Session, which has not ended with them.
pub(super) fn mark_replaced(messages: &mut [Message<'_>], records: &[Record]) {
    let mut replaced: Vec<Replaced<'_>> = Vec::new();
    for record in records.iter().rev() {
        if let Some(from) = record.replaces_from()
            && !replaced.iter().any(|stretch| stretch.has(&record.key.base()))
        {
            replaced.push(Replaced { from, by: record });
        }
    }
    for message in messages {
        let is_replaced = replaced.iter().any(|stretch| {
            let is_same = message.first.message_id == stretch.by.message_id;
            stretch.has(&message.base) && (is_same || !message.is_unanswered())
        });
        if is_replaced {
            message.replace();
        }
    }
}
