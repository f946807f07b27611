//! `openapi.json` has the routes that there are. That answers are as it says is checked of every one in these tests
//! (`Answer::of`), and by `tests/schemathesis/run`.

use std::collections::BTreeSet;

use reqwest::Method;
use reqwest::header::ALLOW;
use serde_json::Value;

use crate::app::TestApp;
use crate::support::openapi::methods;

/// What a path is tried with in place of its parameters.
fn concrete(path: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { "x".to_owned() } else { part.to_owned() };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn the_document_has_the_routes_and_methods_of_the_router() {
    const ROUTER: &str = include_str!("../../functions/http/src/lib.rs");
    let app = TestApp::builder().start().await;
    let given = app.request(Method::GET, "/openapi.json").send().await.unwrap();
    assert_eq!(given.headers()["content-type"], "application/json");
    assert_eq!(given.json::<Value>().await.unwrap(), annals_http::openapi());

    let routed = ROUTER.lines().filter_map(|line| line.trim().strip_prefix(".route(\"")?.split_once('"'));
    // The console is a page, and no part of the API.
    let routed = routed.filter(|(path, _)| *path != "/" && !path.starts_with("/console/"));
    let routed: BTreeSet<String> = routed.map(|(path, _)| concrete(path)).collect();
    let documented: BTreeSet<String> = methods().map(|(path, _)| concrete(path)).collect();
    assert!(routed.len() > 10, "{routed:?}");
    assert_eq!(routed, documented);
    for (path, methods) in methods() {
        // No route takes this one; a router says which it does.
        let method = Method::from_bytes(b"PROPFIND").unwrap();
        let answer = app.request(method, &concrete(path)).send().await.unwrap();
        assert_eq!(answer.status(), 405, "{path}");
        let allowed = answer.headers()[ALLOW].to_str().unwrap().split(',').map(str::to_owned);
        let allowed: BTreeSet<String> = allowed.filter(|method| method != "HEAD").collect();
        assert_eq!(allowed, methods.into_iter().collect(), "{path}");
    }
    app.finish().await;
}
