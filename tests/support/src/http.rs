//! HTTP clients of tests: [`client`].

use reqwest::Client;

/// Returns a client without TLS, for servers on this machine.
pub fn client() -> Client {
    // Without a cryptography, `reqwest` creates no client. It fails if there is one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().tls_certs_only([]).build().unwrap()
}
