//! The Lambda function of the HTTP API.

use std::process::ExitCode;

use annals_http::function::{Config, serve};
use annals_runtime::process::run;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    run(Config::from_env, serve).await
}
