//! Checks the input of a call against the tool's schema before anybody is asked for approval or another machine is called:
//! types, required properties, unknown properties, choices.
//!
//! The tool itself checks the rest. So no complete JSON Schema validator is needed, which would be larger than the rest of
//! the agent.

use serde_json::{Map, Value};

/// Maximum depth to which a schema is followed. `$ref` is not followed, so no schema refers to itself.
const MAX_DEPTH: usize = 16;

/// Returns the first problem of `input` by `schema`, in words for the model; `None` if there is none.
pub(crate) fn problem(schema: &Value, input: &Value) -> Option<String> {
    check(schema, input, "the input", 0)
}

fn check(schema: &Value, value: &Value, place: &str, depth: usize) -> Option<String> {
    let schema = schema.as_object().filter(|_| depth < MAX_DEPTH)?;
    if let Some(wanted) = wrong_type(schema, value) {
        return Some(format!("{place} must be {wanted}"));
    }
    if let Some(Value::Array(choices)) = schema.get("enum")
        && !choices.contains(value)
    {
        let choices: Vec<String> = choices.iter().take(20).map(ToString::to_string).collect();
        return Some(format!("{place} must be one of {}", choices.join(", ")));
    }
    match value {
        Value::Object(fields) => check_object(schema, fields, place, depth),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(at, item)| check(schema.get("items")?, item, &format!("{place}[{at}]"), depth + 1)),
        _ => None,
    }
}

fn check_object(
    schema: &Map<String, Value>,
    fields: &Map<String, Value>,
    place: &str,
    depth: usize,
) -> Option<String> {
    let required = schema.get("required").and_then(Value::as_array);
    let mut required = required.into_iter().flatten().filter_map(Value::as_str);
    if let Some(missing) = required.find(|name| !fields.contains_key(*name)) {
        return Some(format!("{place} has no {missing:?}, which it must have"));
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    fields.iter().find_map(|(name, value)| {
        match (properties.and_then(|properties| properties.get(name)), schema.get("additionalProperties")) {
            (Some(schema), _) => check(schema, value, &format!("{name:?} of {place}"), depth + 1),
            (None, Some(Value::Bool(false))) if !schema.contains_key("patternProperties") => {
                Some(format!("{place} has {name:?}, which is not known"))
            }
            _ => None,
        }
    })
}

/// Returns the types that `type` allows if `value` is of another type.
fn wrong_type(schema: &Map<String, Value>, value: &Value) -> Option<String> {
    let types: Vec<&str> = match schema.get("type")? {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0),
        _ => true,
    };
    (!types.is_empty() && !types.iter().any(|name| is(name))).then(|| types.join(" or "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_problem_is_named_and_unknown_keywords_are_left_to_the_tool() {
        let schema = json!({
            "type": "object", "required": ["id"], "additionalProperties": false,
            "properties": {
                "id": {"type": "string", "pattern": "^[a-z]+$"}, "n": {"type": ["integer", "null"]},
                "how": {"enum": ["fast", "slow"]},
                "list": {"type": "array", "items": {"type": "object", "required": ["x"]}},
            },
        });
        let check = |input: Value, wanted: Option<&str>| {
            assert_eq!(problem(&schema, &input).as_deref(), wanted, "{input}");
        };
        check(json!({"id": "a", "n": 2.0, "how": "slow", "list": [{"x": 1}]}), None);
        check(json!({"id": "NOT BY THE PATTERN", "n": null}), None);
        check(json!("a"), Some("the input must be object"));
        check(json!({}), Some("the input has no \"id\", which it must have"));
        check(json!({"id": 5}), Some("\"id\" of the input must be string"));
        check(json!({"id": "a", "n": 1.5}), Some("\"n\" of the input must be integer or null"));
        check(
            json!({"id": "a", "how": "so"}),
            Some("\"how\" of the input must be one of \"fast\", \"slow\""),
        );
        check(json!({"id": "a", "x": 1}), Some("the input has \"x\", which is not known"));
        check(
            json!({"id": "a", "list": [{"x": 1}, {}]}),
            Some("\"list\" of the input[1] has no \"x\", which it must have"),
        );
    }

    #[test]
    fn an_invalid_schema_refuses_nothing() {
        for schema in
            [json!(null), json!(true), json!({}), json!({"type": 5, "required": "x", "properties": []})]
        {
            assert_eq!(problem(&schema, &json!({"a": 1})), None);
        }
    }
}
