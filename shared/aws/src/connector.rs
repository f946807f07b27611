//! Sends the requests of all AWS clients with one `reqwest` client: [`Https`].

use std::time::Duration;

use annals_io::connection::Connection;
use annals_io::tls;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use reqwest::redirect::Policy;

/// Longest time to connect, that of the SDK's own HTTP client.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(3100);

/// Longest time until an answer begins, the upload of the request included, and longest silence in it. Sources of credentials set a
/// shorter one.
const READ_TIMEOUT: Duration = Duration::from_mins(2);

/// The HTTP client of all AWS clients, with the certificates that the program's other clients have. Bodies are in memory, in both
/// directions.
#[derive(Clone, Debug)]
pub struct Https(Connection);

impl Https {
    /// Creates the client. Reads the system's certificates now, since a function has a whole processor while it starts; an error
    /// is that of the first request.
    pub fn new() -> Self {
        let connection = Connection::new(|| {
            tls::client()
                .connect_timeout(CONNECT_TIMEOUT)
                .read_timeout(READ_TIMEOUT)
                .redirect(Policy::none())
                .build()
        });
        let _ = connection.client();
        Self(connection)
    }
}

impl Default for Https {
    fn default() -> Self {
        Self::new()
    }
}

impl HttpClient for Https {
    fn http_connector(&self, settings: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        let connect = settings.connect_timeout().unwrap_or(CONNECT_TIMEOUT);
        let limit = settings.read_timeout().map(|read| connect + read);
        SharedHttpConnector::new(Connector { connection: self.0.clone(), limit })
    }
}

#[derive(Debug)]
struct Connector {
    connection: Connection,
    /// Time for a whole request: some sources of credentials must answer soon.
    limit: Option<Duration>,
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (connection, limit) = (self.connection.clone(), self.limit);
        HttpConnectorFuture::new(async move {
            let request = request.try_into_http1x().map_err(|error| ConnectorError::user(error.into()))?;
            let (parts, body) = request.into_parts();
            // To its end: the SDK watches how far it is read.
            let body =
                ByteStream::new(body).collect().await.map_err(|error| ConnectorError::user(error.into()))?;
            let request = http::Request::from_parts(parts, body.into_bytes());
            let mut request = reqwest::Request::try_from(request).map_err(of_reqwest)?;
            *request.timeout_mut() = limit;
            let response =
                connection.client().map_err(of_reqwest)?.execute(request).await.map_err(of_reqwest)?;
            let mut answer = http::Response::builder().status(response.status());
            if let Some(headers) = answer.headers_mut() {
                headers.clone_from(response.headers());
            }
            let body = response.bytes().await.map_err(of_reqwest)?;
            let answer = answer
                .body(SdkBody::from(body))
                .map_err(|error| ConnectorError::other(error.into(), None))?;
            HttpResponse::try_from(answer).map_err(|error| ConnectorError::other(error.into(), None))
        })
    }
}

/// Returns the SDK's error, by whose kind it decides about a repeat. Without the URL, which the caller knows.
fn of_reqwest(error: reqwest::Error) -> ConnectorError {
    let (is_timeout, is_connect, is_built) = (error.is_timeout(), error.is_connect(), !error.is_builder());
    let error = error.without_url().into();
    match (is_timeout, is_built) {
        (true, _) => ConnectorError::timeout(error),
        (false, false) => ConnectorError::user(error),
        (false, true) if is_connect => ConnectorError::io(error).never_connected(),
        (false, true) => ConnectorError::io(error),
    }
}
