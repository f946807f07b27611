//! Lambda's runtime API for one process and two events: [`launch`].
//!
//! ```text
//! GET  /2018-06-01/runtime/invocation/next            200, the event; headers Lambda-Runtime-Aws-Request-Id, …
//! POST /2018-06-01/runtime/invocation/<id>/response   202; the body is the answer, whole or streamed
//! POST /2018-06-01/runtime/invocation/<id>/error      202
//! POST /2018-06-01/runtime/init/error                 202
//! ```
//!
//! Source: <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>.

use std::io::{Read, Seek};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path as UrlPath, State};
use axum::http::{Request, Response, StatusCode};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;

/// Maximum time until a process's first answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time limit of an invocation: the longest timeout in the template.
const TIMEOUT: Duration = Duration::from_mins(14);

/// Measurements of one launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    /// Time from the start of the process until it asks for an event.
    pub(crate) ready: Duration,
    /// Time from the start of the process until its first answer is complete.
    pub(crate) answered: Duration,
    /// Time of the second event, from its delivery to its answer.
    pub(crate) warm: Duration,
    /// Processor time until the first answer, of all threads that are still alive.
    pub(crate) cpu: Duration,
    /// Maximum resident memory, in KB.
    pub(crate) peak_kb: u64,
}

struct Shared {
    events: Mutex<mpsc::UnboundedReceiver<String>>,
    said: mpsc::UnboundedSender<(Instant, Said)>,
}

enum Said {
    Asked,
    Answered(Bytes),
    Failed(Bytes),
}

/// Starts `binary` with only `env` in its environment, sends it the events that `make` creates (the second after the
/// answer to the first), and ends it.
pub(crate) async fn launch(
    binary: &Path,
    env: &[(String, String)],
    make: impl AsyncFn(u64) -> Value,
) -> (Launch, [Bytes; 2]) {
    let (said, mut heard) = mpsc::unbounded_channel();
    let (give, events) = mpsc::unbounded_channel();
    let shared = Arc::new(Shared { events: Mutex::new(events), said });
    give.send(make(0).await.to_string()).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
    let app = Router::new()
        .route("/2018-06-01/runtime/invocation/next", get(next))
        .route("/2018-06-01/runtime/invocation/{id}/{what}", post(answer))
        .route("/2018-06-01/runtime/init/error", post(init_error))
        .with_state(shared);
    let server = tokio::spawn(async move { axum::serve(listener, app).await });

    let mut command = Command::new(binary);
    command.env_clear().envs(env.iter().map(|(name, value)| (name, value)));
    command.env("AWS_LAMBDA_RUNTIME_API", address.to_string());
    // Its log is shown if it does not answer.
    let mut log = tempfile::tempfile().unwrap();
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap());
    let started = Instant::now();
    let child = Process(command.spawn().unwrap_or_else(|error| panic!("{}: {error}", binary.display())));
    let pid = child.0.id();
    let mut hear = async || {
        let said = timeout(PATIENCE, heard.recv()).await;
        let said = said.unwrap_or_else(|_| {
            let mut lines = String::new();
            log.rewind().and_then(|()| log.read_to_string(&mut lines)).unwrap();
            panic!("{} does not answer; its log: {lines}", binary.display())
        });
        match said.unwrap() {
            (_, Said::Failed(body)) => {
                panic!("{} failed: {}", binary.display(), String::from_utf8_lossy(&body))
            }
            (at, Said::Asked) => (at, None),
            (at, Said::Answered(body)) => (at, Some(body)),
        }
    };
    let (ready, _) = hear().await;
    let (answered, first) = hear().await;
    let cpu = cpu(pid);
    give.send(make(1).await.to_string()).unwrap();
    let (given, _) = hear().await;
    let (answered_again, second) = hear().await;
    let launch = Launch {
        ready: ready - started,
        answered: answered - started,
        warm: answered_again - given,
        cpu,
        peak_kb: peak_kb(pid),
    };
    drop(child);
    server.abort();
    (launch, [first.unwrap(), second.unwrap()])
}

/// Returns the next event; does not return after the last.
async fn next(State(shared): State<Arc<Shared>>) -> Response<Body> {
    let event = shared.events.lock().await.recv().await;
    let Some(event) = event else { return std::future::pending().await };
    shared.said.send((Instant::now(), Said::Asked)).unwrap();
    let ends = (now() + TIMEOUT).as_millis();
    let function = "arn:aws:lambda:eu-central-1:123456789012:function:annals";
    let trace = "Root=1-6920ef20-0123456789abcdef01234567;Parent=0123456789abcdef;Sampled=0";
    Response::builder()
        .header("Content-Type", "application/json")
        .header("Lambda-Runtime-Aws-Request-Id", "8476a536-e9f4-11e8-9739-2dfe598c3fcd")
        .header("Lambda-Runtime-Deadline-Ms", ends.to_string())
        .header("Lambda-Runtime-Invoked-Function-Arn", function)
        .header("Lambda-Runtime-Trace-Id", trace)
        .body(Body::from(event))
        .unwrap()
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    UrlPath((_, what)): UrlPath<(String, String)>,
    request: Request<Body>,
) -> StatusCode {
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
    let said = if what == "response" { Said::Answered(body) } else { Said::Failed(body) };
    shared.said.send((Instant::now(), said)).ok();
    StatusCode::ACCEPTED
}

async fn init_error(State(shared): State<Arc<Shared>>, body: Bytes) -> StatusCode {
    shared.said.send((Instant::now(), Said::Failed(body))).ok();
    StatusCode::ACCEPTED
}

#[allow(clippy::disallowed_methods, reason = "the functions under measurement live in the system's time")]
pub(crate) fn now() -> Duration {
    std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// A process that is killed when this value is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn cpu(pid: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    // `<nanoseconds on a processor> <nanoseconds waiting for one> <turns>`
    let of = |path: std::path::PathBuf| {
        let line = std::fs::read_to_string(path.join("schedstat")).ok()?;
        line.split(' ').next()?.parse::<u64>().ok()
    };
    Duration::from_nanos(threads.filter_map(|thread| of(thread.ok()?.path())).sum())
}

fn peak_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
