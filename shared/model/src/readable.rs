//! A message as text for a model, including its files and tool results.

use annals_core::message::{Part, PartView, Role, UiMessage};
use annals_core::record::Kind;
use annals_core::{markup, media};

/// Returns a message as its model reads it: what it forwards or replies to, then its [`words`]; not escaped.
pub(super) fn text(message: &UiMessage) -> String {
    markup::lead_lines(message).chain([words(message)]).collect::<Vec<_>>().join("\n")
}

/// Returns the text of a message, with its files and tool results by name; not escaped.
pub fn words(message: &UiMessage) -> String {
    // The model would take a note to the user for its own words.
    let is_sent = |part: &&Part| message.role != Role::Assistant || !media::is_note(part);
    let text = message.parts.iter().filter(is_sent).filter_map(line).collect::<Vec<_>>().join("\n");
    if text.trim().is_empty() && message.role == Role::User {
        // Providers refuse an empty message.
        "[a message without text]".to_owned()
    } else {
        text
    }
}

pub(super) fn is_summary(message: &UiMessage) -> bool {
    message.role == Role::Assistant && message.metadata.kind() == Some(Kind::Summary)
}

/// Returns one part as text; `None` if it has none.
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
