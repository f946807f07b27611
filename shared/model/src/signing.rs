//! AWS signatures, version 4, for requests without an SDK client: [`Signer`].
//!
//! Only one operation of Bedrock is used. Its SDK crate would be the fourth of its size in the binary, while the SDKs' own
//! crates for signing and event streams are dependencies anyway.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use annals_io::clock::Clock;
use aws_config::SdkConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use tokio::sync::Mutex;

use super::error::ModelError;

/// The service name in signatures of Bedrock's requests.
const SERVICE: &str = "bedrock";
/// Time before their expiry at which credentials are fetched again.
const MARGIN: Duration = Duration::from_mins(1);
/// Time for which credentials without an expiry are used.
const KEPT: Duration = Duration::from_mins(15);

/// Signs requests with the process's role, or user, in AWS.
#[derive(Clone, Debug)]
pub(super) struct Signer {
    region: String,
    provider: SharedCredentialsProvider,
    /// The credentials last fetched, and the end of their use (epoch milliseconds).
    cached: Arc<Mutex<Option<(Credentials, i64)>>>,
    clock: Clock,
}

impl Signer {
    /// Returns a signer; `None` without a region or a source of credentials.
    pub(super) fn new(aws: &SdkConfig, clock: Clock) -> Option<Self> {
        let (region, provider) = (aws.region()?.to_string(), aws.credentials_provider()?);
        Some(Self { region, provider, cached: Arc::default(), clock })
    }

    /// Returns the headers that sign a POST of the JSON `body` to `url`.
    pub(super) async fn sign(&self, url: &str, body: &[u8]) -> Result<Vec<(String, String)>, ModelError> {
        let identity = self.credentials().await?.into();
        let now = self.clock.now().as_millis();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(SERVICE)
            .time(UNIX_EPOCH + Duration::from_millis(u64::try_from(now).unwrap_or_default()))
            .settings(SigningSettings::default())
            .build()
            .map_err(|_| ModelError::NoAws)?
            .into();
        let headers = [("content-type", "application/json")];
        let request = SignableRequest::new("POST", url, headers.into_iter(), SignableBody::Bytes(body))
            .map_err(|_| ModelError::NoAws)?;
        let (instructions, _) = sign(request, &params).map_err(|_| ModelError::NoAws)?.into_parts();
        Ok(instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    async fn credentials(&self) -> Result<Credentials, ModelError> {
        let mut cached = self.cached.lock().await;
        let now = self.clock.now();
        if let Some((credentials, until)) = cached.as_ref()
            && now.as_millis() < *until
        {
            return Ok(credentials.clone());
        }
        let credentials = self.provider.provide_credentials().await.map_err(|error| {
            tracing::warn!(%error, "failed to get AWS credentials for the model; set AWS_REGION and sign in, or set MODEL_API_KEY");
            ModelError::NoAws
        })?;
        let expires = credentials.expiry().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let expires = expires.and_then(|at| i64::try_from(at.saturating_sub(MARGIN).as_millis()).ok());
        let until = expires.unwrap_or_else(|| now.plus(KEPT).as_millis());
        *cached = Some((credentials.clone(), until));
        Ok(credentials)
    }
}
