//! An OpenAI-compatible chat completions endpoint on a loopback port, for end-to-end tests.
//!
//! It refuses what real ones refuse, so that a request which passes here is well-formed, and it is asserted by
//! what it stores: [`ModelApi::requests`], [`ModelApi::refusals`], [`ModelApi::max_concurrent_by`].
//!
//! ```text
//! POST /v1/chat/completions   Authorization: Bearer <API_KEY>
//! {"model": "test", "messages": [{"role": "user", "content": "hello"}]}
//! {"id": "chatcmpl-1", "object": "chat.completion", …, "choices": [{"message": {"content": "You said: hello"}}]}
//! ```
//!
//! Source of the shapes and refusals: the OpenAI API reference, "Create chat completion" and "Error codes".
#![allow(dead_code, unreachable_pub, reason = "shared by test programs, each of which uses a part of it")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

// Named, since this file is itself included by path.
#[path = "model_api/wire.rs"]
mod wire;

use wire::{Completion, Refusal, check_body, check_key, content_text, messages_of};

/// The key that the endpoint takes.
pub const API_KEY: &str = "sk-test-model";

/// How long [`ModelApi::wait_for`] waits.
const PATIENCE: Duration = Duration::from_secs(30);

/// The running endpoint; it stops when dropped.
pub struct ModelApi {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl ModelApi {
    /// Starts one on a free port, that answers `You said: <the texts said since its last answer>`.
    pub async fn start() -> Self {
        let (address, listener) = listen().await;
        let shared = Arc::new(Shared::default());
        let app = Router::new()
            .route("/v1/chat/completions", post(chat_completions))
            .fallback(no_such_url)
            .method_not_allowed_fallback(no_such_url)
            .with_state(shared.clone());
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, app).await;
        });
        Self { address, shared, server }
    }

    /// What `MODEL_BASE_URL` is set to; ends in `/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Answers `text` to everything from now on.
    pub fn answer_with(&self, text: impl Into<String>) {
        self.shared.state().answer = Some(text.into());
    }

    /// Answers the next `times` requests with this error status; with 429 comes `Retry-After: 1`. Calls add up:
    /// `fail(2, 500)` and then `fail(1, 429)` gives 500, 500, 429.
    pub fn fail(&self, times: usize, status: u16) {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        self.shared.state().failures.push((times, status));
    }

    /// Forgets the failures that are still to come.
    pub fn recover(&self) {
        self.shared.state().failures.clear();
    }

    /// Answers each request this much later from now on.
    pub fn delay(&self, delay: Duration) {
        self.shared.state().delay = delay;
    }

    /// Answers nothing until [`ModelApi::resume`]; requests are taken and wait.
    pub fn hang(&self) {
        self.shared.hangs.send_replace(true);
    }

    /// Answers what waits, and what comes.
    pub fn resume(&self) {
        self.shared.hangs.send_replace(false);
    }

    /// Takes any key or none, as servers on a laptop do.
    pub fn accept_any_key(&self) {
        self.shared.state().any_key = true;
    }

    /// The bodies of all well-formed requests, in order of arrival, those answered with [`ModelApi::fail`] among
    /// them.
    pub fn requests(&self) -> Vec<Value> {
        self.shared.state().calls.iter().map(|call| call.body.clone()).collect()
    }

    /// How many [`ModelApi::requests`] there were.
    pub fn count(&self) -> usize {
        self.shared.state().calls.len()
    }

    /// How many of them are running now.
    pub fn running(&self) -> usize {
        self.shared.state().calls.iter().filter(|call| call.ended.is_none()).count()
    }

    /// The messages of all refusals (400, 401, 404), in order: empty where every request was well-formed.
    pub fn refusals(&self) -> Vec<String> {
        self.shared.state().refusals.clone()
    }

    /// Returns once `count` requests have arrived.
    ///
    /// # Panics
    ///
    /// If they have not within 30 seconds.
    pub async fn wait_for(&self, count: usize) {
        let mut arrived = self.shared.arrived.subscribe();
        let enough = tokio::time::timeout(PATIENCE, arrived.wait_for(|arrived| *arrived >= count)).await;
        assert!(enough.is_ok(), "{} of {count} model requests came in {PATIENCE:?}", self.count());
    }

    /// The most requests that ever ran at once.
    pub fn max_concurrent(&self) -> usize {
        self.max_concurrent_by(|_| ()).into_values().max().unwrap_or(0)
    }

    /// For each key that `key` gives of a request's body, the most requests with that key that ever ran at once:
    /// `max_concurrent_by(last_user_line)`. A request runs until it is answered or its caller hangs up.
    pub fn max_concurrent_by<K: Ord>(&self, key: impl Fn(&Value) -> K) -> BTreeMap<K, usize> {
        let state = self.shared.state();
        // Times are a count of starts and ends, so no two are equal.
        let mut changes: BTreeMap<u64, (usize, bool)> = BTreeMap::new();
        for (at, call) in state.calls.iter().enumerate() {
            changes.insert(call.started, (at, true));
            changes.extend(call.ended.map(|ended| (ended, (at, false))));
        }
        let mut now_and_most: BTreeMap<K, (usize, usize)> = BTreeMap::new();
        for (at, starts) in changes.into_values() {
            let (now, most) = now_and_most.entry(key(&state.calls[at].body)).or_default();
            if starts {
                *now += 1;
                *most = (*most).max(*now);
            } else {
                *now -= 1;
            }
        }
        now_and_most.into_iter().map(|(key, (_, most))| (key, most)).collect()
    }
}

impl Drop for ModelApi {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// The first line of the last user message in a request's body; empty if there is none.
pub fn last_user_line(body: &Value) -> String {
    let last = messages_of(body).iter().rev().find(|message| message["role"] == "user");
    last.map(|message| content_text(&message["content"]))
        .unwrap_or_default()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// All the text that a request's body sends as `role`, in order, one entry a message.
pub fn texts_of(body: &Value, role: &str) -> Vec<String> {
    messages_of(body).iter().filter(|m| m["role"] == role).map(|m| content_text(&m["content"])).collect()
}

#[derive(Default)]
struct Shared {
    state: Mutex<Stored>,
    hangs: watch::Sender<bool>,
    arrived: watch::Sender<usize>,
}

#[derive(Default)]
struct Stored {
    answer: Option<String>,
    failures: Vec<(usize, StatusCode)>,
    delay: Duration,
    any_key: bool,
    calls: Vec<Call>,
    refusals: Vec<String>,
    /// Starts and ends so far.
    moments: u64,
}

struct Call {
    body: Value,
    started: u64,
    ended: Option<u64>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, Stored> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stored {
    fn moment(&mut self) -> u64 {
        self.moments += 1;
        self.moments
    }

    fn next_failure(&mut self) -> Option<StatusCode> {
        self.failures.retain(|(times, _)| *times > 0);
        let (times, status) = self.failures.first_mut()?;
        *times -= 1;
        Some(*status)
    }
}

/// A call until it is answered, or dropped because its caller hung up.
struct Running {
    shared: Arc<Shared>,
    at: usize,
}

impl Running {
    fn start(shared: &Arc<Shared>, body: Value) -> Self {
        let at = {
            let mut state = shared.state();
            let started = state.moment();
            state.calls.push(Call { body, started, ended: None });
            state.calls.len() - 1
        };
        shared.arrived.send_replace(at + 1);
        Self { shared: shared.clone(), at }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        let ended = state.moment();
        state.calls[self.at].ended = Some(ended);
    }
}

async fn listen() -> (SocketAddr, TcpListener) {
    let bound = async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        Ok::<_, std::io::Error>((listener.local_addr()?, listener))
    };
    match bound.await {
        Ok(bound) => bound,
        Err(error) => panic!("no loopback port for the model: {error}"),
    }
}

async fn chat_completions(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let checked = check_key(&headers, shared.state().any_key).and_then(|()| check_body(&body));
    let body = match checked {
        Ok(body) => body,
        Err(refusal) => {
            shared.state().refusals.push(refusal.message.clone());
            return refusal.into_response();
        }
    };
    let (failure, answer, delay) = {
        let mut state = shared.state();
        (state.next_failure(), state.answer.clone(), state.delay)
    };
    let running = Running::start(&shared, body.clone());
    #[allow(
        clippy::disallowed_methods,
        reason = "how long a model takes is real time, also where a test's clock is not"
    )]
    tokio::time::sleep(delay).await;
    let _ = shared.hangs.subscribe().wait_for(|hangs| !hangs).await;

    let id = format!("chatcmpl-{}", running.at + 1);
    // Ended before the answer goes out, so that a caller who has it and calls again is never counted twice.
    drop(running);
    match failure {
        Some(status) => Refusal::injected(status).into_response(),
        None => Completion::new(id, &body, answer).into_response(),
    }
}

async fn no_such_url(State(shared): State<Arc<Shared>>, method: Method, uri: Uri) -> Response {
    let refusal = Refusal::new(StatusCode::NOT_FOUND, format!("Invalid URL ({method} {})", uri.path()));
    shared.state().refusals.push(refusal.message.clone());
    refusal.into_response()
}
