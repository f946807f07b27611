//! The AWS services that the functions call, on loopback: a DynamoDB engine in memory, and the calls of S3, SQS and
//! Secrets Manager that a first request makes. Each service has its own address, as in AWS, so that no two share a
//! connection.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use annals_aws::SdkConfig;
use annals_aws::bucket::Bucket;
use annals_aws::connector::Https;
use annals_core::settings::Env;
use annals_io::clock::Clock;
use annals_local::stores::engine::Engine;
use annals_local::stores::{BUCKET, TABLE};
use annals_store::history::History;
use annals_store::settings::retention;
use annals_test_support::http::client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region, SharedCredentialsProvider};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The running services.
pub(crate) struct Account {
    dynamodb: SocketAddr,
    others: [(&'static str, SocketAddr); 3],
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    objects: Mutex<HashMap<String, Bytes>>,
    turns: Mutex<Vec<Value>>,
    secrets: HashMap<String, String>,
}

impl Account {
    /// Starts the services, with an empty table and bucket, and `secrets` (names and values).
    pub(crate) async fn start(secrets: HashMap<String, String>) -> Self {
        let shared = Arc::new(Shared { secrets, ..Shared::default() });
        let (dynamodb, listener) = listen().await;
        let engine = Engine::new(dynoxide::Database::memory().unwrap());
        let app = Router::new().fallback(async move |request: Request| engine.answer(request).await);
        tokio::spawn(async move { axum::serve(listener, app).await });
        let mut others = [("S3", dynamodb), ("SQS", dynamodb), ("SECRETS_MANAGER", dynamodb)];
        for (_, address) in &mut others {
            let (at, listener) = listen().await;
            let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
            let app = Router::new().fallback(call).with_state(Arc::clone(&shared));
            tokio::spawn(async move { axum::serve(listener, app).await });
            *address = at;
        }
        let account = Self { dynamodb, others, shared };
        account.make_table().await;
        account
    }

    /// Returns the environment with which the SDK finds them, including credentials and region.
    pub(crate) fn env(&self) -> Vec<(String, String)> {
        let mut env = vec![
            ("AWS_REGION".into(), "eu-central-1".into()),
            ("AWS_ACCESS_KEY_ID".into(), "AKIDEXAMPLE".into()),
            ("AWS_SECRET_ACCESS_KEY".into(), "secret".into()),
            ("AWS_SESSION_TOKEN".into(), "token".into()),
            ("AWS_ENDPOINT_URL_DYNAMODB".into(), format!("http://{}", self.dynamodb)),
        ];
        let others = self.others.iter();
        env.extend(others.map(|(name, at)| (format!("AWS_ENDPOINT_URL_{name}"), format!("http://{at}"))));
        env
    }

    /// Returns the histories in the table, on `clock`.
    pub(crate) fn history(&self, clock: Clock) -> History {
        let (region, keys) = (Region::new("eu-central-1"), Credentials::new("a", "b", None, None, "bench"));
        let aws = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(region)
            .credentials_provider(SharedCredentialsProvider::new(keys))
            .http_client(Https::new())
            .build();
        let at = |address: &SocketAddr| aws.to_builder().endpoint_url(format!("http://{address}")).build();
        let dynamodb = aws_sdk_dynamodb::Client::new(&at(&self.dynamodb));
        let bucket = Bucket::new(&at(&self.others[0].1), BUCKET);
        let retention = retention(Env::new(&|_| None)).unwrap();
        History::new(dynamodb, TABLE.into(), bucket, clock, retention)
    }

    /// Takes the bodies of the messages that the queue has received since the last call.
    pub(crate) fn take_turns(&self) -> Vec<Value> {
        std::mem::take(&mut self.shared.turns.lock().unwrap())
    }

    /// Creates the table as in `infra/template.yaml`.
    async fn make_table(&self) {
        let attribute = |name, kind| json!({"AttributeName": name, "AttributeType": kind});
        let keys = |hash, range| json!([{"AttributeName": hash, "KeyType": "HASH"}, {"AttributeName": range, "KeyType": "RANGE"}]);
        let table = json!({
            "TableName": TABLE,
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [
                attribute("pk", "S"), attribute("sk", "S"), attribute("dueShard", "S"), attribute("dueAt", "N"),
            ],
            "KeySchema": keys("pk", "sk"),
            "GlobalSecondaryIndexes": [{
                "IndexName": "due", "KeySchema": keys("dueShard", "dueAt"),
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }],
        });
        let request = client().post(format!("http://{}", self.dynamodb)).body(table.to_string());
        let request = request.header("X-Amz-Target", "DynamoDB_20120810.CreateTable");
        let request = request.header("Content-Type", "application/x-amz-json-1.0");
        let made = request.send().await.unwrap();
        assert_eq!(made.status(), 200, "{}", made.text().await.unwrap());
    }
}

async fn listen() -> (SocketAddr, TcpListener) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    (listener.local_addr().unwrap(), listener)
}

/// Answers a call of S3, SQS or Secrets Manager.
async fn call(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Some(target) = headers.get("X-Amz-Target") else { return object(&shared, &method, &uri, body) };
    let request: Value = serde_json::from_slice(&body).unwrap();
    let text = |name: &str| request[name].as_str().unwrap().to_owned();
    let answer = match target.to_str().unwrap() {
        "AmazonSQS.SendMessage" => {
            let turn = serde_json::from_str(&text("MessageBody")).unwrap();
            shared.turns.lock().unwrap().push(turn);
            json!({"MessageId": "059f36b4-87a3-44ab-83d2-661975830a7d", "SequenceNumber": "18849496460467696128"})
        }
        "secretsmanager.GetSecretValue" => {
            let name = text("SecretId");
            json!({"Name": name, "SecretString": shared.secrets[&name]})
        }
        other => panic!("nobody answers {other}"),
    };
    ([("Content-Type", "application/x-amz-json-1.0")], answer.to_string()).into_response()
}

/// Answers `PutObject`, which only creates, and `GetObject`.
fn object(shared: &Shared, method: &Method, uri: &Uri, body: Bytes) -> Response {
    let mut objects = shared.objects.lock().unwrap();
    let code = |status: StatusCode, code: &str| {
        (status, format!("<Error><Code>{code}</Code></Error>")).into_response()
    };
    match (method, objects.get(uri.path())) {
        (&Method::GET, Some(object)) => object.clone().into_response(),
        (&Method::GET, None) => code(StatusCode::NOT_FOUND, "NoSuchKey"),
        (&Method::PUT, Some(_)) => code(StatusCode::PRECONDITION_FAILED, "PreconditionFailed"),
        (&Method::PUT, None) => {
            objects.insert(uri.path().to_owned(), body);
            StatusCode::OK.into_response()
        }
        _ => panic!("nobody answers {method} {uri}"),
    }
}
