//! The emulator's refusals.

use serde_json::Value;

/// A refusal: status, description, parameters.
pub(super) struct Refusal(pub(super) u16, pub(super) &'static str, pub(super) Value);

pub(super) fn refuse<T>(status: u16, description: &'static str) -> Result<T, Refusal> {
    Err(Refusal(status, description, Value::Null))
}
