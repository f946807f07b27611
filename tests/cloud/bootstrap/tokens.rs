//! Tokens of `/api/chat` on their way through Lambda: the pieces that the function hands to its runtime while its model
//! still writes. The runtime interface emulator buffers an answer, so this is a runtime API that reports each piece.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use annals_io::clock::Clock;
use annals_test_support::model_api::ModelApi;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use axum::routing::{get, post};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;

use crate::bootstrap::emulated::{queue, request};
use crate::stack::{beside, set};

const PATIENCE: Duration = Duration::from_secs(30);

/// Lambda's runtime API for one process and one event: its address, and the pieces of the answer as they come.
///
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>.
async fn runtime_api(event: Value) -> (String, mpsc::UnboundedReceiver<String>) {
    let (told, pieces) = mpsc::unbounded_channel();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let event = Arc::new(Mutex::new(Some(event.to_string())));
    let next = async |State(event): State<Arc<Mutex<Option<String>>>>| {
        let Some(event) = event.lock().await.take() else { return std::future::pending().await };
        let ends = Clock::system().now().plus(Duration::from_mins(5));
        Response::builder()
            .header("Lambda-Runtime-Aws-Request-Id", "8476a536-e9f4-11e8-9739-2dfe598c3fcd")
            .header("Lambda-Runtime-Deadline-Ms", ends.as_millis().to_string())
            .header(
                "Lambda-Runtime-Invoked-Function-Arn",
                "arn:aws:lambda:eu-central-1:123456789012:function:annals",
            )
            .header("Lambda-Runtime-Trace-Id", "Root=1-6920ef20-0123456789abcdef01234567")
            .body(Body::from(event))
            .unwrap()
    };
    let answer = async move |request: Request| {
        let mut body = request.into_body().into_data_stream();
        while let Some(Ok(piece)) = body.next().await {
            drop(told.send(String::from_utf8_lossy(&piece).into_owned()));
        }
        StatusCode::ACCEPTED
    };
    let app = Router::new()
        .route("/2018-06-01/runtime/invocation/next", get(next))
        .route("/2018-06-01/runtime/invocation/{id}/response", post(answer))
        .with_state(event);
    tokio::spawn(async move { axum::serve(listener, app).await });
    (address, pieces)
}

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn tokens_leave_the_function_while_its_model_writes() {
    beside(async |stack| {
        let model = ModelApi::start().await;
        model.accept_any_key();
        model.answer_with("these are the words of an answer that stands still before its end");
        model.stall(1);
        let said = json!({"id": "m1", "role": "user", "parts": [{"type": "text", "text": "hello"}]});
        let body = json!({"id": "alone-tokens", "trigger": "submit-message", "messages": [said]});
        let mut event = request("POST", "/api/chat", "app-secret", Some(&body));
        event["routeKey"] = json!("$default");
        event["requestContext"]["routeKey"] = json!("$default");
        event["requestContext"]["accountId"] = json!("anonymous");
        let (address, mut pieces) = runtime_api(event).await;

        let bootstrap = PathBuf::from(set("ANNALS_CLOUD_BUILD")).join("HttpStreaming/bootstrap");
        let mut command = Command::new(bootstrap);
        command.env_clear();
        for name in
            ["AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "SSL_CERT_FILE"]
        {
            command.env(name, set(name));
        }
        command.envs(&stack.environments()["HttpStreaming"]);
        command.env("ANNALS_QUEUE_URL", queue(stack, "tokens-alone").await);
        command.env("MODEL_BASE_URL", model.base_url()).env("AWS_LAMBDA_RUNTIME_API", address);
        command
            .env("AWS_LAMBDA_FUNCTION_NAME", "HttpStreaming")
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512");
        command.env("AWS_LAMBDA_FUNCTION_VERSION", "1").env("AWS_LAMBDA_LOG_GROUP_NAME", "none");
        let mut function = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();

        let mut heard = String::new();
        while !heard.contains(r#""type":"text-delta""#) {
            let piece = timeout(PATIENCE, pieces.recv()).await;
            heard += &piece.unwrap_or_else(|_| panic!("no tokens: {heard}")).unwrap();
        }
        assert_eq!(model.count(), 1);
        assert!(heard.contains("these") && !heard.contains("its end"), "the model still writes: {heard}");
        assert!(!heard.contains(r#""type":"finish""#), "{heard}");
        function.kill().unwrap();
        function.wait().unwrap();
    });
}
