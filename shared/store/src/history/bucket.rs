//! The S3 bucket: the few operations that a history needs.
//!
//! ```text
//! bodies/telegram-3f1c0a9be21d4f5a6b7c8d9e/…     large messages: `bodies.rs`
//! media/telegram-3f1c0a9be21d4f5a6b7c8d9e/…      images that people sent: `media.rs`
//! segments/telegram-3f1c0a9be21d4f5a6b7c8d9e/…   archived records: `shelf.rs`; their indexes: `search/stored.rs`
//! ```

use annals_io::errors::chain;
use aws_sdk_s3::Client;
use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::operation::get_object::GetObjectError;
use aws_sdk_s3::operation::put_object::builders::PutObjectFluentBuilder;
use aws_sdk_s3::primitives::ByteStream;
use futures::{StreamExt, TryStreamExt, stream};

/// Number of objects that are deleted at the same time.
const DELETIONS_AT_ONCE: usize = 16;

/// A failed request to S3. A failed put may have stored the object, but nothing refers to it.
#[derive(Debug, thiserror::Error)]
#[error("S3 could not {operation} {key}: {reason}")]
pub struct BucketError {
    operation: &'static str,
    /// The object's key, or the start of several.
    key: String,
    reason: String,
}

impl BucketError {
    fn of(operation: &'static str, key: &str, error: &dyn std::error::Error) -> Self {
        Self { operation, key: key.to_owned(), reason: chain(error) }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Bucket {
    client: Client,
    name: String,
}

impl Bucket {
    pub(super) fn new(client: Client, name: String) -> Self {
        Self { client, name }
    }

    /// Puts an object, in place of one with the same key.
    pub(super) async fn put(&self, key: &str, content_type: &str, bytes: Vec<u8>) -> Result<(), BucketError> {
        let sent = Box::pin(self.put_request(key, content_type, bytes).send()).await;
        sent.map(drop).map_err(|error| BucketError::of("store", key, &error))
    }

    /// Puts an object unless its key is taken; returns whether it did.
    pub(super) async fn put_new(
        &self,
        key: &str,
        content_type: &str,
        bytes: Vec<u8>,
    ) -> Result<bool, BucketError> {
        match Box::pin(self.put_request(key, content_type, bytes).if_none_match("*").send()).await {
            Ok(_) => Ok(true),
            // 409: another put of it is under way.
            Err(error) if matches!(error.raw_response().map(|r| r.status().as_u16()), Some(409 | 412)) => {
                Ok(false)
            }
            Err(error) => Err(BucketError::of("store", key, &error)),
        }
    }

    fn put_request(&self, key: &str, content_type: &str, bytes: Vec<u8>) -> PutObjectFluentBuilder {
        let put = self.client.put_object().bucket(&self.name).key(key);
        put.content_type(content_type).body(ByteStream::from(bytes))
    }

    /// Reads an object; `None` if it does not exist.
    pub(super) async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, BucketError> {
        let object = match Box::pin(self.client.get_object().bucket(&self.name).key(key).send()).await {
            Ok(object) => object,
            Err(SdkError::ServiceError(error)) if matches!(error.err(), GetObjectError::NoSuchKey(_)) => {
                return Ok(None);
            }
            Err(error) => return Err(BucketError::of("read", key, &error)),
        };
        let body = object.body.collect().await.map_err(|error| BucketError::of("read", key, &error))?;
        Ok(Some(body.to_vec()))
    }

    /// Deletes the first objects whose keys start with `prefix`, at most a thousand; returns their keys. None are left if
    /// there are none.
    pub(super) async fn delete_some(&self, prefix: &str) -> Result<Vec<String>, BucketError> {
        let listed = self.client.list_objects_v2().bucket(&self.name).prefix(prefix).send().await;
        let listed = listed.map_err(|error| BucketError::of("list", prefix, &error))?;
        let keys = listed.contents.unwrap_or_default().into_iter().filter_map(|object| object.key);
        let deletions = keys.map(|key| async move {
            let sent = self.client.delete_object().bucket(&self.name).key(&key).send().await;
            match sent {
                Ok(_) => Ok(key),
                Err(error) => Err(BucketError::of("delete", &key, &error)),
            }
        });
        stream::iter(deletions).buffer_unordered(DELETIONS_AT_ONCE).try_collect().await
    }
}
