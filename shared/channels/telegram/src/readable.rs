//! Finds the strings that a person could read in a structure without text of its own: [`strings`], [`rich_text`].

use annals_channel::json::JsonView;
use serde_json::Value;

/// Fields whose strings are shown to people.
const READABLE: &[&str] = &[
    "alternative_text",
    "button_text",
    "caption",
    "comment",
    "credit",
    "description",
    "explanation",
    "expression",
    "label",
    "name",
    "option_text",
    "performer",
    "prize_description",
    "question",
    "reason",
    "summary",
    "text",
    "title",
];

/// Fields with the place or the look of a nested message, not its content.
const AROUND: &[&str] = &[
    "caption_entities",
    "chat",
    "cover",
    "entities",
    "external_reply",
    "forward_from",
    "forward_from_chat",
    "forward_origin",
    "from",
    "link_preview_options",
    "reply_markup",
    "reply_to_message",
    "sender_business_bot",
    "sender_chat",
    "thumb",
    "thumbnail",
    "via_bot",
];

/// Returns every readable string inside `value`, in order: texts, names of people, and counts and durations after the
/// name of their field.
pub(super) fn strings(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(value, &mut found);
    found
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) if !text.is_empty() => found.push(text.clone()),
        Value::Array(items) => {
            for item in items {
                collect(item, found);
            }
        }
        Value::Object(fields) => {
            if let Some(name) = JsonView::of(value).and_then(person_name) {
                found.push(name);
            }
            for (name, field) in fields {
                match field {
                    Value::String(text) if READABLE.contains(&name.as_str()) && !text.is_empty() => {
                        found.push(text.clone());
                    }
                    Value::Number(number) if is_measure(name) => {
                        found.push(format!("{} {number}", name.replace('_', " ")));
                    }
                    // Strings directly in a list have no field name that tells if they are readable.
                    Value::Array(_) | Value::Object(_)
                        if !AROUND.contains(&name.as_str()) && !is_list_of_strings(field) =>
                    {
                        collect(field, found);
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// Returns true if a `text` or `caption` anywhere inside `value` is not empty.
pub(super) fn has_text(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_text),
        Value::Object(fields) => fields.iter().any(|(name, field)| match field {
            Value::String(text) => matches!(name.as_str(), "text" | "caption") && !text.is_empty(),
            _ => !AROUND.contains(&name.as_str()) && has_text(field),
        }),
        _ => false,
    }
}

/// Returns first and last name of a user or a contact, or `None` if both are missing.
pub(super) fn person_name(person: JsonView<'_>) -> Option<String> {
    let names: Vec<&str> =
        ["first_name", "last_name"].into_iter().filter_map(|field| person.text(field)).collect();
    (!names.is_empty()).then(|| names.join(" "))
}

/// Returns the text of a `RichMessage`, each block on lines of its own, without styles and layout.
///
/// Source: [`RichMessage`](https://core.telegram.org/bots/api#richmessage), whose `RichText` is a string, a list of
/// rich texts, or an object that styles the one in its `text`.
pub(super) fn rich_text(value: &Value) -> String {
    let mut lines = Vec::new();
    blocks(value, &mut lines);
    lines.join("\n")
}

fn blocks(value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            for item in items {
                blocks(item, lines);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                match (name.as_str(), field) {
                    ("name", _) => {}
                    (name, _) if AROUND.contains(&name) => {}
                    (name, _) if READABLE.contains(&name) && !is_structure(field) => {
                        let line = inline(field);
                        if !line.is_empty() {
                            lines.push(line);
                        }
                    }
                    (_, Value::Array(_) | Value::Object(_)) => blocks(field, lines),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// Returns one `RichText` as text on one line.
fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(inline).collect(),
        Value::Object(fields) => {
            let readable =
                fields.iter().filter(|(name, _)| *name != "name" && READABLE.contains(&name.as_str()));
            let words: String = readable.map(|(_, field)| inline(field)).collect();
            match fields.get("url").and_then(Value::as_str) {
                Some(url) if url != words => format!("{words} ({url})"),
                _ => words,
            }
        }
        _ => String::new(),
    }
}

/// Returns true if `value` is not a rich text itself but contains some, like a caption with its credit.
fn is_structure(value: &Value) -> bool {
    value.as_object().is_some_and(|fields| !fields.contains_key("type"))
}

fn is_measure(field: &str) -> bool {
    field.ends_with("_count") || field.ends_with("_time") || matches!(field, "distance" | "duration")
}

fn is_list_of_strings(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn strings_returns_texts_names_and_counts_but_no_ids() {
        let value = json!({
            "id": "abc", "chat": {"title": "not this"}, "users": [{"id": 1, "first_name": "Ada", "last_name": "L"}],
            "gift": {"text": "for you", "sticker": {"file_id": "x", "emoji": "🎁"}}, "boost_count": 4,
            "option_persistent_ids": ["x"], "title": "",
        });
        assert_eq!(strings(&value), ["Ada L", "for you", "boost count 4"]);
        assert_eq!(strings(&json!("a title")), ["a title"]);
        assert!(strings(&json!(true)).is_empty());
        assert!(has_text(&value));
        assert!(!has_text(&json!({"chat": {"text": "x"}, "title": "y", "text": 1})));
    }

    #[test]
    fn rich_text_returns_one_line_per_block() {
        let message = json!({"blocks": [
            {"type": "heading", "size": 1, "text": "Title"},
            {"type": "paragraph", "text": ["one ", {"type": "bold", "text": {"type": "url", "text": "two", "url": "https://x"}}, "!"]},
            {"type": "list", "items": [{"label": "1.", "blocks": [{"type": "paragraph", "text": "first"}]}]},
            {"type": "anchor", "name": "a"},
            {"type": "math", "expression": "x^2"},
            {"type": "table", "cells": [[{"text": "a"}, {"text": "b"}]], "caption": {"text": "tbl", "credit": "me"}},
        ]});
        assert_eq!(rich_text(&message), "Title\none two (https://x)!\n1.\nfirst\nx^2\na\nb\ntbl\nme");
    }
}
