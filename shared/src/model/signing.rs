//! AWS signatures, version 4, for a request that no SDK client makes.
//!
//! Of Bedrock only one operation is called. Its SDK crate would be the fourth of its size in the binary; the SDKs' own
//! crates for signing and for event streams are in the tree as it is.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use aws_config::SdkConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use tokio::sync::Mutex;

use super::ModelError;
use crate::clock::Clock;

/// What Bedrock's requests are signed for.
const SERVICE: &str = "bedrock";
/// How long before they expire credentials are fetched anew.
const MARGIN: Duration = Duration::from_mins(1);
/// How long those are kept that do not say when they expire.
const KEPT: Duration = Duration::from_mins(15);

/// Signs as the role, or the user, that the process is in AWS.
#[derive(Clone, Debug)]
pub(super) struct Signer {
    region: String,
    provider: SharedCredentialsProvider,
    /// The credentials last fetched, and until when they are used (epoch milliseconds).
    kept: Arc<Mutex<Option<(Credentials, i64)>>>,
    clock: Clock,
}

impl Signer {
    /// `None` without a region or a source of credentials.
    pub(super) fn new(aws: &SdkConfig, clock: Clock) -> Option<Self> {
        let (region, provider) = (aws.region()?.to_string(), aws.credentials_provider()?);
        Some(Self { region, provider, kept: Arc::default(), clock })
    }

    /// The headers that sign a POST of the JSON `body` to `url`.
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
        let mut kept = self.kept.lock().await;
        let now = self.clock.now();
        if let Some((credentials, until)) = kept.as_ref()
            && now.as_millis() < *until
        {
            return Ok(credentials.clone());
        }
        let credentials = self.provider.provide_credentials().await.map_err(|error| {
            tracing::warn!(%error, "no AWS credentials for the model");
            ModelError::NoAws
        })?;
        let expires = credentials.expiry().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let expires = expires.and_then(|at| i64::try_from(at.saturating_sub(MARGIN).as_millis()).ok());
        let until = expires.unwrap_or_else(|| now.plus(KEPT).as_millis());
        *kept = Some((credentials.clone(), until));
        Ok(credentials)
    }
}
