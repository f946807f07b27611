//! The model: whether its endpoint is there and takes the key. Nothing is asked of the model itself, so nothing is spent.

use std::time::Duration;

use annals_shared::model::{ModelChoice, ModelSettings};
use secrecy::ExposeSecret;
use serde_json::Value;

use super::finding::Finding;
use crate::said::chain;

/// The provider's own address, as `MODEL_BASE_URL` says another.
pub(super) const OPENAI: &str = "https://api.openai.com/v1";

pub(super) async fn check(settings: Option<&ModelSettings>) -> Vec<Finding> {
    let Some(settings) = settings else {
        return vec![Finding::none("model", "MODEL is not set here, or wrongly")];
    };
    let ModelChoice::OpenAi(name) = &settings.choice else {
        return vec![Finding::ok("model", "echo, which needs nothing")];
    };
    let base = settings.base_url.as_deref().unwrap_or(OPENAI).trim_end_matches('/');
    let finding = match list(base, settings).await {
        Err(error) => Finding::fault(
            "model",
            format!("{base} cannot be reached ({}): check MODEL_BASE_URL", chain(&error)),
        ),
        Ok((401 | 403, _)) => Finding::fault(
            "model",
            format!("{base} does not take the key: set MODEL_API_KEY to one that it takes"),
        ),
        Ok((200, models)) => {
            let is_listed = models.iter().any(|id| id == name || id.split(':').next() == Some(name));
            let listed = if is_listed { "" } else { ", but it does not list the model: check MODEL" };
            Finding::ok("model", format!("{name} at {base}, the key is taken{listed}"))
        }
        // Not every server lists its models.
        Ok((404 | 405, _)) => {
            Finding::ok("model", format!("{base} answers; it has no list of models to check name and key by"))
        }
        Ok((status, _)) => {
            Finding::fault("model", format!("{base} answers {status}: see its provider's status page"))
        }
    };
    vec![finding]
}

/// The status of `GET /models`, and the models' ids.
async fn list(base: &str, settings: &ModelSettings) -> reqwest::Result<(u16, Vec<String>)> {
    let client = reqwest::Client::builder().timeout(Duration::from_secs(20)).build()?;
    let mut request = client.get(format!("{base}/models"));
    if let Some(key) = &settings.api_key {
        request = request.bearer_auth(key.expose_secret());
    }
    let answer = request.send().await.map_err(reqwest::Error::without_url)?;
    let status = answer.status().as_u16();
    let body: Value = answer.json().await.unwrap_or_default();
    let models = body["data"].as_array().into_iter().flatten();
    Ok((status, models.filter_map(|model| model["id"].as_str().map(str::to_owned)).collect()))
}
