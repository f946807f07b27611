//! Files: downloads of those that people sent, and the form of a message with one.
//!
//! The URL of an attachment ends after a day. Discord returns a new one for its path:
//!
//! ```text
//! POST /attachments/refresh-urls {"attachment_urls": ["https://cdn.discordapp.com/attachments/1/2/bean.png"]}
//! 200 {"refreshed_urls": [{"original": "…", "refreshed": "https://cdn.discordapp.com/attachments/1/2/bean.png?ex=…"}]}
//! ```

use annals_channel::file::{FileError, read_limited};
use reqwest::multipart::{Form, Part};
use reqwest::{Method, Url};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{CallError, Client};

/// Host of the files.
const FILES: &str = "https://cdn.discordapp.com";
/// Hosts from which files are downloaded.
const HOSTS: [&str; 2] = ["cdn.discordapp.com", "media.discordapp.net"];
/// Name of the file with the rest of a reply.
const REST: &str = "answer.md";

#[derive(Deserialize)]
struct Refreshed {
    refreshed_urls: Vec<RefreshedUrl>,
}

#[derive(Deserialize)]
struct RefreshedUrl {
    refreshed: String,
}

impl Client {
    /// Downloads an attachment of at most `limit` bytes, by its whole `url`, or else by its `path`.
    pub async fn attachment(
        &self,
        url: Option<&str>,
        path: &str,
        limit: usize,
    ) -> Result<Vec<u8>, FileError> {
        let url = match url {
            Some(url) => url.to_owned(),
            None => self.refreshed(&format!("{FILES}/{path}")).await?,
        };
        let url = Url::parse(&url).ok().filter(|url| self.is_of_discord(url));
        let url = url.ok_or_else(|| FileError::Gone("its address is not one of Discord's".into()))?;
        let response = self.api.open((Method::GET, url), |request| request).await?;
        match response.status().as_u16() {
            200 => read_limited(response, limit).await,
            status @ (403 | 404 | 410) => Err(FileError::Gone(format!("HTTP status {status}"))),
            status => Err(FileError::Unavailable(format!("HTTP status {status}"))),
        }
    }

    async fn refreshed(&self, url: &str) -> Result<String, CallError> {
        let body = json!({"attachment_urls": [url]});
        let api = self.api.url(&["attachments", "refresh-urls"]);
        let answer: Refreshed =
            self.as_bot("refresh attachment URLs", Method::POST, api, Some(&body)).await?;
        let first = answer.refreshed_urls.into_iter().next();
        Ok(first.map_or_else(|| url.to_owned(), |url| url.refreshed))
    }

    /// Returns true for hosts of files, and for that of the API, which may be an emulator's.
    fn is_of_discord(&self, url: &Url) -> bool {
        let is_host = |host: &str| url.scheme() == "https" && HOSTS.contains(&host);
        url.host_str().is_some_and(is_host) || url.origin() == self.api.base.origin()
    }
}

/// Returns the form of a message with `text` as a file.
pub(super) fn form(body: &Value, text: &str) -> Form {
    let file = Part::text(text.to_owned()).file_name(REST);
    Form::new().text("payload_json", body.to_string()).part("files[0]", file)
}
