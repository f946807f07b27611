//! HTTP requests to the Open API and their answers: [`Wire`].

use std::time::Duration;

use annals_channel::client::{Outage, connect};
use annals_io::connection::Connection;
use reqwest::{Method, RequestBuilder, Url};
use serde::de::DeserializeOwned;

use super::answer::Answer;
use super::error::SendError;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// HTTP connection and base URL, without the app's credentials.
#[derive(Clone)]
pub(super) struct Wire {
    pub(super) http: Connection,
    pub(super) base: Url,
}

impl Wire {
    pub(super) fn new(base: Url) -> Self {
        Self { http: Connection::new(|| connect(REQUEST_TIMEOUT)), base }
    }

    /// Returns the URL of `path` in the Open API. Each segment is escaped.
    pub(super) fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().push("open-apis").extend(path);
        }
        url
    }

    /// Builds a request. `method` is the name of the API method for errors.
    pub(super) fn request(
        &self,
        method: &'static str,
        http_method: Method,
        url: Url,
    ) -> Result<RequestBuilder, SendError> {
        let client = self.http.client();
        client
            .map(|client| client.request(http_method, url))
            .map_err(|error| SendError::Unavailable { method, source: Outage::Connection(error) })
    }

    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        method: &'static str,
        request: RequestBuilder,
        secrets: &[&str],
    ) -> Result<T, SendError> {
        let unavailable = |error: reqwest::Error| SendError::Unavailable { method, source: error.into() };
        let response = request.send().await.map_err(unavailable)?;
        let status = response.status().as_u16();
        let header = response.headers().get("x-ogw-ratelimit-reset");
        let reset = header.and_then(|reset| reset.to_str().ok()?.trim().parse().ok());
        let body = response.bytes().await.map_err(unavailable)?;
        Answer { method, status, reset, body: &body }.read(secrets)
    }
}
