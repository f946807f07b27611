//! Destination of a reply: [`Address`].

use annals_core::record::{Channel, Record};

use super::metadata;

/// Destination for Lark's `im/v1/messages`: the place that a record came from.
///
/// Source: [reply](https://open.feishu.cn/document/server-docs/im-v1/message/reply),
/// [create](https://open.feishu.cn/document/server-docs/im-v1/message/create).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The message to reply to (`om_…`). A thread can only be reached by a reply: no `receive_id_type` names one.
    pub message_id: Option<String>,
    /// `receive_id` if there is no message to reply to (`oc_…`).
    pub chat_id: String,
    /// True if the message is in a thread; then the reply sets `reply_in_thread`. Otherwise it must not, since that
    /// would open a thread.
    pub in_thread: bool,
    /// True if a message that was recalled is not replied to, but the chat is sent the reply.
    pub survives_recall: bool,
}

impl Address {
    /// Returns the place that `record` came from, or `None` if it did not come from Lark.
    pub fn of(record: &Record) -> Option<Self> {
        if record.channel != Channel::Lark || record.chat_id.is_empty() {
            return None;
        }
        // The id of a boundary is that of its message with a suffix: `om_…/boundary`.
        let message_id = record.message_id.as_str().split('/').next().filter(|id| !id.is_empty());
        Some(Self {
            message_id: message_id.map(str::to_owned),
            chat_id: record.chat_id.clone(),
            in_thread: metadata::thread_of(&record.message.metadata).is_some(),
            survives_recall: false,
        })
    }
}
