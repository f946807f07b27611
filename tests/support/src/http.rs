//! HTTP clients of tests, and servers: [`client`], [`serve`].

use axum::Router;
use reqwest::Client;
use tokio::net::TcpListener;

/// Returns a client without TLS, for servers on this machine.
pub fn client() -> Client {
    // Without a cryptography, `reqwest` creates no client. It fails if there is one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().tls_certs_only([]).build().unwrap()
}

/// Serves `router` on the loopback address until the test ends. Returns its URL, without a slash at the end.
pub async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}
