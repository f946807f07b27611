//! TLS of all `reqwest` clients: for platforms, models, tools and AWS.

use std::sync::LazyLock;

use reqwest::{Client, ClientBuilder};
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls_platform_verifier::ConfigVerifierExt;

/// Shared by all clients: reading and parsing the system's certificates is most of the cost of a client, and the agent
/// has four. Configured as `reqwest` does it. `None` if the system has no certificates.
static TLS: LazyLock<Option<ClientConfig>> = LazyLock::new(|| {
    let mut config = ClientConfig::with_platform_verifier().ok()?;
    // Every API here has HTTP/1.1, and HTTP/2 would be a twentieth of each function.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Some(config)
});

/// Returns a builder of a client with the shared TLS configuration.
pub fn client() -> ClientBuilder {
    match &*TLS {
        Some(config) => builder().tls_backend_preconfigured(config.clone()),
        // It tries to read them again, and returns the error.
        None => builder(),
    }
}

/// Returns a builder of a client for a program on this machine, without a proxy, and without TLS: it reads no
/// certificates, and trusts none.
pub fn loopback_client() -> ClientBuilder {
    builder().no_proxy().tls_certs_only([])
}

/// `reqwest` is built without cryptography of its own, and panics if the process has none.
fn builder() -> ClientBuilder {
    // Fails from the second call on.
    let _ = ring::default_provider().install_default();
    Client::builder()
}

/// Reads the certificates now, on another thread, for a function whose first request needs them. During start-up a
/// function has full processors and mostly waits; during a request it has a share by its memory.
pub fn warm() {
    tokio::task::spawn_blocking(|| LazyLock::force(&TLS).is_some());
}
