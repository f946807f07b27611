//! The environment of the process.

/// Returns the value of `name` in the environment of the process.
#[allow(clippy::disallowed_methods, reason = "the one place where the environment is read")]
pub fn process_env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Returns the names of the variables in the environment of the process; without those that are not UTF-8.
pub fn process_names() -> impl Iterator<Item = String> {
    std::env::vars_os().filter_map(|(name, _)| name.into_string().ok())
}
