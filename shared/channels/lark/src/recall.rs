//! A recalled message: [`places`] finds its record, [`recalled`] makes the new form.
//!
//! The event names window and message, but neither thread nor time, which are part of the key. The API returns both
//! also for a recalled message, only without its content:
//!
//! ```json
//! {"message_id": "om_…", "chat_id": "oc_…", "thread_id": "omt_…", "create_time": "1764057600000", "deleted": true}
//! ```

use annals_channel::json::JsonView;
use annals_channel::settings::Settings;
use annals_core::chat_key::ChatKey;
use annals_core::message::{Part, Role};
use annals_core::record::{Draft, Kind, Record};
use annals_core::sort_key::{SortKey, Timestamp};
use serde_json::Value;

use super::event::Message;
use super::parse;

/// Returns the base of the record of `item`, which is the API's answer for a message, and the chats that may contain
/// it, the most likely first. Returns `None` if the item is not a message or has no time.
///
/// There are several chats, since the API does not tell a p2p chat from a group, and a thread may have been opened
/// under a message after it was stored.
pub fn places(item: &Value, settings: &Settings) -> Option<(SortKey, Vec<ChatKey>)> {
    let message = Message::listed(JsonView::of(item)?).ok()?;
    let sender = message.sender.first().copied().filter(|_| !message.is_of_bot);
    let chats = parse::chats(message.chat_id, message.thread_id, sender, settings).collect();
    Some((SortKey::message(message.created?, &message.id), chats))
}

/// Returns the form to append when a message was recalled at the time `at`; `record` is any form of it. The new form
/// contains only that fact, so that the text leaves the Context, while the earlier records stay for the audit. It does
/// not ask.
///
/// Returns `None` for records that are not a person's message: notices, summaries, replies, and boundaries, whose text
/// is stored as a message of its own after them.
pub fn recalled(record: &Record, at: Timestamp) -> Option<Draft> {
    let is_message = matches!(record.kind(), Kind::Normal | Kind::Event | Kind::Revision);
    if !is_message || record.role() != Role::User {
        return None;
    }
    let mut draft = Draft::from(record)
        .of_kind(if record.kind() == Kind::Event { Kind::Event } else { Kind::Normal })
        .with_form_ts(Some(record.form_ts().map_or(at, |form| form.max(at))))
        .with_parts(vec![Part::text("[message recalled]")])
        .asking(false);
    draft.metadata.set_recalled();
    Some(draft)
}
