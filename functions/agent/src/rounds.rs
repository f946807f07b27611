//! The rounds of a turn: the model is asked, what it calls is carried out, and it is asked again with the results, until it
//! has said what it has to say, or somebody must allow a call first.

use std::collections::HashSet;
use std::time::Duration;

use annals_shared::approval;
use annals_shared::chat_key::ChatKey;
use annals_shared::message::{Part, Role, UiMessage};
use annals_shared::model::exchange::{self, UNKNOWN};
use annals_shared::model::{Answer, Done, ModelError, Question, Step, ToolCall, Usage};
use annals_shared::sort_key::{SortKey, Timestamp};
use annals_shared::visible::shown_input;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::answer::Asking;
use crate::tools::Toolbox;
use crate::tools::result::{Output, cut_to};
use crate::turn::Agent;

/// What the calls of one turn may take. Behind any of these the model is asked once more, without tools, so that the
/// turn ends in words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// How many rounds of calls.
    pub(crate) rounds: usize,
    /// How many calls of one round are carried out; the others are told so.
    pub(crate) calls: usize,
    /// How many tokens of one result the model is given, and the history keeps.
    pub(crate) result_tokens: u32,
    /// What is kept free of the window for the answer: one part in this many.
    pub(crate) answer_share: u32,
    /// How long after its beginning a turn starts calls, and a call may run; three fifths of its time where that is less.
    /// What is left is the model's, for its last word.
    pub(crate) time: Duration,
}

/// The bounds of every turn.
pub(crate) const BOUNDS: Bounds =
    Bounds { rounds: 8, calls: 8, result_tokens: 4_000, answer_share: 8, time: Duration::from_secs(90) };

/// Less room than this is none; a result that has been called for gets so much in any case.
const LEAST_RESULT_TOKENS: u32 = 500;

/// What was said and called so far of one reply.
#[derive(Debug)]
pub(crate) struct Rounds {
    parts: Vec<Part>,
    /// The steps of this turn as the model is sent them.
    steps: Vec<Step>,
    /// How many of `steps` this run has made.
    made: usize,
    /// The calls of the step that is under way.
    under_way: Vec<ToolCall>,
    usage: Option<Usage>,
    /// Until when calls are started, and may run.
    calls_until: Timestamp,
    /// The ids of all calls of the reply: what joins a call to its result is unique in a message.
    ids: HashSet<String>,
    /// Where the reply is, or will be.
    chat: ChatKey,
    key: SortKey,
}

impl Rounds {
    /// A reply that has not begun, and will stand at `key`, for which there is so much time from now on.
    pub(crate) fn new(now: Timestamp, time: Duration, chat: &ChatKey, key: &SortKey) -> Self {
        Self {
            parts: Vec::new(),
            steps: Vec::new(),
            made: 0,
            under_way: Vec::new(),
            usage: None,
            calls_until: now.plus(BOUNDS.time.min(time * 3 / 5)),
            ids: HashSet::new(),
            chat: chat.clone(),
            key: key.clone(),
        }
    }

    /// The reply that is `message` so far, and goes on behind its last calls; else as [`Rounds::new`].
    pub(crate) fn resumed(
        message: &UiMessage,
        now: Timestamp,
        time: Duration,
        chat: &ChatKey,
        key: &SortKey,
    ) -> Self {
        let steps: Vec<Step> = exchange::steps(message);
        let ids = steps.iter().flat_map(|step| &step.done).map(|done| done.call.id.clone()).collect();
        let usage =
            message.metadata.get("usage").and_then(|usage| serde_json::from_value(usage.clone()).ok());
        Self { parts: message.parts.clone(), steps, usage, ids, ..Self::new(now, time, chat, key) }
    }

    /// Whether this run has called anything.
    pub(crate) fn has_begun(&self) -> bool {
        self.made > 0 || !self.under_way.is_empty()
    }

    /// How many calls of the tool `name` the reply has so far.
    fn calls_of(&self, name: &str) -> usize {
        self.steps.iter().flat_map(|step| &step.done).filter(|done| done.call.name == name).count()
    }

    /// Takes a third of each result away, since the model found the request too long. Answers whether there was any to
    /// take.
    pub(crate) fn squeeze(&mut self) -> bool {
        let mut is_done = false;
        for done in self.steps.iter_mut().flat_map(|step| &mut step.done) {
            let takes = done.tokens();
            if takes > LEAST_RESULT_TOKENS {
                done.output = cut_to(&done.output, takes * 2 / 3);
                is_done = true;
            }
        }
        is_done
    }

    /// The reply as it is where the model says no more: what was called, and `notice` for its last word. Of a call that was
    /// cut off nobody knows what came.
    pub(crate) fn given_up(&mut self, notice: &str) -> UiMessage {
        let cut_off = std::mem::take(&mut self.under_way);
        self.parts.extend(cut_off.iter().map(|call| part(call, Err(UNKNOWN.into()), BOUNDS.result_tokens)));
        self.parts.extend([Part::step_start(), Part::text(notice)]);
        self.take_message(None)
    }

    /// The reply, of the model of this name.
    pub(crate) fn take_message(&mut self, model: Option<String>) -> UiMessage {
        let is_start = |part: &Part| part.kind() == "step-start";
        let mut parts = std::mem::take(&mut self.parts);
        // Of one step alone there is no need to say where it starts.
        if parts.first().is_some_and(is_start) && parts.iter().filter(|part| is_start(part)).count() == 1 {
            parts.remove(0);
        }
        let mut message = UiMessage::new("", Role::Assistant, parts);
        if let Some(model) = model {
            message.metadata.insert("model".into(), model.into());
        }
        if let Some(usage) = self.usage.and_then(|usage| serde_json::to_value(usage).ok()) {
            message.metadata.insert("usage".into(), usage);
        }
        message
    }

    fn begin_step(&mut self, answer: &Answer) {
        self.parts.push(Part::step_start());
        let thought = answer.reasoning.as_ref().map(|reasoning| reasoning.text.as_str());
        self.parts.extend(thought.filter(|thought| !thought.trim().is_empty()).map(Part::reasoning));
        if !answer.text.trim().is_empty() {
            self.parts.push(Part::text(answer.text.as_str()));
        }
        self.usage = [self.usage, answer.usage].into_iter().flatten().reduce(Usage::plus);
    }

    /// What was said so far, and behind it the calls that are under way.
    fn with_calls(&self) -> Vec<Part> {
        let call =
            |call: &ToolCall| Part::tool(&call.name, &call.id, "input-available", &call.input, json!({}));
        self.parts.iter().cloned().chain(self.under_way.iter().map(call)).collect()
    }

    /// Notes what the calls of a step came to.
    fn end_step(&mut self, answer: Answer, parts: Vec<Part>) {
        let done: Vec<Done> = parts.iter().filter_map(exchange::done).collect();
        self.steps.push(Step { text: answer.text, reasoning: answer.reasoning, done });
        self.made += 1;
        self.under_way.clear();
        self.parts.extend(parts);
    }

    /// `call` under a name that providers take and an id of its own.
    fn normalized(&mut self, call: ToolCall) -> ToolCall {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let name: String = call.name.chars().take(64).map(|c| if fits(c) { c } else { '_' }).collect();
        let given = if call.id.is_empty() { "call".to_owned() } else { call.id };
        let (mut id, mut number) = (given.clone(), 1);
        while !self.ids.insert(id.clone()) {
            number += 1;
            id = format!("{given}_{number}");
        }
        ToolCall { id, name: if name.is_empty() { "unnamed".into() } else { name }, input: call.input }
    }
}

impl Agent {
    /// Asks until there is an answer, and carries out the calls on the way. What was said and called is in `rounds`, also
    /// where the model fails: whoever asks again goes on behind it.
    pub(crate) async fn ask(
        &self,
        question: Question<'_>,
        toolbox: &Toolbox<'_>,
        rounds: &mut Rounds,
        asking: &mut Asking<'_>,
    ) -> Result<(), ModelError> {
        while self.one_round(question, toolbox, rounds, asking).await? {}
        Ok(())
    }

    /// One request, and the calls that it brings; answers whether the model is to be asked again.
    async fn one_round(
        &self,
        question: Question<'_>,
        toolbox: &Toolbox<'_>,
        rounds: &mut Rounds,
        asking: &mut Asking<'_>,
    ) -> Result<bool, ModelError> {
        let asked = Question { steps: &rounds.steps, ..question };
        let room = self.view.window.saturating_sub(self.view.window / BOUNDS.answer_share);
        let room = room.saturating_sub(asked.tokens());
        let left = rounds.calls_until.since(self.clock.now());
        // A first call is always worth it: a chat whose window is full is the one that must search.
        let has_room = rounds.made == 0 || room >= LEAST_RESULT_TOKENS;
        let may_call = rounds.made < BOUNDS.rounds && has_room && !left.is_zero();
        let mut answer = self.ask_repeatedly(Question { must_answer: !may_call, ..asked }, asking).await?;
        let calls = std::mem::take(&mut answer.calls);
        if calls.is_empty() || !may_call || question.tools.is_empty() {
            if answer.text.is_empty() {
                return Err(ModelError::Empty);
            }
            rounds.begin_step(&answer);
            return Ok(false);
        }
        let calls: Vec<ToolCall> = calls.into_iter().map(|call| rounds.normalized(call)).collect();
        let share = room / u32::try_from(calls.len().min(BOUNDS.calls)).unwrap_or(1).max(1);
        let limit = share.clamp(LEAST_RESULT_TOKENS, BOUNDS.result_tokens);
        rounds.begin_step(&answer);
        rounds.under_way.clone_from(&calls);
        asking.feed.parts(&rounds.with_calls());
        // The model has taken its time meanwhile.
        let left = rounds.calls_until.since(self.clock.now());
        let so_far = &*rounds;
        let names = so_far.steps.iter().flat_map(|step| &step.done).map(|done| &done.call).chain(&calls);
        let names: Vec<&str> = names.map(|call| call.name.as_str()).collect();
        let outputs = calls.iter().enumerate().map(async |(number, call)| {
            if number >= BOUNDS.calls {
                return Some(Err(format!("only {} calls are carried out at once", BOUNDS.calls)));
            }
            // A call that somebody must allow has no result yet. Nobody is asked for what they cannot be shown.
            if toolbox.asks(call) {
                return shown_input(&call.input).err().map(|too_long| Err(too_long.to_string()));
            }
            let beside = calls[..number].iter().filter(|earlier| earlier.name == call.name).count();
            Some(toolbox.call(call, so_far.calls_of(&call.name) + beside, &names, left).await)
        });
        let outputs = join_all(outputs).await;
        let waits = outputs.iter().any(Option::is_none);
        let parts = calls.iter().zip(outputs).map(|(call, output)| {
            if let Some(output) = output {
                return part(call, output, limit);
            }
            let id = approval::id(&rounds.chat, &rounds.key, &call.id);
            approval::request_part(call, &id, toolbox.asks_admins(call))
        });
        let parts = parts.collect();
        rounds.end_step(answer, parts);
        asking.feed.parts(&rounds.parts);
        Ok(!waits)
    }
}

/// A call with its result as a part of the reply, in the AI SDK's states; of the result as much as `limit` tokens.
fn part(call: &ToolCall, output: Output, limit: u32) -> Part {
    let (state, more) = match output {
        Ok(output) => ("output-available", json!({"output": cut_to(&output, limit)})),
        Err(error) => match cut_to(&Value::String(error), limit) {
            Value::String(error) => ("output-error", json!({"errorText": error})),
            error => ("output-error", json!({"errorText": error.to_string()})),
        },
    };
    Part::tool(&call.name, &call.id, state, &call.input, more)
}
