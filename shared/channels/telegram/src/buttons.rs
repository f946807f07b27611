//! Buttons of approval requests: the [`keyboard`] under a message, and the [`Keyboard`] of a pressed one.

use annals_channel::delivery::RequestedCall;
use annals_channel::json::JsonView;
use annals_core::approval::Button;
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

impl Keyboard {
    /// Returns the keyboard of `button`, which was pressed by the callback query `query`. Returns `None` if the query has no
    /// id, or names no message.
    pub fn of(query: &Value, button: &Button) -> Option<Self> {
        let query = JsonView::of(query)?;
        let message = query.object("message")?;
        let under = Posted {
            chat_id: message.object("chat")?.int("id")?,
            message_id: message.int("message_id")?,
            business_connection_id: message.text("business_connection_id").map(str::to_owned),
        };
        let rows = message.object("reply_markup").and_then(|markup| markup.list("inline_keyboard"));
        let is_other = |row: &&Value| {
            let mut data =
                row.as_array().into_iter().flatten().filter_map(|of| of.get("callback_data")?.as_str());
            !data.any(|data| Button::parse(data).is_some_and(|other| other.id == button.id))
        };
        let left: Vec<&Value> = rows.unwrap_or_default().iter().filter(is_other).collect();
        let left = json!({ "inline_keyboard": left });
        Some(Self { callback_id: query.text("id")?.to_owned(), under, left })
    }
}
