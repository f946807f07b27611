//! AWS on the loopback address, as far as `doctor` and `setup` look at it: it keeps its state and refuses what AWS
//! refuses.
//!
//! It knows one table, one bucket, a queue with its dead letters, and secrets. Tests change what they are ([`AwsApi::edit`])
//! and assert on what the secrets hold ([`AwsApi::secret`]). It checks that a request is signed, not by whom.
//!
//! Shapes and codes are those of the services' API references.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::json::with;
use crate::server::Server;

/// The table.
pub const TABLE: &str = "annals-Table-1";
/// The bucket.
pub const BUCKET: &str = "annals-bucket-1";
/// The queue of turns.
pub const QUEUE: &str = "annals-Queue-1.fifo";
/// The queue of the messages that failed too often.
pub const DEAD_LETTERS: &str = "annals-DeadLetters-1.fifo";
const ACCOUNT: &str = "123456789012";

/// A running emulator; it ends with this value.
pub struct AwsApi {
    account: Arc<Mutex<Account>>,
    server: Server,
}

/// The resources, in the form in which the services describe them; initially as `infra/template.yaml` makes them.
pub struct Account {
    /// `Table` of `DescribeTable`.
    pub table: Value,
    /// `TimeToLiveDescription`
    pub expiry: Value,
    /// `PointInTimeRecoveryStatus`
    pub recovery: &'static str,
    /// The attributes of each queue.
    pub queues: BTreeMap<String, Value>,
    /// State of the bucket's four blocks of public access; `None` if never set.
    pub blocks: Option<[bool; 4]>,
    /// Actions that the caller may not do, such as `DescribeTimeToLive`.
    pub denied: Vec<&'static str>,
    /// The versions of each secret, the newest last.
    secrets: BTreeMap<String, Vec<String>>,
}

impl Account {
    fn new() -> Self {
        let key = |name: &str, role: &str| json!({"AttributeName": name, "KeyType": role});
        let attribute = |name: &str, kind: &str| json!({"AttributeName": name, "AttributeType": kind});
        let queue = |more: Value| {
            let attributes = json!({
                "FifoQueue": "true", "DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId",
                "VisibilityTimeout": "360", "ApproximateNumberOfMessages": "0", "ApproximateNumberOfMessagesNotVisible": "0",
            });
            with(attributes, more)
        };
        let target = format!("arn:aws:sqs:eu-central-1:{ACCOUNT}:{DEAD_LETTERS}");
        let redrive = json!({"deadLetterTargetArn": target, "maxReceiveCount": 25}).to_string();
        Self {
            table: json!({
                "TableName": TABLE, "TableStatus": "ACTIVE", "DeletionProtectionEnabled": true,
                "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
                "AttributeDefinitions": [
                    attribute("pk", "S"), attribute("sk", "S"), attribute("dueShard", "S"), attribute("dueAt", "N"),
                ],
                "KeySchema": [key("pk", "HASH"), key("sk", "RANGE")],
                "GlobalSecondaryIndexes": [{
                    "IndexName": "due", "IndexStatus": "ACTIVE", "Projection": {"ProjectionType": "KEYS_ONLY"},
                    "KeySchema": [key("dueShard", "HASH"), key("dueAt", "RANGE")],
                }],
            }),
            expiry: json!({"TimeToLiveStatus": "ENABLED", "AttributeName": "expiresAt"}),
            recovery: "ENABLED",
            queues: [
                (QUEUE.to_owned(), queue(json!({ "RedrivePolicy": redrive }))),
                (DEAD_LETTERS.to_owned(), queue(json!({}))),
            ]
            .into(),
            blocks: Some([true; 4]),
            denied: Vec::new(),
            secrets: BTreeMap::new(),
        }
    }
}

impl AwsApi {
    /// Starts one at a free port of `127.0.0.1`.
    pub async fn start() -> Self {
        let account = Arc::new(Mutex::new(Account::new()));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&account));
        Self { server: Server::start(0, router).await, account }
    }

    /// Returns the variables that lead an SDK here.
    pub fn access(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT_URL", self.server.url.clone()),
            ("AWS_REGION", "eu-central-1".into()),
            ("AWS_ACCESS_KEY_ID", "AKIATEST".into()),
            ("AWS_SECRET_ACCESS_KEY", "test-secret-access-key".into()),
        ]
    }

    /// The names of the stack's parts.
    pub fn stack(&self) -> Vec<(&'static str, String)> {
        let queue = format!("{}/{ACCOUNT}/{QUEUE}", self.server.url);
        vec![("ANNALS_TABLE", TABLE.into()), ("ANNALS_BUCKET", BUCKET.into()), ("ANNALS_QUEUE_URL", queue)]
    }

    /// Changes what there is.
    pub fn edit(&self, change: impl FnOnce(&mut Account)) {
        change(&mut self.account.lock().unwrap());
    }

    /// Makes a secret.
    pub fn create_secret(&self, name: &str, text: &str) {
        self.edit(|account| drop(account.secrets.insert(name.into(), vec![text.into()])));
    }

    /// The versions of a secret, the newest last.
    pub fn secret(&self, name: &str) -> Vec<String> {
        self.account.lock().unwrap().secrets[name].clone()
    }
}

/// A refusal: status, code, words.
struct Refusal(u16, &'static str, String);

fn refuse<T>(code: &'static str, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal(400, code, message.into()))
}

async fn answer(
    State(account): State<Arc<Mutex<Account>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut account = account.lock().unwrap();
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_signed = header("authorization").starts_with("AWS4-HMAC-SHA256 Credential=");
    let Some((service, action)) = header("x-amz-target").split_once('.') else {
        return account.s3(&method, &uri, is_signed);
    };
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let result = match service {
        _ if !is_signed => refuse("MissingAuthenticationTokenException", "Missing Authentication Token"),
        _ if account.denied.contains(&action) => {
            refuse("AccessDeniedException", format!("User is not authorized to perform: {action}"))
        }
        "DynamoDB_20120810" => account.dynamodb(action, &body),
        "AmazonSQS" => account.sqs(action, &body),
        "secretsmanager" => account.secrets(action, &body),
        _ => refuse("UnknownOperationException", ""),
    };
    let (status, answer) = match result {
        Ok(answer) => (200, answer),
        Err(Refusal(status, code, message)) => (status, json!({"__type": code, "message": message})),
    };
    let status = StatusCode::from_u16(status).unwrap();
    (status, [(header::CONTENT_TYPE, "application/x-amz-json-1.1")], answer.to_string()).into_response()
}

impl Account {
    fn dynamodb(&self, action: &str, body: &Value) -> Result<Value, Refusal> {
        if body["TableName"] != TABLE {
            return refuse("ResourceNotFoundException", "Requested resource not found");
        }
        match action {
            "DescribeTable" => Ok(json!({ "Table": self.table })),
            "DescribeTimeToLive" => Ok(json!({ "TimeToLiveDescription": self.expiry })),
            "DescribeContinuousBackups" => Ok(json!({"ContinuousBackupsDescription": {
                "ContinuousBackupsStatus": "ENABLED",
                "PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": self.recovery},
            }})),
            // The table is empty.
            "GetItem" => Ok(json!({})),
            _ => refuse("UnknownOperationException", ""),
        }
    }

    fn sqs(&self, action: &str, body: &Value) -> Result<Value, Refusal> {
        let missing = "The specified queue does not exist.";
        match action {
            "GetQueueUrl" => {
                let name = body["QueueName"].as_str().unwrap_or_default();
                if !self.queues.contains_key(name) || body["QueueOwnerAWSAccountId"] != ACCOUNT {
                    return refuse("com.amazonaws.sqs#QueueDoesNotExist", missing);
                }
                Ok(json!({ "QueueUrl": format!("http://sqs.test/{ACCOUNT}/{name}") }))
            }
            "GetQueueAttributes" => {
                let name =
                    body["QueueUrl"].as_str().and_then(|url| url.rsplit('/').next()).unwrap_or_default();
                match self.queues.get(name) {
                    Some(attributes) => Ok(json!({ "Attributes": attributes })),
                    None => refuse("com.amazonaws.sqs#QueueDoesNotExist", missing),
                }
            }
            _ => refuse("com.amazonaws.sqs#UnsupportedOperation", ""),
        }
    }

    fn secrets(&mut self, action: &str, body: &Value) -> Result<Value, Refusal> {
        let id = body["SecretId"].as_str().unwrap_or_default();
        let Some(versions) = self.secrets.get_mut(id) else {
            let message = "Secrets Manager can't find the specified secret.";
            return refuse("ResourceNotFoundException", message);
        };
        let arn = format!("arn:aws:secretsmanager:eu-central-1:{ACCOUNT}:secret:{id}-AbCdEf");
        match action {
            "GetSecretValue" => Ok(json!({
                "ARN": arn, "Name": id, "SecretString": versions.last(), "VersionStages": ["AWSCURRENT"],
            })),
            "PutSecretValue" => {
                let token = body["ClientRequestToken"].as_str().unwrap_or_default();
                let Some(text) = body["SecretString"].as_str() else {
                    return refuse(
                        "InvalidParameterException",
                        "You must provide either SecretString or SecretBinary.",
                    );
                };
                if !(32..=64).contains(&token.len()) {
                    return refuse(
                        "InvalidParameterException",
                        "You must provide a ClientRequestToken value.",
                    );
                }
                versions.push(text.to_owned());
                Ok(json!({"ARN": arn, "Name": id, "VersionId": token, "VersionStages": ["AWSCURRENT"]}))
            }
            _ => refuse("InvalidRequestException", ""),
        }
    }

    fn s3(&self, method: &Method, uri: &Uri, is_signed: bool) -> Response {
        let refused = |status: u16, code: &str| {
            let body = format!("<Error><Code>{code}</Code><Message>refused</Message></Error>");
            (StatusCode::from_u16(status).unwrap(), body).into_response()
        };
        let action = match (method, uri.query().unwrap_or_default()) {
            (&Method::GET, query) if query.contains("list-type") => "ListBucket",
            (&Method::GET, query) if query.contains("publicAccessBlock") => "GetBucketPublicAccessBlock",
            // Where nobody says who they are, as clocks are compared.
            _ => return refused(403, "AccessDenied"),
        };
        if !is_signed || self.denied.contains(&action) {
            return refused(403, "AccessDenied");
        }
        if uri.path().trim_matches('/') != BUCKET {
            return refused(404, "NoSuchBucket");
        }
        match (action, self.blocks) {
            ("GetBucketPublicAccessBlock", None) => refused(404, "NoSuchPublicAccessBlockConfiguration"),
            ("GetBucketPublicAccessBlock", Some([acls, ignored, policy, restricted])) => format!(
                "<PublicAccessBlockConfiguration><BlockPublicAcls>{acls}</BlockPublicAcls><IgnorePublicAcls>{ignored}\
                 </IgnorePublicAcls><BlockPublicPolicy>{policy}</BlockPublicPolicy><RestrictPublicBuckets>{restricted}\
                 </RestrictPublicBuckets></PublicAccessBlockConfiguration>"
            )
            .into_response(),
            _ => StatusCode::OK.into_response(),
        }
    }
}
