//! The relay as a scheduled Lambda function, or as the process of a container that is always on.

use std::process::ExitCode;

use annals_discord_relay::function::{Config, serve};
use annals_runtime::process::run_anywhere;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    run_anywhere(Config::from_env, serve).await
}
