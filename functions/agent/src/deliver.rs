//! How a stored reply goes out: what has not been sent of it, through its door, until it is taken or refused for good.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use annals_shared::approval;
use annals_shared::chat_key::ChatKey;
use annals_shared::delivery::{Asked, DeliveryError, Parcel, Progress, Step};
use annals_shared::history::turn::{OpenTurn, Reached};
use annals_shared::message::{Role, UiMessage};
use annals_shared::metrics::Metric;
use annals_shared::pace::Pace;
use annals_shared::record::{Channel, DeliveryFailure, Record};
use annals_shared::sort_key::Timestamp;

use crate::retry::Attempt;
use crate::signs::Signs;
use crate::turn::{Agent, TurnError};
use crate::work::Work;

/// How long a group that refused a message is not sent another.
const BLOCKED_GROUP_PAUSE: Duration = Duration::from_hours(1);

impl Agent {
    /// Sends what has not been sent of `reply`, as fast as its chat may be sent messages; what cannot go out before
    /// `until` is left to another run. Ends delivery for good where the platform refuses it, or has not taken it for too
    /// long, and notes why on the reply. Answers also with when the chat may be sent more: see `Head::paced`.
    #[tracing::instrument(skip_all)]
    pub(crate) async fn deliver(
        &self,
        work: &Work,
        reply: &Record,
        attempt: Attempt,
        until: Timestamp,
        signs: &Signs,
    ) -> Result<(Reached, Option<Timestamp>), TurnError> {
        let to = work.newest_covered()?;
        if !self.deliverer.reaches(to.channel) {
            return Ok((Reached::Unknown, None));
        }
        if let Some(blocked) = self.blocked(work, to) {
            self.history.note_delivery_failure(reply, blocked).await?;
            return Ok((Reached::Unknown, None));
        }
        let shown = work.resumption.as_ref().map_or(0, |resumption| resumption.shown_parts);
        let (text, buttons) = (text_behind(&reply.message, shown), buttons(reply));
        let question = approval::question(&reply.message).unwrap_or_default();
        if text.is_empty() && buttons.is_empty() {
            // A reply that a `/stop` has ended while it waited.
            return Ok((Reached::Unknown, None));
        }
        let mut parcel = Parcel {
            to,
            key: &reply.key,
            text: &text,
            question: &question,
            ts: reply.sent_at,
            moved_to: None,
            buttons: &buttons,
        };
        let mut sent = work.turn.sent;
        let way = &Way::new(self, work, to, until, signs);
        let progress: &Progress<'_> = &|step| Box::pin(way.step(step));
        loop {
            let failure = match self.deliverer.deliver(parcel, sent, progress).await {
                Ok(()) => {
                    self.metrics.count(Metric::Deliveries, to.channel);
                    let was_blocked = work.lease.head.blocked.is_some();
                    return Ok((if was_blocked { Reached::Yes } else { Reached::Unknown }, way.sent()));
                }
                Err(error) => match way.take_end() {
                    // Nothing is wrong with the platform: the rest is not this run's to send.
                    Some(end) => return Err(end),
                    None => error,
                },
            };
            let failure = match failure {
                DeliveryError::Moved { to: moved_to } if parcel.moved_to.is_none() => {
                    let new = ChatKey::telegram(moved_to, None);
                    self.history.rename(&work.lease.chat, &new, self.clock.now()).await?;
                    parcel.moved_to = Some(moved_to);
                    sent = 0;
                    continue;
                }
                error @ DeliveryError::Unavailable { .. } if !attempt.ends_sending() => {
                    return Err(TurnError::Delivery(error));
                }
                error => error,
            };
            self.metrics.count(Metric::DeliveryFailures, to.channel);
            tracing::error!(error = %failure, "a reply is stored but not delivered");
            let noted = DeliveryFailure { reason: failure.to_string(), at: self.clock.now() };
            self.history.note_delivery_failure(reply, &noted).await?;
            let blocked = matches!(failure, DeliveryError::Blocked { .. });
            return Ok((if blocked { Reached::No(noted) } else { Reached::Unknown }, way.paid()));
        }
    }

    /// Why the platform takes nothing for the chat of `to`, as far as is known.
    pub(crate) fn blocked<'a>(&self, work: &'a Work, to: &Record) -> Option<&'a DeliveryFailure> {
        work.lease.head.blocked.as_ref().filter(|blocked| still_blocked(blocked, to, self.clock.now()))
    }
}

/// The way of a reply out, piece by piece.
struct Way<'a> {
    agent: &'a Agent,
    work: &'a Work,
    pace: Option<Pace>,
    until: Timestamp,
    signs: &'a Signs,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When all that was sent is paid for.
    paid: Option<Timestamp>,
    /// Whether this run has come to a piece.
    has_begun: bool,
    /// Why the run ends where it is.
    end: Option<TurnError>,
}

impl<'a> Way<'a> {
    fn new(agent: &'a Agent, work: &'a Work, to: &Record, until: Timestamp, signs: &'a Signs) -> Self {
        let pace = agent.deliverer.pace(to);
        let paid = pace.and_then(|pace| pace.believed(work.lease.head.paced, agent.clock.now()));
        let state = Mutex::new(State { paid, ..State::default() });
        Self { agent, work, pace, until, signs, state }
    }

    async fn step(&self, step: Step) -> Result<(), DeliveryError> {
        match step {
            Step::Next { is_last, .. } => self.wait(is_last).await,
            Step::Sent { pieces } => self.note(pieces).await,
        }
    }

    /// Waits until the chat may be sent another piece.
    async fn wait(&self, is_last: bool) -> Result<(), DeliveryError> {
        let now = self.agent.clock.now();
        let wait = self.pace.map(|pace| pace.wait(self.state().paid, now)).unwrap_or_default();
        if !wait.is_zero() && now.plus(wait) > self.until {
            return self.end(TurnError::Unfinished);
        }
        self.agent.clock.sleep(wait).await;
        let is_first = !std::mem::replace(&mut self.state().has_begun, true);
        if is_first || is_last {
            self.signs.sending();
        }
        Ok(())
    }

    /// Notes how many pieces of the reply have been sent, so that a crash goes on behind them.
    async fn note(&self, sent: usize) -> Result<(), DeliveryError> {
        let paced = self.sent();
        let turn = OpenTurn { sent, ..self.work.turn.clone() };
        match self.agent.history.note_sent(&self.work.lease, &turn, paced).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(superseded)) => self.end(superseded.into()),
            Err(error) => Err(DeliveryError::Unavailable { reason: error.to_string() }),
        }
    }

    /// A piece is sent: when all is paid for. By its end, since when Telegram took it is between.
    fn sent(&self) -> Option<Timestamp> {
        let mut state = self.state();
        state.paid = self.pace.map(|pace| pace.paid(state.paid, self.agent.clock.now()));
        state.paid
    }

    fn paid(&self) -> Option<Timestamp> {
        self.state().paid
    }

    fn end(&self, end: TurnError) -> Result<(), DeliveryError> {
        let reason = end.to_string();
        self.state().end = Some(end);
        Err(DeliveryError::Unavailable { reason })
    }

    fn take_end(&self) -> Option<TurnError> {
        self.state().end.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what a reply says after its first `shown` parts.
fn text_behind(message: &UiMessage, shown: usize) -> String {
    let new = message.parts.iter().skip(shown).cloned().collect();
    UiMessage::new("", Role::Assistant, new).plain_text()
}

/// What people are asked to allow.
fn buttons(reply: &Record) -> Vec<Asked> {
    let requests = approval::requests(&reply.message);
    let numbered = requests.len() > 1;
    let open = requests.into_iter().filter(|request| request.is_open);
    open.map(|request| Asked {
        number: numbered.then_some(request.number),
        tool: request.tool,
        id: request.id,
        base: reply.key.base(),
    })
    .collect()
}

/// Whether a refusal is still believed. Who writes again, or mentions the bot in a Lark group, has let it in again. A
/// Telegram group goes on being heard where the bot may not write, and says in an update of its own when it may again;
/// but that update names the group and not its topics, and may be missed, so now and then the platform is asked again.
pub(crate) fn still_blocked(blocked: &DeliveryFailure, to: &Record, now: Timestamp) -> bool {
    if to.channel == Channel::Telegram && to.is_group() {
        now.since(blocked.at) < BLOCKED_GROUP_PAUSE
    } else {
        to.ts <= blocked.at
    }
}
