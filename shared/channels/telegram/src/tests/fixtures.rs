//! Whole payloads: those made for this project, with what each becomes, and those recorded elsewhere.

use std::sync::OnceLock;

use annals_test_support::fixtures::payloads;

use super::*;

/// `tests/fixtures/telegram`: payloads made for this project, in the shapes of the Bot API.
pub(super) fn own() -> &'static [(String, Value)] {
    static OWN: OnceLock<Vec<(String, Value)>> = OnceLock::new();
    OWN.get_or_init(|| payloads("telegram"))
}

fn summary(incoming: &Incoming) -> String {
    let head = match incoming {
        Incoming::Message(_) => "message".to_owned(),
        Incoming::Partial(_) => "partial".to_owned(),
        Incoming::Withdrawal { chat_id, message_id, at } => {
            return format!("withdrawal {chat_id} {message_id} {at}");
        }
        Incoming::Command { command, .. } => format!("{command:?}"),
        Incoming::Migration { old, new, .. } => format!("migration {old} > {new}"),
        Incoming::Membership { chat, can_write, at } => return format!("membership {chat} {can_write} {at}"),
        Incoming::Entered { chat, at } => return format!("entered {chat} {at}"),
        Incoming::Press(press) => return format!("press {} by {}", press.button.data(), press.by.user_id),
        Incoming::Ignored { kind, reason } => return format!("ignored {kind}: {reason}"),
    };
    let draft = draft_of(incoming).unwrap();
    let asks = if draft.asks { "asks" } else { "silent" };
    let form = draft.form_ts.filter(|ts| *ts != draft.ts).map(|ts| format!(" form {ts}")).unwrap_or_default();
    let album = draft.album.as_ref().map(|album| format!(" album {album}")).unwrap_or_default();
    format!(
        "{head} | {} of {} | {}{form}{album} | {} {asks}\n{}\n{}",
        draft.chat,
        draft.user_id,
        draft.key(),
        draft.kind,
        shown(draft),
        Value::Object(draft.metadata.clone()),
    )
}

#[test]
fn each_of_our_payloads_becomes_what_it_should() {
    let found = own().iter().map(|(name, update)| {
        let found = parse(update, &bot(), &settings()).unwrap();
        let lines: Vec<String> = found.iter().map(summary).collect();
        format!("== {name}\n{}", lines.join("\n").trim_end())
    });
    let found: Vec<String> = found.collect();
    // Without the crate's name in the file's.
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("payloads", found.join("\n\n"));
    });
}

#[test]
fn no_text_of_the_recorded_payloads_is_lost() {
    for (name, update) in payloads("telegram/recorded") {
        let found = parse(&update, &bot(), &settings()).unwrap_or_else(|error| panic!("{name}: {error}"));
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
                    let reply = draft.metadata.get("replyTo").cloned().unwrap_or_default();
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
