//! Logs: structured, one line each, naming chats by their [session id](crate::chat_key::SessionId) and never
//! carrying a text or a secret.

use std::error::Error;
use std::io::IsTerminal;
use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

use crate::config::ConfigError;

/// JSON lines to standard output, as CloudWatch reads them. `RUST_LOG` chooses what is logged.
pub fn init_json() {
    let subscriber = tracing_subscriber::fmt().json().flatten_event(true).with_env_filter(filter("info"));
    // A second call (a test's) keeps the first.
    drop(subscriber.with_current_span(false).with_target(false).try_init());
}

/// Lines for people to standard error, with colours where that is a terminal.
pub fn init_terminal() {
    // The embedded DynamoDB engine warns of each failed condition, which is how a duplicate is found.
    let filter = filter("warn,annals=info,dynoxide=error");
    let subscriber = tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(filter);
    drop(subscriber.with_ansi(std::io::stderr().is_terminal()).with_target(false).try_init());
}

/// How a function's process ends: what kept it from starting, or from going on, is one line.
pub fn ended(result: Result<(), Box<dyn Error + Send + Sync>>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    if let Some(ConfigError { variable, problem }) = error.downcast_ref() {
        tracing::error!(variable, problem, "the function does not start: {variable} {problem}");
    } else {
        tracing::error!(error = %chain(&*error), "the function has stopped");
    }
    ExitCode::FAILURE
}

/// An error and what it came from.
fn chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |said, cause| format!("{said}: {cause}"))
}

fn filter(default: &str) -> EnvFilter {
    let set = crate::config::process_env(EnvFilter::DEFAULT_ENV).filter(|value| !value.trim().is_empty());
    set.and_then(|value| EnvFilter::try_new(value).ok()).unwrap_or_else(|| EnvFilter::new(default))
}
