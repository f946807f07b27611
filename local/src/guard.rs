//! Refuses requests of web pages to the local program: [`Guard`]. Any page in a browser on this machine may send requests to any
//! port of this machine, even under a host name of its own that points here (DNS rebinding).

use std::sync::Arc;

use annals_http::settings::CorsOrigins;
use annals_runtime::problem::Problem;
use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::config::LocalConfig;

/// Routes that may be reached from other machines, through a tunnel that rewrites `Host`.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    /// Paths of webhooks that have secrets of their own: those of channels that are set up.
    pub(crate) webhooks: Vec<String>,
    /// True if the API has keys of its own.
    pub(crate) api: bool,
    /// `HTTP_CORS_ORIGINS`: origins whose pages may call the API.
    pub(crate) origins: CorsOrigins,
}

/// Accepts requests to a loopback name that come from no page or from this server's own page. Requests through a tunnel are
/// accepted only for routes that have secrets of their own.
pub(crate) async fn only_local(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
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
    /// Returns the guard of a program with `config`.
    pub(crate) fn of(config: &LocalConfig) -> Self {
        let set_up = config.channels.iter().filter(|channel| channel.is_set_up());
        Self {
            webhooks: set_up.map(|channel| channel.about().path()).collect(),
            api: config.api_keys.is_some(),
            origins: config.cors_origins.clone(),
        }
    }

    fn check(&self, headers: &HeaderMap, path: &str) -> Result<(), &'static str> {
        let header = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("?"));
        let host = header(HOST).ok_or("the request has no Host header")?;
        if !is_loopback(host) {
            return Err(
                "the Host header is not a loopback name: call localhost or 127.0.0.1, or have the tunnel send `Host: localhost`",
            );
        }
        let is_welcome = |origin: &HeaderValue| {
            let own = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
            own == Some(host) || (is_api(path) && self.origins.include(origin))
        };
        match (headers.get(ORIGIN), header(SEC_FETCH_SITE)) {
            (Some(origin), _) if is_welcome(origin) => {}
            (None, None | Some("same-origin" | "none")) => {}
            // Browsers send no Origin for an image, a form or a link.
            (Some(_), _) if is_api(path) => {
                return Err(
                    "the request comes from another origin's page: name its origin in HTTP_CORS_ORIGINS",
                );
            }
            _ => return Err("the request comes from another origin's page"),
        }
        if headers.keys().any(|name| is_forwarding(name.as_str())) && !self.is_open(path) {
            if path == "/" || path.starts_with("/console/") || path.starts_with("/local/") {
                return Err(
                    "the request came through a proxy, to a page for this machine only: for other machines, set ANNALS_HOST, \
                     and use a proxy with TLS",
                );
            }
            return Err(
                "the request came through a proxy, to a route that has no secret, or a development one: set HTTP_API_KEYS, or \
                 the settings of the channel",
            );
        }
        Ok(())
    }

    fn is_open(&self, path: &str) -> bool {
        match path {
            "/health" | "/openapi.json" => true,
            _ if path.starts_with("/v1/") || path.starts_with("/api/chat") => self.api,
            _ => self.webhooks.iter().any(|webhook| webhook == path),
        }
    }
}

/// Returns true if CORS applies to the route: one of the HTTP API, which needs a key or contains no data.
fn is_api(path: &str) -> bool {
    matches!(path, "/health" | "/openapi.json") || path.starts_with("/v1/") || path.starts_with("/api/")
}

/// Origin of a browser's request: `same-origin`, `same-site`, `cross-site`, or `none` for an address that a person entered.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Prefixes of headers that tunnels, proxies and load balancers add.
const FORWARDING: &str = "cdn- cf- fastly- fly- ngrok- tailscale- x-amz-cf- x-amzn- x-appengine- x-arr- x-azure- x-cloud- \
    x-envoy- x-goog- x-original- x-proxy x-railway- x-real- x-remote- x-scheme x-tunnel- x-vercel-";

/// Returns true if tunnels and proxies add a header of this name, in lower case. A tunnel of plain TCP adds none: only secrets
/// protect against it.
fn is_forwarding(name: &str) -> bool {
    // `True-Client-IP`, `X-Cluster-Client-Ip`; `Forwarded`, `X-Forwarded-For`, `WL-Forwarded-Proto`.
    name == "via"
        || name.contains("forwarded")
        || name.ends_with("-ip")
        || FORWARDING.split_whitespace().any(|prefix| name.starts_with(prefix))
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
    use axum::http::header::VIA;

    use super::*;

    #[test]
    fn every_header_of_a_tunnel_reveals_it() {
        for name in "cf-connecting-ip cf-connecting-ipv6 cf-ray cf-visitor cdn-loop fly-client-ip forwarded \
             fastly-client-ip ngrok-auth-user-email ngrok-skip-browser-warning tailscale-user-login \
             true-client-ip via x-amzn-trace-id x-arr-log-id x-azure-clientip x-client-ip \
             x-cloud-trace-context x-cluster-client-ip x-envoy-external-address x-forwarded \
             x-forwarded-for x-forwarded-host x-forwarded-port x-forwarded-proto x-forwarded-server \
             x-original-forwarded-for x-original-host x-proxyuser-ip x-real-ip x-tunnel-id"
            .split_whitespace()
        {
            assert!(is_forwarding(name), "{name}");
        }
        for name in "accept authorization content-type cookie last-event-id traceparent user-agent \
             x-lark-signature x-request-id x-requested-with x-telegram-bot-api-secret-token"
            .split_whitespace()
        {
            assert!(!is_forwarding(name), "{name}");
        }
    }

    #[test]
    fn a_page_that_no_setting_opens_is_refused_without_naming_one() {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "localhost:3000".parse().unwrap());
        headers.insert(VIA, "x".parse().unwrap());
        let guard = Guard { webhooks: Vec::new(), api: true, origins: CorsOrigins::None };
        assert_eq!(guard.check(&headers, "/v1/chats"), Ok(()));
        for path in ["/", "/console/console.css", "/local/status"] {
            assert!(guard.check(&headers, path).unwrap_err().contains("for this machine only"), "{path}");
        }
    }

    #[test]
    fn the_browser_reveals_pages_of_other_sites() {
        let open = |site: &'static str, origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, "localhost:3000".parse().unwrap());
            headers.insert(SEC_FETCH_SITE, HeaderValue::from_static(site));
            headers.extend(origin.map(|origin| (ORIGIN, HeaderValue::from_static(origin))));
            let origins = CorsOrigins::These(vec![HeaderValue::from_static("https://app.example.com")]);
            Guard { webhooks: Vec::new(), api: false, origins }.check(&headers, "/v1/chats").is_ok()
        };
        assert!(open("none", None) && open("same-origin", None));
        assert!(open("same-origin", Some("http://localhost:3000")));
        assert!(!open("cross-site", None) && !open("same-site", None));
        assert!(!open("cross-site", Some("https://evil.example")));
        assert!(open("cross-site", Some("https://app.example.com")), "it is named");
    }
}
