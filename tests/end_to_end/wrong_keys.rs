//! Wrong API keys: their cost, and the answers to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use annals_core::record::Channel;
use annals_core::settings::Env;
use annals_engine::live::Live;
use annals_engine::profiles::Profiles;
use annals_engine::settings::{MemoryConfig, ViewConfig};
use annals_http::Http;
use annals_http::chat::Web;
use annals_http::settings::{HttpConfig, api_keys};
use annals_local::server::{HEADER_TIMEOUT, serve};
use reqwest::Method;
use reqwest::header::RETRY_AFTER;

use crate::app::{APP_KEY, OPS_KEY, TestApp, loopback_client};
use crate::openapi;
use crate::world::World;

const PATH: &str = "/v1/chats/c1/messages";

/// Through a tunnel, or deployed: where calls come from is known.
#[tokio::test]
async fn an_address_that_guesses_waits_longer_and_longer_and_a_right_key_passes() {
    let app = TestApp::builder().start().await;
    let get = async |key: &str, from: &str| {
        let request = app.request(Method::GET, PATH).bearer_auth(key).header("X-Forwarded-For", from);
        let response = request.send().await.unwrap();
        let after = response.headers().get(RETRY_AFTER).map(|after| after.to_str().unwrap().to_owned());
        (response.status().as_u16(), after)
    };
    for n in 0..10 {
        assert_eq!(get(&format!("guess-{n}"), "203.0.113.7").await, (401, None));
    }
    for secs in ["1", "2", "4", "8"] {
        // The first address is the caller's own word, and makes it nobody else.
        assert_eq!(get("guess", "198.51.100.1, 203.0.113.7").await, (429, Some(secs.to_owned())));
    }
    for key in [APP_KEY, OPS_KEY] {
        assert_eq!(get(key, "203.0.113.7").await, (200, None));
    }
    assert_eq!(get("guess", "203.0.113.8").await, (401, None));
    // No key is no guess, and this machine's own programs are not counted.
    for _ in 0..20 {
        let response = app.request(Method::GET, PATH).header("X-Forwarded-For", "203.0.113.9");
        assert_eq!(response.send().await.unwrap().status(), 401);
        let response = app.request(Method::GET, PATH).bearer_auth("guess");
        assert_eq!(response.send().await.unwrap().status(), 401);
    }
    app.clock().advance(Duration::from_hours(1));
    assert_eq!(get("guess", "203.0.113.7").await, (401, None));
    app.finish().await;
}

/// The streaming URL has no gateway in front: anybody who finds it calls the function itself.
#[tokio::test]
async fn a_wrong_key_costs_no_call_of_a_store_a_queue_or_a_model() {
    let world = World::new().await;
    let (history, stores) = world.counted();
    let ingress = world.ingress_of(&history);
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let keys = |name: &str| (name == "HTTP_API_KEYS").then(|| "ops:ops-secret:admin".to_owned());
    let web = Web {
        ingress: ingress.clone(),
        live: Live::on(),
        run: Some(Arc::new(move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            Box::pin(async {})
        })),
        patience: Duration::from_secs(1),
        channel: Channel::Web,
    };
    let keys = api_keys(Env::new(&keys)).unwrap().unwrap();
    let config = HttpConfig { keys, console: true, ..HttpConfig::default() };
    let view = ViewConfig::from_env(Env::new(&|_| None)).unwrap();
    let documents = (MemoryConfig::default(), Profiles::default());
    let router = annals_http::router(Http::new(config, ingress, web, view, documents));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(serve(listener, router, HEADER_TIMEOUT, std::future::pending()));

    let (http, before) = (loopback_client(), stores.requests());
    let mut refused = 0;
    for (path, methods) in openapi::methods() {
        for method in methods {
            let url = base.clone() + &path.replace(['{', '}'], "");
            let request = http.request(method.parse().unwrap(), url).bearer_auth("wrong");
            let body = r#"{"userId":"ada","text":"hi","id":"r","messages":[]}"#;
            let status = request.body(body).send().await.unwrap().status().as_u16();
            let is_open = ["/health", "/openapi.json"].contains(&path);
            assert!(status == 401 || is_open, "{method} {path}: {status}");
            refused += usize::from(status == 401);
        }
    }
    assert!(refused > 15, "{refused}");
    assert_eq!((stores.requests() - before, runs.load(Ordering::SeqCst)), (0, 0));
    assert_eq!(world.queue.take(), []);
}
