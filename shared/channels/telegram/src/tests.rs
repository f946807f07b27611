//! Tests of [`parse`]: `rules` by rule, `content` by part, `fixtures` with whole payloads.

use annals_channel::settings::{DmScope, Settings};
use annals_channel::testing::{draft_of, only_draft, settings, shown};
use annals_channel::webhook::{Incoming, ReadError};
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

fn parsed(update: &Value, settings: &Settings) -> Result<Vec<Incoming>, ReadError> {
    parse(update, &bot(), settings)
}

/// Parses a message of `kind` and returns its draft.
fn draft(kind: &str, message: &Value) -> Draft {
    only_draft(parsed(&json!({"update_id": 900, kind: message}), &settings()))
}
