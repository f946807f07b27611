//! Signed requests to a service: [`Service`].
//!
//! They are sent by the SDK's own runtime, which signs, limits, repeats and traces them as it does for an SDK crate; what such a
//! crate adds is a type for each operation.

use std::fmt::{self, Debug, Formatter};

use annals_io::aws_host;
use aws_config::SdkConfig;
use aws_runtime::auth::sigv4::{SCHEME_ID, SigV4AuthScheme};
use aws_runtime::auth::{SigV4OperationSigningConfig, SigningOptions};
use aws_runtime::invocation_id::InvocationIdInterceptor;
use aws_runtime::recursion_detection::RecursionDetectionInterceptor;
use aws_runtime::request_info::RequestInfoInterceptor;
use aws_runtime::retries::classifiers::AwsErrorCodeClassifier;
use aws_runtime::service_clock_skew::{ServiceClockSkewClassifier, ServiceClockSkewInterceptor};
use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime::client::retries::classifiers::{HttpStatusCodeClassifier, TransientErrorClassifier};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::auth::static_resolver::StaticAuthSchemeOptionResolver;
use aws_smithy_runtime_api::client::auth::{AuthSchemeOptionResolverParams, SharedAuthScheme};
use aws_smithy_runtime_api::client::identity::SharedIdentityResolver;
use aws_smithy_runtime_api::client::orchestrator::{
    HttpRequest, HttpResponse, OrchestratorError, SensitiveOutput,
};
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;
use aws_smithy_runtime_api::client::runtime_plugin::StaticRuntimePlugin;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::Layer;
use aws_smithy_types::error::ErrorMetadata;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use aws_types::SigningName;
use aws_types::region::SigningRegion;
use aws_types::service_config::ServiceConfigKey;
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

/// A failed request: refused by the service, or not sent, or not answered.
pub type Failure = SdkError<Refused, HttpResponse>;

/// A service of AWS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Api {
    /// As in the names of settings, such as `AWS_ENDPOINT_URL_SECRETS_MANAGER`.
    pub(crate) id: &'static str,
    /// In host names and signatures.
    pub(crate) name: &'static str,
    /// Version of AWS's JSON protocol; none for S3.
    pub(crate) json: &'static str,
}

const SQS: Api = Api { id: "SQS", name: "sqs", json: "1.0" };
const SECRETS_MANAGER: Api = Api { id: "Secrets Manager", name: "secretsmanager", json: "1.1" };

/// A service, or a bucket of S3, at its endpoint.
#[derive(Clone, Debug)]
pub struct Service {
    api: Api,
    operation: Operation<Request, Answer, Refused>,
}

/// A request: its path and query, encoded, its headers and body.
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

/// The body of an answer.
pub(crate) struct Answer(Vec<u8>);

/// A service's refusal: its code and message.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", .0.code().unwrap_or_default(), .0.message().unwrap_or("without a message"))]
pub struct Refused(ErrorMetadata);

/// Without what may be a message or a secret.
impl Debug for Request {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}, {} bytes", self.method, self.path, self.body.len())
    }
}

impl Debug for Answer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl ProvideErrorMetadata for Refused {
    fn meta(&self) -> &ErrorMetadata {
        &self.0
    }
}

impl Service {
    /// Opens SQS.
    pub fn sqs(config: &SdkConfig) -> Self {
        Self::open(config, SQS, &endpoint(config, SQS))
    }

    /// Opens Secrets Manager.
    pub fn secrets_manager(config: &SdkConfig) -> Self {
        Self::open(config, SECRETS_MANAGER, &endpoint(config, SECRETS_MANAGER))
    }

    /// Opens `api` at the URL `endpoint`. Requests are not signed if `config` has no credentials.
    pub(crate) fn open(config: &SdkConfig, api: Api, endpoint: &str) -> Self {
        let retries = config.retry_config().cloned().unwrap_or_else(RetryConfig::standard);
        let mut operation = Operation::builder()
            .service_name(api.name)
            .operation_name(api.id)
            .endpoint_url(endpoint)
            .standard_retry(&retries)
            .retry_classifier(HttpStatusCodeClassifier::default())
            .retry_classifier(TransientErrorClassifier::<Refused>::new())
            .retry_classifier(AwsErrorCodeClassifier::<Refused>::new())
            .retry_classifier(ServiceClockSkewClassifier::<Refused>::new())
            .interceptor(ServiceClockSkewInterceptor::new())
            .interceptor(RequestInfoInterceptor::new())
            .interceptor(InvocationIdInterceptor::new())
            .interceptor(RecursionDetectionInterceptor::new())
            .timeout_config(config.timeout_config().cloned().unwrap_or_else(TimeoutConfig::disabled));
        if let Some(version) = config.behavior_version() {
            operation = operation.behavior_version(version);
        }
        if let Some(http) = config.http_client() {
            operation = operation.http_client(http);
        }
        let mut private = Layer::new("private");
        // An answer may be a secret or a message. Its body is not logged, whatever the level.
        private.store_put(SensitiveOutput);
        operation = operation.runtime_plugin(StaticRuntimePlugin::new().with_config(private.freeze()));
        operation = match signing(config, api) {
            Some(signing) => operation.runtime_plugin(signing),
            None => operation.no_auth(),
        };
        Self { api, operation: operation.serializer(http_request).deserializer(answer).build() }
    }

    /// Calls an operation of the JSON protocol, such as `AmazonSQS.SendMessage`, and returns its answer.
    pub async fn call(&self, target: &'static str, input: &Value) -> Result<Value, Failure> {
        let content_type = format!("application/x-amz-json-{}", self.api.json);
        let headers = vec![("content-type", content_type), ("x-amz-target", target.into())];
        let body = input.to_string().into_bytes();
        let answer = self.send(Request { method: "POST", path: "/".into(), headers, body }).await?;
        if answer.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&answer).map_err(unreadable)
    }

    /// Sends a request, and returns the body of the answer.
    pub(crate) async fn send(&self, request: Request) -> Result<Vec<u8>, Failure> {
        Ok(Box::pin(self.operation.invoke(request)).await?.0)
    }
}

/// Returns the failure of an answer that cannot be parsed: a proxy gave it, or another program at the endpoint.
pub(crate) fn unreadable(error: impl Into<BoxError>) -> Failure {
    let empty = HttpResponse::new(StatusCode::OK.into(), SdkBody::empty());
    Failure::response_error(error, empty)
}

/// Returns what signs requests to `api`; `None` without credentials.
fn signing(config: &SdkConfig, api: Api) -> Option<StaticRuntimePlugin> {
    let credentials = config.credentials_provider()?;
    let region = config.region().cloned().map(SigningRegion::from);
    let mut options = SigningOptions::default();
    // S3 wants paths as they are, and the digest of each body.
    let is_s3 = api.name == "s3";
    (options.double_uri_encode, options.normalize_uri_path) = (!is_s3, !is_s3);
    options.content_sha256_header = is_s3;
    let mut layer = Layer::new("signing");
    layer.store_put(AuthSchemeOptionResolverParams::new(()));
    layer.store_put(SigV4OperationSigningConfig {
        region,
        name: Some(SigningName::from_static(api.name)),
        signing_options: options,
        ..SigV4OperationSigningConfig::default()
    });
    let mut components = RuntimeComponentsBuilder::new("signing");
    components.push_auth_scheme(SharedAuthScheme::new(SigV4AuthScheme::new()));
    components.set_auth_scheme_option_resolver(Some(StaticAuthSchemeOptionResolver::new(vec![SCHEME_ID])));
    components.set_identity_resolver(SCHEME_ID, SharedIdentityResolver::new(credentials));
    components.set_identity_cache(config.identity_cache());
    Some(StaticRuntimePlugin::new().with_config(layer.freeze()).with_runtime_components(components))
}

/// Returns the URL that the user set for `api`, or for all services.
pub(crate) fn custom_endpoint(config: &SdkConfig, api: Api) -> Option<String> {
    let key = ServiceConfigKey::builder().service_id(api.id).env("AWS_ENDPOINT_URL").profile("endpoint_url");
    let own = key.build().ok().and_then(|key| config.service_config()?.load_config(key));
    own.or_else(|| config.endpoint_url().map(str::to_owned))
}

/// Returns the URL of `api`: the one that the user set, or AWS's.
fn endpoint(config: &SdkConfig, api: Api) -> String {
    custom_endpoint(config, api).unwrap_or_else(|| format!("https://{}", host(config, api)))
}

/// Returns AWS's host of `api` in the region.
pub(crate) fn host(config: &SdkConfig, api: Api) -> String {
    aws_host::of(api.name, config.region().map_or("us-east-1", |region| region.as_ref()))
}

fn http_request(request: Request) -> Result<HttpRequest, BoxError> {
    let mut built = http::Request::builder().method(request.method).uri(request.path);
    for (name, value) in request.headers {
        built = built.header(name, value);
    }
    Ok(built.body(SdkBody::from(request.body))?.try_into()?)
}

fn answer(response: &HttpResponse) -> Result<Answer, OrchestratorError<Refused>> {
    let body = response.body().bytes().unwrap_or_default();
    if response.status().is_success() {
        return Ok(Answer(body.to_vec()));
    }
    Err(OrchestratorError::operation(Refused(refusal(response, body))))
}

/// `<Error><Code>NoSuchKey</Code><Message>…</Message></Error>`
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct XmlError {
    code: Option<String>,
    message: Option<String>,
}

/// Reads the error of an answer: XML, or `{"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "…"}`.
fn refusal(response: &HttpResponse, body: &[u8]) -> ErrorMetadata {
    let error = match serde_json::from_slice::<Value>(body) {
        Ok(error) => {
            let of = |names: [&str; 2]| names.iter().find_map(|name| error[name].as_str()).map(str::to_owned);
            XmlError { code: of(["__type", "code"]), message: of(["message", "Message"]) }
        }
        Err(_) => quick_xml::de::from_str(&String::from_utf8_lossy(body)).unwrap_or_default(),
    };
    let code =
        response.headers().get("x-amzn-errortype").map(str::to_owned).or(error.code).unwrap_or_default();
    // With a namespace before it, and sometimes a URL after it.
    let code = code.split(':').next().unwrap_or_default().rsplit('#').next().unwrap_or_default();
    let status = || format!("HTTP {}", response.status().as_u16());
    let mut metadata = ErrorMetadata::builder();
    metadata = metadata.code(if code.is_empty() { status() } else { code.to_owned() });
    if let Some(message) = error.message {
        metadata = metadata.message(message);
    }
    metadata.build()
}

#[cfg(test)]
mod tests {
    use aws_config::Region;

    use super::*;

    #[test]
    fn a_service_has_the_host_of_its_region() {
        let of =
            |region: &'static str| endpoint(&SdkConfig::builder().region(Region::new(region)).build(), SQS);
        assert_eq!(of("eu-central-1"), "https://sqs.eu-central-1.amazonaws.com");
        assert_eq!(of("us-gov-west-1"), "https://sqs.us-gov-west-1.amazonaws.com");
        assert_eq!(of("cn-north-1"), "https://sqs.cn-north-1.amazonaws.com.cn");
        assert_eq!(of("eusc-de-east-1"), "https://sqs.eusc-de-east-1.amazonaws.eu");
        let set = SdkConfig::builder().endpoint_url("http://localhost:4566").build();
        assert_eq!(endpoint(&set, SQS), "http://localhost:4566");
    }
}
