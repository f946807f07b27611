//! An occurrence of a schedule: [`Due`], and the [`ScheduleId`].

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::names::text_of;
use crate::sort_key::{MessageId, Timestamp};

/// Longest id, in bytes.
pub const MAX_ID_BYTES: usize = 64;

/// An occurrence of a schedule, in the metadata of its record and of the reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Due {
    pub id: ScheduleId,
    pub at: Timestamp,
    /// Id of the person's message that it is sent to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub to: String,
    /// True if others follow, by a pattern.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recurs: bool,
}

impl Due {
    /// Returns the id of its record: the same for each attempt.
    pub fn message_id(&self) -> Option<MessageId> {
        MessageId::new(format!("schedule/{}/{}", self.id.as_str(), self.at.as_millis() / 1000)).ok()
    }
}

/// Id of a schedule: 1 to 64 letters, digits, `-` and `_` of ASCII.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct ScheduleId(String);

impl ScheduleId {
    pub const RULE: &str = "must be 1 to 64 letters, digits, \"-\" and \"_\" of ASCII";

    /// Returns an id that comes from `text` alone: six hexadecimal digits.
    pub fn of(text: &str) -> Self {
        Self(hex::encode(&digest(&SHA256, text.as_bytes()).as_ref()[..3]))
    }
}
text_of!(ScheduleId);

impl TryFrom<String> for ScheduleId {
    type Error = &'static str;

    fn try_from(id: String) -> Result<Self, &'static str> {
        let is_valid = (1..=MAX_ID_BYTES).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if is_valid { Ok(Self(id)) } else { Err(Self::RULE) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_no_delimiter() {
        for invalid in ["", "a/b", "ä", &"a".repeat(65)] {
            assert!(ScheduleId::try_from(invalid.to_owned()).is_err(), "{invalid}");
        }
    }
}
