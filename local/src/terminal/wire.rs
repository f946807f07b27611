//! What passes between the terminal and the program: JSON, an [`Event`] a line.

use annals_shared::message::{Part, UiMessage};
use serde::{Deserialize, Serialize};

/// `POST /say`
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Say {
    /// Under one id a message is said once.
    pub(super) id: String,
    pub(super) text: String,
}

/// A piece of what the program answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum Event {
    /// A reply is made, or is made anew from its beginning.
    Begin { message_id: String },
    /// Its text goes on.
    Text { delta: String },
    /// What the model thinks goes on.
    Reasoning { delta: String },
    /// The answer broke off: what came of it since the last parts is void.
    Void,
    /// The reply so far, whole.
    Parts { parts: Vec<Part> },
    /// What a command did.
    Told { text: String },
    /// What is stored, as listed. Nothing comes behind it.
    Done { message: UiMessage, failed: bool },
    /// The chat was forgotten meanwhile, so that nothing is made. Nothing comes behind it.
    Forgotten,
    /// Nothing new; the connection stands.
    Still,
}
