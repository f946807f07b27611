//! Logs: structured, one line each, naming chats by their [session id](crate::chat_key::SessionId) and never
//! carrying a text or a secret.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// JSON lines to standard output, as CloudWatch reads them. `RUST_LOG` chooses what is logged.
pub fn init_json() {
    // rmcp quotes what servers say.
    let subscriber =
        tracing_subscriber::fmt().json().flatten_event(true).with_env_filter(filter("info,rmcp=off"));
    // A second call (a test's) keeps the first.
    drop(subscriber.with_current_span(false).with_target(false).try_init());
}

/// Lines for people to standard error, with colours where that is a terminal.
pub fn init_terminal() {
    // rmcp quotes what servers say. The embedded DynamoDB engine warns of each failed condition, which is how a duplicate is found.
    let filter = filter("warn,annals=info,dynoxide=error,rmcp=off");
    let subscriber = tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(filter);
    drop(subscriber.with_ansi(std::io::stderr().is_terminal()).with_target(false).try_init());
}

fn filter(default: &str) -> EnvFilter {
    let set = crate::config::process_env(EnvFilter::DEFAULT_ENV).filter(|value| !value.trim().is_empty());
    set.and_then(|value| EnvFilter::try_new(value).ok()).unwrap_or_else(|| EnvFilter::new(default))
}
