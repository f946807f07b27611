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

use annals_channel::client::Answer;
use annals_channel::file::{FileError, read_limited};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use secrecy::ExposeSecret;
use serde_json::Value;

use super::{CallError, Client, answer, code};

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
        let mut url = self.url(&["im", "v1", "messages", message_id, "resources", key]);
        url.query_pairs_mut().append_pair("type", kind);
        let mut refused = None;
        loop {
            let token = self.tokens.get(self, refused).await.map_err(file_error)?;
            let token_value = token.value.expose_secret();
            let to = (Method::GET, url.clone());
            let response = self.api.open(to, |request| request.bearer_auth(token_value)).await?;
            let answer = self.api.answer(METHOD, &response);
            let media_type = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            if answer.status == 200 && !media_type.is_some_and(|value| value.starts_with("application/json"))
            {
                return read_limited(response, limit).await;
            }
            let body = read_limited(response, MAX_ANSWER_BYTES).await.unwrap_or_default();
            match answer::read::<Value>(&Answer { body, ..answer }, &[token_value]) {
                Err(CallError::Token { .. }) if refused.is_none() => refused = Some(token.serial),
                Err(error) => return Err(file_error(error)),
                Ok(_) => return Err(FileError::Unavailable("Lark's answer is not a file".into())),
            }
        }
    }
}

fn file_error(error: CallError) -> FileError {
    match error {
        CallError::Refused { code: code::FILE_TOO_LARGE, .. } => FileError::TooLarge,
        CallError::Refused { code, reason, .. } if !code::is_for_admins(code) => FileError::Gone(reason),
        error => FileError::Unavailable(error.to_string()),
    }
}
