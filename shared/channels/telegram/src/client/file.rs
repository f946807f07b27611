//! Downloads files that people sent: asks for the file's path, then fetches it.
//!
//! ```text
//! POST https://api.telegram.org/bot<token>/getFile
//! {"file_id": "AgACAgIAAxkBAAIB"}
//! 200 {"ok": true, "result": {"file_id": "AgACAgIAAxkBAAIB", "file_unique_id": "AQADe", "file_size": 73212, "file_path": "photos/file_1.jpg"}}
//! 400 {"ok": false, "error_code": 400, "description": "Bad Request: file is too big"}
//!
//! GET https://api.telegram.org/file/bot<token>/photos/file_1.jpg
//! ```
//!
//! Telegram gives bots files of up to 20 MB. A path is valid for an hour, an id forever; the bytes of a photo never
//! change.
//!
//! Source: <https://core.telegram.org/bots/api#getfile>.

use annals_channel::file::{FileError, read_limited};
use reqwest::{Method, Url};
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::json;

use super::{CallError, Client};

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    file_size: Option<u64>,
    #[serde(default)]
    file_path: Option<String>,
}

impl Client {
    /// Downloads the file of `file_id`, if it has at most `limit` bytes.
    pub async fn file(&self, file_id: &str, limit: usize) -> Result<Vec<u8>, FileError> {
        let body = json!({"file_id": file_id});
        let file: Result<File, _> = self.call("getFile", &body, &mut self.api.budget()).await;
        let file = file.map_err(|error| refused(&error))?;
        if file.file_size.is_some_and(|size| size > limit as u64) {
            return Err(FileError::TooLarge);
        }
        let url = file.file_path.as_deref().and_then(|path| self.file_url(path));
        let Some(url) = url else {
            // A self-hosted Bot API server that keeps files on its disk gives no usable path either.
            return Err(FileError::Unavailable("getFile returned no usable file path".into()));
        };
        let response = self.api.open((Method::GET, url), |request| request).await?;
        match response.status().as_u16() {
            200 => read_limited(response, limit).await,
            // The path was requested just before, so it has not expired: the file is gone.
            404 | 410 => Err(FileError::Gone("Telegram no longer has the file".into())),
            status => {
                Err(FileError::Unavailable(format!("download from Telegram failed with status {status}")))
            }
        }
    }

    /// Returns the download URL of the file at `path`, or `None` if `path` could lead out of the bot's folder.
    fn file_url(&self, path: &str) -> Option<Url> {
        let parts = path.split('/');
        if parts.clone().any(|part| matches!(part, "" | "." | "..")) {
            return None;
        }
        let bot = format!("bot{}", self.token.expose_secret());
        Some(self.api.url(&["file", &bot].into_iter().chain(parts).collect::<Vec<_>>()))
    }
}

fn refused(error: &CallError) -> FileError {
    let reason = error.to_string();
    let says = |words: &str| reason.to_lowercase().contains(words);
    match error {
        CallError::Refused { status: 400, .. } if says("too big") => FileError::TooLarge,
        // Telegram's text, "wrong file_id or the file is temporarily unavailable", leaves open which one it is.
        CallError::Refused { status: 400, .. } if !says("temporarily unavailable") => FileError::Gone(reason),
        _ => FileError::Unavailable(reason),
    }
}
