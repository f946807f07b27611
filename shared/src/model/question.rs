//! What a model is asked: [`Question`], a step of a turn, and [`Prompt`], a request beside the conversation.

use serde_json::Value;

use super::answer::{Answer, Reasoning};
use crate::markup::{self, Sender};
use crate::media::IMAGE_TOKENS;
use crate::message::UiMessage;
use crate::tokens;

/// Tokens that the instructions of a request beside the conversation take, and some room.
const INSTRUCTION_TOKENS: u32 = 600;

/// A question: instructions and a context, the unanswered last, and what tools have brought to light since.
#[derive(Clone, Copy, Debug, Default)]
pub struct Question<'a> {
    /// `SYSTEM_PROMPT`, verbatim.
    pub system: Option<&'a str>,
    /// What the model sees.
    pub messages: &'a [UiMessage],
    /// How many of them, at the end, are unanswered.
    pub unanswered: usize,
    /// What memory says that fits the unanswered. It is another text in each turn, so it stands directly before them,
    /// behind all that the next turn sends again.
    pub notes: Option<&'a str>,
    /// What of the messages can be shown and not only named.
    pub images: &'a [ImageAt],
    /// Who each of the messages is from, where several people speak, so that the model must be told; else empty.
    pub senders: &'a [Option<Sender>],
    /// What the model may call, in the same order in each turn; where there is nothing, no tools are mentioned.
    pub tools: &'a [Tool],
    /// Whether it is to answer now, whatever it would like to call.
    pub must_answer: bool,
    /// What it has called in this turn so far, in order.
    pub steps: &'a [Step],
}

/// An image in place of the file part that stands for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageAt {
    /// The place of the message in [`Question::messages`].
    pub message: usize,
    /// The image. Those of one message are shown in the order in which they are given.
    pub image: Image,
}

/// An image as it is shown to a model.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    /// `image/jpeg`, `image/png`, `image/gif` or `image/webp`: what every provider takes. Any other is not shown.
    pub media_type: String,
    /// The file. What is too large for the provider makes it refuse the request: 3.75 MB is what all of them take.
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image({}, {} bytes)", self.media_type, self.bytes.len())
    }
}

impl Image {
    /// `jpeg`, `png`, `gif` or `webp`; `None` for what not every provider takes.
    pub fn format(&self) -> Option<&'static str> {
        match self.media_type.as_str() {
            "image/jpeg" | "image/jpg" => Some("jpeg"),
            "image/png" => Some("png"),
            "image/gif" => Some("gif"),
            "image/webp" => Some("webp"),
            _ => None,
        }
    }
}

/// Something that a model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Letters, digits, `_` and `-`, at most 64: what every provider takes.
    pub name: String,
    /// When and how to use it, for the model.
    pub description: String,
    /// The JSON Schema of its input, an object's.
    pub input_schema: Value,
}

/// A model's wish to have a tool called.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// Joins it to its result; the provider's.
    pub id: String,
    /// The tool; not checked, a model may name one that there is not.
    pub name: String,
    /// The arguments; not checked against the schema. A string where they are no JSON at all.
    pub input: Value,
}

/// One answer of a turn that held calls, with their results: a call is never sent without one.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// [`Answer::text`]
    pub text: String,
    /// [`Answer::reasoning`]
    pub reasoning: Option<Reasoning>,
    /// All of [`Answer::calls`], in order.
    pub done: Vec<Done>,
}

/// A call with its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// What was called.
    pub call: ToolCall,
    /// What came of it, also where it failed; a string is sent as it is, anything else as JSON.
    pub output: Value,
}

/// A request beside the conversation: for a summary, or for what is worth remembering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// What is to be done, as the system part. Never `SYSTEM_PROMPT`.
    pub instructions: String,
    /// What it is to be done with, as the user's one message.
    pub text: String,
    /// How long the answer may get. A model that reasons may use it up in thought and then says nothing.
    pub max_tokens: u32,
}

impl Prompt {
    /// How many tokens of messages one may hold beside its instructions, where a conversation may take `budget`.
    pub fn source_budget(budget: u32) -> u32 {
        budget.saturating_sub(INSTRUCTION_TOKENS).max(budget / 2)
    }

    /// The token estimate of all that is sent.
    pub(super) fn tokens(&self) -> u32 {
        let of = |text: &str| tokens::of_request(Some(text), &[]);
        of(&self.instructions).saturating_add(of(&self.text))
    }
}

impl Question<'_> {
    /// The token estimate of all that is sent, tools and steps among it.
    pub fn tokens(&self) -> u32 {
        let notes = self.notes.map(|notes| tokens::of_text(&markup::notes(notes)));
        let guide = self.has_senders().then(|| tokens::of_text(markup::GUIDE));
        let senders = self.senders.iter().flatten().map(Sender::tokens);
        let images = u32::try_from(self.images.len()).unwrap_or(u32::MAX).saturating_mul(IMAGE_TOKENS);
        let tools = self.tools.iter().map(Tool::tokens);
        let steps = self.steps.iter().map(Step::tokens);
        tools
            .chain(steps)
            .chain(notes)
            .chain(guide)
            .chain(senders)
            .chain([images])
            .fold(tokens::of_request(self.system, self.messages), u32::saturating_add)
    }

    /// Returns whether the model is told who speaks.
    pub(super) fn has_senders(&self) -> bool {
        self.senders.iter().any(Option::is_some)
    }

    /// Returns who the message at `at` is from, where the model is told.
    pub(super) fn sender(&self, at: usize) -> Option<&Sender> {
        self.senders.get(at)?.as_ref()
    }

    /// Where the unanswered start.
    pub(super) fn first_unanswered(&self) -> usize {
        self.messages.len().saturating_sub(self.unanswered.max(1))
    }
}

impl Tool {
    /// Returns the tool with what its server says of it escaped; see [`crate::markup`].
    pub(super) fn escaped(&self) -> Self {
        Self {
            name: self.name.clone(),
            description: markup::escape(&self.description).into_owned(),
            input_schema: markup::escape_json(&self.input_schema),
        }
    }

    /// The token estimate of the tool as a model is told of it.
    pub fn tokens(&self) -> u32 {
        [&self.name, &self.description]
            .into_iter()
            .map(|text| tokens::of_text(text))
            .fold(tokens::of_json(Some(&self.input_schema)), u32::saturating_add)
    }
}

impl Step {
    /// The step that `answer` made, with what came of each of its calls, in order.
    pub fn new(answer: Answer, outputs: impl IntoIterator<Item = Value>) -> Self {
        let done = answer.calls.into_iter().zip(outputs).map(|(call, output)| Done { call, output });
        Self { text: answer.text, reasoning: answer.reasoning, done: done.collect() }
    }

    /// The token estimate of the step as a model is sent it: a message of calls, and one for each result.
    pub fn tokens(&self) -> u32 {
        let said = tokens::of_request(Some(&self.text), &[]);
        let reasoning = self.reasoning.as_ref().map_or(0, |reasoning| tokens::of_text(&reasoning.text));
        let done = self.done.iter().map(|done| {
            tokens::of_text(&done.call.name)
                .saturating_add(tokens::of_json(Some(&done.call.input)))
                .saturating_add(tokens::of_request(Some(&done.sent()), &[]))
        });
        done.fold(said.saturating_add(reasoning), u32::saturating_add)
    }
}

impl Done {
    /// The token estimate of the result as it is sent.
    pub fn tokens(&self) -> u32 {
        tokens::of_text(&self.sent())
    }

    /// The result as it is sent.
    pub(super) fn sent(&self) -> String {
        match &self.output {
            Value::String(text) => text.clone(),
            output => output.to_string(),
        }
    }
}
