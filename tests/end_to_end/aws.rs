//! `annals aws`: the program's stores, queue and secrets through the SDK, for a function in a container.

use std::collections::HashMap;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use annals_aws::SdkConfig;
use annals_aws::bucket::Bucket;
use annals_aws::connector::Https;
use annals_core::chat_key::ChatKey;
use annals_core::settings::Env;
use annals_engine::ingress::{Ingress, IngressConfig};
use annals_io::clock::Clock;
use annals_store::history::History;
use annals_store::queue::{Sqs, Turn};
use annals_store::settings::retention;
use aws_config::{BehaviorVersion, Region};
use aws_sdk_dynamodb::config::SharedCredentialsProvider;
use aws_sdk_secretsmanager::error::{DisplayErrorContext, ProvideErrorMetadata};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use ring::hmac;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use crate::app::{loopback_client, wait_until};
use crate::process::Process;
use crate::world::message;

/// The clients of a process with the printed variables.
struct Clients {
    aws: SdkConfig,
    dynamodb: aws_sdk_dynamodb::Client,
    s3: aws_sdk_s3::Client,
    sqs: aws_sdk_sqs::Client,
    secrets: aws_sdk_secretsmanager::Client,
}

/// Starts the program; returns it with its `export` lines and clients that use them.
fn started(dir: &Path, settings: &[(&str, String)]) -> (Process, HashMap<String, String>, Clients) {
    let process = Process::start_with(dir, settings, &["aws", "--port", "0"]);
    let exports = process.printed.iter().filter_map(|line| line.strip_prefix("export ")?.split_once('='));
    let variables = exports.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let clients = Clients::new(&variables, &variables["AWS_SECRET_ACCESS_KEY"]);
    (process, variables, clients)
}

impl Clients {
    /// With `secret` as the key's.
    fn new(variables: &HashMap<String, String>, secret: &str) -> Self {
        let credentials =
            aws_sdk_s3::config::Credentials::new(&variables["AWS_ACCESS_KEY_ID"], secret, None, None, "test");
        let aws = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(variables["AWS_REGION"].clone()))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .endpoint_url(&variables["AWS_ENDPOINT_URL"])
            .http_client(Https::new())
            .build();
        let s3 = aws_sdk_s3::config::Builder::from(&aws).force_path_style(true).build();
        Self {
            dynamodb: aws_sdk_dynamodb::Client::new(&aws),
            s3: aws_sdk_s3::Client::from_conf(s3),
            sqs: aws_sdk_sqs::Client::new(&aws),
            secrets: aws_sdk_secretsmanager::Client::new(&aws),
            aws,
        }
    }

    fn history(&self, variables: &HashMap<String, String>) -> History {
        let (table, bucket) =
            (variables["ANNALS_TABLE"].clone(), Bucket::new(&self.aws, &variables["ANNALS_BUCKET"]));
        let retention = retention(Env::new(&|_| None)).unwrap();
        History::new(self.dynamodb.clone(), table, bucket, Clock::system(), retention)
    }
}

/// The code that a call was refused with.
fn code<T: Debug, E: ProvideErrorMetadata + std::error::Error + 'static>(answer: Result<T, E>) -> String {
    let error = answer.unwrap_err();
    error.code().map_or_else(|| DisplayErrorContext(&error).to_string(), str::to_owned)
}

async fn outbox(base: &str) -> Vec<Value> {
    let response = loopback_client().get(format!("{base}/local/outbox")).send().await.unwrap();
    response.json().await.unwrap()
}

#[tokio::test]
async fn a_function_in_another_process_can_store_messages_and_queue_turns() {
    let dir = tempfile::tempdir().unwrap();
    let (process, variables, clients) = started(dir.path(), &[]);
    let queue = Arc::new(Sqs::new(&clients.aws, variables["ANNALS_QUEUE_URL"].clone()));
    let history = clients.history(&variables);
    let ingress = Ingress::new(history.clone(), queue, IngressConfig::default());

    let chat = ChatKey::telegram(42, None);
    // The second is too large for the table.
    for (id, text) in [(1, "hello".to_owned()), (2, "long ".repeat(100_000))] {
        let mut draft = message(&chat, id, 0, &text);
        draft.chat_id = "42".into();
        draft.asks = true;
        ingress.receive(&draft).await.unwrap();
        let replied =
            async || history.range(&chat, None).await.unwrap().len() == 2 * usize::try_from(id).unwrap();
        wait_until("the reply is stored", replied).await;
        let is_sent = |entry: &Value| entry["text"].as_str().unwrap().starts_with(&text[..5]);
        wait_until("the reply is sent", async || outbox(&process.base).await.iter().any(is_sent)).await;
    }
    let bodies = clients.s3.list_objects_v2().bucket(&variables["ANNALS_BUCKET"]).prefix("bodies/");
    let bodies = bodies.send().await.unwrap();
    assert_eq!(bodies.contents().len(), 2, "the message and its reply");
}

/// The service checks the signature of each request by code of its own.
#[tokio::test]
async fn an_object_of_any_name_is_put_listed_read_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let (_process, variables, clients) = started(dir.path(), &[]);
    let bucket = Bucket::new(&clients.aws, &variables["ANNALS_BUCKET"]);
    let key = "agents/a b/ü+&=~'(1).md";
    assert!(bucket.put_new(key, "text/markdown", b"hello".to_vec()).await.unwrap());
    assert!(!bucket.put_new(key, "text/markdown", b"other".to_vec()).await.unwrap());
    assert_eq!(bucket.get(key).await.unwrap(), Some(b"hello".to_vec()));
    assert_eq!(bucket.list("agents/a b/ü+&").await.unwrap(), [key]);
    bucket.put("agents/empty", "text/plain", Vec::new()).await.unwrap();
    assert_eq!(bucket.delete_some("agents/").await.unwrap().len(), 2);
    assert_eq!((bucket.get(key).await.unwrap(), bucket.list("").await.unwrap()), (None, Vec::new()));
    let wrong = Bucket::new(&Clients::new(&variables, "wrong").aws, &variables["ANNALS_BUCKET"]);
    let refused = wrong.get(key).await.unwrap_err().to_string();
    assert!(refused.contains("SignatureDoesNotMatch"), "{refused}");
}

#[tokio::test]
async fn sqs_accepts_turns_and_refuses_invalid_bodies() {
    let dir = tempfile::tempdir().unwrap();
    let (_process, variables, Clients { sqs, .. }) = started(dir.path(), &[]);
    let url = &variables["ANNALS_QUEUE_URL"];
    let chat = ChatKey::telegram(42, None);
    let turn: Turn =
        serde_json::from_value(json!({"chat": chat, "from": "1763765920000#00000000000000000007"})).unwrap();
    let body = serde_json::to_string(&turn).unwrap();
    let group = chat.session_id().as_str().to_owned();
    let whole = || sqs.send_message().queue_url(url).message_body(&body).message_group_id(&group);

    let first = whole().message_deduplication_id("1").send().await.unwrap();
    // As `md5sum` has it.
    assert_eq!(first.md5_of_message_body().unwrap(), "577705471df78fb73088e18420a274d2");
    let other = whole().message_deduplication_id("2").send().await.unwrap();
    assert_ne!(other.message_id(), first.message_id());
    assert!(other.sequence_number() > first.sequence_number());

    assert_eq!(code(whole().send().await), "InvalidParameterValue", "no deduplication id");
    let no_group = sqs.send_message().queue_url(url).message_body(&body).message_deduplication_id("3");
    assert_eq!(code(no_group.send().await), "MissingParameter");
    let with_id = || whole().message_deduplication_id("3");
    assert_eq!(code(with_id().message_group_id("telegram-other").send().await), "InvalidParameterValue");
    assert_eq!(code(with_id().delay_seconds(5).send().await), "InvalidParameterValue");
    assert_eq!(code(with_id().message_body("hello").send().await), "InvalidMessageContents");
    let nowhere = url.replace("annals.fifo", "other.fifo");
    assert_eq!(code(with_id().queue_url(nowhere).send().await), "QueueDoesNotExist");
    assert_eq!(code(sqs.receive_message().queue_url(url).send().await), "UnsupportedOperation");
    assert_eq!(code(sqs.purge_queue().queue_url(url).send().await), "UnsupportedOperation");
}

#[tokio::test]
async fn secrets_manager_has_what_the_program_goes_by() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        ("HTTP_API_KEYS", "app:s1,ops:s2:admin".to_owned()),
        ("LARK_APP_ID", "cli_1".into()),
        ("LARK_APP_SECRET", "s3".into()),
        ("LARK_VERIFICATION_TOKEN", "t".into()),
        ("LARK_ENCRYPT_KEY", "k".into()),
    ];
    let (_process, variables, Clients { secrets, .. }) = started(dir.path(), &settings);
    let given = secrets.get_secret_value().secret_id(&variables["ANNALS_SECRETS"]).send().await.unwrap();
    let values: Value = serde_json::from_str(given.secret_string().unwrap()).unwrap();
    // A platform is set up, so none is a development secret.
    let key = std::fs::read_to_string(dir.path().join("api-key")).unwrap();
    assert_eq!(
        values,
        json!({
            "HTTP_API_KEYS": "app:s1,ops:s2:admin",
            "TELEGRAM_BOT_TOKEN": "1:development", "TELEGRAM_WEBHOOK_SECRET": key.trim(),
            "LARK_APP_ID": "cli_1", "LARK_APP_SECRET": "s3", "LARK_VERIFICATION_TOKEN": "t", "LARK_ENCRYPT_KEY": "k",
            "DISCORD_APPLICATION_ID": "1000000000000000000", "DISCORD_PUBLIC_KEY": public_key_of(key.trim()),
        })
    );
    let by_arn = secrets.get_secret_value().secret_id(given.arn().unwrap()).send().await.unwrap();
    assert_eq!(by_arn.secret_string(), given.secret_string());
    let none = secrets.get_secret_value().secret_id("annals-other");
    assert_eq!(code(none.send().await), "ResourceNotFoundException");
    let put = secrets.put_secret_value().secret_id("annals").secret_string("{}");
    assert_eq!(code(put.send().await), "InvalidRequestException", "they are settings of the program");
}

#[tokio::test]
async fn the_emulated_aws_requires_a_key_that_survives_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let (process, printed, _) = started(dir.path(), &[]);
    let wrong = Clients::new(&printed, "49d1315fe219e433201ebecf9cd28b26efca4266");
    assert_eq!(code(wrong.dynamodb.list_tables().send().await), "InvalidSignatureException");
    assert_eq!(code(wrong.s3.list_buckets().send().await), "SignatureDoesNotMatch");
    assert_eq!(code(wrong.sqs.list_queues().send().await), "InvalidSignatureException");
    let secret = wrong.secrets.get_secret_value().secret_id("annals");
    assert_eq!(code(secret.send().await), "InvalidSignatureException");

    let client = loopback_client();
    let url = &printed["AWS_ENDPOINT_URL"];
    let targets = ["DynamoDB_20120810.ListTables", "AmazonSQS.SendMessage", "secretsmanager.GetSecretValue"];
    for target in targets {
        let request = client.post(url).header("X-Amz-Target", target).body(r#"{"SecretId": "annals"}"#);
        assert_eq!(request.send().await.unwrap().status(), 403, "{target}");
    }
    // Version 2 of S3's signatures, with the right key.
    let (id, secret) = (&printed["AWS_ACCESS_KEY_ID"], printed["AWS_SECRET_ACCESS_KEY"].as_bytes());
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret);
    let sign = |when: &str| STANDARD.encode(hmac::sign(&key, format!("GET\n\n\n{when}\n/annals").as_bytes()));
    let (date, expires) = ("Sat, 21 Nov 2026 00:00:00 GMT", "4102444800");
    let signature = utf8_percent_encode(&sign(expires), NON_ALPHANUMERIC).to_string();
    let by_query =
        |name: &str| format!("{url}/annals?AWSAccessKeyId={id}&Expires={expires}&{name}={signature}");
    let by_header = format!("AWS {id}:{}", sign(date));
    for (url, authorization) in [
        (format!("{url}/annals"), by_header.as_str()),
        (by_query("Signature"), ""),
        (by_query("%53ignature"), "AWS4-HMAC-SHA256 Credential=local"),
    ] {
        let request = client.get(url).header("Date", date).header("Authorization", authorization);
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert!(status == 403 && text.contains("not signed"), "{status} {text}");
    }

    drop(process);
    let (_process, again, right) = started(dir.path(), &[]);
    let file = std::fs::read_to_string(dir.path().join("sam-env.json")).unwrap();
    let for_sam: Value = serde_json::from_str(&file).unwrap();
    let for_sam = for_sam["Parameters"].as_object().unwrap();
    assert!(for_sam.iter().all(|(name, value)| again[name] == *value) && for_sam.len() == 5, "{file}");
    assert!(!file.contains(&again["AWS_SECRET_ACCESS_KEY"]), "{file}");
    assert_eq!(again["AWS_SECRET_ACCESS_KEY"], printed["AWS_SECRET_ACCESS_KEY"]);
    assert!(right.dynamodb.list_tables().send().await.unwrap().table_names().contains(&"annals".to_owned()));
}

/// Returns the public key of the key pair that the local program makes of the data directory's key.
fn public_key_of(key: &str) -> String {
    let seed = ring::digest::digest(&ring::digest::SHA256, key.as_bytes());
    let pair = Ed25519KeyPair::from_seed_unchecked(seed.as_ref()).unwrap();
    hex::encode(pair.public_key().as_ref())
}
