//! Content of a message, as parts that a model can read: [`Content`].
//!
//! A text is verbatim, except that mentions are replaced by names. A type without text of its own becomes a line in
//! brackets, a medium becomes a file part whose URL is `lark:<message_id>/<key>`, and a type that this version does not
//! know becomes a line with every string in it that a person could read.
//!
//! Source: [received content](https://open.feishu.cn/document/server-docs/im-v1/message/events/message_content).

use std::time::{Duration, UNIX_EPOCH};

use annals_channel::json::JsonView;
use annals_core::message::Part;
use annals_core::sort_key::Timestamp;
use serde_json::{Map, Value};

use super::event::{Body, Message};
use super::mention::Mentions;
use super::piece::{File, Piece, bracketed};
use super::readable;
use super::rich_text;

#[derive(Debug)]
pub(super) struct Content {
    /// Texts and files; never empty.
    pub(super) parts: Vec<Part>,
    /// True for a service message, which nobody said.
    pub(super) is_event: bool,
    /// The text with the keys of its mentions, if the message has nothing else.
    pub(super) said: Option<String>,
}

impl Content {
    pub(super) fn of(message: &Message<'_>) -> Self {
        let pieces = pieces(message);
        let said = match &pieces[..] {
            [Piece::Text(text)] if is_typed(message) => Some(text.clone()),
            _ => None,
        };
        let part = |piece| match piece {
            Piece::Text(text) => Part::text(message.mentions.named(&text)),
            Piece::File(file) => file.part(&message.id),
        };
        Self { parts: pieces.into_iter().map(part).collect(), is_event: message.kind == "system", said }
    }
}

/// Returns the content of a message inside another as lines of text; files become a line with kind and name.
pub(super) fn lines(message: &Message<'_>) -> String {
    let line = |piece: Piece| match piece {
        Piece::Text(text) => message.mentions.named(&text),
        file @ Piece::File(_) => file.line(),
    };
    pieces(message).into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns true if a person typed `message`.
fn is_typed(message: &Message<'_>) -> bool {
    matches!(message.kind, "text" | "post" | "")
}

/// Returns the pieces of `message`; at least one.
fn pieces(message: &Message<'_>) -> Vec<Piece> {
    let kind = message.kind;
    let pieces = match &message.body {
        Body::Object(body) => of_kind(kind, JsonView::of_map(body), &message.mentions),
        Body::Raw(raw) if is_typed(message) => vec![Piece::Text(raw.clone())],
        Body::Raw(raw) => vec![Piece::Text(format!("{}\n{raw}", bracketed(&named(kind), None)))],
        Body::Empty => Vec::new(),
    };
    if pieces.is_empty() { vec![Piece::Text(bracketed(&named(kind), None))] } else { pieces }
}

/// Returns the pieces of a message of `kind`; none if `body` has an unexpected shape.
fn of_kind(kind: &str, body: JsonView<'_>, mentions: &Mentions<'_>) -> Vec<Piece> {
    let text = |text: Option<String>| text.map(Piece::Text).into_iter().collect::<Vec<_>>();
    match kind {
        "text" | "hongbao" => text(body.text("text").map(str::to_owned)),
        // Schema 1 gives a post as its texts and pictures.
        "post" if body.has("text") || body.has("image_keys") => unknown(None, body),
        "post" => match rich_text::pieces(body.map(), mentions) {
            pieces if pieces.is_empty() => unknown(None, body),
            pieces => pieces,
        },
        "image" => body.text("image_key").map(File::image).map(Piece::File).into_iter().collect(),
        "file" => file(body, "application/octet-stream"),
        "audio" => file(body, "audio/ogg"),
        "media" | "video" => file(body, "video/mp4"),
        // The API does not give out these two.
        "folder" => text(Some(bracketed("folder", body.text("file_name")))),
        "sticker" => text(Some(bracketed("sticker", None))),
        "interactive" => text(card(body, mentions)),
        "system" => text(system(body)),
        "share_chat" => text(Some(shared("shared group", body, &["chat_name", "chat_id"]))),
        "share_user" => text(Some(shared("shared contact", body, &["user_name", "user_id"]))),
        "location" => text(location(body)),
        "todo" => text(Some(todo(body, mentions))),
        "vote" => text(Some(vote(body))),
        "calendar" | "general_calendar" | "share_calendar_event" => {
            text(Some(meeting("calendar event", body, "summary")))
        }
        "video_chat" => text(Some(meeting("video meeting", body, "topic"))),
        "merge_forward" => text(Some(bracketed("forwarded messages", None))),
        "" if body.has("text") => text(body.text("text").map(str::to_owned)),
        kind => unknown(Some(kind), body),
    }
}

/// Returns a message type as words.
fn named(kind: &str) -> String {
    if kind.is_empty() { "message".into() } else { kind.replace('_', " ") }
}

/// Returns `head`, followed by the lines that are not empty.
fn listed(head: String, lines: impl IntoIterator<Item = Option<String>>) -> String {
    let lines = lines.into_iter().flatten().filter(|line| !line.is_empty());
    std::iter::once(head).chain(lines).collect::<Vec<_>>().join("\n")
}

fn file(body: JsonView<'_>, media_type: &'static str) -> Vec<Piece> {
    let Some(key) = body.text("file_key") else { return Vec::new() };
    let mut file = File::of(key, media_type, body.text("file_name"));
    file.duration_ms = body.scalar("duration").and_then(|duration| duration.parse().ok());
    vec![Piece::File(file)]
}

/// Returns the text of a card: that of its rich text, the form in which Lark returns cards, or every readable string of
/// the card as it was sent, which may be a string of JSON in one of two fields.
fn card(body: JsonView<'_>, mentions: &Mentions<'_>) -> Option<String> {
    let mut fields = ["json_card", "user_dsl"].into_iter().filter_map(|name| body.text(name));
    let whole: Option<Map<String, Value>> = fields.find_map(|card| serde_json::from_str(card).ok());
    let body = whole.as_ref().map_or(body, JsonView::of_map);
    let is_rich_text = body.list("elements").is_some_and(|rows| rows.iter().any(Value::is_array));
    let words = if is_rich_text {
        rich_text::pieces(body.map(), mentions).into_iter().map(Piece::line).collect()
    } else {
        readable::strings_of(body.map())
    };
    (!words.is_empty()).then(|| listed("[card]".into(), words.into_iter().map(Some)))
}

/// Fills in a template such as `{from_user} invited {to_chatters} to this chat.`
fn system(body: JsonView<'_>) -> Option<String> {
    let mut filled = String::from("[");
    let mut rest = body.text("template")?;
    while let Some((before, from)) = rest.split_once('{') {
        let Some((name, after)) = from.split_once('}') else { break };
        filled.push_str(before);
        match body.raw(name) {
            Some(Value::String(text)) => filled.push_str(text),
            Some(Value::Array(items)) => {
                let texts: Vec<String> = items
                    .iter()
                    .map(|item| match item {
                        Value::String(text) => text.clone(),
                        item => readable::strings(item).join(", "),
                    })
                    .collect();
                filled.push_str(&texts.join(", "));
            }
            Some(value @ Value::Object(_)) => filled.push_str(&readable::strings(value).join(", ")),
            Some(other) => filled.push_str(&other.to_string()),
            None => {}
        }
        rest = after;
    }
    filled.push_str(rest);
    filled.push(']');
    Some(filled)
}

/// Returns a line with the first of `fields` that is not empty.
fn shared(head: &str, body: JsonView<'_>, fields: &[&str]) -> String {
    bracketed(head, fields.iter().find_map(|field| body.text(field)))
}

fn location(body: JsonView<'_>) -> Option<String> {
    let place = match (body.scalar("latitude"), body.scalar("longitude")) {
        (Some(latitude), Some(longitude)) => Some(format!("{latitude}, {longitude}")),
        _ => None,
    };
    let name = body.text("name").map(str::to_owned);
    (place.is_some() || name.is_some()).then(|| {
        listed(bracketed("location", place.as_deref()), [name, body.text("address").map(str::to_owned)])
    })
}

fn todo(body: JsonView<'_>, mentions: &Mentions<'_>) -> String {
    let summary = match body.raw("summary") {
        Some(Value::String(summary)) => vec![summary.clone()],
        Some(Value::Object(summary)) => {
            rich_text::pieces(summary, mentions).into_iter().map(Piece::line).collect()
        }
        _ => Vec::new(),
    };
    let due = body.time("due_time").map(|due| bracketed("due", Some(&rfc3339(due))));
    listed("[task]".into(), summary.into_iter().map(Some).chain([due]))
}

fn vote(body: JsonView<'_>) -> String {
    let options = body.list("options").unwrap_or_default().iter().map(|option| match option {
        Value::String(option) => Some(format!("- {option}")),
        option => Some(format!("- {}", readable::strings(option).join(", "))),
    });
    listed("[poll]".into(), std::iter::once(body.text("topic").map(str::to_owned)).chain(options))
}

fn meeting(head: &str, body: JsonView<'_>, title: &str) -> String {
    let time = |field| body.time(field).map(rfc3339);
    let times = match (time("start_time"), time("end_time")) {
        (Some(start), Some(end)) => Some(format!("{start} to {end}")),
        (start, end) => start.or(end),
    };
    listed(bracketed(head, body.text(title)), [times])
}

/// Returns the readable strings and the files of a type that this version does not know.
fn unknown(kind: Option<&str>, body: JsonView<'_>) -> Vec<Piece> {
    let mut words = readable::strings_of(body.map());
    words.extend(body.text("name").map(str::to_owned));
    let mut pieces = Vec::new();
    match kind {
        Some(kind) => {
            let words = words.into_iter().map(Some);
            pieces.push(Piece::Text(listed(bracketed(&named(kind), None), words)));
        }
        None if words.is_empty() => {}
        None => pieces.push(Piece::Text(words.join("\n"))),
    }
    let images = body.list("image_keys").unwrap_or_default().iter().filter_map(Value::as_str);
    pieces.extend(body.text("image_key").into_iter().chain(images).map(File::image).map(Piece::File));
    pieces.extend(file(body, "application/octet-stream"));
    pieces
}

/// Formats a time in UTC, to the second.
pub(super) fn rfc3339(at: Timestamp) -> String {
    let since = Duration::from_millis(u64::try_from(at.as_millis()).unwrap_or(0));
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string()
}
