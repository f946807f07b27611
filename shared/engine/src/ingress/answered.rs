//! A confirmation of a command: [`Answered`].

use annals_core::message::{Role, UiMessage};
use annals_core::metadata::Notice;

/// Confirmation of a command.
pub(super) struct Answered {
    pub(super) text: String,
    /// The text that its record has, which differs for a secret.
    pub(super) recorded: String,
    pub(super) notice: Option<Notice>,
    /// The identity of another person's that it names.
    pub(super) about: Option<String>,
}

impl From<String> for Answered {
    fn from(text: String) -> Self {
        Self { recorded: text.clone(), text, notice: None, about: None }
    }
}

impl Answered {
    pub(super) fn message(&self) -> UiMessage {
        let mut message = UiMessage::text("", Role::Assistant, &self.recorded);
        if let Some(notice) = self.notice {
            message.metadata.set_notice(notice);
        }
        if let Some(identity) = &self.about {
            message.metadata.set_about(identity);
        }
        message
    }
}
