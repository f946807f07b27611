//! Serves HTTP to whoever connects, and waits for nobody: [`serve`].
//!
//! `axum::serve` sets no timer, so a connection that never ends its request's head would be held for ever. Here it is closed
//! after [`HEADER_TIMEOUT`], and so is one that is idle between two requests; how long a body may take,
//! [`annals_shared::request_body`] says.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use annals_shared::clock::Clock;
use axum::Router;
use axum::extract::ConnectInfo;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;

/// How long a client may take for a request's head, and how long it may be idle between two.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause after a connection could not be accepted: mostly, too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Serves `router` until `shutdown`, then ends what is under way. Each request has its peer's address as [`ConnectInfo`].
pub async fn serve(
    listener: TcpListener,
    router: Router,
    header_timeout: Duration,
    shutdown: impl Future<Output = ()>,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(header_timeout);
    let service = TowerToHyperService::new(router);
    let (connections, mut shutdown) = (GracefulShutdown::new(), pin!(shutdown));
    loop {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    Clock::system().sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            () = &mut shutdown => break,
        };
        // An answer's body follows its head in a write of its own, which would wait for the client's delayed ACK.
        drop(stream.set_nodelay(true));
        let service = service.clone();
        let with_peer = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            service.call(request)
        });
        let connection = http.serve_connection(TokioIo::new(stream), with_peer);
        let connection = connections.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection has ended");
            }
        });
    }
    drop(listener);
    connections.shutdown().await;
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    /// Slowloris: a head that never ends, byte by byte or not at all.
    #[tokio::test]
    async fn slow_headers_are_disconnected() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/", get(async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.ip().to_string()));
        tokio::spawn(serve(listener, router, Duration::from_millis(200), pending()));

        let mut silent = TcpStream::connect(address).await.unwrap();
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await.unwrap();
        let mut trickling = TcpStream::connect(address).await.unwrap();
        let trickle = async {
            // Each byte alone puts nothing off.
            while trickling.write_all(b"G").await.is_ok() {
                Clock::system().sleep(Duration::from_millis(20)).await;
            }
        };
        // Each ends, which is all that is waited for.
        let mut answer = Vec::new();
        drop(silent.read_to_end(&mut answer).await);
        drop(slow.read_to_end(&mut answer).await);
        trickle.await;
        assert!(!String::from_utf8_lossy(&answer).contains("200 OK"));

        let mut quick = TcpStream::connect(address).await.unwrap();
        quick.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        quick.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("127.0.0.1"), "{answer}");
    }
}
