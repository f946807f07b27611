//! A bucket of S3: [`Bucket`].

use annals_io::errors::chain;
use aws_config::SdkConfig;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use futures::{StreamExt, TryStreamExt, stream};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use crate::service::{Api, Failure, Request, Service, custom_endpoint, host, unreadable};

const S3: Api = Api { id: "S3", name: "s3", json: "" };

/// Characters that are encoded in a query, as a signature wants it. Source: [signatures, version
/// 4](https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Those that are encoded in a path.
const ENCODED_IN_PATH: &AsciiSet = &ENCODED.remove(b'/');

/// Number of objects that are deleted at the same time.
const DELETIONS_AT_ONCE: usize = 16;

/// A failed request to S3. A failed put may have stored the object, but nothing refers to it.
#[derive(Debug, thiserror::Error)]
#[error("S3 could not {operation} {key}: {reason}")]
pub struct BucketError {
    operation: &'static str,
    /// The object's key, or the start of several.
    key: String,
    /// The refusal, or the fault of the connection.
    pub reason: String,
}

impl BucketError {
    #[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
    fn of(operation: &'static str, key: &str, failure: Failure) -> Self {
        Self { operation, key: key.to_owned(), reason: chain(&failure) }
    }
}

/// A bucket.
#[derive(Clone, Debug)]
pub struct Bucket {
    service: Service,
    /// The start of each path: `/`, or `/<bucket>/` at an endpoint that has no host for each bucket.
    root: String,
}

impl Bucket {
    /// Opens the bucket `name`. Makes no request.
    pub fn new(config: &SdkConfig, name: &str) -> Self {
        // An emulator has no host name for each bucket, and not each name of a bucket is one of a host.
        let is_host =
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        let (endpoint, root) = match custom_endpoint(config, S3) {
            Some(endpoint) => (endpoint, format!("/{name}/")),
            None if !is_host => (format!("https://{}", host(config, S3)), format!("/{name}/")),
            None => (format!("https://{name}.{}", host(config, S3)), "/".to_owned()),
        };
        Self { service: Service::open(config, S3, &endpoint), root }
    }

    /// Puts an object, in place of one with the same key.
    pub async fn put(&self, key: &str, content_type: &str, bytes: Vec<u8>) -> Result<(), BucketError> {
        let headers = vec![("content-type", content_type.to_owned())];
        let sent = self.send("PUT", key, headers, bytes).await;
        sent.map(drop).map_err(|failure| BucketError::of("store", key, failure))
    }

    /// Puts an object unless its key is taken; returns whether it did.
    pub async fn put_new(&self, key: &str, content_type: &str, bytes: Vec<u8>) -> Result<bool, BucketError> {
        let headers = vec![("content-type", content_type.to_owned()), ("if-none-match", "*".to_owned())];
        match self.send("PUT", key, headers, bytes).await {
            Ok(_) => Ok(true),
            // 409: another put of it is under way.
            Err(failure) if matches!(status(&failure), Some(409 | 412)) => Ok(false),
            Err(failure) => Err(BucketError::of("store", key, failure)),
        }
    }

    /// Reads an object; `None` if it does not exist.
    pub async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, BucketError> {
        match self.send("GET", key, Vec::new(), Vec::new()).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(failure) if failure.code() == Some("NoSuchKey") => Ok(None),
            Err(failure) => Err(BucketError::of("read", key, failure)),
        }
    }

    /// Deletes an object. Succeeds if it does not exist.
    pub async fn delete(&self, key: &str) -> Result<(), BucketError> {
        let sent = self.send("DELETE", key, Vec::new(), Vec::new()).await;
        sent.map(drop).map_err(|failure| BucketError::of("delete", key, failure))
    }

    /// Deletes the first objects whose keys start with `prefix`, at most a thousand; returns their keys. If it returns none,
    /// none are left.
    pub async fn delete_some(&self, prefix: &str) -> Result<Vec<String>, BucketError> {
        let keys = self.list(prefix).await?;
        let deletions = keys.into_iter().map(|key| async move { self.delete(&key).await.map(|()| key) });
        stream::iter(deletions).buffer_unordered(DELETIONS_AT_ONCE).try_collect().await
    }

    /// Returns the first keys that start with `prefix`, at most a thousand, in order.
    pub async fn list(&self, prefix: &str) -> Result<Vec<String>, BucketError> {
        let query = format!("list-type=2&prefix={}", utf8_percent_encode(prefix, ENCODED));
        let answer = self.about(&query).await.map_err(|failure| BucketError::of("list", prefix, failure))?;
        // Any other document would be an empty list.
        let listed = quick_xml::de::from_str::<Listed>(&answer).ok();
        let Some(listed) = listed.filter(|_| answer.contains("<ListBucketResult")) else {
            let reason = "the answer is no list of objects".to_owned();
            return Err(BucketError { operation: "list", key: prefix.to_owned(), reason });
        };
        Ok(listed.objects.into_iter().map(|object| object.key).collect())
    }

    /// Reads what S3 says of the bucket itself, in XML: `publicAccessBlock`, or another query.
    pub async fn about(&self, query: &str) -> Result<String, Failure> {
        let path = format!("{}?{query}", self.root);
        let request = Request { method: "GET", path, headers: Vec::new(), body: Vec::new() };
        String::from_utf8(self.service.send(request).await?).map_err(unreadable)
    }

    async fn send(
        &self,
        method: &'static str,
        key: &str,
        headers: Vec<(&'static str, String)>,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, Failure> {
        let path = format!("{}{}", self.root, utf8_percent_encode(key, ENCODED_IN_PATH));
        self.service.send(Request { method, path, headers, body }).await
    }
}

/// Returns the status of the answer to a failed request; `None` if there was none.
pub fn status(failure: &Failure) -> Option<u16> {
    failure.raw_response().map(|response| response.status().as_u16())
}

/// `<ListBucketResult><Contents><Key>…</Key>…</Contents>…</ListBucketResult>`
#[derive(Deserialize)]
struct Listed {
    #[serde(rename = "Contents", default)]
    objects: Vec<ListedObject>,
}

#[derive(Deserialize)]
struct ListedObject {
    #[serde(rename = "Key")]
    key: String,
}
