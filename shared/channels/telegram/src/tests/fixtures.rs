//! Whole payloads: those made for this project, with what each becomes, and those recorded elsewhere.

use annals_channel::testing::summaries;
use annals_core::message::PartView;
use annals_test_support::fixtures::{check_snapshot, payloads};

use super::*;

/// `tests/fixtures/telegram`: payloads made for this project, in the shapes of the Bot API.
#[test]
fn each_of_our_payloads_becomes_what_it_should() {
    check_snapshot("payloads", &summaries(&payloads("telegram"), parsed));
}

#[test]
fn no_text_of_the_recorded_payloads_is_lost() {
    for (name, update) in payloads("telegram/recorded") {
        let found = parsed(&update, &settings()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let drafts: Vec<&Draft> = found.iter().filter_map(draft_of).collect();
        for (kind, message) in update.as_object().unwrap() {
            if kind.ends_with("_query") || !(kind.ends_with("message") || kind.ends_with("post")) {
                continue;
            }
            let chat = expected_key(message);
            for field in ["text", "caption"] {
                let Some(text) = message[field].as_str() else { continue };
                let is_kept = drafts.iter().any(|draft| draft.chat.to_string() == chat && says(draft, text));
                assert!(is_kept, "{name}: the {field} of {kind} under {chat}: {found:#?}");
            }
            // Deeper texts are in the parts, or where they belong to another message in the metadata.
            for text in texts(message) {
                let is_kept = drafts.iter().any(|draft| {
                    let reply = draft.metadata.fields().get("replyTo").cloned().unwrap_or_default();
                    shown(draft).contains(text) || texts(&reply).contains(&text)
                });
                assert!(is_kept, "{name}: {text:?} of {kind}: {found:#?}");
            }
        }
    }
}

fn expected_key(message: &Value) -> String {
    match (&message["is_topic_message"], &message["message_thread_id"]) {
        (Value::Bool(true), thread) => format!("telegram:chat:{}:topic:{thread}", message["chat"]["id"]),
        _ => format!("telegram:chat:{}", message["chat"]["id"]),
    }
}

fn says(draft: &Draft, text: &str) -> bool {
    draft.parts.iter().any(|part| part.view() == PartView::Text(text))
}

/// The strings of each `text`, `caption` and `quote`, at any depth.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| *name != "reply_markup")
            .flat_map(|(name, field)| match field {
                Value::String(text) if matches!(name.as_str(), "text" | "caption" | "quote") => {
                    vec![text.as_str()]
                }
                _ => texts(field),
            })
            .collect(),
        _ => Vec::new(),
    }
}
