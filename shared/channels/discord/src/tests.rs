//! Tests of [`parse`]: `rules` by rule, `fixtures` with whole payloads.

use annals_channel::settings::Settings;
use annals_channel::testing::{draft_of, only, only_draft, settings, shown};
use annals_channel::webhook::{Events, Incoming, ReadError, Response};
use annals_core::draft::Draft;
use annals_test_support::discord_api::APPLICATION_ID;
use annals_test_support::json::with;
use serde_json::{Value, json};

use super::bot::Bot;
use super::parse::parse;

mod fixtures;
mod rules;

fn bot() -> Bot {
    Bot { id: APPLICATION_ID.into() }
}

/// Builds `/ask prompt: hello` of Ada in a channel of a guild, with `fields` on top.
fn ask(fields: Value) -> Value {
    with(
        json!({
            "id": "1457536583141163186", "application_id": APPLICATION_ID, "type": 2, "token": "s3cret",
            "context": 0, "guild_id": "290", "channel_id": "645", "channel": {"id": "645", "type": 0},
            "authorizing_integration_owners": {"0": "290"},
            "member": {"user": {"id": "1033", "username": "ada", "global_name": "Ada"}},
            "data": {"name": "ask", "type": 1, "options": [{"name": "prompt", "type": 3, "value": "hello"}]},
        }),
        fields,
    )
}

/// Builds a message of Ada in a channel of a guild, with `fields` on top.
fn message(fields: Value) -> Value {
    let message = with(
        json!({
            "id": "1457536583141163186", "guild_id": "290", "channel_id": "645", "channel_type": 0, "type": 0,
            "author": {"id": "1033", "username": "ada"}, "content": "hello",
        }),
        fields,
    );
    json!({"op": 0, "t": "MESSAGE_CREATE", "d": message})
}

/// Mentions the bot in what `fields` says.
fn mentioning(content: &str) -> Value {
    json!({"content": content, "mentions": [{"id": APPLICATION_ID, "username": "Annals"}]})
}

fn events(call: &Value) -> Events {
    parse(call, &bot(), &settings()).unwrap()
}

fn parsed(call: &Value, settings: &Settings) -> Result<Vec<Incoming>, ReadError> {
    parse(call, &bot(), settings).map(|events| events.incoming)
}

fn incoming(call: &Value) -> Incoming {
    only(parsed(call, &settings()))
}

fn draft(call: &Value) -> Draft {
    only_draft(parsed(call, &settings()))
}
