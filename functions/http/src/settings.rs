//! Settings of the HTTP API.

use annals_core::chat_key::ChatKey;
use annals_core::settings::{ConfigError, Env, Setting};
use annals_engine::settings::model_names;
use axum::http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

/// Settings of the HTTP API.
pub const SETTINGS: [Setting; 5] = [
    Setting::described(
        API_KEYS,
        "locally `dev:dev:admin`, with a platform set up `dev:<the key in .annals/api-key>:admin`; required deployed",
        "comma-separated `name:secret` or `name:secret:admin`; no `/` in names. Deployed, or with `ANNALS_HOST` \
         outside loopback, a secret has at least 16 characters: `openssl rand -hex 32`",
    ),
    Setting::optional(
        ORIGINS,
        "`*`, or comma-separated origins such as `https://app.example.com`, whose pages may call the HTTP API. \
         Locally `*` needs your own `HTTP_API_KEYS`",
    ),
    Setting::optional(
        RATE,
        "`<requests a second>` or `<requests a second>:<burst>`, such as `10`, `0.5`, `10:50`, for one key in one \
         process. Deployed, each environment counts for itself; `ApiRateLimit` of the stack bounds all",
    ),
    CONSOLE,
    HTTP_RESPONSES,
];

const API_KEYS: &str = "HTTP_API_KEYS";
const ORIGINS: &str = "HTTP_CORS_ORIGINS";
const RATE: &str = "HTTP_RATE_LIMIT";
const CONSOLE: Setting = Setting::described(
    "CONSOLE",
    "locally `true`, deployed `false`",
    "`true`, `false`: serves the console at `/`",
);
const HTTP_RESPONSES: Setting = Setting::new(
    "HTTP_RESPONSES",
    "buffered",
    "`buffered`, `streaming`: deployed only; `streaming` is for a function URL",
);

/// Settings of the API. By default it has no callers, no limit of calls, no pages of other origins and no console.
#[derive(Default)]
pub struct HttpConfig {
    /// `HTTP_API_KEYS`
    pub keys: Vec<ApiKey>,
    /// Names of the models that a chat may have: `MODEL`, `MODEL_FALLBACK`, `MODELS`
    pub models: Vec<String>,
    /// `SYSTEM_PROMPT`
    pub system_prompt: Option<String>,
    /// `HTTP_CORS_ORIGINS`: origins whose pages may call the API from a browser.
    pub cors_origins: CorsOrigins,
    /// `CONSOLE`: serves the console at `/`.
    pub console: bool,
    /// `HTTP_RATE_LIMIT`: calls of one key to this process.
    pub rate_limit: Option<CallRateLimit>,
}

impl HttpConfig {
    /// Reads the settings of a deployed function. Keys are required.
    pub fn deployed(env: Env<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            keys: deployed_api_keys(env)?.ok_or_else(|| ConfigError::new(API_KEYS, "is not set"))?,
            models: model_names(env)?,
            system_prompt: env.optional("SYSTEM_PROMPT"),
            cors_origins: http_cors_origins(env)?,
            console: console(env, false)?,
            rate_limit: http_rate_limit(env)?,
        })
    }
}

/// `HTTP_CORS_ORIGINS`: origins whose pages may call the API from a browser.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CorsOrigins {
    /// None: no response has CORS headers.
    #[default]
    None,
    /// `*`: all origins.
    Any,
    /// These origins, as browsers send them in `Origin`: `https://app.example.com`.
    These(Vec<HeaderValue>),
}

impl CorsOrigins {
    /// Returns true if pages of `origin` may call the API.
    pub fn include(&self, origin: &HeaderValue) -> bool {
        match self {
            Self::None => false,
            Self::Any => true,
            Self::These(origins) => origins.contains(origin),
        }
    }
}

/// Reads `HTTP_CORS_ORIGINS`: `*`, or comma-separated origins.
pub fn http_cors_origins(env: Env<'_>) -> Result<CorsOrigins, ConfigError> {
    let Some(value) = env.optional(ORIGINS) else { return Ok(CorsOrigins::None) };
    if value.trim() == "*" {
        return Ok(CorsOrigins::Any);
    }
    let origin = |text: &str| {
        // A browser sends scheme, host and port in lower case, and nothing else.
        let name = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".:-_[]".contains(c);
        (!name.is_empty() && name.chars().all(is_part)).then(|| HeaderValue::from_str(text).ok()).flatten()
    };
    let origins: Option<Vec<HeaderValue>> = value.split(',').map(|text| origin(text.trim())).collect();
    origins.map(CorsOrigins::These).ok_or_else(|| {
        ConfigError::new(
            ORIGINS,
            "must be *, or comma-separated origins such as https://app.example.com, in lower case and without a path",
        )
    })
}

/// Reads `CONSOLE`: if true, the console is served at `/`. `default` is used if it is not set.
pub fn console(env: Env<'_>, default: bool) -> Result<bool, ConfigError> {
    env.flag_or(&CONSOLE, default)
}

/// `HTTP_RATE_LIMIT`: rate at which one API key may call one process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallRateLimit {
    /// Requests per second, more than 0.
    pub per_second: f64,
    /// Maximum number of requests at once, at least 1.
    pub burst: u32,
}

/// Reads `HTTP_RATE_LIMIT`: requests per second, optionally followed by `:` and the burst; `None` if it is not set.
pub fn http_rate_limit(env: Env<'_>) -> Result<Option<CallRateLimit>, ConfigError> {
    const MOST: f64 = 100_000.0;
    let Some(value) = env.optional(RATE) else { return Ok(None) };
    let (rate, burst) = match value.split_once(':') {
        Some((rate, burst)) => (rate, Some(burst)),
        None => (value.as_str(), None),
    };
    let per_second = rate.parse().ok().filter(|rate: &f64| *rate > 0.0 && *rate <= MOST);
    let burst = match (burst, per_second) {
        (Some(burst), _) => burst.parse().ok().filter(|burst: &u32| *burst > 0),
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number between 1 and a hundred thousand"
        )]
        (None, rate) => rate.map(|rate| rate.ceil() as u32),
    };
    match (per_second, burst) {
        (Some(per_second), Some(burst)) => Ok(Some(CallRateLimit { per_second, burst })),
        _ => Err(ConfigError::new(
            RATE,
            "must be requests a second, over 0 and at most 100000, optionally followed by a colon and the number that \
             may come at once: 10 or 10:50",
        )),
    }
}

/// `HTTP_RESPONSES`: the way in which a function returns its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpResponses {
    /// As a whole, at most 6 MB: for an HTTP API.
    Buffered,
    /// In pieces, as they are made: only for a function URL whose `InvokeMode` is `RESPONSE_STREAM`.
    Streaming,
}

impl HttpResponses {
    /// Reads the settings.
    pub fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        let choices = [("buffered", Self::Buffered), ("streaming", Self::Streaming)];
        env.choice(&HTTP_RESPONSES, &choices)
    }
}

/// A key of the HTTP API.
#[derive(Clone, Debug)]
pub struct ApiKey {
    /// Name of the key. It is part of the chat keys of its conversations.
    pub name: String,
    /// Secret that a caller sends as `Authorization: Bearer <secret>`.
    pub secret: SecretString,
    /// True if the key may read every chat.
    pub admin: bool,
}

/// Minimum length of a secret in a program that others than this machine can reach.
pub const MIN_SECRET_CHARS: usize = 16;

/// Reads the `HTTP_API_KEYS` of a deployed function, whose secrets must have at least [`MIN_SECRET_CHARS`]. Any secret
/// is accepted if `AWS_ENDPOINT_URL` names an emulator.
pub fn deployed_api_keys(env: Env<'_>) -> Result<Option<Vec<ApiKey>>, ConfigError> {
    let keys = api_keys(env)?;
    if env.optional("AWS_ENDPOINT_URL").is_none() {
        check_secrets(keys.as_deref().unwrap_or_default())?;
    }
    Ok(keys)
}

/// Refuses keys whose secrets can be guessed.
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

/// Reads `HTTP_API_KEYS`: comma-separated `name:secret` or `name:secret:admin`; `None` if it is not set.
pub fn api_keys(env: Env<'_>) -> Result<Option<Vec<ApiKey>>, ConfigError> {
    let Some(value) = env.optional(API_KEYS) else { return Ok(None) };
    let mut keys: Vec<ApiKey> = Vec::new();
    for (index, entry) in value.split(',').map(str::trim).enumerate() {
        // Names the entry by its position, since it contains a secret.
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
    use annals_core::settings::from_table;

    use super::*;

    fn with<T>(value: &str, read: impl Fn(Env<'_>) -> Result<T, ConfigError>) -> Result<T, String> {
        let lookup = |_: &str| Some(value.to_owned());
        read(Env::new(&lookup)).map_err(|error| error.to_string())
    }

    /// Checks that each value is refused by an error that names the variable and holds no secret.
    fn refused<T: std::fmt::Debug>(
        name: &str,
        values: &[&str],
        read: impl Fn(Env<'_>) -> Result<T, ConfigError> + Copy,
    ) {
        for value in values {
            let error = with(value, read).unwrap_err();
            assert!(error.starts_with(name) && !error.contains("hunter2"), "{value}: {error}");
        }
    }

    #[test]
    fn an_invalid_key_is_refused() {
        assert!(from_table(&[], api_keys).unwrap().is_none());
        let same = ["a:hunter2,a:x", "a:hunter2,b:hunter2"];
        refused(API_KEYS, &["hunter2", "a:", "a:hunter2:root", ":hunter2", "a/b:hunter2"], api_keys);
        refused(API_KEYS, &same, api_keys);
    }

    #[test]
    fn origins_are_as_browsers_send_them() {
        let these = |origins: &[&'static str]| {
            CorsOrigins::These(origins.iter().map(|origin| HeaderValue::from_static(origin)).collect())
        };
        for (value, expected) in [
            ("", CorsOrigins::None),
            ("*", CorsOrigins::Any),
            ("https://app.example.com", these(&["https://app.example.com"])),
            (
                "http://localhost:5173, https://[::1]:8443",
                these(&["http://localhost:5173", "https://[::1]:8443"]),
            ),
        ] {
            assert_eq!(with(value, http_cors_origins).unwrap(), expected, "{value}");
        }
        let not_whole = ["app.example.com", "https://", "https://app.example.com/", "https://a,,https://b"];
        refused(ORIGINS, &not_whole, http_cors_origins);
        let others = ["https://App.example.com", "ftp://hunter2", "*,https://app.example.com", "null"];
        refused(ORIGINS, &others, http_cors_origins);
    }

    #[test]
    fn a_rate_limit_has_a_burst() {
        let limit = |value| with(value, http_rate_limit);
        assert_eq!(limit(""), Ok(None));
        assert_eq!(limit("10"), Ok(Some(CallRateLimit { per_second: 10.0, burst: 10 })));
        assert_eq!(limit("0.5"), Ok(Some(CallRateLimit { per_second: 0.5, burst: 1 })));
        assert_eq!(limit("2:50"), Ok(Some(CallRateLimit { per_second: 2.0, burst: 50 })));
        let bad = ["0", "-1", "ten", "NaN", "inf", "1e9", "5:0", "5:", ":5", "5:1.5", "5:5:5"];
        refused(RATE, &bad, http_rate_limit);
    }

    #[test]
    fn a_secret_that_can_be_guessed_does_not_start_in_aws() {
        let keys = |value, endpoint| {
            let read =
                from_table(&[("HTTP_API_KEYS", value), ("AWS_ENDPOINT_URL", endpoint)], deployed_api_keys);
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
}
