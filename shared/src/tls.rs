//! TLS with whom we reach by `reqwest`: platforms, models and tools. (AWS's clients have their own: see [`crate::aws`].)

use std::sync::LazyLock;

use reqwest::{Client, ClientBuilder};
use rustls::ClientConfig;
use rustls_platform_verifier::ConfigVerifierExt;

/// One for all clients: to read and parse the system's certificates is most of what a client costs to make, and the
/// agent has three. As `reqwest` makes it for each. `None` where the system has no certificates.
static TLS: LazyLock<Option<ClientConfig>> = LazyLock::new(|| {
    let mut config = ClientConfig::with_platform_verifier().ok()?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Some(config)
});

/// A client to be, with the TLS of all of them.
pub fn client() -> ClientBuilder {
    match &*TLS {
        Some(config) => Client::builder().tls_backend_preconfigured(config.clone()),
        // It tries again, and says what is wrong.
        None => Client::builder(),
    }
}

/// Reads the certificates now, on another thread: for a function whose first request needs them. At its start it has
/// whole processors and waits for others; within a request it has the share that its memory gives.
pub fn warm() {
    tokio::task::spawn_blocking(|| LazyLock::force(&TLS).is_some());
}
