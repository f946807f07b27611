//! Schedules of chats: creates them, and carries out those that are due: [`Scheduling`].
//!
//! An occurrence appends a record to the chat and queues its turn; the steps, and what a crash between them leaves, are in
//! `annals_store::history::schedules`. The record of a text is a notice that asks, as an operator's message is: the chat's
//! next turn sends it as its reply, also while the chat is taken over. That of a prompt is a message that the turn answers.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use annals_core::access::Access;
use annals_core::chat_key::ChatKey;
use annals_core::draft::{Draft, Origin};
use annals_core::language::Language;
use annals_core::message::{Part, Role, UiMessage};
use annals_core::metadata::Metadata;
use annals_core::record::{Kind, Record};
use annals_core::schedule::due::Due;
use annals_core::schedule::{
    Action, LATE_AFTER, MAX_SCHEDULES, Recipient, Schedule, ScheduleId, Timing, shown,
};
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use annals_core::takeover::Dispatch;
use annals_io::spans::of_chat;
use annals_store::history::turn::Blocked;
use annals_store::history::{Fired, History, HistoryError, Position, Reuse, StoredSchedule};
use annals_store::queue::{QueueError, Turn, TurnQueue};
use tracing::Instrument;

/// Time after a platform's refusal for which the occurrences of a cron pattern are skipped: each would be a reply that nobody gets,
/// and mostly a request to the model. Less than a day, so that a daily one is tried each day.
pub const BLOCKED_PAUSE: Duration = Duration::from_hours(12);

/// Number of schedules that one request of the index names.
const PAGE: usize = 100;

/// Carries out schedules.
#[derive(Clone)]
pub struct Scheduling {
    pub history: History,
    pub queue: Arc<dyn TurnQueue>,
    /// `LANGUAGE`; `None` for that of each person.
    pub language: Option<Language>,
    pub access: Access,
}

/// The result of a round of due schedules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Number of occurrences whose record is stored and whose turn is queued.
    pub occurrences: u32,
    pub late: u32,
    /// Number that failed. The next round repeats them.
    pub failed: u32,
}

/// A schedule that could not be created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("it never comes due: its date is past")]
    Past,
    #[error("this chat has {MAX_SCHEDULES} schedules already: delete one first")]
    TooMany,
    #[error("another schedule of this chat has this id: choose another one")]
    Taken,
    /// See [`Reuse::Never`].
    #[error("it was set before, and has come due or was cancelled")]
    Ended,
    /// See [`Metadata::takes_answers_alone`].
    #[error("the bot cannot write here later: ask it in its direct messages")]
    Unreachable,
    #[error(transparent)]
    History(#[from] HistoryError),
}

#[derive(Debug, thiserror::Error)]
enum OccurrenceError {
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error(transparent)]
    Queue(#[from] QueueError),
}

/// Returns the recipient of a schedule that the sender of `record` gets, the way that its reply would take.
pub fn recipient(record: &Record) -> Recipient {
    let said = &record.message.metadata;
    let mut metadata = Metadata::default();
    metadata.copy_address_of(said, record.channel);
    if let Some(language) = said.language() {
        metadata.set_language(language);
    }
    Recipient {
        channel: record.channel,
        chat_id: record.chat_id.clone(),
        user_id: record.user_id.clone(),
        person: record.person.clone(),
        message_id: record.message_id.to_string(),
        metadata,
    }
}

/// Creates a schedule in `chat`; returns it, and true if it is new. The same one again changes nothing.
pub async fn create(
    history: &History,
    chat: &ChatKey,
    schedule: Schedule,
    reuse: Reuse,
) -> Result<(StoredSchedule, bool), CreateError> {
    if schedule.to.metadata.takes_answers_alone() {
        return Err(CreateError::Unreachable);
    }
    let due_at = schedule.next(schedule.created_at).ok_or(CreateError::Past)?;
    let known = history.schedules(chat).await?;
    if known.iter().filter(|known| known.schedule.id != schedule.id).count() >= MAX_SCHEDULES {
        return Err(CreateError::TooMany);
    }
    let (known, is_new) = history.create_schedule(chat, schedule.clone(), due_at, reuse).await?;
    let known = known.ok_or(CreateError::Ended)?;
    let Schedule { action, timing, time_zone, .. } = &known.schedule;
    let is_same = (action, timing, time_zone) == (&schedule.action, &schedule.timing, &schedule.time_zone);
    if is_new || is_same { Ok((known, is_new)) } else { Err(CreateError::Taken) }
}

impl Scheduling {
    /// Carries out the schedules that are due, the oldest first, until none is, or `deadline`.
    pub async fn run_due(&self, deadline: Timestamp) -> Result<Ran, HistoryError> {
        let mut ran = Ran::default();
        // One that failed stays due, and one that was advanced may still be in the index.
        let mut seen: HashSet<(ChatKey, ScheduleId)> = HashSet::new();
        loop {
            let now = self.history.clock().now();
            let mut due = self.history.due_schedules(now, PAGE + seen.len()).await?;
            due.retain(|named| !seen.contains(named));
            if due.is_empty() || now >= deadline {
                return Ok(ran);
            }
            for (chat, id) in due {
                match self.carry_out(&chat, &id).instrument(of_chat(&chat)).await {
                    Ok(None) => {}
                    Ok(Some(is_late)) => {
                        ran.occurrences += 1;
                        ran.late += u32::from(is_late);
                    }
                    Err(error) => {
                        tracing::error!(%error, schedule = id.as_str(), "failed to carry out a schedule; the next round repeats it");
                        ran.failed += 1;
                    }
                }
                seen.insert((chat, id));
            }
        }
    }

    /// Carries out a schedule, if it is due; returns whether it was late, or `None` if nothing was to do.
    async fn carry_out(&self, chat: &ChatKey, id: &ScheduleId) -> Result<Option<bool>, OccurrenceError> {
        let now = self.history.clock().now();
        let Some(due) = self.history.schedule(chat, id).await?.filter(|due| due.due_at <= now) else {
            return Ok(None);
        };
        let (current, head) = self.history.current(chat).await?;
        if current != *chat {
            // It is due there.
            self.history.move_schedule(&due, &current).await?;
            return Ok(None);
        }
        let is_refused = |blocked: &Blocked| {
            let Recipient { channel, chat_id, .. } = &due.schedule.to;
            blocked.is_of(*channel, chat_id) && now.since(blocked.failure.at) < BLOCKED_PAUSE
        };
        let is_new_of_pattern = !due.has_fired && matches!(due.schedule.timing, Timing::Cron(_));
        if is_new_of_pattern && head.blocked.as_ref().is_some_and(is_refused) {
            tracing::info!(
                schedule = id.as_str(),
                "skipped an occurrence: the platform refuses messages for this chat"
            );
            self.history.advance(&due, due.schedule.next(now.max(due.due_at))).await?;
            return Ok(None);
        }
        let is_late = now.since(due.due_at) >= LATE_AFTER;
        let mut from = SortKey::start_of(due.due_at);
        if !due.has_fired {
            let newest = self.history.page(chat, &Position::Newest, 1).await?.records;
            let newest = newest.last().map_or(Timestamp::MIN, |record| record.key.ts().next());
            let Some(draft) = self.draft(&due, now.max(newest), is_late.then_some(now)) else {
                return Ok(None);
            };
            // Nobody there could cancel it.
            if !self.access.admits_scheduled(&draft) {
                tracing::info!(
                    schedule = id.as_str(),
                    "skipped an occurrence: its person or chat is not allowed any more"
                );
                self.history.advance(&due, due.schedule.next(now.max(due.due_at))).await?;
                return Ok(None);
            }
            let record = self.history.record_of(&draft, draft.key(), 0);
            if self.history.fire(&due, &record).await? == Fired::Not {
                return Ok(None);
            }
            from = record.key;
        }
        self.queue.enqueue(&Turn { chat: chat.clone(), from, at: None }).await?;
        self.history.advance(&due, due.schedule.next(now.max(due.due_at))).await?;
        Ok(Some(is_late))
    }

    /// Returns the record of an occurrence at `ts`; if it is late, as of `late_at`.
    fn draft(&self, due: &StoredSchedule, ts: Timestamp, late_at: Option<Timestamp>) -> Option<Draft> {
        let Schedule { action, to, time_zone, id, .. } = &due.schedule;
        let mut message = UiMessage::new("", Role::User, vec![Part::text(action.content())]);
        message.metadata = to.metadata.clone();
        let own = || Language::of_message(&message);
        let texts = self.language.or_else(own).unwrap_or(Language::En).texts();
        let (date, now) = (shown(due.due_at, *time_zone), late_at.map(|now| shown(now, *time_zone)));
        let recurs = matches!(due.schedule.timing, Timing::Cron(_));
        let occurrence = Due { id: id.clone(), at: due.due_at, to: to.message_id.clone(), recurs };
        let origin = Origin {
            chat: due.chat.clone(),
            channel: to.channel,
            chat_id: to.chat_id.clone(),
            user_id: to.user_id.clone(),
        };
        let mut draft =
            Draft::new(origin, occurrence.message_id()?, ts).asking(true).of_person(to.person.clone());
        draft.metadata = message.metadata;
        draft.metadata.set_due(&occurrence);
        Some(match action {
            Action::Text(text) => {
                let late = now.map(|_| texts.late_text(text, &date));
                let to = MessageId::new(to.message_id.clone()).ok()?;
                let dispatch =
                    Dispatch { by: format!("schedule {}", id.as_str()), answers: false, to, from: None };
                draft.metadata.set_dispatch(&dispatch);
                draft.of_kind(Kind::Notice).with_parts(vec![Part::text(late.as_deref().unwrap_or(text))])
            }
            Action::Prompt(prompt) => {
                draft.with_parts(vec![Part::text(texts.scheduled_prompt(prompt, &date, now.as_deref()))])
            }
        })
    }
}
