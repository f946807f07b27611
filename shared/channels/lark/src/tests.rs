//! Tests of [`parse`]: `rules` by rule, `content` by type, `listed` with items of the API, `fixtures` with whole payloads.

use annals_channel::settings::{DmScope, Settings};
use annals_channel::testing::{draft_of, only, only_draft, settings, shown};
use annals_channel::webhook::{Incoming, ReadError};
use annals_core::draft::Draft;
use annals_test_support::json::with;
use serde_json::{Value, json};

use super::bot::Bot;
use super::parse::parse;

mod content;
mod fixtures;
mod listed;
mod rules;

fn bot() -> Bot {
    Bot { app_id: Some("cli_annals".into()), open_id: Some("ou_annals".into()) }
}

/// Builds a message of Ada in her p2p chat, with `fields` on top.
fn p2p(fields: Value) -> Value {
    with(
        json!({
            "message_id": "om_5", "chat_id": "oc_ada", "chat_type": "p2p", "create_time": "1764057600000",
            "update_time": "1764057600000", "message_type": "text",
        }),
        fields,
    )
}

/// Builds a message of Ada in a group, with `fields` on top.
fn group(fields: Value) -> Value {
    with(p2p(json!({"chat_id": "oc_group", "chat_type": "group"})), fields)
}

/// Returns the fields of a text message.
fn text(text: &str) -> Value {
    json!({"content": json!({ "text": text }).to_string()})
}

/// Returns the fields of a text with mentions: the bot is `@_user_1`, Bo is `@_user_2`.
fn mentioning(text: &str) -> Value {
    with(self::text(text), mentions())
}

fn mentions() -> Value {
    json!({"mentions": [
        {"key": "@_user_1", "id": {"open_id": "ou_annals", "union_id": "on_1"}, "name": "Annals", "mentioned_type": "bot"},
        {"key": "@_user_2", "id": {"open_id": "ou_bo"}, "name": "Bo", "mentioned_type": "user"},
    ]})
}

/// Returns the fields of a message of another type.
fn of_type(kind: &str, content: &Value) -> Value {
    json!({"message_type": kind, "content": content.to_string()})
}

/// Builds an event of schema 2.
fn event(kind: &str, event: Value) -> Value {
    let header = json!({
        "event_id": "e1", "event_type": kind, "create_time": "1764057600500", "token": "t", "app_id": "cli_annals",
    });
    let mut call = json!({"schema": "2.0", "header": header});
    call["event"] = event;
    call
}

/// Builds the event of `message`.
fn received(message: Value) -> Value {
    let sender = json!({"sender_id": {"open_id": "ou_ada", "union_id": "on_ada"}, "sender_type": "user"});
    let mut received = json!({ "sender": sender });
    received["message"] = message;
    event("im.message.receive_v1", received)
}

/// Builds the event of a case in JSON: a message by its fields, or a whole event or call. `text` is the text of a message,
/// "hi" by default, and `mentions: true` stands for [`mentions`].
fn event_of(case: &Value) -> Value {
    if let Some(call) = case.get("call") {
        return call.clone();
    }
    if let Some(event) = case.get("event") {
        return self::event(event[0].as_str().unwrap(), event[1].clone());
    }
    let (message, fields) = match case.get("group") {
        Some(fields) => (group(json!({})), fields),
        None => (p2p(json!({})), &case["p2p"]),
    };
    let said = text(fields["text"].as_str().unwrap_or("hi"));
    let content = fields.get("content").map_or(said, |content| json!({"content": content.to_string()}));
    let mentions = if fields["mentions"] == true { mentions() } else { json!({}) };
    let message = with(with(with(message, fields.clone()), content), mentions);
    match case.get("sender") {
        Some(sender) => event("im.message.receive_v1", json!({"sender": sender, "message": message})),
        None => received(message),
    }
}

fn parsed(event: &Value, settings: &Settings) -> Result<Vec<Incoming>, ReadError> {
    parse(event, &bot(), settings)
}

/// Parses an event, which must give one result.
fn incoming(event: &Value) -> Incoming {
    only(parsed(event, &settings()))
}

/// Parses the event of `message` and returns its draft.
fn draft(message: Value) -> Draft {
    only_draft(parsed(&received(message), &settings()))
}
