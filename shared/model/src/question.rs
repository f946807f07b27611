//! Requests to a model: [`Question`], a step of a turn, and [`Prompt`], a request outside the conversation.

use annals_core::markup::{self, Sender};
use annals_core::media::{IMAGE_TOKENS, Image};
use annals_core::message::{ToolCall, UiMessage};
use annals_core::time_marks::TimeMarks;
use annals_core::tokens;
use serde_json::{Value, json};

use super::answer::{Answer, Reasoning};

/// A question: instructions, a context with the unanswered messages last, and the calls since with their results.
#[derive(Clone, Copy, Debug, Default)]
pub struct Question<'a> {
    /// `SYSTEM_PROMPT`, verbatim.
    pub system: Option<&'a str>,
    pub messages: &'a [UiMessage],
    /// Number of unanswered messages, at the end of `messages`.
    pub unanswered: usize,
    /// The recalled memory for the unanswered messages. It changes from turn to turn, so it is sent directly before them,
    /// after everything that the next turn sends again.
    pub notes: Option<&'a str>,
    /// The times of the messages and the current one. The current time is sent after the unanswered messages, since it
    /// changes from turn to turn; within a turn it is the same.
    pub time_marks: Option<&'a TimeMarks>,
    /// The images in the messages that can be shown.
    pub images: &'a [ImageAt],
    /// The sender of each message, if several people speak; else empty.
    pub senders: &'a [Option<Sender>],
    /// The tools that the model may call, in the same order in each turn. If empty, the request has no tools.
    pub tools: &'a [Tool],
    /// True if the answer must be text, not calls.
    pub must_answer: bool,
    /// The calls of this turn so far, in order.
    pub steps: &'a [Step],
    /// The number of `steps` after which each unanswered message came; missing numbers are 0.
    pub came_after: &'a [usize],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageAt {
    /// Index of the message in [`Question::messages`].
    pub message: usize,
    /// The image. Those of one message are shown in the given order.
    pub image: Image,
}

/// A tool that a model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// At most 64 letters, digits, `_` and `-`, which every provider accepts.
    pub name: String,
    /// Instructions for the model on using it.
    pub description: String,
    /// The JSON Schema of its input, of type object.
    pub input_schema: Value,
}

/// One answer of a turn that held calls, with their results: a call is never sent without one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    pub text: String,
    pub reasoning: Option<Reasoning>,
    /// All of [`Answer::calls`], in order.
    pub done: Vec<Done>,
}

/// A call with its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    pub call: ToolCall,
    /// Its result, or its error; a string is sent as it is, anything else as JSON.
    pub output: Value,
}

impl Question<'_> {
    /// Returns the token estimate of the request, including tools and steps.
    pub fn tokens(&self) -> u32 {
        let notes = self.notes.map(|notes| tokens::of_text(&markup::notes(notes)));
        let time_marks = self.time_marks.map(TimeMarks::tokens);
        let guide = self.has_senders().then(|| tokens::of_text(markup::GUIDE));
        let senders = self.senders.iter().flatten().map(Sender::tokens);
        let images = u32::try_from(self.images.len()).unwrap_or(u32::MAX).saturating_mul(IMAGE_TOKENS);
        let tools = self.tools.iter().map(Tool::tokens);
        let steps = self.steps.iter().map(Step::tokens);
        tools
            .chain(steps)
            .chain(notes)
            .chain(time_marks)
            .chain(guide)
            .chain(senders)
            .chain([images])
            .fold(tokens::of_request(self.system, self.messages), u32::saturating_add)
    }

    /// Returns true if messages are sent with their senders.
    pub(super) fn has_senders(&self) -> bool {
        self.senders.iter().any(Option::is_some)
    }

    /// Returns the sender of the message at `at`, if messages are sent with their senders.
    pub(super) fn sender(&self, at: usize) -> Option<&Sender> {
        self.senders.get(at)?.as_ref()
    }

    /// Returns the number of steps before the message at `at`.
    pub(super) fn steps_before(&self, at: usize) -> usize {
        let nth = at.checked_sub(self.messages.len().saturating_sub(self.unanswered));
        nth.and_then(|nth| self.came_after.get(nth)).map_or(0, |steps| (*steps).min(self.steps.len()))
    }

    /// Returns the index of the first unanswered message.
    pub(super) fn first_unanswered(&self) -> usize {
        self.messages.len().saturating_sub(self.unanswered.max(1))
    }
}

impl Tool {
    /// Returns a tool whose input is an object of `properties`, and nothing else.
    pub fn new(name: &str, description: impl Into<String>, properties: Value, required: &[&str]) -> Self {
        let mut input_schema = json!({
            "type": "object", "properties": {}, "required": required, "additionalProperties": false,
        });
        input_schema["properties"] = properties;
        Self { name: name.into(), description: description.into(), input_schema }
    }

    /// Returns the tool with the texts of its server escaped; see [`annals_core::markup`].
    pub(super) fn escaped(&self) -> Self {
        Self {
            name: self.name.clone(),
            description: markup::escape(&self.description).into_owned(),
            input_schema: markup::escape_json(&self.input_schema),
        }
    }

    /// Returns the token estimate of the tool in a request.
    pub fn tokens(&self) -> u32 {
        [&self.name, &self.description]
            .into_iter()
            .map(|text| tokens::of_text(text))
            .fold(tokens::of_json(Some(&self.input_schema)), u32::saturating_add)
    }
}

impl Step {
    /// Returns the step of `answer`, with the results of its calls in order.
    pub fn new(answer: Answer, outputs: impl IntoIterator<Item = Value>) -> Self {
        let done = answer.calls.into_iter().zip(outputs).map(|(call, output)| Done { call, output });
        Self { text: answer.text, reasoning: answer.reasoning, done: done.collect() }
    }

    /// Returns the token estimate of the step in a request: a message of calls, and one for each result.
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
    /// Returns the token estimate of the result as it is sent.
    pub fn tokens(&self) -> u32 {
        tokens::of_text(&self.sent())
    }

    /// Returns the result as it is sent.
    pub(super) fn sent(&self) -> String {
        match &self.output {
            Value::String(text) => text.clone(),
            output => output.to_string(),
        }
    }
}
