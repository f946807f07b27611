//! The scheduled Lambda function.

use std::process::ExitCode;

use annals_compactor::function::{Config, serve};
use annals_runtime::process::run;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    run(Config::from_env, serve).await
}
