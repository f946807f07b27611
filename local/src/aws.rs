//! `aws`: the program's stores, queue and secrets as AWS's services at one address, for functions in containers and other
//! processes with an unmodified SDK: [`Gateway`].
//!
//! ```text
//! X-Amz-Target: DynamoDB_20120810.…      DynamoDB, all of what the engine has
//! X-Amz-Target: AmazonSQS.SendMessage    SQS, onto the in-process queue
//! X-Amz-Target: secretsmanager.Get…      Secrets Manager, the program's own settings
//! (none)                                 S3, path-style
//! ```
//!
//! *Invariant:* each request is signed with a key of the data directory, made at random. So also beyond loopback nothing is
//! guarded by a development secret, and no web page can call.

mod fault;
mod secrets;
mod signature;
mod sqs;

use std::future::pending;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use annals_shared::clock::Clock;
use annals_shared::request_body::BodyReader;
use anyhow::Context;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use secrecy::ExposeSecret;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;

use self::fault::{Fault, answered};
pub use self::secrets::SECRET;
use self::secrets::Secrets;
pub(crate) use self::signature::KEY_FILE;
pub use self::signature::{ACCESS_KEY, Key};
use self::sqs::{ACCOUNT, QUEUE, Sqs};
use crate::config::LocalConfig;
use crate::queue::LocalQueue;
use crate::server::{self, HEADER_TIMEOUT};
use crate::stores::engine::{Engine, MAX_BODY_BYTES, TARGET};
use crate::stores::folder::Door;
use crate::stores::{BUCKET, REGION, Stores, TABLE};

/// The port where nothing else is said: the one that emulators of AWS have.
pub const PORT: u16 = 4566;

/// To what speaks AWS's older protocol: STS, and SDKs before the end of 2023 to SQS.
const NO_QUERIES: &str = "<ErrorResponse><Error><Type>Sender</Type><Code>InvalidAction</Code><Message>DynamoDB, S3, SQS \
    and Secrets Manager are here; SQS by its JSON protocol</Message></Error></ErrorResponse>";

/// For `sam local --env-vars`, in the data directory.
pub const SAM_ENV: &str = "sam-env.json";

/// Where the services are to be, and what Secrets Manager holds.
pub struct Plan {
    address: SocketAddr,
    data_dir: PathBuf,
    secrets: Secrets,
}

impl Plan {
    /// The services of the program of `config`, at `address`.
    pub fn new(address: SocketAddr, config: &LocalConfig) -> Self {
        Self { address, data_dir: config.data_dir.clone(), secrets: Secrets::of(config) }
    }
}

/// The services at one address.
pub struct Gateway {
    listener: TcpListener,
    services: Services,
}

struct Services {
    dynamodb: Engine,
    s3: Door,
    sqs: Sqs,
    secrets: Secrets,
    key: Key,
    bodies: BodyReader,
    clock: Clock,
}

impl Gateway {
    /// Binds the address of `plan`. Whoever calls this has the lock of the data directory.
    pub(crate) async fn bind(
        plan: Plan,
        stores: &Stores,
        queue: LocalQueue,
        clock: Clock,
    ) -> anyhow::Result<Self> {
        let Plan { address, data_dir, secrets } = plan;
        let key = Key::of(&data_dir)?;
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!(
                "cannot listen on {address}: --port takes another port, --host an address of this machine"
            )
        })?;
        let services = Services {
            dynamodb: stores.engine.clone(),
            s3: stores.folder.door(ACCESS_KEY, key.secret.expose_secret())?,
            sqs: Sqs::new(queue, clock.clone()),
            secrets,
            key,
            bodies: BodyReader::default(),
            clock,
        };
        let gateway = Self { listener, services };
        gateway.write_sam_env(&data_dir)?;
        Ok(gateway)
    }

    /// What to set in the environment of a function, or of any process with an SDK.
    pub fn variables(&self) -> anyhow::Result<Vec<(&'static str, String)>> {
        let mut address = self.listener.local_addr().context("the listener has no address")?;
        match address {
            // Nobody can call an address that stands for all.
            SocketAddr::V4(v4) if v4.ip().is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            SocketAddr::V6(v6) if v6.ip().is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            SocketAddr::V4(_) | SocketAddr::V6(_) => {}
        }
        let url = format!("http://{address}");
        Ok(vec![
            ("AWS_ENDPOINT_URL", url.clone()),
            ("AWS_REGION", REGION.into()),
            // What tools in Python read.
            ("AWS_DEFAULT_REGION", REGION.into()),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY.into()),
            ("AWS_SECRET_ACCESS_KEY", self.services.key.secret.expose_secret().into()),
            ("ANNALS_TABLE", TABLE.into()),
            ("ANNALS_BUCKET", BUCKET.into()),
            ("ANNALS_QUEUE_URL", format!("{url}/{ACCOUNT}/{QUEUE}")),
            ("ANNALS_SECRETS", SECRET.into()),
        ])
    }

    /// Writes what functions get in `sam local --env-vars`, which evaluates no conditions and knows no names of resources,
    /// to [`SAM_ENV`]. No secret is in it: credentials `sam` takes from its own environment.
    fn write_sam_env(&self, data_dir: &Path) -> anyhow::Result<()> {
        let is_own = |name: &str| name == "AWS_ENDPOINT_URL" || name.starts_with("ANNALS_");
        let variables: Map<String, Value> = self
            .variables()?
            .into_iter()
            .filter(|(name, _)| is_own(name))
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        let path = data_dir.join(SAM_ENV);
        std::fs::write(&path, format!("{:#}\n", json!({ "Parameters": variables })))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Serves until the process ends.
    pub(crate) async fn serve(self) {
        let router = Router::new().fallback(answer).with_state(Arc::new(self.services));
        server::serve(self.listener, router, HEADER_TIMEOUT, pending()).await;
    }
}

const NOT_SIGNED: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>AccessDenied</Code><Message>the request is not signed, or is a \
                          form</Message></Error>";

async fn answer(State(services): State<Arc<Services>>, request: Request) -> Response {
    let is_json = request.headers().contains_key(TARGET);
    let is_form = |value: &HeaderValue| value.as_bytes().starts_with(b"application/x-www-form-urlencoded");
    if !is_json && request.headers().get(header::CONTENT_TYPE).is_some_and(is_form) {
        return (StatusCode::BAD_REQUEST, [(header::CONTENT_TYPE, "text/xml")], NO_QUERIES).into_response();
    }
    let is_signed = request.headers().contains_key(header::AUTHORIZATION)
        || request.uri().query().is_some_and(|query| query.contains("X-Amz-Signature="));
    let is_multipart = |value: &HeaderValue| value.as_bytes().starts_with(b"multipart/");
    if !is_signed || request.headers().get(header::CONTENT_TYPE).is_some_and(is_multipart) {
        // Before anything of a body is read: a page may send a form without asking, and no SDK does.
        return match services.key.check(request.headers(), b"", &services.clock) {
            Err(fault) if is_json => fault.into_response(),
            _ => (StatusCode::FORBIDDEN, [(header::CONTENT_TYPE, "application/xml")], NOT_SIGNED)
                .into_response(),
        };
    }
    if !is_json {
        return services.s3.answer(request).await;
    }
    services.json(request).await.unwrap_or_else(Fault::into_response)
}

impl Services {
    async fn json(&self, request: Request) -> Result<Response, Fault> {
        let (parts, body) = request.into_parts();
        if parts.method != Method::POST || parts.uri.path() != "/" || parts.uri.query().is_some() {
            return Err(Fault::new("UnknownOperationException", "a call is a POST to /"));
        }
        let body = self.bodies.read(body, MAX_BODY_BYTES, &self.clock).await.map_err(|_| {
            Fault::new("RequestEntityTooLarge", "the request is longer than 16 MiB, too slow, or broke off")
        })?;
        let body = Bytes::copy_from_slice(&body);
        self.key.check(&parts.headers, &body, &self.clock)?;
        let target = parts.headers.get(TARGET).and_then(|target| target.to_str().ok()).unwrap_or_default();
        match target.split_once('.') {
            Some((service, _)) if service.starts_with("DynamoDB_") => {
                Ok(self.dynamodb.call(&parts.headers, body).await)
            }
            Some(("AmazonSQS", name)) => self.sqs.call(name, &body).await.map(|answer| answered(&answer)),
            Some(("secretsmanager", name)) => self.secrets.call(name, &body).map(|answer| answered(&answer)),
            _ => Err(Fault::new("UnknownOperationException", "a service that is not here")),
        }
    }
}
