//! One turn of one chat: claim it, see what is unanswered, ask the model once for all of it, append the reply,
//! deliver it, finish.
//!
//! A crash between any two steps leaves either nothing (the next run starts anew), or a committed turn, which the next
//! run finishes first: with the same messages covered, so with the same key of the reply, and from the piece on that
//! was not delivered. Why no message is answered twice in the history is written in `annals_shared::history::turn`.

use std::collections::HashSet;
use std::time::Duration;

use annals_shared::chat_key::ChatKey;
use annals_shared::clock::Clock;
use annals_shared::config::ViewConfig;
use annals_shared::context::Policy;
use annals_shared::delivery::{Deliverer, DeliveryError, Parcel, Progress};
use annals_shared::history::turn::{Claim, Ending, Lease, OpenTurn, Reached, Superseded};
use annals_shared::history::{History, HistoryError, Reply, ReplyAppended, Seen};
use annals_shared::message::{Role, UiMessage};
use annals_shared::model::{Answer, Model, ModelError, Question};
use annals_shared::record::{Channel, DeliveryFailure, Kind, Record};
use annals_shared::sort_key::{SortKey, Timestamp};
use annals_shared::tokens;

use crate::pacing::Delivery;
use crate::surroundings::Surroundings;
use crate::work::{Work, covered_by_one_turn};

/// How often a run asks the model before it leaves the turn to the queue's redelivery.
const MODEL_TRIES: u32 = 3;
/// The pause behind the first failed try; each later one is twice as long.
const MODEL_BACKOFF: Duration = Duration::from_millis(500);
/// The longest pause that a provider's `Retry-After` gets within a run.
const MODEL_PATIENCE: Duration = Duration::from_secs(8);
/// How long a run may ask the model in all, so that it still ends well within the function's five minutes.
const MODEL_DEADLINE: Duration = Duration::from_mins(3);
/// How often the typing indicator is shown again: Telegram's lasts five seconds.
const TYPING_INTERVAL: Duration = Duration::from_secs(4);
/// How long an album must have been quiet before it is answered: its items are separate webhooks.
const ALBUM_QUIET: Duration = Duration::from_millis(1500);
/// How long a group that refused a message is not sent another.
const BLOCKED_GROUP_PAUSE: Duration = Duration::from_hours(1);
/// What the user is told when no answer can be made.
const FAILURE_NOTICE: &str =
    "Sorry, I could not answer that: the model is not available at the moment. Please ask again later.";

/// Answers chats.
#[derive(Clone)]
pub struct Agent {
    /// The histories.
    pub history: History,
    /// What answers.
    pub model: Model,
    /// Where replies go.
    pub deliverer: Deliverer,
    /// What fetches the messages around those of Lark groups, where that is set up.
    pub surroundings: Option<Surroundings>,
    /// What decides a context.
    pub view: ViewConfig,
    /// `SYSTEM_PROMPT`
    pub system_prompt: Option<String>,
    /// `AGENT_ID`: who speaks in replies.
    pub agent_id: String,
    /// How long one run may hold a chat: as long as the process can live at most.
    pub lease: Duration,
    /// The time.
    pub clock: Clock,
}

/// A turn is not done; delivered again, it goes on.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// The history could not be read or written.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The model gave no answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The reply is stored, but not delivered.
    #[error("the reply is stored but not delivered: {0}")]
    Delivery(DeliveryError),
    /// Another run has the chat.
    #[error("another run has this chat until {until} (epoch milliseconds)")]
    Busy {
        /// When its lease runs out.
        until: Timestamp,
    },
    /// Another run took the chat over.
    #[error(transparent)]
    Superseded(#[from] Superseded),
}

impl TurnError {
    /// How long to wait before the turn is tried again: where another run has the chat, until its lease is over.
    pub fn retry_after(&self, now: Timestamp, delivery: Delivery) -> Duration {
        match self {
            Self::Busy { until } => delivery.pause().max(until.since(now) + Duration::from_secs(1)),
            _ => delivery.pause(),
        }
    }
}

/// What one run did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    /// Answered what was unanswered when it looked, or found nothing.
    All,
    /// Finished one turn; there may be more.
    Some,
}

impl Agent {
    /// Answers what is unanswered in `chat`, seen from `from` (the earliest message that the queue named), on the
    /// queue's delivery `number` of the turn.
    pub async fn run(
        &self,
        chat: &ChatKey,
        from: Option<&SortKey>,
        delivery: Delivery,
    ) -> Result<(), TurnError> {
        loop {
            let lease = match self.history.claim(chat, self.lease).await? {
                Claim::Claimed(lease) => lease,
                Claim::Busy(until) => return Err(TurnError::Busy { until }),
            };
            match self.run_claimed(&lease, from, delivery).await {
                Ok(Done::All) => return Ok(()),
                Ok(Done::Some) => {}
                Err(error) => {
                    // Without this the redelivery would wait for the lease to run out.
                    if !matches!(error, TurnError::Superseded(_)) {
                        drop(self.history.release(&lease).await);
                    }
                    return Err(error);
                }
            }
        }
    }

    async fn run_claimed(
        &self,
        lease: &Lease,
        from: Option<&SortKey>,
        delivery: Delivery,
    ) -> Result<Done, TurnError> {
        let Some(mut work) = self.look(lease, from).await? else {
            self.history.release(lease).await??;
            return Ok(Done::All);
        };
        let done = if work.leaves_more { Done::Some } else { Done::All };
        let reply = match work.stored_reply() {
            Some(reply) => reply.clone(),
            None => self.answer(&mut work, delivery).await?,
        };
        let reached = self.deliver(&work, &reply, delivery).await?;
        let ending = Ending { context_from: work.reaches_back_to, reached };
        self.history.finish(lease, &ending).await??;
        Ok(done)
    }

    /// What there is to do: a committed turn first, else what is unanswered.
    async fn look<'a>(
        &self,
        lease: &'a Lease,
        from: Option<&SortKey>,
    ) -> Result<Option<Work<'a>>, TurnError> {
        let committed = lease.head.turn.clone();
        let first_covered = committed.as_ref().and_then(|turn| turn.covers.first());
        let from = [from, first_covered].into_iter().flatten().min();
        let mut surroundings = self.surroundings.as_ref().filter(|_| committed.is_none());
        loop {
            let seen = self.history.context(&lease.chat, &lease.head, from, &self.policy()).await?;
            if let Some(surroundings) = surroundings.take()
                && surroundings.append(&self.history, &seen).await?
            {
                continue;
            }
            let Seen { records, context } = seen;
            let reaches_back_to = context.reaches_back_to;
            let Some(turn) = committed.clone() else {
                if context.unanswered.is_empty() {
                    return Ok(None);
                }
                if let Some(pause) = self.album_pause(&records, &context.unanswered) {
                    self.clock.sleep(pause).await;
                    continue;
                }
                let all = context.unanswered.len();
                let covers = covered_by_one_turn(&records, context.unanswered);
                let leaves_more = covers.len() < all || context.others_wait;
                let turn = OpenTurn { covers, sent: 0 };
                return Ok(Some(Work {
                    lease,
                    records,
                    turn,
                    committed: false,
                    leaves_more,
                    reaches_back_to,
                }));
            };
            return Ok(Some(Work {
                lease,
                records,
                turn,
                committed: true,
                leaves_more: true,
                reaches_back_to,
            }));
        }
    }

    /// How long to wait for further items of an album, if one is among the unanswered and has only just arrived.
    fn album_pause(&self, records: &[Record], unanswered: &[SortKey]) -> Option<Duration> {
        let unanswered: HashSet<&SortKey> = unanswered.iter().collect();
        let newest = records
            .iter()
            .filter(|record| record.album.is_some() && unanswered.contains(&record.key.base()))
            .map(|record| record.sent_at)
            .max()?;
        let quiet_at = newest.plus(ALBUM_QUIET);
        let now = self.clock.now();
        (quiet_at > now).then(|| quiet_at.since(now))
    }

    fn policy(&self) -> Policy {
        self.view.policy(self.system_prompt.as_deref().map_or(0, tokens::of_text))
    }

    /// Asks the model, commits, and appends the reply, or on the last try a notice that there is none.
    async fn answer(&self, work: &mut Work<'_>, delivery: Delivery) -> Result<Record, TurnError> {
        let newest = work.newest_covered()?.clone();
        let seen = work.seen(self.clock.now(), &self.policy());
        let question = Question {
            system: self.system_prompt.as_deref(),
            messages: &seen.messages,
            unanswered: seen.unanswered.len(),
            group: newest.is_group(),
            tools: &[],
            steps: &[],
        };
        let answered = tokio::select! {
            answered = self.ask(question) => answered,
            () = self.keep_typing(work, &newest) => Err(ModelError::Empty),
        };
        let (kind, message) = match answered {
            Ok(answer) => (Kind::Normal, message_of(answer)),
            Err(error) if delivery.ends_asking() => {
                tracing::error!(chat = %work.lease.chat.session_id(), %error, "no answer after the last try; the user is told");
                (Kind::Notice, UiMessage::text("", Role::Assistant, FAILURE_NOTICE))
            }
            Err(error) => return Err(error.into()),
        };
        if !work.committed {
            self.history.commit(work.lease, &work.turn).await??;
            work.committed = true;
        }
        let mut message = message;
        newest.copy_line_to(&mut message.metadata);
        let reply = Reply {
            kind,
            channel: newest.channel,
            chat_id: newest.chat_id.clone(),
            agent_id: self.agent_id.clone(),
            message,
            behind: newest.key.base(),
            behind_id: newest.message_id.clone(),
            covers: work.turn.covers.clone(),
        };
        match self.history.append_reply(&work.lease.chat, reply).await? {
            ReplyAppended::Stored(reply) => Ok(reply),
            ReplyAppended::Present(reply) => {
                // Another run got there first. Only the one that still has the chat sends the reply.
                self.history.commit(work.lease, &work.turn).await??;
                Ok(reply)
            }
        }
    }

    /// Asks until there is an answer, or the tries or the time are used up.
    async fn ask(&self, question: Question<'_>) -> Result<Answer, ModelError> {
        tokio::select! {
            answered = self.ask_repeatedly(question) => answered,
            () = self.clock.sleep(MODEL_DEADLINE) => Err(ModelError::Unreachable("timed out")),
        }
    }

    async fn ask_repeatedly(&self, question: Question<'_>) -> Result<Answer, ModelError> {
        let mut backoff = MODEL_BACKOFF;
        let mut tries = 1;
        loop {
            match self.model.answer(question).await {
                Err(error) if tries < MODEL_TRIES => {
                    tracing::warn!(%error, tries, "the model gave no answer; asking again");
                    let pause = error.retry_after().unwrap_or_default().max(backoff).min(MODEL_PATIENCE);
                    self.clock.sleep(pause).await;
                    backoff *= 2;
                    tries += 1;
                }
                answered => return answered,
            }
        }
    }

    /// Shows the typing indicator for as long as it is polled, where the platform takes anything for the chat.
    async fn keep_typing(&self, work: &Work<'_>, to: &Record) {
        loop {
            if self.blocked(work, to).is_none() {
                self.deliverer.show_typing(to).await;
            }
            self.clock.sleep(TYPING_INTERVAL).await;
        }
    }

    /// Why the platform takes nothing for the chat of `to`, as far as is known.
    fn blocked<'a>(&self, work: &Work<'a>, to: &Record) -> Option<&'a DeliveryFailure> {
        let lease: &'a Lease = work.lease;
        lease.head.blocked.as_ref().filter(|blocked| still_blocked(blocked, to, self.clock.now()))
    }

    /// Sends what has not been sent of `reply`. Ends delivery for good where the platform refuses it, or has not
    /// taken it for too long, and notes why on the reply.
    async fn deliver(
        &self,
        work: &Work<'_>,
        reply: &Record,
        delivery: Delivery,
    ) -> Result<Reached, TurnError> {
        let to = work.newest_covered()?;
        if !self.deliverer.reaches(to.channel) {
            return Ok(Reached::Unknown);
        }
        if let Some(blocked) = self.blocked(work, to) {
            self.history.note_delivery_failure(reply, blocked).await?;
            return Ok(Reached::Unknown);
        }
        let text = reply.message.plain_text();
        let mut parcel = Parcel { to, key: &reply.key, text: &text, ts: reply.sent_at, moved_to: None };
        let mut sent = work.turn.sent;
        let progress: &Progress<'_> = &|pieces| Box::pin(self.note_progress(work, pieces));
        loop {
            let failure = match self.deliverer.deliver(parcel, sent, progress).await {
                Ok(()) if work.lease.head.blocked.is_some() => return Ok(Reached::Yes),
                Ok(()) => return Ok(Reached::Unknown),
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
            tracing::error!(chat = %work.lease.chat.session_id(), error = %failure, "a reply is stored but not delivered");
            let noted = DeliveryFailure { reason: failure.to_string(), at: self.clock.now() };
            self.history.note_delivery_failure(reply, &noted).await?;
            let blocked = matches!(failure, DeliveryError::Blocked { .. });
            return Ok(if blocked { Reached::No(noted) } else { Reached::Unknown });
        }
    }
}

impl Agent {
    /// Notes how many pieces of the reply have been sent, so that a crash goes on behind them.
    async fn note_progress(&self, work: &Work<'_>, sent: usize) -> Result<(), DeliveryError> {
        let turn = OpenTurn { sent, ..work.turn.clone() };
        let reason = match self.history.commit(work.lease, &turn).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(superseded)) => superseded.to_string(),
            Err(error) => error.to_string(),
        };
        Err(DeliveryError::Unavailable { reason })
    }
}

fn message_of(answer: Answer) -> UiMessage {
    let mut message = UiMessage::text("", Role::Assistant, answer.text);
    if let Some(usage) = answer.usage
        && let Ok(usage) = serde_json::to_value(usage)
    {
        message.metadata.insert("usage".into(), usage);
    }
    message
}

/// Whether a refusal is still believed. Who writes again, or mentions the bot in a Lark group, has let it in again. A
/// Telegram group goes on being heard where the bot may not write, and says in an update of its own when it may again;
/// but that update names the group and not its topics, and may be missed, so now and then the platform is asked again.
fn still_blocked(blocked: &DeliveryFailure, to: &Record, now: Timestamp) -> bool {
    if to.channel == Channel::Telegram && to.is_group() {
        now.since(blocked.at) < BLOCKED_GROUP_PAUSE
    } else {
        to.ts <= blocked.at
    }
}
