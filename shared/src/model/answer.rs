//! What a model answers: [`Answer`], and [`Delta`], what comes of it while it comes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ModelError, ToolCall};

/// What a model said.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The text; empty only where there are calls.
    pub text: String,
    /// What it wants called before it goes on.
    pub calls: Vec<ToolCall>,
    /// What it thought, where the provider shows it.
    pub reasoning: Option<Reasoning>,
    /// Why it stopped.
    pub finish: Finish,
    /// What it took, where the provider says so.
    pub usage: Option<Usage>,
}

/// What a model thought. Some want it back with the results of the calls that it led to: Kimi and DeepSeek the text,
/// Anthropic its own signed blocks, unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reasoning {
    /// In words; empty where the provider keeps them to itself.
    pub text: String,
    /// The provider's own blocks, in order. Nobody else understands them.
    pub(super) blocks: Vec<Value>,
    /// Whose they are: [`super::ModelChoice`] as text.
    pub(super) by: String,
}

impl From<&str> for Reasoning {
    fn from(text: &str) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// It had said everything.
    Stop,
    /// It reached the limit of the request or of its window: the text is cut off.
    Length,
    /// Something was held back, the rest or all of it.
    ContentFilter,
    /// It wants tools called.
    ToolCalls,
    /// Anything else, and where the provider does not say.
    Other,
}

/// Tokens, as the provider counts them and as we did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Tokens read, those from a cache among them.
    pub input_tokens: u32,
    /// Tokens written.
    pub output_tokens: u32,
    /// Those of the tokens read that came from the provider's cache, where it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_input_tokens: Option<u32>,
    /// What we took the tokens read to be, uncorrected; for [`crate::tokens::correction`].
    pub estimated_input_tokens: u32,
}

impl Usage {
    /// Both together: what two requests took. What was read and what it was taken to be stay figures of the same
    /// requests, so that a correction from the sum is one from its parts.
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

/// A piece of an answer that comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delta<'a> {
    /// The text goes on.
    Text(&'a str),
    /// What it thinks goes on.
    Reasoning(&'a str),
    /// A call, now that all of its arguments are there.
    Call(&'a ToolCall),
    /// The answer broke off: what came of it is void.
    Void,
}

/// Where the pieces of an answer go while it comes. They make up the [`Answer`], which is what is stored. It is called
/// between two reads from the network: it must not block, and cannot fail.
pub type Sink<'a> = &'a (dyn Fn(Delta<'_>) + Send + Sync);

/// For whoever waits for the whole.
pub const NO_SINK: Sink<'static> = &|_| {};

/// Counts of tokens, as a provider gives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Those from a cache among them.
    pub(super) input: u32,
    pub(super) output: u32,
    pub(super) cached: Option<u32>,
}

/// An answer that comes.
pub(super) struct Coming<'a> {
    sink: Sink<'a>,
    by: String,
    text: String,
    reasoning: String,
    /// The provider's own blocks of thought.
    pub(super) blocks: Vec<Value>,
    calls: Vec<OpenCall>,
    /// Why it stopped. From then on the answer is whole, and only figures may follow.
    pub(super) finish: Option<Finish>,
    /// Whether nothing follows.
    pub(super) is_over: bool,
    pub(super) counts: Option<Counts>,
}

/// A call whose arguments come.
struct OpenCall {
    /// The provider's number of it.
    number: u64,
    call: ToolCall,
    arguments: String,
    is_told: bool,
}

impl<'a> Coming<'a> {
    /// Nothing so far, of the model named `by`.
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
            counts: None,
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

    /// More of the last call of this number: its id and name where they come, and of its arguments. Another id with a name
    /// starts another call: Ollama, gateways to Gemini and some parsers of vLLM give all calls of an answer one number. An
    /// id alone does not, since others make a new one for each piece.
    pub(super) fn call(&mut self, number: u64, id: Option<&str>, name: Option<&str>, arguments: &str) {
        let (id, name) = (id.unwrap_or_default(), name.unwrap_or_default());
        let is_new = |open: &OpenCall| {
            let is_told_apart = ![id, name, &open.call.id].contains(&"");
            is_told_apart && open.call.id != id
        };
        let last = self.calls.iter().rposition(|open| open.number == number);
        let at = last.filter(|at| !is_new(&self.calls[*at])).unwrap_or_else(|| {
            let call = ToolCall { id: String::new(), name: String::new(), input: Value::Null };
            self.calls.push(OpenCall { number, call, arguments: String::new(), is_told: false });
            self.calls.len() - 1
        });
        let open = &mut self.calls[at];
        if open.call.id.is_empty() {
            id.clone_into(&mut open.call.id);
        }
        if !name.is_empty() {
            name.clone_into(&mut open.call.name);
        }
        open.arguments.push_str(arguments);
    }

    /// The number of the next call, where a provider gives none.
    pub(super) fn next_call(&self) -> u64 {
        self.calls.last().map_or(0, |last| last.number + 1)
    }

    /// The number of the call that is coming.
    pub(super) fn last_call(&self) -> Option<u64> {
        self.calls.last().map(|last| last.number)
    }

    /// All calls so far are complete.
    pub(super) fn close_calls(&mut self) {
        for (at, open) in self.calls.iter_mut().enumerate().filter(|(_, open)| !open.is_told) {
            if open.call.id.is_empty() {
                open.call.id = format!("call_{at}");
            }
            open.call.input = input_of(std::mem::take(&mut open.arguments));
            open.is_told = true;
            (self.sink)(Delta::Call(&open.call));
        }
    }

    /// Whether nothing has come.
    pub(super) fn is_nothing(&self) -> bool {
        self.text.is_empty() && self.reasoning.is_empty() && self.calls.is_empty()
    }

    /// It broke off.
    pub(super) fn void(&self) {
        if !self.is_nothing() {
            (self.sink)(Delta::Void);
        }
    }

    /// The whole, of a request that was taken to be `estimate` tokens.
    pub(super) fn into_answer(mut self, estimate: u32) -> Result<Answer, ModelError> {
        self.close_calls();
        let text = if self.text.trim().is_empty() { String::new() } else { self.text };
        let calls: Vec<ToolCall> = self.calls.into_iter().map(|open| open.call).collect();
        if text.is_empty() && calls.is_empty() {
            return Err(ModelError::Empty);
        }
        let is_thought = !(self.reasoning.is_empty() && self.blocks.is_empty());
        let reasoning = Reasoning { text: self.reasoning, blocks: self.blocks, by: self.by };
        Ok(Answer {
            text,
            // Some servers say `stop` all the same.
            finish: if calls.is_empty() { self.finish.unwrap_or(Finish::Other) } else { Finish::ToolCalls },
            calls,
            reasoning: is_thought.then_some(reasoning),
            usage: self.counts.map(|counts| Usage {
                input_tokens: counts.input,
                output_tokens: counts.output,
                cached_input_tokens: counts.cached,
                estimated_input_tokens: estimate,
            }),
        })
    }
}

/// Arguments as they came: none are an empty object, and what is no JSON stays as it is, for the tool to refuse.
fn input_of(arguments: String) -> Value {
    if arguments.trim().is_empty() {
        return Value::Object(Map::new());
    }
    serde_json::from_str(&arguments).unwrap_or(Value::String(arguments))
}
