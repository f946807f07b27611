//! Messages fetched from the API: [`from_listed`] makes of an item what the event of its message would have made, and
//! [`with_children`] completes a message that holds others.
//!
//! ```json
//! {"message_id": "om_…", "chat_id": "oc_…", "thread_id": "omt_…", "msg_type": "text", "deleted": false,
//!  "create_time": "1764057600000", "sender": {"id": "ou_…", "id_type": "open_id", "sender_type": "user"},
//!  "body": {"content": "{\"text\":\"hello\"}"}, "mentions": []}
//! ```
//!
//! Source: [list](https://open.feishu.cn/document/server-docs/im-v1/message/list),
//! [get](https://open.feishu.cn/document/server-docs/im-v1/message/get).

use std::time::Duration;

use serde_json::Value;

use super::bot::Bot;
use super::content::{self, Content, bracketed, rfc3339};
use super::event::Message;
use super::{gate, parse};
use crate::channel::settings::{GroupActivation, Settings};
use crate::channel::view::View;
use crate::message::Part;
use crate::record::Draft;

/// How deep forwarded messages may lie in forwarded messages.
const MAX_DEPTH: usize = 8;

/// The record of an item listed around the message `beside`, in the same Chat and with the id, time and content that
/// the item's own event would have given it. It asks nothing.
///
/// `None` for what belongs elsewhere or comes otherwise: another window's or thread's message, one taken back, the
/// bot's own, `beside` itself, and whatever addresses the bot or is a command. Lark delivers those as events, and a
/// record that is already there would keep them from being answered. For the same reason nothing is taken under
/// `GROUP_ACTIVATION=always`, nor in a p2p chat.
pub fn from_listed(item: &Value, beside: &Draft, bot: &Bot, settings: &Settings) -> Option<Draft> {
    let mut message = Message::listed(View::of(item)?).ok()?;
    let is_group = beside.metadata.get("chatType").and_then(Value::as_str) == Some("group");
    let is_elsewhere = message.chat_id != beside.chat_id || !is_beside(&message, beside);
    let is_gone = item.get("deleted") == Some(&Value::Bool(true));
    if !is_group || is_elsewhere || is_gone || message.id == beside.message_id {
        return None;
    }
    // In the main window a thread that was opened under the message later is not where it stands.
    message.thread_id = thread_of(beside);
    let content = Content::of(&message);
    if settings.group_activation == GroupActivation::Always
        || gate::is_own(&message, bot)
        || gate::addresses(&message, bot)
        || gate::command(&message, &content, bot).is_some()
    {
        return None;
    }
    Some(parse::draft(&message, content, beside.chat.clone(), false))
}

/// Whether a listed message stands in the thread or main window of `beside`.
///
/// A thread's list has its messages, the one that opened it among them. A window's list has that one too, which is in
/// the window wherever its event did not name a thread; and no answers in threads.
fn is_beside(message: &Message<'_>, beside: &Draft) -> bool {
    if let Some(thread) = thread_of(beside) {
        return message.thread_id == Some(thread);
    }
    let root = message.root_id.or(message.parent_id);
    message.thread_id.is_none() || root.is_none_or(|root| root == message.id.as_str())
}

fn thread_of(draft: &Draft) -> Option<&str> {
    draft.metadata.get("lark")?.get("threadId")?.as_str()
}

/// Whether an item holds other messages, so that [`with_children`] can complete its record.
pub fn is_merge_forward(item: &Value) -> bool {
    item.get("msg_type").and_then(Value::as_str) == Some("merge_forward")
}

/// `draft`, a message that holds others, with them as lines of text: `items` is what the API gives for its id, the
/// message itself and those in it at any depth.
///
/// Their files are named only, since Lark lets nobody download them. Unchanged where `items` holds none of them.
/// The complete form counts as the later one, so that the message met again without its children does not hide them.
#[must_use]
pub fn with_children(draft: Draft, items: &[Value]) -> Draft {
    let mut lines = Vec::new();
    children(draft.message_id.as_str(), items, 0, &mut lines);
    if lines.is_empty() {
        return draft;
    }
    lines.insert(0, bracketed("forwarded messages", None));
    Draft {
        parts: vec![Part::text(lines.join("\n"))],
        form_ts: draft.form_ts.map(|at| at.plus(Duration::from_millis(1))),
        ..draft
    }
}

/// The lines of the messages in the message `of`, in the order of their times.
fn children(of: &str, items: &[Value], depth: usize, lines: &mut Vec<String>) {
    let mut found: Vec<Message<'_>> = items
        .iter()
        .filter_map(View::of)
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
