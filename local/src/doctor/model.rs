//! Checks that the model's endpoint answers and accepts the key. The model itself is not called, so the check is free.

use annals_channel::finding::{Finding, Words};
use std::time::Duration;

use annals_io::tls;
use annals_model::{HostedModel, ModelChoice, ModelSettings};
use secrecy::ExposeSecret;

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
            return vec![Finding::none("model", Words::ModelOfStack)];
        }
        Checked::Invalid => {
            return vec![Finding::none("model", Words::ModelNotChecked)];
        }
    };
    let own = one("model", "MODEL", settings).await;
    match &settings.fallback {
        Some(fallback) => vec![own, one("fallback", "MODEL_FALLBACK", fallback).await],
        None => vec![own],
    }
}

/// Checks the model of the setting `variable`.
async fn one(check: &'static str, variable: &'static str, settings: &ModelSettings) -> Finding {
    let ModelChoice::Hosted(model) = &settings.choice else {
        return Finding::ok(check, Words::ModelEcho);
    };
    let name = model.name();
    if model.may_use_aws() {
        // In AWS, to list models takes another permission than to ask one.
        let (name, provider) = (name.to_owned(), model.provider().to_owned());
        return Finding::ok(check, Words::ModelInAws { name, provider });
    }
    let base = address(settings).unwrap_or_default();
    let answered = list(base.trim_end_matches('/'), settings, model).await;
    let base = shown_url(&base);
    let base = base.trim_end_matches('/').to_owned();
    match answered {
        Err(error) => {
            let error = chain(&error);
            Finding::fault(check, Words::ModelUnreachable { base, error, variable })
        }
        Ok((status @ (401 | 403), _)) => {
            Finding::fault(check, Words::ModelRefused { base, status, variable })
        }
        Ok((200, models)) => {
            let is_listed = models.iter().any(|id| id == name || id.split(':').next() == Some(name));
            let name = name.to_owned();
            let words = if is_listed {
                Words::ModelOk { name, base }
            } else {
                Words::ModelUnlisted { name, base, variable }
            };
            Finding::ok(check, words)
        }
        // Some servers do not list their models.
        Ok((404 | 405, _)) => Finding::ok(check, Words::ModelUncheckable { base }),
        Ok((status, _)) => Finding::fault(check, Words::ModelFails { base, status }),
    }
}

/// Asks `GET /models`; returns the status, and the models' ids.
async fn list(
    base: &str,
    settings: &ModelSettings,
    model: &HostedModel,
) -> reqwest::Result<(u16, Vec<String>)> {
    let client = tls::client().timeout(Duration::from_secs(20)).build()?;
    let mut request = client.get(model.models_url(base));
    if let Some(key) = &settings.api_key {
        for (name, value) in model.headers(key.expose_secret()) {
            request = request.header(name, value);
        }
    }
    let answer = request.send().await.map_err(reqwest::Error::without_url)?;
    let status = answer.status().as_u16();
    Ok(model.listed_models(status, &answer.text().await.unwrap_or_default()))
}
