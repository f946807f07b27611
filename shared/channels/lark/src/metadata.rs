//! Metadata of a message: sender, replied-to message, and the ids that a reply needs.
//!
//! ```json
//! {"senderName": "Tom", "senderIsBot": true, "chatType": "group",
//!  "replyTo": {"messageId": "om_…", "rootId": "om_…"},
//!  "lark": {"threadId": "omt_…"}}
//! ```
//!
//! It is kept small, since DynamoDB bills by the kilobyte, and contains nothing that may differ when Lark delivers the
//! event again. Lark gives the name of a sender only if the message mentions its own sender.

use serde_json::{Map, Value, json};

use super::event::Message;

/// Returns the metadata of `message`.
pub(super) fn of(message: &Message<'_>) -> Map<String, Value> {
    let mut metadata = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            metadata.insert(name.into(), value);
        }
    };
    let name = message.sender.iter().find_map(|id| message.mentions.name_of(id));
    put("senderName", name.map(Value::from));
    put("senderIsBot", message.is_of_bot.then_some(Value::Bool(true)));
    put("chatType", Some(if message.is_p2p { "private" } else { "group" }.into()));
    put("replyTo", reply(message));
    put("lark", message.thread_id.map(|thread| json!({ "threadId": thread })));
    metadata
}

/// Returns the replied-to message. In a thread, Lark sets the message that opened it as the parent of each message that
/// replies to nothing.
fn reply(message: &Message<'_>) -> Option<Value> {
    let parent = message.parent_id?;
    if message.thread_id.is_some() && message.root_id.is_none_or(|root| root == parent) {
        return None;
    }
    let mut reply = Map::new();
    reply.insert("messageId".into(), parent.into());
    if let Some(root) = message.root_id.filter(|root| *root != parent) {
        reply.insert("rootId".into(), root.into());
    }
    Some(Value::Object(reply))
}
