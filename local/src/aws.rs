//! `aws`: serves the program's stores, queue and secrets as AWS services at one address, for functions in containers and other
//! processes with an unmodified SDK: [`Gateway`].
//!
//! ```text
//! X-Amz-Target: DynamoDB_20120810.…      DynamoDB, all operations of the engine
//! X-Amz-Target: AmazonSQS.SendMessage    SQS, onto the in-process queue
//! X-Amz-Target: secretsmanager.Get…      Secrets Manager, the program's own settings
//! (none)                                 S3, path-style
//! ```
//!
//! *Invariant:* each request is signed with a random key of the data directory. So no development secret protects the services
//! outside loopback, and no web page can call them.

mod fault;
mod secrets;
mod signature;
mod sqs;

use std::future::pending;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use annals_io::clock::Clock;
use annals_runtime::request_body::BodyReader;
use anyhow::Context;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use clap::Args;
use fault::Fault;
use percent_encoding::percent_decode_str;
use s3s::auth::SimpleAuth;
use secrecy::ExposeSecret;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;

use crate::config::LocalConfig;
use crate::queue::LocalQueue;
use crate::server::{self, HEADER_TIMEOUT};
use crate::stores::engine::{Engine, MAX_BODY_BYTES, TARGET, in_json};
use crate::stores::files::SAM_ENV;
use crate::stores::folder::S3;
use crate::stores::{BUCKET, REGION, Stores, TABLE};
pub use secrets::SECRET;
use secrets::Secrets;
pub use signature::{ACCESS_KEY, Key};
use sqs::{ACCOUNT, QUEUE, Sqs};

/// Arguments of `aws`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// An address of this machine. Docker's bridge, for containers on Linux: 172.17.0.1
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    // By default that of other emulators of AWS.
    /// 0 picks a free one and prints it
    #[arg(long, default_value_t = 4566)]
    port: u16,
}

impl Arguments {
    /// Returns the address of the services. Warns if others on the network could read them.
    pub(crate) fn address(&self) -> SocketAddr {
        let host = self.host;
        if host.is_unspecified() {
            eprintln!(
                "annals: {host} is every network of this machine, and calls are signed but not encrypted: others on the \
                 network can read the secrets. Containers on Linux only need Docker's bridge, --host 172.17.0.1"
            );
        }
        SocketAddr::new(host, self.port)
    }
}

/// Answer to AWS's older protocol: that of STS, and of SDKs before the end of 2023 for SQS.
const NO_QUERY_PROTOCOL: &str = "<ErrorResponse><Error><Type>Sender</Type><Code>InvalidAction</Code><Message>DynamoDB, S3, SQS \
    and Secrets Manager are here; SQS by its JSON protocol</Message></Error></ErrorResponse>";

/// The services at one address.
pub struct Gateway {
    listener: TcpListener,
    services: Services,
}

struct Services {
    dynamodb: Engine,
    s3: S3,
    sqs: Sqs,
    secrets: Secrets,
    key: Key,
    bodies: BodyReader,
    clock: Clock,
}

impl Gateway {
    /// Binds `address`, for the services of the program of `config`. The caller holds the lock of the data directory.
    pub(crate) async fn bind(
        address: SocketAddr,
        config: &LocalConfig,
        stores: &Stores,
        queue: LocalQueue,
        clock: Clock,
    ) -> anyhow::Result<Self> {
        let key = Key::of(&config.data_dir)?;
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!(
                "failed to listen on {address}: choose another port with --port, or an address of this machine with --host"
            )
        })?;
        let services = Services {
            dynamodb: stores.engine.clone(),
            s3: stores
                .folder
                .service(Some(SimpleAuth::from_single(ACCESS_KEY, key.secret.expose_secret())))?,
            sqs: Sqs::new(queue),
            secrets: Secrets::of(config),
            key,
            bodies: BodyReader::default(),
            clock,
        };
        let gateway = Self { listener, services };
        gateway.write_sam_env(&config.data_dir)?;
        Ok(gateway)
    }

    /// Returns the environment variables for a function, or for any process with an SDK.
    pub fn variables(&self) -> anyhow::Result<Vec<(&'static str, String)>> {
        let mut address = self.listener.local_addr().context("the listener has no address")?;
        match address {
            // An address for all networks cannot be called.
            SocketAddr::V4(v4) if v4.ip().is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            SocketAddr::V6(v6) if v6.ip().is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            SocketAddr::V4(_) | SocketAddr::V6(_) => {}
        }
        let url = format!("http://{address}");
        Ok(vec![
            ("AWS_ENDPOINT_URL", url.clone()),
            ("AWS_REGION", REGION.into()),
            // For tools in Python.
            ("AWS_DEFAULT_REGION", REGION.into()),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY.into()),
            ("AWS_SECRET_ACCESS_KEY", self.services.key.secret.expose_secret().into()),
            ("ANNALS_TABLE", TABLE.into()),
            ("ANNALS_BUCKET", BUCKET.into()),
            ("ANNALS_QUEUE_URL", format!("{url}/{ACCOUNT}/{QUEUE}")),
            ("ANNALS_SECRETS", SECRET.into()),
        ])
    }

    /// Writes [`SAM_ENV`], the variables of functions for `sam local --env-vars`, which evaluates no conditions and does not know
    /// the names of resources. It contains no secret: `sam` takes credentials from its own environment.
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
            .with_context(|| format!("failed to write {}", path.display()))
    }

    /// Serves until the process ends.
    pub(crate) async fn serve(self) {
        let router = Router::new().fallback(answer).with_state(Arc::new(self.services));
        server::serve(self.listener, router, HEADER_TIMEOUT, pending()).await;
    }
}

const NOT_SIGNED: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>AccessDenied</Code><Message>the \
                          request is not signed, or is a form</Message></Error>";

async fn answer(State(services): State<Arc<Services>>, request: Request) -> Response {
    let is_json = request.headers().contains_key(TARGET);
    let is_form = |value: &HeaderValue| value.as_bytes().starts_with(b"application/x-www-form-urlencoded");
    if !is_json && request.headers().get(header::CONTENT_TYPE).is_some_and(is_form) {
        return (StatusCode::BAD_REQUEST, [(header::CONTENT_TYPE, "text/xml")], NO_QUERY_PROTOCOL)
            .into_response();
    }
    let is_multipart = |value: &HeaderValue| value.as_bytes().starts_with(b"multipart/");
    if !is_signed(&request) || request.headers().get(header::CONTENT_TYPE).is_some_and(is_multipart) {
        // Before the body is read: a web page may send a form without a preflight request, and no SDK sends one.
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

/// Returns true if `request` has a signature of version 4. `s3s` accepts version 2 too, which signs no body and has no time
/// window, and compares it in variable time.
fn is_signed(request: &Request) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let has = |name: &str| {
        let mut names = query.split('&').map(|pair| pair.split('=').next().unwrap_or_default());
        names.any(|given| percent_decode_str(given).eq(name.bytes()))
    };
    let is_version_4 = |value: &HeaderValue| value.as_bytes().starts_with(b"AWS4-HMAC-SHA256");
    let is_in_header = request.headers().get(header::AUTHORIZATION).is_some_and(is_version_4);
    (is_in_header || has("X-Amz-Signature")) && !has("Signature")
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
        let answer = match target.split_once('.') {
            Some((service, _)) if service.starts_with("DynamoDB_") => {
                return Ok(self.dynamodb.call(&parts.headers, body).await);
            }
            Some(("AmazonSQS", name)) => self.sqs.call(name, &body).await?,
            Some(("secretsmanager", name)) => self.secrets.call(name, &body)?,
            _ => return Err(Fault::new("UnknownOperationException", "this service is not available here")),
        };
        Ok(in_json(answer.to_string()))
    }
}
