//! The Lambda function that answers the turns of the queue.

use std::process::ExitCode;

use annals_agent::function::{QueueConfig, serve};
use annals_io::tls;
use annals_runtime::process::run;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // The first turn needs TLS, to ask a model and to send.
    tls::warm();
    run(QueueConfig::from_env, serve).await
}
