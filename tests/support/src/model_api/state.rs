//! The emulator's state, and the faults that it has been told to make.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::Value;
use tokio::sync::watch;

use super::answers::Mishap;
use super::api::Api;
use super::body::{images_of, is_for_notes, messages_of, prompt_tokens};
use super::cache::{Cache, Cached};
use super::completion::Said;
use super::openai::Numbering;
use super::refusal::{Refusal, bad};

/// The most images of a request, as Bedrock has it.
const MAX_IMAGES: usize = 20;

#[derive(Default)]
pub(super) struct Shared {
    pub(super) state: Mutex<Stored>,
    pub(super) hangs: watch::Sender<Hangs>,
    /// Number of requests for answers, and for notes.
    pub(super) arrived: watch::Sender<usize>,
    pub(super) noted: watch::Sender<usize>,
}

/// The requests that hang for now.
#[derive(Clone, Copy, Default)]
pub(super) struct Hangs {
    pub(super) notes: bool,
    pub(super) answers: bool,
}

pub(super) type AnswerBy = Arc<dyn Fn(&Value) -> Option<String> + Send + Sync>;

/// The emulator's state.
#[derive(Default)]
pub struct Stored {
    pub(super) answer: Option<String>,
    pub(super) answer_by: Option<AnswerBy>,
    pub(super) calls_to_come: Vec<Vec<(String, Value)>>,
    pub(super) finish: Option<&'static str>,
    pub(super) context_limit: Option<u64>,
    /// The words that its content filter refuses.
    pub(super) filtered: Option<&'static str>,
    /// Number of requests refused for their images (400), like a model without vision, apart from
    /// `refusals`; `None` refuses none.
    pub images_refused: Option<usize>,
    /// Reports that a request took this many times the tokens that `context_limit` counts; 1 if `None`.
    pub usage_factor: Option<f64>,
    pub(super) too_long: usize,
    pub(super) failures: Vec<(usize, StatusCode)>,
    /// Behind how many requests, how many times.
    pub(super) later_failures: Vec<(usize, usize, StatusCode)>,
    /// Answers every request that contains tool results with this error status.
    pub failing_with_results: Option<u16>,
    pub(super) delay: Duration,
    /// Accepts any key or none, like servers on a laptop.
    pub any_key: bool,
    /// Never streams an answer, like servers that cannot stream.
    pub never_streams: bool,
    /// Refuses `stream_options`, like servers that do not know it; as Bedrock, refuses streaming altogether.
    pub refuses_option: bool,
    pub(super) mishaps: Vec<(usize, Mishap)>,
    /// Distinguishes the calls in streamed answers of OpenAI's form like this.
    pub numbering: Numbering,
    pub(super) thought: Option<String>,
    /// The thoughts that were signed, with their signatures.
    pub(super) signed: Vec<(String, String)>,
    pub(super) cache: Cache,
    pub(super) calls: Vec<Call>,
    pub(super) refusals: Vec<String>,
    /// Starts and ends so far.
    pub(super) moments: u64,
}

pub(super) struct Call {
    pub(super) api: &'static dyn Api,
    pub(super) body: Value,
    pub(super) raw: Value,
    pub(super) path: String,
    pub(super) cached: Cached,
    pub(super) started: u64,
    pub(super) ended: Option<u64>,
}

/// A request that is well-formed.
pub(super) struct Asked {
    /// In its OpenAI form.
    pub(super) body: Value,
    pub(super) raw: Value,
    pub(super) path: String,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, Stored> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stored {
    fn moment(&mut self) -> u64 {
        self.moments += 1;
        self.moments
    }

    /// Returns true if this thought has been signed with this signature.
    pub(super) fn has_signed(&self, thought: &str, signature: &str) -> bool {
        self.signed.iter().any(|(own, of_it)| own == thought && of_it == signature)
    }

    /// Returns the refusal of a well-formed request, if a test wants one.
    pub(super) fn refuse(&mut self, api: &dyn Api, body: &Value) -> Option<Refusal> {
        let has_results = || messages_of(body).iter().any(|message| message["role"] == "tool");
        let with_results = self.failing_with_results.filter(|_| has_results());
        let with_results = with_results.and_then(|status| StatusCode::from_u16(status).ok());
        if let Some(status) = with_results.or_else(|| self.next_failure()) {
            return Some(Refusal::injected(status));
        }
        if self.filtered.is_some_and(|words| body.to_string().contains(words)) {
            return Some(bad("Content Exists Risk"));
        }
        if images_of(body).len() > MAX_IMAGES {
            return Some(bad("Too many images in the request."));
        }
        if let Some(refused) = self.images_refused.as_mut().filter(|_| !images_of(body).is_empty()) {
            *refused += 1;
            return Some(bad(api.facts().no_images));
        }
        let limit = self.context_limit?;
        let tokens = prompt_tokens(body);
        (tokens > limit).then(|| {
            self.too_long += 1;
            Refusal::bad("messages", api.too_long(limit, tokens)).with_code("context_length_exceeded")
        })
    }

    /// The first calls to come whose tools the request offers.
    pub(super) fn next_calls(&mut self, body: &Value) -> Option<Said> {
        let tools = body["tools"].as_array()?;
        let offers = |name: &str| tools.iter().any(|tool| tool["function"]["name"] == name);
        let at = self.calls_to_come.iter().position(|calls| calls.iter().all(|(name, _)| offers(name)))?;
        Some(Said::Calls(self.calls_to_come.remove(at)))
    }

    pub(super) fn next_mishap(&mut self) -> Option<Mishap> {
        self.mishaps.retain(|(times, _)| *times > 0);
        let (times, mishap) = self.mishaps.first_mut()?;
        *times -= 1;
        Some(*mishap)
    }

    fn next_failure(&mut self) -> Option<StatusCode> {
        let came = self.calls.iter().filter(|call| !is_for_notes(&call.body)).count();
        let is_due = |(behind, _, _): &(usize, usize, StatusCode)| *behind <= came;
        let due: Vec<_> = self.later_failures.iter().copied().filter(is_due).collect();
        self.later_failures.retain(|later| !is_due(later));
        self.failures.extend(due.into_iter().map(|(_, times, status)| (times, status)));
        self.failures.retain(|(times, _)| *times > 0);
        let (times, status) = self.failures.first_mut()?;
        *times -= 1;
        Some(*status)
    }
}

/// A call until it is answered, or dropped because its caller hung up.
pub(super) struct Running {
    pub(super) shared: Arc<Shared>,
    pub(super) at: usize,
}

impl Running {
    pub(super) fn start(shared: &Arc<Shared>, api: &'static dyn Api, asked: &Asked) -> Self {
        let (at, noted) = {
            let mut state = shared.state();
            let started = state.moment();
            let cached = state.cache.read(api, &asked.raw);
            let (body, raw, path) = (asked.body.clone(), asked.raw.clone(), asked.path.clone());
            state.calls.push(Call { api, body, raw, path, cached, started, ended: None });
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
