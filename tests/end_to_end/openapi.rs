//! `openapi.json`: it lists the router's routes, and [`check`] compares every answer that a test receives with it.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use jsonschema::{Draft, Validator};
use serde_json::{Value, json};

static DOCUMENT: LazyLock<Value> = LazyLock::new(annals_http::openapi);
static VALIDATORS: LazyLock<Mutex<HashMap<String, std::sync::Arc<Validator>>>> =
    LazyLock::new(Mutex::default);

/// Panics if the document does not have this answer to `method path`. Skips paths that are not the API's, and
/// methods that a route does not have.
pub(crate) fn check(method: &str, path: &str, status: u16, content_type: &str, body: &Value) {
    let Some((template, operations)) = route(path) else { return };
    let Some(operation) = operations.get(method.to_lowercase()) else {
        assert!([403, 405].contains(&status), "{method} {path}: {status} of a route without this method");
        return;
    };
    // The local program's guard answers before the routes.
    if body["type"] == "urn:annals:problem:not-local" {
        return;
    }
    let what = format!("{method} {template} {status}");
    let response = &operation["responses"][status.to_string()];
    assert!(response.is_object(), "{what} is not in openapi.json");
    let content = &response["content"];
    let media_type = content_type.split(';').next().unwrap_or_default();
    if content.is_null() {
        assert_eq!((content_type, body), ("", &Value::Null), "{what}");
        return;
    }
    let schema = &content[media_type]["schema"];
    assert!(schema.is_object(), "{what}: {content_type} is not in openapi.json");
    if media_type != "application/x-ndjson" {
        let validator = validator(&format!("{what} {media_type}"), schema);
        let errors: Vec<String> =
            validator.iter_errors(body).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{what}: {errors:#?} in {body}");
    }
}

/// The route that `path` is one of: a template, whose parameters match one part each.
fn route(path: &str) -> Option<(&'static str, &'static Value)> {
    let parts: Vec<&str> = path.split('/').collect();
    let is_of = |template: &str| {
        let template: Vec<&str> = template.split('/').collect();
        template.len() == parts.len()
            && template.iter().zip(&parts).all(|(of, part)| of.starts_with('{') || of == part)
    };
    let paths = DOCUMENT["paths"].as_object()?;
    paths.iter().find(|(template, _)| is_of(template)).map(|(template, of)| (template.as_str(), of))
}

fn validator(name: &str, schema: &Value) -> std::sync::Arc<Validator> {
    let mut validators = VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner);
    let made = validators.entry(name.to_owned()).or_insert_with(|| {
        let schema = json!({"allOf": [schema], "components": DOCUMENT["components"]});
        std::sync::Arc::new(jsonschema::options().with_draft(Draft::Draft202012).build(&schema).unwrap())
    });
    std::sync::Arc::clone(made)
}

/// The methods of each route, by its path.
pub(crate) fn methods() -> impl Iterator<Item = (&'static str, Vec<String>)> {
    let paths = DOCUMENT["paths"].as_object().unwrap().iter();
    paths
        .map(|(path, of)| (path.as_str(), of.as_object().unwrap().keys().map(|m| m.to_uppercase()).collect()))
}

/// Fills in a path's parameters.
pub(crate) fn concrete(path: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { "x".to_owned() } else { part.to_owned() };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}
