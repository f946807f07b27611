//! Keeps web pages out of the local program: a browser on this machine may be shown any page, and a page may send
//! requests to any port of this machine, also under a name of its own that points here (DNS rebinding).

use annals_shared::problem::Problem;
use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Lets through requests to a loopback name, from no page or from a page of this server's own.
pub async fn only_local(request: Request, next: Next) -> Response {
    match check(request.headers(), request.uri().host()) {
        Ok(()) => next.run(request).await,
        Err(detail) => Problem {
            status: StatusCode::FORBIDDEN,
            kind: "not-local",
            title: "This server answers to this machine only",
            detail: detail.into(),
        }
        .into_response(),
    }
}

fn check(headers: &HeaderMap, uri_host: Option<&str>) -> Result<(), &'static str> {
    let header = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = header(HOST).or(uri_host).ok_or("the request has no Host header")?;
    if !is_loopback(host) {
        return Err("the Host header is no loopback name: call it as localhost or 127.0.0.1");
    }
    match header(ORIGIN) {
        Some(origin) if origin.strip_prefix("http://") != Some(host) => {
            Err("the request comes from another origin's page")
        }
        _ => Ok(()),
    }
}

fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn answers(host: &str, origin: Option<&str>, expected: bool) {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        assert_eq!(check(&headers, None).is_ok(), expected, "{host} {origin:?}");
    }

    #[test]
    fn only_loopback_names_and_own_pages() {
        answers("localhost:3000", None, true);
        answers("127.0.0.1:3000", Some("http://127.0.0.1:3000"), true);
        answers("[::1]:3000", None, true);
        answers("LOCALHOST", None, true);
        answers("annals.example.com", None, false);
        answers("127.0.0.1.example.com:3000", None, false);
        answers("localhost.example.com", None, false);
        answers("localhost:3000", Some("http://example.com"), false);
        answers("localhost:3000", Some("http://localhost:4000"), false);
        answers("localhost:3000", Some("null"), false);
        assert!(check(&HeaderMap::new(), None).is_err());
    }
}
