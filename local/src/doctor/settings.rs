//! Checks the settings: each concern as the program reads it, so that all faults are reported at once.

use std::sync::Arc;

use annals_channel::finding::Finding;
use annals_channel::settings::Settings as ChannelSettings;
use annals_channel::settings::{access, channel_settings};
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
        states.push(format!("{} {}", entry.about.platform, if is_set_up { "set up" } else { "not set up" }));
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
        let model = match agent.as_ref().map(|agent| &agent.model) {
            Some(ModelSettings { choice, fallback: Some(fallback), .. }) => {
                format!("MODEL {choice}, MODEL_FALLBACK {}", fallback.choice)
            }
            Some(ModelSettings { choice, .. }) => format!("MODEL {choice}"),
            None => "MODEL not set here".to_owned(),
        };
        let keys = match keys {
            Some(keys) => format!("API keys: {}", keys.len()),
            None if is_stack => "API keys not set here".to_owned(),
            None if channels.iter().flat_map(|(_, channel)| channel).any(|channel| channel.is_set_up()) => {
                "the data directory's API key".to_owned()
            }
            None => "the development API key".to_owned(),
        };
        vec![Finding::ok("settings", format!("{model}, {}, {keys}", states.join(", ")))]
    } else {
        faults.iter().map(|error| Finding::fault("settings", error.to_string())).collect()
    };
    if tools.is_some() && access.is_some_and(|access| access.is_open()) {
        findings.push(Finding::warning("access", OPEN_WITH_TOOLS));
    }
    let model = match agent {
        Some(agent) => Checked::Valid(agent.model),
        None if has_model => Checked::Invalid,
        None => Checked::Unset,
    };
    (findings, ValidSettings { channels, channel_settings, model })
}
