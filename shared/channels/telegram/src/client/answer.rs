//! Interprets answers of the Bot API, or of a proxy in front of it.

use std::time::Duration;

use annals_channel::client::{Answer, CallError, described};
use annals_core::chat_key::ChatKey;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Wait for a 429 that does not say how long, such as one from a proxy.
const DEFAULT_WAIT_SECS: u64 = 5;

/// `{"ok": false, "error_code": 400, "description": "…", "parameters": {…}}`
#[derive(Default, Deserialize)]
struct Failure {
    error_code: Option<u16>,
    description: Option<String>,
    parameters: Option<Parameters>,
}

#[derive(Default, Deserialize)]
struct Parameters {
    migrate_to_chat_id: Option<i64>,
    retry_after: Option<u64>,
}

/// `{"ok": true, "result": …}`
#[derive(Deserialize)]
struct Success<T> {
    result: T,
}

/// Returns the `result` of `answer`, or the error that it means.
pub(super) fn read<T: DeserializeOwned>(answer: &Answer, token: &str) -> Result<T, CallError> {
    let failure: Option<Failure> = serde_json::from_slice(&answer.body).ok();
    let error_code = failure.as_ref().and_then(|failure| failure.error_code);
    let status = if answer.status < 300 { error_code.unwrap_or(answer.status) } else { answer.status };
    if status < 300 {
        return answer.parse().map(|success: Success<T>| success.result);
    }
    let Failure { description, parameters, .. } = failure.unwrap_or_default();
    let Parameters { migrate_to_chat_id, retry_after } = parameters.unwrap_or_default();
    let description = described(&description.unwrap_or_default(), &[token]);
    Err(match (status, migrate_to_chat_id) {
        (400, Some(to)) => CallError::Moved { chat: ChatKey::telegram(to, None), chat_id: to.to_string() },
        // The bot was blocked, was removed, or may not write in the chat.
        (400 | 403, _) if status == 403 || is_barred(&description) => {
            CallError::Blocked { reason: description }
        }
        (429, _) => {
            let told = retry_after.map(Duration::from_secs).or_else(|| answer.seconds("retry-after"));
            let wait = told.unwrap_or(Duration::from_secs(DEFAULT_WAIT_SECS)).max(Duration::from_secs(1));
            answer.limited(Some(wait))
        }
        (500.., _) => answer.failed(format!("HTTP status {status}")),
        // The token is being changed, or is wrong until somebody corrects it.
        (401, _) => {
            let reason = format!(
                "Telegram refused {} with 401: {description} (check TELEGRAM_BOT_TOKEN)",
                answer.method
            );
            CallError::Token { code: 0, reason }
        }
        _ => {
            let hint = if status == 404 { " (check TELEGRAM_BOT_TOKEN)" } else { "" };
            let reason = format!("Telegram refused {} with {status}: {description}{hint}", answer.method);
            CallError::Refused { status, code: 0, reason }
        }
    })
}

/// Returns true if a 400 means that the bot may not write: the group mutes its members, the bot does not administer the channel,
/// or the topic is closed.
fn is_barred(description: &str) -> bool {
    const WORDS: [&str; 5] = [
        "not enough rights to send",
        "have no rights to send a message",
        "need administrator rights in the channel chat",
        "CHAT_RESTRICTED",
        "TOPIC_CLOSED",
    ];
    WORDS.iter().any(|words| description.contains(words))
}
