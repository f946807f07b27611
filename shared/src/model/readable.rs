//! A message as a model is sent it: one text, also where it was said in pictures, files or tools.

use super::SUMMARY_HEADING;
use crate::media;
use crate::message::{Part, PartView, Role, UiMessage};
use crate::record::Kind;

/// What is said, and what stands beside it by name; in a `group` with who says it.
pub(super) fn text(message: &UiMessage, group: bool) -> String {
    let metadata = |key: &str| message.metadata.get(key).and_then(serde_json::Value::as_str);
    // What the user was told beside the model's words, the model would take for its own.
    let is_said = |part: &&Part| message.role != Role::Assistant || !media::is_note(part);
    let mut text = message.parts.iter().filter(is_said).filter_map(line).collect::<Vec<_>>().join("\n");
    if text.trim().is_empty() && message.role == Role::User {
        // Providers refuse a message that says nothing.
        "[a message without text]".clone_into(&mut text);
    }
    match (message.role, metadata("senderName")) {
        _ if is_summary(message) => format!("{SUMMARY_HEADING}\n<summary>\n{text}\n</summary>\n"),
        (Role::User, Some(name)) if group => format!("{name}: {text}"),
        _ => text,
    }
}

/// Whether it stands for what was said, and was said by nobody.
pub(super) fn is_summary(message: &UiMessage) -> bool {
    let kind = message.metadata.get("kind").and_then(serde_json::Value::as_str);
    message.role == Role::Assistant && kind == Some(Kind::Summary.as_str())
}

/// What memory says, marked off from what the user says behind it.
pub(super) fn notes(notes: &str) -> String {
    format!("<notes>\n{notes}\n</notes>\n")
}

/// One part in words; `None` where it says nothing.
pub(super) fn line(part: &Part) -> Option<String> {
    match part.view() {
        PartView::Text(text) => Some(text.to_owned()),
        PartView::File { .. } => media::line(part),
        PartView::Tool { name, output: Some(output), .. } => Some(format!("[{name}: {output}]")),
        PartView::Tool { .. }
        | PartView::Reasoning(_)
        | PartView::Source { .. }
        | PartView::Data { .. }
        | PartView::StepStart
        | PartView::Unknown => None,
    }
}
