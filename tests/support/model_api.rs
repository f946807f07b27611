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
//! What it answers is decided in this order: a failure ([`ModelApi::fail`]), a request that is too long
//! ([`ModelApi::limit_context`]), calls of tools ([`ModelApi::answer_tools`]), what a test makes of the request
//! ([`ModelApi::answer_by`]), a fixed text ([`ModelApi::answer_with`]), what was said.
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
use axum::routing::{get, post};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

// Named, since this file is itself included by path.
#[path = "model_api/check.rs"]
mod check;
#[path = "model_api/wire.rs"]
mod wire;

use check::{check_body, check_key};
use wire::{Completion, Refusal, Said, content_text, messages_of, prompt_tokens, said_last};

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
        Self::start_at(0).await
    }

    /// Starts one at this port of `127.0.0.1`.
    pub async fn start_at(port: u16) -> Self {
        let (address, listener) = listen(port).await;
        let shared = Arc::new(Shared::default());
        let app = Router::new()
            .route("/v1/chat/completions", post(chat_completions))
            .route("/v1/models", get(models))
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

    /// Answers what `answer` makes of a request's body from now on; where that is nothing, as before. So a test can
    /// tell requests for summaries from those that answer: `answer_by(|body| …then_some("Goal: …".to_owned()))`.
    pub fn answer_by(&self, answer: impl Fn(&Value) -> Option<String> + Send + Sync + 'static) {
        self.shared.state().answer_by = Some(Arc::new(answer));
    }

    /// Answers the next request that offers all these tools with a call of each, `(name, input)`, in one message; the
    /// requests behind it as before. Calls add up: two of them make two steps.
    pub fn answer_tools(&self, calls: &[(&str, Value)]) {
        let calls = calls.iter().map(|(name, input)| ((*name).to_owned(), input.clone())).collect();
        self.shared.state().calls_to_come.push(calls);
    }

    /// Ends texts for this reason from now on: `length` or `content_filter`. (A text that is longer than its request
    /// allows is cut off, and says `length`, without this.)
    pub fn finish_with(&self, reason: &'static str) {
        self.shared.state().finish = Some(reason);
    }

    /// Refuses requests of more than this many tokens from now on, as OpenAI words it (400,
    /// `context_length_exceeded`). Tokens are a quarter of the ASCII characters and one for each other, and four for
    /// each message; tools count as JSON. These refusals are [`ModelApi::too_long`], not [`ModelApi::refusals`].
    pub fn limit_context(&self, tokens: u64) {
        self.shared.state().context_limit = Some(tokens);
    }

    /// Says from now on that a request took this many times the tokens that [`ModelApi::limit_context`] counts.
    pub fn count_tokens(&self, factor: f64) {
        self.shared.state().usage_factor = factor;
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
        self.shared.hangs.send_replace(Hangs { notes: true, answers: true });
    }

    /// The same for [`ModelApi::requests_for_notes`] alone.
    pub fn hang_notes(&self) {
        self.shared.hangs.send_replace(Hangs { notes: true, answers: false });
    }

    /// The same for all but them.
    pub fn hang_answers(&self) {
        self.shared.hangs.send_replace(Hangs { notes: false, answers: true });
    }

    /// Answers what waits, and what comes.
    pub fn resume(&self) {
        self.shared.hangs.send_replace(Hangs::default());
    }

    /// Takes any key or none, as servers on a laptop do.
    pub fn accept_any_key(&self) {
        self.shared.state().any_key = true;
    }

    /// The bodies of all well-formed requests, in order of arrival, those answered with [`ModelApi::fail`] and
    /// those that were too long among them.
    pub fn requests(&self) -> Vec<Value> {
        let state = self.shared.state();
        state.calls.iter().filter(|call| !is_for_notes(&call.body)).map(|call| call.body.clone()).collect()
    }

    /// The bodies of the requests for summaries and for what is worth remembering, in order of arrival. Where a test does
    /// not answer them itself, a summary is one line, and nothing is worth remembering.
    pub fn requests_for_notes(&self) -> Vec<Value> {
        let state = self.shared.state();
        state.calls.iter().filter(|call| is_for_notes(&call.body)).map(|call| call.body.clone()).collect()
    }

    /// How many [`ModelApi::requests`] there were.
    pub fn count(&self) -> usize {
        self.requests().len()
    }

    /// How many of them are running now.
    pub fn running(&self) -> usize {
        let state = self.shared.state();
        state.calls.iter().filter(|call| call.ended.is_none() && !is_for_notes(&call.body)).count()
    }

    /// The messages of all refusals (400, 401, 404), in order: empty where every request was well-formed.
    pub fn refusals(&self) -> Vec<String> {
        self.shared.state().refusals.clone()
    }

    /// How many requests were longer than [`ModelApi::limit_context`] allows.
    pub fn too_long(&self) -> usize {
        self.shared.state().too_long
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

    /// Returns once `count` requests for notes have arrived; else as [`ModelApi::wait_for`].
    pub async fn wait_for_notes(&self, count: usize) {
        let mut noted = self.shared.noted.subscribe();
        let enough = tokio::time::timeout(PATIENCE, noted.wait_for(|noted| *noted >= count)).await;
        let came = self.requests_for_notes().len();
        assert!(enough.is_ok(), "{came} of {count} requests for notes came in {PATIENCE:?}");
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

/// Whether a request is for a summary, or for what is worth remembering, and not for an answer.
pub fn is_for_notes(body: &Value) -> bool {
    texts_of(body, "system").first().is_some_and(|system| system.starts_with("You keep the memory of "))
}

/// Whether a request is for a summary.
pub fn is_for_summary(body: &Value) -> bool {
    texts_of(body, "system").first().is_some_and(|system| system.starts_with("You keep the memory of a chat"))
}

/// What is said to a request for notes.
fn note(body: &Value) -> Option<String> {
    let note = || if is_for_summary(body) { "Goal: to go on.".into() } else { "NONE".into() };
    is_for_notes(body).then(note)
}

#[derive(Default)]
struct Shared {
    state: Mutex<Stored>,
    hangs: watch::Sender<Hangs>,
    /// How many requests have arrived that are for answers, and for notes.
    arrived: watch::Sender<usize>,
    noted: watch::Sender<usize>,
}

/// What is not answered for now.
#[derive(Clone, Copy, Default)]
struct Hangs {
    notes: bool,
    answers: bool,
}

type AnswerBy = Arc<dyn Fn(&Value) -> Option<String> + Send + Sync>;

struct Stored {
    answer: Option<String>,
    answer_by: Option<AnswerBy>,
    calls_to_come: Vec<Vec<(String, Value)>>,
    finish: Option<&'static str>,
    context_limit: Option<u64>,
    usage_factor: f64,
    too_long: usize,
    failures: Vec<(usize, StatusCode)>,
    delay: Duration,
    any_key: bool,
    calls: Vec<Call>,
    refusals: Vec<String>,
    /// Starts and ends so far.
    moments: u64,
}

impl Default for Stored {
    fn default() -> Self {
        Self {
            answer: None,
            answer_by: None,
            calls_to_come: Vec::new(),
            finish: None,
            context_limit: None,
            usage_factor: 1.0,
            too_long: 0,
            failures: Vec::new(),
            delay: Duration::ZERO,
            any_key: false,
            calls: Vec::new(),
            refusals: Vec::new(),
            moments: 0,
        }
    }
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

    /// How this request is refused, though it is well-formed.
    fn refuse(&mut self, body: &Value) -> Option<Refusal> {
        if let Some(status) = self.next_failure() {
            return Some(Refusal::injected(status));
        }
        let limit = self.context_limit?;
        let tokens = prompt_tokens(body);
        (tokens > limit).then(|| {
            self.too_long += 1;
            Refusal::too_long(limit, tokens)
        })
    }

    /// The first calls to come whose tools the request offers.
    fn next_calls(&mut self, body: &Value) -> Option<Said> {
        let tools = body["tools"].as_array()?;
        let offers = |name: &str| tools.iter().any(|tool| tool["function"]["name"] == name);
        let at = self.calls_to_come.iter().position(|calls| calls.iter().all(|(name, _)| offers(name)))?;
        Some(Said::Calls(self.calls_to_come.remove(at)))
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
        let (at, noted) = {
            let mut state = shared.state();
            let started = state.moment();
            state.calls.push(Call { body, started, ended: None });
            (state.calls.len() - 1, state.calls.iter().filter(|call| is_for_notes(&call.body)).count())
        };
        shared.noted.send_replace(noted);
        shared.arrived.send_replace(at + 1 - noted);
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

async fn listen(port: u16) -> (SocketAddr, TcpListener) {
    let bound = async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
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
    let (said, delay, factor) = {
        let mut state = shared.state();
        let said = match state.refuse(&body) {
            Some(refusal) => Err(refusal),
            None => {
                Ok((state.next_calls(&body), state.answer_by.clone(), state.answer.clone(), state.finish))
            }
        };
        (said, state.delay, state.usage_factor)
    };
    // Outside the lock, since a test's own answer may look at this.
    let said = said.map(|(calls, answer_by, answer, finish)| {
        calls.unwrap_or_else(|| {
            let answer = answer.filter(|_| !is_for_notes(&body));
            let text = answer_by.and_then(|answer_by| answer_by(&body)).or(answer);
            Said::Text(
                text.or_else(|| note(&body)).unwrap_or_else(|| format!("You said: {}", said_last(&body))),
                finish,
            )
        })
    });
    let running = Running::start(&shared, body.clone());
    #[allow(
        clippy::disallowed_methods,
        reason = "how long a model takes is real time, also where a test's clock is not"
    )]
    tokio::time::sleep(delay).await;
    let is_for_notes = is_for_notes(&body);
    let goes_on = |hangs: &Hangs| if is_for_notes { !hangs.notes } else { !hangs.answers };
    let _ = shared.hangs.subscribe().wait_for(goes_on).await;

    let id = format!("chatcmpl-{}", running.at + 1);
    // Ended before the answer goes out, so that a caller who has it and calls again is never counted twice.
    drop(running);
    match said {
        Err(refusal) => refusal.into_response(),
        Ok(said) => Completion::new(id, &body, said, factor).into_response(),
    }
}

/// The one model that there is.
async fn models(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let checked = check_key(&headers, shared.state().any_key);
    if let Err(refusal) = checked {
        shared.state().refusals.push(refusal.message.clone());
        return refusal.into_response();
    }
    let body = r#"{"object":"list","data":[{"id":"test","object":"model","created":1,"owned_by":"test"}]}"#;
    ([("content-type", "application/json")], body).into_response()
}

async fn no_such_url(State(shared): State<Arc<Shared>>, method: Method, uri: Uri) -> Response {
    let refusal = Refusal::new(StatusCode::NOT_FOUND, format!("Invalid URL ({method} {})", uri.path()));
    shared.state().refusals.push(refusal.message.clone());
    refusal.into_response()
}
