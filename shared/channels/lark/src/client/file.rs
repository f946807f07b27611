//! Downloads files that people sent: the resources of a message.
//!
//! ```text
//! GET https://open.feishu.cn/open-apis/im/v1/messages/om_1/resources/img_v3_1?type=image
//! 200 Content-Type: image/png                   the file
//! 400 {"code": 234003, "msg": "File not in msg."}
//! ```
//!
//! Lark gives out files of up to 100 MB (234037), of messages in chats that the bot is in (234004), but not those of
//! stickers, cards and forwarded messages (234043).
//!
//! Source: <https://open.larksuite.com/document/uAjLw4CM/ukTMukTMukTM/reference/im-v1/message-resource/get>.

use annals_channel::file::{FileError, read_limited, unavailable};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use secrecy::ExposeSecret;
use serde_json::Value;

use super::answer::Answer;
use super::{Client, SendError, code};

const METHOD: &str = "im/v1/messages/:message_id/resources/:file_key";
/// Maximum size of an answer that is not a file.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

impl Client {
    /// Downloads the resource `key` of a message, if it has at most `limit` bytes. `kind` is `image` or `file`.
    pub async fn resource(
        &self,
        message_id: &str,
        key: &str,
        kind: &str,
        limit: usize,
    ) -> Result<Vec<u8>, FileError> {
        let mut url = self.wire.url(&["im", "v1", "messages", message_id, "resources", key]);
        url.query_pairs_mut().append_pair("type", kind);
        let mut refused = None;
        loop {
            let token = self.tokens.get(&self.wire, refused).await?;
            let request = self.wire.request(METHOD, Method::GET, url.clone())?;
            let request = request.bearer_auth(token.value.expose_secret());
            let response = request.send().await.map_err(unavailable)?;
            let status = response.status().as_u16();
            let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            if status == 200 && !media_type.is_some_and(|value| value.starts_with("application/json")) {
                return read_limited(response, limit).await;
            }
            let body = read_limited(response, MAX_ANSWER_BYTES).await.unwrap_or_default();
            let answer = Answer { method: METHOD, status, reset: None, body: &body };
            match answer.read::<Value>(&[token.value.expose_secret()]) {
                Err(error) if refused.is_none() && error.is_about_token() => refused = Some(token.serial),
                Err(error) => return Err(error.into()),
                Ok(_) => return Err(FileError::Unavailable("Lark's answer is not a file".into())),
            }
        }
    }
}

impl From<SendError> for FileError {
    fn from(error: SendError) -> Self {
        match error.code() {
            Some(code::FILE_TOO_LARGE) => Self::TooLarge,
            Some(code) if error.is_permanent() && !code::is_for_admins(code) => Self::Gone(error.to_string()),
            _ => Self::Unavailable(error.to_string()),
        }
    }
}
