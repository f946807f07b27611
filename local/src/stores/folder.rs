//! The S3 service over a folder: [`Folder`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt;
use axum::{Router, serve};
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::net::TcpListener;
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

    /// A door to them for whoever signs with this key and its secret.
    pub fn door(&self, access_key: &str, secret_key: &str) -> anyhow::Result<Door> {
        let files = s3s_fs::FileSystem::new(&self.root).map_err(|error| {
            anyhow::anyhow!("cannot open the bucket's folder {}: {error:?}", self.root.display())
        })?;
        let mut builder = S3ServiceBuilder::new(files);
        builder.set_auth(SimpleAuth::from_single(access_key, secret_key));
        Ok(Door { service: builder.build(), lock: Arc::clone(&self.lock) })
    }
}

/// The S3 service, for one key.
#[derive(Clone, Debug)]
pub struct Door {
    service: S3Service,
    lock: Arc<RwLock<()>>,
}

impl Door {
    /// Answers one request.
    pub async fn answer(&self, request: Request) -> Response {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let request = request.map(s3s::Body::http_body_unsync);
        let answered = if is_read {
            let _reader = self.lock.read().await;
            self.service.call(request).await
        } else {
            let _writer = self.lock.write().await;
            self.service.call(request).await
        };
        match answered {
            Ok(response) => response.map(Body::new),
            Err(error) => {
                tracing::error!(?error, "the S3 service gives no answer");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }

    /// Serves at `listener` until the process ends.
    pub(super) fn serve(self, listener: TcpListener) {
        let router = Router::new().fallback(answer).with_state(self);
        tokio::spawn(async move {
            if let Err(error) = serve(at_once(listener), router).await {
                tracing::error!(%error, "the S3 service has stopped");
            }
        });
    }
}

async fn answer(State(door): State<Door>, request: Request) -> Response {
    door.answer(request).await
}

/// An answer's body follows its head in a write of its own, which would wait for the client's delayed ACK.
pub(crate) fn at_once(listener: TcpListener) -> impl serve::Listener<Addr = std::net::SocketAddr> {
    listener.tap_io(|stream| drop(stream.set_nodelay(true)))
}
