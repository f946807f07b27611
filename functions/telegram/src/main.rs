//! Lambda function of `POST /telegram`.

use std::process::ExitCode;

use annals_channel_telegram::channel::Telegram;
use annals_runtime::function::serve_webhook;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    serve_webhook::<Telegram>().await
}
