//! Bodies too large for a DynamoDB item, as objects in S3.
//!
//! ```text
//! bodies/telegram-3f1c0a9be21d4f5a6b7c8d9e/<sha-256 of sort key and content, hex>.json    one UIMessage as JSON
//! ```
//!
//! The key is made of the message's place and content, so a put repeated after a crash writes the same object again.

use annals_aws::bucket::{Bucket, BucketError};
use annals_core::chat_key::ChatKey;
use annals_core::message::UiMessage;
use annals_core::sort_key::SortKey;
use ring::digest;

/// The longest message JSON that stays in its DynamoDB item, in bytes. An item ends at 400 KB, attributes included.
pub const MAX_INLINE_BYTES: usize = 350 * 1024;

/// A large body that could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// S3 failed; the record stays as it is.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// The object does not exist: somebody deleted it.
    #[error("the message body {key} is not in S3 any more: restore it from an earlier version or a backup")]
    Missing { key: String },
    #[error(
        "the message body {key} is not a UIMessage (line {line}, column {column}): restore it from a backup"
    )]
    Unreadable {
        key: String,
        /// The place of the fault. The parser's own words may quote the message.
        line: usize,
        column: usize,
    },
}

/// Stores `json`, the message at `place` whose content has `digest`; returns the object's key.
pub(super) async fn put_body(
    bucket: &Bucket,
    chat: &ChatKey,
    place: &SortKey,
    digest: &str,
    json: String,
) -> Result<String, BodyError> {
    let name = digest::digest(&digest::SHA256, format!("{place}\n{digest}").as_bytes());
    let key = format!("{}{}.json", folder(chat), hex::encode(name));
    bucket.put(&key, "application/json", json.into_bytes()).await?;
    Ok(key)
}

/// Reads the message in the object `key`.
pub(super) async fn body(bucket: &Bucket, key: &str) -> Result<UiMessage, BodyError> {
    let Some(bytes) = bucket.get(key).await? else {
        return Err(BodyError::Missing { key: key.to_owned() });
    };
    serde_json::from_slice(&bytes).map_err(|error| BodyError::Unreadable {
        key: key.to_owned(),
        line: error.line(),
        column: error.column(),
    })
}

/// Returns the start of the keys of all bodies of `chat`.
pub(super) fn folder(chat: &ChatKey) -> String {
    format!("bodies/{}/", chat.session_id())
}
