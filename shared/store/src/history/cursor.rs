//! Cursors: places in a history or a list, for readers opaque text.
//!
//! ```json
//! {"c": "telegram:chat:42", "k": "1763765920000#00000000000000000007"}
//! ```
//!
//! The text is this JSON in Base64 for URLs.

use annals_core::chat_key::ChatKey;
use annals_core::record::Record;
use annals_core::sort_key::SortKey;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The start or end of a page of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    #[serde(rename = "c")]
    pub(super) chat: ChatKey,
    #[serde(rename = "k")]
    pub(super) key: SortKey,
}

/// A text that is not a cursor of this API, or not one for this chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor that this route has returned")]
pub struct CursorError;

impl Cursor {
    /// Encodes it as the text that readers get.
    pub fn encode(&self) -> String {
        encode(self)
    }

    /// Decodes the text that readers send back.
    pub fn decode(text: &str) -> Result<Self, CursorError> {
        decode(text)
    }

    /// Returns the place of `key` in `chat`.
    pub fn at(chat: &ChatKey, key: &SortKey) -> Self {
        Self { chat: chat.clone(), key: key.clone() }
    }

    pub(super) fn of(record: &Record) -> Self {
        Self::at(&record.chat, &record.key)
    }
}

pub(super) fn encode<T: Serialize>(cursor: &T) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(cursor).unwrap_or_default())
}

pub(super) fn decode<T: DeserializeOwned>(text: &str) -> Result<T, CursorError> {
    let json = URL_SAFE_NO_PAD.decode(text).map_err(|_| CursorError)?;
    serde_json::from_slice(&json).map_err(|_| CursorError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_anything_else_is_refused() {
        let cursor = Cursor {
            chat: ChatKey::telegram(42, None),
            key: "0000000000001#00000000000000000007".parse().unwrap(),
        };
        assert_eq!(Cursor::decode(&cursor.encode()), Ok(cursor));
        for bad in ["", "x", "!!!", "e30", "bnVsbA"] {
            assert_eq!(Cursor::decode(bad), Err(CursorError), "{bad}");
        }
    }
}
