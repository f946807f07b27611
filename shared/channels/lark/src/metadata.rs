//! Metadata of a message: sender, replied-to message, and the ids that a reply needs.
//!
//! ```json
//! {"senderName": "Tom", "senderIsBot": true, "chatType": "group",
//!  "replyTo": {"messageId": "om_…", "rootId": "om_…"},
//!  "lark": {"threadId": "omt_…"}}
//! ```
//!
//! Lark gives the name of a sender only if the message mentions its own sender.

use annals_core::metadata::{ChatType, FromPlatform, Metadata};
use annals_core::record::Channel;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::event::Message;

/// The ids that only Lark has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Ids {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thread_id: Option<String>,
}

/// Returns the id of the thread that a message with this metadata is in.
pub(super) fn thread_of(metadata: &Metadata) -> Option<String> {
    metadata.ids_of::<Ids>(Channel::Lark).thread_id
}

/// Returns the metadata of `message`.
pub(super) fn of(message: &Message<'_>) -> Metadata {
    let name = message.sender.iter().find_map(|id| message.mentions.name_of(id));
    let mut metadata = Metadata::from(FromPlatform {
        sender_name: name.map(str::to_owned),
        sender_is_bot: message.is_of_bot,
        chat_type: Some(if message.is_p2p { ChatType::Private } else { ChatType::Group }),
        reply_to: reply(message),
        ..FromPlatform::default()
    });
    let ids = Ids { thread_id: message.thread_id.map(str::to_owned) };
    metadata.set_ids_of(Channel::Lark, &ids);
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
