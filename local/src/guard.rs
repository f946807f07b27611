//! Keeps web pages out of the local program: a browser on this machine may be shown any page, and a page may send
//! requests to any port of this machine, also under a name of its own that points here (DNS rebinding).

use std::sync::Arc;

use annals_shared::config::CorsOrigins;
use annals_shared::problem::Problem;
use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::config::LocalConfig;

/// What may be reached from elsewhere, through a tunnel that rewrites `Host`.
#[derive(Clone, Debug)]
pub struct Guard {
    /// Whether Telegram is set up with a secret of its own.
    pub telegram: bool,
    /// Whether Lark is set up with a token of its own.
    pub lark: bool,
    /// Whether the API has keys of its own.
    pub api: bool,
    /// `HTTP_CORS_ORIGINS`: whose pages may call the API, too.
    pub origins: CorsOrigins,
}

/// Lets through requests to a loopback name, from no page or from a page of this server's own, and from elsewhere
/// only to what has secrets of its own.
pub async fn only_local(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    match guard.check(request.headers(), request.uri().path()) {
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

impl Guard {
    /// As `config` says.
    pub fn of(config: &LocalConfig) -> Self {
        Self {
            telegram: config.telegram.is_some(),
            lark: config.lark.is_some(),
            api: !config.uses_dev_key,
            origins: config.cors_origins.clone(),
        }
    }

    fn check(&self, headers: &HeaderMap, path: &str) -> Result<(), &'static str> {
        let header = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("?"));
        let host = header(HOST).ok_or("the request has no Host header")?;
        if !is_loopback(host) {
            return Err("the Host header is no loopback name: call it as localhost or 127.0.0.1");
        }
        let is_welcome = |origin: &HeaderValue| {
            let own = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
            own == Some(host) || (is_api(path) && self.origins.include(origin))
        };
        if headers.get(ORIGIN).is_some_and(|origin| !is_welcome(origin)) {
            return Err("the request comes from another origin's page");
        }
        let is_forwarded = FORWARDED_HEADERS.iter().any(|name| headers.contains_key(*name));
        if is_forwarded && !self.is_open(path) {
            return Err(
                "the request came through a proxy, to a route that has no secret, or a development one",
            );
        }
        Ok(())
    }

    fn is_open(&self, path: &str) -> bool {
        match path {
            "/telegram" => self.telegram,
            "/lark" => self.lark,
            "/health" | "/openapi.json" => true,
            _ => self.api && (path.starts_with("/v1/") || path.starts_with("/api/chat")),
        }
    }
}

/// Whether CORS is a matter of the route: one of the HTTP API's, which wants a key or says nothing of anybody.
fn is_api(path: &str) -> bool {
    matches!(path, "/health" | "/openapi.json") || path.starts_with("/v1/") || path.starts_with("/api/")
}

/// What tunnels and proxies add.
const FORWARDED_HEADERS: [&str; 4] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];

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

    const DEVELOPMENT: Guard = Guard { telegram: false, lark: false, api: false, origins: CorsOrigins::None };

    #[test]
    fn through_a_tunnel_only_what_has_a_secret_of_its_own() {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "localhost:3000".parse().unwrap());
        headers.insert("x-forwarded-for", "203.0.113.7".parse().unwrap());
        let open = |guard: Guard| {
            ["/telegram", "/v1/chats/a/messages", "/api/chat", "/local/outbox", "/health"]
                .map(|path| guard.check(&headers, path).is_ok())
        };
        assert_eq!(open(DEVELOPMENT), [false, false, false, false, true]);
        assert_eq!(open(Guard { telegram: true, ..DEVELOPMENT }), [true, false, false, false, true]);
        assert_eq!(open(Guard { telegram: true, api: true, ..DEVELOPMENT }), [true, true, true, false, true]);
    }

    #[track_caller]
    fn answers(host: &str, origin: Option<&str>, expected: bool) {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        assert_eq!(DEVELOPMENT.check(&headers, "/v1/messages").is_ok(), expected, "{host} {origin:?}");
    }

    #[test]
    fn pages_that_are_named_reach_the_api_alone() {
        let origin = HeaderValue::from_static("https://app.example.com");
        let guard = Guard { origins: CorsOrigins::These(vec![origin.clone()]), ..DEVELOPMENT };
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "localhost:3000".parse().unwrap());
        headers.insert(ORIGIN, origin);
        let answers = |guard: &Guard, headers: &HeaderMap| {
            ["/v1/chats", "/openapi.json", "/local/outbox", "/telegram", "/lark", "/"]
                .map(|path| guard.check(headers, path).is_ok())
        };
        assert_eq!(answers(&guard, &headers), [true, true, false, false, false, false]);
        assert_eq!(answers(&DEVELOPMENT, &headers), [false; 6]);
        headers.insert(ORIGIN, "https://app.example.com.evil.example".parse().unwrap());
        assert_eq!(answers(&guard, &headers), [false; 6]);
        headers.insert(HOST, "annals.example".parse().unwrap());
        headers.insert(ORIGIN, "https://app.example.com".parse().unwrap());
        assert_eq!(answers(&guard, &headers), [false; 6], "under no other name");
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
        assert!(DEVELOPMENT.check(&HeaderMap::new(), "/").is_err());
    }
}
