//! Parses a call: [`parse`], a pure function.
//!
//! A call is an interaction, a webhook event of the application, or a dispatch of the gateway that the relay passes on. What
//! holds no message becomes [`Incoming::Ignored`]: log it and return a 2xx.

use annals_channel::json::JsonView;
use annals_channel::settings::Settings;
use annals_channel::webhook::{Events, Incoming, ParseError, ReadError, Response};
use annals_core::chat_key::ChatKey;
use annals_core::sort_key::Timestamp;
use serde_json::Value;

use crate::bot::Bot;
use crate::message::time;
use crate::{interaction, message, respond};

pub use crate::message::DISPATCHES;

/// Types of webhook events that change something here.
pub const WEBHOOK_EVENTS: [&str; 2] = [AUTHORIZED, DEAUTHORIZED];
const AUTHORIZED: &str = "APPLICATION_AUTHORIZED";
const DEAUTHORIZED: &str = "APPLICATION_DEAUTHORIZED";

/// Parses a call. There is one event, since Discord sends one per call.
pub fn parse(call: &Value, bot: &Bot, settings: &Settings) -> Result<Events, ReadError> {
    let view = JsonView::of(call).ok_or(ReadError::NotAnEvent)?;
    let (kind, parsed, response) = if let Some(kind) = view.text("t") {
        let message = view.object("d").ok_or(ParseError("the dispatch has no data"));
        let parsed = message.and_then(|message| message::parse(kind, message, bot, settings));
        (kind, parsed, Response::Empty)
    } else if is_webhook_event(view) {
        let event = view.object("event");
        let kind = event.and_then(|event| event.text("type")).unwrap_or("ping");
        let parsed = event.ok_or(ParseError("a check of the address"));
        (kind, parsed.and_then(|event| webhook_event(kind, event, settings)), Response::NoContent)
    } else {
        let (parsed, response) = interaction::parse(view, settings);
        ("interaction", parsed, response)
    };
    let incoming = vec![Incoming::parsed(kind, parsed)];
    let mut events = Events::new(incoming, response);
    if kind == "interaction" {
        events.not_allowed = respond::privately(interaction::texts(view, settings).not_allowed());
    }
    Ok(events)
}

/// Returns true for a webhook event: only interactions have a token.
pub(crate) fn is_webhook_event(call: JsonView<'_>) -> bool {
    call.has("event") || (call.int("type") == Some(0) && !call.has("token"))
}

/// Parses a webhook event: a person added the app to their account or removed it, so the bot may write to them or not.
///
/// Source: <https://discord.com/developers/docs/events/webhook-events>.
fn webhook_event(kind: &str, event: JsonView<'_>, settings: &Settings) -> Result<Incoming, ParseError> {
    const OF_USER: i64 = 1;
    let data = event.object("data");
    let user = data.and_then(|data| data.object("user")).and_then(|user| user.id("id"));
    let is_of_guild = data.is_some_and(|data| data.has("guild") || data.int("integration_type") == Some(0));
    let left = match kind {
        AUTHORIZED if data.and_then(|data| data.int("integration_type")) == Some(OF_USER) => None,
        DEAUTHORIZED if !is_of_guild => Some("the person removed the app"),
        AUTHORIZED | DEAUTHORIZED => return Err("the app was added to a server or removed from one".into()),
        _ => return Err("not an event of a person".into()),
    };
    let user_id = user.ok_or("the event has no user")?;
    let at = event.text("timestamp").and_then(time).unwrap_or(Timestamp::MIN);
    let chat = ChatKey::direct(&settings.agent_id, user_id)?;
    Ok(Incoming::Membership { chat, left, at })
}
