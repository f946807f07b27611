//! Content of a message, as parts that a model can read: [`Content`].
//!
//! The text or the caption comes first, verbatim. A kind of content without text of its own becomes a line in brackets,
//! a medium becomes a file part whose URL is `telegram:<file_id>`, and a field that this version does not know becomes
//! a line with its name and every string in it that a person could read.

use annals_channel::json::JsonView;
use annals_core::media::MAX_IMAGE_BYTES;
use annals_core::message::Part;
use serde_json::{Map, Value};

use super::readable::{self, person_name, rich_text};
use super::service;

#[derive(Debug)]
pub(super) struct Content {
    /// Texts and files. Never empty if made by [`Content::of`].
    pub(super) parts: Vec<Part>,
    /// True for a service message, and for a message without any content: nobody said it.
    pub(super) is_event: bool,
}

/// Fields that are not content. The metadata has some of them.
const ENVELOPE: &[&str] = &[
    "author_signature",
    "business_connection_id",
    "caption_entities",
    "chat",
    "date",
    "direct_messages_topic",
    "edit_date",
    "effect_id",
    "entities",
    "ephemeral_message_id",
    "external_reply",
    "forward_date",
    "forward_from",
    "forward_from_chat",
    "forward_from_message_id",
    "forward_origin",
    "forward_sender_name",
    "forward_signature",
    "from",
    "guest_bot_caller_chat",
    "guest_bot_caller_user",
    "guest_query_id",
    "has_media_spoiler",
    "has_protected_content",
    "is_automatic_forward",
    "is_from_offline",
    "is_paid_post",
    "is_topic_message",
    "link_preview_options",
    "media_group_id",
    "message_id",
    "message_thread_id",
    "paid_star_count",
    "quote",
    "receiver_user",
    "reply_markup",
    "reply_to_checklist_task_id",
    "reply_to_message",
    "reply_to_poll_option_id",
    "reply_to_story",
    "sender_boost_count",
    "sender_business_bot",
    "sender_chat",
    "sender_tag",
    "show_caption_above_media",
    "suggested_post_info",
    "via_bot",
];

/// Fields whose text is copied verbatim.
const VERBATIM: &[&str] = &["text", "caption"];

/// Fields that become a line, followed by the files in them.
const SPOKEN: &[&str] = &[
    "checklist",
    "contact",
    "dice",
    "game",
    "giveaway",
    "giveaway_winners",
    "invoice",
    "location",
    "paid_media",
    "poll",
    "rich_message",
    "sticker",
    "story",
    "venue",
    "web_app_data",
];

/// Fields that hold a file, with the media type if Telegram does not give one.
const MEDIA: &[(&str, &str)] = &[
    ("photo", "image/jpeg"),
    ("live_photo", "video/mp4"),
    ("video", "video/mp4"),
    ("video_note", "video/mp4"),
    ("animation", "video/mp4"),
    ("voice", "audio/ogg"),
    ("audio", "audio/mpeg"),
    ("document", "application/octet-stream"),
];

impl Content {
    /// Returns the content of `message`, or a line that names the fields that could not be read.
    pub(super) fn of(message: JsonView<'_>) -> Self {
        let mut content = Self::said(message);
        if content.parts.is_empty() {
            content.name_the_unknown(message);
        }
        content
    }

    /// Returns the content of `message`, without parts if no field of it is known.
    pub(super) fn said(message: JsonView<'_>) -> Self {
        let mut parts: Vec<Part> =
            VERBATIM.iter().filter_map(|field| message.text(field)).map(Part::text).collect();
        for field in SPOKEN {
            if let Some(value) = message.raw(field) {
                parts.extend(spoken(field, value, message).map(Part::text));
                parts.extend(files(field, value));
            }
        }
        for (field, _) in MEDIA {
            // Telegram sends an animation also as a document, for clients that do not know animations.
            if *field == "document" && message.has("animation") {
                continue;
            }
            if let Some(value) = message.raw(field) {
                let found = files(field, value);
                if found.is_empty() && (value.is_object() || value.is_array()) {
                    parts.push(Part::text(format!("[{}]", field.replace('_', " "))));
                }
                parts.extend(found);
            }
        }
        let is_event = parts.is_empty();
        parts.extend(service::lines(message).into_iter().map(Part::text));
        if let Some(photo) = message.raw("new_chat_photo") {
            parts.extend(files("photo", photo));
        }
        let mut content = Self { parts, is_event };
        for (field, value) in unknown(message).filter(|(_, value)| readable::has_text(value)) {
            content.is_event = false;
            content.parts.push(Part::text(format!("[{field}]\n{}", readable::strings(value).join("\n"))));
            content.parts.extend(files(field, value));
        }
        content
    }

    fn name_the_unknown(&mut self, message: JsonView<'_>) {
        let left: Vec<(&str, &Value)> = message
            .fields()
            .filter(|(name, _)| !ENVELOPE.contains(name) && message.has(name))
            .filter(|(_, value)| *value != "")
            .collect();
        let names: Vec<&str> = left.iter().map(|(name, _)| *name).collect();
        let mut line = if names.is_empty() {
            "[empty message]".to_owned()
        } else {
            format!("[unsupported message: {}]", names.join(", "))
        };
        for text in left.iter().flat_map(|(_, value)| readable::strings(value)) {
            self.is_event = false;
            line.push('\n');
            line.push_str(&text);
        }
        self.parts.push(Part::text(line));
        for (name, value) in left {
            self.parts.extend(files(name, value));
        }
        self.is_event &= self.parts.len() == 1;
    }
}

/// Returns the fields of `message` that this version does not know.
fn unknown(message: JsonView<'_>) -> impl Iterator<Item = (&str, &Value)> {
    message.fields().filter(|(name, _)| {
        !ENVELOPE.contains(name)
            && !VERBATIM.contains(name)
            && !SPOKEN.contains(name)
            && !MEDIA.iter().any(|(field, _)| field == name)
            && !service::is_event(name)
    })
}

/// Returns the line for one of [`SPOKEN`], or `None` if the value has an unexpected shape.
fn spoken(field: &str, value: &Value, message: JsonView<'_>) -> Option<String> {
    let view = JsonView::of(value)?;
    let lines = |head: &str, fields: &[&str]| {
        let texts = fields.iter().filter_map(|field| view.scalar(field));
        std::iter::once(format!("[{head}]")).chain(texts).collect::<Vec<_>>().join("\n")
    };
    Some(match field {
        "checklist" => {
            let tasks = view.objects("tasks").map(|task| {
                let mark = if task.has("completion_date") { 'x' } else { ' ' };
                format!("[{mark}] {}", task.text("text").unwrap_or_default())
            });
            std::iter::once(lines("checklist", &["title"])).chain(tasks).collect::<Vec<_>>().join("\n")
        }
        "contact" => {
            let name = person_name(view).unwrap_or_default();
            let number = view.scalar("phone_number").unwrap_or_default();
            let card = view.text("vcard").map(|card| format!("\n{card}")).unwrap_or_default();
            format!("[contact: {name}, {number}]{card}")
        }
        "dice" => format!(
            "[dice {}: {}]",
            view.text("emoji").unwrap_or_default(),
            view.scalar("value").unwrap_or_default()
        ),
        "game" => lines("game", &["title", "description", "text"]),
        "invoice" => {
            let amount = view.scalar("total_amount").unwrap_or_default();
            let currency = view.text("currency").unwrap_or_default();
            lines(&format!("invoice: {amount} {currency} in its smallest unit"), &["title", "description"])
        }
        // The line for the venue contains the place.
        "location" if message.has("venue") => return None,
        "location" if view.has("live_period") => format!("[live location: {}]", coordinates(view)?),
        "location" => format!("[location: {}]", coordinates(view)?),
        "venue" => {
            let place = view.object("location").and_then(coordinates).unwrap_or_default();
            lines(&format!("venue: {place}"), &["title", "address"])
        }
        "paid_media" => format!("[paid media: {} stars]", view.scalar("star_count").unwrap_or_default()),
        "poll" => {
            let head = if view.text("type") == Some("quiz") { "quiz" } else { "poll" };
            let options = view
                .objects("options")
                .filter_map(|option| option.text("text"))
                .map(|text| format!("- {text}"));
            let head = lines(head, &["question", "description"]);
            let explanation = view.text("explanation").map(str::to_owned);
            std::iter::once(head).chain(options).chain(explanation).collect::<Vec<_>>().join("\n")
        }
        "rich_message" => Some(rich_text(value)).filter(|text| !text.is_empty())?,
        "sticker" => {
            let emoji = view.text("emoji").map(|emoji| format!(" {emoji}")).unwrap_or_default();
            let set = view.text("set_name").map(|set| format!(" from {set}")).unwrap_or_default();
            format!("[sticker{emoji}{set}]")
        }
        "story" => {
            let chat = view.object("chat");
            let name =
                chat.and_then(|chat| person_name(chat).or_else(|| chat.text("title").map(str::to_owned)));
            name.map_or_else(|| "[story]".to_owned(), |name| format!("[story of {name}]"))
        }
        "web_app_data" => {
            let button = view.text("button_text").unwrap_or_default();
            lines(&format!("web app data, button {button:?}"), &["data"])
        }
        other => {
            let details = readable::strings(value).join(", ");
            let name = other.replace('_', " ");
            if details.is_empty() { format!("[{name}]") } else { format!("[{name}: {details}]") }
        }
    })
}

fn coordinates(location: JsonView<'_>) -> Option<String> {
    Some(format!("{}, {}", location.scalar("latitude")?, location.scalar("longitude")?))
}

/// Returns the files in `value`, which is the field `name` of a message. Of a picture with several sizes, only the
/// largest that a model can be shown is returned; thumbnails are skipped.
fn files(name: &str, value: &Value) -> Vec<Part> {
    let mut found = Vec::new();
    collect_files(name, value, &mut found);
    found
}

fn collect_files(name: &str, value: &Value, found: &mut Vec<Part>) {
    match value {
        Value::Array(items) => {
            let sizes: Vec<JsonView<'_>> =
                items.iter().filter_map(JsonView::of).filter(|size| is_picture_size(*size)).collect();
            if sizes.is_empty() {
                for item in items {
                    collect_files(name, item, found);
                }
            } else {
                found.extend(
                    sizes
                        .into_iter()
                        .max_by_key(|size| (fits(*size), area(*size)))
                        .and_then(|size| file(name, size)),
                );
            }
        }
        Value::Object(fields) => {
            found.extend(JsonView::of(value).and_then(|view| file(name, view)));
            for (name, field) in fields {
                let is_around = matches!(
                    name.as_str(),
                    "thumbnail" | "thumb" | "cover" | "qualities" | "premium_animation"
                );
                if !is_around && (field.is_array() || field.is_object()) {
                    collect_files(name, field, found);
                }
            }
        }
        _ => {}
    }
}

/// Returns true if `view` is one size of a picture. Sizes have no name and no type.
fn is_picture_size(view: JsonView<'_>) -> bool {
    view.text("file_id").is_some()
        && view.int("width").is_some()
        && !view.has("mime_type")
        && !view.has("duration")
        && !view.has("file_name")
}

/// Returns true if the file is not known to be too large for a model.
fn fits(size: JsonView<'_>) -> bool {
    size.int("file_size")
        .and_then(|bytes| usize::try_from(bytes).ok())
        .is_none_or(|bytes| bytes <= MAX_IMAGE_BYTES)
}

fn area(size: JsonView<'_>) -> (i64, i64) {
    let number = |name| size.int(name).unwrap_or(0);
    (number("width").saturating_mul(number("height")), number("file_size"))
}

fn file(kind: &str, file: JsonView<'_>) -> Option<Part> {
    let id = file.text("file_id")?;
    let media_type = match kind {
        "sticker" if file.flag("is_video") => "video/webm",
        "sticker" if file.flag("is_animated") => "application/x-tgsticker",
        "sticker" => "image/webp",
        _ => file.text("mime_type").unwrap_or_else(|| {
            MEDIA
                .iter()
                .find(|(field, _)| *field == kind)
                .map_or("application/octet-stream", |(_, default)| default)
        }),
    };
    let title = || {
        let names: Vec<&str> =
            ["performer", "title"].into_iter().filter_map(|name| file.text(name)).collect();
        (kind == "audio" && !names.is_empty()).then(|| names.join(" - "))
    };
    let filename = file.text("file_name").map(str::to_owned).or_else(title);
    let mut telegram = Map::new();
    telegram.insert("fileId".into(), id.into());
    if let Some(unique) = file.text("file_unique_id") {
        telegram.insert("fileUniqueId".into(), unique.into());
    }
    if let Some(size) = file.int("file_size") {
        telegram.insert("size".into(), size.into());
    }
    if let Some(duration) = file.int("duration").filter(|secs| *secs > 0) {
        telegram.insert("duration".into(), duration.into());
    }
    telegram.insert("kind".into(), kind.into());
    let url = format!("telegram:{id}");
    Some(Part::file(media_type, filename.as_deref(), url, ("telegram", &Value::Object(telegram))))
}
