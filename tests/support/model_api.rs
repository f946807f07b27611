//! The APIs of OpenAI, Anthropic and Amazon Bedrock on a loopback port, for end-to-end tests.
//!
//! They refuse what the real ones refuse, so that a request which passes here is well-formed, and they are asserted by
//! what they store: [`ModelApi::requests`], [`ModelApi::refusals`], [`ModelApi::max_concurrent_by`]. They keep what they
//! have read, and count what they find of it in the next request; and they know the thoughts that they have signed.
//!
//! ```text
//! POST /v1/chat/completions                     Authorization: Bearer <API_KEY>
//! {"model": "test", "messages": [{"role": "user", "content": "hello"}]}
//! {"id": "chatcmpl-1", "object": "chat.completion", …, "choices": [{"message": {"content": "You said: hello"}}]}
//!
//! POST /anthropic/v1/messages                   x-api-key: <API_KEY>
//! POST /bedrock/model/<model>/converse-stream   signed with AWS_KEY_ID and AWS_SECRET for AWS_REGION
//! ```
//!
//! All that is said of a request here is of its OpenAI form, which the other two are brought into; as they came they are
//! [`ModelApi::raw_requests`].
//!
//! What it answers is decided in this order: a failure ([`ModelApi::fail`]), a request that is too long
//! ([`ModelApi::limit_context`]), calls of tools ([`ModelApi::answer_tools`]), what a test makes of the request
//! ([`ModelApi::answer_by`]), a fixed text ([`ModelApi::answer_with`]), what was said.
//!
//! Source of OpenAI's shapes and refusals: its API reference, "Create chat completion" and "Error codes".
#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "shared by test programs, each of which uses a part of it"
)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use base64::Engine;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

// Named, since this file is itself included by path.
#[path = "model_api/anthropic.rs"]
mod anthropic;
#[path = "model_api/bedrock.rs"]
mod bedrock;
#[path = "model_api/blocks.rs"]
mod blocks;
#[path = "model_api/check.rs"]
mod check;
#[path = "model_api/serve.rs"]
mod serve;
#[path = "model_api/shape.rs"]
mod shape;
#[path = "model_api/state.rs"]
mod state;
#[path = "model_api/wire.rs"]
mod wire;

pub use bedrock::{AWS_KEY_ID, AWS_REGION, AWS_SECRET};
use state::{Hangs, Shared};
pub use wire::Numbering;
use wire::{Mishap, Refusal, as_said, content_text, messages_of};

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
        let app = serve::router(shared.clone());
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, app).await;
        });
        Self { address, shared, server }
    }

    /// What `MODEL_BASE_URL` is set to; ends in `/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The same for `anthropic:<model>`.
    pub fn anthropic_url(&self) -> String {
        format!("http://{}/anthropic/v1", self.address)
    }

    /// The same for `bedrock:<model>`.
    pub fn bedrock_url(&self) -> String {
        format!("http://{}/bedrock", self.address)
    }

    /// Answers whole, whatever is asked, as servers do that cannot stream.
    pub fn never_stream(&self) {
        self.shared.state().never_streams = true;
    }

    /// Refuses `stream_options`, as servers do that do not know it; of Bedrock, streaming altogether.
    pub fn refuse_stream_options(&self) {
        self.shared.state().refuses_stream_options = true;
    }

    /// The connections of the next `times` streamed answers break half-way.
    pub fn break_off(&self, times: usize) {
        self.shared.state().mishaps.push((times, Mishap::Breaks));
    }

    /// The bodies of the next `times` streamed answers end half-way, as if they were whole.
    pub fn end_early(&self, times: usize) {
        self.shared.state().mishaps.push((times, Mishap::Ends));
    }

    /// The next `times` streamed answers stand still half-way, for ever.
    pub fn stall(&self, times: usize) {
        self.shared.state().mishaps.push((times, Mishap::Stalls));
    }

    /// The next `times` streamed answers become an error half-way: the provider is overloaded.
    pub fn overload_midway(&self, times: usize) {
        self.shared.state().mishaps.push((times, Mishap::Fails));
    }

    /// Thinks this before each answer from now on, signed where the provider signs. What leads to calls is wanted back
    /// with their results.
    pub fn think(&self, thought: impl Into<String>) {
        self.shared.state().thought = Some(thought.into());
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

    /// Tells the calls of streamed answers apart like this from now on, where they are OpenAI's.
    pub fn number_calls(&self, numbering: Numbering) {
        self.shared.state().numbering = numbering;
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

    /// Refuses requests with images from now on (400), as a model does that cannot see. These refusals are
    /// [`ModelApi::images_refused`], not [`ModelApi::refusals`].
    pub fn blind(&self) {
        self.shared.state().images_refused = Some(0);
    }

    /// How many requests were refused for their images.
    pub fn images_refused(&self) -> usize {
        self.shared.state().images_refused.unwrap_or_default()
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

    /// The same, once `requests` [`ModelApi::requests`] have come.
    pub fn fail_behind(&self, requests: usize, times: usize, status: u16) {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        self.shared.state().later_failures.push((requests, times, status));
    }

    /// Every request that holds results of tools is answered with this error status from now on.
    pub fn fail_with_results(&self, status: u16) {
        self.shared.state().failing_with_results = StatusCode::from_u16(status).ok();
    }

    /// Every `nth` request from now on is answered with an error status: with these in turn.
    pub fn fail_each(&self, nth: usize, statuses: &[u16]) {
        let statuses = statuses.iter().filter_map(|status| StatusCode::from_u16(*status).ok()).collect();
        self.shared.state().failing_each = Some((nth, statuses));
    }

    /// Forgets the failures that are still to come.
    pub fn recover(&self) {
        let mut state = self.shared.state();
        state.failures.clear();
        (state.failing_each, state.failing_with_results) = (None, None);
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

    /// The bodies of all well-formed requests as they came, in order of arrival.
    pub fn raw_requests(&self) -> Vec<Value> {
        self.shared.state().calls.iter().map(|call| call.raw.clone()).collect()
    }

    /// The paths of all well-formed requests, in order of arrival.
    pub fn paths(&self) -> Vec<String> {
        self.shared.state().calls.iter().map(|call| call.path.clone()).collect()
    }

    /// What of each well-formed request was found in what had been kept before, in tokens, in order of arrival.
    pub fn cached_tokens(&self) -> Vec<u64> {
        self.shared.state().calls.iter().map(|call| call.cached.read).collect()
    }

    /// How many [`ModelApi::requests`] there were.
    pub fn count(&self) -> usize {
        self.requests().len()
    }

    /// How many of all were answered with [`ModelApi::fail_each`].
    pub fn failed(&self) -> usize {
        self.shared.state().failed
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
    last.map(|message| as_said(&content_text(&message["content"])))
        .unwrap_or_default()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// All the text that a request's body sends as `role`, in order, one entry a message: what was said, without
/// [`summary_of`] and [`notes_of`] it.
pub fn texts_of(body: &Value, role: &str) -> Vec<String> {
    let own = messages_of(body).iter().filter(|m| m["role"] == role).map(|m| content_text(&m["content"]));
    if role != "user" {
        return own.collect();
    }
    own.map(|text| as_said(&text)).filter(|text| !text.is_empty()).collect()
}

/// What users say in a request's body, line by line: what is said in a row is sent as one message.
pub fn lines_said(body: &Value) -> Vec<String> {
    texts_of(body, "user").iter().flat_map(|text| text.lines()).map(str::to_owned).collect()
}

/// The summary that a request's body holds; empty where it holds none.
pub fn summary_of(body: &Value) -> String {
    between(body, "<summary>\n", "\n</summary>")
}

/// What a request's body tells from memory; empty where it tells nothing.
pub fn notes_of(body: &Value) -> String {
    between(body, "<notes>\n", "\n</notes>")
}

fn between(body: &Value, start: &str, end: &str) -> String {
    let users = messages_of(body).iter().filter(|message| message["role"] == "user");
    let text = users.map(|message| content_text(&message["content"])).collect::<Vec<_>>().join("\n");
    let inner = text.split_once(start).and_then(|(_, rest)| rest.split_once(end));
    inner.map(|(inner, _)| inner.to_owned()).unwrap_or_default()
}

/// The images that a request's body shows, in order.
pub fn images_of(body: &Value) -> Vec<Vec<u8>> {
    let parts = messages_of(body).iter().filter_map(|message| message["content"].as_array()).flatten();
    let urls = parts.filter_map(|part| part["image_url"]["url"].as_str());
    // The data alone where it came as such.
    let data = urls.map(|url| url.split_once(";base64,").map_or(url, |(_, data)| data));
    data.filter_map(|data| base64::engine::general_purpose::STANDARD.decode(data).ok()).collect()
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

fn bad(message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, message)
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
