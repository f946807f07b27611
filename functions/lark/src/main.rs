//! Lambda function of `POST /lark`.

use std::process::ExitCode;

use annals_channel_lark::channel::Lark;
use annals_runtime::function::serve_webhook;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    serve_webhook::<Lark>().await
}
