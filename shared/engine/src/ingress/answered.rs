//! A confirmation of a command: [`Answered`].

use annals_core::metadata::Notice;

/// Confirmation of a command, and the text that its record has, which differs for a secret.
pub(super) struct Answered {
    pub(super) text: String,
    pub(super) recorded: String,
    pub(super) notice: Option<Notice>,
}

impl From<String> for Answered {
    fn from(text: String) -> Self {
        Self { recorded: text.clone(), text, notice: None }
    }
}
