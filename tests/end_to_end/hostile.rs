//! Hostile requests: slow and half-open connections, huge and compressed bodies, JSON at the edges of what a parser takes.

use std::io::Write;
use std::sync::LazyLock;

use annals_channel::channel::ProvedCall;
use annals_core::record::Channel;
use annals_runtime::request_body::READ_TIMEOUT;
use annals_test_support::discord_api::DiscordApi;
use annals_test_support::lark_api::LarkApi;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::future::{join, join_all};
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::app::{APP_KEY, TestApp, a_while, lines};
use crate::discord;
use crate::lark;

/// Every route that takes a body of a stranger.
static ROUTES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let api = ["messages", "chats/c1/messages", "chats/c1/reset", "chats/c1/compact", "chats/c1/schedules"];
    let api = api.into_iter().map(|path| format!("/v1/{path}"));
    let webhooks = Channel::platforms().map(|channel| format!("/{channel}"));
    webhooks.chain(api).chain(["/api/chat".to_owned()]).collect()
});
const ADAS: &str = "telegram:chat:42";

/// A program with every channel set up, and the emulators of its platforms.
struct Target {
    app: TestApp,
    _lark: LarkApi,
    _discord: DiscordApi,
}

impl Target {
    async fn start() -> Self {
        let (lark, discord) = (LarkApi::start().await, DiscordApi::start().await);
        let app = TestApp::builder()
            .telegram()
            .model()
            .set_all(&lark::settings_of(lark.base_url()))
            .set("LARK_ENCRYPT_KEY", "lark-encrypt-key")
            .set_all(&discord::settings_of(&discord))
            .set("DISCORD_BOT_TOKEN", "");
        Self { app: app.start().await, _lark: lark, _discord: discord }
    }

    /// Returns the call by which its owner sends `body` to `path`.
    fn prove(&self, path: &str, body: &[u8]) -> ProvedCall {
        match Channel::platforms().find(|channel| path == format!("/{channel}")) {
            Some(channel) => self.app.prove(channel, body),
            None => ProvedCall {
                headers: vec![("authorization", format!("Bearer {APP_KEY}"))],
                body: body.to_vec(),
            },
        }
    }

    /// Returns the head of a request to `path` with a body of `length` bytes.
    fn head(&self, path: &str, length: usize) -> String {
        let headers = self.prove(path, b"").headers.into_iter();
        let headers: Vec<String> = headers.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let headers = headers.concat();
        format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n"
        )
    }

    /// Posts `body` to `path` with all that proves who sends it; with `headers`, too. Returns the status, or `None` if the
    /// connection was closed while the body was on its way.
    async fn send(&self, path: &str, body: &[u8], headers: &[(&str, &str)]) -> Option<u16> {
        let proved = self.prove(path, body);
        let is_compressed = headers.iter().any(|(name, _)| *name == "content-encoding");
        let sent = if is_compressed { body.to_vec() } else { proved.body };
        let mut request = self.app.request(Method::POST, path).body(sent);
        for (name, value) in proved.headers {
            request = request.header(name, value);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.ok().map(|response| response.status().as_u16())
    }

    async fn post(&self, path: &str, body: &[u8], headers: &[(&str, &str)]) -> u16 {
        self.send(path, body, headers).await.unwrap()
    }

    /// Opens a connection and sends `text`.
    async fn connect(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.app.base().strip_prefix("http://").unwrap()).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// Checks that Ada is answered, and that this is all her chat contains: `count` messages of hers so far.
    async fn answers_ada(&self, count: i64) {
        self.app.ada_says(count, &format!("message {count}")).await;
        let history = lines(&self.app.history(ADAS).await);
        assert_eq!(history.len(), 2 * usize::try_from(count).unwrap(), "{history:#?}");
        assert!(history[history.len() - 1].contains(&format!("You said: message {count}")), "{history:#?}");
    }
}

/// Sends a byte every few milliseconds, for as long as the other side takes them.
async fn trickle(mut stream: OwnedWriteHalf) {
    while stream.write_all(b" ").await.is_ok() {
        a_while().await;
    }
}

async fn rest(mut stream: OwnedReadHalf) -> String {
    let mut answer = Vec::new();
    // The program closes the connection while bytes are on their way.
    drop(stream.read_to_end(&mut answer).await);
    String::from_utf8_lossy(&answer).into_owned()
}

/// A byte does not extend the time that a body has.
#[tokio::test]
async fn a_body_that_comes_byte_by_byte_ends_after_its_time_and_holds_nobody_up() {
    let target = Target::start().await;
    let (mut answers, mut trickles) = (Vec::new(), Vec::new());
    for path in &*ROUTES {
        let (reads, writes) = target.connect(&target.head(path, 1_000_000)).await.into_split();
        answers.push(rest(reads));
        trickles.push(trickle(writes));
    }
    target.answers_ada(1).await;
    let start = target.app.clock().now();
    let all = join(join_all(answers), join_all(trickles));
    let (answers, _) = target.app.as_time_passes(all).await;
    assert!(target.app.clock().now().since(start) >= READ_TIMEOUT);
    for (path, answer) in ROUTES.iter().zip(answers) {
        let is_told = answer.starts_with("HTTP/1.1 408 ") && answer.contains("problem:too-slow");
        assert!(is_told, "{path}: {answer}");
    }
    target.answers_ada(2).await;
    assert_eq!(target.app.history("http:chat:app:c1").await.len(), 0);
    target.app.finish().await;
}

#[tokio::test]
async fn connections_that_send_nothing_hold_nobody_up() {
    let target = Target::start().await;
    let mut open = Vec::new();
    for at in 0..150 {
        let path = &ROUTES[at % ROUTES.len()];
        let text = match at % 3 {
            0 => String::new(),
            1 => format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nX-Slow: "),
            _ => target.head(path, 6 * 1024 * 1024),
        };
        open.push(target.connect(&text).await);
    }
    target.answers_ada(1).await;
    let body = json!({"userId": "ada", "text": "hello", "messageId": "m1"}).to_string();
    assert_eq!(target.post("/v1/chats/c1/messages", body.as_bytes(), &[]).await, 202);
    target.app.idle().await;
    assert_eq!(target.app.history("http:chat:app:c1").await.len(), 2);
    // What was promised and never sent is given up with its connection.
    drop(open);
    target.answers_ada(2).await;
    target.app.finish().await;
}

#[tokio::test]
async fn bodies_that_are_huge_or_compressed_are_refused_and_nothing_is_stored() {
    let target = Target::start().await;
    let ten_megabytes = vec![b' '; 10_000_000];
    let mut bomb = GzEncoder::new(Vec::new(), Compression::fast());
    for _ in 0..16 {
        bomb.write_all(&vec![b'['; 1024 * 1024]).unwrap();
    }
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 256 * 1024, "{}", bomb.len());
    let mut is_told = false;
    for path in &*ROUTES {
        // The answer comes before the body has ended, so the connection may be closed before the answer is read. It is not used again.
        let status = target.send(path, &ten_megabytes, &[("connection", "close")]).await;
        assert!(status.is_none_or(|status| status == 413), "{path}: {status:?}");
        is_told |= status.is_some();
        // Nothing is decompressed: these are bytes that are no JSON.
        let status = target.post(path, &bomb, &[("content-encoding", "gzip")]).await;
        assert_eq!(status, if path == "/lark" { 401 } else { 400 }, "{path}");
    }
    assert!(is_told, "no route has answered 413");
    target.answers_ada(1).await;
    assert_eq!(target.app.history("http:chat:app:c1").await.len(), 0);
    target.app.finish().await;
}

/// Each is refused or taken for what it is. None fails, which would make a platform deliver it again and again.
#[tokio::test]
async fn json_at_the_edges_of_numbers_texts_and_depth_is_no_failure() {
    let target = Target::start().await;
    let deep =
        |open: &str, close: &str, depth: usize| format!("{}{}", open.repeat(depth), close.repeat(depth));
    let numbers =
        ["18446744073709551616", "-9223372036854775809", "1e400", "-1", "0", "1.5", "99999999999999"];
    let mut bodies: Vec<Vec<u8>> = vec![
        b"\xff\xfe{\"update_id\": 1}".to_vec(),
        b"{\"update_id\": 1, \"message\": {\"text\": \"\xc3\x28\"}}".to_vec(),
        b"{\"userId\": \"ada\", \"text\": \"\\ud800\"}".to_vec(),
        b"{\"userId\": \"a\\u0000da\", \"text\": \"hello\"}".to_vec(),
        deep("[", "]", 100_000).into_bytes(),
        deep("{\"a\":", "}", 100_000).into_bytes(),
        "[".repeat(5_000_000 / 8).into_bytes(),
        b"\xef\xbb\xbf{}".to_vec(),
        b"{\"id\": \"r\", \"id\": \"r\", \"messages\": []}".to_vec(),
    ];
    for body in [
        r#"{"userId": "ada", "text": "hello", "ts": N, "until": N}"#,
        r#"{"update_id": N, "message": {"message_id": N, "date": N, "text": "hello", "from": {"id": N},
            "chat": {"id": N, "type": "channel"}}}"#,
        r#"{"id": N, "type": N, "token": N, "data": {"name": N}}"#,
    ] {
        bodies.extend(numbers.map(|number| body.replace('N', number).into_bytes()));
    }
    for path in &*ROUTES {
        for body in &bodies {
            let status = target.post(path, body, &[]).await;
            let shown: String = body.escape_ascii().take(120).map(char::from).collect();
            assert!(matches!(status, 200..=299 | 400..=499), "{path} {status}: {shown}");
        }
    }
    target.app.idle_as_time_passes().await;
    target.answers_ada(1).await;
    target.app.finish().await;
}
