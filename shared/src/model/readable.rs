//! A message as a model is sent it: one text, also where it was said in pictures, files or tools.

use crate::markup;
use crate::media;
use crate::message::{Part, PartView, Role, UiMessage};
use crate::record::Kind;

/// Returns what is said, and what stands beside it by name; nothing is escaped yet.
pub(super) fn text(message: &UiMessage) -> String {
    // What the user was told beside the model's words, the model would take for its own.
    let is_said = |part: &&Part| message.role != Role::Assistant || !media::is_note(part);
    let text = message.parts.iter().filter(is_said).filter_map(line).collect::<Vec<_>>().join("\n");
    let text = if text.trim().is_empty() && message.role == Role::User {
        // Providers refuse a message that says nothing.
        "[a message without text]".to_owned()
    } else {
        text
    };
    markup::forwarded(message).into_iter().chain([text]).collect::<Vec<_>>().join("\n")
}

/// Whether it stands for what was said, and was said by nobody.
pub(super) fn is_summary(message: &UiMessage) -> bool {
    let kind = message.metadata.get("kind").and_then(serde_json::Value::as_str);
    message.role == Role::Assistant && kind == Some(Kind::Summary.as_str())
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
