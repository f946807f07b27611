//! Settings: environment variables, read once at start from a lookup closure, so that a test needs no environment.
//!
//! Each concern has one struct with `from_env`, in the crate that uses it. A missing or malformed value is a start-up
//! error that names the variable and the remedy. An empty variable counts as not set, since deployment templates pass
//! those.

use std::time::Duration;

/// Longest duration that a setting may name.
const MAX_DURATION: Duration = Duration::from_hours(100 * 366 * 24);

/// Source of settings: the environment of the process, or a table in tests.
#[derive(Clone, Copy)]
pub struct Env<'a>(&'a dyn Fn(&str) -> Option<String>);

/// A setting is missing or malformed, so the program does not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable} {problem}")]
pub struct ConfigError {
    /// Name of the environment variable.
    pub variable: String,
    /// The problem and its solution. Never contains the value.
    pub problem: String,
}

impl ConfigError {
    /// Creates an error for `variable`.
    pub fn new(variable: &str, problem: impl Into<String>) -> Self {
        Self { variable: variable.into(), problem: problem.into() }
    }
}

impl<'a> Env<'a> {
    /// Creates a source that reads settings with `lookup`.
    pub fn new(lookup: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self(lookup)
    }

    /// Returns the value of `name`, if it is set and not empty.
    pub fn optional(self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    /// Returns the value of `name`, or an error if it is not set.
    pub fn required(self, name: &str) -> Result<String, ConfigError> {
        self.optional(name).ok_or_else(|| ConfigError::new(name, "is not set"))
    }

    /// Returns the choice that `name` names, or `default` if it is not set.
    pub fn choice<T: Clone>(self, name: &str, choices: &[(&str, T)], default: &T) -> Result<T, ConfigError> {
        let Some(value) = self.optional(name) else { return Ok(default.clone()) };
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        choices
            .iter()
            .find(|(choice, _)| *choice == value)
            .map(|(_, chosen)| chosen.clone())
            .ok_or_else(|| ConfigError::new(name, format!("must be one of: {}", names.join(", "))))
    }

    /// Returns the number that `name` holds, or `default` if it is not set; `what` describes a valid one in the error.
    pub fn number<T: std::str::FromStr>(self, name: &str, default: T, what: &str) -> Result<T, ConfigError> {
        match self.optional(name) {
            None => Ok(default),
            Some(value) => value.parse().map_err(|_| ConfigError::new(name, format!("must be {what}"))),
        }
    }

    /// Returns the duration that `name` holds (`48h`, `30m`, `0`), or `default` if it is not set.
    pub fn duration(self, name: &str, default: Duration) -> Result<Duration, ConfigError> {
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

/// Reads settings from a table of names and values, for tests.
///
/// # Errors
///
/// Those of `read`, as text.
pub fn from_table<T>(
    settings: &[(&str, &str)],
    read: impl Fn(Env<'_>) -> Result<T, ConfigError>,
) -> Result<T, String> {
    let lookup = |name: &str| settings.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
    read(Env::new(&lookup)).map_err(|error| error.to_string())
}
