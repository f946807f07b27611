//! One message in the archive: its records in the segments, after it has left the table.
//!
//! Only messages that may have left the table are searched for here: see
//! [`Retention::may_have_left`](super::Retention::may_have_left). The sample item of a segment's pointer is in
//! `shelf.rs`, a sample line in `segment.rs`.

use annals_core::chat_key::ChatKey;
use annals_core::record::Record;
use annals_core::sort_key::SortKey;

use super::shelf::{last_pointer, pointer_key};
use super::table::Span;
use super::{History, HistoryError};

/// The records of one message in the segments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArchivedMessage {
    /// The records with its base, in order of their keys.
    pub records: Vec<Record>,
    /// The sort key of the pointer to a segment that holds one of them.
    pub(super) pointer: Option<String>,
}

impl History {
    /// [`History::archived_message`], of a message that may have left the table; nothing of any other.
    pub(super) async fn archived_if_left(
        &self,
        chat: &ChatKey,
        base: &SortKey,
    ) -> Result<ArchivedMessage, HistoryError> {
        if self.retention.may_have_left(base.ts(), self.clock.now()) {
            Box::pin(self.archived_message(chat, base)).await
        } else {
            Ok(ArchivedMessage::default())
        }
    }

    /// Reads the records of the message at `base` in the segments of `chat`. Costs a read of the head, and if the chat
    /// has segments, a query of their pointers and one object for each that can hold the message.
    pub async fn archived_message(
        &self,
        chat: &ChatKey,
        base: &SortKey,
    ) -> Result<ArchivedMessage, HistoryError> {
        let mut found = ArchivedMessage::default();
        let Some(longest) = self.head(chat).await?.longest_segment() else { return Ok(found) };
        let end = base.end_of_base();
        let span = Span::all(pointer_key(base.as_str()), last_pointer(base.ts(), longest));
        for info in self.pointers(chat, &span).await? {
            if info.from.as_str() > end.as_str() || info.to < *base {
                continue;
            }
            let segment = self.segment_of(&info).await?;
            for stored in segment.records.iter().filter(|stored| stored.record().key.base() == *base) {
                found.records.push(self.whole(stored.clone()).await?);
                found.pointer = Some(pointer_key(info.to.as_str()));
            }
        }
        found.records.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(found)
    }
}
