//! Requests as a service gets them, and what becomes of its answers. Signatures are checked by the services at `annals aws`, in
//! the end-to-end tests.
#![allow(clippy::unwrap_used, reason = "a panic is a failure that names its line")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use annals_aws::SdkConfig;
use annals_aws::bucket::Bucket;
use annals_aws::connector::Https;
use annals_aws::service::Service;
use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, Region};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_dynamodb::error::ProvideErrorMetadata as _;
use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Requests that were received: method, path with query, `x-amz-target` or `if-none-match`, body.
type Received = Arc<Mutex<Vec<(String, String, String, String)>>>;

/// Starts a service that gives `answers` in turn, and then the last one again.
async fn service(answers: &[(u16, &'static str)]) -> (SdkConfig, Received) {
    let received: Received = Arc::default();
    let (noted, answers) = (Arc::clone(&received), answers.to_vec());
    let router = Router::new().fallback(async move |request: Request| {
        let (parts, body) = request.into_parts();
        let signed = parts.headers["authorization"].to_str().unwrap();
        assert!(signed.starts_with("AWS4-HMAC-SHA256 Credential=key/"), "{signed}");
        let json = if signed.contains("/secretsmanager/") { "1.1" } else { "1.0" };
        let is_call = parts.headers.contains_key("x-amz-target");
        assert!(!is_call || parts.headers["content-type"] == format!("application/x-amz-json-{json}"));
        let header = parts.headers.get("x-amz-target").or(parts.headers.get("if-none-match"));
        let header = header.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
        let body = String::from_utf8(to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap();
        let mut noted = noted.lock().unwrap();
        let (status, answer) = answers[noted.len().min(answers.len() - 1)];
        noted.push((parts.method.to_string(), parts.uri.to_string(), header, body));
        (StatusCode::from_u16(status).unwrap(), answer)
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (config(&url), received)
}

fn config(url: &str) -> SdkConfig {
    let keys = Credentials::new("key", "secret", None, None, "test");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-central-1"))
        .credentials_provider(SharedCredentialsProvider::new(keys))
        .endpoint_url(url)
        .http_client(Https::new())
        .retry_config(RetryConfig::standard().with_initial_backoff(Duration::from_millis(1)))
        .build()
}

#[tokio::test]
async fn a_call_in_json_returns_its_answer_or_the_services_error() {
    let (aws, received) = service(&[(200, r#"{"MessageId": "1"}"#), (200, "")]).await;
    let sqs = Service::sqs(&aws);
    let input = json!({"QueueUrl": "q", "MessageBody": "hello"});
    assert_eq!(sqs.call("AmazonSQS.SendMessage", &input).await.unwrap(), json!({"MessageId": "1"}));
    assert_eq!(sqs.call("AmazonSQS.SendMessage", &input).await.unwrap(), Value::Null);
    let requests = std::mem::take(&mut *received.lock().unwrap());
    assert_eq!(requests[0], ("POST".into(), "/".into(), "AmazonSQS.SendMessage".into(), input.to_string()));

    let denied = r#"{"__type": "com.amazon.coral#AccessDenied:http://x", "Message": "not yours"}"#;
    let (aws, received) = service(&[(400, denied)]).await;
    let error =
        Service::secrets_manager(&aws).call("secretsmanager.GetSecretValue", &json!({})).await.unwrap_err();
    assert_eq!((error.code(), error.message()), (Some("AccessDenied"), Some("not yours")));
    assert_eq!(received.lock().unwrap().len(), 1, "a refusal is not repeated");

    // What is no answer of the service.
    let (aws, _) = service(&[(200, "<html>welcome</html>")]).await;
    let error = Service::sqs(&aws).call("AmazonSQS.SendMessage", &json!({})).await.unwrap_err();
    assert!(error.to_string().contains("response error"), "{error}");
}

#[tokio::test]
async fn failures_that_pass_are_repeated_twice() {
    for (status, body) in [
        (503, "<Error><Code>SlowDown</Code></Error>"),
        (500, ""),
        (400, r#"{"__type": "ThrottlingException"}"#),
        (400, r#"{"__type": "RequestThrottled"}"#),
    ] {
        let (aws, received) = service(&[(status, body), (status, body), (200, "{}")]).await;
        Service::sqs(&aws).call("AmazonSQS.SendMessage", &json!({})).await.unwrap();
        assert_eq!(received.lock().unwrap().len(), 3, "{body}");
        let (aws, received) = service(&[(status, body)]).await;
        let error = Service::sqs(&aws).call("AmazonSQS.SendMessage", &json!({})).await.unwrap_err();
        assert!(error.raw_response().is_some(), "{error:?}");
        assert_eq!(received.lock().unwrap().len(), 3, "{body}");
    }
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = Bucket::new(&config(&format!("http://{nobody}")), "b").get("k").await.unwrap_err();
    assert!(error.to_string().starts_with("S3 could not read k: dispatch failure"), "{error}");
}

#[tokio::test]
async fn an_object_is_put_once_and_its_absence_is_no_error() {
    let (aws, received) = service(&[
        (200, ""),
        (412, "<Error><Code>PreconditionFailed</Code></Error>"),
        (404, "<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>"),
        (
            404,
            "<Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist</Message></Error>",
        ),
    ])
    .await;
    let bucket = Bucket::new(&aws, "my-bucket");
    assert!(bucket.put_new("a b/ü+.txt", "text/plain", b"x".to_vec()).await.unwrap());
    assert!(!bucket.put_new("a", "text/plain", b"x".to_vec()).await.unwrap());
    assert_eq!(bucket.get("a").await.unwrap(), None);
    let error = bucket.get("a").await.unwrap_err().to_string();
    assert_eq!(
        error,
        "S3 could not read a: service error: NoSuchBucket: The specified bucket does not exist"
    );
    let requests = std::mem::take(&mut *received.lock().unwrap());
    assert_eq!(requests[0], ("PUT".into(), "/my-bucket/a%20b/%C3%BC%2B.txt".into(), "*".into(), "x".into()));
}

#[tokio::test]
async fn objects_are_listed_and_deleted_by_their_whole_keys() {
    const LIST: &str = "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name>\
                        <Contents><Key>p/1&amp;2</Key><Size>1</Size></Contents>\
                        <Contents><Key>p/3</Key></Contents></ListBucketResult>";
    let (aws, received) = service(&[(200, LIST), (204, "")]).await;
    let deleted = Bucket::new(&aws, "b").delete_some("p/").await.unwrap();
    assert_eq!(deleted.len(), 2, "{deleted:?}");
    let mut requests: Vec<String> =
        received.lock().unwrap().iter().map(|(method, path, ..)| format!("{method} {path}")).collect();
    requests.sort();
    assert_eq!(requests, ["DELETE /b/p/1%262", "DELETE /b/p/3", "GET /b/?list-type=2&prefix=p%2F"]);

    let (aws, _) = service(&[(200, "<ListBucketResult></ListBucketResult>")]).await;
    assert_eq!(Bucket::new(&aws, "b").list("p/").await.unwrap(), Vec::<String>::new());
    // An answer that is cut off is no empty list, after which a chat would count as deleted.
    for cut in [&LIST[..LIST.len() - 30], "welcome", "", "<html><p>welcome</p></html>"] {
        let (aws, _) = service(&[(200, cut)]).await;
        let error = Bucket::new(&aws, "b").list("p/").await.unwrap_err().to_string();
        assert_eq!(error, "S3 could not list p/: the answer is no list of objects");
    }
}
