//! The Lambda function of the HTTP API at a function URL that streams.

use std::process::ExitCode;

use annals_io::tls;
use annals_runtime::process::run;
use annals_streaming::{Config, serve};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // People wait for the requests that call a model.
    tls::warm();
    run(Config::from_env, serve).await
}
