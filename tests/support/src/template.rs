//! `infra/template.yaml`, read.

use std::sync::LazyLock;

use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::{Value, json};

/// The template, with intrinsic functions in their long form: `{"Fn::GetAtt": ["Table", "Arn"]}`.
pub static TEMPLATE: LazyLock<Value> = LazyLock::new(|| {
    let [document] = &Yaml::load_from_str(include_str!("../../../infra/template.yaml")).unwrap()[..] else {
        panic!("not one document")
    };
    json_of(document)
});

/// The properties of the resource `name`.
pub fn properties(name: &str) -> &'static Value {
    let properties = &TEMPLATE["Resources"][name]["Properties"];
    assert!(properties.is_object(), "there is no {name}");
    properties
}

fn json_of(yaml: &Yaml<'_>) -> Value {
    match yaml {
        Yaml::Value(Scalar::String(text)) => json!(text),
        Yaml::Value(Scalar::Integer(number)) => json!(number),
        Yaml::Value(Scalar::FloatingPoint(number)) => json!(number.into_inner()),
        Yaml::Value(Scalar::Boolean(value)) => json!(value),
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Sequence(items) => items.iter().map(json_of).collect(),
        Yaml::Mapping(pairs) => pairs
            .iter()
            .map(|(name, of)| (name.as_str().expect("a name is a text").to_owned(), json_of(of)))
            .collect(),
        Yaml::Tagged(tag, of) => match (tag.suffix.as_str(), json_of(of)) {
            ("Ref", of) => json!({ "Ref": of }),
            ("GetAtt", Value::String(of)) => {
                let (name, attribute) = of.split_once('.').expect("resource.attribute");
                json!({ "Fn::GetAtt": [name, attribute] })
            }
            (function, of) => json!({ (format!("Fn::{function}")): of }),
        },
        Yaml::Representation(..) | Yaml::Alias(_) | Yaml::BadValue => panic!("unreadable: {yaml:?}"),
    }
}
