//! Converts the content of an exported message into the Bot API's form.

use serde_json::{Map, Value, json};

use super::fields::text_of;

/// Returns the text and the Bot API's entities, which count UTF-16 units.
pub(super) fn text_and_entities(message: &Map<String, Value>) -> (String, Value) {
    let pieces = match message.get("text") {
        Some(Value::Array(pieces)) => pieces.as_slice(),
        Some(text @ Value::String(_)) => std::slice::from_ref(text),
        _ => &[],
    };
    let (mut text, mut entities, mut offset) = (String::new(), Vec::new(), 0);
    for piece in pieces {
        let words = piece.as_str().or_else(|| piece.get("text")?.as_str()).unwrap_or_default();
        let length = words.encode_utf16().count();
        if let Some(kind) = piece.get("type").and_then(Value::as_str) {
            let kind = match kind {
                "link" => "url",
                "phone" => "phone_number",
                "mention_name" => "text_mention",
                kind => kind,
            };
            let mut entity = json!({"type": kind, "offset": offset, "length": length});
            for (field, name) in [("url", "href"), ("language", "language")] {
                if let Some(value) = piece.get(name) {
                    entity[field] = value.clone();
                }
            }
            entities.push(entity);
        }
        text.push_str(words);
        offset += length;
    }
    (text, entities.into())
}

/// Adds content that has a field of its own in the Bot API to `update`. Returns whether there is any.
pub(super) fn structure(message: &Map<String, Value>, update: &mut Value) -> bool {
    let mut put = |field: &str, value: Value| update[field] = value;
    let location = message.get("location_information").filter(|location| location.is_object());
    if let Some(contact) = message.get("contact_information") {
        put("contact", contact.clone());
    } else if let Some(title) = text_of(message, "place_name") {
        let address = text_of(message, "address").unwrap_or_default();
        put("venue", json!({"title": title, "address": address, "location": location}));
    } else if let Some(location) = location {
        put("location", location.clone());
    } else if let Some(poll) = message.get("poll") {
        let answers = poll.get("answers").and_then(Value::as_array).into_iter().flatten();
        let options: Vec<Value> =
            answers.map(|answer| json!({"text": answer["text"], "voter_count": answer["voters"]})).collect();
        let (question, total) = (&poll["question"], &poll["total_voters"]);
        put("poll", json!({"question": question, "options": options, "total_voter_count": total}));
    } else if let Some(title) = text_of(message, "game_title") {
        put("game", json!({"title": title, "description": text_of(message, "game_description")}));
    } else if let Some(invoice) = message.get("invoice_information") {
        let total = &invoice["amount"];
        put(
            "invoice",
            json!({"title": invoice["title"], "description": invoice["description"],
            "currency": invoice["currency"], "total_amount": total}),
        );
    } else {
        return false;
    }
    true
}

/// Describes a medium as text, since the files of an export have no address: `[photo: photos/cat.jpg]`, or like a webhook's
/// `[voice message, 0:12]` if the file was not exported.
pub(super) fn medium(message: &Map<String, Value>) -> Option<String> {
    let path = text_of(message, "photo").or_else(|| text_of(message, "file"))?;
    let kind = match text_of(message, "media_type") {
        Some(kind) => kind.replace('_', " "),
        None if message.contains_key("photo") => "photo".into(),
        None => "file".into(),
    };
    let emoji = text_of(message, "sticker_emoji").map(|emoji| format!(" {emoji}")).unwrap_or_default();
    // Without a file, the exporter writes the reason: "(File not included. Change data exporting settings to download.)".
    let is_file = |path: &&str| !path.starts_with('(');
    if let Some(name) = text_of(message, "file_name").or(Some(path).filter(is_file)) {
        return Some(format!("[{kind}{emoji}: {name}]"));
    }
    let seconds = message.get("duration_seconds").and_then(Value::as_u64).filter(|seconds| *seconds > 0);
    let lasts = seconds.map(|seconds| format!(", {}:{:02}", seconds / 60, seconds % 60)).unwrap_or_default();
    Some(format!("[{kind}{emoji}{lasts}]"))
}

/// Describes an event as text: `[Ada: create group: Team, Ada, Bob]`.
pub(super) fn event(message: &Map<String, Value>) -> String {
    const FIELDS: [&str; 9] = [
        "title",
        "new_title",
        "members",
        "inviter",
        "text",
        "information_text",
        "emoticon",
        "amount",
        "duration_seconds",
    ];
    let words = |value: &Value| match value {
        Value::String(text) => vec![text.clone()],
        Value::Number(number) => vec![number.to_string()],
        Value::Array(list) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let details: Vec<String> = FIELDS.iter().filter_map(|name| message.get(*name)).flat_map(words).collect();
    let details: Vec<String> = details.into_iter().filter(|text| !text.is_empty()).collect();
    let action = text_of(message, "action").unwrap_or("something happened").replace('_', " ");
    let parts = [text_of(message, "actor").unwrap_or_default().to_owned(), action, details.join(", ")];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("[{}]", parts.join(": "))
}
