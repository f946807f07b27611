//! Checks that the model's endpoint answers and accepts the key. The model itself is not called, so the check is free.

use std::time::Duration;

use annals_channel::finding::Finding;
use annals_channel::words;
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
            let words = words!(
                "MODEL is not set here: the stack's parameters have it",
                "此处未设置 MODEL：它在部署参数中"
            );
            return vec![Finding::none("model", words)];
        }
        Checked::Invalid => {
            let words = words!("not checked until the settings are valid", "设置正确之前不检查");
            return vec![Finding::none("model", words)];
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
        return Finding::ok(check, words!("echo, which needs nothing", "echo，不需要任何配置"));
    };
    let name = model.name();
    if model.may_use_aws() {
        // In AWS, to list models takes another permission than to ask one.
        let provider = model.provider();
        let words = words!(
            "{name} of {provider}: not asked; see that it is enabled in the region",
            "{provider} 的 {name}：没有发出请求；请确认该区域已启用此模型"
        );
        return Finding::ok(check, words);
    }
    let base = address(settings).unwrap_or_default();
    let answered = list(base.trim_end_matches('/'), settings, model).await;
    let base = shown_url(&base);
    let base = base.trim_end_matches('/');
    match answered {
        Err(error) => {
            let error = chain(&error);
            let words = words!(
                "{base} cannot be reached ({error}): check {variable}_BASE_URL",
                "无法连接 {base}（{error}）：请检查 {variable}_BASE_URL"
            );
            Finding::fault(check, words)
        }
        Ok((status @ (401 | 403), _)) => {
            let words = words!(
                "{base} refused the request with {status}: check {variable}_API_KEY",
                "{base} 拒绝了请求（{status}）：请检查 {variable}_API_KEY"
            );
            Finding::fault(check, words)
        }
        Ok((200, models)) => {
            let is_listed = models.iter().any(|id| id == name || id.split(':').next() == Some(name));
            if is_listed {
                Finding::ok(
                    check,
                    words!("{name} at {base}, the key is accepted", "{name}，位于 {base}，密钥有效"),
                )
            } else {
                let words = words!(
                    "{name} at {base}, the key is accepted, but it does not list the model: check {variable}",
                    "{name}，位于 {base}，密钥有效，但模型列表中没有它：请检查 {variable}"
                );
                Finding::warning(check, words)
            }
        }
        // Some servers do not list their models.
        Ok((404 | 405, _)) => Finding::ok(
            check,
            words!(
                "{base} answers; it has no list of models to check name and key by",
                "{base} 有应答；它没有模型列表，无法核对模型名和密钥"
            ),
        ),
        Ok((status, _)) => Finding::fault(
            check,
            words!(
                "{base} answers {status}: see its provider's status page",
                "{base} 应答 {status}：请查看服务商的状态页面"
            ),
        ),
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
