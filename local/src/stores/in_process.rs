//! Sends the requests of AWS clients to services of this process, without a socket: [`InProcess`].

use annals_aws::SdkConfig;
use aws_config::{BehaviorVersion, Region};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use axum::body::{Body, to_bytes};

use super::REGION;
use super::engine::{Engine, TARGET};
use super::folder::S3;

/// Endpoint of all services. It is neither resolved nor called: `.invalid` never exists (RFC 2606).
const ENDPOINT: &str = "http://stores.invalid";

/// The services of this process, in place of the network.
#[derive(Clone, Debug)]
pub(super) struct InProcess {
    pub(super) dynamodb: Engine,
    pub(super) s3: S3,
}

impl InProcess {
    /// Returns the configuration of clients of these services. They sign nothing.
    pub(super) fn config(self) -> SdkConfig {
        let connector = SharedHttpConnector::new(self);
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(REGION))
            .endpoint_url(ENDPOINT)
            .http_client(http_client_fn(move |_, _| connector.clone()))
            .build()
    }
}

impl HttpConnector for InProcess {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let services = self.clone();
        HttpConnectorFuture::new(async move {
            let request = request.try_into_http1x().map_err(|error| ConnectorError::user(error.into()))?;
            // Like AWS, carries out a request even if the caller gives up.
            let answered = tokio::spawn(async move {
                let request = request.map(Body::new);
                let response = if request.headers().contains_key(TARGET) {
                    services.dynamodb.answer(request).await
                } else {
                    services.s3.answer(request).await
                };
                let (parts, body) = response.into_parts();
                let body =
                    to_bytes(body, usize::MAX).await.map_err(|error| ConnectorError::io(error.into()))?;
                Ok(axum::http::Response::from_parts(parts, SdkBody::from(body)))
            });
            let response = answered.await.map_err(|error| ConnectorError::io(error.into()))??;
            response.try_into().map_err(|error| ConnectorError::other(Box::new(error), None))
        })
    }
}
