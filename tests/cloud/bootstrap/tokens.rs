//! Tokens of `/api/chat` on their way through Lambda: the pieces that the function hands to its runtime while its model
//! still writes. The runtime interface emulator buffers an answer, so this is a runtime API that reports each piece.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use annals_io::clock::Clock;
use annals_test_support::lambda_api::LambdaApi;
use annals_test_support::model_api::{Mishap, ModelApi};
use serde_json::json;
use tokio::time::timeout;

use crate::bootstrap::emulated::{queue, request, set_environment};
use crate::stack::{beside, set};

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn tokens_leave_the_function_while_its_model_writes() {
    beside(async |stack| {
        let model = ModelApi::start().await;
        model.edit(|stored| stored.any_key = true);
        model.answer_with("these are the words of an answer that stands still before its end");
        model.mishap(1, Mishap::Stalls);
        let said = json!({"id": "m1", "role": "user", "parts": [{"type": "text", "text": "hello"}]});
        let body = json!({"id": "alone-tokens", "trigger": "submit-message", "messages": [said]});
        let event = request("POST", "/api/chat", "app-secret", Some(&body));
        let deadline = || Clock::system().now().plus(Duration::from_mins(5)).as_millis();
        let mut api = LambdaApi::start(std::iter::once(event.to_string()), deadline).await;

        let bootstrap = PathBuf::from(set("ANNALS_CLOUD_BUILD")).join("HttpStreaming/bootstrap");
        let mut command = Command::new(bootstrap);
        set_environment(&mut command, stack, "HttpStreaming", &queue(stack, "tokens-alone").await);
        command.env("MODEL_BASE_URL", model.base_url()).env("AWS_LAMBDA_RUNTIME_API", api.address());
        command.env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512");
        command.env("AWS_LAMBDA_FUNCTION_VERSION", "1").env("AWS_LAMBDA_LOG_GROUP_NAME", "none");
        let mut function = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();

        let mut heard = String::new();
        while !heard.contains(r#""type":"text-delta""#) {
            let piece = timeout(PATIENCE, api.answer()).await;
            heard += &piece.unwrap_or_else(|_| panic!("no tokens: {heard}"));
        }
        assert_eq!(model.count(), 1);
        assert!(heard.contains("these") && !heard.contains("its end"), "the model still writes: {heard}");
        assert!(!heard.contains(r#""type":"finish""#), "{heard}");
        function.kill().unwrap();
        function.wait().unwrap();
    });
}
