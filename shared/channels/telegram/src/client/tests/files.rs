//! Tests of downloads.

use annals_channel::file::FileError;
use annals_test_support::http::serve;
use annals_test_support::telegram_api::picture;
use axum::Router;
use axum::response::Redirect;

use super::*;

#[tokio::test]
async fn a_file_is_read_up_to_the_limit() {
    let (api, client, _) = start().await;
    assert_eq!(client.file("a", 100).await, Ok(picture("a")));
    assert_eq!(client.file("a", picture("a").len()).await, Ok(picture("a")));
    assert_eq!(client.file("a", picture("a").len() - 1).await, Err(FileError::TooLarge));
    // `getFile` reports more than the limit: nothing is read.
    assert_eq!(api.statuses("file"), [200, 200]);
    api.set_file("huge", vec![0; 20 * 1024 * 1024 + 1]);
    assert_eq!(client.file("huge", usize::MAX).await, Err(FileError::TooLarge));
    api.edit(|store| store.files.set.insert("gone".into(), None));
    assert!(matches!(client.file("gone", 100).await, Err(FileError::Gone(_))));
    for (status, is_gone) in [(404, true), (500, false), (429, false), (302, false), (401, false)] {
        api.edit(|store| store.files.fail = (1, status));
        let error = client.file("a", 100).await.unwrap_err();
        assert_eq!(matches!(error, FileError::Gone(_)), is_gone, "{status}: {error:?}");
        assert!(is_gone || matches!(error, FileError::Unavailable(_)), "{status}: {error:?}");
    }
    // A file id is valid for one bot only.
    let (stranger, _) = client_at(api.base_url(), "7:x");
    assert!(matches!(stranger.file("a", 100).await, Err(FileError::Unavailable(_))));
}

/// Starts a server that reports `path` for every file and redirects every download.
async fn misleading(path: &'static str) -> String {
    let answer = json!({"ok": true, "result": {"file_id": "a", "file_path": path}}).to_string();
    let get_file = axum::routing::post(move || async move { answer });
    let elsewhere = axum::routing::get(|| async { "what is none of a bot's" });
    let router = Router::new()
        .route(&format!("/bot{TOKEN}/getFile"), get_file)
        .route("/elsewhere", elsewhere)
        .fallback(|| async { Redirect::temporary("/elsewhere") });
    serve(router).await
}

#[tokio::test]
async fn a_misleading_path_is_not_followed() {
    for path in
        ["../../elsewhere", "/elsewhere", "a/../../../elsewhere", "./elsewhere", "", "photos/file_1.jpg"]
    {
        let (client, _) = client_at(&misleading(path).await, TOKEN);
        let error = client.file("a", 100).await.unwrap_err();
        assert!(matches!(error, FileError::Unavailable(_)), "{path}: {error:?}");
        assert!(!logged(&error).contains(TOKEN), "{path}: {error:?}");
    }
    let (nobody, clock) = client_at("http://127.0.0.1:9", TOKEN);
    let (error, _) = clock.advance_during(nobody.file("a", 100)).await;
    let error = error.unwrap_err();
    assert!(!logged(&error).contains(TOKEN), "{error:?}");
}
