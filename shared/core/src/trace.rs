//! The trace of a turn: the steps that were taken for its reply, and the number of requests to the model. Stored with the
//! reply. It contains names and numbers only, nothing of a message.
//!
//! ```json
//! {"start": 1763765920512, "requests": 1, "prompt": {"at": 135, "tokens": 98000, "digest": "9f86d081884c7d65",
//!   "given": {"system": "2c26b46b68ffc68f", "memory": "fcde2b2edba56bf4", "tools": ["memory_save"]}},
//!  "spans": [{"step": "queue", "at": 0, "ms": 120}, {"step": "read", "at": 120, "ms": 15},
//!            {"step": "request", "at": 140, "ms": 2300, "name": "openai:gpt-4.1-mini", "firstTokenMs": 600,
//!             "inputTokens": 1200, "outputTokens": 80}]}
//! ```

use ring::digest;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::message::UiMessage;
use crate::sort_key::{SortKey, Timestamp};

/// Maximum number of spans of one trace. More are only counted.
const MAX_SPANS: usize = 200;
/// Maximum number of spans of a delivery, which the head holds.
const MAX_DELIVERY_SPANS: usize = 10;
/// Maximum bytes of the names of tools in a trace, which is stored in a head, too.
const MAX_TOOL_BYTES: usize = 256;
/// Maximum bytes of a span's name.
const MAX_NAME_BYTES: usize = 64;

/// A step of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Step {
    /// The time in the queue, before an attempt.
    Queue,
    /// An attempt that ended with its process.
    Lost,
    /// The records were read.
    Read,
    /// The memory and the lists of tools were read.
    Prepare,
    /// A summary was made.
    Compact,
    /// Facts of an ended session were captured to memory.
    Remember,
    /// One request to a model.
    Request,
    /// A pause: before another request, or for more messages of a burst.
    Pause,
    /// A call of a tool.
    Tool,
    /// One piece of the reply was sent.
    Piece,
}

/// One step, and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// The step.
    pub step: Step,
    /// Beginning, in milliseconds after the start of the turn.
    pub at: u32,
    /// Duration, in milliseconds.
    pub ms: u32,
    /// The model of a request, or the tool of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Time of a request to the first token of the answer, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token_ms: Option<u32>,
    /// Tokens that the model read, as its provider counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u32>,
    /// Tokens that the model wrote, as its provider counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u32>,
    /// The kind of failure, such as `busy 429`; absent if the step succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Span {
    /// Creates a span that begins `at` milliseconds after the start and has no duration yet.
    pub fn new(step: Step, at: u32) -> Self {
        Self {
            step,
            at,
            ms: 0,
            name: None,
            first_token_ms: None,
            input_tokens: None,
            output_tokens: None,
            error: None,
        }
    }

    /// Sets [`Span::name`], which is cut to 64 bytes.
    pub fn set_name(&mut self, name: &str) {
        self.name = Some(name[..name.floor_char_boundary(MAX_NAME_BYTES)].to_owned());
    }
}

/// The values by which the prompt of a turn is made again from its records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptId {
    /// Time of the context, in milliseconds after the start of the turn.
    pub at: u32,
    /// The context's token budget.
    pub tokens: u32,
    /// See [`digest_of`].
    pub digest: String,
    /// The rest of the prompt; absent in traces of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<Given>,
}

/// The parts of a prompt beside its messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// [`digest_of_text`] of the system prompt.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub system: String,
    /// [`digest_of_text`] of the recalled memory, with notes that follow it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub memory: String,
    /// Names of the first tools, 256 bytes of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_tools: u32,
}

impl Given {
    /// Returns what a prompt with this system prompt, this memory and `tools` was given.
    pub fn new<'a>(system: Option<&str>, memory: Option<&str>, tools: impl Iterator<Item = &'a str>) -> Self {
        let mut given =
            Self { system: digest_of_text(system), memory: digest_of_text(memory), ..Self::default() };
        let mut bytes = 0;
        for name in tools {
            bytes += name.len();
            if bytes <= MAX_TOOL_BYTES {
                given.tools.push(name.to_owned());
            } else {
                given.more_tools += 1;
            }
        }
        given
    }
}

/// The trace of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// Start of the turn: the time at which the first message that it answers was stored.
    pub start: Timestamp,
    /// Number of requests to models so far, summaries included.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub requests: u32,
    /// The prompt, if a model was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptId>,
    /// The steps of one attempt after the other, in order of their beginning.
    pub spans: Vec<Span>,
    /// Number of steps that are not in `spans`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u32,
    /// The delivery of the chat's reply before, which was stored before it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Box<Delivery>>,
}

/// The steps of a reply that follow its put: those of its delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The place of the reply; a later form has its first form's.
    pub reply: SortKey,
    pub trace: Trace,
}

impl Delivery {
    /// Returns the delivery of `reply` with the steps of `trace`; `None` if there are none.
    pub fn new(reply: SortKey, mut trace: Trace) -> Option<Self> {
        trace.drop_after(MAX_DELIVERY_SPANS);
        (!trace.spans.is_empty()).then_some(Self { reply, trace: Trace { requests: 0, ..trace } })
    }
}

impl Trace {
    pub fn new(start: Timestamp) -> Self {
        Self { start, requests: 0, prompt: None, spans: Vec::new(), dropped: 0, before: None }
    }

    /// Returns the milliseconds from the start to `at`.
    pub fn millis(&self, at: Timestamp) -> u32 {
        u32::try_from(at.since(self.start).as_millis()).unwrap_or(u32::MAX)
    }

    /// Adds `span`. What is too much is only counted.
    pub fn add(&mut self, span: Span) {
        if self.spans.len() < MAX_SPANS {
            self.spans.push(span);
        } else {
            self.dropped += 1;
        }
    }

    /// Moves the start back to `start`, if that is earlier. No span changes its time.
    pub fn start_at(&mut self, start: Timestamp) {
        let earlier = u32::try_from(self.start.since(start).as_millis()).unwrap_or(u32::MAX);
        if start < self.start {
            let moved = self.spans.iter_mut().map(|span| &mut span.at);
            for at in moved.chain(self.prompt.iter_mut().map(|prompt| &mut prompt.at)) {
                *at = at.saturating_add(earlier);
            }
            self.start = start;
        }
    }

    /// Returns the spans with times after `start`, which is not later than the own start.
    pub fn spans_after(&self, start: Timestamp) -> Vec<Span> {
        let mut moved = self.clone();
        moved.start_at(start);
        moved.spans
    }

    /// Drops a quarter of the spans, the last ones, and counts them.
    pub fn shorten(&mut self) {
        self.drop_after(self.spans.len() * 3 / 4);
    }

    fn drop_after(&mut self, kept: usize) {
        let dropped = self.spans.len().saturating_sub(kept);
        self.dropped = self.dropped.saturating_add(u32::try_from(dropped).unwrap_or(u32::MAX));
        self.spans.truncate(kept);
    }
}

/// Returns a digest of `messages`: the first 8 bytes of SHA-256 over their ids, authors and parts, in hex.
pub fn digest_of(messages: &[UiMessage]) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    for message in messages {
        context.update(serde_json::json!([message.id, message.role, message.parts]).to_string().as_bytes());
    }
    hex::encode(&context.finish().as_ref()[..8])
}

/// Returns a digest of `text`: the first 8 bytes of SHA-256, in hex; empty if there is none.
pub fn digest_of_text(text: Option<&str>) -> String {
    let digest = |text: &str| hex::encode(&digest::digest(&digest::SHA256, text.as_bytes()).as_ref()[..8]);
    text.map(digest).unwrap_or_default()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes by reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_moves_back_only_and_no_span_with_it() {
        let at = |ms: i64| Timestamp::from_millis(1_000 + ms).unwrap();
        let mut second = Trace::new(at(500));
        second.add(Span::new(Step::Read, 20));
        second.start_at(at(600));
        assert_eq!((second.start, second.spans[0].at), (at(500), 20), "a later start moves nothing");
        assert_eq!(second.spans_after(at(100))[0].at, 420);
        second.start_at(at(100));
        assert_eq!((second.start, second.spans[0].at), (at(100), 420));
    }

    #[test]
    fn what_is_too_much_is_counted() {
        let mut trace = Trace::new(Timestamp::MIN);
        (0..201).for_each(|at| trace.add(Span::new(Step::Tool, at)));
        trace.shorten();
        assert_eq!((trace.spans.len(), trace.dropped), (150, 51));
        let mut span = Span::new(Step::Tool, 0);
        span.set_name(&"é".repeat(40));
        assert_eq!(span.name.unwrap().len(), 64);
        let names: Vec<String> = (0..30).map(|n| format!("server_tool_{n:04}")).collect();
        let given = Given::new(None, Some("x"), names.iter().map(String::as_str));
        assert_eq!((given.tools.len(), given.more_tools), (16, 14));
        assert_eq!((given.system.len(), given.memory.len()), (0, 16));
    }
}
