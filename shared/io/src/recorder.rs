//! One place that counts the requests of a turn and records its steps: [`Recorder`]. A run hands it to all that works for
//! the turn; the trace that it makes is stored with the reply, or in the chat's head if the run fails.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use annals_core::sort_key::Timestamp;
use annals_core::trace::{Given, PromptId, Span, Step, Trace};

use crate::clock::Clock;

/// The use of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The answer of a turn.
    Answer,
    /// A summary or a capture. It is refused once a third of all requests are made.
    Housekeeping,
}

/// Counts the requests of a turn, and records its steps. Clones share it; the default does neither, and limits nothing.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Option<Arc<Run>>);

#[derive(Debug)]
struct Run {
    clock: Clock,
    max_requests: u32,
    claimed_at: Timestamp,
    /// Time at which an earlier run began, if that ended with its process.
    lost_since: Option<Timestamp>,
    /// End of the last span of earlier attempts.
    earlier_until: Option<Timestamp>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The steps of earlier attempts, and the number of requests.
    trace: Trace,
    /// The steps of this run, in the order of their ends.
    steps: Vec<(Timestamp, u32, Span)>,
    /// Number of steps that have begun.
    begun: u32,
}

impl Recorder {
    /// Creates the recorder of a run that begins now, of a turn that may make `max_requests` requests to models; after the
    /// first third, none for anything but the answer. `earlier` is the trace that the attempts before have left,
    /// `running_since` the time at which an earlier run began that has not ended.
    pub fn new(
        clock: &Clock,
        max_requests: u32,
        earlier: Option<Trace>,
        running_since: Option<Timestamp>,
    ) -> Self {
        let claimed_at = clock.now();
        let until = |trace: &Trace| {
            let end = trace.spans.iter().map(|span| span.at.saturating_add(span.ms)).max()?;
            Some(trace.start.plus(std::time::Duration::from_millis(end.into())))
        };
        Self(Some(Arc::new(Run {
            clock: clock.clone(),
            max_requests,
            claimed_at,
            lost_since: running_since,
            earlier_until: earlier.as_ref().and_then(until),
            state: Mutex::new(State {
                trace: earlier.unwrap_or_else(|| Trace::new(claimed_at)),
                steps: Vec::new(),
                begun: 0,
            }),
        })))
    }

    /// Counts a request that is about to be made; returns false, and counts nothing, if the turn may make no more for this
    /// `purpose`.
    pub fn may_request(&self, purpose: Purpose) -> bool {
        let Some(run) = &self.0 else { return true };
        let limit = match purpose {
            Purpose::Answer => run.max_requests,
            Purpose::Housekeeping => run.max_requests / 3,
        };
        let mut state = run.state();
        let may = state.trace.requests < limit;
        state.trace.requests += u32::from(may);
        may
    }

    /// Returns true if another request may follow the next one: with the results of the calls of its answer.
    pub fn may_ask_again(&self) -> bool {
        self.0.as_ref().is_none_or(|run| run.state().trace.requests + 1 < run.max_requests)
    }

    /// Notes that the run works on a turn whose first message was stored at `since`, and records its time in the queue.
    pub fn begin_turn(&self, since: Timestamp) {
        let Some(run) = &self.0 else { return };
        run.state().trace.start_at(since);
        let queued = run.earlier_until.unwrap_or(since);
        let lost = run.lost_since.filter(|lost| *lost >= queued);
        let until = lost.unwrap_or(run.claimed_at);
        run.record(queued, until, 0, Span::new(Step::Queue, 0));
        drop(tracing::info_span!("queue", earlierMs = u64::from(millis(until, queued))));
        if let Some(lost) = lost {
            run.record(lost, run.claimed_at, 0, Span::new(Step::Lost, 0));
        }
    }

    /// Notes the prompt of the turn: the context with this digest, made `at` a time for a budget of `tokens`, and the rest.
    pub fn note_prompt(&self, at: Timestamp, tokens: u32, digest: String, given: Given) {
        let Some(run) = &self.0 else { return };
        let trace = &mut run.state().trace;
        trace.prompt = Some(PromptId { at: trace.millis(at), tokens, digest, given: Some(given) });
    }

    /// Begins a step, which is recorded when the result is dropped.
    #[must_use]
    pub fn begin(&self, step: Step) -> Timing {
        let run = self.0.clone();
        let from = run.as_ref().map_or(Timestamp::MIN, |run| run.clock.now());
        let exported = (step == Step::Piece).then(|| tracing::info_span!("piece"));
        let order = run.as_ref().map_or(0, |run| run.next());
        Timing { run, from, order, span: Span::new(step, 0), exported }
    }

    /// Takes what was recorded so far. The number of requests stays.
    pub fn take(&self) -> Option<Trace> {
        let mut state = self.0.as_ref()?.state();
        let mut steps = std::mem::take(&mut state.steps);
        steps.sort_by_key(|(at, order, _)| (*at, *order));
        let trace = &mut state.trace;
        let rest = Trace { requests: trace.requests, ..Trace::new(trace.start) };
        let mut trace = std::mem::replace(trace, rest);
        for (at, _, span) in steps {
            trace.start_at(at);
            trace.add(Span { at: trace.millis(at), ..span });
        }
        Some(trace)
    }
}

impl Run {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of a step that begins, from 1.
    fn next(&self) -> u32 {
        let mut state = self.state();
        state.begun += 1;
        state.begun
    }

    fn record(&self, from: Timestamp, to: Timestamp, order: u32, span: Span) {
        self.state().steps.push((from, order, Span { ms: millis(to, from), ..span }));
    }
}

/// A step under way.
#[derive(Debug)]
pub struct Timing {
    run: Option<Arc<Run>>,
    from: Timestamp,
    order: u32,
    span: Span,
    /// The span for a collector, of steps that are no function of their own.
    #[allow(dead_code, reason = "ends when it is dropped")]
    exported: Option<tracing::Span>,
}

impl Timing {
    /// Names the model or the tool.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.span.set_name(name);
        self
    }

    /// Notes the first token of an answer; later ones change nothing.
    pub fn first_token(&mut self) {
        let since = self.run.as_ref().map(|run| millis(run.clock.now(), self.from));
        self.span.first_token_ms = self.span.first_token_ms.or(since);
    }

    /// Notes the tokens that a model has read and written.
    pub fn tokens(&mut self, input: u32, output: u32) {
        (self.span.input_tokens, self.span.output_tokens) = (Some(input), Some(output));
    }

    /// Notes that the step failed. `kind` contains nothing of a message.
    pub fn failed(&mut self, kind: impl Into<String>) {
        self.span.error = Some(kind.into());
    }

    /// Records nothing of the step.
    pub fn forget(&mut self) {
        self.run = None;
    }
}

impl Drop for Timing {
    fn drop(&mut self) {
        if let Some(run) = &self.run {
            run.record(self.from, run.clock.now(), self.order, self.span.clone());
        }
    }
}

fn millis(to: Timestamp, from: Timestamp) -> u32 {
    u32::try_from(to.since(from).as_millis()).unwrap_or(u32::MAX)
}
