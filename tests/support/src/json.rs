//! JSON for the tests of parsers: with other fields, with random values, random altogether.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;

/// Returns the object `base` with `fields` on top.
#[must_use]
pub fn with(mut base: Value, fields: Value) -> Value {
    if let (Value::Object(base), Value::Object(fields)) = (&mut base, fields) {
        base.extend(fields);
    }
    base
}

/// Generates JSON. Objects have fields of these `names`, separated by white space: those that a parser reads, so that it
/// gets past its first branches. Strings are random, or one of `words`, separated by `|`.
pub fn any_json(names: &'static str, words: &'static str) -> impl Strategy<Value = Value> {
    let names: Vec<&str> = names.split_whitespace().collect();
    let words: Vec<&str> = words.split('|').collect();
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0..20_i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        select(words).prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        let field = (select(names.clone()).prop_map(str::to_owned), inner.clone());
        prop_oneof![
            1 => prop::collection::vec(inner, 0..4).prop_map(Value::from),
            4 => prop::collection::vec(field, 0..8).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Generates one of `payloads`, changed at one place to one of `values`.
pub fn mutated(
    payloads: &'static [(String, Value)],
    values: impl Strategy<Value = Value>,
) -> impl Strategy<Value = Value> {
    let path = prop::collection::vec(0..12_usize, 1..6);
    (any::<Index>(), path, values).prop_map(move |(pick, path, value)| {
        let mut payload = pick.get(payloads).1.clone();
        put(&mut payload, &path, value);
        payload
    })
}

/// Puts `value` at `path`; indices wrap around at the number of fields or items.
fn put(into: &mut Value, path: &[usize], value: Value) {
    let next = match (path, &mut *into) {
        ([step, ..], Value::Object(fields)) if !fields.is_empty() => {
            let at = step % fields.len();
            fields.values_mut().nth(at)
        }
        ([step, ..], Value::Array(items)) if !items.is_empty() => {
            let at = step % items.len();
            items.get_mut(at)
        }
        _ => None,
    };
    match next {
        Some(next) => put(next, &path[1..], value),
        None => *into = value,
    }
}
