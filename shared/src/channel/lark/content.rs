//! What a message says, as parts that a model can read: [`Content`].
//!
//! A text stands verbatim, but for the names in place of its mentions. What has no words of its own is a line in
//! brackets, a medium is a file part whose address is `lark:<message_id>/<key>`, and of a type that this version does
//! not know every string is repeated that a person could read in it.
//!
//! Source: [received content](https://open.feishu.cn/document/server-docs/im-v1/message/events/message_content).

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Map, Value};

use super::event::{Body, Message};
use super::mention::Mentions;
use super::readable;
use super::rich_text;
use crate::channel::view::View;
use crate::message::Part;
use crate::sort_key::{MessageId, Timestamp};

/// The parts of a message, and whether it is a service message.
#[derive(Debug)]
pub(super) struct Content {
    /// What is said, or what happened; never empty.
    pub(super) parts: Vec<Part>,
    /// Whether nobody said it: a service message.
    pub(super) is_event: bool,
    /// The text, with keys for mentions, where it is all that is said.
    pub(super) said: Option<String>,
}

impl Content {
    /// What `message` says.
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

/// What `message` says as lines of text, its files by their kind and name: for a message inside another.
pub(super) fn lines(message: &Message<'_>) -> String {
    let line = |piece| match piece {
        Piece::Text(text) => message.mentions.named(&text),
        Piece::File(file) => file.line(),
    };
    pieces(message).into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A piece of what is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Words, with keys for mentions.
    Text(String),
    /// A medium.
    File(File),
}

/// A file of a message, as the platform names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    /// Whether the platform keeps it as a picture.
    is_image: bool,
    key: String,
    media_type: &'static str,
    name: Option<String>,
    duration_ms: Option<u64>,
}

impl File {
    /// A picture. The platform does not say of what format.
    pub(super) fn image(key: &str) -> Self {
        Self { is_image: true, key: key.into(), media_type: "image/*", name: None, duration_ms: None }
    }

    /// A file of `media_type`, unless `name` tells a better one.
    pub(super) fn of(key: &str, media_type: &'static str, name: Option<&str>) -> Self {
        let end = name.and_then(|name| name.rsplit_once('.')).map(|(_, end)| end.to_ascii_lowercase());
        let known = MEDIA_TYPES.iter().find(|(known, _)| Some(*known) == end.as_deref());
        let media_type = known.map_or(media_type, |(_, media_type)| media_type);
        Self {
            is_image: false,
            key: key.into(),
            media_type,
            name: name.map(str::to_owned),
            duration_ms: None,
        }
    }

    /// `providerMetadata.lark` has what the download of a message's resource takes: `messageId`, the key, and `type`.
    fn part(&self, message_id: &MessageId) -> Part {
        let (key, kind) = if self.is_image { ("imageKey", "image") } else { ("fileKey", "file") };
        let mut lark = Map::new();
        lark.insert(key.into(), self.key.as_str().into());
        lark.insert("messageId".into(), message_id.as_str().into());
        lark.insert("type".into(), kind.into());
        if let Some(duration) = self.duration_ms {
            lark.insert("durationMs".into(), duration.into());
        }
        let url = format!("lark:{message_id}/{}", self.key);
        Part::file(self.media_type, self.name.as_deref(), url, ("lark", &Value::Object(lark)))
    }

    fn line(&self) -> String {
        let kind =
            self.media_type.split('/').next().filter(|kind| matches!(*kind, "image" | "audio" | "video"));
        bracketed(kind.unwrap_or("file"), self.name.as_deref())
    }
}

/// The media types of what people send, by the ends of their names.
const MEDIA_TYPES: &[(&str, &str)] = &[
    ("csv", "text/csv"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("gif", "image/gif"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("json", "application/json"),
    ("m4a", "audio/mp4"),
    ("md", "text/markdown"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("ogg", "audio/ogg"),
    ("opus", "audio/ogg"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("txt", "text/plain"),
    ("wav", "audio/wav"),
    ("webp", "image/webp"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("zip", "application/zip"),
];

/// Whether `message` is what a person types.
fn is_typed(message: &Message<'_>) -> bool {
    matches!(message.kind, "text" | "post" | "")
}

/// What `message` says, never nothing.
fn pieces(message: &Message<'_>) -> Vec<Piece> {
    let kind = message.kind;
    let pieces = match &message.body {
        Body::Object(body) => of_kind(kind, View::of_map(body), &message.mentions),
        Body::Raw(raw) if is_typed(message) => vec![Piece::Text(raw.clone())],
        Body::Raw(raw) => vec![Piece::Text(format!("{}\n{raw}", bracketed(&named(kind), None)))],
        Body::Empty => Vec::new(),
    };
    if pieces.is_empty() { vec![Piece::Text(bracketed(&named(kind), None))] } else { pieces }
}

/// What a message of `kind` says in `body`; nothing where the body is not what it should be.
fn of_kind(kind: &str, body: View<'_>, mentions: &Mentions<'_>) -> Vec<Piece> {
    let text = |text: Option<String>| text.map(Piece::Text).into_iter().collect::<Vec<_>>();
    match kind {
        "text" | "hongbao" => text(body.text("text").map(str::to_owned)),
        // Schema 1 gives a post as its words and pictures.
        "post" if body.has("text") || body.has("image_keys") => unknown(None, body),
        "post" => match rich_text::pieces(body.map(), mentions) {
            pieces if pieces.is_empty() => unknown(None, body),
            pieces => pieces,
        },
        "image" => body.text("image_key").map(File::image).map(Piece::File).into_iter().collect(),
        "file" => file(body, "application/octet-stream"),
        "audio" => file(body, "audio/ogg"),
        "media" | "video" => file(body, "video/mp4"),
        // The platform lets nobody download these two.
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

/// `[head]`, or `[head: details]`.
pub(super) fn bracketed(head: &str, details: Option<&str>) -> String {
    match details.filter(|details| !details.is_empty()) {
        Some(details) => format!("[{head}: {details}]"),
        None => format!("[{head}]"),
    }
}

/// A message type as words.
fn named(kind: &str) -> String {
    if kind.is_empty() { "message".into() } else { kind.replace('_', " ") }
}

/// `head` and the lines under it that say something.
fn listed(head: String, lines: impl IntoIterator<Item = Option<String>>) -> String {
    let lines = lines.into_iter().flatten().filter(|line| !line.is_empty());
    std::iter::once(head).chain(lines).collect::<Vec<_>>().join("\n")
}

fn file(body: View<'_>, media_type: &'static str) -> Vec<Piece> {
    let Some(key) = body.text("file_key") else { return Vec::new() };
    let mut file = File::of(key, media_type, body.text("file_name"));
    file.duration_ms = body.scalar("duration").and_then(|duration| duration.parse().ok());
    vec![Piece::File(file)]
}

/// A card's words: those of its rich text, as Lark gives cards back, or every readable string of the card as sent.
fn card(body: View<'_>, mentions: &Mentions<'_>) -> Option<String> {
    let is_rich_text = body.list("elements").is_some_and(|rows| rows.iter().any(Value::is_array));
    let words = if is_rich_text {
        let words = |piece| match piece {
            Piece::Text(text) => text,
            Piece::File(file) => file.line(),
        };
        rich_text::pieces(body.map(), mentions).into_iter().map(words).collect()
    } else {
        readable::strings_of(body.map())
    };
    (!words.is_empty()).then(|| listed("[card]".into(), words.into_iter().map(Some)))
}

/// `{from_user} invited {to_chatters} to this chat.`, filled in.
fn system(body: View<'_>) -> Option<String> {
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

/// The first of `fields` that says something.
fn shared(head: &str, body: View<'_>, fields: &[&str]) -> String {
    bracketed(head, fields.iter().find_map(|field| body.text(field)))
}

fn location(body: View<'_>) -> Option<String> {
    let place = match (body.scalar("latitude"), body.scalar("longitude")) {
        (Some(latitude), Some(longitude)) => Some(format!("{latitude}, {longitude}")),
        _ => None,
    };
    let name = body.text("name").map(str::to_owned);
    (place.is_some() || name.is_some()).then(|| {
        listed(bracketed("location", place.as_deref()), [name, body.text("address").map(str::to_owned)])
    })
}

fn todo(body: View<'_>, mentions: &Mentions<'_>) -> String {
    let summary = match body.raw("summary") {
        Some(Value::String(summary)) => vec![summary.clone()],
        Some(Value::Object(summary)) => rich_text::pieces(summary, mentions)
            .into_iter()
            .map(|piece| match piece {
                Piece::Text(text) => text,
                Piece::File(file) => file.line(),
            })
            .collect(),
        _ => Vec::new(),
    };
    let due = body.time("due_time").map(|due| bracketed("due", Some(&rfc3339(due))));
    listed("[task]".into(), summary.into_iter().map(Some).chain([due]))
}

fn vote(body: View<'_>) -> String {
    let options = body.list("options").unwrap_or_default().iter().map(|option| match option {
        Value::String(option) => Some(format!("- {option}")),
        option => Some(format!("- {}", readable::strings(option).join(", "))),
    });
    listed("[poll]".into(), std::iter::once(body.text("topic").map(str::to_owned)).chain(options))
}

fn meeting(head: &str, body: View<'_>, title: &str) -> String {
    let time = |field| body.time(field).map(rfc3339);
    let times = match (time("start_time"), time("end_time")) {
        (Some(start), Some(end)) => Some(format!("{start} to {end}")),
        (start, end) => start.or(end),
    };
    listed(bracketed(head, body.text(title)), [times])
}

/// A type that this version does not know: what a person could read in it, and its files.
fn unknown(kind: Option<&str>, body: View<'_>) -> Vec<Piece> {
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

/// The time in UTC, to the second.
pub(super) fn rfc3339(at: Timestamp) -> String {
    let since = Duration::from_millis(u64::try_from(at.as_millis()).unwrap_or(0));
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string()
}
