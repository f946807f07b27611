//! A request in a form that every provider accepts: [`Conversation`].
//!
//! The strictest, Bedrock and the chat templates of many open models, want the user first, then assistant and user in turns. So
//! consecutive messages of one side are one turn; a summary is in the user's; and if the first message in view is the
//! assistant's, a line of the user's says that there was more.
//!
//! Providers charge less for a beginning that they know. So first comes what stays from turn to turn: tools, system part, and
//! the messages up to [`Conversation::stable`]; then recalled notes and the current time. Sources: "Prompt caching" of OpenAI,
//! Anthropic and Amazon Bedrock.
//!
//! Calls of earlier turns are sent without thoughts, and in words if no tools are offered: Anthropic and Bedrock accept no calls
//! then.
//!
//! If several people speak, each message is an element with its sender, and [`markup::GUIDE`] comes first. Every text is
//! escaped here ([`annals_core::markup`]), except `SYSTEM_PROMPT`, which is the operator's, and thoughts, which their provider
//! has signed.

use std::borrow::Cow;
use std::collections::HashSet;

use annals_core::markup::{self, Sender};
use annals_core::media::Image;
use annals_core::message::{Role, ToolCall};
use annals_core::prompt::Prompt;
use annals_io::recorder::Purpose;
use serde_json::{Value, json};

use super::answer::Reasoning;
use super::exchange::{self, Piece};
use super::question::{Question, Step, Tool};
use super::readable;

/// The first line, if the conversation would start with the assistant. People may write the same line: it quotes nobody.
const EARLIER: &str = "[earlier messages are not in view]";

#[derive(Debug)]
pub(super) struct Conversation<'a> {
    pub(super) system: Option<&'a str>,
    /// The tools that may be called, or have been.
    pub(super) tools: Cow<'a, [Tool]>,
    /// True if the answer must not have calls.
    pub(super) must_answer: bool,
    /// The turns: the first and the last are the user's.
    pub(super) turns: Vec<Turn<'a>>,
    /// The place (turn, block) of the last block that the chat's next turn will send again, if there is one.
    pub(super) stable: Option<(usize, usize)>,
    /// True if this turn has made calls.
    has_called: bool,
    /// Maximum tokens of the answer: set for summaries and captures (128 to 8,000). If thoughts count in it and leave no text,
    /// `hosted.rs` asks again without it.
    pub(super) max_tokens: Option<u32>,
    /// The use of the answer, by which requests are limited.
    pub(super) purpose: Purpose,
}

/// Consecutive messages of one side. One of the assistant has the calls of at most one step, since the user's with the
/// results follows: so a call's number in its step is its index among the [`Block::Call`]s here. Calls of the chat's earlier
/// turns never have thoughts.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub(super) speaker: Speaker,
    pub(super) blocks: Vec<Block<'a>>,
}

/// A side of the conversation. Results of calls are the user's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    User,
    Assistant,
}

/// A part of a turn. Texts are never blank: providers refuse those.
#[derive(Debug)]
pub(super) enum Block<'a> {
    Text(String),
    Image(&'a Image),
    Reasoning(&'a Reasoning),
    /// A call, with the id that joins it to its result: at most 64 of `[A-Za-z0-9_-]`, also if the API gives none. An API that
    /// takes less gets a pure function of the id, in call and result alike: later turns send the same bytes, and caches hold.
    /// One that takes fewer names of tools (up to 64 of the same characters) gets others in its tools and here, which
    /// `read_frame` turns back by the name alone.
    Call(String, ToolCall),
    /// The result of a call, with its id. An API that wants an object gets the text in one.
    Result {
        id: String,
        #[allow(dead_code, reason = "some APIs want it, but none of those so far")]
        name: String,
        text: String,
    },
}

/// Returns a call in words, for requests without tools.
pub(super) fn called(call: &ToolCall) -> String {
    markup::tool_call(&call.name, &call.input.to_string())
}

/// The ids of the calls of a conversation, each unique: some providers refuse a repeated one, though models number their
/// calls from the start in every answer.
#[derive(Default)]
struct CallIds {
    taken: HashSet<String>,
    steps: usize,
}

impl CallIds {
    /// Returns the ids of the next step's calls: at most 64 of `[A-Za-z0-9_-]`. Any other, of another provider, is replaced by
    /// its place.
    fn of(&mut self, step: &Step) -> Vec<String> {
        let number = self.steps;
        self.steps += 1;
        let ids = step.done.iter().enumerate().map(|(at, done)| {
            let id = done.call.id.as_str();
            let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
            let fits = (1..=64).contains(&id.len()) && id.bytes().all(is_allowed);
            if fits { self.once(id) } else { self.once(&format!("call_{number}_{at}")) }
        });
        ids.collect()
    }

    fn once(&mut self, given: &str) -> String {
        let (mut id, mut number) = (given.to_owned(), 1);
        while !self.taken.insert(id.clone()) {
            number += 1;
            let mark = format!("_{number}");
            id = format!("{}{mark}", &given[..given.len().min(64 - mark.len())]);
        }
        id
    }
}

impl<'a> Conversation<'a> {
    /// Returns the request of a step of a turn, for the model of this name.
    pub(super) fn of_question(question: &Question<'a>, name: &str) -> Self {
        let mut conversation = Self {
            system: question.system,
            tools: escaped_tools(question.tools),
            must_answer: question.must_answer,
            turns: Vec::new(),
            stable: None,
            has_called: !question.steps.is_empty(),
            max_tokens: None,
            purpose: Purpose::Answer,
        };
        let mut ids = CallIds::default();
        let first_unanswered = question.first_unanswered();
        for at in 0..question.messages.len() {
            if at == first_unanswered {
                conversation.stable = conversation.last_place();
                if let Some(notes) = question.notes {
                    conversation.add(Speaker::User, Block::Text(markup::notes(notes)));
                }
            }
            if question.steps_before(at) == 0 {
                conversation.add_said(question, at, &mut ids);
            }
        }
        if let Some(marks) = question.time_marks {
            conversation.add(Speaker::User, Block::Text(marks.now().to_owned()));
        }
        for (before, step) in question.steps.iter().enumerate() {
            // No provider accepts the thoughts of another.
            let own = |reasoning: &&Reasoning| reasoning.by.is_empty() || reasoning.by == name;
            if let Some(reasoning) = step.reasoning.as_ref().filter(own) {
                conversation.add(Speaker::Assistant, Block::Reasoning(reasoning));
            }
            conversation.add_step(step, &mut ids);
            let came = |at: &usize| question.steps_before(*at) == before + 1;
            for at in (first_unanswered..question.messages.len()).filter(came) {
                conversation.add_said(question, at, &mut ids);
            }
        }
        if question.has_senders() {
            conversation.begin_with(markup::GUIDE);
        }
        conversation
    }

    /// Returns a request outside the conversation.
    pub(super) fn of_prompt(prompt: &'a Prompt) -> Self {
        let blocks = vec![Block::Text(prompt.text.clone())];
        Self {
            system: Some(&prompt.instructions),
            tools: Cow::Borrowed(&[]),
            must_answer: true,
            turns: vec![Turn { speaker: Speaker::User, blocks }],
            stable: None,
            has_called: false,
            max_tokens: Some(prompt.max_tokens),
            purpose: Purpose::Housekeeping,
        }
    }

    fn add(&mut self, speaker: Speaker, block: Block<'a>) {
        if self.turns.is_empty() && speaker == Speaker::Assistant {
            self.add(Speaker::User, Block::Text(EARLIER.into()));
        }
        match self.turns.last_mut() {
            Some(last) if last.speaker == speaker => last.blocks.push(block),
            _ => self.turns.push(Turn { speaker, blocks: vec![block] }),
        }
    }

    /// Puts `text` first, in the user's first turn.
    fn begin_with(&mut self, text: &str) {
        let Some(first) = self.turns.first_mut() else { return };
        first.blocks.insert(0, Block::Text(text.to_owned()));
        if let Some((0, block)) = &mut self.stable {
            *block += 1;
        }
    }

    /// Adds the message at `at`.
    fn add_said(&mut self, question: &Question<'a>, at: usize, ids: &mut CallIds) {
        let message = &question.messages[at];
        match message.role {
            Role::Assistant if !readable::is_summary(message) => {
                for piece in exchange::pieces(message) {
                    match piece {
                        Piece::Text(text) => self.add_text(Speaker::Assistant, &text),
                        Piece::Step(step) => self.add_step(&step, ids),
                    }
                }
            }
            Role::User if !message.metadata.is_joined() => {
                if let Some(mark) = question.time_marks.and_then(|marks| marks.of_message(at)) {
                    self.add(Speaker::User, Block::Text(mark.to_owned()));
                }
                let own = question.images.iter().filter(|placed| placed.message == at);
                let own = own.map(|placed| &placed.image).filter(|image| image.format().is_some());
                self.add_message(question.sender(at), &readable::text(message), own);
            }
            Role::User | Role::Assistant => {
                let summary = markup::summary(&readable::text(message));
                self.add(Speaker::User, Block::Text(summary));
            }
            Role::System => {}
        }
    }

    /// Adds a message of a person, with its images inside its element.
    fn add_message(
        &mut self,
        sender: Option<&Sender>,
        text: &str,
        images: impl Iterator<Item = &'a Image> + Clone,
    ) {
        let shows = images.clone().next().is_some();
        let said = match sender {
            None => markup::escape(text).into_owned(),
            Some(sender) if shows => format!("{}{}", sender.opening(), markup::escape(text)),
            Some(sender) => markup::message(sender, text),
        };
        self.add(Speaker::User, Block::Text(said));
        images.for_each(|image| self.add(Speaker::User, Block::Image(image)));
        if let Some(sender) = sender.filter(|_| shows) {
            self.add(Speaker::User, Block::Text(sender.closing()));
        }
    }

    /// Adds a text, unless it is blank.
    fn add_text(&mut self, speaker: Speaker, text: &str) {
        if !text.trim().is_empty() {
            self.add(speaker, Block::Text(markup::escape(text).into_owned()));
        }
    }

    /// Adds the text of a step, its calls, and their results.
    fn add_step(&mut self, step: &Step, ids: &mut CallIds) {
        let offers = !self.tools.is_empty();
        let ids = ids.of(step);
        self.add_text(Speaker::Assistant, &step.text);
        for (id, done) in ids.iter().zip(&step.done) {
            let call = ToolCall { input: markup::escape_json(&done.call.input), ..done.call.clone() };
            let own = if offers { Block::Call(id.clone(), call) } else { Block::Text(called(&call)) };
            self.add(Speaker::Assistant, own);
        }
        for (id, done) in ids.into_iter().zip(&step.done) {
            let sent = done.sent();
            let sent = if sent.trim().is_empty() { "[nothing]".into() } else { sent };
            let own = if offers {
                let name = done.call.name.clone();
                Block::Result { id, name, text: markup::escape(&sent).into_owned() }
            } else {
                Block::Text(markup::tool_result(&sent))
            };
            self.add(Speaker::User, own);
        }
    }

    pub(super) fn has_images(&self) -> bool {
        self.turns.iter().flat_map(|turn| &turn.blocks).any(|block| matches!(block, Block::Image(_)))
    }

    /// Returns the place of the last block so far.
    pub(super) fn last_place(&self) -> Option<(usize, usize)> {
        let last = self.turns.last()?;
        Some((self.turns.len() - 1, last.blocks.len() - 1))
    }

    /// Returns the messages as a role, `user` or that of the model, and a list under the name `content`, which `block` makes
    /// of each block. If the request `marks` what the provider caches, `mark` marks the end of a list.
    pub(super) fn messages(
        &self,
        (model, content): (&str, &str),
        mut block: impl FnMut(&Block<'a>) -> Vec<Value>,
        marks: bool,
        mark: fn(&mut Vec<Value>),
    ) -> Value {
        let places = if marks { self.cache_places() } else { Vec::new() };
        let turns = self.turns.iter().enumerate().map(|(number, turn)| {
            let mut list = Vec::new();
            for (at, said) in turn.blocks.iter().enumerate() {
                list.extend(block(said));
                if places.contains(&(number, at)) {
                    mark(&mut list);
                }
            }
            json!({"role": if turn.speaker == Speaker::User { "user" } else { model }, content: list})
        });
        turns.collect()
    }

    /// Returns the blocks after which a provider caches the request: the last that the next turn sends again, and if this turn
    /// has made calls, the last of all, for its next request.
    fn cache_places(&self) -> Vec<(usize, usize)> {
        let last = self.last_place().filter(|_| self.has_called);
        self.stable.into_iter().chain(last).collect()
    }
}

/// Returns the tools with the texts of their servers escaped.
fn escaped_tools(tools: &[Tool]) -> Cow<'_, [Tool]> {
    let escaped: Vec<Tool> = tools.iter().map(Tool::escaped).collect();
    if escaped == tools { Cow::Borrowed(tools) } else { Cow::Owned(escaped) }
}

#[cfg(test)]
mod tests {
    use super::super::question::{Done, ImageAt};
    use super::*;
    use annals_core::message::UiMessage;

    fn said(role: Role, text: &str) -> UiMessage {
        UiMessage::text("1", role, text)
    }

    /// Returns for each turn a letter for its side, then the texts.
    fn outline(conversation: &Conversation<'_>) -> Vec<String> {
        let turns = conversation.turns.iter();
        turns
            .map(|turn| {
                let texts = turn.blocks.iter().map(|block| match block {
                    Block::Text(text) => text.clone(),
                    Block::Result { name, text, .. } => format!("{name}: {text}"),
                    Block::Call(id, call) => format!("{}({id})", call.name),
                    Block::Image(_) => "image".into(),
                    Block::Reasoning(_) => "thought".into(),
                });
                let letter = if turn.speaker == Speaker::User { "u" } else { "a" };
                format!("{letter}: {}", texts.collect::<Vec<_>>().join("|"))
            })
            .collect()
    }

    #[test]
    fn sides_take_turns_and_the_user_is_first() {
        use Role::{Assistant, User};
        type Case = (Vec<(Role, &'static str)>, Vec<&'static str>);
        let cases: [Case; 6] = [
            (vec![(User, "a")], vec!["u: a"]),
            (vec![(User, "a"), (User, "b")], vec!["u: a|b"]),
            (
                vec![(Assistant, "x"), (User, "a")],
                vec!["u: [earlier messages are not in view]", "a: x", "u: a"],
            ),
            (
                vec![(User, "a"), (Assistant, "x"), (Assistant, "y"), (User, "b")],
                vec!["u: a", "a: x|y", "u: b"],
            ),
            (vec![(User, "a"), (Assistant, " "), (User, "b")], vec!["u: a|b"]),
            (vec![(User, ""), (User, "b")], vec!["u: [a message without text]|b"]),
        ];
        for (messages, wanted) in cases {
            let messages: Vec<UiMessage> = messages.iter().map(|(role, text)| said(*role, text)).collect();
            let question = Question { messages: &messages, unanswered: 1, ..Question::default() };
            assert_eq!(outline(&Conversation::of_question(&question, "")), wanted);
        }
    }

    #[test]
    fn the_last_answered_block_is_stable() {
        use Role::{Assistant, User};
        let messages = [said(User, "a"), said(Assistant, "When?"), said(User, "soon"), said(User, "very")];
        let question =
            Question { messages: &messages, unanswered: 1, notes: Some("Likes tea."), ..Question::default() };
        let conversation = Conversation::of_question(&question, "");
        assert_eq!(conversation.stable, Some((2, 0)));
        assert_eq!(conversation.cache_places(), [(2, 0)]);
        let first = Question { messages: &messages[3..], unanswered: 1, ..Question::default() };
        assert_eq!(Conversation::of_question(&first, "").stable, None);
    }

    #[test]
    fn calls_and_results_have_ids_that_all_providers_accept() {
        let call = |id: &str| ToolCall { id: id.into(), name: "find".into(), input: json!({}) };
        let done = |id, output| Done { call: call(id), output };
        let step = Step {
            text: "Let me see.".into(),
            reasoning: Some("hm".into()),
            done: vec![done("toolu_1", json!("found")), done("a/b", json!("")), done("", json!({"n": 1}))],
        };
        let messages = [said(Role::User, "where?")];
        let (steps, tools) = ([step], [finder()]);
        let question = Question {
            messages: &messages,
            unanswered: 1,
            steps: &steps,
            tools: &tools,
            ..Question::default()
        };
        let conversation = Conversation::of_question(&question, "");
        assert_eq!(
            outline(&conversation),
            [
                "u: where?",
                "a: thought|Let me see.|find(toolu_1)|find(call_0_1)|find(call_0_2)",
                "u: find: found|find: [nothing]|find: {\"n\":1}"
            ]
        );
        assert_eq!(conversation.cache_places(), [(2, 2)]);
    }

    fn finder() -> Tool {
        Tool { name: "find".into(), description: "Finds.".into(), input_schema: json!({"type": "object"}) }
    }

    #[test]
    fn calls_of_earlier_turns_have_ids_of_their_own_and_are_no_steps_of_this_one() {
        let call = |id: &str| json!({"type": "tool-find", "toolCallId": id, "state": "output-available", "output": id});
        let start = json!({"type": "step-start"});
        let parts = json!([call("a/b"), call("call"), start, call("call"), start, {"type": "text", "text": "There."}]);
        let reply = json!({"id": "1/reply", "role": "assistant", "parts": parts});
        let messages =
            [said(Role::User, "where?"), serde_json::from_value(reply).unwrap(), said(Role::User, "thanks")];
        let tools = [finder()];
        let asked = Question { messages: &messages, tools: &tools, unanswered: 1, ..Question::default() };
        let conversation = Conversation::of_question(&asked, "");
        let earlier = [
            "u: where?",
            "a: find(call_0_0)|find(call)",
            "u: find: a/b|find: call",
            "a: find(call_2)",
            "u: find: call",
        ];
        assert_eq!(outline(&conversation), [&earlier[..], &["a: There.", "u: thanks"]].concat());
        assert_eq!(conversation.cache_places().len(), 1);
    }

    #[test]
    fn images_follow_the_text_of_their_message() {
        let image = |media_type: &str| Image { media_type: media_type.into(), bytes: vec![1] };
        let placed = |message, media_type| ImageAt { message, image: image(media_type) };
        let images = [placed(0, "image/png"), placed(1, "image/tiff"), placed(1, "image/webp")];
        let messages = [said(Role::User, "a"), said(Role::User, "b")];
        let question =
            Question { messages: &messages, unanswered: 1, images: &images, ..Question::default() };
        assert_eq!(outline(&Conversation::of_question(&question, "")), ["u: a|image|b|image"]);
    }
}
