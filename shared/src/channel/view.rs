//! A lenient look at a JSON object: [`View`].

use serde_json::{Map, Value};

use crate::sort_key::MAX_MESSAGE_ID_BYTES;

/// A JSON object of a platform's, each field looked at where it is used: one that is not what it should be is as good
/// as absent, so that what came later than this code harms nothing.
#[derive(Clone, Copy, Debug)]
pub(in crate::channel) struct View<'a>(&'a Map<String, Value>);

impl<'a> View<'a> {
    /// `value`, if it is an object.
    pub(in crate::channel) fn of(value: &'a Value) -> Option<Self> {
        value.as_object().map(Self)
    }

    /// `map`, looked at.
    pub(in crate::channel) fn of_map(map: &'a Map<String, Value>) -> Self {
        Self(map)
    }

    /// The object itself.
    pub(in crate::channel) fn map(self) -> &'a Map<String, Value> {
        self.0
    }

    /// The field, if it says anything: `null`, `false` and `""` are as good as absent.
    pub(in crate::channel) fn raw(self, name: &str) -> Option<&'a Value> {
        let says = |value: &&Value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::String(text) => !text.is_empty(),
            _ => true,
        };
        self.0.get(name).filter(says)
    }

    /// Whether the field says anything.
    pub(in crate::channel) fn has(self, name: &str) -> bool {
        self.raw(name).is_some()
    }

    /// The field, if it is a non-empty string.
    pub(in crate::channel) fn text(self, name: &str) -> Option<&'a str> {
        self.raw(name)?.as_str()
    }

    /// The field as written, if it is a non-empty string or a number.
    pub(in crate::channel) fn scalar(self, name: &str) -> Option<String> {
        match self.raw(name)? {
            Value::Number(number) => Some(number.to_string()),
            Value::String(text) => Some(text.clone()),
            _ => None,
        }
    }

    /// The field, if it can be part of a key: a string of 1 to 256 bytes without control characters.
    pub(in crate::channel) fn id(self, name: &str) -> Option<&'a str> {
        self.text(name).filter(|id| id.len() <= MAX_MESSAGE_ID_BYTES && !id.chars().any(char::is_control))
    }

    /// Whether the field is `true`.
    pub(in crate::channel) fn flag(self, name: &str) -> bool {
        self.raw(name) == Some(&Value::Bool(true))
    }

    /// The field, if it is an object.
    pub(in crate::channel) fn object(self, name: &str) -> Option<Self> {
        Self::of(self.raw(name)?)
    }

    /// The field, if it is a list.
    pub(in crate::channel) fn list(self, name: &str) -> Option<&'a [Value]> {
        self.raw(name)?.as_array().map(Vec::as_slice)
    }

    /// The objects of the field, if it is a list.
    pub(in crate::channel) fn objects(self, name: &str) -> impl Iterator<Item = View<'a>> {
        self.list(name).unwrap_or_default().iter().filter_map(View::of)
    }

    /// The fields, in their order.
    pub(in crate::channel) fn fields(self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The field, if it is a whole number, also one written as a string.
    pub(in crate::channel) fn int(self, name: &str) -> Option<i64> {
        match self.raw(name)? {
            Value::Number(number) => number.as_i64(),
            Value::String(digits) => digits.parse().ok(),
            _ => None,
        }
    }
}
