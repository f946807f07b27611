//! Schemas of MCP tools, in the form that every provider accepts.

use annals_agent::mcp::plain_object;
use serde_json::Value;

/// Checks that a schema becomes one of a plain object, and that such a one is not changed.
pub fn check(data: &[u8]) {
    let Ok(Value::Object(given)) = serde_json::from_slice::<Value>(data) else { return };
    let Value::Object(plain) = plain_object(&given) else { panic!("no object") };
    assert_eq!(plain["type"], "object");
    assert!(plain["properties"].is_object());
    for refused in ["allOf", "anyOf", "oneOf", "enum", "not", "$ref", "$schema"] {
        assert!(!plain.contains_key(refused), "{refused}");
    }
    assert_eq!(plain_object(&plain), Value::Object(plain));
}
