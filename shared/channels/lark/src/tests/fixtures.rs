//! Whole payloads: those made for this project, with what each becomes, and those recorded elsewhere.

use annals_channel::testing::summaries;
use annals_test_support::fixtures::{check_snapshot, payloads};

use super::*;
use crate::listed::from_listed;

/// `tests/fixtures/lark`: payloads made for this project, in the shapes of the event subscription.
#[test]
fn each_of_our_payloads_becomes_what_it_should() {
    check_snapshot("payloads", &summaries(&payloads("lark"), parsed));
}

#[test]
fn no_text_of_the_recorded_payloads_is_lost() {
    for (name, payload) in payloads("lark/recorded") {
        let found = parsed(&payload, &settings()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let message = &payload["event"]["message"];
        if message.is_object() {
            let draft = draft_of(&found[0]).unwrap_or_else(|| panic!("{name}: {found:?}"));
            assert!(draft.chat.to_string().starts_with(&expected_key(message)), "{name}: {}", draft.chat);
            assert_eq!(draft.message_id.as_str(), message["message_id"], "{name}");
            says_all(&name, draft, message["content"].as_str().unwrap(), &message["mentions"]);
        } else {
            assert!(draft_of(&found[0]).is_none(), "{name}: {found:?}");
        }
        for item in payload["data"]["items"].as_array().into_iter().flatten() {
            let beside = group(with(
                mentioning("@_user_1"),
                json!({"message_id": "om_9", "chat_id": item["chat_id"], "thread_id": item["thread_id"]}),
            ));
            let draft = from_listed(item, &draft(beside), &bot());
            let draft = draft.unwrap_or_else(|| panic!("{name}: {item}"));
            assert_eq!(draft.chat.to_string(), expected_key(item), "{name}");
            says_all(&name, &draft, item["body"]["content"].as_str().unwrap(), &item["mentions"]);
        }
    }
}

fn expected_key(message: &Value) -> String {
    match (message["chat_type"].as_str(), message["thread_id"].as_str()) {
        (Some("p2p"), _) | (_, None) => format!("lark:chat:{}", message["chat_id"].as_str().unwrap()),
        (_, Some(thread)) => format!("lark:chat:{}:thread:{thread}", message["chat_id"].as_str().unwrap()),
    }
}

/// Checks that every readable string of `content` is in the draft's parts.
fn says_all(name: &str, draft: &Draft, content: &str, mentions: &Value) {
    let parsed = serde_json::from_str(content).unwrap_or_else(|_| json!({ "text": content }));
    for text in texts(&parsed) {
        let mut text = text.replace("@_all", "@所有人");
        let shown = shown(draft).replace("@all", "@所有人");
        for mention in mentions.as_array().into_iter().flatten().rev() {
            let (key, name) = (mention["key"].as_str().unwrap(), mention["name"].as_str().unwrap());
            text = text.replace(key, &format!("@{name}"));
        }
        assert!(shown.contains(text.trim()), "{name}: {text:?} is not in {shown:?}");
    }
}

fn texts(value: &Value) -> Vec<&str> {
    const TEXTS: &[&str] = &["text", "title", "topic", "summary", "file_name", "name", "divider_text"];
    match value {
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| !name.starts_with("i18n"))
            .flat_map(|(name, field)| match field {
                Value::String(text) if TEXTS.contains(&name.as_str()) => vec![text.as_str()],
                Value::Array(items) if matches!(name.as_str(), "options" | "from_user" | "to_chatters") => {
                    items.iter().filter_map(Value::as_str).collect()
                }
                _ => texts(field),
            })
            .collect(),
        _ => Vec::new(),
    }
}
