//! A router on a loopback port.

use axum::Router;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A running server; it stops when dropped.
pub(crate) struct Server {
    /// `http://127.0.0.1:<port>`
    pub(crate) url: String,
    task: JoinHandle<()>,
}

impl Server {
    /// Serves `router` at `port`, or at any free one if 0.
    pub(crate) async fn start(port: u16, router: Router) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        Self { url, task: tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}
