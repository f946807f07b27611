//! Settings of the local program: those of every function. With no secret set it uses development secrets, which everybody knows.
//! As soon as a platform is set up, a random key of the data directory ([`LocalConfig::with_key`]) takes the place of each that is
//! not: somebody who has a real bot mostly has a tunnel, too.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use annals_shared::access::Access;
use annals_shared::channel::settings::Settings;
use annals_shared::config::{
    AgentConfig, ApiKey, ConfigError, CorsOrigins, DeliveryConfig, Env, LarkConfig, RateLimit,
    TelegramConfig, ToolsSetting, access, admins, api_keys, channel_settings, check_secrets, console,
    http_cors_origins, http_rate_limit, reply_quiet, retention,
};
use annals_shared::history::Retention;
use secrecy::SecretString;

use crate::stores::private::secret_of;

/// The data directory's key.
pub(crate) const KEY_FILE: &str = "api-key";

/// The API key as long as no platform is set up: name `dev`, admin.
pub const DEV_API_KEY: &str = "dev";
/// The secret header of `/telegram` as long as no platform is set up.
pub const DEV_TELEGRAM_SECRET: &str = "dev-telegram-secret";

/// The token of a function that is run beside the program where Telegram is not set up; Telegram takes it for no bot.
pub const DEV_TELEGRAM_TOKEN: &str = "1:development";
/// The same for Lark: the app's id and secret.
pub const DEV_LARK_APP: (&str, &str) = ("cli_development", "development");

/// The token of `/lark`'s events as long as no platform is set up.
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
    /// `HTTP_API_KEYS`
    pub api_keys: Option<Vec<ApiKey>>,
    /// The data directory's key, in the place of each secret that is not set. Set by [`LocalConfig::with_key`].
    key: Option<SecretString>,
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
        if !host.is_loopback() {
            check_secrets(api_keys.as_deref().unwrap_or_default())?;
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
        Ok(Self {
            data_dir: data_dir(env),
            host,
            port,
            agent: AgentConfig::from_env(env, Some("echo"))?,
            reply_quiet: reply_quiet(env)?,
            delivery: DeliveryConfig::from_env(env)?,
            retention: retention(env)?,
            cors_origins,
            rate_limit: http_rate_limit(env)?,
            console: console(env, true)?,
            api_keys,
            key: None,
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

    /// Returns it with the data directory's key, made if there is none, in place of each secret that is not set, if a platform
    /// is set up. The directory exists. The key stays the same: what was printed once works after a restart.
    pub fn with_key(self) -> anyhow::Result<Self> {
        let is_complete = self.api_keys.is_some() && self.telegram.is_some() && self.lark.is_some();
        let key = if self.serves_a_platform() && !is_complete {
            Some(secret_of(&self.data_dir.join(KEY_FILE))?)
        } else {
            None
        };
        Ok(Self { key, ..self })
    }

    /// Returns whether a platform is set up: then a tunnel may lead here, and nothing that everybody knows opens anything.
    fn serves_a_platform(&self) -> bool {
        self.telegram.is_some() || self.lark.is_some()
    }

    /// The data directory's key, if it is in use.
    pub fn key(&self) -> Option<&SecretString> {
        self.key.as_ref()
    }

    /// The keys of the HTTP API: `HTTP_API_KEYS`, or one named `dev`, an admin's.
    pub fn api_keys(&self) -> Vec<ApiKey> {
        let own = || ApiKey { name: "dev".into(), secret: self.or_key(DEV_API_KEY), admin: true };
        self.api_keys.clone().unwrap_or_else(|| vec![own()])
    }

    /// Returns the keys of which an admin's opens the outbox; none if it is open to this machine, as long as no platform is set
    /// up.
    pub fn outbox_keys(&self) -> Vec<ApiKey> {
        if self.serves_a_platform() { self.api_keys() } else { Vec::new() }
    }

    /// The token of `/lark`'s events.
    pub fn lark_token(&self) -> SecretString {
        self.lark.as_ref().map_or_else(|| self.or_key(DEV_LARK_TOKEN), |lark| lark.verification_token.clone())
    }

    /// The secret header of `/telegram`.
    pub fn telegram_secret(&self) -> SecretString {
        self.telegram
            .as_ref()
            .map_or_else(|| self.or_key(DEV_TELEGRAM_SECRET), |telegram| telegram.secret.clone())
    }

    fn or_key(&self, development: &str) -> SecretString {
        self.key.clone().unwrap_or_else(|| development.into())
    }
}

/// `ANNALS_DATA_DIR`, by default `.annals`.
pub fn data_dir(env: Env<'_>) -> PathBuf {
    env.optional("ANNALS_DATA_DIR").unwrap_or_else(|| ".annals".into()).into()
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

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
        let keys = config.with_key().unwrap().api_keys();
        assert_eq!((keys[0].name.as_str(), keys[0].admin), ("dev", true));
        assert_eq!(keys[0].secret.expose_secret(), DEV_API_KEY);
    }

    #[test]
    fn a_platform_that_is_set_up_ends_every_development_secret() {
        const TELEGRAM: [(&str, &str); 2] =
            [("TELEGRAM_BOT_TOKEN", "1:x"), ("TELEGRAM_WEBHOOK_SECRET", "own")];
        const LARK: [(&str, &str); 3] =
            [("LARK_APP_ID", "cli_1"), ("LARK_APP_SECRET", "s"), ("LARK_VERIFICATION_TOKEN", "own")];
        const KEYS: [(&str, &str); 1] = [("HTTP_API_KEYS", "a:own:admin")];
        let dir = tempfile::tempdir().unwrap();
        let dir = [("ANNALS_DATA_DIR", dir.path().to_str().unwrap())];
        let secrets = |settings: &[&[(&str, &str)]]| {
            let config = config(&[settings, &[&dir]].concat().concat()).unwrap().with_key().unwrap();
            let secrets = [
                config.api_keys().remove(0).secret,
                config.telegram_secret(),
                config.lark_token(),
                config.outbox_keys().pop().map_or_else(|| "".into(), |key| key.secret),
            ];
            secrets.map(|secret| secret.expose_secret().to_owned())
        };
        assert_eq!(secrets(&[]), ["dev", "dev-telegram-secret", "dev-lark-token", ""]);
        let [key, telegram, lark, outbox] = secrets(&[&TELEGRAM]);
        assert_eq!((key.len(), telegram.as_str()), (40, "own"));
        assert_eq!([&lark, &outbox], [&key, &key]);
        let key = key.as_str();
        assert_eq!(secrets(&[&LARK]), [key, key, "own", key], "it stays the same");
        assert_eq!(secrets(&[&KEYS, &LARK]), ["own", key, "own", "own"]);
        assert_eq!(secrets(&[&KEYS]), ["own", "dev-telegram-secret", "dev-lark-token", ""]);
        assert_eq!(secrets(&[&KEYS, &TELEGRAM, &LARK]), ["own"; 4]);
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
            ("HTTP_API_KEYS", "a:0123456789abcdef"),
            ("TELEGRAM_BOT_TOKEN", "1:x"),
            ("TELEGRAM_WEBHOOK_SECRET", "s"),
            ("LARK_APP_ID", "cli_1"),
            ("LARK_APP_SECRET", "s"),
            ("LARK_VERIFICATION_TOKEN", "t"),
        ];
        assert!(config(&set).is_ok());
        let guessed = set
            .map(|(name, value)| if name == "HTTP_API_KEYS" { (name, "a:hunter2") } else { (name, value) });
        let error = config(&guessed).unwrap_err();
        assert!(error.starts_with("HTTP_API_KEYS") && !error.contains("hunter2"), "{error}");
        assert!(config(&[("ANNALS_HOST", "::1")]).is_ok());
    }
}
