//! Lambda function of `POST /discord`.

use std::process::ExitCode;

use annals_channel_discord::webhook::from_env;
use annals_core::record::Channel;
use annals_runtime::function::serve_webhook;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    serve_webhook(Channel::Discord, from_env).await
}
