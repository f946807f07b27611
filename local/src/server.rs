//! Serves HTTP with a timeout for request heads: [`serve`].
//!
//! `axum::serve` has no such timeout, so a client that never completes a head could hold its connection forever. Here the
//! connection is closed after [`HEADER_TIMEOUT`], and so is one that is idle between two requests. The timeout of bodies is in
//! [`annals_runtime::request_body`].

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use annals_io::clock::Clock;
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

/// Longest time for the head of a request, and longest idle time between two requests.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause after a connection could not be accepted, usually because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Serves `router` until `shutdown`, then completes the requests that it has. Each request carries its peer's address as
/// [`ConnectInfo`].
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
        // The body of an answer is written after its head, and would wait for the client's delayed ACK.
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
                tracing::debug!(%error, "a connection ended with an error");
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

    /// Slowloris: a head that never ends, sent byte by byte or not at all.
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
            // A single byte does not extend the timeout.
            while trickling.write_all(b"G").await.is_ok() {
                Clock::system().sleep(Duration::from_millis(20)).await;
            }
        };
        // Wait only for the end of each connection.
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
