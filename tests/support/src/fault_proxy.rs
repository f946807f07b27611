//! An HTTP proxy that fails, by seed: [`FaultProxy`] in front of a store, a platform or a model, and the [`Dice`] that decide.
//!
//! Proxies of one test share their dice, so a seed decides how often and in which way requests fail. Which request meets
//! which roll also depends on how the program's tasks interleave: the log of the dice says what happened.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::emulator::Answer;

/// Longest pause before a request is passed on, or its answer.
const MAX_DELAY: Duration = Duration::from_millis(80);
/// Longest head of a request.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// A service behind a proxy, which decides in which form it refuses and throttles.
#[derive(Clone, Copy)]
pub enum Service {
    /// DynamoDB.
    DynamoDb,
    /// S3.
    S3,
    /// DynamoDB, S3 and SQS at one address, as `annals aws` serves them.
    Aws,
    /// A platform's API: [`Emulator::service`](crate::emulator::Emulator::service).
    Platform {
        /// Returns its answer if it fails inside.
        failure: fn() -> Answer,
        /// Returns its answer to a call too many, with the wait.
        too_many: fn(Duration) -> Answer,
    },
    /// A model's API.
    Model,
    /// A server of tools.
    Mcp,
}

/// A fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is reset before the request is read.
    Reset,
    /// The service answers 500 or 503, and does nothing.
    Fails,
    /// The service answers that there are too many requests, and does nothing.
    Throttles,
    /// Half of the request reaches the service, then the connection is reset.
    HalfRequest,
    /// The service does what it is asked, and nothing of its answer arrives.
    LosesAnswer,
    /// The service does what it is asked, and half of its answer arrives.
    HalfAnswer,
    /// The request waits before it is passed on.
    Delays,
    /// The answer waits before it is passed on.
    AnswersLate,
    /// The service does twice what it is asked; the second answer arrives. A tool is asked once.
    Duplicates,
}

const FAULTS: [Fault; 9] = [
    Fault::Reset,
    Fault::Fails,
    Fault::Throttles,
    Fault::HalfRequest,
    Fault::LosesAnswer,
    Fault::HalfAnswer,
    Fault::Delays,
    Fault::AnswersLate,
    Fault::Duplicates,
];

/// Decides which requests fail. Clones share one sequence of rolls.
#[derive(Clone)]
pub struct Dice(Arc<Mutex<Rolls>>);

struct Rolls {
    rng: fastrand::Rng,
    seed: u64,
    percent: u8,
    is_cut: bool,
    requests: usize,
    log: Vec<String>,
}

impl Dice {
    /// Returns dice that let `percent` of the requests fail.
    pub fn new(seed: u64, percent: u8) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        Self(Arc::new(Mutex::new(Rolls { rng, seed, percent, is_cut: false, requests: 0, log: Vec::new() })))
    }

    /// Lets this many of a hundred requests fail from now on.
    pub fn set_percent(&self, percent: u8) {
        self.rolls().percent = percent;
    }

    /// Resets every connection from now on, or stops doing so.
    pub fn cut(&self, is_cut: bool) {
        self.rolls().is_cut = is_cut;
    }

    /// Returns the number of requests, and of faults among them.
    pub fn counts(&self) -> (usize, usize) {
        let rolls = self.rolls();
        (rolls.requests, rolls.log.len())
    }

    /// Returns the number of faults of this kind.
    pub fn count(&self, fault: Fault) -> usize {
        let ending = format!(" {fault:?}");
        self.rolls().log.iter().filter(|line| line.ends_with(&ending)).count()
    }

    fn roll(&self, what: &str) -> Option<(Fault, Duration)> {
        let mut guard = self.rolls();
        let rolls = &mut *guard;
        rolls.requests += 1;
        let fault = if rolls.is_cut {
            Fault::Reset
        } else if rolls.rng.u8(0..100) < rolls.percent {
            FAULTS[rolls.rng.usize(0..FAULTS.len())]
        } else {
            return None;
        };
        let delay = MAX_DELAY.mul_f64(rolls.rng.f64());
        let line = format!("{} {what} {fault:?}", rolls.requests);
        rolls.log.push(line);
        Some((fault, delay))
    }

    fn rolls(&self) -> std::sync::MutexGuard<'_, Rolls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Dice {
    /// Writes the seed and each fault, by the number of its request.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rolls = self.rolls();
        writeln!(f, "seed {}: {} faults in {} requests", rolls.seed, rolls.log.len(), rolls.requests)?;
        rolls.log.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

/// A running proxy; it stops when dropped.
pub struct FaultProxy {
    url: String,
    task: JoinHandle<()>,
}

impl FaultProxy {
    /// Starts a proxy in front of `upstream`, the URL of `service`.
    pub async fn start(service: Service, upstream: &str, dice: &Dice) -> Self {
        let (_, rest) = upstream.split_once("://").unwrap();
        let (address, path) = rest.split_once('/').map_or((rest, ""), |(address, path)| (address, path));
        let (address, dice) = (address.to_owned(), dice.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let slash = if path.is_empty() { "" } else { "/" };
        let url = format!("http://{}{slash}{path}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (address, dice) = (address.clone(), dice.clone());
                tokio::spawn(async move {
                    // A connection that breaks is what this is for.
                    let _ = pass(client, &address, service, &dice).await;
                });
            }
        });
        Self { url, task }
    }

    /// Returns the URL of the proxy, with the path of the service's.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[allow(clippy::disallowed_methods, reason = "a network is slow in real time")]
async fn wait(delay: Duration) {
    tokio::time::sleep(delay).await;
}

/// Passes one request on. Each has a connection of its own, which the answer's end closes.
async fn pass(mut client: TcpStream, address: &str, service: Service, dice: &Dice) -> std::io::Result<()> {
    let Some(request) = read(&mut client).await? else { return Ok(()) };
    let what = named(&request);
    let Some((fault, delay)) = dice.roll(&what) else {
        return relay(&mut client, address, &request).await;
    };
    match fault {
        Fault::Reset => reset(&client),
        Fault::Fails => client.write_all(&service.failure(&what)).await,
        Fault::Throttles => client.write_all(&service.throttle(&what)).await,
        Fault::HalfRequest => {
            let mut server = TcpStream::connect(address).await?;
            server.write_all(&request[..request.len() / 2]).await?;
            reset(&server)?;
            reset(&client)
        }
        Fault::LosesAnswer => {
            answer(address, &request).await?;
            reset(&client)
        }
        Fault::HalfAnswer => {
            let answer = answer(address, &request).await?;
            client.write_all(&answer[..answer.len() / 2]).await?;
            client.shutdown().await
        }
        Fault::Delays => {
            wait(delay).await;
            relay(&mut client, address, &request).await
        }
        Fault::AnswersLate => {
            let answer = answer(address, &request).await?;
            wait(delay).await;
            client.write_all(&answer).await
        }
        // A tool recognises no repeat, so each that it gets is to be the program's own.
        Fault::Duplicates if matches!(service, Service::Mcp) => relay(&mut client, address, &request).await,
        Fault::Duplicates => {
            answer(address, &request).await?;
            relay(&mut client, address, &request).await
        }
    }
}

/// Sends `request` and passes the answer on as it comes.
async fn relay(client: &mut TcpStream, address: &str, request: &[u8]) -> std::io::Result<()> {
    let mut server = TcpStream::connect(address).await?;
    server.set_nodelay(true)?;
    server.write_all(request).await?;
    tokio::io::copy(&mut server, client).await?;
    client.shutdown().await
}

/// Sends `request` and returns the whole answer.
async fn answer(address: &str, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut server = TcpStream::connect(address).await?;
    server.set_nodelay(true)?;
    server.write_all(request).await?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).await?;
    Ok(answer)
}

/// Makes the connection end with a reset instead of an orderly end, once it is dropped.
fn reset(connection: &TcpStream) -> std::io::Result<()> {
    connection.set_zero_linger()
}

/// Reads a request as it is passed on: on a connection for itself. `None` if the connection ends before one.
async fn read(client: &mut TcpStream) -> std::io::Result<Option<Vec<u8>>> {
    client.set_nodelay(true)?;
    let mut read = Vec::new();
    let end = loop {
        if let Some(at) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if read.len() > MAX_HEAD_BYTES || client.read_buf(&mut read).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&read[..end]).into_owned();
    let (mut kept, mut length, mut is_chunked) = (String::new(), 0, false);
    for line in head.split_inclusive("\r\n").filter(|line| *line != "\r\n") {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        match name.to_ascii_lowercase().as_str() {
            "connection" => continue,
            "expect" => {
                client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
                continue;
            }
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "transfer-encoding" => is_chunked = true,
            _ => {}
        }
        kept.push_str(line);
    }
    kept.push_str("connection: close\r\n\r\n");
    let mut body = read.split_off(end);
    while if is_chunked { !body.ends_with(b"0\r\n\r\n") } else { body.len() < length } {
        if client.read_buf(&mut body).await? == 0 {
            return Ok(None);
        }
    }
    let mut bytes = kept.into_bytes();
    bytes.append(&mut body);
    Ok(Some(bytes))
}

/// Returns the method, and the path without what may be secret; the operation of a call of AWS.
fn named(request: &[u8]) -> String {
    let head = String::from_utf8_lossy(&request[..request.len().min(MAX_HEAD_BYTES)]);
    let target = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("x-amz-target").then(|| value.to_owned())
    });
    target.unwrap_or_else(|| {
        let line = head.lines().next().unwrap_or_default();
        line.split('?').next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned()
    })
}

impl Service {
    /// Returns the answer of a service that fails inside.
    fn failure(self, what: &str) -> Vec<u8> {
        match self.of(what) {
            Self::DynamoDb => {
                json(500, "", r#"{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError"}"#)
            }
            Self::Aws => json(500, "", r#"{"__type":"com.amazonaws.sqs#InternalFailure"}"#),
            Self::S3 => xml(500, "InternalError"),
            Self::Platform { failure, .. } => json_of(failure()),
            Self::Mcp => json(502, "", "{}"),
            Self::Model => json(500, "", r#"{"error":{"message":"internal","type":"server_error"}}"#),
        }
    }

    /// Returns the answer of a service that is asked too often.
    fn throttle(self, what: &str) -> Vec<u8> {
        match self.of(what) {
            Self::DynamoDb => json(
                400,
                "",
                if what.len().is_multiple_of(2) {
                    r#"{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"slow down"}"#
                } else {
                    r#"{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}"#
                },
            ),
            Self::Aws => json(400, "", r#"{"__type":"com.amazonaws.sqs#RequestThrottled"}"#),
            Self::S3 => xml(503, "SlowDown"),
            Self::Platform { too_many, .. } => json_of(too_many(Duration::from_millis(200))),
            Self::Mcp => json(429, "Retry-After: 1\r\n", "{}"),
            Self::Model => json(
                429,
                "Retry-After: 1\r\n",
                r#"{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}"#,
            ),
        }
    }

    /// Returns the one of AWS's services that is asked.
    fn of(self, what: &str) -> Self {
        match self {
            Self::Aws if what.starts_with("DynamoDB") => Self::DynamoDb,
            Self::Aws if !what.starts_with("AmazonSQS") => Self::S3,
            one => one,
        }
    }
}

fn json_of(Answer { status, header, body, .. }: Answer) -> Vec<u8> {
    let line = |(name, value)| format!("{name}: {value}\r\n");
    json(status, &header.map(line).unwrap_or_default(), &String::from_utf8(body).unwrap())
}

fn json(status: u16, headers: &str, body: &str) -> Vec<u8> {
    let kind = "Content-Type: application/json\r\n";
    format!(
        "HTTP/1.1 {status} Fault\r\n{kind}{headers}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn xml(status: u16, code: &str) -> Vec<u8> {
    let body = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code></Error>");
    format!(
        "HTTP/1.1 {status} Fault\r\nContent-Type: application/xml\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
