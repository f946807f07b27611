//! The schedules of chats: each an item of its chat, in a partition of the index of due chats that no visit reads.
//!
//! ```json
//! {"pk": "telegram:chat:42", "sk": "!schedule#stand-up", "dueShard": "schedules", "dueAt": 1763852400000,
//!  "schedule": "{\"id\":\"stand-up\",\"text\":\"Stand-up!\",\"cron\":\"0 9 …\",…}"}
//! ```
//!
//! `dueAt` is the next date, in epoch milliseconds. An occurrence has three steps, each of which may be the
//! last:
//!
//! 1. **put** its record, and set `firedAt` to the date, in one transaction: only if the date is still `dueAt` and was not
//!    set before. So each date has at most one record, and a schedule that was cancelled or forgotten has none
//! 2. **enqueue** the turn of the record
//! 3. **advance**: `dueAt` is the next date after now; without one the item is emptied
//!
//! An emptied item, also that of a cancelled schedule, leaves the table by its TTL two days later, so nobody needs the right to
//! delete, and a command that is delivered again sets nothing again.
//!
//! Until step 3 the item stays due, so the next reader of the index goes on with step 2.

use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::record::Record;
use annals_core::schedule::{Schedule, ScheduleId};
use annals_core::sort_key::Timestamp;

use super::due::{DUE_AT, DUE_SHARD};
use super::item::{integer, text, time};
use super::table::{Anchor, Anchored, Item, Span, Update, Written, json, number, string};
use super::{History, HistoryError, partition};

/// The partition of the index that holds schedules. It takes 1,000 writes a second.
const SHARD: &str = "schedules";

/// The start of the sort keys of schedules.
const SCHEDULE: &str = "!schedule#";

const SCHEDULE_STATE: &str = "schedule";

/// Time that the emptied item of an ended schedule stays: platforms deliver a message again for a day at most.
const KEPT_ENDED: Duration = Duration::from_hours(48);

/// The date whose record is put.
const FIRED_AT: &str = "firedAt";

#[derive(Clone, Debug, PartialEq)]
pub struct StoredSchedule {
    /// The name of its chat under which it is stored.
    pub chat: ChatKey,
    pub schedule: Schedule,
    /// Its next date, or the one whose occurrence has begun.
    pub due_at: Timestamp,
    /// True if the record of that date is put.
    pub has_fired: bool,
}

/// Use of the id of a schedule that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Its caller has chosen the id.
    AfterEnd,
    /// The id comes from a message, which may be delivered again after the schedule came due or was cancelled.
    Never,
}

/// The result of putting the record of a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fired {
    Done,
    /// The schedule was cancelled, or another process has put a record of this date. Nothing is stored.
    Not,
}

impl StoredSchedule {
    fn of(item: &Item) -> Result<Option<Self>, HistoryError> {
        let (Some(chat), Some(schedule), Some(due_at)) =
            (text(item, "pk").and_then(|pk| pk.parse().ok()), text(item, SCHEDULE_STATE), time(item, DUE_AT))
        else {
            return Ok(None);
        };
        let schedule = serde_json::from_str(schedule)?;
        let has_fired = integer(item, FIRED_AT) == Some(due_at.as_millis());
        Ok(Some(Self { chat, schedule, due_at, has_fired }))
    }

    /// Returns true if it is for this [line](annals_core::metadata::Metadata::line) of its chat.
    fn is_on(&self, line: Option<&str>) -> bool {
        self.schedule.to.metadata.line() == line
    }

    fn sort_key(&self) -> String {
        sort_key(&self.schedule.id)
    }
}

impl History {
    /// Stores a schedule whose first date is `due_at`, unless its id is taken in `chat`: with [`Reuse::Never`], also by one that
    /// has ended. Returns the stored schedule of this id, or `None` if that has ended, and true if it is this one. One write, and
    /// one for the index.
    pub async fn create_schedule(
        &self,
        chat: &ChatKey,
        schedule: Schedule,
        due_at: Timestamp,
        reuse: Reuse,
    ) -> Result<(Option<StoredSchedule>, bool), HistoryError> {
        let update = Update::default()
            .set(DUE_SHARD, string(SHARD))
            .set(DUE_AT, number(due_at))
            .set(SCHEDULE_STATE, json(&schedule)?)
            .remove([FIRED_AT, "expiresAt"])
            .when(match reuse {
                Reuse::AfterEnd => "attribute_not_exists(schedule)",
                Reuse::Never => "attribute_not_exists(pk)",
            });
        let written = self.table.update(&partition(chat), &sort_key(&schedule.id), update).await?;
        let stored = StoredSchedule { chat: chat.clone(), schedule, due_at, has_fired: false };
        Ok(match written {
            Written::Done(_) => (Some(stored), true),
            Written::Refused(existing) => (StoredSchedule::of(&existing)?, false),
        })
    }

    /// Reads the schedules of `chat` under this name, in order of their ids. One query.
    pub async fn schedules(&self, chat: &ChatKey) -> Result<Vec<StoredSchedule>, HistoryError> {
        let items = self.table.query(&partition(chat), &Span::all(SCHEDULE, format!("{SCHEDULE}~"))).await?;
        items.iter().filter_map(|item| StoredSchedule::of(item).transpose()).collect()
    }

    /// Reads the schedules of `chat` under all of its names, the next to come due first: those of an earlier name move when
    /// they come due. One query a name, and the reads of the names.
    pub async fn all_schedules(&self, chat: &ChatKey) -> Result<Vec<StoredSchedule>, HistoryError> {
        let mut schedules: Vec<StoredSchedule> = Vec::new();
        // The earliest first, since a move puts a schedule under the newest name before it ends the other one.
        for name in self.all_names(chat).await?.iter().rev() {
            let stored = self.schedules(name).await?;
            schedules.retain(|earlier| stored.iter().all(|later| later.schedule.id != earlier.schedule.id));
            schedules.extend(stored);
        }
        schedules.sort_by_key(|stored| stored.due_at);
        Ok(schedules)
    }

    /// Reads those of [`History::all_schedules`] that are for one line of `chat`.
    pub async fn schedules_on_line(
        &self,
        chat: &ChatKey,
        line: Option<&str>,
    ) -> Result<Vec<StoredSchedule>, HistoryError> {
        let mut schedules = self.all_schedules(chat).await?;
        schedules.retain(|stored| stored.is_on(line));
        Ok(schedules)
    }

    /// Reads one schedule. One read.
    pub async fn schedule(
        &self,
        chat: &ChatKey,
        id: &ScheduleId,
    ) -> Result<Option<StoredSchedule>, HistoryError> {
        let item = self.table.get(&partition(chat), &sort_key(id)).await?;
        item.map_or(Ok(None), |item| StoredSchedule::of(&item))
    }

    /// Cancels a schedule, if there is one. A date whose record is put has come all the same. One write, and one for the index;
    /// safe to repeat.
    pub async fn cancel_schedule(&self, chat: &ChatKey, id: &ScheduleId) -> Result<(), HistoryError> {
        let exists = self.ended().when("attribute_exists(schedule)");
        self.table.update(&partition(chat), &sort_key(id), exists).await?;
        Ok(())
    }

    /// Cancels a schedule of one line of `chat`, under whichever of its names it is stored. Returns true if there was one.
    pub async fn cancel_on_line(
        &self,
        chat: &ChatKey,
        line: Option<&str>,
        id: &ScheduleId,
    ) -> Result<bool, HistoryError> {
        let mut was_there = false;
        for name in self.all_names(chat).await?.iter().rev() {
            if self.schedule(name, id).await?.is_some_and(|stored| stored.is_on(line)) {
                self.cancel_schedule(name, id).await?;
                was_there = true;
            }
        }
        Ok(was_there)
    }

    /// Reads at most `limit` schedules that are due at `now`, the oldest first, each with its chat. Like every global index
    /// it is not strongly consistent: one that has just been advanced may appear.
    pub async fn due_schedules(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<(ChatKey, ScheduleId)>, HistoryError> {
        let (items, _) = self.table.query_due(SHARD, now.as_millis(), false, limit, None).await?;
        let named = |item: &Item| {
            let chat = text(item, "pk")?.parse().ok()?;
            let id = text(item, "sk")?.strip_prefix(SCHEDULE)?.to_owned();
            Some((chat, ScheduleId::try_from(id).ok()?))
        };
        Ok(items.iter().filter_map(named).collect())
    }

    /// Puts `record`, that of the date of `due`. Four writes.
    pub async fn fire(&self, due: &StoredSchedule, record: &Record) -> Result<Fired, HistoryError> {
        let is_open = "dueAt = :firedAt AND (attribute_not_exists(firedAt) OR firedAt <> :firedAt)";
        let fires = Update::default().set(FIRED_AT, number(due.due_at)).when(is_open);
        Ok(match self.put_anchored(record, Anchor::changed(due.sort_key(), fires)).await? {
            // An attempt of this very transaction whose answer was lost.
            Anchored::Done | Anchored::Taken(_) => Fired::Done,
            Anchored::Gone => Fired::Not,
        })
    }

    /// Ends the occurrence of `due`: its next date is `next`; without one it is no schedule any more. Does nothing if it has
    /// been ended, or the schedule was cancelled. One write, and two for the index.
    pub async fn advance(&self, due: &StoredSchedule, next: Option<Timestamp>) -> Result<(), HistoryError> {
        let update = match next {
            Some(next) => Update::default().set(DUE_AT, number(next)),
            None => self.ended(),
        };
        let update = update.when("dueAt = :seen").bind(":seen", number(due.due_at));
        self.table.update(&partition(&due.chat), &due.sort_key(), update).await?;
        Ok(())
    }

    /// Returns the update by which an item is no schedule any more: it holds nothing, and leaves the table.
    fn ended(&self) -> Update {
        let expires_at = self.clock.now().plus(KEPT_ENDED).as_millis() / 1000;
        let ended = Update::default().remove([DUE_SHARD, DUE_AT, FIRED_AT, SCHEDULE_STATE]);
        ended.set("expiresAt", number(expires_at))
    }

    /// Moves `due` to the name that its chat has now. Two writes; safe to repeat.
    pub async fn move_schedule(&self, due: &StoredSchedule, to: &ChatKey) -> Result<(), HistoryError> {
        self.create_schedule(to, due.schedule.clone(), due.due_at, Reuse::AfterEnd).await?;
        self.cancel_schedule(&due.chat, &due.schedule.id).await
    }
}

fn sort_key(id: &ScheduleId) -> String {
    format!("{SCHEDULE}{}", id.as_str())
}
