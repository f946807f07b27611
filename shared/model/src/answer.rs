//! The answer of a model: [`Answer`], and its pieces while it comes, [`Delta`].

use annals_core::message::ToolCall;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::ModelError;

#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The text; empty only where there are calls.
    pub text: String,
    /// The calls that it needs before it continues.
    pub calls: Vec<ToolCall>,
    /// Its thoughts, if the provider shows them.
    pub reasoning: Option<Reasoning>,
    pub finish: Finish,
    /// The tokens that it took, if the provider says so.
    pub usage: Option<Usage>,
}

/// The thoughts of a model. Some providers need them back with the results of the calls that follow: Kimi and DeepSeek the
/// text, Anthropic its own signed blocks, unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reasoning {
    /// The text; empty if the provider hides it.
    pub text: String,
    /// The provider's own blocks, in order. No other provider understands them.
    pub(super) blocks: Vec<Value>,
    /// The model: [`super::ModelChoice`] as text.
    pub(super) by: String,
}

impl From<&str> for Reasoning {
    fn from(text: &str) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// The reason why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The answer was complete.
    Stop,
    /// It reached the limit of the request or of its window: the text is cut off.
    Length,
    /// A filter removed the rest of the text, or all of it.
    ContentFilter,
    ToolCalls,
    /// Another reason, or none that the provider says.
    Other,
}

/// Tokens as the provider counts them, and our estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Tokens read, including those from a cache.
    pub input_tokens: u32,
    /// Tokens written, including thoughts.
    pub output_tokens: u32,
    /// Tokens read from the provider's cache, if it says so; `Some(0)` also if its API leaves out a 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_input_tokens: Option<u32>,
    /// Our uncorrected estimate of the tokens read, for [`annals_core::tokens::correction`].
    pub estimated_input_tokens: u32,
}

impl Usage {
    /// Returns the sum for two requests. Count and estimate are of the same requests, so a correction from the sum equals one
    /// from its parts.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let cached = [self.cached_input_tokens, other.cached_input_tokens];
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cached_input_tokens: cached.into_iter().flatten().reduce(u32::saturating_add),
            estimated_input_tokens: self.estimated_input_tokens.saturating_add(other.estimated_input_tokens),
        }
    }
}

/// A piece of an answer while it comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delta<'a> {
    Text(&'a str),
    Reasoning(&'a str),
    /// The answer broke off: all earlier pieces are void.
    Void,
}

/// Receives the pieces of an answer while it comes, except its calls, which come with the [`Answer`]. It is called between
/// two reads from the network: it must not block, and cannot fail.
pub type Sink<'a> = &'a (dyn Fn(Delta<'_>) + Send + Sync);

/// A sink for callers that need only the whole answer.
pub const NO_SINK: Sink<'static> = &|_| {};

/// Reads a count of tokens. A number such as `17.0` is none, so that the answer has no usage, which `LIMITS` never counts.
pub(super) fn tokens(count: &Value) -> Option<u32> {
    count.as_u64().and_then(|tokens| u32::try_from(tokens).ok())
}

/// An answer while it comes.
pub(super) struct PartialAnswer<'a> {
    sink: Sink<'a>,
    by: String,
    text: String,
    reasoning: String,
    /// The provider's own blocks of thought.
    pub(super) blocks: Vec<Value>,
    calls: Vec<OpenCall>,
    /// The reason why it stopped. From then on the answer is complete, and only usage may follow.
    pub(super) finish: Option<Finish>,
    /// True if nothing follows.
    pub(super) is_over: bool,
    /// The provider's counts; those of a later frame replace them.
    pub(super) usage: Option<Usage>,
}

/// A call while its arguments come.
#[derive(Default)]
struct OpenCall {
    /// The provider's number of it.
    number: u64,
    id: String,
    name: String,
    arguments: String,
}

impl OpenCall {
    /// Returns the whole call, which is the one at `at` of its answer. Gives it an id if it has none.
    fn close(self, at: usize) -> ToolCall {
        let id = if self.id.is_empty() { format!("call_{at}") } else { self.id };
        ToolCall { id, name: self.name, input: input_of(self.arguments) }
    }
}

impl<'a> PartialAnswer<'a> {
    /// Returns an empty answer of the model named `by`.
    pub(super) fn new(sink: Sink<'a>, by: String) -> Self {
        Self {
            sink,
            by,
            text: String::new(),
            reasoning: String::new(),
            blocks: Vec::new(),
            calls: Vec::new(),
            finish: None,
            is_over: false,
            usage: None,
        }
    }

    pub(super) fn text(&mut self, delta: &str) {
        if !delta.is_empty() {
            self.text.push_str(delta);
            (self.sink)(Delta::Text(delta));
        }
    }

    pub(super) fn reasoning(&mut self, delta: &str) {
        if !delta.is_empty() {
            self.reasoning.push_str(delta);
            (self.sink)(Delta::Reasoning(delta));
        }
    }

    /// Adds to the last call of this number: its id and name, if they come, and more of its arguments. Another id with a name
    /// starts another call: Ollama, gateways to Gemini and some parsers of vLLM give all calls of an answer one number. An
    /// id alone does not, since others make a new one for each piece.
    pub(super) fn call(&mut self, number: u64, id: Option<&str>, name: Option<&str>, arguments: &str) {
        let (id, name) = (id.unwrap_or_default(), name.unwrap_or_default());
        let is_new = |open: &OpenCall| {
            let is_told_apart = ![id, name, &open.id].contains(&"");
            is_told_apart && open.id != id
        };
        let last = self.calls.iter().rposition(|open| open.number == number);
        let at = last.filter(|at| !is_new(&self.calls[*at])).unwrap_or_else(|| {
            self.calls.push(OpenCall { number, ..OpenCall::default() });
            self.calls.len() - 1
        });
        let open = &mut self.calls[at];
        if open.id.is_empty() {
            id.clone_into(&mut open.id);
        }
        if !name.is_empty() {
            name.clone_into(&mut open.name);
        }
        open.arguments.push_str(arguments);
    }

    /// Returns the number of the next call, for providers that give none.
    pub(super) fn next_call(&self) -> u64 {
        self.calls.last().map_or(0, |last| last.number.saturating_add(1))
    }

    /// Returns the number of the last call.
    pub(super) fn last_call(&self) -> Option<u64> {
        self.calls.last().map(|last| last.number)
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.text.is_empty() && self.reasoning.is_empty() && self.calls.is_empty()
    }

    /// Tells the sink that the answer broke off.
    pub(super) fn void(&self) {
        if !self.is_nothing() {
            (self.sink)(Delta::Void);
        }
    }

    /// Returns the whole answer, of a request estimated at `estimate` tokens.
    pub(super) fn into_answer(self, estimate: u32) -> Result<Answer, ModelError> {
        if self.text.trim().is_empty() && self.calls.is_empty() {
            self.void();
            return Err(match self.finish {
                Some(Finish::ContentFilter) => ModelError::Filtered,
                Some(Finish::Length) => ModelError::Exhausted,
                _ => ModelError::Empty,
            });
        }
        let text = if self.text.trim().is_empty() { String::new() } else { self.text };
        let calls = self.calls.into_iter().enumerate();
        let calls: Vec<ToolCall> = calls.map(|(at, open)| open.close(at)).collect();
        let is_thought = !(self.reasoning.is_empty() && self.blocks.is_empty());
        let reasoning = Reasoning { text: self.reasoning, blocks: self.blocks, by: self.by };
        Ok(Answer {
            text,
            // Some servers say `stop` even then.
            finish: if calls.is_empty() { self.finish.unwrap_or(Finish::Other) } else { Finish::ToolCalls },
            calls,
            reasoning: is_thought.then_some(reasoning),
            usage: self.usage.map(|usage| Usage { estimated_input_tokens: estimate, ..usage }),
        })
    }
}

/// Parses arguments: no text is an empty object, and invalid JSON stays a string, which the tool refuses.
fn input_of(arguments: String) -> Value {
    if arguments.trim().is_empty() {
        return Value::Object(Map::new());
    }
    serde_json::from_str(&arguments).unwrap_or(Value::String(arguments))
}
