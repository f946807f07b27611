//! Settings of one chat, which an admin gives it: [`ChatSettings`]. They hold from the next message or turn on.
//!
//! ```json
//! {"model": "openai:gpt-5-mini", "prompt": "Answer in one sentence.", "activation": "always", "replyQuiet": "5s",
//!  "sendsTo": [{"name": "team", "chat": "telegram:chat:-100123"}]}
//! ```
//!
//! They are an attribute of the chat's head, which each run reads with its claim and writes back with its notes. So they
//! are small.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::chat_key::ChatKey;
use crate::names::text_of;

/// Longest prompt of a chat, in bytes: a turn writes the head three times, and DynamoDB bills each kilobyte of it.
pub const MAX_PROMPT_BYTES: usize = 2048;

/// Maximum number of chats that a chat's agent may send to.
pub const MAX_TARGETS: usize = 8;

/// Longest ChatKey of a chat that another one's agent may send to, in bytes.
pub const MAX_TARGET_BYTES: usize = 256;

/// Maximum length of the name of such a chat.
pub const MAX_TARGET_NAME: usize = 32;

/// Name of the direct chat of the person who asks, which no other chat may have.
pub const DIRECT: &str = "direct";

/// Maximum quiet time. A run waits up to five times that long, and needs the rest of its time to answer.
pub const MAX_REPLY_QUIET: Duration = Duration::from_secs(10);

/// Settings of one chat. What is not set is as the settings of the program say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ChatSettings {
    /// Name of the model that answers, as in `MODEL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Text after the system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// In place of `GROUP_ACTIVATION`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation: Option<GroupActivation>,
    /// In place of `REPLY_QUIET`, if it is longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_quiet: Option<ReplyQuiet>,
    /// Chats that this one's agent may send texts to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sends_to: Vec<SendTarget>,
}

/// A chat that another one's agent may send texts to, with the tool `chat_send`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SendTarget {
    /// Name by which the model knows it.
    #[schema(value_type = String, pattern = "^[A-Za-z0-9_-]{1,32}$")]
    pub name: TargetName,
    /// Its ChatKey.
    #[schema(value_type = String)]
    pub chat: ChatKey,
    /// People who must approve each text first.
    #[serde(default)]
    pub approval: SendApproval,
}

/// Name of a chat to send to: 1 to 32 letters, digits, `-` and `_` of ASCII, and not [`DIRECT`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct TargetName(String);

text_of!(TargetName);

impl TryFrom<String> for TargetName {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, &'static str> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_valid =
            (1..=MAX_TARGET_NAME).contains(&name.len()) && name.bytes().all(is_name) && name != DIRECT;
        if is_valid {
            Ok(Self(name))
        } else {
            Err("must be 1 to 32 letters, digits, \"-\" and \"_\", and not \"direct\"")
        }
    }
}

/// People who must approve a text to another chat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum SendApproval {
    /// Those who ask for it, as with outside tools.
    #[default]
    Askers,
    /// One of `ADMINS`.
    Admins,
    /// Nobody.
    None,
}

impl ChatSettings {
    /// Returns the system prompt of the chat: that of the program, and the chat's own after it.
    pub fn system_prompt(&self, of_program: Option<&str>) -> Option<String> {
        let texts: Vec<&str> = of_program.into_iter().chain(self.prompt.as_deref()).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }
}

/// Messages of a group or channel that ask for an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GroupActivation {
    /// Messages that address the bot.
    #[default]
    Mention,
    /// All messages of people.
    Always,
}

/// Time without new messages after which a platform's chat is answered: at most [`MAX_REPLY_QUIET`]. Zero answers at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ReplyQuiet(Duration);

impl ReplyQuiet {
    /// Valid values, for messages.
    pub const RULE: &str = "must be a duration of at most 10s, such as 2s, 500ms or 0";

    pub fn duration(self) -> Duration {
        self.0
    }
}

impl TryFrom<String> for ReplyQuiet {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let duration = if text == "0" { Some(Duration::ZERO) } else { humantime::parse_duration(&text).ok() };
        duration.filter(|duration| *duration <= MAX_REPLY_QUIET).map(Self).ok_or(Self::RULE)
    }
}

impl From<ReplyQuiet> for String {
    fn from(quiet: ReplyQuiet) -> Self {
        if quiet.0.is_zero() { "0".into() } else { humantime::format_duration(quiet.0).to_string() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_stored_as_they_are_written_and_what_is_not_set_is_left_out() {
        let written = json!({
            "model": "openai:m", "prompt": "Be brief.", "activation": "always", "replyQuiet": "500ms",
            "sendsTo": [{"name": "team", "chat": "telegram:chat:-1", "approval": "admins"}],
        });
        let settings: ChatSettings = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&settings).unwrap(), written);
        assert_eq!(settings.reply_quiet.unwrap().duration(), Duration::from_millis(500));
        assert_eq!(serde_json::to_value(ChatSettings::default()).unwrap(), json!({}));
    }

    #[test]
    fn a_chat_to_send_to_has_a_name_of_its_own() {
        let of = |name: &str| {
            serde_json::from_value::<SendTarget>(json!({"name": name, "chat": "telegram:chat:-1"}))
        };
        assert_eq!(of("Team_1-a").unwrap().approval, SendApproval::Askers);
        for wrong in ["", "direct", "a b", "ä", &"a".repeat(33)] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_quiet_time_is_at_most_ten_seconds() {
        let of = |text: &str| ReplyQuiet::try_from(text.to_owned());
        assert_eq!(of("0").map(String::from), Ok("0".into()));
        assert_eq!(of("0s").map(String::from), Ok("0".into()));
        assert_eq!(of("2000ms").map(String::from), Ok("2s".into()));
        for wrong in ["", "2", "11s", "-1s", "hunter2"] {
            assert_eq!(of(wrong), Err(ReplyQuiet::RULE), "{wrong:?}");
        }
    }
}
