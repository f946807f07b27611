//! Buttons of approval requests: the [`rows`] under a message, and the press of one ([`Pressed`]).
//!
//! Source: <https://discord.com/developers/docs/components/reference#button>.

use annals_channel::delivery::RequestedCall;
use annals_core::approval::Button;
use serde_json::{Value, json};

/// Maximum number of rows under a message.
const MAX_ROWS: usize = 5;
/// Styles of buttons.
const GREEN: u8 = 3;
const RED: u8 = 4;

/// Returns one row of two buttons for each call to approve, at most five rows, or `None` if there is no such call. Further
/// calls are answered by commands.
///
/// `[{"type": 1, "components": [{"type": 2, "style": 3, "label": "✅ Approve", "custom_id": "y…"}, …]}, …]`
pub fn rows(asked: &[RequestedCall]) -> Option<Value> {
    let row = |asked: &RequestedCall| -> Value {
        let button = |approved: bool| {
            let style = if approved { GREEN } else { RED };
            json!({"type": 2, "style": style, "label": asked.label(approved), "custom_id": asked.button(approved).data()})
        };
        json!({"type": 1, "components": [button(true), button(false)]})
    };
    (!asked.is_empty()).then(|| asked.iter().take(MAX_ROWS).map(row).collect())
}

/// The message of a pressed button.
#[derive(Clone, Debug, PartialEq)]
pub struct Pressed {
    /// Its components without the row of this request.
    pub left: Value,
    /// Its text.
    pub content: String,
}

impl Pressed {
    /// Returns `message` without the row that contains `button`.
    pub(super) fn of(message: &Value, button: &Button) -> Self {
        let is_other = |row: &&Value| {
            let mut buttons = row["components"].as_array().into_iter().flatten();
            !buttons.any(|component| {
                let button_of_row = component["custom_id"].as_str().and_then(Button::parse);
                button_of_row.is_some_and(|other| other.id == button.id)
            })
        };
        let rows = message["components"].as_array().into_iter().flatten();
        let content = message["content"].as_str().unwrap_or_default();
        Self { left: rows.filter(is_other).cloned().collect(), content: content.to_owned() }
    }
}
