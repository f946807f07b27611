//! Finds the strings that a person could read in a structure without text of its own, such as a card: [`strings`].

use serde_json::{Map, Value};

/// Fields whose strings are shown to people.
const READABLE: &[&str] = &[
    "alt",
    "caption",
    "chat_name",
    "content",
    "default_value",
    "desc",
    "description",
    "file_name",
    "initial_date",
    "label",
    "options",
    "placeholder",
    "remark",
    "subject",
    "subtitle",
    "summary",
    "text",
    "title",
    "topic",
    "user_name",
];

/// Fields with actions or styles, not content.
const AROUND: &[&str] = &[
    "behaviors",
    "card_link",
    "config",
    "confirm",
    "extra_data",
    "icon",
    "multi_url",
    "style",
    "styles",
    "value",
];

/// Returns every readable string inside `value`, in order. Translations are used only if there is nothing else, and
/// then only the first one.
pub(super) fn strings(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(value, false, &mut found);
    if found.is_empty() {
        collect(value, true, &mut found);
    }
    found
}

/// Returns the [`strings`] of an object's fields.
pub(super) fn strings_of(fields: &Map<String, Value>) -> Vec<String> {
    let mut found = Vec::new();
    collect_fields(fields, false, &mut found);
    if found.is_empty() {
        collect_fields(fields, true, &mut found);
    }
    found
}

fn collect(value: &Value, translations: bool, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            for item in items {
                collect(item, translations, found);
            }
        }
        Value::Object(fields) => collect_fields(fields, translations, found),
        _ => {}
    }
}

fn collect_fields(fields: &Map<String, Value>, translations: bool, found: &mut Vec<String>) {
    for (name, field) in fields {
        let name = name.as_str();
        if AROUND.contains(&name) {
            continue;
        }
        if name.starts_with("i18n") {
            let first = field.as_object().and_then(|translations| translations.values().next());
            match first.filter(|_| translations) {
                Some(Value::String(text)) if !text.is_empty() => found.push(text.clone()),
                Some(first) => collect(first, translations, found),
                None => {}
            }
            continue;
        }
        match field {
            Value::String(text) if READABLE.contains(&name) && !text.is_empty() => found.push(text.clone()),
            Value::Array(items) if READABLE.contains(&name) && items.iter().all(Value::is_string) => {
                let texts = items.iter().filter_map(Value::as_str).filter(|text| !text.is_empty());
                found.extend(texts.map(str::to_owned));
            }
            Value::Array(_) | Value::Object(_) => collect(field, translations, found),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn strings_returns_texts_but_no_ids() {
        let card = json!({
            "schema": "2.0", "config": {"summary": {"content": "not this"}},
            "header": {"title": {"tag": "plain_text", "content": "Title", "i18n_content": {"zh_cn": "标题"}}},
            "body": {"elements": [
                {"tag": "markdown", "element_id": "m1", "content": "**bold** words"},
                {"tag": "button", "text": {"tag": "plain_text", "content": "Approve"}, "value": {"text": "not this"},
                 "behaviors": [{"type": "callback", "value": {"title": "nor this"}}]},
                {"tag": "select_static", "placeholder": {"tag": "plain_text", "content": "Choose"},
                 "options": [{"text": {"tag": "plain_text", "content": "One"}, "value": "1"}]},
            ]},
        });
        assert_eq!(strings(&card), ["Title", "**bold** words", "Approve", "Choose", "One"]);
        assert_eq!(strings(&json!({"i18n_text": {"en_us": "New", "zh_cn": "新"}})), ["New"]);
        assert_eq!(
            strings(&json!({"i18n_elements": {"zh_cn": [{"content": "新"}], "en_us": [{"content": "New"}]}})),
            ["新"]
        );
        assert_eq!(strings(&json!({"options": ["a", "", "b"], "ids": ["x"], "text": ""})), ["a", "b"]);
        assert!(strings(&json!("text")).is_empty());
    }
}
