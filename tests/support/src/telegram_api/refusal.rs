//! The emulator's refusals.

use serde_json::{Value, json};

use crate::emulator::Answer;

/// A refusal: status, description, parameters.
pub(super) struct Refusal(pub(super) u16, pub(super) &'static str, pub(super) Value);

pub(super) fn refuse<T>(status: u16, description: &'static str) -> Result<T, Refusal> {
    Err(Refusal(status, description, Value::Null))
}

/// The refusal of a call that may come again after this number of seconds.
pub(super) fn too_many(retry_after: u64) -> Refusal {
    let parameters = json!({ "retry_after": retry_after });
    Refusal(429, "Too Many Requests: retry after some seconds", parameters)
}

impl From<Refusal> for Answer {
    fn from(Refusal(status, description, parameters): Refusal) -> Self {
        let mut answer = json!({"ok": false, "error_code": status, "description": description});
        if parameters != Value::Null {
            answer["parameters"] = parameters;
        }
        Self::json(status, &answer)
    }
}
