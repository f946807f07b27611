//! Serves the console: one page at `/`, with its script and its style at `/console/…`.
//!
//! The files hold no data and need no key: the page reads from the API, with a key that a person enters. Its sources are in
//! `console/`, and the build in `console/dist`, which `build.rs` compresses into the program.
//!
//! The page shows messages of people and models. So it may run only its own script, talk only to its own server, and be shown in
//! no frame of another page. Nor does it load images from other servers, which would tell their owner when and where a message
//! is read.

use std::io::Read;

use annals_runtime::problem::Problem;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use flate2::read::GzDecoder;

/// A file of the built console.
struct File {
    /// Its name, which contains a digest of the content if it is a script or a style.
    name: &'static str,
    etag: &'static str,
    gzip: &'static [u8],
}

const FILES: &[File] = &include!(concat!(env!("OUT_DIR"), "/console.rs"));

const PAGE: &str = "index.html";

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Serves `GET /`.
pub(crate) async fn page(headers: HeaderMap) -> Response {
    answer(PAGE, &headers)
}

/// Serves `GET /console/{file}`.
pub(crate) async fn file(name: Result<Path<String>, PathRejection>, headers: HeaderMap) -> Response {
    // No file has a name that is not UTF-8.
    name.map_or_else(|_| Problem::not_found().into_response(), |Path(name)| answer(&name, &headers))
}

fn answer(name: &str, headers: &HeaderMap) -> Response {
    let Some(file) = FILES.iter().find(|file| file.name == name) else {
        return Problem::not_found().into_response();
    };
    let has = |name: HeaderName, item: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|value| {
            let value = value.split(';').next().unwrap_or_default().trim();
            value.trim_start_matches("W/") == item || value == "*"
        })
    };
    let content_type = match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    };
    // A name changes with its content, except that of the page, which browsers revalidate each time.
    let is_named_by_content = matches!(name.rsplit('.').next(), Some("js" | "css"));
    let caching = if is_named_by_content { "public, max-age=31536000, immutable" } else { "no-cache" };
    let own = [
        (ETAG, file.etag),
        (CACHE_CONTROL, caching),
        (VARY, "accept-encoding"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    if has(IF_NONE_MATCH, file.etag) {
        return (StatusCode::NOT_MODIFIED, own).into_response();
    }
    let kind = [(CONTENT_TYPE, content_type)];
    if has(ACCEPT_ENCODING, "gzip") {
        return (own, kind, [(CONTENT_ENCODING, "gzip")], file.gzip).into_response();
    }
    let mut plain = Vec::new();
    if let Err(error) = GzDecoder::new(file.gzip).read_to_end(&mut plain) {
        tracing::error!(%error, "failed to decompress a file of the console");
        return Problem::internal().into_response();
    }
    (own, kind, plain).into_response()
}
