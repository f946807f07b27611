//! Limits on reading a request before its sender is known.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::app::TestApp;
use crate::lark::{LarkApp, P2P, receive_plain, text};

const LARGEST: usize = 6 * 1024 * 1024;

/// A connection that has sent the head of a request with a body of [`LARGEST`] bytes, and `sent` of them.
async fn announced(app: &TestApp, method: &str, path: &str, headers: &str, sent: usize) -> TcpStream {
    let mut stream = TcpStream::connect(app.base().strip_prefix("http://").unwrap()).await.unwrap();
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {LARGEST}\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b' '; sent]).await.unwrap();
    stream
}

/// All that is answered until the server closes the connection, which it does instead of reading on.
async fn answer(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    // A reset after the answer is as good as an end.
    drop(stream.read_to_end(&mut answer).await);
    String::from_utf8(answer).unwrap()
}

/// Each would cost 6 MiB if its body were read: but the answer comes although no byte of it was sent.
#[tokio::test]
async fn forty_connections_with_a_wrong_secret_are_answered_before_their_bodies() {
    let app = TestApp::start().await;
    let mut routes = vec![("POST", "/telegram".to_owned(), "X-Telegram-Bot-Api-Secret-Token: wrong\r\n")];
    routes.push(("POST", "/telegram".to_owned(), ""));
    let of_the_api = [
        ("POST", "/v1/chats/c1/messages"),
        ("POST", "/v1/messages"),
        ("POST", "/v1/chats/c1/reset"),
        ("POST", "/v1/chats/c1/compact"),
        ("PUT", "/v1/memory/dXNlcjphcHAvYWRhIzE"),
        ("POST", "/api/chat"),
        ("POST", "/api/chat/r1/stop"),
    ];
    for (method, path) in of_the_api {
        routes.push((method, path.to_owned(), "Authorization: Bearer wrong\r\n"));
        routes.push((method, path.to_owned(), ""));
    }
    let mut open = Vec::new();
    for (method, path, headers) in routes.iter().cycle().take(40.max(routes.len())) {
        open.push((path, announced(&app, method, path, headers, 0).await));
    }
    for (path, stream) in open {
        let answer = answer(stream).await;
        assert!(answer.starts_with("HTTP/1.1 401 "), "{path}: {answer}");
    }
    app.finish().await;
}

/// With an encrypt key, Lark signs each event: what is not signed is a challenge of some hundred bytes, or not Lark's.
#[tokio::test]
async fn an_unsigned_body_is_read_no_further_than_a_challenge_is_long() {
    let it = LarkApp::start().await;
    let mut open = Vec::new();
    for _ in 0..10 {
        open.push(announced(&it.app, "POST", "/lark", "", 5000).await);
    }
    for stream in open {
        let answer = answer(stream).await;
        assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("problem:unauthorized"), "{answer}");
    }
    // A signed one of any length is; without a key, events come unsigned and plain, and the token is inside.
    let long = text("om_long", P2P, &"long ".repeat(40_000), 0);
    it.receive(&long).await;
    it.app.finish().await;
    let app = TestApp::builder().start().await;
    receive_plain(&app, long).await;
    app.idle().await;
    assert_eq!(app.history("lark:chat:oc_ada").await.len(), 2);
    app.finish().await;
}
