//! Lambda function of `POST /lark`.

use std::process::ExitCode;

use annals_channel_lark::webhook::from_env;
use annals_core::record::Channel;
use annals_runtime::function::serve_webhook;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    serve_webhook(Channel::Lark, from_env).await
}
