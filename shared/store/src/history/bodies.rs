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

/// Stores `json`, the message at `place` whose content has `digest`; returns the object's key.
pub(super) async fn put_body(
    bucket: &Bucket,
    chat: &ChatKey,
    place: &SortKey,
    digest: &str,
    json: String,
) -> Result<String, BucketError> {
    let name = digest::digest(&digest::SHA256, format!("{place}\n{digest}").as_bytes());
    let key = format!("{}{}.json", folder(chat), hex::encode(name));
    bucket.put(&key, "application/json", json.into_bytes()).await?;
    Ok(key)
}

/// Reads the message in the object `key`; `None` if it is lost for good.
pub(super) async fn body(bucket: &Bucket, key: &str) -> Result<Option<UiMessage>, BucketError> {
    let Some(bytes) = bucket.get(key).await? else {
        tracing::error!(
            key,
            "a message is shown without its content, since its body is not in S3 any more: restore it from an \
             earlier version or a backup"
        );
        return Ok(None);
    };
    let message = serde_json::from_slice(&bytes).inspect_err(|error| {
        // The parser's own words may quote the message.
        tracing::error!(
            key,
            line = error.line(),
            column = error.column(),
            "a message is shown without its content, since its body is not a UIMessage: restore it from a backup"
        );
    });
    Ok(message.ok())
}

/// Returns the start of the keys of all bodies of `chat`.
pub(super) fn folder(chat: &ChatKey) -> String {
    format!("bodies/{}/", chat.session_id())
}
