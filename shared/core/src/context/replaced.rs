//! Messages that were replaced by an edit or a retry in `useChat`, which continues from an earlier place of the
//! conversation.
//!
//! The replacing message has its own time, and names the place that it continues from ([`Record::replaces_from`]). The
//! messages from that place up to it stay in the history but leave the context, as long as the replacing message itself
//! is in the context: an edit further back restores what it had replaced.

use super::message::Message;
use crate::record::Record;
use crate::sort_key::SortKey;

/// A range of a history that a later message replaces.
struct Replaced<'a> {
    from: SortKey,
    by: &'a Record,
}

impl Replaced<'_> {
    fn has(&self, base: &SortKey) -> bool {
        self.from <= *base && *base < self.by.key.base()
    }
}

/// Marks the replaced ones among `messages`, as named by `records`. Unanswered messages are not marked, except for
/// earlier forms of the replacing message. Replaced messages still belong to their Session.
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
