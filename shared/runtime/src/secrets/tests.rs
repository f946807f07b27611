use std::sync::{Arc, Mutex};

use annals_aws::connector::Https;
use annals_test_support::http::serve;
use aws_config::{BehaviorVersion, Region};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::json;

use super::*;

const SECRET: &str = "hunter2";

fn table(entries: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> + Send + Sync + 'static {
    let entries: HashMap<String, String> =
        entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    move |name| entries.get(name).cloned()
}

/// Reads an environment with its secrets. Returns the settings, and the secrets that were requested.
async fn read(
    environment: &[(&str, &str)],
    secrets: &[(&'static str, &str)],
) -> (Result<Settings, String>, Vec<String>) {
    let answer = |(name, text): &(&'static str, &str)| (*name, StatusCode::OK, json!({"SecretString": text}));
    let (aws, asked) = stand_in(&secrets.iter().map(answer).collect::<Vec<_>>()).await;
    let settings = Settings::read(table(environment), &aws).await.map_err(|error| error.to_string());
    let mut asked = asked.lock().unwrap().clone();
    asked.sort();
    (settings, asked)
}

/// Returns the error for an environment that names one secret, `annals/app`, with this text.
async fn refused(text: &str) -> String {
    let (settings, _) = read(&[(VARIABLE, "annals/app")], &[("annals/app", text)]).await;
    let error = settings.err().unwrap();
    assert!(error.contains("annals/app") && !error.contains(SECRET), "{error}");
    error
}

#[tokio::test]
async fn a_setting_comes_from_the_environment_or_else_from_a_secret() {
    let telegram = r#"{"TELEGRAM_BOT_TOKEN": "77:x", "TELEGRAM_WEBHOOK_SECRET": "s-3", "MODEL": "openai:m"}"#;
    let (settings, asked) = read(
        &[
            (VARIABLE, "annals/telegram, arn:annals/http,,annals/telegram"),
            ("MODEL", "echo"),
            ("AGENT_ID", ""),
        ],
        &[
            ("annals/telegram", telegram),
            ("arn:annals/http", r#"{"HTTP_API_KEYS": "a:b", "AGENT_ID": "bot"}"#),
        ],
    )
    .await;
    let settings = settings.unwrap();
    assert_eq!(asked, ["annals/telegram", "arn:annals/http"], "each once");
    let env = settings.env();
    assert!(env.required("TELEGRAM_BOT_TOKEN").unwrap().starts_with("77:"));
    assert!(env.required("HTTP_API_KEYS").unwrap().starts_with("a:"));
    assert_eq!(env.optional("MODEL").unwrap(), "echo", "the environment wins");
    assert_eq!(env.optional("AGENT_ID").unwrap(), "bot", "an empty variable is not set");
    assert_eq!(env.optional("SYSTEM_PROMPT"), None);
}

#[tokio::test]
async fn without_named_secrets_no_request_is_made() {
    for environment in [&[][..], &[(VARIABLE, "")], &[(VARIABLE, " , ")]] {
        let (settings, asked) = read(environment, &[("annals/app", "{}")]).await;
        assert_eq!((settings.is_ok(), asked.len()), (true, 0), "{environment:?}");
    }
}

#[tokio::test]
async fn a_secret_that_is_not_an_object_of_strings_is_named_but_not_shown() {
    let not_settings = "ANNALS_SECRETS names the secret annals/app, which is not a JSON object of strings";
    for text in [SECRET, "", r#""hunter2""#, r#"["hunter2"]"#, r#"{"MODEL_API_KEY": "hunter2""#] {
        assert_eq!(refused(text).await, not_settings, "{text}");
    }
    for value in ["1", "null", "true", r#"["hunter2"]"#, r#"{"a": "hunter2"}"#] {
        let error = refused(&format!(r#"{{"MODEL_API_KEY": {value}}}"#)).await;
        assert_eq!(error, "MODEL_API_KEY in the secret annals/app is not a string");
    }
    let swapped = refused(r#"{"hunter2": 1}"#).await;
    assert_eq!(
        swapped,
        "ANNALS_SECRETS names the secret annals/app, which holds something that is not a string"
    );
}

#[tokio::test]
async fn two_secrets_may_agree_but_not_differ() {
    let of = |other: &'static str| async move {
        let named = [(VARIABLE, "one,two")];
        read(&named, &[("one", r#"{"MODEL_API_KEY": "hunter2"}"#), ("two", other)]).await.0
    };
    assert!(of(r#"{"MODEL_API_KEY": "hunter2"}"#).await.is_ok());
    let error = of(r#"{"MODEL_API_KEY": "hunter3"}"#).await.err().unwrap();
    assert_eq!(error, "MODEL_API_KEY has one value in the secret one and another in two");
}

/// Starts an emulator of Secrets Manager that answers for each secret with a status and a body.
async fn stand_in(answers: &[(&str, StatusCode, Value)]) -> (SdkConfig, Arc<Mutex<Vec<String>>>) {
    let answers: Vec<(String, StatusCode, Value)> =
        answers.iter().map(|(name, status, body)| ((*name).to_owned(), *status, body.clone())).collect();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let router = Router::new().route(
        "/",
        post({
            let asked = Arc::clone(&asked);
            async move |headers: HeaderMap, body: String| {
                assert_eq!(headers["x-amz-target"], "secretsmanager.GetSecretValue");
                let body: Value = serde_json::from_str(&body).unwrap();
                let name = body["SecretId"].as_str().unwrap();
                asked.lock().unwrap().push(name.to_owned());
                let (_, status, answer) = answers.iter().find(|(known, ..)| known == name).unwrap();
                (*status, answer.to_string())
            }
        }),
    );
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-central-1"))
        .endpoint_url(serve(router).await)
        .credentials_provider(SharedCredentialsProvider::new(Credentials::new(
            "test", "test", None, None, "test",
        )))
        .http_client(Https::new())
        .build();
    (config, asked)
}

#[tokio::test]
async fn an_unreadable_secret_is_an_error_with_the_reason() {
    let fault = |code: &str| json!({"__type": code, "message": "hunter2"});
    let bad = StatusCode::BAD_REQUEST;
    let cases = [
        (bad, fault("ResourceNotFoundException"), "no secret of this name exists in this account and region"),
        (bad, fault("AccessDeniedException"), "the function's role may not read it"),
        (bad, fault("DecryptionFailure"), "kms:Decrypt"),
        (bad, fault("InvalidRequestException"), "Secrets Manager answered InvalidRequestException"),
        (StatusCode::OK, json!({"SecretBinary": "aHVudGVyMg=="}), "it is binary"),
        (
            StatusCode::OK,
            json!({"SecretString": ["hunter2"]}),
            "the answer of Secrets Manager cannot be parsed",
        ),
    ];
    for (status, body, expected) in cases {
        let (aws, _) = stand_in(&[("annals/app", status, body)]).await;
        let settings = Settings::read(table(&[(VARIABLE, "annals/app")]), &aws).await;
        let error = settings.err().unwrap().to_string();
        let start = "ANNALS_SECRETS names the secret annals/app, which cannot be read: ";
        let why = error.strip_prefix(start).unwrap_or_else(|| panic!("{error}"));
        assert!(why.contains(expected) && !why.contains(SECRET), "{why}");
    }
}
