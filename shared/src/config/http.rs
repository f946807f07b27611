//! Settings of the HTTP API alone.

use axum::http::HeaderValue;

use super::{ConfigError, Env};

const ORIGINS: &str = "HTTP_CORS_ORIGINS";
const RATE: &str = "HTTP_RATE_LIMIT";

/// `HTTP_CORS_ORIGINS`: from which origins' pages a browser may call the API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CorsOrigins {
    /// None: no answer has a header of CORS.
    #[default]
    None,
    /// `*`: all.
    Any,
    /// These, as browsers send them in `Origin`: `https://app.example.com`.
    These(Vec<HeaderValue>),
}

impl CorsOrigins {
    /// Whether pages of `origin` are among them.
    pub fn include(&self, origin: &HeaderValue) -> bool {
        match self {
            Self::None => false,
            Self::Any => true,
            Self::These(origins) => origins.contains(origin),
        }
    }
}

/// `HTTP_CORS_ORIGINS`: `*`, or comma-separated origins.
pub fn http_cors_origins(env: Env<'_>) -> Result<CorsOrigins, ConfigError> {
    let Some(value) = env.optional(ORIGINS) else { return Ok(CorsOrigins::None) };
    if value.trim() == "*" {
        return Ok(CorsOrigins::Any);
    }
    let origin = |text: &str| {
        // A browser sends scheme, name and port in lower case, and nothing else.
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

/// `CONSOLE`: whether the console is served at `/`; `default` is what the program does that is told nothing.
pub fn console(env: Env<'_>, default: bool) -> Result<bool, ConfigError> {
    env.choice("CONSOLE", &[("true", true), ("false", false)], &default)
}

/// `HTTP_RATE_LIMIT`: how often one API key may call one process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Requests a second, over 0.
    pub per_second: f64,
    /// How many may come at once, at least 1.
    pub burst: u32,
}

/// `HTTP_RATE_LIMIT`: requests a second, and behind a `:` how many may come at once; `None` where it is not set.
pub fn http_rate_limit(env: Env<'_>) -> Result<Option<RateLimit>, ConfigError> {
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
        (Some(per_second), Some(burst)) => Ok(Some(RateLimit { per_second, burst })),
        _ => Err(ConfigError::new(
            RATE,
            "must be requests a second, over 0 and at most 100000, with how many may come at once behind a colon if \
             that is another number: 10 or 10:50",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(value: &str, read: impl Fn(Env<'_>) -> Result<T, ConfigError>) -> Result<T, String> {
        let lookup = |_: &str| Some(value.to_owned());
        read(Env::new(&lookup)).map_err(|error| error.to_string())
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
        for bad in [
            "app.example.com",
            "https://",
            "https://app.example.com/",
            "https://App.example.com",
            "ftp://hunter2",
            "*,https://app.example.com",
            "https://a,,https://b",
            "null",
        ] {
            let error = with(bad, http_cors_origins).unwrap_err();
            assert!(error.starts_with(ORIGINS) && !error.contains("hunter2"), "{bad}: {error}");
        }
        let allowed = these(&["https://app.example.com"]);
        assert!(allowed.include(&HeaderValue::from_static("https://app.example.com")));
        assert!(!allowed.include(&HeaderValue::from_static("https://app.example.com.evil.example")));
        assert!(!CorsOrigins::None.include(&HeaderValue::from_static("https://app.example.com")));
    }

    #[test]
    fn a_rate_has_a_burst() {
        let limit = |value| with(value, http_rate_limit);
        assert_eq!(limit(""), Ok(None));
        assert_eq!(limit("10"), Ok(Some(RateLimit { per_second: 10.0, burst: 10 })));
        assert_eq!(limit("0.5"), Ok(Some(RateLimit { per_second: 0.5, burst: 1 })));
        assert_eq!(limit("2:50"), Ok(Some(RateLimit { per_second: 2.0, burst: 50 })));
        for bad in ["0", "-1", "ten", "NaN", "inf", "1e9", "5:0", "5:", ":5", "5:1.5", "5:5:5"] {
            assert!(limit(bad).unwrap_err().starts_with(RATE), "{bad}");
        }
    }
}
