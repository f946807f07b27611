//! One reply while it is made: [`Rounds`], the answers of the model so far with their calls, and [`call_tools`], which
//! carries out the calls of one answer.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use annals_core::approval;
use annals_core::chat_key::ChatKey;
use annals_core::message::{Part, PartView, Role, ToolCall, UiMessage};
use annals_core::sort_key::SortKey;
use annals_engine::live::Feed;
use annals_model::{Answer, Done, Step, Usage, exchange};
use futures::future::join_all;
use serde_json::{Value, json};

use crate::retry_policy::CALLS;
use crate::tools::Toolbox;
use crate::tools::result::{Output, cut_to};

/// Maximum tokens of one result that the model is given, and the history keeps.
pub(crate) const RESULT_TOKENS: u32 = 4_000;
/// Minimum tokens for a tool result. With less left, only the turn's first call is made.
const MIN_RESULT_TOKENS: u32 = 500;
/// Share of the window that is kept free for the answer, as one in this many.
const ANSWER_SHARE: u32 = 8;

/// The answers of the model for one reply so far, with their calls.
#[derive(Debug)]
pub(crate) struct Rounds {
    parts: Vec<Part>,
    /// The steps of this turn as the model is sent them.
    steps: Vec<Step>,
    /// Number of `steps` that this run has made.
    made: usize,
    usage: Option<Usage>,
    /// The ids of all calls of the reply: an id that joins a call to its result is unique in a message.
    ids: HashSet<String>,
    /// The messages that were added to the turn, each with the number of `steps` before it.
    added: HashMap<SortKey, usize>,
    chat: ChatKey,
    key: SortKey,
}

impl Rounds {
    /// Returns an empty reply that will be stored at `key`.
    pub(crate) fn new(chat: &ChatKey, key: &SortKey) -> Self {
        Self {
            parts: Vec::new(),
            steps: Vec::new(),
            made: 0,
            usage: None,
            ids: HashSet::new(),
            added: HashMap::new(),
            chat: chat.clone(),
            key: key.clone(),
        }
    }

    /// Returns the reply at `key` that is `message` so far, and continues after its last calls.
    pub(crate) fn resumed(message: &UiMessage, chat: &ChatKey, key: &SortKey) -> Self {
        let steps: Vec<Step> = exchange::steps(message);
        let ids = steps.iter().flat_map(|step| &step.done).map(|done| done.call.id.clone()).collect();
        Self {
            parts: message.parts.clone(),
            steps,
            usage: message.metadata.usage(),
            ids,
            ..Self::new(chat, key)
        }
    }

    /// Notes that messages were `added` to the turn after the steps so far, and that the reply will be stored at `key`.
    pub(crate) fn extend(&mut self, added: &[SortKey], key: &SortKey) {
        self.added.extend(added.iter().map(|base| (base.clone(), self.steps.len())));
        self.key = key.clone();
    }

    /// Returns the number of steps after which the message at `base` came.
    pub(crate) fn steps_before(&self, base: &SortKey) -> usize {
        self.added.get(base).copied().unwrap_or_default()
    }

    /// Returns the steps of the reply so far.
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the tokens that the results of the next calls may take in a `window` of which the question takes
    /// `question_tokens`; `None` if there is too little left for calls.
    pub(crate) fn result_budget(&self, window: u32, question_tokens: u32) -> Option<u32> {
        let left = window.saturating_sub(window / ANSWER_SHARE).saturating_sub(question_tokens);
        // A first call is always worth it: a chat whose window is full is the one that must search.
        (self.made == 0 || left >= MIN_RESULT_TOKENS).then_some(left)
    }

    /// Returns the number of calls of the tool `name` in the reply so far.
    fn calls_of(&self, name: &str) -> usize {
        self.steps.iter().flat_map(|step| &step.done).filter(|done| done.call.name == name).count()
    }

    /// Shortens each result by a third, since the model found the request too long. Returns false if this run has made no
    /// calls, or all results are short.
    pub(crate) fn shorten_results(&mut self) -> bool {
        let mut is_done = false;
        if self.made == 0 {
            return false;
        }
        for done in self.steps.iter_mut().flat_map(|step| &mut step.done) {
            let takes = done.tokens();
            if takes > MIN_RESULT_TOKENS {
                done.output = cut_to(&done.output, takes * 2 / 3);
                is_done = true;
            }
        }
        is_done
    }

    /// Returns true if the reply so far ends in calls, all of them succeeded, and no message was added to the turn after
    /// them: then an answer without text can be the end of it.
    pub(crate) fn ends_in_calls(&self) -> bool {
        let states = self.parts.iter().rev().map_while(|part| match part.view() {
            PartView::Tool { state, .. } => Some(state),
            _ => None,
        });
        let states: Vec<&str> = states.collect();
        let is_asked = self.added.values().any(|before| *before == self.steps.len());
        !states.is_empty() && states.iter().all(|state| *state == "output-available") && !is_asked
    }

    /// Ends the reply with a step in which the model said nothing; with `line`, if it said nothing in this run at all.
    pub(crate) fn end_silently(&mut self, line: &str) {
        // A reply whose last part is a call is unfinished.
        self.parts.push(Part::step_start());
        if self.steps.iter().rev().take(self.made).all(|step| step.text.trim().is_empty()) {
            self.parts.push(Part::text(line));
        }
    }

    /// Returns the reply, made by the model of this name.
    pub(crate) fn take_message(&mut self, model: Option<String>) -> UiMessage {
        let is_start = |part: &Part| part.kind() == "step-start";
        let mut parts = std::mem::take(&mut self.parts);
        // A reply of one step needs no mark of its start.
        if parts.first().is_some_and(is_start) && parts.iter().filter(|part| is_start(part)).count() == 1 {
            parts.remove(0);
        }
        let mut message = UiMessage::new("", Role::Assistant, parts);
        if let Some(model) = model {
            message.metadata.set_model(&model);
        }
        if let Some(usage) = &self.usage {
            message.metadata.set_usage(usage);
        }
        message
    }

    /// Adds the text and thoughts of `answer`.
    pub(crate) fn begin_step(&mut self, answer: &Answer) {
        self.parts.push(Part::step_start());
        let thought = answer.reasoning.as_ref().map(|reasoning| reasoning.text.as_str());
        self.parts.extend(thought.filter(|thought| !thought.trim().is_empty()).map(Part::reasoning));
        if !answer.text.trim().is_empty() {
            self.parts.push(Part::text(answer.text.as_str()));
        }
        self.usage = [self.usage, answer.usage].into_iter().flatten().reduce(Usage::plus);
    }

    /// Returns the parts so far, and `calls`, which are under way.
    fn with_calls(&self, calls: &[ToolCall]) -> Vec<Part> {
        let call =
            |call: &ToolCall| Part::tool(&call.name, &call.id, "input-available", &call.input, json!({}));
        self.parts.iter().cloned().chain(calls.iter().map(call)).collect()
    }

    /// Adds the calls of a step with their results.
    fn end_step(&mut self, answer: Answer, parts: Vec<Part>) {
        let done: Vec<Done> = parts.iter().filter_map(exchange::done).collect();
        self.steps.push(Step { text: answer.text, reasoning: answer.reasoning, done });
        self.made += 1;
        self.parts.extend(parts);
    }

    /// Returns `call` under a name that providers accept and a unique id.
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

/// Carries out the calls of `answer`, whose results may take `budget` tokens, within `left`. Returns true if some call waits
/// for an approval.
pub(crate) async fn call_tools(
    toolbox: &Toolbox<'_>,
    rounds: &mut Rounds,
    mut answer: Answer,
    budget: u32,
    left: Duration,
    feed: &Feed,
) -> bool {
    let calls = std::mem::take(&mut answer.calls);
    let calls: Vec<ToolCall> = calls.into_iter().map(|call| rounds.normalized(call)).collect();
    let share = budget / u32::try_from(calls.len().min(CALLS)).unwrap_or(1).max(1);
    let limit = share.clamp(MIN_RESULT_TOKENS, RESULT_TOKENS);
    rounds.begin_step(&answer);
    feed.used(rounds.usage);
    let so_far = &*rounds;
    let shown = Mutex::new(so_far.with_calls(&calls));
    feed.parts(&shown.lock().unwrap_or_else(PoisonError::into_inner));
    let first = so_far.parts.len();
    let names = so_far.steps.iter().flat_map(|step| &step.done).map(|done| &done.call).chain(&calls);
    let names: Vec<&str> = names.map(|call| call.name.as_str()).collect();
    let outputs = calls.iter().enumerate().map(async |(number, call)| {
        let output = if number >= CALLS {
            Err(format!("only {CALLS} calls are carried out at once"))
        } else {
            let earlier = calls[..number].iter().filter(|earlier| earlier.name == call.name).count();
            toolbox.call(call, so_far.calls_of(&call.name) + earlier, &names, left).await?
        };
        let done = part(call, output, limit);
        // A run that is stopped while it waits for another call has this result.
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown[first + number] = done.clone();
        feed.parts(&shown);
        Some(done)
    });
    let done = join_all(outputs).await;
    let waits = done.iter().any(Option::is_none);
    let parts = calls.iter().zip(done).map(|(call, done)| {
        done.unwrap_or_else(|| {
            let id = approval::id(&rounds.chat, &rounds.key, &call.id);
            approval::request_part(call, &id, toolbox.needs_admin(call))
        })
    });
    let parts = parts.collect();
    rounds.end_step(answer, parts);
    feed.parts(&rounds.parts);
    waits
}

/// Returns a call with its result as a part of the reply, in the AI SDK's states; the result is cut to `limit` tokens.
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

#[cfg(test)]
mod tests {
    use annals_core::sort_key::Timestamp;
    use annals_model::Finish;

    use super::*;

    /// Returns a reply in which the model said `text`, and made a call with this output.
    fn after_a_call(text: &str, output: Output) -> Rounds {
        let mut rounds = Rounds::new(&ChatKey::telegram(42, None), &SortKey::start_of(Timestamp::MIN));
        let answer = Answer {
            text: text.into(),
            calls: Vec::new(),
            reasoning: None,
            finish: Finish::ToolCalls,
            usage: None,
        };
        let call = ToolCall { id: "a".into(), name: "look".into(), input: json!({}) };
        rounds.begin_step(&answer);
        rounds.end_step(answer, vec![part(&call, output, RESULT_TOKENS)]);
        rounds
    }

    #[test]
    fn a_reply_that_ends_in_calls_says_a_line_only_if_the_model_said_nothing() {
        for (text, said) in [("I set it.", "I set it."), ("", "Done.")] {
            let mut rounds = after_a_call(text, Ok(json!(7)));
            assert!(rounds.ends_in_calls());
            rounds.end_silently("Done.");
            let message = rounds.take_message(None);
            assert_eq!(message.plain_text(), said);
            assert!(!approval::is_unfinished(&message), "it does not continue");
        }
    }

    #[test]
    fn a_reply_does_not_end_without_text_if_a_call_failed_or_more_was_asked() {
        assert!(!after_a_call("", Err("it broke".into())).ends_in_calls());
        let mut rounds = after_a_call("", Ok(json!(7)));
        let key = rounds.key.clone();
        rounds.extend(std::slice::from_ref(&key), &key);
        assert!(!rounds.ends_in_calls());
        assert!(!Rounds::new(&rounds.chat, &key).ends_in_calls());
    }
}
