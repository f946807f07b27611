//! Settings of the local program: those of every function. Without secrets it uses development secrets, which everybody knows.
//! As soon as a platform is set up, a random key of the data directory ([`LocalConfig::with_key`]) replaces each secret that is
//! not set, since a real bot usually comes with a tunnel.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use annals_channel::settings::Settings;
use annals_channel::settings::{DeliveryConfig, access, agent_id, channel_settings};
use annals_channel_discord::settings::DiscordConfig;
use annals_core::chat_key::ChatKey;
use annals_core::settings::{ConfigError, Env, Setting};
use annals_engine::ingress::IngressConfig;
use annals_engine::profiles::{Profiles, ProfilesSetting};
use annals_engine::settings::{AgentConfig, ToolsConfig, ToolsSetting, reply_quiet};
use annals_http::settings::{
    ApiKey, CallRateLimit, CorsOrigins, api_keys, check_secrets, console, http_cors_origins, http_rate_limit,
};
use annals_runtime::channels::{self, ServedChannel};
use annals_store::history::Retention;
use annals_store::settings::retention;
use anyhow::ensure;
use secrecy::{ExposeSecret, SecretString};

use crate::profiles;
use crate::stores::files;
use crate::stores::private::secret_of;

/// Settings that only the local program has.
pub const SETTINGS: [Setting; 7] = [DATA_DIR, HOST, PORT, USER, URL, KEY, PROFILE];

pub(crate) const DATA_DIR: Setting = Setting::new(
    "ANNALS_DATA_DIR",
    ".annals",
    "local only: a folder that no other running Annals uses; it is made private to its owner",
);
const HOST: Setting = Setting::new(
    "ANNALS_HOST",
    "127.0.0.1",
    "local only: an IP address or `localhost`. Outside loopback, `HTTP_API_KEYS` must be set, only channels that are set up \
     are served, and `Host` is not checked",
);
const PORT: Setting =
    Setting::new("ANNALS_PORT", "3000", "local only: 0 to 65535; `0` picks a free one and prints it");
const USER: Setting =
    Setting::new("ANNALS_USER", "local", "local only: the person at the terminal, as `chat --user NAME`");

pub(crate) const URL: Setting = Setting::described(
    "ANNALS_URL",
    "this machine",
    "local only: the URL of the program or stack that the commands of the [terminal](guide.md#the-terminal) ask, as \
     `--url`",
);
pub(crate) const KEY: Setting = Setting::optional(
    "ANNALS_KEY",
    "local only: the secret of one of the `HTTP_API_KEYS` there. `--key` gives it, too, but shows it in the list of \
     processes",
);
pub(crate) const PROFILE: Setting = Setting::optional(
    "ANNALS_PROFILE",
    "local only: a name in `annals/profiles.json` of your configuration folder, in place of both, as `--profile`",
);

/// API key if no platform is set up: name `dev`, admin.
pub const DEV_API_KEY: &str = "dev";

/// Settings of the local program.
#[derive(Clone, Debug)]
pub struct LocalConfig {
    /// `ANNALS_DATA_DIR`
    pub data_dir: PathBuf,
    /// `ANNALS_HOST`
    pub host: IpAddr,
    /// `ANNALS_PORT`; 0 picks a free one.
    pub port: u16,
    /// `ANNALS_USER`: the person at the terminal.
    pub user: String,
    /// Settings of the agent, with `echo` as the default model.
    pub agent: AgentConfig,
    /// `REPLY_QUIET`
    pub reply_quiet: Duration,
    /// Settings of delivery.
    pub delivery: DeliveryConfig,
    /// Lifetime of records.
    pub retention: Retention,
    /// `HTTP_API_KEYS`
    pub api_keys: Option<Vec<ApiKey>>,
    /// The data directory's key, in place of each secret that is not set. Set by [`LocalConfig::with_key`].
    key: Option<SecretString>,
    /// `HTTP_CORS_ORIGINS`
    pub cors_origins: CorsOrigins,
    /// `HTTP_RATE_LIMIT`
    pub rate_limit: Option<CallRateLimit>,
    /// `CONSOLE`
    pub console: bool,
    /// The channels of platforms that are served: all, set up or not; outside the loopback range those that are set up.
    pub channels: Vec<Arc<dyn ServedChannel>>,
    /// Settings of all channels.
    pub channel_settings: Settings,
    /// The application whose gateway is relayed: one with a bot's token.
    pub relayed: Option<DiscordConfig>,
    /// Settings of receiving messages.
    pub ingress: Arc<IngressConfig>,
    /// `AGENTS`, `AGENTS_FOLDER`: the agents of the folder.
    pub profiles: Profiles,
    /// `TOOLS`
    pub tools: Option<ToolsConfig>,
}

impl LocalConfig {
    /// Reads the environment, and the files of the agents. Every setting has a default.
    pub fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        let host = env.value(&HOST);
        let host = if host == "localhost" { "127.0.0.1" } else { &host };
        let host: IpAddr =
            host.parse().map_err(|_| ConfigError::new(HOST.name, "must be an IP address or localhost"))?;
        let port = env.number(&PORT, "a port from 0 to 65535")?;
        let api_keys = api_keys(env)?;
        let channels = channels::local();
        let channels =
            channels.iter().map(|entry| (entry.from_env)(env)).collect::<Result<Vec<_>, ConfigError>>()?;

        if !host.is_loopback() {
            let Some(keys) = &api_keys else {
                let problem = "is outside the loopback range while the development API key is in use: set HTTP_API_KEYS first";
                return Err(ConfigError::new(HOST.name, problem));
            };
            check_secrets(keys)?;
        }
        // A channel that is not set up has a development secret, which everybody knows.
        let channels: Vec<_> =
            channels.into_iter().filter(|channel| host.is_loopback() || channel.is_set_up()).collect();
        let cors_origins = http_cors_origins(env)?;
        if cors_origins == CorsOrigins::Any && api_keys.is_none() {
            let problem =
                "is * while the development key is in use, which every page knows: set HTTP_API_KEYS first";
            return Err(ConfigError::new("HTTP_CORS_ORIGINS", problem));
        }
        let tools = match ToolsSetting::from_env(env)? {
            None => None,
            Some(ToolsSetting::Given(tools)) => Some(tools),
            Some(ToolsSetting::Stored { .. }) => {
                let problem =
                    "names an object of S3, which only a deployed agent reads: give the document itself";
                return Err(ConfigError::new("TOOLS", problem));
            }
        };
        let ingress = IngressConfig { access: access(env)?, ..IngressConfig::from_env(env)? };
        if ingress.usage.admins.is_empty()
            && let Some(tool) = tools.as_ref().and_then(ToolsConfig::for_admins_alone)
        {
            let problem = format!("is not set, but TOOLS lets only administrators approve {tool}: name them");
            return Err(ConfigError::new("ADMINS", problem));
        }
        let agent = AgentConfig::from_env(env, Some("echo"))?;
        Ok(Self {
            profiles: profiles::read(&ProfilesSetting::from_env(
                env,
                &agent.memory.agents,
                agent.model.names(),
            )?)?,
            data_dir: data_dir(env),
            host,
            port,
            user: user(env)?,
            agent,
            reply_quiet: reply_quiet(env)?,
            delivery: DeliveryConfig::from_env(env)?,
            retention: retention(env)?,
            cors_origins,
            rate_limit: http_rate_limit(env)?,
            console: console(env, true)?,
            api_keys,
            key: None,
            channels,
            channel_settings: channel_settings(env)?,
            relayed: DiscordConfig::from_env(env)?.filter(|config| config.bot_token.is_some()),
            ingress: ingress.into(),
            tools,
        })
    }

    /// Returns true if everybody who finds the bot can make it call the tools of `TOOLS`.
    pub fn opens_tools(&self) -> bool {
        self.tools.is_some() && self.ingress.access.is_open()
    }

    /// Returns the settings with the data directory's key in place of each secret that is not set, if a platform is set up.
    /// Creates the key if there is none; it stays the same, so printed calls still work after a restart. Fails if the key is in
    /// use and the directory does not exist.
    pub fn with_key(self) -> anyhow::Result<Self> {
        let is_complete = self.api_keys.is_some() && self.channels.iter().all(|channel| channel.is_set_up());
        let key = if self.serves_a_platform() && !is_complete {
            let dir = self.data_dir.display();
            ensure!(
                self.data_dir.is_dir(),
                "there is no data in {dir}: start Annals there first (cargo run)"
            );
            let path = self.data_dir.join(files::KEY);
            let key = secret_of(&path)?;
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
            // As the platforms take a secret. Nobody but an operator writes another.
            ensure!(
                key.expose_secret().bytes().all(is_plain) && key.expose_secret().len() <= 256,
                "{} must have 32 to 256 characters of A-Z, a-z, 0-9, _ and -: correct it, or remove it for a new one",
                path.display()
            );
            Some(key)
        } else {
            None
        };
        Ok(Self { key, ..self })
    }

    /// Returns true if a platform is set up. Then a tunnel may lead here, so no development secret is valid.
    fn serves_a_platform(&self) -> bool {
        self.channels.iter().any(|channel| channel.is_set_up())
    }

    /// Returns the data directory's key, if it is in use.
    pub fn key(&self) -> Option<&SecretString> {
        self.key.as_ref()
    }

    /// Returns the keys of the HTTP API: `HTTP_API_KEYS`, or an admin key named `dev`.
    pub fn api_keys(&self) -> Vec<ApiKey> {
        let own = || ApiKey { name: "dev".into(), secret: self.or_key(DEV_API_KEY), admin: true };
        self.api_keys.clone().unwrap_or_else(|| vec![own()])
    }

    /// Returns the keys for the outbox, which an admin key opens. Returns none if no platform is set up: then every caller on this
    /// machine may read it.
    pub fn outbox_keys(&self) -> Vec<ApiKey> {
        if self.serves_a_platform() { self.api_keys() } else { Vec::new() }
    }

    /// Returns the secret settings of all channels, for functions that run beside the program.
    pub fn channel_secrets(&self) -> Vec<(&'static str, SecretString)> {
        self.channels.iter().flat_map(|channel| channel.secrets(self.key())).collect()
    }

    fn or_key(&self, development: &str) -> SecretString {
        self.key.clone().unwrap_or_else(|| development.into())
    }
}

/// Returns `names` as a list, with `last` before the last one.
pub(crate) fn joined(names: &[&str], last: &str) -> String {
    match names {
        [names @ .., name] if !names.is_empty() => format!("{} {last} {name}", names.join(", ")),
        names => names.concat(),
    }
}

/// Reads `ANNALS_USER`, by default `local`.
pub(crate) fn user(env: Env<'_>) -> Result<String, ConfigError> {
    let user = env.value(&USER);
    match ChatKey::direct(&agent_id(env)?, &user) {
        Ok(_) => Ok(user),
        Err(error) => Err(ConfigError::new(USER.name, format!("cannot be part of a chat key: {error}"))),
    }
}

/// Returns `ANNALS_DATA_DIR`, by default `.annals`.
pub fn data_dir(env: Env<'_>) -> PathBuf {
    env.value(&DATA_DIR).into()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use annals_core::record::Channel;

    use super::*;

    fn config(settings: &[(&str, &str)]) -> Result<LocalConfig, String> {
        let lookup =
            |name: &str| settings.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        LocalConfig::from_env(Env::new(&lookup)).map_err(|error| error.to_string())
    }

    #[test]
    fn setting_up_a_platform_replaces_every_development_secret() {
        const TELEGRAM: [(&str, &str); 2] =
            [("TELEGRAM_BOT_TOKEN", "1:x"), ("TELEGRAM_WEBHOOK_SECRET", "own")];
        const LARK: [(&str, &str); 3] =
            [("LARK_APP_ID", "cli_1"), ("LARK_APP_SECRET", "s"), ("LARK_VERIFICATION_TOKEN", "own")];
        const KEYS: [(&str, &str); 1] = [("HTTP_API_KEYS", "a:own:admin")];
        let dir = tempfile::tempdir().unwrap();
        let dir = [("ANNALS_DATA_DIR", dir.path().to_str().unwrap())];
        let secrets = |settings: &[&[(&str, &str)]]| {
            let config = config(&[settings, &[&dir]].concat().concat()).unwrap().with_key().unwrap();
            let channels: HashMap<_, _> = config.channel_secrets().into_iter().collect();
            let secrets = [
                config.api_keys().remove(0).secret,
                channels["TELEGRAM_WEBHOOK_SECRET"].clone(),
                channels["LARK_VERIFICATION_TOKEN"].clone(),
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
    fn a_key_that_no_platform_takes_is_refused_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(files::KEY);
        let data_dir = ("ANNALS_DATA_DIR", dir.path().to_str().unwrap());
        let bot = [data_dir, ("TELEGRAM_BOT_TOKEN", "1:x"), ("TELEGRAM_WEBHOOK_SECRET", "own")];
        for (written, words) in [
            ("+".repeat(40), "api-key must have 32 to 256 characters of A-Z"),
            ("hunter2".into(), "api-key must have at least 32 characters"),
        ] {
            std::fs::write(&file, &written).unwrap();
            let error = config(&bot).unwrap().with_key().err().unwrap().to_string();
            assert!(error.contains(words) && !error.contains(&written), "{error}");
            assert_eq!(std::fs::read_to_string(&file).unwrap(), written, "it is left");
        }
        // A crash has left it.
        std::fs::write(&file, "0a1b").unwrap();
        assert_eq!(config(&bot).unwrap().with_key().unwrap().key().unwrap().expose_secret().len(), 40);
    }

    #[test]
    fn before_the_first_start_there_is_no_key() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("data");
        let data_dir = ("ANNALS_DATA_DIR", dir.to_str().unwrap());
        let bot = [data_dir, ("TELEGRAM_BOT_TOKEN", "1:x"), ("TELEGRAM_WEBHOOK_SECRET", "own")];
        let error = config(&bot).unwrap().with_key().err().unwrap().to_string();
        assert!(error.ends_with("data: start Annals there first (cargo run)"), "{error}");
    }

    #[test]
    fn cors_for_all_origins_needs_a_key_of_its_own() {
        let error = config(&[("HTTP_CORS_ORIGINS", "*")]).unwrap_err();
        assert!(error.starts_with("HTTP_CORS_ORIGINS") && error.contains("HTTP_API_KEYS"), "{error}");
        assert!(config(&[("HTTP_CORS_ORIGINS", "*"), ("HTTP_API_KEYS", "a:b")]).is_ok());
        assert!(config(&[("HTTP_CORS_ORIGINS", "http://localhost:5173")]).is_ok());
    }

    #[test]
    fn tools_for_administrators_need_an_administrator() {
        let tools = r#"{"mcpServers": {"shop": {"url": "http://x/mcp", "tools": {"refund": {"approval": "admins"}}}}}"#;
        let error = config(&[("TOOLS", tools)]).unwrap_err();
        assert!(error.starts_with("ADMINS is not set") && error.contains("shop_refund"), "{error}");
        assert!(config(&[("TOOLS", tools), ("ADMINS", "telegram-42")]).is_ok());
    }

    #[test]
    fn development_secrets_stay_on_loopback() {
        let error = config(&[("ANNALS_HOST", "0.0.0.0")]).unwrap_err();
        assert!(error.starts_with("ANNALS_HOST") && error.contains("set HTTP_API_KEYS first"), "{error}");
        let set = [
            ("ANNALS_HOST", "0.0.0.0"),
            ("HTTP_API_KEYS", "a:0123456789abcdef"),
            ("TELEGRAM_BOT_TOKEN", "1:x"),
            ("TELEGRAM_WEBHOOK_SECRET", "s"),
        ];
        let served = |settings| -> Vec<&'static str> {
            let config = config(settings).unwrap();
            config.channels.iter().map(|channel| channel.about().platform()).collect()
        };
        assert_eq!(served(&set), ["Telegram"]);
        let all: Vec<_> = Channel::platforms().map(Channel::title).collect();
        assert_eq!(served(&[("ANNALS_HOST", "127.0.0.1")]), all);
        let guessed = set
            .map(|(name, value)| if name == "HTTP_API_KEYS" { (name, "a:hunter2") } else { (name, value) });
        let error = config(&guessed).unwrap_err();
        assert!(error.starts_with("HTTP_API_KEYS") && !error.contains("hunter2"), "{error}");
        assert!(config(&[("ANNALS_HOST", "::1")]).is_ok());
    }
}
