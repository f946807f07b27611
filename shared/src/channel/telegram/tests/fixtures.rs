//! Whole payloads: our own, with what each becomes, and the shared ones where they are at hand.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::*;

fn read(folder: &Path) -> Vec<(String, Value)> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
    };
    files.iter().filter(|path| path.extension().is_some_and(|end| end == "json")).map(read).collect()
}

/// `tests/fixtures/telegram`: payloads made for this project, in the shapes of the Bot API.
pub(super) fn own() -> &'static [(String, Value)] {
    static OWN: OnceLock<Vec<(String, Value)>> = OnceLock::new();
    OWN.get_or_init(|| read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/telegram")))
}

fn summary(incoming: &Incoming) -> String {
    let head = match incoming {
        Incoming::Message(_) => "message".to_owned(),
        Incoming::Command { command, .. } => format!("{command:?}"),
        Incoming::Migration { old, new, .. } => format!("migration {old} > {new}"),
        Incoming::Membership { chat, can_write, at } => return format!("membership {chat} {can_write} {at}"),
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
    let found: Vec<String> = own()
        .iter()
        .map(|(name, update)| {
            let found = parse(update, &bot(), &settings()).unwrap();
            format!("== {name}\n{}", found.iter().map(summary).collect::<Vec<_>>().join("\n"))
        })
        .collect();
    let wanted: Vec<&str> = include_str!("golden.txt").split_inclusive("\n\n").collect();
    for (found, wanted) in found.iter().zip(&wanted) {
        assert_eq!(found.trim_end(), wanted.trim_end());
    }
    assert_eq!(found.len(), wanted.len());
}

/// Where a folder beside the project keeps payloads of real bots and of other libraries' tests; not part of this repository.
fn shared() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures/telegram");
    if folder.is_dir() { read(&folder) } else { Vec::new() }
}

#[test]
fn no_text_of_the_shared_payloads_is_lost() {
    for (name, update) in shared() {
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
