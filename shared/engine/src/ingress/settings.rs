//! Settings of an ingress: [`IngressConfig`].

use std::sync::Arc;

use annals_channel::settings::{DmScope, agents, dm_scope, language, links, time_zone};
use annals_core::access::Access;
use annals_core::agents::Agents;
use annals_core::language::Language;
use annals_core::person::Links;
use annals_core::settings::{ConfigError, Env};
use annals_core::time_zone::TimeZone;

use crate::settings::memory_is_on;
use crate::usage::UsageConfig;

#[derive(Clone, Debug)]
pub struct IngressConfig {
    /// `AGENT_ID`, `AGENTS`: the agents, under whose ids replies are recorded.
    pub agents: Arc<Agents>,
    /// `ALLOW_FROM`, `ALLOW_CHATS`: the people and chats of platforms that may use the bot.
    pub access: Access,
    pub dm_scope: DmScope,
    /// `LINKS`: the links that an operator has made.
    pub links: Links,
    /// `MODEL_PRICES`, `LIMITS`, for `/usage`; `ADMINS`, who may approve calls in addition to the askers.
    pub usage: Arc<UsageConfig>,
    /// `LANGUAGE`: the language of all texts; `None` for that of each person.
    pub language: Option<Language>,
    /// `TIME_ZONE`, of everybody who has none of their own.
    pub time_zone: TimeZone,
    pub memory_is_on: bool,
}

impl IngressConfig {
    /// Reads the settings, except for `ALLOW_FROM` and `ALLOW_CHATS`, which hold for platforms alone: everybody may use it.
    pub fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        let (dm_scope, links) = (dm_scope(env)?, links(env)?);
        if dm_scope == DmScope::Chat && links != Links::default() {
            tracing::warn!("LINKS has no effect without DM_SCOPE=user");
        }
        Ok(Self {
            agents: agents(env)?.into(),
            access: Access::default(),
            dm_scope,
            links,
            usage: UsageConfig::from_env(env)?.into(),
            language: language(env)?,
            time_zone: time_zone(env)?,
            memory_is_on: memory_is_on(env)?,
        })
    }
}

impl Default for IngressConfig {
    fn default() -> Self {
        Self {
            agents: Agents::only("annals".into()).into(),
            access: Access::default(),
            dm_scope: DmScope::default(),
            links: Links::default(),
            usage: Arc::default(),
            language: None,
            time_zone: TimeZone::UTC,
            memory_is_on: true,
        }
    }
}
