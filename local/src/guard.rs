//! Keeps web pages out of the local program: a browser on this machine may be shown any page, and a page may send
//! requests to any port of this machine, also under a name of its own that points here (DNS rebinding).

use std::sync::Arc;

use annals_shared::config::CorsOrigins;
use annals_shared::problem::Problem;
use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
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
            api: config.api_keys.is_some(),
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
        match (headers.get(ORIGIN), header(SEC_FETCH_SITE)) {
            (Some(origin), _) if is_welcome(origin) => {}
            (None, None | Some("same-origin" | "none")) => {}
            // Of an image, a form or a link, browsers name no origin.
            _ => return Err("the request comes from another origin's page"),
        }
        if headers.keys().any(|name| is_forwarding(name.as_str())) && !self.is_open(path) {
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

/// Where a browser's request comes from: `same-origin`, `same-site`, `cross-site`, or `none` for what a person typed.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Beginnings of the headers that tunnels, proxies and load balancers add.
const FORWARDING: [&str; 22] = [
    "cdn-",
    "cf-",
    "fastly-",
    "fly-",
    "ngrok-",
    "tailscale-",
    "x-amz-cf-",
    "x-amzn-",
    "x-appengine-",
    "x-arr-",
    "x-azure-",
    "x-cloud-",
    "x-envoy-",
    "x-goog-",
    "x-original-",
    "x-proxy",
    "x-railway-",
    "x-real-",
    "x-remote-",
    "x-scheme",
    "x-tunnel-",
    "x-vercel-",
];

/// Whether something between the client and this program adds a header of this name, in lower case. A tunnel of bare TCP adds
/// none: against those, only secrets help.
fn is_forwarding(name: &str) -> bool {
    // `True-Client-IP`, `X-Cluster-Client-Ip`; `Forwarded`, `X-Forwarded-For`, `WL-Forwarded-Proto`.
    name == "via"
        || name.contains("forwarded")
        || name.ends_with("-ip")
        || FORWARDING.iter().any(|family| name.starts_with(family))
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

    #[test]
    fn whatever_a_tunnel_adds_tells_of_it() {
        let open = |name: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, "localhost:3000".parse().unwrap());
            headers.insert(name, "x".parse().unwrap());
            DEVELOPMENT.check(&headers, "/v1/messages").is_ok()
        };
        for name in [
            "cf-connecting-ip",
            "cf-connecting-ipv6",
            "cf-ray",
            "cf-visitor",
            "cdn-loop",
            "fly-client-ip",
            "forwarded",
            "fastly-client-ip",
            "ngrok-auth-user-email",
            "ngrok-skip-browser-warning",
            "tailscale-user-login",
            "true-client-ip",
            "via",
            "x-amzn-trace-id",
            "x-arr-log-id",
            "x-azure-clientip",
            "x-client-ip",
            "x-cloud-trace-context",
            "x-cluster-client-ip",
            "x-envoy-external-address",
            "x-forwarded",
            "x-forwarded-for",
            "x-forwarded-host",
            "x-forwarded-port",
            "x-forwarded-proto",
            "x-forwarded-server",
            "x-original-forwarded-for",
            "x-original-host",
            "x-proxyuser-ip",
            "x-real-ip",
            "x-tunnel-id",
        ] {
            assert!(!open(name), "{name}");
        }
        for name in [
            "accept",
            "authorization",
            "content-type",
            "cookie",
            "last-event-id",
            "traceparent",
            "user-agent",
            "x-lark-signature",
            "x-request-id",
            "x-requested-with",
            "x-telegram-bot-api-secret-token",
        ] {
            assert!(open(name), "{name}");
        }
    }

    #[test]
    fn another_sites_page_is_told_by_the_browser() {
        let open = |site: &'static str, origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, "localhost:3000".parse().unwrap());
            headers.insert(SEC_FETCH_SITE, HeaderValue::from_static(site));
            headers.extend(origin.map(|origin| (ORIGIN, HeaderValue::from_static(origin))));
            let app = CorsOrigins::These(vec![HeaderValue::from_static("https://app.example.com")]);
            Guard { origins: app, ..DEVELOPMENT }.check(&headers, "/v1/chats").is_ok()
        };
        assert!(open("none", None) && open("same-origin", None));
        assert!(open("same-origin", Some("http://localhost:3000")));
        assert!(!open("cross-site", None) && !open("same-site", None));
        assert!(!open("cross-site", Some("https://evil.example")));
        assert!(open("cross-site", Some("https://app.example.com")), "it is named");
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
