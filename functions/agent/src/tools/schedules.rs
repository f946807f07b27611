//! `schedule_create`, `schedule_list` and `schedule_cancel`: what the chat is to be told, or the model to be asked, at a time.

use annals_core::chat_key::ChatKey;
use annals_core::record::{Record, message_at};
use annals_core::schedule::{Action, MAX_BYTES, Schedule, ScheduleId, Timing, shown, when};
use annals_core::sort_key::Timestamp;
use annals_core::time_zone::TimeZone;
use annals_engine::scheduling::{self, CreateError, recipient};
use annals_model::Tool;
use annals_store::history::turn::OpenTurn;
use annals_store::history::{History, HistoryError, Reuse, StoredSchedule};
use serde_json::{Value, json};

use super::result::Output;

/// Name of the tool that creates.
pub(crate) const CREATE: &str = "schedule_create";
/// Name of the tool that lists.
pub(crate) const LIST: &str = "schedule_list";
/// Name of the tool that cancels.
pub(crate) const CANCEL: &str = "schedule_cancel";

/// The schedules of one line of a chat, in one turn.
pub(super) struct Schedules<'a> {
    pub(super) history: &'a History,
    pub(super) chat: &'a ChatKey,
    pub(super) turn: &'a OpenTurn,
    /// Records of the chat, with the messages that the turn covers.
    pub(super) records: &'a [Record],
    /// The newest of these messages: its sender is told.
    pub(super) newest: &'a Record,
    pub(super) is_of_one_person: bool,
    /// That of the sender.
    pub(super) time_zone: TimeZone,
    pub(super) now: Timestamp,
}

impl Schedules<'_> {
    /// Carries out a call, the `nth` of its tool in the reply. A list has the schedules that were created after `since`, or for
    /// one of the messages `in_view`; all without `since`. Returns `None` if `name` is not one of these tools.
    pub(crate) async fn call(
        &self,
        name: &str,
        nth: usize,
        input: &Value,
        since: Option<Timestamp>,
        in_view: &[String],
    ) -> Option<Output> {
        let done = match name {
            CREATE => self.create(nth, input).await,
            LIST => self.list(since, in_view).await,
            CANCEL => self.cancel(input).await,
            _ => return None,
        };
        Some(done.unwrap_or_else(|error| {
            tracing::warn!(%error, "failed to carry out a call of a schedule tool; the model is told");
            Err("schedules cannot be reached at the moment".into())
        }))
    }

    /// Creates a schedule. Its id comes from the turn's first message and the number of the call, so a repeated turn finds it
    /// again, also with messages that have come since.
    async fn create(&self, nth: usize, input: &Value) -> Result<Output, HistoryError> {
        let (action, timing) = match self.read(input) {
            Ok(read) => read,
            Err(problem) => return Ok(Err(problem)),
        };
        if !self.is_of_one_person {
            return Ok(Err("several people have asked, so it is not clear whom this is for".into()));
        }
        let Self { history, chat, turn, records, newest, .. } = *self;
        // A task that sets itself again at each of its dates would fill the chat's list.
        let is_occurrence = |base| {
            message_at(records, base).is_some_and(|message| message.due().is_some_and(|due| due.recurs))
        };
        if matches!(timing, Timing::Cron(_)) && turn.covers.iter().all(is_occurrence) {
            return Ok(Err(
                "this is an occurrence of a schedule that goes on by itself; nothing was set".into()
            ));
        }
        let first = turn.covers.first().unwrap_or(&newest.key);
        let schedule = Schedule {
            id: ScheduleId::of(&format!("{}#{nth}", first.reply())),
            action,
            timing,
            time_zone: self.time_zone,
            created_at: self.now,
            to: recipient(newest),
        };
        Ok(match scheduling::create(history, chat, schedule, Reuse::Never).await {
            Ok((stored, _)) => Ok(as_json(&stored)),
            Err(CreateError::History(error)) => return Err(error),
            // An attempt at this turn that was cut off has set another one.
            Err(CreateError::Taken) => {
                Err("another reminder is set already in this turn: see schedule_list, and cancel it \
                 before you set this one"
                    .into())
            }
            Err(CreateError::Ended) => {
                Err("an earlier attempt at this turn set a reminder here, which has come due or was cancelled; if this is another \
                 one, call again"
                    .into())
            }
            Err(error) => Err(error.to_string()),
        })
    }

    fn read(&self, input: &Value) -> Result<(Action, Timing), String> {
        let text =
            |name: &str| input.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        let action = match (text("text"), text("task")) {
            (Some(text), None) => Action::Text(text.to_owned()),
            (None, Some(task)) => Action::Prompt(task.to_owned()),
            _ => return Err("give \"text\" or \"task\", and not both".into()),
        };
        if action.content().len() > MAX_BYTES {
            return Err(format!("it is longer than {MAX_BYTES} bytes"));
        }
        let zone = self.time_zone;
        let timing = match (text("at"), text("cron")) {
            (Some(at), None) => when::date(at, zone)
                .map(Timing::At)
                .ok_or("\"at\" must be a date such as 2026-11-25T09:00, as the person's clock shows it")?,
            (None, Some(cron)) => Timing::cron(cron, zone, self.now).map_err(|error| error.to_string())?,
            _ => return Err("give \"at\" or \"cron\", and not both".into()),
        };
        Ok((action, timing))
    }

    async fn list(&self, since: Option<Timestamp>, in_view: &[String]) -> Result<Output, HistoryError> {
        let mut schedules = self.history.schedules_on_line(self.chat, self.newest.line()).await?;
        if let Some(since) = since {
            schedules.retain(|StoredSchedule { schedule, .. }| {
                // The time of a message may be ahead of the clock by which the model's schedules are created.
                schedule.created_at > since || in_view.contains(&schedule.to.message_id)
            });
        }
        Ok(Ok(json!({"schedules": schedules.iter().map(as_json).collect::<Vec<_>>()})))
    }

    async fn cancel(&self, input: &Value) -> Result<Output, HistoryError> {
        let id = input.get("id").and_then(Value::as_str).unwrap_or_default();
        let was_there = match ScheduleId::try_from(id.to_owned()) {
            Ok(parsed) => self.history.cancel_on_line(self.chat, self.newest.line(), &parsed).await?,
            Err(_) => false,
        };
        let cancelled = was_there.then(|| json!({"cancelled": id}));
        Ok(cancelled.ok_or_else(|| format!("there is no schedule {id:?}")))
    }
}

fn as_json(stored: &StoredSchedule) -> Value {
    let Schedule { id, action, timing, time_zone, .. } = &stored.schedule;
    let next = shown(stored.due_at, *time_zone);
    let mut shown = json!({"id": id.as_str(), "next": next});
    match action {
        Action::Text(text) => shown["text"] = text.clone().into(),
        Action::Prompt(task) => shown["task"] = task.clone().into(),
    }
    if let Timing::Cron(pattern) = timing {
        shown["cron"] = pattern.clone().into();
    }
    shown
}

pub(crate) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            CREATE,
            "Has this chat told something, or you asked to do something here, at a later time: a reminder, a message every \
             Monday. Use it when somebody asks for that. Give one of \"text\" and \"task\", and one of \"at\" and \"cron\".",
            json!({
                "text": {"type": "string", "description": "what to say, word for word"},
                "task": {"type": "string", "description": "what you are to do then, in one self-contained sentence"},
                "at": {"type": "string", "description": "date and time on the person's clock: 2026-11-25T09:00"},
                "cron": {"type": "string", "description": "five fields on the person's clock, such as 0 9 * * 1-5; at most \
                                                          every five minutes. L as the day is the last of the month; a \
                                                          day of 29 to 31 skips shorter months"},
            }),
            &[],
        ),
        Tool::new(LIST, "Lists what is scheduled in this chat, with the id of each.", json!({}), &[]),
        Tool::new(
            CANCEL,
            "Cancels a schedule of this chat. Use it only when you are asked to.",
            json!({"id": {"type": "string", "description": "its id, as schedule_list says it"}}),
            &["id"],
        ),
    ]
}
