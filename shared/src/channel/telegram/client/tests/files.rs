//! Files that people sent.

use axum::Router;
use axum::response::Redirect;
use tokio::net::TcpListener;

use super::telegram_api::picture;
use super::*;
use crate::channel::file::FileError;

#[tokio::test]
async fn a_file_is_asked_for_and_then_read_no_further_than_wanted() {
    let (api, client, _) = start().await;
    assert_eq!(client.file("a", 100).await, Ok(picture("a")));
    assert_eq!(client.file("a", picture("a").len()).await, Ok(picture("a")));
    assert_eq!(client.file("a", picture("a").len() - 1).await, Err(FileError::TooLarge));
    // What `getFile` says of it is too much: nothing is read.
    assert_eq!(api.statuses("file"), [200, 200]);
    api.set_file("huge", vec![0; 20 * 1024 * 1024 + 1]);
    assert_eq!(client.file("huge", usize::MAX).await, Err(FileError::TooLarge));
    api.forget_file("gone");
    assert!(matches!(client.file("gone", 100).await, Err(FileError::Gone(_))));
    for (status, is_gone) in [(404, true), (500, false), (429, false), (302, false), (401, false)] {
        api.fail_files(1, status);
        let error = client.file("a", 100).await.unwrap_err();
        assert_eq!(matches!(error, FileError::Gone(_)), is_gone, "{status}: {error:?}");
        assert!(is_gone || matches!(error, FileError::Unavailable(_)), "{status}: {error:?}");
    }
    // Another bot's token is about no file.
    let (stranger, _) = client_at(api.base_url(), "7:x");
    assert!(matches!(stranger.file("a", 100).await, Err(FileError::Unavailable(_))));
}

/// A server that says of each file that it lies at `path`, and sends whoever looks there elsewhere.
async fn misleading(path: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let answer = json!({"ok": true, "result": {"file_id": "a", "file_path": path}}).to_string();
    let get_file = axum::routing::post(move || async move { answer });
    let token = TelegramApi::token();
    let elsewhere = axum::routing::get(|| async { "what is none of a bot's" });
    let app = Router::new()
        .route(&format!("/bot{token}/getFile"), get_file)
        .route("/elsewhere", elsewhere)
        .fallback(|| async { Redirect::temporary("/elsewhere") });
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    base
}

#[tokio::test]
async fn what_is_said_of_where_a_file_lies_leads_nowhere_else() {
    for path in
        ["../../elsewhere", "/elsewhere", "a/../../../elsewhere", "./elsewhere", "", "photos/file_1.jpg"]
    {
        let (client, _) = client_at(&misleading(path).await, TelegramApi::token());
        let error = client.file("a", 100).await.unwrap_err();
        assert!(matches!(error, FileError::Unavailable(_)), "{path}: {error:?}");
        assert!(!chain(&error).contains(TelegramApi::token()), "{path}: {error:?}");
    }
    let (nobody, clock) = client_at("http://127.0.0.1:9", TelegramApi::token());
    let (error, _) = while_time_passes(&clock, nobody.file("a", 100)).await;
    let error = error.unwrap_err();
    assert!(!chain(&error).contains(TelegramApi::token()), "{error:?}");
}
