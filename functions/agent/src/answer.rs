//! The answer of a turn: ask the model, within its window, and append what it says.

use std::time::Duration;

use annals_shared::compaction::cut::Why;
use annals_shared::history::{Reply, ReplyAppended};
use annals_shared::live::Feed;
use annals_shared::message::{Part, Role, UiMessage};
use annals_shared::metrics::Metric;
use annals_shared::model::{Answer, Model, ModelError, Question};
use annals_shared::record::{Channel, Kind, Record};
use annals_shared::sort_key::Timestamp;
use annals_shared::tokens;

use crate::retry::Attempt;
use crate::rounds::Rounds;
use crate::sight::Sight;
use crate::tools::{self, Toolbox};
use crate::turn::{Agent, TurnError};
use crate::work::Work;

/// How often a run asks the model before it leaves the turn to the queue's redelivery.
const MODEL_TRIES: u32 = 3;
/// The pause behind the first failed try; each later one is twice as long.
const MODEL_BACKOFF: Duration = Duration::from_millis(500);
/// The longest pause that a provider's `Retry-After` gets within a run.
const MODEL_PATIENCE: Duration = Duration::from_secs(8);
/// How long a run may ask the model for one reply in all, summaries and tools among it. Less where the run has less: see
/// [`Agent::model_time`].
const MODEL_DEADLINE: Duration = Duration::from_secs(150);
/// What the user is told when no answer can be made.
pub const FAILURE_NOTICE: &str =
    "Sorry, I could not answer that: the model is not available at the moment. Please ask again later.";
/// What the user is told behind what was called, when the model says no more.
pub(crate) const UNFINISHED_NOTICE: &str =
    "Sorry, I could not finish this: the model is not available at the moment. Please ask again later.";
/// What the user is told when a `/compact` cannot be carried out.
pub const NOT_COMPACTED: &str = "Sorry, I could not compact this conversation: the model gave no usable summary. Nothing has \
                             changed. Please try again later.";
/// Why an answer is not waited for any longer.
const TIMED_OUT: ModelError = ModelError::Unreachable("timed out");
/// How often a turn whose context the model finds too long is tried with a shorter one.
const MAX_SQUEEZES: u32 = 3;
/// What share of a context that was too long is tried next.
const SQUEEZE: f64 = 0.6;

impl Agent {
    /// Asks the model, commits, and appends the reply, or on the last try a notice that there is none. The model has until
    /// `until`.
    pub(crate) async fn answer(
        &self,
        work: &mut Work,
        attempt: Attempt,
        until: Timestamp,
    ) -> Result<Record, TurnError> {
        let newest = work.newest_covered()?.clone();
        let is_command = work.is_compact_command();
        let (now, until) = self.model_time(until);
        let answered = if is_command {
            tokio::select! {
                told = self.compact_as_asked(&mut work.lease, &newest) => {
                    told.map(|text| (Kind::Notice, UiMessage::text("", Role::Assistant, text)))
                }
                () = self.clock.sleep(until.since(now)) => Err(TIMED_OUT.into()),
            }
        } else {
            let rounds = Rounds::new(now, until.since(now), &work.lease.chat, &newest.key.base().reply());
            let answered = self.ask_on(work, &newest, rounds, attempt, until).await;
            answered.map(|message| (Kind::Normal, message))
        };
        let mut is_given_up = false;
        let (kind, mut message) = match answered {
            Ok(answer) => answer,
            Err(error @ (TurnError::Model(_) | TurnError::Compaction(_))) if attempt.ends_asking() => {
                tracing::error!(%error, "no answer after the last try; the user is told");
                is_given_up = true;
                let notice = if is_command { NOT_COMPACTED } else { FAILURE_NOTICE };
                (Kind::Notice, UiMessage::text("", Role::Assistant, notice))
            }
            Err(error) => return Err(error),
        };
        newest.copy_line_to(&mut message.metadata);
        if kind == Kind::Normal && newest.channel == Channel::Web {
            begin_with_step(&mut message);
        }
        match self.put(work, &newest, kind, message).await? {
            ReplyAppended::Stored(reply) => {
                if is_given_up {
                    self.metrics.add(Metric::TurnsGivenUp, 1);
                }
                Ok(reply)
            }
            ReplyAppended::Present(reply) => {
                // Another run got there first. Only the one that still has the chat sends the reply.
                self.history.commit(&work.lease, &work.turn).await??;
                Ok(reply)
            }
        }
    }

    /// Commits to the turn, and puts its reply or notice.
    pub(crate) async fn put(
        &self,
        work: &mut Work,
        newest: &Record,
        kind: Kind,
        message: UiMessage,
    ) -> Result<ReplyAppended, TurnError> {
        if !work.is_committed {
            self.history.commit(&work.lease, &work.turn).await??;
            work.is_committed = true;
        }
        let reply = Reply {
            kind,
            channel: newest.channel,
            chat_id: newest.chat_id.clone(),
            agent_id: self.agent_id.clone(),
            message,
            behind: newest.key.base(),
            behind_id: newest.message_id.clone(),
            asked_at: Some(newest.sent_at),
            covers: work.turn.covers.clone(),
            covered_until: work.covered().map(|record| record.expires_at).collect(),
            revision: newest.replaces_from().map_or(0, |_| newest.revision),
        };
        Ok(self.history.append_reply(&work.lease.chat, reply).await?)
    }

    /// Now, and until when the model may be asked in a run that has until `until`.
    pub(crate) fn model_time(&self, until: Timestamp) -> (Timestamp, Timestamp) {
        let now = self.clock.now();
        (now, until.min(now.plus(MODEL_DEADLINE)))
    }

    /// Asks the model for what is missing of the reply that `rounds` are of, until `until` at most.
    ///
    /// Once something was called, a model that fails does not hand the turn back, since its repeat would call that again: it
    /// is asked on here, as often and with the same pauses as in the queue's deliveries. Where that does not help either,
    /// the reply holds what was called, and says that there is no more.
    pub(crate) async fn ask_on(
        &self,
        work: &mut Work,
        newest: &Record,
        mut rounds: Rounds,
        attempt: Attempt,
        until: Timestamp,
    ) -> Result<UiMessage, TurnError> {
        let mut asking = Asking::new(&self.model, self.clock.now(), until, work.feed.clone());
        let mut tries = attempt;
        let time_out = self.clock.sleep(until.since(self.clock.now()));
        tokio::pin!(time_out);
        loop {
            let (asked, is_late) = tokio::select! {
                // On the heap: it is a long way through.
                asked = Box::pin(self.ask_within_window(work, newest, &mut rounds, &mut asking)) => (asked, false),
                () = &mut time_out => (Err(TIMED_OUT.into()), true),
            };
            let error = match asked {
                Err(error @ (TurnError::Model(_) | TurnError::History(_))) if rounds.has_begun() => error,
                asked => return asked,
            };
            if is_late || tries.ends_asking() {
                tracing::error!(%error, "no more is said behind calls; the user is told");
                self.metrics.add(Metric::TurnsGivenUp, 1);
                return Ok(rounds.given_up(UNFINISHED_NOTICE));
            }
            tracing::warn!(%error, "no more is said behind calls; asking on");
            self.clock.sleep(tries.pause().min(until.since(self.clock.now()))).await;
            tries = tries.next();
        }
    }

    /// Asks the model with as much as it takes. Where it finds the context too long, by its own count, that is
    /// compacted and the same turn tried again; where that does not do either, more is left out.
    async fn ask_within_window(
        &self,
        work: &mut Work,
        newest: &Record,
        rounds: &mut Rounds,
        asking: &mut Asking<'_>,
    ) -> Result<UiMessage, TurnError> {
        let (notes, mut offered) = (work.notes(), work.tools.clone());
        let beside = tools::beside(notes.as_deref(), &offered);
        let (mut policy, mut squeezes) = (self.policy(beside), 0);
        // What waits stays verbatim as long as the whole window can hold it.
        let prompt_tokens = self.system_prompt.as_deref().map_or(0, tokens::of_text);
        let mut room = self.view.window.saturating_sub(prompt_tokens).saturating_sub(beside);
        let mut sight = Sight::default();
        loop {
            let mut seen = work.seen(work.as_of(self.clock.now()), &policy);
            let shown = self.look_at(&seen, &mut sight).await;
            let toolbox = Toolbox::new(self, work, (newest.line(), &seen.messages), &offered);
            let shortened = seen.shorten_unanswered(room.saturating_sub(shown.waiting_tokens));
            shown.name_the_unseen(&mut seen.messages);
            let question = Question {
                system: self.system_prompt.as_deref(),
                messages: &seen.messages,
                unanswered: seen.unanswered.len(),
                notes: notes.as_deref(),
                images: &shown.images,
                senders: &seen.senders,
                tools: toolbox.offered(),
                ..Question::default()
            };
            match self.ask(question, &toolbox, rounds, asking).await {
                Ok(()) => {
                    let mut message = rounds.take_message(asking.model.name());
                    Self::note_what_was_left_out(&mut message, &seen, &shortened);
                    // What goes on behind an approval has told it before.
                    if work.resumption.is_none() {
                        shown.tell(&mut message);
                    }
                    return Ok(message);
                }
                Err(ModelError::ImagesRefused) if sight.refuse() => continue,
                Err(ModelError::ContextTooLong) if squeezes < MAX_SQUEEZES => {}
                Err(error) => return Err(error.into()),
            }
            squeezes += 1;
            // What was called is done, and is not called again: its results give way first.
            if rounds.has_begun() && rounds.squeeze() {
                continue;
            }
            sight.squeeze();
            policy.token_budget = share(policy.token_budget.min(seen.tokens));
            offered = tools::fitting(&offered, policy.token_budget);
            room = policy.token_budget;
            if work.resumption.is_some() {
                // What it was asked with is not compacted for it, but for the next turn.
                continue;
            }
            let why = Why::Room { budget: policy.token_budget };
            if self.compact_or_go_on(&mut work.lease, &work.records, why).await? {
                work.records = self.reread(&work.lease, work.from.as_ref()).await?;
                // What has left the table, and is still to be answered.
                self.add_covered(&work.lease.chat, &work.turn, &mut work.records).await?;
            }
        }
    }

    /// Asks the model of this run until there is an answer, and where it fails for good, its fallback, which then has
    /// the rest of the run.
    pub(crate) async fn ask_repeatedly(
        &self,
        question: Question<'_>,
        asking: &mut Asking<'_>,
    ) -> Result<Answer, ModelError> {
        loop {
            let Some(fallback) = asking.model.fallback() else {
                return self.try_model(asking.model, question, &asking.feed).await;
            };
            let left = asking.first_until.since(self.clock.now());
            let answered = tokio::select! {
                biased;
                answered = self.try_model(asking.model, question, &asking.feed) => answered,
                () = self.clock.sleep(left) => Err(ModelError::Unreachable("timed out")),
            };
            match answered {
                Err(error) if !error.asks_for_another_question() => {
                    tracing::warn!(%error, "the model fails; the fallback answers");
                    asking.model = fallback;
                }
                answered => return answered,
            }
        }
    }

    /// Asks until there is an answer or the tries are used up.
    async fn try_model(
        &self,
        model: &Model,
        question: Question<'_>,
        feed: &Feed,
    ) -> Result<Answer, ModelError> {
        let mut backoff = MODEL_BACKOFF;
        let mut tries = 1;
        loop {
            match model.answer(question, &|delta| feed.hear(delta)).await {
                // Asking the same again would only cost.
                Err(error) if error.asks_for_another_question() => return Err(error),
                Err(error @ ModelError::Refused { .. }) if model.fallback().is_some() => return Err(error),
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
}

/// Has `message` say where its first step starts, as whoever follows its stream has been told.
fn begin_with_step(message: &mut UiMessage) {
    let start = Part::step_start();
    if message.parts.first() != Some(&start) {
        message.parts.insert(0, start);
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a u32 is one")]
fn share(tokens: u32) -> u32 {
    (f64::from(tokens) * SQUEEZE) as u32
}

/// Who is asked in a run.
pub(crate) struct Asking<'a> {
    /// The model, or from some moment on its fallback.
    model: &'a Model,
    /// When the first model's time is over, where it has a fallback, which then has the last third.
    first_until: Timestamp,
    /// Where the answer is heard.
    pub(crate) feed: Feed,
}

impl<'a> Asking<'a> {
    fn new(model: &'a Model, now: Timestamp, until: Timestamp, feed: Feed) -> Self {
        Self { model, first_until: now.plus(until.since(now) * 2 / 3), feed }
    }
}
