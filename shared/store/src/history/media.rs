//! Images that people sent, as objects in S3: fetched once from their platform, and never again.
//!
//! ```text
//! media/telegram-3f1c0a9be21d4f5a6b7c8d9e/<sha-256 of the message's id and the file's, hex>    the image, as it came
//!                                                                                        or {"unseen":"gone"}
//! ```
//!
//! An object is created once and never changed: every later reader gets the result of the first fetch, also if that was
//! that the file cannot be had. No record points at it, and none is written for it.

use annals_aws::bucket::BucketError;
use annals_core::chat_key::ChatKey;
use annals_core::media::Unseen;
use ring::digest;
use serde::{Deserialize, Serialize};

use super::History;

/// The stored result of fetching a file.
#[derive(Clone, PartialEq, Eq)]
pub enum StoredFile {
    File(Vec<u8>),
    /// The reason why there is none, for good.
    Unseen(Unseen),
}

/// An object for a file that is not shown.
#[derive(Serialize, Deserialize)]
struct Marker {
    unseen: Unseen,
}

impl History {
    /// Reads the file `identity` of the message `message_id` of `chat`, the name that the chat had then; `None` if it
    /// was never fetched.
    pub async fn file(
        &self,
        chat: &ChatKey,
        message_id: &str,
        identity: &str,
    ) -> Result<Option<StoredFile>, BucketError> {
        let object = self.bucket.get(&key(chat, message_id, identity)).await?;
        // No image starts like JSON.
        Ok(object.map(|bytes| match serde_json::from_slice(&bytes) {
            Ok(Marker { unseen }) => StoredFile::Unseen(unseen),
            Err(_) => StoredFile::File(bytes),
        }))
    }

    /// Stores the result of fetching a file, unless there is one already.
    pub async fn keep_file(
        &self,
        chat: &ChatKey,
        message_id: &str,
        identity: &str,
        media_type: &str,
        file: StoredFile,
    ) -> Result<(), BucketError> {
        let (media_type, bytes) = match file {
            StoredFile::File(bytes) => (media_type, bytes),
            StoredFile::Unseen(unseen) => {
                ("application/json", serde_json::to_vec(&Marker { unseen }).unwrap_or_default())
            }
        };
        self.bucket.put_new(&key(chat, message_id, identity), media_type, bytes).await.map(drop)
    }
}

/// Returns the start of the keys of all files of `chat`.
pub(super) fn folder(chat: &ChatKey) -> String {
    format!("media/{}/", chat.session_id())
}

pub(super) fn key(chat: &ChatKey, message_id: &str, identity: &str) -> String {
    let name = digest::digest(&digest::SHA256, format!("{message_id}\n{identity}").as_bytes());
    format!("{}{}", folder(chat), hex::encode(name))
}
