//! Lenient access to a JSON object: [`JsonView`].

use annals_core::sort_key::{MAX_MESSAGE_ID_BYTES, Timestamp};
use serde_json::{Map, Value};

/// A JSON object of a platform. Each field is checked where it is used. A field of an unexpected type counts as absent,
/// so that later changes of the platform's format do no harm.
#[derive(Clone, Copy, Debug)]
pub struct JsonView<'a>(&'a Map<String, Value>);

impl<'a> JsonView<'a> {
    /// Returns a view of `value`, if it is an object.
    pub fn of(value: &'a Value) -> Option<Self> {
        value.as_object().map(Self)
    }

    /// Returns a view of `map`.
    pub fn of_map(map: &'a Map<String, Value>) -> Self {
        Self(map)
    }

    /// Returns the object itself.
    pub fn map(self) -> &'a Map<String, Value> {
        self.0
    }

    /// Returns the field, if it is not empty: `null`, `false` and `""` count as absent.
    pub fn raw(self, name: &str) -> Option<&'a Value> {
        let says = |value: &&Value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::String(text) => !text.is_empty(),
            _ => true,
        };
        self.0.get(name).filter(says)
    }

    /// Returns true if the field is not empty.
    pub fn has(self, name: &str) -> bool {
        self.raw(name).is_some()
    }

    /// Returns the field, if it is a non-empty string.
    pub fn text(self, name: &str) -> Option<&'a str> {
        self.raw(name)?.as_str()
    }

    /// Returns the field as written, if it is a non-empty string or a number.
    pub fn scalar(self, name: &str) -> Option<String> {
        match self.raw(name)? {
            Value::Number(number) => Some(number.to_string()),
            Value::String(text) => Some(text.clone()),
            _ => None,
        }
    }

    /// Returns the field, if it can be part of a key: a string of 1 to 256 bytes without control characters. Ids that are
    /// numbers are read by [`JsonView::scalar`].
    pub fn id(self, name: &str) -> Option<&'a str> {
        self.text(name).filter(|id| id.len() <= MAX_MESSAGE_ID_BYTES && !id.chars().any(char::is_control))
    }

    /// Returns true if the field is `true`.
    pub fn flag(self, name: &str) -> bool {
        self.raw(name) == Some(&Value::Bool(true))
    }

    /// Returns the field, if it is an object.
    pub fn object(self, name: &str) -> Option<Self> {
        Self::of(self.raw(name)?)
    }

    /// Returns the field, if it is a list.
    pub fn list(self, name: &str) -> Option<&'a [Value]> {
        self.raw(name)?.as_array().map(Vec::as_slice)
    }

    /// Returns the objects in the field, if it is a list.
    pub fn objects(self, name: &str) -> impl Iterator<Item = JsonView<'a>> {
        self.list(name).unwrap_or_default().iter().filter_map(JsonView::of)
    }

    /// Returns the fields, in their order.
    pub fn fields(self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the field, if it is a whole number or a string that contains one.
    pub fn int(self, name: &str) -> Option<i64> {
        match self.raw(name)? {
            Value::Number(number) => number.as_i64(),
            Value::String(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    /// Returns the field, if it is a time.
    ///
    /// Lark writes milliseconds as a string; some events have microseconds, and some senders write seconds. The number
    /// of digits distinguishes them from 1973 to the year 5138.
    pub fn time(self, name: &str) -> Option<Timestamp> {
        let number = self.int(name)?;
        match number {
            ..=0 => None,
            1..100_000_000_000 => Some(Timestamp::from_secs(number)),
            100_000_000_000..100_000_000_000_000 => Timestamp::from_millis(number),
            _ => Timestamp::from_millis(number / 1000),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_of_another_type_counts_as_absent() {
        let value = json!({
            "text": 5, "id": "-100123", "big": 1.5, "on": false, "none": null, "empty": "", "chat": [], "photo": {"x": 1},
            "list": [1, {"a": "b"}, null], "control": "a\u{1}", "long": "x".repeat(257),
        });
        let view = JsonView::of(&value).unwrap();
        assert_eq!((view.text("text"), view.scalar("text").as_deref()), (None, Some("5")));
        assert_eq!((view.int("id"), view.int("big")), (Some(-100_123), None));
        assert_eq!((view.id("control"), view.id("long")), (None, None));
        assert!(!view.has("on") && !view.has("none") && !view.has("empty") && view.has("photo"));
        assert!(view.object("chat").is_none());
        assert_eq!((view.objects("photo").count(), view.objects("list").count()), (0, 1));
    }
}
