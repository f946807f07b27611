//! Fields of an exported message.

use serde_json::{Map, Value};

/// Id below which the Bot API numbers supergroups and channels: this, minus the bare id.
pub(super) const CHANNELS: i64 = -1_000_000_000_000;

pub(super) fn int(message: &Map<String, Value>, field: &str) -> Option<i64> {
    message.get(field)?.as_i64()
}

pub(super) fn text_of<'a>(message: &'a Map<String, Value>, field: &str) -> Option<&'a str> {
    message.get(field)?.as_str()
}

/// Returns seconds since 1970, which an export writes as a string.
pub(super) fn seconds(message: &Map<String, Value>, field: &str) -> Option<i64> {
    let value = message.get(field)?;
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

pub(super) fn user(id: &str) -> Option<i64> {
    number(id, "user")
}

pub(super) fn number(id: &str, prefix: &str) -> Option<i64> {
    id.strip_prefix(prefix)?.parse().ok()
}
