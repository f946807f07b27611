//! A router on a loopback port, and what the emulators of platforms answer.

use std::time::Duration;

use axum::Router;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A running server; it stops when dropped.
pub(crate) struct Server {
    /// `http://127.0.0.1:<port>`
    pub(crate) url: String,
    task: JoinHandle<()>,
}

impl Server {
    /// Serves `router` at `port`, or at any free one if 0.
    pub(crate) async fn start(port: u16, router: Router) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        Self { url, task: tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The answer to a call.
pub struct Answer {
    pub(crate) status: u16,
    /// The media type.
    pub(crate) kind: &'static str,
    pub(crate) body: Vec<u8>,
    /// A header besides the media type.
    pub(crate) header: Option<(HeaderName, String)>,
    /// True if the call is carried out, and never answered.
    pub(crate) hangs: bool,
}

impl Answer {
    /// Creates an answer of this media type.
    pub(crate) fn new(status: u16, kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, kind, body: body.into(), header: None, hangs: false }
    }

    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "application/json", body.to_string())
    }

    /// Creates the answer of a proxy: a page, and no JSON.
    pub(crate) fn page(status: u16, page: &str) -> Self {
        Self::new(status, "text/html", page)
    }

    /// Returns the `code` in the body: 0 without one, -1 if it is a page.
    pub(crate) fn code(&self) -> i64 {
        let code = |body: Value| body["code"].as_i64();
        let code = serde_json::from_slice(&self.body).ok().and_then(code);
        if self.kind == "text/html" { -1 } else { code.unwrap_or(0) }
    }

    /// Returns the response after `delay`, or never if the answer hangs.
    #[allow(
        clippy::disallowed_methods,
        reason = "the slowness is real: it is what time-outs are tested with"
    )]
    pub(crate) async fn send(self, delay: Duration) -> Response {
        if self.hangs {
            std::future::pending::<()>().await;
        }
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let status = StatusCode::from_u16(self.status).unwrap();
        let mut response = (status, [(header::CONTENT_TYPE, self.kind)], self.body).into_response();
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value.parse().unwrap());
        }
        response
    }
}

/// Counts down, and returns true if there was something left.
pub(crate) fn take(times: &mut usize) -> bool {
    let takes = *times > 0;
    *times -= usize::from(takes);
    takes
}

/// The default content of a file: a PNG of one pixel, another for each `id`.
pub fn picture(id: &str) -> Vec<u8> {
    let head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
    [head, id.as_bytes()].concat()
}
