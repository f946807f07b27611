//! Messages fetched from the API: [`from_listed`] makes the record that the message's event would have made,
//! [`with_children`] completes a message that forwards others, and [`with_parent`] one that replies to another.
//!
//! ```json
//! {"message_id": "om_…", "chat_id": "oc_…", "thread_id": "omt_…", "msg_type": "text", "deleted": false,
//!  "create_time": "1764057600000", "sender": {"id": "ou_…", "id_type": "open_id", "sender_type": "user"},
//!  "body": {"content": "{\"text\":\"hello\"}"}, "mentions": []}
//! ```
//!
//! Source: [list](https://open.feishu.cn/document/server-docs/im-v1/message/list),
//! [get](https://open.feishu.cn/document/server-docs/im-v1/message/get).

use annals_channel::json::JsonView;
use annals_core::draft::Draft;
use annals_core::message::Part;
use annals_core::sort_key::Timestamp;
use serde_json::Value;

use super::bot::Bot;
use super::content::{self, Content, rfc3339};
use super::event::Message;
use super::piece::bracketed;
use super::{gate, metadata, parse};

/// Maximum depth of forwarded messages inside forwarded messages.
const MAX_DEPTH: usize = 8;

/// Returns the record of an item that was listed around the message `beside`: in the same Chat, with the id, time and
/// content that the item's own event would give it. It does not ask.
///
/// Returns `None` for items that do not belong there or that arrive in another way: messages of another window or
/// thread, recalled ones, the bot's own, `beside` itself, and messages that address the bot or are commands. Lark
/// delivers the last two as events, and a record that exists already would keep them from being answered. For the same
/// reason nothing is taken in a p2p chat, and nothing is fetched under `GROUP_ACTIVATION=always`.
pub fn from_listed(item: &Value, beside: &Draft, bot: &Bot) -> Option<Draft> {
    let mut message = Message::listed(JsonView::of(item)?).ok()?;
    let is_group = beside.metadata.is_group();
    let is_elsewhere = message.chat_id != beside.chat_id || !is_beside(&message, beside);
    let is_gone = item.get("deleted") == Some(&Value::Bool(true));
    if !is_group || is_elsewhere || is_gone || message.id == beside.message_id {
        return None;
    }
    // If a thread was opened under a message later, the message itself stays in the main window.
    let thread = metadata::thread_of(&beside.metadata);
    message.thread_id = thread.as_deref();
    let content = Content::of(&message);
    if gate::is_own(&message, bot)
        || gate::addresses(&message, bot)
        || gate::command(&message, &content, bot).is_some()
    {
        return None;
    }
    Some(parse::draft(&message, content, beside.chat.clone()))
}

/// Returns true if a listed message is in the thread or main window of `beside`.
///
/// The list of a thread includes the message that opened it. The list of a window includes that message too, which
/// belongs to the window unless its event named a thread, but no replies in threads.
fn is_beside(message: &Message<'_>, beside: &Draft) -> bool {
    if let Some(thread) = metadata::thread_of(&beside.metadata) {
        return message.thread_id == Some(thread.as_str());
    }
    let root = message.root_id.or(message.parent_id);
    message.thread_id.is_none() || root.is_none_or(|root| root == message.id.as_str())
}

/// Returns true if an item forwards other messages, so that [`with_children`] can complete its record.
pub fn is_merge_forward(item: &Value) -> bool {
    item.get("msg_type").and_then(Value::as_str) == Some("merge_forward")
}

/// Adds the message that `draft` replies to. `items` is the API's answer for its id. Returns `draft` unchanged if `items`
/// does not contain it, or if it was recalled.
#[must_use]
pub fn with_parent(mut draft: Draft, items: &[Value], bot: &Bot) -> Draft {
    let id = metadata::parent_of(&draft.metadata);
    let found = items.iter().filter_map(JsonView::of).filter(|item| !item.flag("deleted"));
    let mut found = found.filter_map(|item| Message::listed(item).ok());
    let Some(parent) = found.find(|message| Some(message.id.as_str()) == id) else { return draft };
    let mut lines = vec![content::lines(&parent)];
    children(parent.id.as_str(), items, 0, &mut lines);
    metadata::set_parent(&mut draft.metadata, &parent, &lines.join("\n"), gate::is_own(&parent, bot));
    draft
}

/// Adds the forwarded messages to `draft` as lines of text. `items` is the API's answer for its id: the message itself,
/// and the messages in it at any depth.
///
/// Of their files only the names are given, since Lark does not let anybody download them. Returns `draft` unchanged if
/// `items` contains none of its messages. The complete form counts as newer, so that the same message without its
/// children does not replace it.
#[must_use]
pub fn with_children(draft: Draft, items: &[Value]) -> Draft {
    let mut lines = Vec::new();
    children(draft.message_id.as_str(), items, 0, &mut lines);
    if lines.is_empty() {
        return draft;
    }
    lines.insert(0, bracketed("forwarded messages", None));
    let form_ts = draft.form_ts.map(Timestamp::next);
    draft.with_parts(vec![Part::text(lines.join("\n"))]).with_form_ts(form_ts)
}

/// Adds the lines of the messages inside the message `of`, sorted by time.
fn children(of: &str, items: &[Value], depth: usize, lines: &mut Vec<String>) {
    let mut found: Vec<Message<'_>> = items
        .iter()
        .filter_map(JsonView::of)
        .filter(|item| item.text("upper_message_id") == Some(of))
        .filter_map(|item| Message::listed(item).ok())
        .filter(|message| message.id.as_str() != of)
        .collect();
    found.sort_by_key(|message| message.created);
    let indent = "  ".repeat(depth);
    for message in found {
        let at = message.created.map(|at| format!("{} ", rfc3339(at))).unwrap_or_default();
        let sender = message.sender.first().copied().unwrap_or("somebody");
        let text = content::lines(&message).replace('\n', &format!("\n{indent}  "));
        lines.push(format!("{indent}{at}{sender}: {text}"));
        if message.kind == "merge_forward" && depth < MAX_DEPTH {
            children(message.id.as_str(), items, depth + 1, lines);
        }
    }
}
