//! Lambda function of `POST /discord`.

use std::process::ExitCode;

use annals_channel_discord::channel::Discord;
use annals_runtime::function::serve_webhook;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    serve_webhook::<Discord>().await
}
