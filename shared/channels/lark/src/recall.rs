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
use annals_channel::webhook::withdrawn;
use annals_core::chat_key::ChatKey;
use annals_core::draft::Draft;
use annals_core::record::Record;
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

/// Returns the form to append when a message was recalled at the time `at`: see [`withdrawn`].
pub fn recalled(record: &Record, at: Timestamp) -> Option<Draft> {
    let form_ts = record.form_ts().map_or(at, |form| form.max(at));
    withdrawn(record, form_ts, "[message recalled]")
}
