//! Where a reply is sent: [`Address`].

use serde_json::Value;

use crate::record::{Channel, Record};

/// What Lark's `im/v1/messages` needs to reach the place a record came from.
///
/// Source: [reply](https://open.feishu.cn/document/server-docs/im-v1/message/reply),
/// [create](https://open.feishu.cn/document/server-docs/im-v1/message/create).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The message to reply to (`om_…`). A thread is reached by a reply only: `receive_id_type` knows none.
    pub message_id: Option<String>,
    /// `receive_id` where there is nothing to reply to (`oc_…`).
    pub chat_id: String,
    /// Whether the message is in a thread, and so `reply_in_thread` belongs in the reply. A reply to a message
    /// that is in none must not ask for it: that would open a thread.
    pub in_thread: bool,
}

impl Address {
    /// Where `record` came from; `None` if it did not come from Lark.
    pub fn of(record: &Record) -> Option<Self> {
        if record.channel != Channel::Lark || record.chat_id.is_empty() {
            return None;
        }
        // What hangs on a message is named after it: `om_…/boundary`.
        let message_id = record.message_id.as_str().split('/').next().filter(|id| !id.is_empty());
        let thread = record.message.metadata.get("lark").and_then(|lark| lark.get("threadId"));
        Some(Self {
            message_id: message_id.map(str::to_owned),
            chat_id: record.chat_id.clone(),
            in_thread: thread.and_then(Value::as_str).is_some(),
        })
    }
}
