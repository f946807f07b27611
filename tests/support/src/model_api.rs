//! The APIs of OpenAI, Anthropic and Amazon Bedrock on a loopback port, for end-to-end tests.
//!
//! They refuse what the real ones refuse, so that a request which passes here is well-formed. Tests check what they
//! store: [`ModelApi::requests`], [`ModelApi::refusals`], [`ModelApi::max_concurrent_by`]. They cache each request and
//! count how much of the next one is cached, and they recognise the reasoning that they have signed.
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
//! Requests are described here in OpenAI's form, into which the others are converted; [`ModelApi::raw_requests`]
//! returns them as they came.
//!
//! The answer to a request is decided in this order: a failure ([`ModelApi::fail`]), a request that is too long
//! ([`ModelApi::limit_context`]), tool calls ([`ModelApi::answer_tools`]), a test's answer to this request
//! ([`ModelApi::answer_by`]), a fixed text ([`ModelApi::answer_with`]), the texts of the users.
//!
//! `api.rs` has the interface of an API; each API has a file of its own.
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::Value;

use crate::server::Server;

mod answers;
mod anthropic;
mod api;
mod bedrock;
mod blocks;
mod body;
mod cache;
mod check;
mod completion;
mod openai;
mod refusal;
mod serve;
mod state;

pub use answers::Mishap;
use api::{APIS, Facts};
pub use bedrock::{AWS_KEY_ID, AWS_REGION, AWS_SECRET};
pub use body::{
    images_of, is_for_notes, is_for_summary, last_user_line, lines_said, notes_of, summary_of, texts_of,
    times_of, without_times,
};
pub use check::API_KEY;
pub use openai::Numbering;
pub use state::Stored;
use state::{Call, Hangs, Shared};

/// Timeout of [`ModelApi::wait_for`].
const PATIENCE: Duration = Duration::from_secs(30);

/// The running endpoint; it stops when dropped.
pub struct ModelApi {
    shared: Arc<Shared>,
    server: Server,
}

impl ModelApi {
    /// Starts one on a free port. It answers `You said: <the texts since its last answer>`.
    pub async fn start() -> Self {
        Self::start_at(0).await
    }

    /// Starts one at this port of `127.0.0.1`.
    pub async fn start_at(port: u16) -> Self {
        let shared = Arc::new(Shared::default());
        Self { server: Server::start(port, serve::router(shared.clone())).await, shared }
    }

    /// Returns the value of `MODEL_BASE_URL` for `openai:<model>`; ends in `/v1`.
    pub fn base_url(&self) -> String {
        self.url_of("openai")
    }

    /// Returns the value of `MODEL_BASE_URL` for `<provider>:<model>`.
    ///
    /// # Panics
    ///
    /// If the provider has no emulator.
    pub fn url_of(&self, provider: &str) -> String {
        let mut all = APIS.iter().map(|api| api.facts());
        let own = all.find(|facts| facts.model.split(':').next() == Some(provider));
        let Some(Facts { path, .. }) = own else { panic!("{provider} has no emulator") };
        format!("{}{path}", self.server.url)
    }

    /// Returns a model of each provider that has an emulator, as in `MODEL`: `openai:test`, and so on.
    pub fn models() -> Vec<&'static str> {
        APIS.iter().map(|api| api.facts().model).collect()
    }

    /// Changes what it holds and does.
    pub fn edit<T>(&self, change: impl FnOnce(&mut Stored) -> T) -> T {
        change(&mut self.shared.state())
    }

    /// Spoils the next `times` streamed answers. Calls add up, like those of [`ModelApi::fail`].
    pub fn mishap(&self, times: usize, mishap: Mishap) {
        self.shared.state().mishaps.push((times, mishap));
    }

    /// Sends this reasoning before each answer from now on, signed if the provider signs. Reasoning that led to calls
    /// must come back with their results.
    pub fn think(&self, thought: impl Into<String>) {
        self.shared.state().thought = Some(thought.into());
    }

    /// Answers every request with `text` from now on.
    pub fn answer_with(&self, text: impl Into<String>) {
        self.shared.state().answer = Some(text.into());
    }

    /// Answers a request with the result of `answer` for its body from now on, and as before if that is `None`. So a
    /// test can tell requests for summaries from those for answers: `answer_by(|body| …then_some("Goal:
    /// …".to_owned()))`.
    pub fn answer_by(&self, answer: impl Fn(&Value) -> Option<String> + Send + Sync + 'static) {
        self.shared.state().answer_by = Some(Arc::new(answer));
    }

    /// Answers the next request that offers all these tools with a call of each, `(name, input)`, in one message, and
    /// later requests as before. Invocations add up: two of them make two steps.
    pub fn answer_tools(&self, calls: &[(&str, Value)]) {
        let calls = calls.iter().map(|(name, input)| ((*name).to_owned(), input.clone())).collect();
        self.shared.state().calls_to_come.push(calls);
    }

    /// Ends texts for this reason from now on: `length` or `content_filter`. (A text that is longer than its request
    /// allows is cut off with the reason `length` in any case.)
    pub fn finish_with(&self, reason: &'static str) {
        self.shared.state().finish = Some(reason);
    }

    /// Refuses requests of more than this many tokens from now on, as OpenAI words it (400,
    /// `context_length_exceeded`). Tokens are a quarter of the ASCII characters and one for each other, and four for
    /// each message; tools count as JSON. These refusals are [`ModelApi::too_long`], not [`ModelApi::refusals`].
    pub fn limit_context(&self, tokens: u64) {
        self.shared.state().context_limit = Some(tokens);
    }

    /// Refuses requests that contain `words` from now on, as `DeepSeek`'s content filter does (400). These refusals are not
    /// [`ModelApi::refusals`].
    pub fn filter(&self, words: &'static str) {
        self.shared.state().filtered = Some(words);
    }

    /// Returns the number of requests refused for their images.
    pub fn images_refused(&self) -> usize {
        self.shared.state().images_refused.unwrap_or_default()
    }

    /// Answers the next `times` requests with this error status; with 429 comes `Retry-After: 1`. Calls add up:
    /// `fail(2, 500)` and then `fail(1, 429)` gives 500, 500, 429.
    pub fn fail(&self, times: usize, status: u16) {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        self.shared.state().failures.push((times, status));
    }

    /// Fails like [`ModelApi::fail`], but only after this number of [`ModelApi::requests`].
    pub fn fail_behind(&self, requests: usize, times: usize, status: u16) {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        self.shared.state().later_failures.push((requests, times, status));
    }

    /// Cancels the failures that are still to come.
    pub fn recover(&self) {
        let mut state = self.shared.state();
        state.failures.clear();
        state.failing_with_results = None;
    }

    /// Delays each answer by this time from now on.
    pub fn delay(&self, delay: Duration) {
        self.shared.state().delay = delay;
    }

    /// Answers nothing until [`ModelApi::resume`]; requests are accepted and wait.
    pub fn hang(&self) {
        self.shared.hangs.send_replace(Hangs { notes: true, answers: true });
    }

    /// Hangs like [`ModelApi::hang`], but only for [`ModelApi::requests_for_notes`].
    pub fn hang_notes(&self) {
        self.shared.hangs.send_replace(Hangs { notes: true, answers: false });
    }

    /// Hangs like [`ModelApi::hang`], except for [`ModelApi::requests_for_notes`].
    pub fn hang_answers(&self) {
        self.shared.hangs.send_replace(Hangs { notes: false, answers: true });
    }

    /// Answers the waiting requests and all later ones.
    pub fn resume(&self) {
        self.shared.hangs.send_replace(Hangs::default());
    }

    /// Returns the bodies of all well-formed requests but those [for notes](Self::requests_for_notes), in order of arrival,
    /// including those answered with [`ModelApi::fail`] and those that were too long.
    pub fn requests(&self) -> Vec<Value> {
        let state = self.shared.state();
        state.calls.iter().filter(|call| !is_for_notes(&call.body)).map(|call| call.body.clone()).collect()
    }

    /// Returns the bodies of the requests for summaries and for memories, in order of arrival. If a test does not
    /// answer them itself, a summary is one line, and there are no memories.
    pub fn requests_for_notes(&self) -> Vec<Value> {
        let state = self.shared.state();
        state.calls.iter().filter(|call| is_for_notes(&call.body)).map(|call| call.body.clone()).collect()
    }

    /// Returns the bodies of all well-formed requests as they came, in order of arrival.
    pub fn raw_requests(&self) -> Vec<Value> {
        self.shared.state().calls.iter().map(|call| call.raw.clone()).collect()
    }

    /// Returns the messages of all well-formed requests as they came, in order of arrival.
    pub fn raw_messages(&self) -> Vec<Vec<Value>> {
        let state = self.shared.state();
        let messages =
            |call: &Call| call.api.prompt(&call.raw)[2].as_array().expect("a list of messages").clone();
        state.calls.iter().map(messages).collect()
    }

    /// Returns the paths of all well-formed requests, in order of arrival.
    pub fn paths(&self) -> Vec<String> {
        self.shared.state().calls.iter().map(|call| call.path.clone()).collect()
    }

    /// Returns the tokens of each well-formed request that were found in the cache, in order of arrival.
    pub fn cached_tokens(&self) -> Vec<u64> {
        self.shared.state().calls.iter().map(|call| call.cached.read).collect()
    }

    /// Returns the number of [`ModelApi::requests`], so without those [for notes](Self::requests_for_notes).
    pub fn count(&self) -> usize {
        self.requests().len()
    }

    /// Returns the number of requests that are running now.
    pub fn running(&self) -> usize {
        let state = self.shared.state();
        state.calls.iter().filter(|call| call.ended.is_none() && !is_for_notes(&call.body)).count()
    }

    /// Returns the messages of all refusals (400, 401, 404), in order: empty if every request was well-formed.
    pub fn refusals(&self) -> Vec<String> {
        self.shared.state().refusals.clone()
    }

    /// Returns the number of requests longer than [`ModelApi::limit_context`] allows.
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

    /// Returns once `count` requests for notes have arrived. Panics like [`ModelApi::wait_for`].
    pub async fn wait_for_notes(&self, count: usize) {
        let mut noted = self.shared.noted.subscribe();
        let enough = tokio::time::timeout(PATIENCE, noted.wait_for(|noted| *noted >= count)).await;
        let came = self.requests_for_notes().len();
        assert!(enough.is_ok(), "{came} of {count} requests for notes came in {PATIENCE:?}");
    }

    /// Returns, for each key that `key` returns for a request's body, the maximum number of concurrent requests with
    /// that key: `max_concurrent_by(last_user_line)`. A request runs until it is answered or its caller disconnects.
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
