//! The emulator's refusals.

use serde_json::{Value, json};

/// A refusal: status, description, parameters.
pub(super) struct Refusal(pub(super) u16, pub(super) &'static str, pub(super) Value);

pub(super) fn refuse<T>(status: u16, description: &'static str) -> Result<T, Refusal> {
    Err(Refusal(status, description, Value::Null))
}

/// Refuses a call that may come again after this number of seconds.
pub(super) fn too_many<T>(retry_after: u64) -> Result<T, Refusal> {
    let parameters = json!({ "retry_after": retry_after });
    Err(Refusal(429, "Too Many Requests: retry after some seconds", parameters))
}
