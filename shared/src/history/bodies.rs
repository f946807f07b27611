//! Bodies too large for a DynamoDB item, as objects in S3.
//!
//! ```text
//! bodies/telegram-3f1c0a9be21d4f5a6b7c8d9e/<sha-256 of sort key and content, hex>.json    one UIMessage as JSON
//! ```
//!
//! The key is made of the message's place and content, so a put repeated after a crash writes the same object again.

use aws_lc_rs::digest;
use aws_sdk_s3::Client;
use aws_sdk_s3::error::DisplayErrorContext;
use aws_sdk_s3::primitives::ByteStream;
use futures::{StreamExt, TryStreamExt, stream};

use crate::chat_key::ChatKey;
use crate::message::UiMessage;
use crate::sort_key::SortKey;

/// The longest message JSON that stays in its DynamoDB item, in bytes. An item ends at 400 KB, attributes included.
pub const MAX_INLINE_BYTES: usize = 350 * 1024;

/// How many objects are deleted at once.
const DELETIONS_AT_ONCE: usize = 16;

/// A large body could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The put failed; nothing refers to the object.
    #[error("S3 could not store the message body {key}: {reason}")]
    Put {
        /// The object's key.
        key: String,
        /// What S3 or the connection said.
        reason: String,
    },
    /// There is no such object: somebody deleted it.
    #[error("the message body {key} is not in S3 any more")]
    Missing {
        /// The object's key.
        key: String,
    },
    /// The get failed; the record stays as it is.
    #[error("S3 could not give the message body {key}: {reason}")]
    Get {
        /// The object's key.
        key: String,
        /// What S3 or the connection said.
        reason: String,
    },
    /// A body, or the list of them, could not be deleted or read; the rest is.
    #[error("S3 could not delete what lies under {prefix}: {reason}")]
    Delete {
        /// The start of the objects' keys.
        prefix: String,
        /// What S3 or the connection said.
        reason: String,
    },
    /// The object is no message.
    #[error("the message body {key} is not a UIMessage: line {line}, column {column}")]
    Unreadable {
        /// The object's key.
        key: String,
        /// Where: what the parser says of it may quote the message.
        line: usize,
        /// Where in the line.
        column: usize,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Bodies {
    client: Client,
    bucket: String,
}

impl Bodies {
    pub(crate) fn new(client: Client, bucket: String) -> Self {
        Self { client, bucket }
    }

    /// Stores `json`, the message at `place` whose content has `digest`; answers with the object's key.
    pub(crate) async fn put(
        &self,
        chat: &ChatKey,
        place: &SortKey,
        digest: &str,
        json: String,
    ) -> Result<String, BodyError> {
        let name = digest::digest(&digest::SHA256, format!("{place}\n{digest}").as_bytes());
        let key = format!("{}{}.json", folder(chat), hex::encode(name));
        let sent = self
            .client
            .put_object()
            .bucket(&self.bucket)
            .key(&key)
            .content_type("application/json")
            .body(ByteStream::from(json.into_bytes()))
            .send()
            .await;
        match sent {
            Ok(_) => Ok(key),
            Err(error) => Err(BodyError::Put { key, reason: DisplayErrorContext(error).to_string() }),
        }
    }

    pub(crate) async fn get(&self, key: &str) -> Result<UiMessage, BodyError> {
        let failed = |reason: String| BodyError::Get { key: key.to_owned(), reason };
        let object = self.client.get_object().bucket(&self.bucket).key(key).send().await.map_err(
            |error| match error.as_service_error() {
                Some(service) if service.is_no_such_key() => BodyError::Missing { key: key.to_owned() },
                _ => failed(DisplayErrorContext(error).to_string()),
            },
        )?;
        let bytes = object.body.collect().await.map_err(|error| failed(error.to_string()))?.into_bytes();
        serde_json::from_slice(&bytes).map_err(|error| BodyError::Unreadable {
            key: key.to_owned(),
            line: error.line(),
            column: error.column(),
        })
    }

    /// Deletes the next bodies of `chat`; returns how many. None are left if it is 0.
    pub(crate) async fn delete_some(&self, chat: &ChatKey) -> Result<usize, BodyError> {
        let prefix = folder(chat);
        let deleted = delete_under(&self.client, &self.bucket, &prefix).await;
        deleted.map_err(|reason| BodyError::Delete { prefix, reason })
    }
}

fn folder(chat: &ChatKey) -> String {
    format!("bodies/{}/", chat.session_id())
}

/// Deletes the first objects whose keys start with `prefix`, at most a thousand; returns how many, or what S3 or the
/// connection said.
pub(super) async fn delete_under(client: &Client, bucket: &str, prefix: &str) -> Result<usize, String> {
    let listed = client.list_objects_v2().bucket(bucket).prefix(prefix).send().await;
    let listed = listed.map_err(|error| DisplayErrorContext(error).to_string())?;
    let keys = listed.contents.unwrap_or_default().into_iter().filter_map(|object| object.key);
    let deletions = keys.map(|key| async {
        let sent = client.delete_object().bucket(bucket).key(key).send().await;
        sent.map(drop).map_err(|error| DisplayErrorContext(error).to_string())
    });
    let deleted: Vec<()> = stream::iter(deletions).buffer_unordered(DELETIONS_AT_ONCE).try_collect().await?;
    Ok(deleted.len())
}
