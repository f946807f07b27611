//! `/remind`: the schedules of the chat in which it is typed, on its line of the chat, whoever made them.
//!
//! The id of a reminder comes from its command, so a repeated command adds nothing.

use annals_core::command::RemindStep;
use annals_core::draft::Draft;
use annals_core::schedule::when;
use annals_core::schedule::{Action, MAX_BYTES, MAX_SCHEDULES, Schedule, ScheduleId, Timing, shown};
use annals_core::sort_key::Timestamp;
use annals_core::texts::Texts;
use annals_store::history::{Appended, Reuse, StoredSchedule};

use super::{Ingress, IngressError};
use crate::scheduling::{self, CreateError, recipient};

/// Number of characters of a reminder in a list.
const LISTED_CHARS: usize = 80;

impl Ingress {
    /// Carries out `/remind`.
    pub(super) async fn remind(
        &self,
        draft: &Draft,
        step: &RemindStep,
        appended: &Appended,
        texts: &dyn Texts,
    ) -> Result<String, IngressError> {
        match step {
            RemindStep::List => self.list_reminders(draft, texts).await,
            RemindStep::Cancel(id) => {
                let Ok(parsed) = ScheduleId::try_from(id.clone()) else {
                    return Ok(texts.how_to_remind().into());
                };
                self.history.cancel_on_line(&draft.chat, draft.metadata.line(), &parsed).await?;
                Ok(texts.reminder_cancelled(id))
            }
            RemindStep::Add(text) => self.add_reminder(draft, text, appended, texts).await,
        }
    }

    async fn add_reminder(
        &self,
        draft: &Draft,
        text: &str,
        appended: &Appended,
        texts: &dyn Texts,
    ) -> Result<String, IngressError> {
        let zone = self.time_zone_of(draft).await?;
        // By the time of the command, so that a repeat means the same date.
        let said_at = if draft.ts > Timestamp::MIN { draft.ts } else { self.history.clock().now() };
        let (timing, content) = match when::parse(text, said_at, zone) {
            None => return Ok(texts.how_to_remind().into()),
            Some(Err(_)) => return Ok(texts.date_is_past().into()),
            Some(Ok((_, content))) if content.len() > MAX_BYTES => return Ok(texts.how_to_remind().into()),
            Some(Ok(read)) => read,
        };
        let id = ScheduleId::of(appended.base.as_str());
        let repeats = match &timing {
            Timing::At(_) => None,
            Timing::Cron(pattern) => Some(pattern.clone()),
        };
        let schedule = Schedule {
            id: id.clone(),
            action: Action::Text(texts.reminder(&content)),
            timing,
            time_zone: zone,
            created_at: said_at,
            to: recipient(&self.history.record_of(draft, draft.key(), 0)),
        };
        let (chat, _) = self.history.current(&draft.chat).await?;
        match scheduling::create(&self.history, &chat, schedule, Reuse::Never).await {
            Ok((StoredSchedule { due_at, .. }, _)) => {
                Ok(texts.reminder_set(&content, &shown(due_at, zone), repeats.as_deref(), id.as_str()))
            }
            Err(CreateError::Ended) => Ok(texts.reminder_ended(id.as_str())),
            Err(CreateError::Past) => Ok(texts.date_is_past().into()),
            Err(CreateError::Unreachable) => Ok(texts.cannot_write_later().into()),
            // Two commands with one id: one in 16 million.
            Err(CreateError::TooMany | CreateError::Taken) => Ok(texts.too_many_reminders(MAX_SCHEDULES)),
            Err(CreateError::History(error)) => Err(error.into()),
        }
    }

    async fn list_reminders(&self, draft: &Draft, texts: &dyn Texts) -> Result<String, IngressError> {
        let schedules = self.history.schedules_on_line(&draft.chat, draft.metadata.line()).await?;
        if schedules.is_empty() {
            return Ok(texts.no_reminders().into());
        }
        let line = |stored: &StoredSchedule| {
            let Schedule { id, action, time_zone, .. } = &stored.schedule;
            let date = shown(stored.due_at, *time_zone);
            let content: String = action.content().chars().take(LISTED_CHARS).collect();
            format!("- `{}` {date}{}{}", id.as_str(), texts.colon(), content.replace('\n', " "))
        };
        Ok(texts.reminders(&schedules.iter().map(line).collect::<Vec<_>>().join("\n")))
    }
}
