//! The schema of a tool's input in a form that every provider accepts: [`plain_object`].
//!
//! MCP allows any JSON Schema of an object. Providers refuse the whole request, and so every turn of every chat, if the root
//! of one tool's schema has more keywords than an object's: OpenAI refuses `oneOf`, `anyOf`, `allOf`, `enum` and `not`,
//! Anthropic (also on Bedrock) the first three. Below the root they accept all of them.
//!
//! So the root becomes one plain object that allows everything that the schema allows, and more. The server checks the rest.

use serde_json::{Map, Value, json};

/// Keywords that are removed from the root: those that providers refuse there, a reference, which is resolved, and the
/// dialect.
const TAKEN_OFF: [&str; 7] = ["allOf", "anyOf", "oneOf", "enum", "not", "$ref", "$schema"];

/// Maximum number of branches that are read, including branches of branches: a reference may name its own parent.
const MAX_BRANCHES: usize = 256;

/// Returns `given` as an object's schema that has the properties of all its branches, and no keyword at its root that a
/// provider refuses.
pub fn plain_object(given: &Map<String, Value>) -> Value {
    let mut left = MAX_BRANCHES;
    let Shape { properties, required } = shape(given, given, &mut left);
    let mut schema = given.clone();
    // Some servers write absent keywords as `null`.
    schema.retain(|name, value| !value.is_null() && !TAKEN_OFF.contains(&name.as_str()));
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), properties.into());
    if required.is_empty() {
        schema.remove("required");
    } else {
        schema.insert("required".into(), required.into());
    }
    if ["allOf", "anyOf", "oneOf", "$ref"].iter().any(|name| given.contains_key(*name)) {
        // It only counted for the properties of the root.
        schema.remove("additionalProperties");
    }
    Value::Object(schema)
}

/// The properties of an object, and the required ones.
#[derive(Default)]
struct Shape {
    properties: Map<String, Value>,
    required: Vec<String>,
}

impl Shape {
    /// Adds the properties of `other`.
    fn widen(&mut self, other: Map<String, Value>) {
        for (name, schema) in other {
            let own = self.properties.entry(name).or_insert_with(|| schema.clone());
            if *own != schema {
                *own = either(own.take(), schema);
            }
        }
    }

    fn require(&mut self, names: Vec<String>) {
        for name in names {
            if !self.required.contains(&name) {
                self.required.push(name);
            }
        }
    }
}

/// Returns the shape of `schema`, a part of `root`, with all that its branches add; at most `left` branches are read.
fn shape(root: &Map<String, Value>, schema: &Map<String, Value>, left: &mut usize) -> Shape {
    let properties = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let required = schema.get("required").and_then(Value::as_array);
    let required = required.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let mut whole = Shape { properties, required };
    let mut look = |branch: Option<&Map<String, Value>>| match (branch, left.checked_sub(1)) {
        (Some(branch), Some(others)) => {
            *left = others;
            shape(root, branch, left)
        }
        // Treated as a branch without requirements.
        _ => Shape::default(),
    };
    let mut branches = |name: &str| -> Vec<Shape> {
        let branches = schema.get(name).and_then(Value::as_array).into_iter().flatten();
        branches.map(|branch| look(branch.as_object())).collect()
    };
    let all_of = branches("allOf");
    let one_of = ["anyOf", "oneOf"].map(&mut branches);
    let referred = schema.get("$ref").and_then(Value::as_str).and_then(|to| referred(root, to));
    for branch in all_of.into_iter().chain([look(referred)]) {
        whole.widen(branch.properties);
        whole.require(branch.required);
    }
    for branches in one_of {
        let common = branches.first().map(|first| first.required.clone()).unwrap_or_default();
        let common = common.into_iter().filter(|name| branches.iter().all(|b| b.required.contains(name)));
        whole.require(common.collect());
        for branch in branches {
            whole.widen(branch.properties);
        }
    }
    whole
}

/// Returns the schema that `#/$defs/…` names in `root`.
fn referred<'a>(root: &'a Map<String, Value>, to: &str) -> Option<&'a Map<String, Value>> {
    let mut steps = to.strip_prefix("#/")?.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
    let first = root.get(&steps.next()?)?;
    steps.try_fold(first, |found, step| found.get(step))?.as_object()
}

/// Returns the schema of values that match one of the two.
fn either(one: Value, other: Value) -> Value {
    let mut choices = match one {
        Value::Object(mut one) if one.len() == 1 && one.get("anyOf").is_some_and(Value::is_array) => {
            one.remove("anyOf").and_then(|choices| choices.as_array().cloned()).unwrap_or_default()
        }
        one => vec![one],
    };
    if !choices.contains(&other) {
        choices.push(other);
    }
    json!({ "anyOf": choices })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(given: &Value, wanted: &Value) {
        assert_eq!(plain_object(given.as_object().unwrap()), *wanted, "{given}");
    }

    #[test]
    fn a_plain_object_is_unchanged_and_anything_else_becomes_one() {
        let given = json!({
            "type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}, "required": ["a"],
            "additionalProperties": false, "$defs": {"x": {"type": "string"}}, "description": "D",
        });
        check(&given, &given);
        let nothing = json!({"type": "object", "properties": {}});
        check(&json!({"$schema": "https://json-schema.org/draft/2020-12/schema"}), &nothing);
        check(&json!({"type": ["object", "null"], "properties": null, "required": null}), &nothing);
        check(&json!({"enum": [{}], "not": {"required": ["a"]}, "properties": []}), &nothing);
    }

    #[test]
    fn a_choice_at_the_root_becomes_one_object_with_all_properties() {
        let (text, number) = (json!({"type": "string"}), json!({"type": "number"}));
        // A choice of two, both among the properties already.
        let given = json!({
            "type": "object", "properties": {"project": text, "paths": text, "scopes": text}, "required": ["project"],
            "anyOf": [{"required": ["paths"]}, {"required": ["scopes"]}],
        });
        let properties = given["properties"].clone();
        check(&given, &json!({"type": "object", "properties": properties, "required": ["project"]}));
        // Each has a property of its own and a kind.
        let branch = |kind: &str, own: &str| {
            json!({"type": "object", "additionalProperties": false,
            "properties": {"kind": {"const": kind}, "name": text, own: number}, "required": ["kind", own]})
        };
        let branches = [branch("a", "x"), branch("b", "y"), branch("c", "x")];
        let kinds = json!({"anyOf": [{"const": "a"}, {"const": "b"}, {"const": "c"}]});
        let properties = json!({"kind": kinds, "name": text, "x": number, "y": number});
        let wanted = json!({"type": "object", "properties": properties, "required": ["kind"]});
        check(&json!({"type": "object", "oneOf": branches}), &wanted);
        check(&json!({"anyOf": branches, "additionalProperties": false}), &wanted);
        // The same by reference; the definitions stay for references below the root.
        let defs = json!({"A": branches[0], "B": branches[1], "C": branches[2]});
        let refer = |name: &str| json!({"$ref": format!("#/$defs/{name}")});
        let mut named = wanted.clone();
        named["$defs"] = defs.clone();
        check(&json!({"oneOf": [refer("A"), refer("B"), refer("C")], "$defs": defs}), &named);
    }

    #[test]
    fn many_schemas_that_refer_to_each_other_come_to_an_end() {
        let itself = vec![json!({"$ref": "#"}); 700];
        let given = json!({"properties": {"a": {}}, "anyOf": itself, "allOf": itself});
        check(&given, &json!({"type": "object", "properties": {"a": {}}}));
    }

    #[test]
    fn all_of_is_merged() {
        let (text, own) = (json!({"type": "string"}), json!({"properties": {"a": {"type": "string"}}}));
        let given = json!({
            "allOf": [own, {"properties": {"b": text}, "required": ["b"]}, {"anyOf": [{"required": ["c"]}]}],
            "required": ["a"],
        });
        let wanted =
            json!({"type": "object", "properties": {"a": text, "b": text}, "required": ["a", "b", "c"]});
        check(&given, &wanted);
        // A schema that contains itself comes to an end.
        let endless =
            json!({"allOf": [{"$ref": "#"}, {"$ref": "#/allOf/1"}, {"$ref": "#/none/0"}, 5], "anyOf": 7});
        check(&endless, &json!({"type": "object", "properties": {}}));
    }
}
