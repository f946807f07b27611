//! Interprets answers of the Open API, or of a proxy in front of it.

use std::time::Duration;

use annals_channel::client::{Answer, CallError, described};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::code::{self, Meaning};

/// `{"code": 230002, "msg": "The bot can not be outside the group.", "error": {…}}`
#[derive(Deserialize)]
struct Envelope {
    code: i64,
    #[serde(default)]
    msg: String,
}

/// Returns the whole `answer`, or the error that it means.
pub(super) fn read<T: DeserializeOwned>(answer: &Answer, secrets: &[&str]) -> Result<T, CallError> {
    let (method, status) = (answer.method, answer.status);
    let (code, msg) = match (answer.parse(), status) {
        (Ok(Envelope { code: 0, .. }), ..300) => return answer.parse(),
        // The page of a proxy.
        (Err(error), ..300) => return Err(error),
        (Ok(Envelope { code: 0, .. }) | Err(_), status) => (i64::from(status), String::new()),
        (Ok(Envelope { code, msg }), _) => (code, msg),
    };
    let meaning = match code::meaning(code) {
        Meaning::Refused if status == 429 => Meaning::TooFast,
        Meaning::Refused if status >= 500 => Meaning::Trouble,
        meaning => meaning,
    };
    // Without quotations of the message.
    let description = code::words(code).map_or_else(
        || {
            let msg = msg.split("ErrorValue").next().unwrap_or_default();
            described(msg.trim_end_matches(['\n', ' ', ';', ',']), secrets)
        },
        str::to_owned,
    );
    let reason = format!("Lark refused {method} with {code}: {description}{}", code::hint(code));
    Err(match meaning {
        Meaning::TooFast => {
            let wait = answer.seconds("x-ogw-ratelimit-reset");
            answer.limited(wait.map(|wait| wait.max(Duration::from_secs(1))))
        }
        Meaning::Trouble => answer.failed(format!("error on Lark's side ({code})")),
        Meaning::Blocked => {
            let reason = format!("Lark does not let the bot write to this chat: {description} ({code})");
            CallError::Blocked { reason }
        }
        Meaning::Token => CallError::Token { code, reason },
        Meaning::Refused => CallError::Refused { status, code, reason },
    })
}
