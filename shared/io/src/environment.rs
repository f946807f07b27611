//! The environment of the process.

/// Returns the value of `name` in the environment of the process.
#[allow(clippy::disallowed_methods, reason = "the one place where the environment is read")]
pub fn process_env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
