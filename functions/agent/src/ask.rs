//! Asking the model for one reply: one loop, whose every next step [`Asking`] decides.

use annals_core::compaction::cut::Why;
use annals_core::context::{Context, Policy};
use annals_core::media;
use annals_core::message::{Part, UiMessage};
use annals_core::record::Record;
use annals_core::sort_key::SortKey;
use annals_core::texts::Texts;
use annals_core::time_marks::TimeMarks;
use annals_core::trace::{Given, Step, digest_of};
use annals_engine::live::Feed;
use annals_io::metrics::Metric;
use annals_model::{Delta, Finish, Model, ModelError, Question};

use crate::agent::Agent;
use crate::budget::{compact_or_continue, note_left_out};
use crate::error::TurnError;
use crate::images::{self, Images, Shown};
use crate::mcp::Session;
use crate::reread::{extend, reread};
use crate::retry_policy::{Asking, Decision};
use crate::rounds::{Rounds, call_tools};
use crate::run::Run;
use crate::task::ClaimedTurn;
use crate::tools::offered::Offered;
use crate::tools::{Since, Toolbox};

/// The error of a request that is not waited for any longer.
pub(crate) const TIMED_OUT: ModelError = ModelError::Incomplete("timed out");
/// Cause of a turn that ended since a table could not be read after calls.
const STORE_FAILED: &str = "the store failed: see the log";
/// Share of a context that was too long which is tried next.
const SHORTER: f64 = 0.6;

/// The reply that the model is asked for.
pub(crate) enum Scope<'a> {
    /// A new one. The records of its turn are read from `read_from`, if that is earlier than the head says.
    New {
        /// The earliest message that the queue named.
        read_from: Option<SortKey>,
    },
    /// The rest of a stored one, with the context of its time.
    Paused {
        reply: &'a Record,
        /// Its newest form.
        message: &'a UiMessage,
    },
}

impl Scope<'_> {
    /// Returns the reply to `turn` so far.
    fn rounds(&self, turn: &ClaimedTurn) -> Rounds {
        let chat = &turn.lease.chat;
        match self {
            Self::New { .. } => Rounds::new(chat, &turn.reply_key()),
            Self::Paused { reply, message } => Rounds::resumed(message, chat, &reply.key),
        }
    }
}

/// The result of asking.
pub(crate) enum Asked {
    /// A reply; if the model failed after calls, one that says so at its end.
    Reply(UiMessage),
    /// No answer after the last attempt.
    Nothing {
        /// The text of the notice.
        text: &'static str,
        cause: String,
    },
}

/// Asks the model until the reply is complete, or waits for an approval, and carries out the calls on the way.
pub(crate) async fn ask(
    agent: &Agent,
    run: &Run<'_>,
    turn: &mut ClaimedTurn,
    scope: Scope<'_>,
    offered: Offered,
    feed: &Feed,
) -> Result<Asked, TurnError> {
    let (mut asking, mut rounds) = (run.asking(agent), scope.rounds(turn));
    let session = agent.servers.as_deref().map(Session::new);
    let mut model = &agent.model;
    let mut window = Window::new(agent, offered);
    let mut prepared: Option<Prepared> = None;
    let (mut shortens, mut has_called) = (false, false);
    loop {
        let left = asking.until.since(agent.clock.now());
        // On the heap: it is a long way through.
        let round = Box::pin(async {
            if std::mem::take(&mut has_called) {
                if let Some(session) = &session {
                    let (head, request_tokens) = (&turn.lease.head, window.request_tokens);
                    window.offered.renew(session, &agent.history, head, request_tokens).await;
                }
                if matches!(scope, Scope::New { .. }) && extend(agent, turn, &mut rounds, feed).await? {
                    run.making.begin(&turn.turn, feed);
                    prepared = None;
                }
            }
            // Calls are not made again, so their results are shortened first.
            if std::mem::take(&mut shortens) && !rounds.shorten_results() {
                let tokens = prepared.take().map_or(u32::MAX, |prepared| prepared.seen.tokens);
                window.shorten(agent, turn, &scope, tokens).await?;
            }
            let prepared = match &mut prepared {
                Some(prepared) => prepared,
                none => none.insert(window.prepare(agent, turn, &scope).await),
            };
            let seen = &prepared.seen;
            asking.shows_earlier = (1..seen.messages.len()).contains(&seen.unanswered.len());
            let toolbox = window.toolbox(agent, turn, seen, session.as_ref());
            Ok(request(model, prepared, &toolbox, &mut rounds, &mut asking, feed).await?)
        });
        let asked = agent.clock.within(left, round).await.unwrap_or_else(|| {
            feed.publish_delta(Delta::Void);
            Err(TurnError::from(TIMED_OUT))
        });
        let asked = match asked {
            Err(TurnError::Model(ModelError::Empty))
                if asking.may_end(agent.clock.now()) && rounds.ends_in_calls() =>
            {
                rounds.end_silently(turn.texts(agent.language).done());
                Ok(Round::End(Finish::Stop))
            }
            asked => asked,
        };
        let error = match asked {
            Ok(Round::Calls) => {
                has_called = true;
                continue;
            }
            Ok(Round::End(finish)) => {
                let mut message = rounds.take_message(model.name());
                sign(agent, &mut message);
                let texts = turn.texts(agent.language);
                return Ok(Asked::Reply(with_notes(message, finish, prepared.as_ref(), &scope, texts)));
            }
            Err(error @ (TurnError::Model(_) | TurnError::History(_))) => error,
            Err(error) => return Err(error),
        };
        let failure = if let TurnError::Model(failure) = &error { Some(failure) } else { None };
        let is_fallback = !std::ptr::eq(model, &raw const agent.model);
        let cause = failure.map_or_else(|| STORE_FAILED.to_owned(), |failure| failure.cause(is_fallback));
        match asking.failed(failure, agent.clock.now()) {
            Decision::Again(pause) => {
                tracing::warn!(%error, ?pause, "failed to ask the model; asking again after a pause");
                let _pause = agent.recorder.begin(Step::Pause);
                agent.clock.sleep(pause).await;
            }
            Decision::AskFallback => {
                if let Some(failure) = failure {
                    failure.log_fallback();
                }
                model = model.fallback().unwrap_or(model);
            }
            Decision::HideImages => {
                window.images.refuse();
                prepared = None;
            }
            Decision::HideEarlier => {
                window.hides_earlier = true;
                prepared = None;
            }
            Decision::Shorten => shortens = true,
            Decision::HandBack => return Err(error),
            Decision::GiveUp => {
                tracing::error!(%error, "failed to ask the model, and gave up; the user is told");
                let is_filtered = failure == Some(&ModelError::Filtered);
                return Ok(give_up(agent, turn, feed, model, is_filtered, cause));
            }
        }
    }
}

/// Ends the reply of a turn that `model` did not complete: with the calls so far, as `feed` has them, and a text that says so,
/// and if it `is_filtered`, why. The outcome of a call that was cut off is unknown.
fn give_up(
    agent: &Agent,
    turn: &ClaimedTurn,
    feed: &Feed,
    model: &Model,
    is_filtered: bool,
    cause: String,
) -> Asked {
    agent.metrics.add(Metric::TurnsGivenUp, 1);
    let texts = turn.texts(agent.language);
    let text = |text| if is_filtered { texts.filtered() } else { text };
    // Also a fallback that had no time left to be asked.
    feed.asked(model.name());
    let mut message = feed.so_far().into_message();
    if message.parts.is_empty() {
        return Asked::Nothing { text: text(texts.no_answer()), cause };
    }
    message.parts.extend([Part::step_start(), Part::text(text(texts.unfinished()))]);
    sign(agent, &mut message);
    message.metadata.set_cause(&cause);
    Asked::Reply(message)
}

/// Names the profile that made `message`.
fn sign(agent: &Agent, message: &mut UiMessage) {
    if let Some(profile) = &agent.profile {
        message.metadata.set_agent(&profile.id);
    }
}

/// Returns the complete reply `message` with notes on why its text ends early, and on what its model was not shown.
fn with_notes(
    mut message: UiMessage,
    finish: Finish,
    prepared: Option<&Prepared>,
    scope: &Scope<'_>,
    texts: &dyn Texts,
) -> UiMessage {
    let ends_early = match finish {
        Finish::Length => Some(texts.cut_off()),
        Finish::ContentFilter => Some(texts.rest_filtered()),
        Finish::Stop | Finish::ToolCalls | Finish::Other => None,
    };
    message.parts.extend(ends_early.map(|text| media::note(format!("\n{text}"))));
    if let Some(Prepared { seen, shown, shortened, hides_earlier, .. }) = prepared {
        note_left_out(&mut message, seen, shortened);
        // A reply that waits for an approval ends with calls.
        if *hides_earlier && !message.has_open_call() {
            message.parts.push(media::note(format!("\n{}", texts.earlier_refused())));
        }
        // The first part of a paused reply has the note already.
        if matches!(scope, Scope::New { .. }) {
            shown.add_note(&mut message, texts);
        }
    }
    message
}

/// The effect of one request.
enum Round {
    /// The reply is complete, or waits for an approval. Its last answer ended for this reason.
    End(Finish),
    /// Calls were carried out, and the model must be asked again.
    Calls,
}

/// Asks `model` once, and carries out the calls of its answer.
async fn request(
    model: &Model,
    prepared: &Prepared,
    toolbox: &Toolbox<'_>,
    rounds: &mut Rounds,
    asking: &mut Asking,
    feed: &Feed,
) -> Result<Round, ModelError> {
    let (agent, seen) = (toolbox.agent, &prepared.seen);
    let came_after: Vec<usize> = seen.unanswered.iter().map(|base| rounds.steps_before(base)).collect();
    let question = Question {
        system: agent.system_prompt.as_deref(),
        messages: &seen.messages,
        unanswered: seen.unanswered.len(),
        came_after: &came_after,
        notes: prepared.notes.as_deref(),
        time_marks: Some(&prepared.time_marks),
        images: &prepared.shown.images,
        senders: &seen.senders,
        tools: toolbox.offered(),
        steps: rounds.steps(),
        must_answer: false,
    };
    let now = agent.clock.now();
    let budget = rounds.result_budget(agent.view.window, question.tokens());
    let may_call = budget.is_some() && asking.may_call(now) && agent.recorder.may_ask_again();
    let question = Question { must_answer: !may_call, ..question };
    let sink = |delta: Delta<'_>| feed.publish_delta(delta);
    feed.asked(model.name());
    let answering = Box::pin(model.answer(question, &sink));
    let Some(answer) = agent.clock.within(asking.deadline().since(now), answering).await else {
        feed.publish_delta(Delta::Void);
        return Err(TIMED_OUT);
    };
    let answer = answer?;
    let Some(budget) =
        budget.filter(|_| may_call && !answer.calls.is_empty() && !toolbox.offered().is_empty())
    else {
        if answer.text.is_empty() {
            feed.publish_delta(Delta::Void);
            return Err(ModelError::Incomplete("it made calls, and was offered none"));
        }
        rounds.begin_step(&answer);
        return Ok(Round::End(answer.finish));
    };
    asking.called();
    let left = asking.calls_until.since(agent.clock.now());
    let waits = call_tools(toolbox, rounds, answer, budget, left, feed).await;
    Ok(if waits { Round::End(Finish::ToolCalls) } else { Round::Calls })
}

/// The token budget of a turn's question.
struct Window {
    policy: Policy,
    /// Maximum tokens of the unanswered messages, which are shortened last.
    unanswered_budget: u32,
    /// Tokens of a request of which tools may take their share.
    request_tokens: u32,
    offered: Offered,
    images: Images,
    /// True if only the unanswered messages are shown.
    hides_earlier: bool,
}

/// The context of a turn as its model is sent it.
struct Prepared {
    seen: Context,
    shown: Shown,
    notes: Option<String>,
    time_marks: TimeMarks,
    /// Ids of the unanswered messages that were shortened.
    shortened: Vec<String>,
    hides_earlier: bool,
}

impl Window {
    fn new(agent: &Agent, offered: Offered) -> Self {
        let tokens = offered.tokens();
        let window = agent.view.window;
        Self {
            policy: agent.policy(tokens),
            unanswered_budget: window.saturating_sub(agent.prompt_tokens()).saturating_sub(tokens),
            request_tokens: window,
            offered,
            images: Images::default(),
            hides_earlier: false,
        }
    }

    fn toolbox<'a>(
        &'a self,
        agent: &'a Agent,
        turn: &'a ClaimedTurn,
        seen: &Context,
        session: Option<&'a Session<'a>>,
    ) -> Toolbox<'a> {
        // Without memory, nothing of an earlier Session is known.
        let since = (!agent.memory.is_on).then(|| {
            let start = seen.session_start.as_ref().or(turn.turn.covers.first());
            let start = start.unwrap_or(&turn.newest.key);
            // A reminder may be set after `/new` and before the Session's first message.
            let schedules = seen.reaches_back_to.as_ref().unwrap_or(start).ts();
            Since { messages: start.clone(), schedules }
        });
        Toolbox::new(agent, turn, &self.offered, &seen.messages, session, since)
    }

    /// Makes the context of `turn`, and loads its images.
    async fn prepare(&mut self, agent: &Agent, turn: &ClaimedTurn, scope: &Scope<'_>) -> Prepared {
        let at = match scope {
            Scope::New { .. } => agent.clock.now(),
            Scope::Paused { reply, .. } => reply.sent_at,
        };
        let hides_earlier = self.hides_earlier;
        let token_budget = if hides_earlier { 0 } else { self.policy.token_budget };
        let mut seen = turn.context(at, &Policy { token_budget, ..self.policy.clone() });
        let texts = turn.texts(agent.language);
        let shown = images::load(agent, &seen, &mut self.images, texts).await;
        let budget = self.unanswered_budget.saturating_sub(shown.unanswered_tokens);
        let shortened = seen.shorten_unanswered(budget);
        shown.name_hidden_files(&mut seen.messages);
        let notes = self.offered.notes();
        let given = Given::new(agent.system_prompt.as_deref(), notes.as_deref(), self.offered.names());
        agent.recorder.note_prompt(at, token_budget, digest_of(&seen.messages), given);
        // A reply that continues after an approval continues now.
        let time_marks =
            TimeMarks::new(&seen.times, agent.clock.now(), self.offered.time_zone(agent.view.time_zone));
        Prepared { seen, shown, notes, time_marks, shortened, hides_earlier }
    }

    /// Reduces the budget of a question of `tokens`, shows fewer images, and compacts the chat.
    async fn shorten(
        &mut self,
        agent: &Agent,
        turn: &mut ClaimedTurn,
        scope: &Scope<'_>,
        tokens: u32,
    ) -> Result<(), TurnError> {
        self.images.halve();
        let budget = share(self.policy.token_budget.min(tokens));
        self.policy.token_budget = budget;
        (self.unanswered_budget, self.request_tokens) = (budget, budget);
        self.offered.fit(budget);
        // The context of a paused reply is not compacted for it, but for the next turn.
        if let Scope::New { read_from } = scope
            && compact_or_continue(agent, &mut turn.lease, &turn.records, Why::TooLong { budget }).await?
        {
            reread(agent, turn, read_from.as_ref()).await?;
        }
        Ok(())
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a u32 is one")]
fn share(tokens: u32) -> u32 {
    (f64::from(tokens) * SHORTER) as u32
}
