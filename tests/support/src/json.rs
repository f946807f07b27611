//! JSON for the tests of parsers.

use serde_json::Value;

/// Returns the object `base` with `fields` on top.
#[must_use]
pub fn with(mut base: Value, fields: Value) -> Value {
    if let (Value::Object(base), Value::Object(fields)) = (&mut base, fields) {
        base.extend(fields);
    }
    base
}
