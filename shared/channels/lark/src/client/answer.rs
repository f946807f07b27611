//! Interprets answers of the Open API, or of a proxy in front of it.

use std::time::Duration;

use annals_channel::client::without_data;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::code::{self, Meaning};
use super::error::SendError;

/// Maximum length of a description. Lark's are one line; a longer one is the error page of a proxy.
const MAX_DESCRIPTION_CHARS: usize = 200;

/// An HTTP answer before its body is parsed.
pub(super) struct Answer<'a> {
    /// The method that was called.
    pub(super) method: &'static str,
    /// The HTTP status.
    pub(super) status: u16,
    /// The `x-ogw-ratelimit-reset` header, in seconds.
    pub(super) reset: Option<u64>,
    /// The body; JSON if it comes from Lark.
    pub(super) body: &'a [u8],
}

/// `{"code": 230002, "msg": "The bot can not be outside the group.", "error": {…}}`
#[derive(Deserialize)]
struct Envelope {
    code: i64,
    #[serde(default)]
    msg: String,
}

impl Answer<'_> {
    /// Returns the whole answer, or the error that it means. Replaces `secrets` in descriptions, since a proxy may echo
    /// the request.
    pub(super) fn read<T: DeserializeOwned>(&self, secrets: &[&str]) -> Result<T, SendError> {
        let method = self.method;
        let unreadable = |source| SendError::Unreadable { method, source: without_data(source) };
        let envelope = serde_json::from_slice(self.body);
        let (code, msg) = match (envelope, self.status) {
            (Ok(Envelope { code: 0, .. }), ..300) => {
                return serde_json::from_slice(self.body).map_err(unreadable);
            }
            // The page of a proxy.
            (Err(error), ..300) => return Err(unreadable(error)),
            (Ok(Envelope { code: 0, .. }) | Err(_), status) => (i64::from(status), String::new()),
            (Ok(Envelope { code, msg }), _) => (code, msg),
        };
        let meaning = match code::meaning(code) {
            Meaning::Refused if self.status == 429 => Meaning::TooFast,
            Meaning::Refused if self.status >= 500 => Meaning::Trouble,
            meaning => meaning,
        };
        let description = describe(code, &msg, secrets);
        Err(match meaning {
            Meaning::TooFast => {
                let retry_after = self.reset.map(|secs| Duration::from_secs(secs.max(1)));
                SendError::RateLimited { retry_after }
            }
            Meaning::Trouble => SendError::trouble(method, code),
            Meaning::Blocked => SendError::Blocked { code, description },
            Meaning::Token | Meaning::Refused => SendError::Refused { method, code, description },
        })
    }
}

/// Returns Lark's description without quotations of the message, and without secrets.
fn describe(code: i64, msg: &str, secrets: &[&str]) -> String {
    if let Some(words) = code::words(code) {
        return words.to_owned();
    }
    let msg = msg.split("ErrorValue").next().unwrap_or_default();
    let hidden = secrets.iter().filter(|secret| !secret.is_empty());
    let msg = hidden.fold(msg.to_owned(), |msg, secret| msg.replace(secret, "<secret>"));
    let msg: String =
        msg.trim_end_matches(['\n', ' ', ';', ',']).chars().take(MAX_DESCRIPTION_CHARS).collect();
    if msg.is_empty() { "no description".to_owned() } else { msg }
}
