//! Settings of the local program: those of every function, with development secrets where none are set.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use annals_shared::access::Access;
use annals_shared::channel::settings::Settings;
use annals_shared::config::{
    AgentConfig, ApiKey, ConfigError, CorsOrigins, DeliveryConfig, Env, LarkConfig, RateLimit,
    TelegramConfig, ToolsSetting, access, admins, api_keys, channel_settings, console, http_cors_origins,
    http_rate_limit, reply_quiet, retention,
};
use annals_shared::history::Retention;
use secrecy::SecretString;

/// The API key where `HTTP_API_KEYS` is not set: name `dev`, admin.
pub const DEV_API_KEY: &str = "dev";
/// What `/telegram` wants in its secret header where Telegram is not set up.
pub const DEV_TELEGRAM_SECRET: &str = "dev-telegram-secret";

/// The token of a function that is run beside the program where Telegram is not set up; Telegram takes it for no bot.
pub const DEV_TELEGRAM_TOKEN: &str = "1:development";
/// The same for Lark: the app's id and secret.
pub const DEV_LARK_APP: (&str, &str) = ("cli_development", "development");

/// What `/lark` wants in each event where Lark is not set up.
pub const DEV_LARK_TOKEN: &str = "dev-lark-token";

/// Everything the local program is told.
#[derive(Clone, Debug)]
pub struct LocalConfig {
    /// `ANNALS_DATA_DIR`
    pub data_dir: PathBuf,
    /// `ANNALS_HOST`
    pub host: IpAddr,
    /// `ANNALS_PORT`; 0 picks a free one.
    pub port: u16,
    /// The agent, with `echo` as the default model.
    pub agent: AgentConfig,
    /// `REPLY_QUIET`
    pub reply_quiet: Duration,
    /// How replies go out.
    pub delivery: DeliveryConfig,
    /// How long records stay.
    pub retention: Retention,
    /// `HTTP_API_KEYS`, or the development key.
    pub api_keys: Vec<ApiKey>,
    /// Whether `api_keys` is the development key, which anybody knows.
    pub uses_dev_key: bool,
    /// `HTTP_CORS_ORIGINS`
    pub cors_origins: CorsOrigins,
    /// `HTTP_RATE_LIMIT`
    pub rate_limit: Option<RateLimit>,
    /// `CONSOLE`
    pub console: bool,
    /// Telegram, if it is set up.
    pub telegram: Option<TelegramConfig>,
    /// Lark, if it is set up.
    pub lark: Option<LarkConfig>,
    /// How every channel's messages are read.
    pub channel_settings: Settings,
    /// `TOOLS`
    pub tools: Option<ToolsSetting>,
    /// `ADMINS`
    pub admins: Vec<String>,
    /// `ALLOW_FROM`, `ALLOW_CHATS`
    pub access: Access,
}

impl LocalConfig {
    /// From the environment. With nothing set at all it works.
    pub fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        let host = env.optional("ANNALS_HOST").unwrap_or_else(|| "127.0.0.1".into());
        let host = if host == "localhost" { "127.0.0.1" } else { &host };
        let host: IpAddr = host
            .parse()
            .map_err(|_| ConfigError::new("ANNALS_HOST", "must be an IP address or localhost"))?;
        let port = env.optional("ANNALS_PORT").unwrap_or_else(|| "3000".into());
        let port =
            port.parse().map_err(|_| ConfigError::new("ANNALS_PORT", "must be a port from 0 to 65535"))?;
        let api_keys = api_keys(env)?;
        let telegram = TelegramConfig::from_env(env)?;
        let lark = LarkConfig::from_env(env)?;

        let mut with_dev_secret = Vec::new();
        if api_keys.is_none() {
            with_dev_secret.push("HTTP_API_KEYS");
        }
        if telegram.is_none() {
            with_dev_secret.push("TELEGRAM_BOT_TOKEN and TELEGRAM_WEBHOOK_SECRET");
        }
        if lark.is_none() {
            with_dev_secret.push("LARK_APP_ID, LARK_APP_SECRET and LARK_VERIFICATION_TOKEN");
        }
        if !host.is_loopback() && !with_dev_secret.is_empty() {
            let problem = format!(
                "is outside the loopback range while development secrets are in use: set {} first",
                with_dev_secret.join(", ")
            );
            return Err(ConfigError::new("ANNALS_HOST", problem));
        }
        let cors_origins = http_cors_origins(env)?;
        if cors_origins == CorsOrigins::Any && api_keys.is_none() {
            let problem =
                "is * while the development key is in use, which every page knows: set HTTP_API_KEYS first";
            return Err(ConfigError::new("HTTP_CORS_ORIGINS", problem));
        }
        let (tools, admins) = (ToolsSetting::from_env(env)?, admins(env)?);
        if admins.is_empty()
            && let Some(ToolsSetting::Given(given)) = &tools
            && let Some(tool) = given.for_admins_alone()
        {
            let problem = format!("is not set, but TOOLS lets only administrators approve {tool}: name them");
            return Err(ConfigError::new("ADMINS", problem));
        }
        let dev_key = || vec![ApiKey { name: "dev".into(), secret: DEV_API_KEY.into(), admin: true }];
        Ok(Self {
            data_dir: data_dir(env),
            host,
            port,
            agent: AgentConfig::from_env(env, Some("echo"))?,
            reply_quiet: reply_quiet(env)?,
            delivery: DeliveryConfig::from_env(env)?,
            retention: retention(env)?,
            uses_dev_key: api_keys.is_none(),
            cors_origins,
            rate_limit: http_rate_limit(env)?,
            console: console(env, true)?,
            api_keys: api_keys.unwrap_or_else(dev_key),
            telegram,
            lark,
            channel_settings: channel_settings(env)?,
            tools,
            admins,
            access: access(env)?,
        })
    }

    /// Returns whether everybody who finds the bot can have the tools of `TOOLS` called.
    pub fn opens_tools(&self) -> bool {
        self.tools.is_some() && self.access.is_open()
    }

    /// What `/lark` wants in each event.
    pub fn lark_token(&self) -> SecretString {
        self.lark.as_ref().map_or_else(|| DEV_LARK_TOKEN.into(), |lark| lark.verification_token.clone())
    }

    /// What `/telegram` wants in its secret header.
    pub fn telegram_secret(&self) -> SecretString {
        self.telegram.as_ref().map_or_else(|| DEV_TELEGRAM_SECRET.into(), |telegram| telegram.secret.clone())
    }
}

/// `ANNALS_DATA_DIR`, by default `.annals`.
pub fn data_dir(env: Env<'_>) -> PathBuf {
    env.optional("ANNALS_DATA_DIR").unwrap_or_else(|| ".annals".into()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(settings: &[(&str, &str)]) -> Result<LocalConfig, String> {
        let lookup =
            |name: &str| settings.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        LocalConfig::from_env(Env::new(&lookup)).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_set_is_a_working_program_on_loopback() {
        let config = config(&[]).unwrap();
        assert!(config.host.is_loopback() && config.port == 3000 && config.telegram.is_none());
        assert_eq!((config.api_keys[0].name.as_str(), config.api_keys[0].admin), ("dev", true));
    }

    #[test]
    fn not_every_page_may_use_the_development_key() {
        let error = config(&[("HTTP_CORS_ORIGINS", "*")]).unwrap_err();
        assert!(error.starts_with("HTTP_CORS_ORIGINS") && error.contains("HTTP_API_KEYS"), "{error}");
        assert!(config(&[("HTTP_CORS_ORIGINS", "*"), ("HTTP_API_KEYS", "a:b")]).is_ok());
        assert!(config(&[("HTTP_CORS_ORIGINS", "http://localhost:5173")]).is_ok());
    }

    #[test]
    fn what_only_administrators_approve_needs_one() {
        let tools = r#"{"mcpServers": {"shop": {"url": "http://x/mcp", "tools": {"refund": {"approval": "admins"}}}}}"#;
        let error = config(&[("TOOLS", tools)]).unwrap_err();
        assert!(error.starts_with("ADMINS is not set") && error.contains("shop_refund"), "{error}");
        assert!(config(&[("TOOLS", tools), ("ADMINS", "telegram-42")]).is_ok());
    }

    #[test]
    fn development_secrets_stay_on_loopback() {
        let error = config(&[("ANNALS_HOST", "0.0.0.0")]).unwrap_err();
        assert!(
            error.starts_with("ANNALS_HOST")
                && error.contains("HTTP_API_KEYS")
                && error.contains("TELEGRAM_BOT_TOKEN")
        );
        let set = [
            ("ANNALS_HOST", "0.0.0.0"),
            ("HTTP_API_KEYS", "a:b"),
            ("TELEGRAM_BOT_TOKEN", "1:x"),
            ("TELEGRAM_WEBHOOK_SECRET", "s"),
            ("LARK_APP_ID", "cli_1"),
            ("LARK_APP_SECRET", "s"),
            ("LARK_VERIFICATION_TOKEN", "t"),
        ];
        assert!(config(&set).is_ok());
        assert!(config(&[("ANNALS_HOST", "::1")]).is_ok());
    }
}
