//! The S3 service over a folder: [`Folder`].

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::percent_decode_str;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::sync::RwLock;

/// Buckets in a folder.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
    /// Excludes other requests during a write: the service checks before it writes, and readers could see half a write.
    lock: Arc<RwLock<()>>,
}

impl Folder {
    /// Returns the buckets in `root`, which exists.
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), lock: Arc::default() }
    }

    /// Deletes the service's own files about a deleted object, which contain its key, and the folders that are empty without it.
    fn clean_up(&self, bucket: &str, key: &str) {
        for file in self.about(bucket, key) {
            match std::fs::remove_file(file) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    tracing::error!(%error, key, "failed to delete the S3 service's file about a deleted object");
                }
                _ => {}
            }
        }
        let bucket = self.root.join(bucket);
        let object = bucket.join(key);
        // A folder that is not empty cannot be removed, nor can those above it.
        let folders = object.ancestors().skip(1).take_while(|folder| *folder != bucket);
        for folder in folders {
            if std::fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }

    /// Writes an object that was put to the disk, with the service's own files about it and their names: after a power cut, a
    /// record must not refer to an empty file.
    fn sync(&self, bucket: &str, key: &str) -> std::io::Result<()> {
        let object = self.root.join(bucket).join(key);
        for file in self.about(bucket, key).iter().chain([&object]) {
            match OpenOptions::new().write(true).open(file) {
                Err(error) if error.kind() == ErrorKind::NotFound && *file != object => {}
                opened => opened?.sync_all()?,
            }
        }
        #[cfg(unix)]
        for folder in object.ancestors().skip(1).take_while(|folder| folder.starts_with(&self.root)) {
            std::fs::File::open(folder)?.sync_all()?;
        }
        Ok(())
    }

    /// Returns the paths of the service's own files about an object.
    fn about(&self, bucket: &str, key: &str) -> [PathBuf; 2] {
        let name =
            format!(".bucket-{}.object-{}", URL_SAFE_NO_PAD.encode(bucket), URL_SAFE_NO_PAD.encode(key));
        ["metadata", "internal"].map(|kind| self.root.join(format!("{name}.{kind}.json")))
    }

    /// Returns the S3 service for callers that sign with `auth`; `None` is this process itself, whose signature is not checked.
    pub fn service(&self, auth: Option<SimpleAuth>) -> anyhow::Result<S3> {
        let files = s3s_fs::FileSystem::new(&self.root).map_err(|error| {
            anyhow::anyhow!("failed to open the bucket's folder {}: {error:?}", self.root.display())
        })?;
        let mut builder = S3ServiceBuilder::new(files);
        if let Some(auth) = auth {
            builder.set_auth(auth);
        }
        Ok(S3 { service: builder.build(), folder: self.clone() })
    }
}

/// The S3 service over a folder.
#[derive(Clone, Debug)]
pub struct S3 {
    service: S3Service,
    folder: Folder,
}

impl S3 {
    /// Answers one request.
    pub async fn answer(&self, request: Request) -> Response {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let is_part = request.uri().query().is_some_and(|query| query.contains("partNumber"));
        let request = request.map(s3s::Body::http_body_unsync);
        let answered = if is_read {
            let _reader = self.folder.lock.read().await;
            self.service.call(request).await
        } else {
            let _writer = self.folder.lock.write().await;
            let answered = self.service.call(request).await;
            if answered.as_ref().is_ok_and(|response| response.status().is_success())
                && let Ok(path) = percent_decode_str(&path).decode_utf8()
                && let Some((bucket, key)) = path.trim_start_matches('/').split_once('/')
            {
                if method == Method::DELETE {
                    self.folder.clean_up(bucket, key);
                } else if method == Method::PUT
                    && !is_part
                    && let Err(error) = self.folder.sync(bucket, key)
                {
                    tracing::error!(%error, key, "failed to write an object to the disk");
                    return StatusCode::INTERNAL_SERVER_ERROR.into_response();
                }
            }
            answered
        };
        match answered {
            Ok(response) => response.map(Body::new),
            Err(error) => {
                tracing::error!(?error, "the S3 service failed to answer");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}
