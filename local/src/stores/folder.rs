//! The S3 service over a folder: [`Folder`].

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

/// The buckets in a folder.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
    /// The folder service checks and then writes, and readers may see half a write: one writer at a time.
    lock: Arc<RwLock<()>>,
}

impl Folder {
    /// The buckets in `root`, which exists.
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), lock: Arc::default() }
    }

    /// Deletes the service's own files about an object that is gone: they name its key. Deletes the folders too that it
    /// leaves empty.
    fn clean_up(root: &Path, bucket: &str, key: &str) {
        let name =
            format!(".bucket-{}.object-{}", URL_SAFE_NO_PAD.encode(bucket), URL_SAFE_NO_PAD.encode(key));
        for kind in ["metadata", "internal"] {
            match std::fs::remove_file(root.join(format!("{name}.{kind}.json"))) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    tracing::error!(%error, key, "failed to delete the S3 service's file about a deleted object");
                }
                _ => {}
            }
        }
        let bucket = root.join(bucket);
        let object = bucket.join(key);
        // The first folder that is not empty ends it.
        let folders = object.ancestors().skip(1).take_while(|folder| *folder != bucket);
        for folder in folders {
            if std::fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }

    /// The S3 service of this process itself, which checks no signature.
    pub(super) fn open(&self) -> anyhow::Result<Door> {
        Ok(Door { service: self.service()?.build(), root: self.root.clone(), lock: Arc::clone(&self.lock) })
    }

    /// The S3 service for whoever signs with this key and its secret.
    pub(crate) fn door(&self, access_key: &str, secret_key: &str) -> anyhow::Result<Door> {
        let mut builder = self.service()?;
        builder.set_auth(SimpleAuth::from_single(access_key, secret_key));
        Ok(Door { service: builder.build(), root: self.root.clone(), lock: Arc::clone(&self.lock) })
    }

    fn service(&self) -> anyhow::Result<S3ServiceBuilder> {
        let files = s3s_fs::FileSystem::new(&self.root).map_err(|error| {
            anyhow::anyhow!("cannot open the bucket's folder {}: {error:?}", self.root.display())
        })?;
        Ok(S3ServiceBuilder::new(files))
    }
}

/// The S3 service over a folder.
#[derive(Clone, Debug)]
pub struct Door {
    service: S3Service,
    root: PathBuf,
    lock: Arc<RwLock<()>>,
}

impl Door {
    /// Answers one request.
    pub async fn answer(&self, request: Request) -> Response {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let deleted = (*request.method() == Method::DELETE).then(|| request.uri().path().to_owned());
        let request = request.map(s3s::Body::http_body_unsync);
        let answered = if is_read {
            let _reader = self.lock.read().await;
            self.service.call(request).await
        } else {
            let _writer = self.lock.write().await;
            let answered = self.service.call(request).await;
            if let (Some(path), Ok(response)) = (deleted, &answered)
                && response.status().is_success()
                && let Ok(path) = percent_decode_str(&path).decode_utf8()
                && let Some((bucket, key)) = path.trim_start_matches('/').split_once('/')
            {
                Folder::clean_up(&self.root, bucket, key);
            }
            answered
        };
        match answered {
            Ok(response) => response.map(Body::new),
            Err(error) => {
                tracing::error!(?error, "the S3 service gives no answer");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}
