//! Metadata of a message: sender, replied-to message, and the ids that a reply needs.
//!
//! ```json
//! {"senderName": "Tom", "senderIsBot": true, "chatType": "group",
//!  "replyTo": {"messageId": "om_…", "rootId": "om_…", "text": "what it said …", "senderName": "Bob"},
//!  "lark": {"threadId": "omt_…"}}
//! ```
//!
//! Lark gives the name of a sender only if the message mentions its own sender. Of the replied-to message an event has
//! the ids alone. The rest is fetched ([`set_parent`]) for a message that asks, and may be missing; two deliveries of a
//! message may differ in it, which makes no new form, since metadata is no part of the content.

use annals_channel::replied;
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
    let mut metadata = Metadata::from(FromPlatform {
        sender_name: sender_name(message).map(str::to_owned),
        sender_is_bot: message.is_of_bot,
        chat_type: Some(if message.is_p2p { ChatType::Private } else { ChatType::Group }),
        reply_to: reply(message),
        ..FromPlatform::default()
    });
    let ids = Ids { thread_id: message.thread_id.map(str::to_owned) };
    metadata.set_ids_of(Channel::Lark, &ids);
    metadata
}

/// Returns the id of the message that a message with this metadata replies to.
pub(super) fn parent_of(metadata: &Metadata) -> Option<&str> {
    metadata.fields().get("replyTo")?.get("messageId")?.as_str()
}

/// Adds `parent`, the replied-to message, to the metadata of a message. `text` is its content, and `is_own` is true if
/// the bot sent it.
pub(super) fn set_parent(metadata: &mut Metadata, parent: &Message<'_>, text: &str, is_own: bool) {
    let Some(Value::Object(reply)) = metadata.fields().get("replyTo") else { return };
    let mut reply = reply.clone();
    reply.insert("text".into(), replied::shortened(text, is_own).into());
    if let Some(name) = sender_name(parent) {
        reply.insert("senderName".into(), name.into());
    }
    if is_own {
        reply.insert("own".into(), true.into());
    }
    metadata.extend(Metadata::from(FromPlatform { reply_to: Some(reply.into()), ..FromPlatform::default() }));
}

fn sender_name<'a>(message: &Message<'a>) -> Option<&'a str> {
    message.sender.iter().find_map(|id| message.mentions.name_of(id))
}

/// Returns the replied-to message. In a thread, Lark sets the message that opened it as the parent of each message that
/// replies to nothing. A message that forwards others is no reply.
fn reply(message: &Message<'_>) -> Option<Value> {
    let parent = message.parent_id.filter(|_| message.kind != "merge_forward")?;
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
