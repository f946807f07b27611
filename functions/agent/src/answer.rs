//! The answer of a turn: ask the model, within its window, and append what it says.

use std::time::Duration;

use annals_shared::compaction::cut::Why;
use annals_shared::history::{Reply, ReplyAppended};
use annals_shared::message::{Role, UiMessage};
use annals_shared::model::{Answer, ModelError, Question};
use annals_shared::record::{Kind, Record};

use crate::pacing::Delivery;
use crate::turn::{Agent, TurnError};
use crate::work::Work;

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
/// What the user is told when no answer can be made.
const FAILURE_NOTICE: &str =
    "Sorry, I could not answer that: the model is not available at the moment. Please ask again later.";
/// What the user is told when a `/compact` cannot be carried out.
const NOT_COMPACTED: &str = "Sorry, I could not compact this conversation: the model is not available at the moment. \
                             Nothing has changed. Please try again later.";
/// How often a turn whose context the model finds too long is tried with a shorter one.
const MAX_SQUEEZES: u32 = 3;
/// What share of a context that was too long is tried next.
const SQUEEZE: f64 = 0.6;

impl Agent {
    /// Asks the model, commits, and appends the reply, or on the last try a notice that there is none.
    pub(crate) async fn answer(&self, work: &mut Work, delivery: Delivery) -> Result<Record, TurnError> {
        let newest = work.newest_covered()?.clone();
        let is_command = newest.kind == Kind::Notice;
        let answered = if is_command {
            let told = self.compact_as_asked(&mut work.lease, &newest).await;
            told.map(|text| (Kind::Notice, UiMessage::text("", Role::Assistant, text)))
        } else {
            self.ask_within_window(work, &newest).await.map(|message| (Kind::Normal, message))
        };
        let (kind, mut message) = match answered {
            Ok(answer) => answer,
            Err(error @ (TurnError::Model(_) | TurnError::Compaction(_))) if delivery.ends_asking() => {
                tracing::error!(chat = %work.lease.chat.session_id(), %error, "no answer after the last try; the user is told");
                let notice = if is_command { NOT_COMPACTED } else { FAILURE_NOTICE };
                (Kind::Notice, UiMessage::text("", Role::Assistant, notice))
            }
            Err(error) => return Err(error),
        };
        if !work.is_committed {
            self.history.commit(&work.lease, &work.turn).await??;
            work.is_committed = true;
        }
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
                self.history.commit(&work.lease, &work.turn).await??;
                Ok(reply)
            }
        }
    }

    /// Asks the model with as much as it takes. Where it finds the context too long, by its own count, that is
    /// compacted and the same turn tried again; where that does not do either, more is left out.
    async fn ask_within_window(&self, work: &mut Work, newest: &Record) -> Result<UiMessage, TurnError> {
        let (mut policy, mut squeezes) = (self.policy(0), 0);
        loop {
            let mut seen = work.seen(self.clock.now(), &policy);
            let shortened = seen.shorten_unanswered(policy.token_budget);
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
                () = self.keep_typing(work, newest) => Err(ModelError::Empty),
            };
            match answered {
                Ok(answer) => {
                    let mut message = message_of(answer);
                    Self::note_what_was_left_out(&mut message, &seen, &shortened);
                    return Ok(message);
                }
                Err(ModelError::ContextTooLong) if squeezes < MAX_SQUEEZES => {}
                Err(error) => return Err(error.into()),
            }
            squeezes += 1;
            policy.token_budget = share(policy.token_budget.min(seen.tokens));
            let why = Why::Room { budget: policy.token_budget };
            if self.compact_or_go_on(&mut work.lease, &work.records, why).await? {
                work.records = self.reread(&work.lease, work.from.as_ref()).await?;
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
                // Asking the same again would only cost.
                Err(error @ ModelError::ContextTooLong) => return Err(error),
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
    async fn keep_typing(&self, work: &Work, to: &Record) {
        loop {
            if self.blocked(work, to).is_none() {
                self.deliverer.show_typing(to).await;
            }
            self.clock.sleep(TYPING_INTERVAL).await;
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a u32 is one")]
fn share(tokens: u32) -> u32 {
    (f64::from(tokens) * SQUEEZE) as u32
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
