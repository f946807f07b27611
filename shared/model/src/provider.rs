//! The interface that each provider's API implements: [`Provider`]. `docs/adding-a-provider.md` has what a
//! new one takes. An implementation is pure: no client, no clock, no retries.
//!
//! - **Request.** A [`Conversation`] has system part, turns of blocks, tools and limits, as the strictest provider wants them.
//!   `must_answer` means that no call is possible: no tools, `tool_choice: none`, or calls in words. A request starts with the
//!   same bytes from turn to turn (tools, prompt, messages), so that caches hold. A step has its thoughts first, then its text,
//!   then its calls: an API that wants the order in which they came needs a mark for each in `blocks`. Storing conversations and
//!   strict schemas are switched off. An API that cuts a long request without an error must be told the window: a new field of
//!   `ModelSettings`, which `AgentConfig::from_env` sets for all models, and of [`Endpoint`].
//! - **Answer.** It always streams, in a form that [`Frames`](super::frames::Frames) knows by its media type; a third one is a
//!   variant there. A frame adds to a [`PartialAnswer`]: text, thoughts, calls by number, `blocks` (what must go back with them,
//!   such as signatures), `usage`, and `finish`, after which only `usage` may follow, or be lost. `is_over` ends the reading at
//!   once: it is set only at the stream's own end; a stream without such a mark ends with its body.
//! - **Failure.** An error before the answer is recognised by its status and text, only in `failure.rs`; one within it by
//!   [`Provider::error_in`], then by its `type` or `code`. A stream with neither `finish` nor `is_over` broke off, and nothing of
//!   it is kept. For a stop reason that means an error, set neither, or return its frame in `error_in`.
//! - **Thoughts.** They go back within their run, and to no other provider: signed ones unchanged, others as text, if the API
//!   takes that. Signatures are not stored: a reply that continues after an approval, or that the fallback takes over, has the
//!   text or nothing. The stand-in for a missing signature may depend on the model's name.
//! - **Time limits** are those of `hosted.rs`, the same for all.
//!
//! *Invariant:* nothing of a body is in an error or a log.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde_json::Value;

use super::answer::PartialAnswer;
use super::conversation::Conversation;
use super::frames::Frame;

/// The API of one provider: its requests, and its answers.
pub(super) trait Provider: fmt::Debug + Send + Sync {
    /// Returns the name in `MODEL`: `openai` in `openai:<model>`.
    fn name(&self) -> &'static str;

    /// Returns the name in spans: `gen_ai.provider.name` of OpenTelemetry's conventions.
    fn trace_name(&self) -> &'static str {
        self.name()
    }

    /// Returns the address without a slash at its end, if `MODEL_BASE_URL` is not set. `None` if the address depends on the
    /// AWS region and that is unknown. It ends before the version if the paths of answers and of the list of models differ in
    /// theirs.
    fn base_url(&self, region: Option<&str>) -> Option<String>;

    /// Returns true if requests without `MODEL_API_KEY` are signed with the process's own role in AWS. Others need the key,
    /// except for private servers.
    fn may_use_aws(&self) -> bool {
        false
    }

    /// Returns the headers that authorize a request with `key`. Private servers often need no key, and ignore the header.
    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        vec![("authorization", format!("Bearer {}", key.unwrap_or("none")))]
    }

    /// Returns the URL of the provider's list of models, which `doctor` asks.
    fn models_url(&self, base_url: &str) -> String {
        format!("{base_url}/models")
    }

    /// Returns the ids in a list of models.
    fn listed_models<'a>(&self, answer: &'a Value) -> Vec<&'a str> {
        answer["data"].as_array().into_iter().flatten().filter_map(|model| model["id"].as_str()).collect()
    }

    /// Returns true if requests say what the provider caches, unless `MODEL_PROMPT_CACHE` says otherwise.
    fn marks_cache(&self) -> bool {
        false
    }

    /// Returns the URL and the body of a request.
    fn request(&self, endpoint: &Endpoint<'_>, conversation: &Conversation<'_>) -> (String, Value);

    /// Returns true if an endpoint refuses a request because of its optional part, so that it is sent again without that.
    fn refuses_option(&self, _status: u16, _body: &str) -> bool {
        false
    }

    /// Returns the body of an error that came instead of an answer, or after a part of it.
    fn error_in<'a>(&self, frame: &'a Frame) -> Option<&'a Value> {
        frame.error()
    }

    /// Adds one frame of a stream to the answer.
    fn read_frame(&self, frame: &Frame, answer: &mut PartialAnswer<'_>);

    /// Reads an answer in one piece, from a server that does not stream: like a frame of a stream, if it has that form.
    fn read_whole(&self, body: &Frame, answer: &mut PartialAnswer<'_>) {
        self.read_frame(body, answer);
    }
}

/// The addressee of a request.
pub(super) struct Endpoint<'a> {
    /// Address without a slash at its end.
    pub(super) base_url: &'a str,
    /// The provider's name of the model.
    pub(super) model: &'a str,
    /// True if the request says what the provider caches.
    pub(super) marks_cache: bool,
    /// True if the request has its optional part, which the endpoint has not refused yet. It is one flag: of several such
    /// parts, choose the one that an endpoint is most likely to refuse.
    pub(super) with_option: bool,
}

impl Endpoint<'_> {
    /// Returns the model's name, escaped for a path, such as the slashes of an ARN.
    pub(super) fn model_in_path(&self) -> PercentEncode<'_> {
        const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
        utf8_percent_encode(self.model, ESCAPED)
    }
}
