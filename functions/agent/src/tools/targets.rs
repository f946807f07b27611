//! `chat_send`: texts for other chats, which are the direct chat of the person who asks, and those that an admin has named in
//! the settings of this one. `sending.rs` carries out its calls.

use annals_core::chat_settings::{DIRECT, SendApproval, SendTarget};
use annals_engine::settings::tools::CallApproval;
use annals_model::Tool;
use serde_json::{Value, json};

/// Name of the tool.
pub(crate) const SEND: &str = "chat_send";

/// The chats that the turns of a chat may send to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Targets {
    /// True if the person who asks may have a direct chat beside this one.
    pub(crate) has_direct: bool,
    pub(crate) named: Vec<SendTarget>,
}

impl Targets {
    pub(super) fn named(&self, input: &Value) -> Option<&SendTarget> {
        let to = input.get("to").and_then(Value::as_str)?;
        self.named.iter().find(|target| target.name.as_str() == to)
    }

    pub(crate) fn approval(&self, input: &Value) -> CallApproval {
        match self.named(input).map(|target| target.approval) {
            None | Some(SendApproval::None) => CallApproval::NotNeeded,
            Some(SendApproval::Askers) => CallApproval::ByAskers,
            Some(SendApproval::Admins) => CallApproval::ByAdmins,
        }
    }

    /// Returns the tool, if there is a chat to send to.
    pub(crate) fn tool(&self) -> Option<Tool> {
        let direct = self.has_direct.then_some(DIRECT);
        let names: Vec<&str> =
            direct.into_iter().chain(self.named.iter().map(|to| to.name.as_str())).collect();
        if names.is_empty() {
            return None;
        }
        let about_direct = if self.has_direct {
            " \"direct\" is the direct chat of the person who asks you, beside this one."
        } else {
            ""
        };
        Some(Tool::new(
            SEND,
            "Sends a text to another chat, as your message there. People there do not see this chat, so the text must be \
             complete. Use it only when you are asked to.",
            json!({
                "to": {"type": "string", "enum": names, "description": format!("the chat.{about_direct}")},
                "text": {"type": "string", "description": "what to say, word for word"},
            }),
            &["to", "text"],
        ))
    }
}
