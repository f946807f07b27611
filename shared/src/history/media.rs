//! Images that people sent, as objects in S3: fetched once from their platform, and never again.
//!
//! ```text
//! media/telegram-3f1c0a9be21d4f5a6b7c8d9e/<sha-256 of the message's id and the file's, hex>    the image, as it came
//!                                                                                        or {"unseen":"gone"}
//! ```
//!
//! Created once and never changed: whoever looks a second time finds what the first has found, also where that is that there
//! is nothing to be had. No record points at it, and none is written for it.

use aws_lc_rs::digest;
use aws_sdk_s3::Client;
use aws_sdk_s3::error::DisplayErrorContext;
use aws_sdk_s3::operation::get_object::GetObjectError;
use aws_sdk_s3::primitives::ByteStream;
use serde::{Deserialize, Serialize};

use super::bodies::delete_under;
use super::{History, HistoryError};
use crate::chat_key::ChatKey;
use crate::media::Unseen;

/// What is kept of a file.
#[derive(Clone, PartialEq, Eq)]
pub enum Kept {
    /// The file.
    File(Vec<u8>),
    /// Why there is none, for good.
    Unseen(Unseen),
}

/// An object for a file that is not shown.
#[derive(Serialize, Deserialize)]
struct Marker {
    unseen: Unseen,
}

/// What is kept of files could not be read, written or deleted.
#[derive(Debug, thiserror::Error)]
#[error("S3 could not {what} {key}: {reason}")]
pub struct MediaError {
    /// `give`, `store` or `delete`.
    what: &'static str,
    /// The object's key, or the start of several.
    key: String,
    /// What S3 or the connection said.
    reason: String,
}

#[derive(Clone, Debug)]
pub(super) struct Media {
    client: Client,
    bucket: String,
}

impl History {
    /// What is kept of the file that `identity` tells from the others of the message `message_id` of `chat`, the name that
    /// the chat had then; `None` where nobody has looked.
    pub async fn file(
        &self,
        chat: &ChatKey,
        message_id: &str,
        identity: &str,
    ) -> Result<Option<Kept>, MediaError> {
        self.media.get(&key(chat, message_id, identity)).await
    }

    /// Keeps what was found of a file, unless something is kept of it already.
    pub async fn keep_file(
        &self,
        chat: &ChatKey,
        message_id: &str,
        identity: &str,
        media_type: &str,
        kept: Kept,
    ) -> Result<(), MediaError> {
        let (media_type, bytes) = match kept {
            Kept::File(bytes) => (media_type, bytes),
            Kept::Unseen(unseen) => {
                ("application/json", serde_json::to_vec(&Marker { unseen }).unwrap_or_default())
            }
        };
        self.media.put_new(&key(chat, message_id, identity), media_type, bytes).await
    }
}

impl Media {
    pub(super) fn new(client: Client, bucket: String) -> Self {
        Self { client, bucket }
    }

    async fn get(&self, key: &str) -> Result<Option<Kept>, MediaError> {
        let failed = |reason: String| MediaError { what: "give", key: key.to_owned(), reason };
        let object = match self.client.get_object().bucket(&self.bucket).key(key).send().await {
            Ok(object) => object,
            Err(error) if error.as_service_error().is_some_and(GetObjectError::is_no_such_key) => {
                return Ok(None);
            }
            Err(error) => return Err(failed(DisplayErrorContext(error).to_string())),
        };
        let bytes = object.body.collect().await.map_err(|error| failed(error.to_string()))?.to_vec();
        // No image starts like it.
        Ok(Some(match serde_json::from_slice(&bytes) {
            Ok(Marker { unseen }) => Kept::Unseen(unseen),
            Err(_) => Kept::File(bytes),
        }))
    }

    /// Puts the object unless there is one.
    async fn put_new(&self, key: &str, media_type: &str, bytes: Vec<u8>) -> Result<(), MediaError> {
        let put = self.client.put_object().bucket(&self.bucket).key(key).if_none_match("*");
        let sent = put.content_type(media_type).body(ByteStream::from(bytes)).send().await;
        match sent {
            Ok(_) => Ok(()),
            // 409: another put of it is under way.
            Err(error) if matches!(error.raw_response().map(|r| r.status().as_u16()), Some(409 | 412)) => {
                Ok(())
            }
            Err(error) => {
                let reason = DisplayErrorContext(error).to_string();
                Err(MediaError { what: "store", key: key.to_owned(), reason })
            }
        }
    }

    /// Deletes the next of what is kept of the files of `chat`; returns how many objects. None are left if it is 0.
    pub(super) async fn delete_some(&self, chat: &ChatKey) -> Result<usize, HistoryError> {
        let key = folder(chat);
        let deleted = delete_under(&self.client, &self.bucket, &key).await;
        deleted.map_err(|reason| MediaError { what: "delete", key, reason }.into())
    }
}

fn folder(chat: &ChatKey) -> String {
    format!("media/{}/", chat.session_id())
}

fn key(chat: &ChatKey, message_id: &str, identity: &str) -> String {
    let name = digest::digest(&digest::SHA256, format!("{message_id}\n{identity}").as_bytes());
    format!("{}{}", folder(chat), hex::encode(name))
}
