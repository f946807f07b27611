//! The model: whether its endpoint is there and takes the key. Nothing is asked of the model itself, so nothing is spent.

use std::time::Duration;

use annals_shared::model::{ModelChoice, ModelSettings};
use secrecy::ExposeSecret;
use serde_json::Value;

use super::finding::Finding;
use super::settings::Of;
use crate::said::{chain, shown_url};

/// The providers' own addresses, as `MODEL_BASE_URL` says another.
const OPENAI: &str = "https://api.openai.com/v1";
const ANTHROPIC: &str = "https://api.anthropic.com/v1";

/// Where the model of `settings` is; of Bedrock's own address, which is the region's, nothing is said.
pub(super) fn address(settings: &ModelSettings) -> Option<String> {
    let own = match &settings.choice {
        ModelChoice::Echo => return None,
        ModelChoice::OpenAi(_) => Some(OPENAI),
        ModelChoice::Anthropic(_) => Some(ANTHROPIC),
        ModelChoice::Bedrock(_) => None,
    };
    settings.base_url.clone().or(own.map(str::to_owned))
}

pub(super) async fn check(settings: &Of<ModelSettings>) -> Vec<Finding> {
    let settings = match settings {
        Of::Set(settings) => settings,
        Of::Unset => {
            return vec![Finding::none("model", "MODEL is not set here: the stack's parameters have it")];
        }
        Of::Wrong => return vec![Finding::none("model", "not looked at, before the settings are right")],
    };
    let own = one("model", "MODEL", settings).await;
    match &settings.fallback {
        Some(fallback) => vec![own, one("fallback", "MODEL_FALLBACK", fallback).await],
        None => vec![own],
    }
}

/// What there is to say of the model of the setting `variable`.
async fn one(check: &'static str, variable: &str, settings: &ModelSettings) -> Finding {
    let name = match &settings.choice {
        ModelChoice::Echo => return Finding::ok(check, "echo, which needs nothing"),
        // To list its models takes another permission than to ask one.
        ModelChoice::Bedrock(name) => {
            return Finding::ok(
                check,
                format!("{name} of Bedrock: not asked; see that it is enabled in the region"),
            );
        }
        ModelChoice::OpenAi(name) | ModelChoice::Anthropic(name) => name,
    };
    let base = address(settings).unwrap_or_default();
    let answered = list(base.trim_end_matches('/'), settings).await;
    let base = shown_url(&base);
    let base = base.trim_end_matches('/');
    match answered {
        Err(error) => Finding::fault(
            check,
            format!("{base} cannot be reached ({}): check {variable}_BASE_URL", chain(&error)),
        ),
        Ok((401 | 403, _)) => Finding::fault(
            check,
            format!("{base} does not take the key: set {variable}_API_KEY to one that it takes"),
        ),
        Ok((200, models)) => {
            let is_listed = models.iter().any(|id| id == name || id.split(':').next() == Some(name));
            let missing = format!(", but it does not list the model: check {variable}");
            let listed = if is_listed { "" } else { &missing };
            Finding::ok(check, format!("{name} at {base}, the key is taken{listed}"))
        }
        // Not every server lists its models.
        Ok((404 | 405, _)) => {
            Finding::ok(check, format!("{base} answers; it has no list of models to check name and key by"))
        }
        Ok((status, _)) => {
            Finding::fault(check, format!("{base} answers {status}: see its provider's status page"))
        }
    }
}

/// The status of `GET /models`, and the models' ids.
async fn list(base: &str, settings: &ModelSettings) -> reqwest::Result<(u16, Vec<String>)> {
    let client = reqwest::Client::builder().timeout(Duration::from_secs(20)).build()?;
    let mut request = client.get(format!("{base}/models"));
    if let Some(key) = &settings.api_key {
        request = match settings.choice {
            ModelChoice::Anthropic(_) => {
                request.header("x-api-key", key.expose_secret()).header("anthropic-version", "2023-06-01")
            }
            _ => request.bearer_auth(key.expose_secret()),
        };
    }
    let answer = request.send().await.map_err(reqwest::Error::without_url)?;
    let status = answer.status().as_u16();
    let body: Value = answer.json().await.unwrap_or_default();
    let models = body["data"].as_array().into_iter().flatten();
    Ok((status, models.filter_map(|model| model["id"].as_str().map(str::to_owned)).collect()))
}
