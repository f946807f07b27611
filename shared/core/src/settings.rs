//! Settings: environment variables, read once at start from a lookup closure, so that a test needs no environment.
//!
//! Each concern has one struct with `from_env`, in the crate that uses it. A missing or malformed value is a start-up
//! error that names the variable and the remedy. An empty variable counts as not set, since deployment templates pass
//! those.

use std::time::Duration;

/// Longest duration that a setting may name.
const MAX_DURATION: Duration = Duration::from_hours(100 * 366 * 24);

/// A setting: its environment variable, and its row in `docs/settings.md`, which is generated from these.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub name: &'static str,
    /// The value that is used if the variable is not set.
    pub unset: Unset,
    /// Valid values and their meaning, in Markdown, with links from `docs/`.
    pub values: &'static str,
}

/// The value of a setting that is not set.
#[derive(Clone, Copy, Debug)]
pub enum Unset {
    /// This one, as it would be set.
    Default(&'static str),
    /// None, or one that depends on something else, in the words of the page.
    Described(&'static str),
}

impl Setting {
    /// Creates a setting with a default, in the form in which it would be set.
    pub const fn new(name: &'static str, default: &'static str, values: &'static str) -> Self {
        Self { name, unset: Unset::Default(default), values }
    }

    /// Creates a setting without a default.
    pub const fn optional(name: &'static str, values: &'static str) -> Self {
        Self::described(name, "none", values)
    }

    /// Creates a setting that is required, or whose default depends on something else: `unset` describes it.
    pub const fn described(name: &'static str, unset: &'static str, values: &'static str) -> Self {
        Self { name, unset: Unset::Described(unset), values }
    }
}

/// Source of settings: the environment of the process, or a table in tests.
#[derive(Clone, Copy)]
pub struct Env<'a>(&'a dyn Fn(&str) -> Option<String>);

/// A setting is missing or malformed, so the program does not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable} {problem}")]
pub struct ConfigError {
    pub variable: String,
    /// The problem and its solution. Contains no secret.
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

    /// Returns the value of `setting`, or its default, which is empty for a setting without one.
    pub fn value(self, setting: &Setting) -> String {
        self.optional(setting.name).unwrap_or_else(|| match setting.unset {
            Unset::Default(default) => default.to_owned(),
            Unset::Described(_) => String::new(),
        })
    }

    /// Returns the choice that `setting` names.
    pub fn choice<T: Clone>(self, setting: &Setting, choices: &[(&str, T)]) -> Result<T, ConfigError> {
        let value = self.value(setting);
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        choices
            .iter()
            .find(|(choice, _)| *choice == value)
            .map(|(_, chosen)| chosen.clone())
            .ok_or_else(|| ConfigError::new(setting.name, format!("must be one of: {}", names.join(", "))))
    }

    /// Returns true or false, as `setting` says.
    pub fn flag(self, setting: &Setting) -> Result<bool, ConfigError> {
        self.choice(setting, &[("true", true), ("false", false)])
    }

    /// Returns true or false, as `setting` says, or `default` if it is not set.
    pub fn flag_or(self, setting: &Setting, default: bool) -> Result<bool, ConfigError> {
        if self.optional(setting.name).is_some() { self.flag(setting) } else { Ok(default) }
    }

    /// Returns the number that `setting` holds; `what` describes a valid one in the error.
    pub fn number<T: std::str::FromStr>(self, setting: &Setting, what: &str) -> Result<T, ConfigError> {
        let value = self.value(setting).parse();
        value.map_err(|_| ConfigError::new(setting.name, format!("must be {what}")))
    }

    /// Returns the duration that `setting` holds: `48h`, `30m`, `0`.
    pub fn duration(self, setting: &Setting) -> Result<Duration, ConfigError> {
        match self.value(setting).as_str() {
            "0" => Ok(Duration::ZERO),
            value => humantime::parse_duration(value)
                .ok()
                .filter(|duration| *duration <= MAX_DURATION)
                .ok_or_else(|| {
                    ConfigError::new(
                        setting.name,
                        "must be a duration such as 48h, 30m or 0, at most 100 years",
                    )
                }),
        }
    }
}

/// Reads settings from a table of names and values, for tests.
/// Fails with the errors of `read`, as text.
pub fn from_table<T>(
    settings: &[(&str, &str)],
    read: impl Fn(Env<'_>) -> Result<T, ConfigError>,
) -> Result<T, String> {
    let lookup = |name: &str| settings.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
    read(Env::new(&lookup)).map_err(|error| error.to_string())
}
