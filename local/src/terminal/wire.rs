//! Requests and events between a terminal and the program: JSON, an [`Event`] a line.

use annals_core::message::{Part, UiMessage};
use reqwest::Response;
use serde::{Deserialize, Serialize};

/// Lines of a streamed answer.
pub(super) struct Lines {
    answer: Response,
    received: Vec<u8>,
}

impl Lines {
    pub(super) fn of(answer: Response) -> Self {
        Self { answer, received: Vec::new() }
    }

    /// Returns the next line with its end, or `None` after the last. Cancel-safe.
    pub(super) async fn next(&mut self) -> reqwest::Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.received.drain(..=end).collect()));
            }
            let Some(chunk) = self.answer.chunk().await? else { return Ok(None) };
            self.received.extend_from_slice(&chunk);
        }
    }
}

/// `POST /say`
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Say {
    /// Under one id a message is stored once.
    pub(super) id: String,
    /// The person at the terminal.
    pub(super) user: String,
    pub(super) text: String,
}

/// A piece of an answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum Event {
    /// A run makes the reply, from its beginning.
    Begin { message_id: String },
    /// More of its text.
    Text { delta: String },
    /// More of its reasoning.
    Reasoning { delta: String },
    /// The answer broke off: everything since the last parts is void.
    Void,
    /// The whole reply so far.
    Parts { parts: Vec<Part> },
    /// Confirmation of a command.
    #[serde(rename = "told")]
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
