//! How a stored reply goes out: what has not been sent of it, through its door, until it is taken or refused for good.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use annals_shared::approval;
use annals_shared::chat_key::ChatKey;
use annals_shared::delivery::{Asked, DeliveryError, Parcel, Progress, Step};
use annals_shared::history::turn::{OpenTurn, Reached, Superseded};
use annals_shared::message::{Role, UiMessage};
use annals_shared::metrics::Metric;
use annals_shared::record::{Channel, DeliveryFailure, Record};
use annals_shared::sort_key::Timestamp;

use crate::pacing::Delivery;
use crate::signs::Signs;
use crate::turn::{Agent, TurnError};
use crate::work::Work;

/// How long a group that refused a message is not sent another.
const BLOCKED_GROUP_PAUSE: Duration = Duration::from_hours(1);

impl Agent {
    /// Sends what has not been sent of `reply`. Ends delivery for good where the platform refuses it, or has not
    /// taken it for too long, and notes why on the reply.
    #[tracing::instrument(skip_all)]
    pub(crate) async fn deliver(
        &self,
        work: &Work,
        reply: &Record,
        delivery: Delivery,
        signs: &Signs,
    ) -> Result<Reached, TurnError> {
        let to = work.newest_covered()?;
        if !self.deliverer.reaches(to.channel) {
            return Ok(Reached::Unknown);
        }
        if let Some(blocked) = self.blocked(work, to) {
            self.history.note_delivery_failure(reply, blocked).await?;
            return Ok(Reached::Unknown);
        }
        let shown = work.resumption.as_ref().map_or(0, |resumption| resumption.shown_parts);
        let (text, buttons) = (text_behind(&reply.message, shown), buttons(reply));
        if text.is_empty() && buttons.is_empty() {
            // A reply that a `/stop` has ended while it waited.
            return Ok(Reached::Unknown);
        }
        let mut parcel =
            Parcel { to, key: &reply.key, text: &text, ts: reply.sent_at, moved_to: None, buttons: &buttons };
        let mut sent = work.turn.sent;
        let is_superseded = &AtomicBool::new(false);
        let first = sent;
        let progress: &Progress<'_> = &|step| {
            Box::pin(async move {
                match step {
                    Step::Next { piece, is_last } => {
                        if piece == first || is_last {
                            signs.sending();
                        }
                        Ok(())
                    }
                    Step::Sent { pieces } => self.note_progress(work, pieces, is_superseded).await,
                }
            })
        };
        loop {
            let failure = match self.deliverer.deliver(parcel, sent, progress).await {
                Ok(()) => {
                    self.metrics.count(Metric::Deliveries, to.channel);
                    let was_blocked = work.lease.head.blocked.is_some();
                    return Ok(if was_blocked { Reached::Yes } else { Reached::Unknown });
                }
                // Nothing is wrong with the platform: the rest is no longer this run's to send.
                Err(_) if is_superseded.load(Ordering::Relaxed) => return Err(Superseded.into()),
                Err(DeliveryError::Moved { to: moved_to }) if parcel.moved_to.is_none() => {
                    let new = ChatKey::telegram(moved_to, None);
                    self.history.rename(&work.lease.chat, &new, self.clock.now()).await?;
                    parcel.moved_to = Some(moved_to);
                    sent = 0;
                    continue;
                }
                Err(error @ DeliveryError::Unavailable { .. }) if !delivery.ends_sending() => {
                    return Err(TurnError::Delivery(error));
                }
                Err(error) => error,
            };
            self.metrics.count(Metric::DeliveryFailures, to.channel);
            tracing::error!(error = %failure, "a reply is stored but not delivered");
            let noted = DeliveryFailure { reason: failure.to_string(), at: self.clock.now() };
            self.history.note_delivery_failure(reply, &noted).await?;
            let blocked = matches!(failure, DeliveryError::Blocked { .. });
            return Ok(if blocked { Reached::No(noted) } else { Reached::Unknown });
        }
    }

    /// Notes how many pieces of the reply have been sent, so that a crash goes on behind them.
    async fn note_progress(
        &self,
        work: &Work,
        sent: usize,
        is_superseded: &AtomicBool,
    ) -> Result<(), DeliveryError> {
        let turn = OpenTurn { sent, ..work.turn.clone() };
        let reason = match self.history.commit(&work.lease, &turn).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(superseded)) => {
                is_superseded.store(true, Ordering::Relaxed);
                superseded.to_string()
            }
            Err(error) => error.to_string(),
        };
        Err(DeliveryError::Unavailable { reason })
    }

    /// Why the platform takes nothing for the chat of `to`, as far as is known.
    pub(crate) fn blocked<'a>(&self, work: &'a Work, to: &Record) -> Option<&'a DeliveryFailure> {
        work.lease.head.blocked.as_ref().filter(|blocked| still_blocked(blocked, to, self.clock.now()))
    }
}

/// What people are to read of a reply behind its first `shown` parts, and what they are asked.
fn text_behind(message: &UiMessage, shown: usize) -> String {
    let new = message.parts.iter().skip(shown).cloned().collect();
    let said = UiMessage::new("", Role::Assistant, new).plain_text();
    let said = Some(said).filter(|said| !said.is_empty());
    said.into_iter().chain(approval::question(message)).collect::<Vec<_>>().join("\n\n")
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
