//! Pieces of an answer, as the screen shows them: [`Event`].

use annals_agent::is_failure_text;
use annals_core::message::{Part, UiMessage};
use annals_core::record::Kind;

/// A piece of an answer.
#[derive(Debug)]
pub(super) enum Event {
    /// A run makes the reply, from its beginning.
    Begin { message_id: String },
    /// The text at this place among its texts that are not blank, as far as it is made.
    Text { at: usize, text: String },
    /// More of its reasoning.
    Reasoning,
    /// The whole reply so far.
    Parts { parts: Vec<Part> },
    /// Confirmation of a command.
    Confirmed { text: String },
    /// The stored reply, as listed. Nothing follows.
    Done { message: UiMessage, failed: bool },
    /// The chat was forgotten, so no reply will be made. Nothing follows.
    Forgotten,
    /// There is no reply to show, for this reason. Nothing follows.
    Broken { text: String },
    /// No news; keeps the connection alive.
    Still,
}

impl Event {
    /// Returns the end of an answer whose stored reply is `message`.
    pub(super) fn done(message: UiMessage) -> Self {
        let is_notice = message.metadata.kind() == Some(Kind::Notice);
        Self::Done { failed: is_notice && is_failure_text(&message), message }
    }
}
