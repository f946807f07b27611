//! Interactions: commands, the entry in the menu of a message, and pressed buttons.
//!
//! ```json
//! {"id": "1457536583141163186", "application_id": "1457…", "type": 2, "token": "aW50…", "context": 0,
//!  "guild_id": "1457…", "channel_id": "1457…", "channel": {"id": "1457…", "type": 0},
//!  "authorizing_integration_owners": {"0": "1457…"}, "member": {"user": {"id": "1033…", "username": "ada"}},
//!  "data": {"name": "ask", "type": 1, "options": [{"name": "prompt", "type": 3, "value": "hello"}]}}
//! ```
//!
//! Source: <https://discord.com/developers/docs/interactions/receiving-and-responding#interaction-object>.

use std::time::Duration;

use annals_channel::json::JsonView;
use annals_channel::settings::Settings;
use annals_channel::webhook::{Incoming, ParseError, Press, Response};
use annals_core::approval::Button;
use annals_core::command::Command;
use annals_core::draft::Draft;
use annals_core::language::Language;
use annals_core::message::Part;
use annals_core::metadata::Forward;
use annals_core::record::Kind;
use annals_core::reply_token::ReplyToken;
use annals_core::sort_key::{MessageId, Timestamp};
use annals_core::texts::Texts;
use serde_json::{Value, json};

use crate::commands::{ASK, typed};
use crate::content::{Content, attachment, with_names};
use crate::metadata::{self, Ids, Sender};
use crate::place::Window;
use crate::respond;
use crate::snowflake;

/// Types of interactions.
const COMMAND: i64 = 2;
const PRESS: i64 = 3;
const AUTOCOMPLETE: i64 = 4;

/// Type of a command in the menu of a message.
const OF_MESSAGE: i64 = 3;

/// Time for which a token is used: Discord accepts it for fifteen minutes.
const TOKEN_LIFE: Duration = Duration::from_secs(15 * 60 - 20);

/// Parses the interaction `call`. Returns its event and the response to it.
pub(super) fn parse(call: JsonView<'_>, settings: &Settings) -> (Result<Incoming, ParseError>, Response) {
    let not_known = || respond::privately(texts(call, settings).unknown_command());
    match call.int("type") {
        Some(COMMAND) => match command(call, settings) {
            Ok(incoming) => (Ok(incoming), respond::deferred()),
            refused => (refused, not_known()),
        },
        Some(PRESS) => (press(call, settings), not_known()),
        Some(AUTOCOMPLETE) => {
            (Err(ParseError("somebody types an option of a command")), respond::no_choices())
        }
        _ => (Err(ParseError("not a command or a button")), not_known()),
    }
}

/// Returns the texts in the language of the person who made the interaction.
pub(super) fn texts(call: JsonView<'_>, settings: &Settings) -> &'static dyn Texts {
    let own = || call.text("locale").and_then(Language::of_tag);
    settings.language.or_else(own).unwrap_or(Language::En).texts()
}

fn command(call: JsonView<'_>, settings: &Settings) -> Result<Incoming, ParseError> {
    let data = call.object("data").ok_or("the interaction has no command")?;
    let name = data.text("name").ok_or("the command has no name")?;
    if data.int("type") == Some(OF_MESSAGE) {
        let draft = draft(call, settings, about_message(data)?, about(data))?;
        return Ok(Incoming::message(draft.asking(true)));
    }
    if name == ASK {
        let draft = draft(call, settings, question(data)?, (None, None))?;
        return Ok(Incoming::message(draft.asking(true)));
    }
    let typed = typed(name, data);
    let command = Command::parse(&typed, None).ok_or("the command is not one of this program")?;
    Ok(Incoming::command(command, draft(call, settings, vec![Part::text(typed)], (None, None))?))
}

/// Returns the parts of `/ask`.
fn question(data: JsonView<'_>) -> Result<Vec<Part>, ParseError> {
    let text = data.objects("options").filter_map(|option| match option.raw("value")? {
        // An attachment's value is its id.
        Value::String(text) if option.int("type").is_none_or(|kind| kind == 3) => Some(text.as_str()),
        _ => None,
    });
    let resolved = |kind| data.object("resolved").and_then(|resolved| resolved.object(kind));
    let users = resolved("users").into_iter().flat_map(JsonView::fields).filter_map(|(id, user)| {
        let member = resolved("members").and_then(|members| members.object(id));
        Some((JsonView::of(user)?, member))
    });
    let text = with_names(&text.collect::<Vec<_>>().join("\n"), users);
    let files = resolved("attachments").into_iter().flat_map(JsonView::fields);
    let files = files.filter_map(|(_, file)| attachment(JsonView::of(file)?, true));
    let parts: Vec<Part> =
        (!text.trim().is_empty()).then(|| Part::text(text)).into_iter().chain(files).collect();
    if parts.is_empty() { Err(ParseError("the question is empty")) } else { Ok(parts) }
}

/// Returns the message in whose menu a command was chosen.
fn target(data: JsonView<'_>) -> Option<JsonView<'_>> {
    data.object("resolved")?.object("messages")?.object(data.text("target_id")?)
}

/// Returns the parts of a question about a message.
fn about_message(data: JsonView<'_>) -> Result<Vec<Part>, ParseError> {
    let message = target(data).ok_or("the command names no message")?;
    let author = message.object("author").and_then(|author| Sender::of(author, None));
    let name = author.map_or("somebody", Sender::shown_name);
    let content = Content::of(message).parts;
    let files: Vec<Part> = message.objects("attachments").filter_map(|file| attachment(file, true)).collect();
    let text: Vec<String> = content
        .iter()
        .filter_map(|part| match part.view() {
            annals_core::message::PartView::Text(text) => Some(text.to_owned()),
            _ => None,
        })
        .collect();
    if text.is_empty() && files.is_empty() {
        return Err(ParseError("the message has no content that is known"));
    }
    let text = Part::text(format!("Answer this message of {name}:\n\n{}", text.join("\n")));
    Ok([text].into_iter().chain(files).collect())
}

/// Returns the message that a question is about: its id, and whose words it has.
fn about(data: JsonView<'_>) -> (Option<Value>, Option<Forward>) {
    let Some(message) = target(data) else { return (None, None) };
    let author = message.object("author").and_then(|author| Sender::of(author, None));
    let from = author.map(|author| author.shown_name().to_owned());
    let forward = Forward { from, ..Forward::default() };
    (message.id("id").map(|id| json!({"messageId": id})), Some(forward))
}

fn press(call: JsonView<'_>, settings: &Settings) -> Result<Incoming, ParseError> {
    const NOT_OURS: ParseError = ParseError("a button that is not from this program");
    let id = call.object("data").and_then(|data| data.text("custom_id"));
    let button = id.and_then(Button::parse).ok_or(NOT_OURS)?;
    let by = draft(call, settings, Vec::new(), (None, None))?;
    let message_id = MessageId::new(format!("press-{}", by.message_id)).map_err(|_| NOT_OURS)?;
    let by = Draft { message_id, ..by }.of_kind(Kind::Notice);
    let details = call.raw("message").cloned().unwrap_or_default();
    Ok(Incoming::Press(Box::new(Press { button, by, details })))
}

/// Returns the draft of an interaction with these parts.
fn draft(
    call: JsonView<'_>,
    settings: &Settings,
    parts: Vec<Part>,
    about: (Option<Value>, Option<Forward>),
) -> Result<Draft, ParseError> {
    let member = call.object("member");
    let user = member.and_then(|member| member.object("user")).or_else(|| call.object("user"));
    let sender = user.and_then(|user| Sender::of(user, member)).ok_or("the interaction has no user")?;
    let window = Window::of_interaction(call)?;
    let id = call.id("id").ok_or("the interaction has no id")?;
    let ts = snowflake::time_of(id).unwrap_or(Timestamp::MIN);
    let message_id = MessageId::new(id).map_err(|_| "the interaction has no id")?;
    let name = call.object("channel").and_then(|channel| channel.text("name"));
    let ids = Ids { interaction: true, user_installed: is_for_user_alone(call) };
    let draft = Draft::new(window.origin(sender.id, settings)?, message_id, ts)
        .with_parts(parts)
        .with_metadata(metadata::of(sender, (window.chat_type(), name), call.text("locale"), about, &ids));
    Ok(match call.text("token") {
        Some(token) => draft.with_reply_token(ReplyToken::new(token, ts.plus(TOKEN_LIFE))),
        None => draft,
    })
}

/// Returns true if the app is installed for the user, and not for the guild or with the bot's own direct messages.
fn is_for_user_alone(call: JsonView<'_>) -> bool {
    let owners = call.object("authorizing_integration_owners");
    owners.is_some_and(|owners| owners.has("1") && !owners.map().contains_key("0"))
}
