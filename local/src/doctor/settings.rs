//! Checks the settings: each concern as the program reads it, so that all faults are reported at once.

use std::sync::Arc;

use annals_channel::finding::{Finding, Words};
use annals_channel::settings::Settings as ChannelSettings;
use annals_channel::settings::{access, channel_settings};
use annals_channel::words;
use annals_core::access::OPEN_WITH_TOOLS;
use annals_core::settings::{ConfigError, Env};
use annals_engine::settings::{AgentConfig, MemoryConfig, ToolsSetting, ViewConfig};
use annals_http::settings::{api_keys, deployed_api_keys};
use annals_model::ModelSettings;
use annals_runtime::channels::{self, ServedChannel};
use annals_store::settings::retention;

use super::stack;
use crate::config::LocalConfig;

/// Settings for later checks; `None` if they are not set, or invalid.
pub(super) struct ValidSettings {
    /// All channels of platforms, with their names.
    pub(super) channels: Vec<(&'static str, Option<Arc<dyn ServedChannel>>)>,
    pub(super) channel_settings: Option<ChannelSettings>,
    pub(super) model: Checked<ModelSettings>,
}

/// Settings of a concern.
pub(super) enum Checked<T> {
    Valid(T),
    Unset,
    Invalid,
}

impl<T> Checked<T> {
    pub(super) fn valid(&self) -> Option<&T> {
        if let Self::Valid(value) = self { Some(value) } else { None }
    }
}

pub(super) fn check(env: Env<'_>, is_stack: bool) -> (Vec<Finding>, ValidSettings) {
    let mut faults: Vec<ConfigError> = Vec::new();
    macro_rules! read {
        ($read:expr) => {
            match $read {
                Ok(value) => Some(value),
                Err(error) => {
                    // One variable may be read for several purposes.
                    if !faults.contains(&error) {
                        faults.push(error);
                    }
                    None
                }
            }
        };
    }
    let keys = read!(if is_stack { deployed_api_keys(env) } else { api_keys(env) }).flatten();
    let mut channels = Vec::new();
    let mut states = Vec::new();
    for entry in channels::local() {
        let channel = read!((entry.from_env)(env));
        let is_set_up = channel.as_ref().is_some_and(|channel| channel.is_set_up());
        states.push((entry.about.platform(), is_set_up));
        channels.push((entry.about.channel.as_str(), channel));
    }
    let channel_settings = read!(channel_settings(env));
    let access = read!(access(env));
    let tools = read!(ToolsSetting::from_env(env)).flatten();
    read!(retention(env));
    read!(ViewConfig::from_env(env));
    read!(MemoryConfig::from_env(env));
    // In a stack, only the agent has it, from the stack's parameters.
    let has_model = !is_stack || env.optional("MODEL").is_some();
    let agent = if has_model { read!(AgentConfig::from_env(env, Some("echo"))) } else { None };
    if is_stack {
        for name in stack::NAMES {
            read!(env.required(name));
        }
    } else {
        read!(LocalConfig::from_env(env));
    }

    let mut findings = if faults.is_empty() {
        let model = agent.as_ref().map(|agent| agent.model.choice.to_string());
        let fallback = agent.as_ref().and_then(|agent| agent.model.fallback.as_ref());
        let fallback = fallback.map(|fallback| fallback.choice.to_string());
        let model = match model {
            Some(model) => format!("MODEL {model}").into(),
            None => words!("MODEL not set here", "此处未设置 MODEL"),
        };
        let fallback = fallback.map(|fallback| format!("MODEL_FALLBACK {fallback}").into());
        let keys = match keys.map(|keys| keys.len()) {
            Some(count) => words!("API keys: {count}", "{count} 个 API 密钥"),
            None if is_stack => words!("API keys not set here", "此处未设置 API 密钥"),
            None if states.iter().any(|(_, is_set_up)| *is_set_up) => {
                words!("the data directory's API key", "使用数据目录的 API 密钥")
            }
            None => words!("the development API key", "使用开发用 API 密钥"),
        };
        let channels = states.iter().map(|(name, is_set_up)| {
            let (state, zh) = if *is_set_up { ("set up", "已配置") } else { ("not set up", "未配置") };
            words!("{name} {state}", "{name} {zh}")
        });
        let parts = [model].into_iter().chain(fallback).chain(channels).chain([keys]);
        let (en, zh): (Vec<_>, Vec<_>) = parts.map(|words: Words| (words.en, words.zh)).unzip();
        vec![Finding::ok("settings", Words { en: en.join(", "), zh: zh.join("，") })]
    } else {
        faults.iter().map(|error| Finding::fault("settings", error.to_string())).collect()
    };
    if tools.is_some() && access.is_some_and(|access| access.is_open()) {
        let words = Words {
            en: OPEN_WITH_TOOLS.into(),
            zh: "设置了 TOOLS，却没有设置 ALLOW_FROM 或 ALLOW_CHATS：任何能给机器人写消息的人都能让它调用工具。请把 ALLOW_FROM \
                 设为允许使用它的人，例如 telegram-42,lark-ou_…"
                .into(),
        };
        findings.push(Finding::warning("access", words));
    }
    let model = match agent {
        Some(agent) => Checked::Valid(agent.model),
        None if has_model => Checked::Invalid,
        None => Checked::Unset,
    };
    (findings, ValidSettings { channels, channel_settings, model })
}
