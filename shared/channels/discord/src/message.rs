//! Messages of the gateway, and of the REST API, which have the same form.
//!
//! ```json
//! {"op": 0, "s": 42, "t": "MESSAGE_CREATE", "d": {"id": "1457…", "channel_id": "1457…", "channel_type": 0,
//!  "guild_id": "1457…", "author": {"id": "1033…", "username": "ada"}, "member": {"nick": "Ada"},
//!  "content": "<@1457…> hello", "mentions": [{"id": "1457…"}], "type": 0, "edited_timestamp": null}}
//! ```
//!
//! Source: [message create](https://discord.com/developers/docs/events/gateway-events#message-create).

use annals_channel::json::JsonView;
use annals_channel::replied;
use annals_channel::settings::Settings;
use annals_channel::webhook::{Incoming, ParseError, Places};
use annals_core::draft::{Asks, Draft};
use annals_core::message::Part;
use annals_core::metadata::Forward;
use annals_core::record::Kind;
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use serde_json::{Value, json};

use crate::bot::Bot;
use crate::content::{Content, named};
use crate::gate;
use crate::metadata::{self, Ids, Sender};
use crate::place::{Window, chats_of_guild};
use crate::snowflake;

/// Dispatches of the gateway that are read.
pub const DISPATCHES: [&str; 3] = [CREATED, EDITED, DELETED];
const CREATED: &str = "MESSAGE_CREATE";
const EDITED: &str = "MESSAGE_UPDATE";
const DELETED: &str = "MESSAGE_DELETE";

/// Parses the dispatch `kind` with this `message`.
pub(super) fn parse(
    kind: &str,
    message: JsonView<'_>,
    bot: &Bot,
    settings: &Settings,
) -> Result<Incoming, ParseError> {
    match kind {
        CREATED => said(message, false, bot, settings),
        // Discord adds the previews of links in this way, too.
        EDITED if !message.has("edited_timestamp") => Err("not edited by a person".into()),
        EDITED => said(message, true, bot, settings),
        DELETED => deleted(message, settings),
        _ => Err("holds no message of a chat".into()),
    }
}

/// Returns the window of a message in a guild, if `event` does not tell whether it is a thread.
pub(super) fn missing_type(event: &Value) -> Option<&str> {
    let message = event.get("d").and_then(JsonView::of)?;
    let kind = event.get("t")?.as_str()?;
    let is_said = kind == CREATED || kind == EDITED;
    let is_missing = message.has("guild_id") && message.int("channel_type").is_none();
    message.id("channel_id").filter(|_| is_said && is_missing)
}

/// Adds the type of its channel to `event`.
pub(super) fn with_type(mut event: Value, channel_type: i64) -> Value {
    if let Some(Value::Object(message)) = event.get_mut("d") {
        message.insert("channel_type".into(), json!(channel_type));
    }
    event
}

fn said(
    message: JsonView<'_>,
    is_edit: bool,
    bot: &Bot,
    settings: &Settings,
) -> Result<Incoming, ParseError> {
    let author = message.object("author").ok_or("the message has no author")?;
    let sender = Sender::of(author, message.object("member")).ok_or("the author has no id")?;
    if sender.id == bot.id {
        return Err("the bot's own message, which is stored as a reply".into());
    }
    let window = Window::of_message(message)?;
    let chat_type = window.chat_type();
    let content = Content::of(message);
    if content.parts.is_empty() {
        return Err("Discord withholds its content (intent MESSAGE_CONTENT), or it has none".into());
    }
    let id = message.id("id").ok_or("the message has no id")?;
    let ts = snowflake::time_of(id).unwrap_or(Timestamp::MIN);
    let may_ask = !sender.is_bot && !message.has("webhook_id") && !content.is_event;
    let command = gate::command(message, &content.said, chat_type, bot).filter(|_| may_ask && !is_edit);
    let parts = match &command {
        Some(_) => vec![Part::text(gate::without_mention(&content.said, bot))],
        None => without_own_mention(content.parts, &content.said, message, bot),
    };
    let asks = if may_ask { gate::asks(message, chat_type, bot) } else { Asks::Never };
    let reply_to = reply_to(message, content.is_event, bot);
    let is_forwarded = message.objects("message_snapshots").next().is_some();
    let forward = is_forwarded.then(Forward::default);
    let metadata = metadata::of(sender, (chat_type, None), None, (reply_to, forward), &Ids::default());
    let message_id = MessageId::new(id).map_err(|_| "the message has no id")?;
    let draft = Draft::new(window.origin(sender.id, settings)?, message_id, ts)
        .with_exact_form_ts(message.text("edited_timestamp").and_then(time).unwrap_or(ts))
        .of_kind(if content.is_event { Kind::Event } else { Kind::Normal })
        .with_parts(parts)
        .with_metadata(metadata)
        .asking_as(asks, settings.group_activation);
    Ok(match command {
        Some(command) => Incoming::command(command, draft),
        None => Incoming::message(draft),
    })
}

/// Removes a mention of the bot at the start, unless there is nothing else.
fn without_own_mention(mut parts: Vec<Part>, said: &str, message: JsonView<'_>, bot: &Bot) -> Vec<Part> {
    let bare = gate::without_mention(said, bot);
    let is_mentioned = !bare.is_empty() && bare.len() < said.trim_start().len();
    // Other texts follow in the same part.
    let (whole, bare) = (named(said, message), named(bare, message));
    if let Some(first) = parts.first_mut().filter(|_| is_mentioned)
        && let annals_core::message::PartView::Text(text) = first.view()
        && let Some(rest) = text.strip_prefix(whole.as_str())
    {
        *first = Part::text(format!("{bare}{rest}"));
    }
    parts
}

fn reply_to(message: JsonView<'_>, is_event: bool, bot: &Bot) -> Option<Value> {
    const FORWARD: i64 = 1;
    let reference = message.object("message_reference")?;
    let id = reference.id("message_id").filter(|_| reference.int("type") != Some(FORWARD))?;
    let mut reply = json!({"messageId": id});
    // An event that refers to a message has its content.
    if let Some(original) = message.object("referenced_message").filter(|_| !is_event) {
        let author = original.object("author").and_then(|author| Sender::of(author, None));
        let is_own = author.is_some_and(|author| author.id == bot.id);
        let text = replied::words(&Content::of(original).parts, is_own);
        if !text.is_empty() {
            reply["text"] = text.into();
        }
        if let Some(author) = author {
            reply["senderName"] = author.shown_name().into();
        }
        if is_own {
            reply["own"] = true.into();
        }
    }
    Some(reply)
}

/// Returns the withdrawal of a message, which has no time of its own. Its places have no chat if it was in direct messages:
/// see [`deleted_in_direct_messages`].
fn deleted(message: JsonView<'_>, settings: &Settings) -> Result<Incoming, ParseError> {
    let id = message.id("id").ok_or("the message has no id")?;
    let channel_id = message.id("channel_id").ok_or("the message has no channel")?;
    let message_id = MessageId::new(id).map_err(|_| "the message has no id")?;
    let chats = match message.id("guild_id") {
        Some(guild_id) => chats_of_guild(guild_id, channel_id, settings)?.into(),
        None => Vec::new(),
    };
    let exact = snowflake::time_of(id).map(|ts| (SortKey::message(ts, &message_id), chats));
    let places = Places { exact, window: None };
    Ok(Incoming::Withdrawal { message_id, places, at: None, words: "[message deleted]" })
}

/// Returns the channel of a message that was deleted in direct messages. The event does not tell with whom they are.
pub(super) fn deleted_in_direct_messages(event: &Value) -> Option<&str> {
    let message = event.get("d").and_then(JsonView::of)?;
    message.id("channel_id").filter(|_| event["t"] == DELETED && message.id("guild_id").is_none())
}

/// Parses a time such as `2026-01-05T00:49:57.143000+00:00`.
pub(super) fn time(text: &str) -> Option<Timestamp> {
    let utc = text.strip_suffix("+00:00").unwrap_or(text);
    Timestamp::parse_rfc3339(&format!("{}Z", utc.trim_end_matches('Z')))
}
