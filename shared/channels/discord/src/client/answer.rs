//! Interprets answers of the REST API, or of a proxy in front of it.

use std::time::Duration;

use annals_channel::client::{Answer, CallError, described};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Wait for a rate limit that does not say how long.
const DEFAULT_WAIT: Duration = Duration::from_secs(1);

/// Codes of an interaction that cannot be answered any more: unknown webhook, unknown interaction, invalid webhook token; and
/// of a follow-up that is one too many.
///
/// Source: <https://discord.com/developers/docs/topics/opcodes-and-status-codes#json>.
const ENDED: [i64; 4] = [10_015, 10_062, 50_027, 40_094];
/// Code of a reply in a channel of which the bot may not read the history.
pub(super) const NO_HISTORY: i64 = 160_002;
/// Code of a refusal by Cloudflare in front of Discord, which may also be a page.
const NETWORK_ERROR: i64 = 40_333;
/// Code of an answer that somebody deleted.
const UNKNOWN_MESSAGE: i64 = 10_008;

/// `{"code": 50001, "message": "Missing Access", "retry_after": 0.725}`
#[derive(Default, Deserialize)]
struct Failure {
    #[serde(default)]
    code: i64,
    #[serde(default)]
    message: String,
    retry_after: Option<f64>,
}

/// Returns the `answer` to a request, which was made in the name of the bot if `is_of_bot`; or the error that it means.
pub(super) fn read<T: DeserializeOwned>(answer: &Answer, is_of_bot: bool) -> Result<T, CallError> {
    if answer.status < 300 {
        return answer.parse();
    }
    let Failure { code, message, retry_after } = serde_json::from_slice(&answer.body).unwrap_or_default();
    let is_of_cloudflare = code == NETWORK_ERROR || answer.body.starts_with(b"<");
    let description = described(&message, &[]);
    let told = || retry_after.and_then(|wait| Duration::try_from_secs_f64(wait).ok());
    Err(match answer.status {
        429 => {
            let wait = told().or_else(|| answer.seconds("retry-after")).unwrap_or(DEFAULT_WAIT);
            answer.limited(Some(wait))
        }
        status if status >= 500 || (status == 403 && is_of_cloudflare) => {
            answer.failed(format!("HTTP status {status}"))
        }
        403 if code != NO_HISTORY && (is_of_bot || !ENDED.contains(&code)) => {
            let reason =
                format!("Discord does not let the bot do this in the channel: {description} ({code})");
            CallError::Blocked { reason }
        }
        401 if is_of_bot => token_refused(answer.method, &format!("{description} ({code})")),
        status => {
            let reason = format!("Discord refused {} with {status}: {description} ({code})", answer.method);
            CallError::Refused { status, code, reason }
        }
    })
}

/// Returns the error of a request that was made with a bot's token that Discord refuses.
pub(super) fn token_refused(method: &str, why: &str) -> CallError {
    let reason = format!("Discord refused {method} with 401: {why}; check DISCORD_BOT_TOKEN");
    CallError::Token { code: 0, reason }
}

/// Returns true if the first answer to an interaction was deleted.
pub(super) fn is_deleted(error: &CallError) -> bool {
    matches!(error, CallError::Refused { status: 404, code: UNKNOWN_MESSAGE, .. })
}

/// Returns true if an interaction cannot be answered any more: its fifteen minutes are over, or it has no follow-ups left.
pub(super) fn is_ended(error: &CallError) -> bool {
    let CallError::Refused { status, code, .. } = error else { return false };
    !is_deleted(error) && (ENDED.contains(code) || matches!(status, 401 | 404))
}
