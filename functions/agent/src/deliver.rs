//! Delivery of a stored reply: its unsent pieces go through its channel until the platform takes them or refuses for good.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use annals_channel::delivery::{DeliveryError, OutgoingReply, Progress, RequestedCall, SendStep};
use annals_channel::rate_limit::RateLimit;
use annals_core::approval;
use annals_core::language::Language;
use annals_core::message::{Role, UiMessage};
use annals_core::metadata::Notice;
use annals_core::record::{DeliveryFailure, Record};
use annals_core::sort_key::Timestamp;
use annals_core::trace::Step;
use annals_io::metrics::Metric;
use annals_io::recorder::Timing;
use annals_store::history::turn::{Blocked, OpenTurn, Reached};

use crate::agent::Agent;
use crate::error::TurnError;
use crate::run::Run;
use crate::task::ClaimedTurn;

/// Time after a group refused a message before it is sent another.
const BLOCKED_GROUP_PAUSE: Duration = Duration::from_hours(1);

/// Sends the parts of `reply` after the first `shown_parts`, except the pieces that have been sent, as fast as the chat's
/// rate limit allows; another run sends what cannot go out in the time of this one. Gives up if the platform refuses the reply,
/// or has been unavailable for too long, and records the reason on the reply. Also returns when the chat may be sent more: see
/// `Head::paced`.
#[tracing::instrument(skip_all)]
pub(crate) async fn deliver(
    agent: &Agent,
    run: &Run<'_>,
    turn: &ClaimedTurn,
    reply: &Record,
    shown_parts: usize,
) -> Result<(Reached, Option<Timestamp>), TurnError> {
    let (to, head) = (&turn.newest, &turn.lease.head);
    if !agent.deliverer.reaches(to.channel) {
        return Ok((Reached::Unknown, None));
    }
    if let Some(blocked) = head.blocked.as_ref().filter(|blocked| still_blocked(agent, blocked, to)) {
        agent.history.note_delivery_failure(&reply.chat, &reply.key, &blocked.failure).await?;
        return Ok((Reached::Unknown, None));
    }
    // Each date of a schedule would send it again. It is in the history.
    if to.due().is_some_and(|due| due.recurs) && reply.message.metadata.notice() == Some(Notice::LimitReached)
    {
        return Ok((Reached::Unknown, None));
    }
    let language = turn.language(agent.language);
    let (mut text, buttons) = (text_after(&reply.message, shown_parts), buttons(reply, language));
    if reply.message.metadata.is_stopped() && !text.is_empty() {
        text = format!("{}\n\n{}", text.trim_end(), language.texts().stopped_here());
    }
    let question = approval::question(&reply.message, language.texts()).unwrap_or_default();
    if text.is_empty() && buttons.is_empty() {
        // A `/stop` has ended the reply while it waited.
        return Ok((Reached::Unknown, None));
    }
    let outgoing = OutgoingReply {
        to,
        key: &reply.key,
        text: &text,
        question: &question,
        ts: reply.sent_at,
        moved_to: None,
        survives_recall: turn.turn.covers.len() > 1 || to.sent_to().is_some(),
        requests: &buttons,
    };
    let sending = &Sending::new(agent, run, turn);
    let progress: &Progress<'_> = &|step| Box::pin(sending.step(step));
    let mut delivered = agent.deliverer.deliver(outgoing, turn.turn.sent, progress).await;
    if let Err(DeliveryError::Moved { chat, chat_id }) = delivered {
        agent.history.rename(&turn.lease.chat, &chat, agent.clock.now()).await?;
        let outgoing = OutgoingReply { moved_to: Some(&chat_id), ..outgoing };
        delivered = agent.deliverer.deliver(outgoing, 0, progress).await;
    }
    let mut piece = sending.state().piece.take();
    if let Some(piece) = piece.as_mut().filter(|_| delivered.is_err()) {
        piece.failed("failed");
    }
    drop(piece);
    let Err(failure) = delivered else {
        agent.metrics.count(Metric::Deliveries, to.channel);
        let was_blocked = head.blocked.as_ref().is_some_and(|blocked| concerns(agent, blocked, to));
        let reached = if was_blocked { Reached::Yes } else { Reached::Unknown };
        return Ok((reached, sending.sent()));
    };
    let end = sending.state().end.take();
    if let Some(end) = end {
        // The platform has not failed: another run sends the rest.
        return Err(end);
    }
    if matches!(failure, DeliveryError::Unavailable { .. }) && !run.attempt.ends_sending() {
        return Err(TurnError::Delivery(failure));
    }
    agent.metrics.count(Metric::DeliveryFailures, to.channel);
    tracing::error!(error = %failure, "failed to deliver a stored reply; it is given up");
    let noted = DeliveryFailure { reason: failure.to_string(), at: agent.clock.now() };
    agent.history.note_delivery_failure(&reply.chat, &reply.key, &noted).await?;
    let reached = if matches!(failure, DeliveryError::Blocked { .. }) {
        let (channel, chat_id) = (Some(to.channel), Some(to.chat_id.clone()));
        Reached::No(Blocked { failure: noted, channel, chat_id })
    } else {
        Reached::Unknown
    };
    let paid = sending.state().paid;
    Ok((reached, paid))
}

/// A reply that is being sent, piece by piece.
struct Sending<'a> {
    agent: &'a Agent,
    run: &'a Run<'a>,
    turn: &'a ClaimedTurn,
    rate_limit: Option<RateLimit>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Time at which the rate limit has recovered from all pieces so far.
    paid: Option<Timestamp>,
    /// True once this run has come to a piece.
    has_begun: bool,
    /// The reason why this run sends no more.
    end: Option<TurnError>,
    piece: Option<Timing>,
}

impl<'a> Sending<'a> {
    fn new(agent: &'a Agent, run: &'a Run<'a>, turn: &'a ClaimedTurn) -> Self {
        let rate_limit = agent.deliverer.rate_limit(&turn.newest);
        let paid =
            rate_limit.and_then(|rate_limit| rate_limit.believed(turn.lease.head.paced, agent.clock.now()));
        let state = Mutex::new(State { paid, ..State::default() });
        Self { agent, run, turn, rate_limit, state }
    }

    async fn step(&self, step: SendStep) -> Result<(), DeliveryError> {
        match step {
            SendStep::Next { is_last } => self.wait(is_last).await,
            SendStep::Sent { pieces } => self.note(pieces).await,
        }
    }

    /// Waits until the rate limit allows another piece.
    async fn wait(&self, is_last: bool) -> Result<(), DeliveryError> {
        let now = self.agent.clock.now();
        let wait =
            self.rate_limit.map(|rate_limit| rate_limit.wait(self.state().paid, now)).unwrap_or_default();
        if !wait.is_zero() && now.plus(wait) > self.run.send_until() {
            return self.end(TurnError::Unfinished);
        }
        self.agent.clock.sleep(wait).await;
        let is_first = !std::mem::replace(&mut self.state().has_begun, true);
        if is_first || is_last {
            self.run.typing.sending();
        }
        self.state().piece = Some(self.agent.recorder.begin(Step::Piece));
        Ok(())
    }

    /// Stores how many pieces of the reply have been sent, so that the run after a crash continues after them.
    async fn note(&self, sent: usize) -> Result<(), DeliveryError> {
        self.state().piece = None;
        let paced = self.sent();
        let turn = OpenTurn { sent, ..self.turn.turn.clone() };
        let noted = self.agent.history.note_sent(&self.turn.lease, &turn, paced).await;
        noted.or_else(|error| self.end(error.into()))
    }

    /// Counts a piece as sent; returns the time at which the rate limit has recovered. By the end of the request, since the
    /// time at which Telegram took it is not known.
    fn sent(&self) -> Option<Timestamp> {
        let mut state = self.state();
        state.paid = self.rate_limit.map(|rate_limit| rate_limit.paid(state.paid, self.agent.clock.now()));
        state.paid
    }

    fn end(&self, end: TurnError) -> Result<(), DeliveryError> {
        let reason = end.to_string();
        self.state().end = Some(end);
        Err(DeliveryError::Unavailable { reason })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the text of a reply after its first `shown` parts.
fn text_after(message: &UiMessage, shown: usize) -> String {
    let new = message.parts.iter().skip(shown).cloned().collect();
    UiMessage::new("", Role::Assistant, new).plain_text()
}

/// Returns the buttons by which people approve or deny the calls of `reply`.
fn buttons(reply: &Record, language: Language) -> Vec<RequestedCall> {
    let requests = approval::requests(&reply.message);
    let numbered = requests.len() > 1;
    let open = requests.into_iter().filter(|request| request.is_open);
    open.map(|request| RequestedCall {
        number: numbered.then_some(request.number),
        tool: request.tool,
        id: request.id,
        base: reply.key.base(),
        language,
    })
    .collect()
}

/// Returns true if an earlier refusal still holds: see [`Platform::is_heard_when_blocked`].
pub(crate) fn still_blocked(agent: &Agent, blocked: &Blocked, to: &Record) -> bool {
    let at = blocked.failure.at;
    if !concerns(agent, blocked, to) {
        false
    } else if agent.deliverer.platform(to).is_some_and(|platform| platform.is_heard_when_blocked(to)) {
        agent.clock.now().since(at) < BLOCKED_GROUP_PAUSE
    } else {
        to.ts <= at
    }
}

/// Returns true if a refusal is about the window of `to`, and no token gives permission to answer there.
fn concerns(agent: &Agent, blocked: &Blocked, to: &Record) -> bool {
    let may_answer = to.reply_token().is_some_and(|token| token.at(agent.clock.now()).is_some());
    blocked.concerns(to) && !may_answer
}
