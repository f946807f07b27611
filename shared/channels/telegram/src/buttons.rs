//! Buttons of approval requests: the [`keyboard`] under a message, and the [`Keyboard`] of a pressed one.

use annals_channel::delivery::RequestedCall;
use serde_json::{Value, json};

use super::address::Posted;

/// Returns a keyboard with one row of two buttons per call to approve, or `None` if there is no such call:
///
/// `{"inline_keyboard": [[{"text": "✅ Approve", "callback_data": "y…"}, {"text": "❌ Deny", …}], …]}`.
pub fn keyboard(asked: &[RequestedCall]) -> Option<Value> {
    let row = |asked: &RequestedCall| -> Value {
        let button =
            |approved| json!({"text": asked.label(approved), "callback_data": asked.button(approved).data()});
        json!([button(true), button(false)])
    };
    (!asked.is_empty()).then(|| json!({"inline_keyboard": asked.iter().map(row).collect::<Vec<_>>()}))
}

/// The keyboard of a pressed button.
#[derive(Clone, Debug, PartialEq)]
pub struct Keyboard {
    /// Id for [`Client::answer_callback`](super::client::Client::answer_callback).
    pub callback_id: String,
    /// The message that has the button.
    pub under: Posted,
    /// The keyboard without the buttons of this request: `{"inline_keyboard": […]}`.
    pub left: Value,
}
