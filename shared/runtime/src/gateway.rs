//! HTTP requests as API Gateway and function URLs pass them to a function: [`serve`], [`stream`].
//!
//! Source: payload format 2.0 of [HTTP
//! APIs](https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html), which
//! [function URLs](https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html) have too. Cookies, which have fields of
//! their own, are not passed on: no route uses any.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::ready;
use std::net::IpAddr;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::{Stream, StreamExt as _};
use lambda_runtime::tower::ServiceExt as _;
use lambda_runtime::{Error, LambdaEvent, MetadataPrelude, StreamResponse, service_fn};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::{Deserialize, Serialize};

/// Characters that a URI cannot have. API Gateway decodes paths.
const NOT_IN_URI: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>').add(b'?').add(b'`').add(b'{').add(b'}');

/// The last line of a streamed answer whose rest could not be read. Lambda would send an error as a part of the text, and end the
/// answer like a complete one. Bodies that can fail consist of JSON lines.
const BROKEN_OFF: &[u8] = br#"{"type":"urn:annals:problem:broken-off","title":"The answer breaks off here","status":500,"detail":"the rest could not be read: send the same request again"}
"#;

/// The address that a request came from, as the gateway saw it. An extension of each request.
#[derive(Clone, Copy, Debug)]
pub struct SourceIp(pub IpAddr);

/// Serves `router` until the environment ends, with answers that are sent whole.
pub async fn serve(router: Router) -> Result<(), Error> {
    lambda_runtime::run(service_fn(|event: LambdaEvent<Event>| async {
        Answer::of(answered(&router, event.payload).await?).await
    }))
    .await
}

/// Serves `router` until the environment ends, with answers that are sent while they are made.
pub async fn stream(router: Router) -> Result<(), Error> {
    lambda_runtime::run(service_fn(|event: LambdaEvent<Event>| async {
        Ok::<_, Error>(streamed(answered(&router, event.payload).await?))
    }))
    .await
}

async fn answered(router: &Router, event: Event) -> Result<Response, Error> {
    let Ok(response) = router.clone().oneshot(event.request()?).await;
    Ok(response)
}

/// A request, as far as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    raw_path: String,
    #[serde(default)]
    raw_query_string: String,
    /// Several headers of one name are one, with commas.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    request_context: Context,
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

#[derive(Deserialize)]
struct Context {
    http: Http,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Http {
    method: String,
    source_ip: Option<String>,
}

impl Event {
    fn request(self) -> Result<Request, Error> {
        let Http { method, source_ip } = self.request_context.http;
        let mut uri = utf8_percent_encode(&self.raw_path, NOT_IN_URI).to_string();
        if !self.raw_query_string.is_empty() {
            uri.push('?');
            uri.extend(utf8_percent_encode(&self.raw_query_string, NOT_IN_URI));
        }
        let body = match self.body {
            Some(body) if self.is_base64_encoded => STANDARD.decode(body)?.into(),
            Some(body) => Body::from(body),
            None => Body::empty(),
        };
        let mut request = Request::builder().method(method.as_str()).uri(uri).body(body)?;
        for (name, value) in &self.headers {
            request
                .headers_mut()
                .insert(HeaderName::try_from(name)?, HeaderValue::from_bytes(value.as_bytes())?);
        }
        if let Some(address) = source_ip.and_then(|address| address.parse().ok()) {
            request.extensions_mut().insert(SourceIp(address));
        }
        Ok(request)
    }
}

/// An answer that is sent whole.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    status_code: u16,
    headers: BTreeMap<String, String>,
    body: String,
    is_base64_encoded: bool,
}

impl Answer {
    async fn of(response: Response) -> Result<Self, Error> {
        let (parts, body) = response.into_parts();
        let headers = joined(&parts.headers).map(|(name, value)| (name.to_string(), value)).collect();
        let (body, is_base64_encoded) = match String::from_utf8(to_bytes(body, usize::MAX).await?.into()) {
            Ok(text) => (text, false),
            Err(error) => (STANDARD.encode(error.as_bytes()), true),
        };
        Ok(Self { status_code: parts.status.as_u16(), headers, body, is_base64_encoded })
    }
}

fn streamed(response: Response) -> StreamResponse<impl Stream<Item = Result<Bytes, Infallible>> + Unpin> {
    let (parts, body) = response.into_parts();
    let headers =
        joined(&parts.headers).filter_map(|(name, value)| Some((name.clone(), value.parse().ok()?)));
    let headers: HeaderMap = headers.collect();
    let metadata_prelude = MetadataPrelude { status_code: parts.status, headers, cookies: Vec::new() };
    let stream = body.into_data_stream().scan(false, |has_failed, part| {
        ready(match part {
            _ if *has_failed => None,
            Ok(bytes) => Some(Ok(bytes)),
            Err(_) => {
                *has_failed = true;
                Some(Ok(Bytes::from_static(BROKEN_OFF)))
            }
        })
    });
    StreamResponse { metadata_prelude, stream }
}

/// Returns each header once, with its values separated by commas: the gateway takes one value.
fn joined(headers: &HeaderMap) -> impl Iterator<Item = (&HeaderName, String)> {
    headers.keys().map(|name| {
        let values: Vec<_> =
            headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        (name, values.join(", "))
    })
}

#[cfg(test)]
mod tests;
