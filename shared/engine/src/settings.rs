//! Settings of the agent's answers.

pub mod tools;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use annals_channel::settings::{DmScope, agent_id, agents, dm_scope, language, time_zone};
use annals_core::agents::Agents;
use annals_core::chat_settings::MAX_REPLY_QUIET;
use annals_core::context::Policy;
use annals_core::language::Language;
use annals_core::limits::LIMITS;
use annals_core::media;
use annals_core::settings::{ConfigError, Env, Setting};
use annals_core::time_zone::TimeZone;
use annals_model::ModelSettings;
use annals_store::settings::stale_after;

use crate::profiles::AGENTS_FOLDER;
pub use annals_model::settings::model_names;

pub use tools::{ToolsConfig, ToolsSetting, admins};

/// Settings of the agent's answers.
pub const SETTINGS: [Setting; 11] = [
    Setting::optional("SYSTEM_PROMPT", "any text, sent verbatim with each question"),
    AGENTS_FOLDER,
    SESSION_MODE,
    CONTEXT_WINDOW,
    COMPACT_THRESHOLD,
    KEEP_RECENT,
    MEMORY,
    MEMORY_APPROVAL,
    CAPTURE_GROUP_MEMORY,
    REPLY_QUIET,
    LIMITS,
];

const SESSION_MODE: Setting =
    Setting::new("SESSION_MODE", "stable", "`stable`, or `fresh`: every message starts its own session");
const CONTEXT_WINDOW: Setting =
    Setting::new("CONTEXT_WINDOW", "128000", "tokens, over 0: what the model takes");
const COMPACT_THRESHOLD: Setting = Setting::new(
    "COMPACT_THRESHOLD",
    "0.8",
    "over 0, at most 1: the share of the window above which older messages are compacted before a turn",
);
const KEEP_RECENT: Setting = Setting::new(
    "KEEP_RECENT",
    "30",
    "at least 1: how many messages of people and the assistant a compaction leaves as they are, if they fit",
);
const MEMORY: Setting = Setting::new(
    "MEMORY",
    "on",
    "`on`, `off`. `off` captures and recalls nothing, offers no memory tools, and the model searches only the \
     session; `/memory`, `/forget` and `/v1/memory` still show and delete entries",
);
const MEMORY_APPROVAL: Setting = Setting::new(
    "MEMORY_APPROVAL",
    "off",
    "`off`, or `on`: an admin approves each entry, in the console or by `POST /v1/memory/{id}/approve`, before the \
     model is given it",
);
const CAPTURE_GROUP_MEMORY: Setting = Setting::new(
    "CAPTURE_GROUP_MEMORY",
    "false",
    "`true`: groups have a memory of their own. People have one in their direct chats",
);
const REPLY_QUIET: Setting = Setting::new(
    "REPLY_QUIET",
    "1s",
    "a duration, at most `10s`: how long a platform's chat must be quiet before it is answered (at most five times \
     that); `0` does not wait",
);

/// Reads `REPLY_QUIET`: time without new messages after which a platform's chat is answered. Zero answers at
/// once.
pub fn reply_quiet(env: Env<'_>) -> Result<Duration, ConfigError> {
    let quiet = env.duration(&REPLY_QUIET)?;
    if quiet > MAX_REPLY_QUIET {
        return Err(ConfigError::new(
            REPLY_QUIET.name,
            "is longer than 10s: a run waits that long, up to five times",
        ));
    }
    Ok(quiet)
}

/// Settings of the agent's answers.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    pub agent_id: String,
    /// `MODEL`, `MODEL_BASE_URL`, `MODEL_API_KEY`, `MODEL_PROMPT_CACHE`, and those of `MODEL_FALLBACK`
    pub model: ModelSettings,
    pub system_prompt: Option<String>,
    /// `LANGUAGE`; `None` for that of each person.
    pub language: Option<Language>,
    /// `SESSION_MODE`, `SESSION_STALE_AFTER`, `CONTEXT_WINDOW`, `COMPACT_THRESHOLD`, `KEEP_RECENT`
    pub view: ViewConfig,
    /// `MEMORY`, `CAPTURE_GROUP_MEMORY`, `DM_SCOPE`, `AGENTS`
    pub memory: MemoryConfig,
}

impl AgentConfig {
    /// Reads the settings. `default_model` is used if `MODEL` is not set; with `None`, `MODEL` is required.
    pub fn from_env(env: Env<'_>, default_model: Option<&str>) -> Result<Self, ConfigError> {
        let (model, mut view) =
            (annals_model::settings::model(env, default_model)?, ViewConfig::from_env(env)?);
        if !model.may_see() {
            view.images = 0;
        }
        Ok(Self {
            agent_id: agent_id(env)?,
            model,
            system_prompt: env.optional("SYSTEM_PROMPT"),
            language: language(env)?,
            view,
            memory: MemoryConfig::from_env(env)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct MemoryConfig {
    /// `MEMORY`: if false, nothing is captured, recalled or offered as a tool. Existing entries are kept either way.
    pub is_on: bool,
    /// `MEMORY_APPROVAL`: if true, an entry that a model made waits for an administrator.
    pub needs_approval: bool,
    /// `CAPTURE_GROUP_MEMORY`: if true, groups have a memory too, not only people.
    pub groups: bool,
    /// `DM_SCOPE=user`: if true, links act, and the memory of an identity is that of the Person it is linked to.
    pub links: bool,
    /// `AGENT_ID`, `AGENTS`: each agent has a memory of each person.
    pub agents: Arc<Agents>,
}

impl MemoryConfig {
    /// Reads the settings.
    pub fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        let groups = env.flag(&CAPTURE_GROUP_MEMORY)?;
        Ok(Self {
            is_on: memory_is_on(env)?,
            needs_approval: env.choice(&MEMORY_APPROVAL, &[("off", false), ("on", true)])?,
            groups,
            links: dm_scope(env)? == DmScope::User,
            agents: agents(env)?.into(),
        })
    }
}

impl Default for MemoryConfig {
    fn default() -> Self {
        let agents = Agents::only("annals".into()).into();
        Self { is_on: true, needs_approval: false, groups: false, links: false, agents }
    }
}

/// Reads `MEMORY`, for functions that only report it.
pub fn memory_is_on(env: Env<'_>) -> Result<bool, ConfigError> {
    env.choice(&MEMORY, &[("on", true), ("off", false)])
}

/// Settings of a context.
#[derive(Clone, Copy, Debug)]
pub struct ViewConfig {
    /// `SESSION_STALE_AFTER`; `None` means never.
    pub stale_after: Option<Duration>,
    /// `SESSION_MODE=fresh`
    pub fresh: bool,
    /// `CONTEXT_WINDOW`, in tokens.
    pub window: u32,
    /// `COMPACT_THRESHOLD`, in 0..=1.
    pub threshold: f64,
    /// `KEEP_RECENT`: number of user and assistant messages that a compaction leaves unchanged, at least 1.
    pub keep_recent: usize,
    /// Maximum number of images in a context; 0 for a model without vision.
    pub images: usize,
    pub time_zone: TimeZone,
}

impl ViewConfig {
    /// Reads the settings.
    pub fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        let threshold = env.number(&COMPACT_THRESHOLD, "a number over 0, at most 1")?;
        if !(threshold > 0.0 && threshold <= 1.0) {
            return Err(ConfigError::new(COMPACT_THRESHOLD.name, "must be a number over 0, at most 1"));
        }
        let window: NonZeroU32 = env.number(&CONTEXT_WINDOW, "a number of tokens, 1 to 4294967295")?;
        let window = window.get();
        let keep_recent = env.number(&KEEP_RECENT, "a number of messages, at least 1")?;
        if keep_recent == 0 {
            return Err(ConfigError::new(
                KEEP_RECENT.name,
                "is 0, but must be at least 1: a compaction that keeps no message would leave nothing to answer",
            ));
        }
        Ok(Self {
            stale_after: stale_after(env)?,
            fresh: env.choice(&SESSION_MODE, &[("stable", false), ("fresh", true)])?,
            window,
            threshold,
            keep_recent,
            images: media::most_images(window),
            time_zone: time_zone(env)?,
        })
    }

    /// Returns the time for which a tool call without a result prevents compaction: the stale time of a Session.
    pub fn approval_patience(&self) -> Duration {
        self.stale_after.unwrap_or(Duration::from_hours(48))
    }

    /// Returns the policy of a context whose system part takes `system_tokens`.
    pub fn policy(&self, system_tokens: u32) -> Policy {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a u32 between 0 and 1 is a u32"
        )]
        let budget = (f64::from(self.window) * self.threshold) as u32;
        Policy {
            stale_after: self.stale_after,
            fresh: self.fresh,
            token_budget: budget.saturating_sub(system_tokens),
            images: self.images,
        }
    }
}

#[cfg(test)]
mod tests {
    use annals_core::settings::from_table as with;

    use super::*;

    #[test]
    fn with_nothing_set_the_defaults_hold() {
        let view = with(&[], ViewConfig::from_env).unwrap();
        assert_eq!(view.stale_after, Some(Duration::from_hours(48)));
        assert_eq!((view.window, view.fresh, view.keep_recent), (128_000, false, 30));
        assert_eq!(view.time_zone, TimeZone::UTC);
        assert_eq!(view.policy(400).token_budget, 102_000);
        assert_eq!(with(&[], reply_quiet), Ok(Duration::from_secs(1)));
        assert!(!with(&[], MemoryConfig::from_env).unwrap().groups);
    }

    #[test]
    fn errors_name_the_variable_and_never_its_value() {
        for value in ["0", "4294967296", "-1", "many"] {
            let error = with(&[("CONTEXT_WINDOW", value)], ViewConfig::from_env).unwrap_err();
            assert_eq!(error, "CONTEXT_WINDOW must be a number of tokens, 1 to 4294967295", "{value}");
        }
        let cases: &[(&str, &str)] = &[
            ("SESSION_STALE_AFTER", "two days hunter2"),
            ("COMPACT_THRESHOLD", "hunter2"),
            ("CONTEXT_WINDOW", "-1hunter2"),
            ("SESSION_MODE", "hunter2"),
            ("KEEP_RECENT", "hunter2"),
            ("KEEP_RECENT", "0"),
            ("TIME_ZONE", "Asia/Hunter2"),
            ("TIME_ZONE", "+08:00"),
        ];
        for (name, value) in cases {
            let error = with(&[(name, value)], ViewConfig::from_env).unwrap_err();
            assert!(error.starts_with(name) && !error.to_lowercase().contains("hunter2"), "{error}");
        }
        for value in ["11s", "hunter2"] {
            let error = with(&[("REPLY_QUIET", value)], reply_quiet).unwrap_err();
            assert!(error.starts_with("REPLY_QUIET") && !error.contains(value), "{error}");
        }
        assert_eq!(with(&[("REPLY_QUIET", "0")], reply_quiet), Ok(Duration::ZERO));
    }

    #[test]
    fn groups_have_a_memory_only_if_it_is_set() {
        assert!(with(&[("DM_SCOPE", "user")], MemoryConfig::from_env).unwrap().links);
        let groups = |value| with(&[("CAPTURE_GROUP_MEMORY", value)], MemoryConfig::from_env);
        assert!(groups("true").unwrap().groups);
        assert_eq!(groups("yes").unwrap_err(), "CAPTURE_GROUP_MEMORY must be one of: true, false");
        let memory = |value| with(&[("MEMORY", value)], MemoryConfig::from_env);
        assert_eq!(
            (memory("off").map(|memory| memory.is_on), memory("on")),
            (Ok(false), Ok(MemoryConfig::default()))
        );
        assert_eq!(memory("no").unwrap_err(), "MEMORY must be one of: on, off");
        let approval = |value| with(&[("MEMORY_APPROVAL", value)], MemoryConfig::from_env);
        assert!(approval("on").unwrap().needs_approval && !approval("off").unwrap().needs_approval);
        assert_eq!(approval("yes").unwrap_err(), "MEMORY_APPROVAL must be one of: off, on");
    }
}
