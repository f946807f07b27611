//! Settings: environment variables, read once at start from a lookup closure, so that a test needs no environment.
//!
//! One struct for each concern, each with `from_env`. What is missing or malformed is a start-up error that names the
//! variable and says what to do. An empty variable counts as not set, since deployment templates pass those.

mod channels;
mod delivery;
mod http;
mod models;
mod secrets;
pub mod tools;

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use crate::chat_key::ChatKey;
use crate::context::Policy;
use crate::history::Retention;
use crate::media;
use crate::model::ModelSettings;

const API_KEYS: &str = "HTTP_API_KEYS";

/// The longest time that a setting may name.
const MAX_DURATION: Duration = Duration::from_hours(100 * 366 * 24);

/// The longest quiet time: five of it leave a run the time that it needs to answer.
const MAX_QUIET: Duration = Duration::from_secs(10);

pub use channels::{LarkConfig, TelegramConfig, access, channel_settings};
pub use delivery::DeliveryConfig;
pub use http::{CorsOrigins, RateLimit, console, http_cors_origins, http_rate_limit};
pub use secrets::Settings;
pub use tools::{ToolsConfig, ToolsSetting, admins};

/// Where settings come from: the process's environment, or a test's table.
#[derive(Clone, Copy)]
pub struct Env<'a>(&'a dyn Fn(&str) -> Option<String>);

/// A setting is missing or malformed: the program does not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable} {problem}")]
pub struct ConfigError {
    /// The environment variable.
    pub variable: String,
    /// What is wrong with it, and what to do. Never its value.
    pub problem: String,
}

impl ConfigError {
    /// `variable`, and what is wrong with it.
    pub fn new(variable: &str, problem: impl Into<String>) -> Self {
        Self { variable: variable.into(), problem: problem.into() }
    }
}

/// The value of `name` in the process's environment.
#[allow(clippy::disallowed_methods, reason = "the one place where the environment is read")]
pub fn process_env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl<'a> Env<'a> {
    /// Settings that `lookup` knows.
    pub fn new(lookup: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self(lookup)
    }

    /// The value of `name`, if it is set and not empty.
    pub fn optional(self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    /// The value of `name`, or an error that it is not set.
    pub fn required(self, name: &str) -> Result<String, ConfigError> {
        self.optional(name).ok_or_else(|| ConfigError::new(name, "is not set"))
    }

    fn choice<T: Clone>(self, name: &str, choices: &[(&str, T)], default: &T) -> Result<T, ConfigError> {
        let Some(value) = self.optional(name) else { return Ok(default.clone()) };
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        choices
            .iter()
            .find(|(choice, _)| *choice == value)
            .map(|(_, chosen)| chosen.clone())
            .ok_or_else(|| ConfigError::new(name, format!("must be one of: {}", names.join(", "))))
    }

    fn number<T: std::str::FromStr>(self, name: &str, default: T, what: &str) -> Result<T, ConfigError> {
        match self.optional(name) {
            None => Ok(default),
            Some(value) => value.parse().map_err(|_| ConfigError::new(name, format!("must be {what}"))),
        }
    }

    fn duration(self, name: &str, default: Duration) -> Result<Duration, ConfigError> {
        match self.optional(name).as_deref() {
            None => Ok(default),
            Some("0") => Ok(Duration::ZERO),
            Some(value) => {
                humantime::parse_duration(value).ok().filter(|duration| *duration <= MAX_DURATION).ok_or_else(
                    || ConfigError::new(name, "must be a duration such as 48h, 30m or 0, at most 100 years"),
                )
            }
        }
    }
}

/// `ANNALS_TABLE`, `ANNALS_BUCKET` and how long records stay.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// The DynamoDB table.
    pub table: String,
    /// The S3 bucket.
    pub bucket: String,
    /// How long records stay in the table.
    pub retention: Retention,
}

impl StoreConfig {
    /// From the environment; both names are required.
    pub fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            table: env.required("ANNALS_TABLE")?,
            bucket: env.required("ANNALS_BUCKET")?,
            retention: retention(env)?,
        })
    }
}

/// `SESSION_STALE_AFTER`, `ARCHIVE_GRACE` and `ARCHIVE_ON_COMPACT`, as they decide when records expire.
pub fn retention(env: Env<'_>) -> Result<Retention, ConfigError> {
    Ok(Retention {
        stale_after: stale_after(env)?,
        archive_grace: env.duration("ARCHIVE_GRACE", Duration::from_hours(168))?,
        archive: env.choice("ARCHIVE_ON_COMPACT", &[("true", true), ("false", false)], &true)?,
    })
}

fn stale_after(env: Env<'_>) -> Result<Option<Duration>, ConfigError> {
    let stale_after = env.duration("SESSION_STALE_AFTER", Duration::from_hours(48))?;
    Ok(Some(stale_after).filter(|duration| !duration.is_zero()))
}

/// `AGENT_ID`: one part of a ChatKey.
pub fn agent_id(env: Env<'_>) -> Result<String, ConfigError> {
    let agent_id = env.optional("AGENT_ID").unwrap_or_else(|| "annals".into());
    if agent_id.len() > 64 {
        return Err(ConfigError::new(
            "AGENT_ID",
            "is longer than 64 bytes: it is part of every direct chat's key",
        ));
    }
    ChatKey::direct(&agent_id, "x")
        .map_err(|error| ConfigError::new("AGENT_ID", format!("is unusable: {error}")))?;
    Ok(agent_id)
}

/// `REPLY_QUIET`: for how long a chat of Telegram or Lark must have been quiet before it is answered; zero does not wait.
pub fn reply_quiet(env: Env<'_>) -> Result<Duration, ConfigError> {
    let quiet = env.duration("REPLY_QUIET", Duration::from_secs(1))?;
    if quiet > MAX_QUIET {
        return Err(ConfigError::new(
            "REPLY_QUIET",
            "is longer than 10s: a run waits that long, up to five times",
        ));
    }
    Ok(quiet)
}

/// What the agent answers with and from.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// `AGENT_ID`
    pub agent_id: String,
    /// `MODEL`, `MODEL_BASE_URL`, `MODEL_API_KEY`, `MODEL_PROMPT_CACHE`, and the same of `MODEL_FALLBACK`
    pub model: ModelSettings,
    /// `SYSTEM_PROMPT`
    pub system_prompt: Option<String>,
    /// `SESSION_MODE`, `SESSION_STALE_AFTER`, `CONTEXT_WINDOW`, `COMPACT_THRESHOLD`, `KEEP_RECENT`
    pub view: ViewConfig,
    /// `MEMORY`, `CAPTURE_GROUP_MEMORY`
    pub memory: MemoryConfig,
}

impl AgentConfig {
    /// From the environment. `default_model` is what an unset `MODEL` means; `None` makes it required.
    pub fn from_env(env: Env<'_>, default_model: Option<&str>) -> Result<Self, ConfigError> {
        let (model, mut view) = (models::model(env, default_model)?, ViewConfig::from_env(env)?);
        if !model.may_see() {
            view.images = 0;
        }
        Ok(Self {
            agent_id: agent_id(env)?,
            model,
            system_prompt: env.optional("SYSTEM_PROMPT"),
            view,
            memory: MemoryConfig::from_env(env)?,
        })
    }
}

/// What is kept in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryConfig {
    /// `MEMORY`: whether anything is captured, recalled, and offered as a tool. What was kept before stays either way.
    pub is_on: bool,
    /// `CAPTURE_GROUP_MEMORY`: whether groups have a memory, and not only people.
    pub groups: bool,
}

impl MemoryConfig {
    /// From the environment.
    pub fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        let groups = env.choice("CAPTURE_GROUP_MEMORY", &[("true", true), ("false", false)], &false)?;
        Ok(Self { is_on: memory_is_on(env)?, groups })
    }
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self { is_on: true, groups: false }
    }
}

/// `MEMORY`: for functions that only say whether it is on.
pub fn memory_is_on(env: Env<'_>) -> Result<bool, ConfigError> {
    env.choice("MEMORY", &[("on", true), ("off", false)], &true)
}

/// What decides a context.
#[derive(Clone, Copy, Debug)]
pub struct ViewConfig {
    /// `SESSION_STALE_AFTER`; `None` never.
    pub stale_after: Option<Duration>,
    /// `SESSION_MODE=fresh`
    pub fresh: bool,
    /// `CONTEXT_WINDOW`, in tokens.
    pub window: u32,
    /// `COMPACT_THRESHOLD`, in 0..=1.
    pub threshold: f64,
    /// `KEEP_RECENT`: how many user and assistant messages a compaction leaves as they are, at least 1.
    pub keep_recent: usize,
    /// How many images a context shows at most; none to a model that cannot see.
    pub images: usize,
}

impl ViewConfig {
    /// From the environment.
    pub fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        let threshold = env.number("COMPACT_THRESHOLD", 0.8, "a number over 0, at most 1")?;
        if !(threshold > 0.0 && threshold <= 1.0) {
            return Err(ConfigError::new("COMPACT_THRESHOLD", "must be a number over 0, at most 1"));
        }
        let window = env.number("CONTEXT_WINDOW", 128_000, "a number of tokens")?;
        if window == 0 {
            return Err(ConfigError::new("CONTEXT_WINDOW", "must be more than 0 tokens"));
        }
        let keep_recent = env.number("KEEP_RECENT", 30, "a number of messages, at least 1")?;
        if keep_recent == 0 {
            return Err(ConfigError::new(
                "KEEP_RECENT",
                "is 0, but must be at least 1: a compaction that keeps no message would leave nothing to answer",
            ));
        }
        Ok(Self {
            stale_after: stale_after(env)?,
            fresh: env.choice("SESSION_MODE", &[("stable", false), ("fresh", true)], &false)?,
            window,
            threshold,
            keep_recent,
            images: media::most_images(window),
        })
    }

    /// How long a tool call without a result holds a compaction off: as long as a Session waits for its people.
    pub fn approval_patience(&self) -> Duration {
        self.stale_after.unwrap_or(Duration::from_hours(48))
    }

    /// The policy of a context whose system part takes `system_tokens`.
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

/// `HTTP_RESPONSES`: how a function hands an answer over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpResponses {
    /// Whole, at most 6 MB: behind an HTTP API.
    Buffered,
    /// As it is made: behind a function URL whose `InvokeMode` is `RESPONSE_STREAM`, and there alone.
    Streaming,
}

impl HttpResponses {
    /// From the environment.
    pub fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        let choices = [("buffered", Self::Buffered), ("streaming", Self::Streaming)];
        env.choice("HTTP_RESPONSES", &choices, &Self::Buffered)
    }
}

/// A key of the HTTP API.
#[derive(Clone, Debug)]
pub struct ApiKey {
    /// Its name: part of the keys of its conversations.
    pub name: String,
    /// What a caller sends as `Authorization: Bearer <secret>`.
    pub secret: SecretString,
    /// Whether it may read every chat.
    pub admin: bool,
}

/// The shortest secret of a key that others than this machine may try.
pub const MIN_SECRET_CHARS: usize = 16;

/// `HTTP_API_KEYS` of a deployed function, where each secret has [`MIN_SECRET_CHARS`] or more; any secret is taken where
/// `AWS_ENDPOINT_URL` names an emulator in place of AWS.
pub fn deployed_api_keys(env: Env<'_>) -> Result<Option<Vec<ApiKey>>, ConfigError> {
    let keys = api_keys(env)?;
    if env.optional("AWS_ENDPOINT_URL").is_none() {
        check_secrets(keys.as_deref().unwrap_or_default())?;
    }
    Ok(keys)
}

/// Refuses a key that could be guessed by whoever can reach the program.
pub fn check_secrets(keys: &[ApiKey]) -> Result<(), ConfigError> {
    match keys.iter().find(|key| key.secret.expose_secret().chars().count() < MIN_SECRET_CHARS) {
        None => Ok(()),
        Some(ApiKey { name, .. }) => {
            let problem = format!(
                "has a secret of fewer than {MIN_SECRET_CHARS} characters, that of the key {name:?}, which can be guessed \
                 from elsewhere: make one with 'openssl rand -hex 32'"
            );
            Err(ConfigError::new(API_KEYS, problem))
        }
    }
}

/// `HTTP_API_KEYS`: comma-separated `name:secret` or `name:secret:admin`; `None` where it is not set.
pub fn api_keys(env: Env<'_>) -> Result<Option<Vec<ApiKey>>, ConfigError> {
    let Some(value) = env.optional(API_KEYS) else { return Ok(None) };
    let mut keys: Vec<ApiKey> = Vec::new();
    for (index, entry) in value.split(',').map(str::trim).enumerate() {
        // By its place, since the entry holds a secret.
        let wrong =
            |what: &str| ConfigError::new(API_KEYS, format!("has an entry (number {}) {what}", index + 1));
        let (name, secret, admin) = match entry.split(':').collect::<Vec<_>>()[..] {
            [name, secret] => (name, secret, false),
            [name, secret, "admin"] => (name, secret, true),
            _ => return Err(wrong("that is neither name:secret nor name:secret:admin")),
        };
        if secret.is_empty() {
            return Err(wrong("with no secret"));
        }
        ChatKey::http(name, "x").map_err(|_| wrong("whose name is empty or holds a control character"))?;
        if name.contains('/') {
            // `<keyName>/<userId>` names a person across channels, and must name only one.
            return Err(wrong("whose name holds a '/'"));
        }
        if keys.iter().any(|key| key.secret.expose_secret() == secret) {
            return Err(wrong("whose secret is another entry's too"));
        }
        if keys.iter().any(|key| key.name == name) {
            return Err(wrong("whose name is another entry's too"));
        }
        keys.push(ApiKey { name: name.to_owned(), secret: secret.into(), admin });
    }
    Ok(Some(keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(
        settings: &[(&str, &str)],
        read: impl Fn(Env<'_>) -> Result<T, ConfigError>,
    ) -> Result<T, String> {
        let lookup =
            |name: &str| settings.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        read(Env::new(&lookup)).map_err(|error| error.to_string())
    }

    #[test]
    fn with_nothing_set_the_defaults_hold() {
        let view = with(&[], ViewConfig::from_env).unwrap();
        assert_eq!(view.stale_after, Some(Duration::from_hours(48)));
        assert_eq!((view.window, view.fresh, view.keep_recent), (128_000, false, 30));
        assert_eq!(view.policy(400).token_budget, 102_000);
        assert_eq!(with(&[], reply_quiet), Ok(Duration::from_secs(1)));
        assert!(!with(&[], MemoryConfig::from_env).unwrap().groups);
        assert!(with(&[], TelegramConfig::from_env).unwrap().is_none());
        assert!(with(&[], api_keys).unwrap().is_none());
    }

    #[test]
    fn a_channel_is_set_wholly_or_not_at_all() {
        let error = with(&[("TELEGRAM_BOT_TOKEN", "1:x")], TelegramConfig::from_env).unwrap_err();
        assert_eq!(error, "TELEGRAM_WEBHOOK_SECRET is not set, but TELEGRAM_BOT_TOKEN is: set all, or none");
        let empty = [("TELEGRAM_BOT_TOKEN", ""), ("TELEGRAM_WEBHOOK_SECRET", "")];
        assert!(with(&empty, TelegramConfig::from_env).unwrap().is_none());
        let both = [("TELEGRAM_BOT_TOKEN", "77:x"), ("TELEGRAM_WEBHOOK_SECRET", "s-3")];
        assert_eq!(with(&both, TelegramConfig::from_env).unwrap().unwrap().bot_id, 77);
    }

    #[test]
    fn errors_name_the_variable_and_never_its_value() {
        let cases: &[(&str, &str)] = &[
            ("SESSION_STALE_AFTER", "two days hunter2"),
            ("COMPACT_THRESHOLD", "hunter2"),
            ("CONTEXT_WINDOW", "-1hunter2"),
            ("SESSION_MODE", "hunter2"),
            ("KEEP_RECENT", "hunter2"),
            ("KEEP_RECENT", "0"),
        ];
        for (name, value) in cases {
            let error = with(&[(name, value)], ViewConfig::from_env).unwrap_err();
            assert!(error.starts_with(name) && !error.contains("hunter2"), "{error}");
        }
        for value in ["11s", "hunter2"] {
            let error = with(&[("REPLY_QUIET", value)], reply_quiet).unwrap_err();
            assert!(error.starts_with("REPLY_QUIET") && !error.contains(value), "{error}");
        }
        assert_eq!(with(&[("REPLY_QUIET", "0")], reply_quiet), Ok(Duration::ZERO));
        for value in [
            "hunter2",
            "a:",
            "a:hunter2:root",
            ":hunter2",
            "a:hunter2,a:x",
            "a/b:hunter2",
            "a:hunter2,b:hunter2",
        ] {
            let error = with(&[("HTTP_API_KEYS", value)], api_keys).unwrap_err();
            assert!(error.starts_with("HTTP_API_KEYS") && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_secret_that_can_be_guessed_does_not_start_in_aws() {
        let keys = |value, endpoint| {
            let read = with(&[("HTTP_API_KEYS", value), ("AWS_ENDPOINT_URL", endpoint)], deployed_api_keys);
            read.map(|keys| keys.map_or(0, |keys| keys.len()))
        };
        assert_eq!(keys("a:0123456789abcdef,b:0123456789abcdeg:admin", ""), Ok(2));
        assert_eq!(keys("", ""), Ok(0));
        assert_eq!(keys("a:hunter2", "http://localhost:4566"), Ok(1));
        let error = keys("a:0123456789abcdef,ops:0123456789abcde:admin", "").unwrap_err();
        assert!(
            error.starts_with("HTTP_API_KEYS") && error.contains("\"ops\"") && error.contains("openssl"),
            "{error}"
        );
        assert!(!error.contains("0123"), "{error}");
    }

    #[test]
    fn groups_have_a_memory_where_that_is_said_plainly() {
        let groups = |value| with(&[("CAPTURE_GROUP_MEMORY", value)], MemoryConfig::from_env);
        assert!(groups("true").unwrap().groups);
        assert_eq!(groups("yes").unwrap_err(), "CAPTURE_GROUP_MEMORY must be one of: true, false");
        let memory = |value| with(&[("MEMORY", value)], MemoryConfig::from_env);
        assert_eq!(
            (memory("off").map(|memory| memory.is_on), memory("on")),
            (Ok(false), Ok(MemoryConfig::default()))
        );
        assert_eq!(memory("no").unwrap_err(), "MEMORY must be one of: on, off");
    }

    #[test]
    fn responses_are_whole_unless_they_are_to_stream() {
        let responses = |value| with(&[("HTTP_RESPONSES", value)], HttpResponses::from_env);
        assert_eq!(responses("").unwrap(), HttpResponses::Buffered);
        assert_eq!(responses("streaming").unwrap(), HttpResponses::Streaming);
        assert_eq!(responses("stream").unwrap_err(), "HTTP_RESPONSES must be one of: buffered, streaming");
    }

    #[test]
    fn expiry_is_stale_time_plus_grace_and_never_without_an_archive() {
        let arrival = crate::sort_key::Timestamp::from_millis(1_000_000).unwrap();
        let expiry = |pairs: &[(&str, &str)]| with(pairs, retention).unwrap().expires_at(arrival);
        assert_eq!(expiry(&[]), Some(1_000 + (48 + 168) * 3600));
        assert_eq!(expiry(&[("SESSION_STALE_AFTER", "0")]), Some(1_000 + (48 + 168) * 3600));
        assert_eq!(expiry(&[("SESSION_STALE_AFTER", "1h"), ("ARCHIVE_GRACE", "1h")]), Some(1_000 + 7200));
        assert_eq!(expiry(&[("ARCHIVE_ON_COMPACT", "false")]), None);
        // A boundary outlasts whatever was said before it, in whatever order that leaves.
        let boundary = with(&[], retention).unwrap().boundary_expires_at(arrival);
        assert_eq!(boundary, Some(1_000 + 2 * (48 + 168) * 3600));
    }
}
