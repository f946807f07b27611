//! The console with `Console=true`, at both addresses; over the HTTP API its bytes are compressed, in base64.

use std::io::Read;

use flate2::read::GzDecoder;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, ETAG, IF_NONE_MATCH};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::Value;

use crate::stack::{Stack, beside, root};

/// Both addresses of the HTTP API.
fn at(stack: &Stack, address: &str, path: &str) -> RequestBuilder {
    match address {
        "the HTTP API" => stack.api(Method::GET, path),
        _ => stack.function_url("HttpStreaming", Method::GET, path),
    }
}

/// Fetches as a browser: the text, decompressed, and the answer's `ETag`. The emulator takes a streamed answer for text, so at the
/// function URL nothing compressed is asked for.
async fn loaded(stack: &Stack, address: &str, path: &str) -> (String, String) {
    let is_compressed = address == "the HTTP API";
    let request = at(stack, address, path);
    let request = if is_compressed { request.header(ACCEPT_ENCODING, "gzip, br") } else { request };
    let answer = request.send().await.unwrap().error_for_status().unwrap();
    assert_eq!(answer.headers().get(CONTENT_ENCODING).is_some(), is_compressed, "{address}: {path}");
    assert!(answer.headers().contains_key(CONTENT_SECURITY_POLICY), "{address}: {path}");
    let etag = answer.headers()[ETAG].to_str().unwrap().to_owned();
    let bytes = answer.bytes().await.unwrap();
    let mut text = String::new();
    if is_compressed {
        GzDecoder::new(&*bytes).read_to_string(&mut text).unwrap();
    } else {
        text = String::from_utf8(bytes.into()).unwrap();
    }
    (text, etag)
}

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn the_console_is_served_at_both_addresses_and_asks_for_a_key() {
    beside(async |stack| {
        let built = root().join("console/dist");
        for address in ["the HTTP API", "the function URL"] {
            let (page, etag) = loaded(stack, address, "/").await;
            assert_eq!(page, std::fs::read_to_string(built.join("index.html")).unwrap(), "{address}");
            let known = at(stack, address, "/").header(IF_NONE_MATCH, &etag).send().await.unwrap();
            assert_eq!(known.status(), StatusCode::NOT_MODIFIED, "{address}");
            let files: Vec<_> = page.split('"').filter_map(|part| part.strip_prefix("/console/")).collect();
            assert_eq!(files.len(), 2, "{page}");
            for file in files {
                let (text, _) = loaded(stack, address, &format!("/console/{file}")).await;
                assert!(text == std::fs::read_to_string(built.join(file)).unwrap(), "{address}: {file}");
            }
            // What the page asks first, with the key that was typed into it and without one.
            let stranger = at(stack, address, "/v1/key").send().await.unwrap();
            assert_eq!(stranger.status(), StatusCode::UNAUTHORIZED, "{address}");
            let key = at(stack, address, "/v1/key").bearer_auth("ops-secret").send().await.unwrap();
            assert_eq!(key.status(), StatusCode::OK, "{address}");
            assert_eq!(key.json::<Value>().await.unwrap()["admin"], true, "{address}");
        }
    });
}
