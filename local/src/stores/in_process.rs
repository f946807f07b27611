//! Sends the SDK's requests to a service of this process, without a socket: [`InProcess`].

use aws_sdk_s3::primitives::SdkBody;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpClient, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use axum::body::{Body, to_bytes};

use super::engine::Engine;
use super::folder;

/// Endpoint in the SDK's configuration. It is neither resolved nor called: `.invalid` never exists (RFC 2606).
pub(super) const ENDPOINT: &str = "http://stores.invalid";

/// A service of this process, in place of the network.
#[derive(Clone, Debug)]
pub(super) enum InProcess {
    DynamoDb(Engine),
    S3(folder::S3),
}

impl InProcess {
    /// Returns the HTTP client for an SDK client.
    pub(super) fn http_client(self) -> SharedHttpClient {
        let connector = SharedHttpConnector::new(self);
        http_client_fn(move |_, _| connector.clone())
    }
}

impl HttpConnector for InProcess {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let service = self.clone();
        HttpConnectorFuture::new(async move {
            let request = request.try_into_http1x().map_err(|error| ConnectorError::user(error.into()))?;
            // Like AWS, carries out a request even if the caller gives up.
            let answered = tokio::spawn(async move {
                let request = request.map(Body::new);
                let response = match service {
                    Self::DynamoDb(engine) => engine.answer(request).await,
                    Self::S3(service) => service.answer(request).await,
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
