//! Tests of [`parse`]: `rules` by rule, `content` by part, `fixtures` with whole payloads.

use annals_channel::settings::{DmScope, Settings};
use annals_channel::testing::{draft_of, settings, shown};
use annals_channel::webhook::Incoming;
use annals_core::draft::Draft;
use annals_test_support::json::with;
use serde_json::{Value, json};

use super::bot::Bot;
use super::parse::parse;

mod content;
mod fixtures;
mod rules;

fn bot() -> Bot {
    Bot { id: 7_000_001, username: Some("AnnalsBot".into()) }
}

/// Builds a text message of Ada in her private chat, with `fields` on top.
fn private(fields: Value) -> Value {
    with(
        json!({
            "message_id": 5, "date": 1_764_057_600, "from": {"id": 11, "is_bot": false, "first_name": "Ada"},
            "chat": {"id": 11, "type": "private", "first_name": "Ada"},
        }),
        fields,
    )
}

/// Builds a text message of Ada in a supergroup, with `fields` on top.
fn group(fields: Value) -> Value {
    with(private(json!({"chat": {"id": -1001, "type": "supergroup", "title": "G"}})), fields)
}

/// Parses a message of `kind`, which must give one result.
fn incoming(kind: &str, message: &Value) -> Incoming {
    incoming_under(kind, message, &settings())
}

fn incoming_under(kind: &str, message: &Value, settings: &Settings) -> Incoming {
    let update = json!({"update_id": 900, kind: message});
    let mut found = parse(&update, &bot(), settings).unwrap();
    assert_eq!(found.len(), 1, "{update}");
    found.remove(0)
}

/// Parses a message of `kind` and returns its draft.
fn draft(kind: &str, message: &Value) -> Draft {
    draft_of(&incoming(kind, message)).unwrap_or_else(|| panic!("no draft: {message}")).clone()
}
