//! Checks the settings: each concern as the program reads it, so that all faults are reported at once.

use std::sync::Arc;

use annals_channel::finding::{Finding, KeysOf, Words};
use annals_channel::settings::Settings as ChannelSettings;
use annals_channel::settings::{access, channel_settings};
use annals_core::settings::{ConfigError, Env};
use annals_engine::settings::{AgentConfig, MemoryConfig, ToolsSetting, ViewConfig};
use annals_http::settings::{api_keys, deployed_api_keys};
use annals_model::ModelSettings;
use annals_runtime::channels::{self, ServedChannel};
use annals_store::settings::retention;

use super::stack;
use crate::config::LocalConfig;
use crate::profiles;

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
        states.push((entry.about.platform, is_set_up));
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
    } else if let Some(config) = read!(LocalConfig::from_env(env)) {
        read!(profiles::read(&config.profiles));
    }

    let mut findings = if faults.is_empty() {
        let model = agent.as_ref().map(|agent| agent.model.choice.to_string());
        let fallback = agent.as_ref().and_then(|agent| agent.model.fallback.as_ref());
        let fallback = fallback.map(|fallback| fallback.choice.to_string());
        let keys = match keys {
            Some(keys) => KeysOf::Setting(keys.len()),
            None if is_stack => KeysOf::Stack,
            None if states.iter().any(|(_, is_set_up)| *is_set_up) => KeysOf::DataDirectory,
            None => KeysOf::Development,
        };
        vec![Finding::ok("settings", Words::Settings { model, fallback, channels: states, keys })]
    } else {
        faults.iter().map(|error| Finding::fault("settings", Words::Error(error.to_string()))).collect()
    };
    if tools.is_some() && access.is_some_and(|access| access.is_open()) {
        findings.push(Finding::warning("access", Words::OpenWithTools));
    }
    let model = match agent {
        Some(agent) => Checked::Valid(agent.model),
        None if has_model => Checked::Invalid,
        None => Checked::Unset,
    };
    (findings, ValidSettings { channels, channel_settings, model })
}
