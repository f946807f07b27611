//! The application's settings: its address, which is checked, and its commands.

use axum::http::Method;
use serde_json::{Value, json};

use super::signed;
use super::store::error;
use crate::emulator::{Answer, Request};
use crate::http::client;

/// Returns the address for interactions that a call sets.
pub(super) fn endpoint_of(request: &Request) -> Option<String> {
    let is_edit = request.method == Method::PATCH && request.uri.path().ends_with("/applications/@me");
    request.json()["interactions_endpoint_url"].as_str().filter(|_| is_edit).map(str::to_owned)
}

/// Returns true if the program at `url` answers a signed ping, and refuses one with a wrong signature.
pub(super) async fn is_valid(url: &str) -> bool {
    let ping = json!({"id": "1", "type": 1, "token": "t", "application_id": "1", "version": 1}).to_string();
    let [signature, timestamp] = signed(ping.as_bytes());
    let good = post(url, &ping, &[signature.clone(), timestamp.clone()]).await;
    let forged = (signature.0, "00".repeat(64));
    let bad = post(url, &ping, &[forged, timestamp]).await;
    good.is_some_and(|(status, body)| status == 200 && body["type"] == 1)
        && bad.is_some_and(|(status, _)| status == 401)
}

async fn post(url: &str, body: &str, headers: &[(&str, String)]) -> Option<(u16, Value)> {
    let mut request = client().post(url).body(body.to_owned());
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let response = request.header("content-type", "application/json").send().await.ok()?;
    let status = response.status().as_u16();
    Some((status, response.json().await.unwrap_or_default()))
}

/// The answer to an address that Discord does not accept.
pub(super) fn invalid_endpoint() -> Answer {
    error(400, 50_035, "Invalid Form Body: the specified interactions endpoint URL could not be verified.")
}

/// Returns the reason why a command is not valid.
pub(super) fn invalid_command(command: &Value) -> Option<&'static str> {
    let (name, description) =
        (command["name"].as_str()?, command["description"].as_str().unwrap_or_default());
    let is_slash = command["type"].as_u64().unwrap_or(1) == 1;
    let is_name = |name: &str| {
        let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        (1..=32).contains(&name.len()) && name.chars().all(is_allowed)
    };
    let is_described = |text: &str| (1..=100).contains(&text.chars().count());
    if !is_slash {
        let is_plain = (1..=32).contains(&name.len()) && description.is_empty();
        return (!is_plain).then_some("a command of a menu has a name alone");
    }
    if !is_name(name) || !is_described(description) {
        return Some("a name or description is not valid");
    }
    let options = command["options"].as_array().cloned().unwrap_or_default();
    let text = |option: &Value, field: &str| option[field].as_str().unwrap_or_default().to_owned();
    if options.iter().any(|o| !is_name(&text(o, "name")) || !is_described(&text(o, "description"))) {
        return Some("an option's name or description is not valid");
    }
    let required: Vec<bool> = options.iter().map(|option| option["required"] == true).collect();
    (!required.is_sorted_by(|a, b| a >= b)).then_some("required options must come first")
}
