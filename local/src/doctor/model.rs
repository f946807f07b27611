//! Checks that the model's endpoint answers and accepts the key. The model itself is not called, so the check is free.

use annals_channel::finding::Finding;
use std::time::Duration;

use annals_model::{HostedModel, ModelChoice, ModelSettings};
use secrecy::ExposeSecret;
use serde_json::Value;

use super::settings::Checked;
use crate::errors::{chain, shown_url};

/// Returns the address of the model of `settings`; `None` if it depends on the AWS region.
pub(super) fn address(settings: &ModelSettings) -> Option<String> {
    let ModelChoice::Hosted(model) = &settings.choice else { return None };
    settings.base_url.clone().or_else(|| model.base_url())
}

pub(super) async fn check(settings: &Checked<ModelSettings>) -> Vec<Finding> {
    let settings = match settings {
        Checked::Valid(settings) => settings,
        Checked::Unset => {
            return vec![Finding::none("model", "MODEL is not set here: the stack's parameters have it")];
        }
        Checked::Invalid => {
            return vec![Finding::none("model", "not looked at, before the settings are right")];
        }
    };
    let own = one("model", "MODEL", settings).await;
    match &settings.fallback {
        Some(fallback) => vec![own, one("fallback", "MODEL_FALLBACK", fallback).await],
        None => vec![own],
    }
}

/// Checks the model of the setting `variable`.
async fn one(check: &'static str, variable: &str, settings: &ModelSettings) -> Finding {
    let ModelChoice::Hosted(model) = &settings.choice else {
        return Finding::ok(check, "echo, which needs nothing");
    };
    let name = model.name();
    if model.may_use_aws() {
        // In AWS, to list models takes another permission than to ask one.
        let text = format!("{name} of {}: not asked; see that it is enabled in the region", model.provider());
        return Finding::ok(check, text);
    }
    let base = address(settings).unwrap_or_default();
    let answered = list(base.trim_end_matches('/'), settings, model).await;
    let base = shown_url(&base);
    let base = base.trim_end_matches('/');
    match answered {
        Err(error) => Finding::fault(
            check,
            format!("{base} cannot be reached ({}): check {variable}_BASE_URL", chain(&error)),
        ),
        Ok((status @ (401 | 403), _)) => Finding::fault(
            check,
            format!("{base} refused the request with {status}: check {variable}_API_KEY"),
        ),
        Ok((200, models)) => {
            let is_listed = models.iter().any(|id| id == name || id.split(':').next() == Some(name));
            let missing = format!(", but it does not list the model: check {variable}");
            let listed = if is_listed { "" } else { &missing };
            Finding::ok(check, format!("{name} at {base}, the key is taken{listed}"))
        }
        // Some servers do not list their models.
        Ok((404 | 405, _)) => {
            Finding::ok(check, format!("{base} answers; it has no list of models to check name and key by"))
        }
        Ok((status, _)) => {
            Finding::fault(check, format!("{base} answers {status}: see its provider's status page"))
        }
    }
}

/// Asks `GET /models`; returns the status, and the models' ids.
async fn list(
    base: &str,
    settings: &ModelSettings,
    model: &HostedModel,
) -> reqwest::Result<(u16, Vec<String>)> {
    let client = reqwest::Client::builder().timeout(Duration::from_secs(20)).build()?;
    let mut request = client.get(model.models_url(base));
    if let Some(key) = &settings.api_key {
        for (name, value) in model.headers(key.expose_secret()) {
            request = request.header(name, value);
        }
    }
    let answer = request.send().await.map_err(reqwest::Error::without_url)?;
    let status = answer.status().as_u16();
    let body: Value = answer.json().await.unwrap_or_default();
    Ok((status, model.listed_models(&body).into_iter().map(str::to_owned).collect()))
}
