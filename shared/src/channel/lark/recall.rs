//! A message that was taken back: [`places`] finds its record, [`recalled`] makes the form that follows it.
//!
//! The event names window and message, but neither thread nor time, which its key takes. The API gives both for a
//! message that was taken back as for any other, only without its content:
//!
//! ```json
//! {"message_id": "om_…", "chat_id": "oc_…", "thread_id": "omt_…", "create_time": "1764057600000", "deleted": true}
//! ```

use serde_json::Value;

use super::event::Message;
use super::parse;
use crate::channel::settings::Settings;
use crate::channel::view::View;
use crate::chat_key::ChatKey;
use crate::message::{Part, Role};
use crate::record::{Draft, Kind, Record};
use crate::sort_key::{SortKey, Timestamp};

/// The base of the record of `item`, what the API gives for a message, and the chats that it can be in, the likeliest
/// first. `None` where the item is no message or has no time.
///
/// There are several, since the API does not tell a p2p chat from a group, and a thread may have been opened under a
/// message after it was recorded.
pub fn places(item: &Value, settings: &Settings) -> Option<(SortKey, Vec<ChatKey>)> {
    let message = Message::listed(View::of(item)?).ok()?;
    let sender = message.sender.first().copied().filter(|_| !message.is_of_bot);
    let chats = parse::chats(message.chat_id, message.thread_id, sender, settings).collect();
    Some((SortKey::message(message.created?, &message.id), chats))
}

/// What to append when the message of `record`, any form of it, was taken back at the time `at`: a later form that
/// says only that, so that its text leaves the Context, while its records stay for the audit. It asks nothing.
///
/// `None` for what is no person's message: a boundary, whose text stands behind it as a message of its own, a notice,
/// a summary, a reply.
pub fn recalled(record: &Record, at: Timestamp) -> Option<Draft> {
    let is_message = matches!(record.kind, Kind::Normal | Kind::Event | Kind::Revision);
    if !is_message || record.role() != Role::User {
        return None;
    }
    let mut metadata = record.message.metadata.clone();
    metadata.insert("recalled".into(), Value::Bool(true));
    Some(Draft {
        chat: record.chat.clone(),
        channel: record.channel,
        chat_id: record.chat_id.clone(),
        user_id: record.user_id.clone(),
        message_id: record.message_id.clone(),
        ts: record.ts,
        form_ts: Some(record.form_ts.map_or(at, |form| form.max(at))),
        role: Role::User,
        kind: if record.kind == Kind::Event { Kind::Event } else { Kind::Normal },
        parts: vec![Part::text("[message recalled]")],
        metadata,
        album: record.album.clone(),
        asks: false,
        opens_session: record.key == record.key.base().opening_message(),
        person: record.person.clone(),
    })
}
