//! One question and its answer, over HTTP: [`Wire`].

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Url};
use serde::de::DeserializeOwned;

use super::answer::Answer;
use super::{Outage, SendError};
use crate::channel::connection::Connection;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The connection, without the app.
#[derive(Clone)]
pub(super) struct Wire {
    pub(super) http: Connection,
    pub(super) base: Url,
}

impl Wire {
    pub(super) fn new(base: Url) -> Self {
        Self { http: Connection::new(connect), base }
    }

    /// The address of `path` in the Open API; each part is escaped.
    pub(super) fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().push("open-apis").extend(path);
        }
        url
    }

    /// A request of `method`, which is this HTTP method at this address.
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
        let unavailable = |error: reqwest::Error| {
            // An id in the address is nobody's business.
            let error = error.without_url();
            let source = if error.is_connect() { Outage::Connection(error) } else { Outage::Response(error) };
            SendError::Unavailable { method, source }
        };
        let response = request.send().await.map_err(unavailable)?;
        let status = response.status().as_u16();
        let header = response.headers().get("x-ogw-ratelimit-reset");
        let reset = header.and_then(|reset| reset.to_str().ok()?.trim().parse().ok());
        let body = response.bytes().await.map_err(unavailable)?;
        Answer { method, status, reset, body: &body }.read(secrets)
    }
}

fn connect() -> reqwest::Result<reqwest::Client> {
    crate::tls::client()
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(REQUEST_TIMEOUT)
        // Lark does not redirect, and a redirect would carry the token elsewhere.
        .redirect(reqwest::redirect::Policy::none())
        .build()
}
