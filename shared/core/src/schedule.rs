//! A text for a chat, or a task for the model there, at a time: [`Schedule`].
//!
//! ```json
//! {"id": "stand-up", "text": "Stand-up!", "cron": "0 9 * * 1-5", "timeZone": "Asia/Shanghai", "createdAt": 1763765920000, …}
//! {"id": "9f86d081", "prompt": "What is new?", "at": 1763852320000, "timeZone": "UTC", "createdAt": 1763765920000, …}
//! ```
//!
//! When it comes due, a record is appended to its chat, once for each date: a text as an operator's message is, which the
//! chat's next turn sends, and a prompt as a message that the next turn answers. Both carry a [`Due`](due::Due) in their metadata, and
//! so does the reply.
//!
//! # Layout
//!
//! - [`due`]: an occurrence of a schedule
//! - [`when`]: dates as people write them

pub mod due;
pub mod when;

use std::time::Duration;

use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions};
use jiff::Timestamp as Instant;
use jiff::civil::DateTime;
use jiff::tz;
use serde::{Deserialize, Serialize};

pub use self::due::ScheduleId;
use crate::chat_key::ChatKey;
use crate::metadata::Metadata;
use crate::names::Channel;
use crate::record::person_of_sender;
use crate::sort_key::Timestamp;
use crate::time_zone::TimeZone;

/// Maximum number of schedules of one chat.
pub const MAX_SCHEDULES: usize = 50;

/// Longest text or prompt, in bytes.
pub const MAX_BYTES: usize = 8 * 1024;

/// Shortest time between two dates of a cron pattern.
pub const SHORTEST_INTERVAL: Duration = Duration::from_mins(5);

/// Time after its date from which an occurrence is late, and says so.
pub const LATE_AFTER: Duration = Duration::from_mins(5);

/// Number of dates of a pattern whose distances are checked: a pattern of two fields repeats itself within them.
const DATES_CHECKED: usize = 300;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    /// Id, unique in the chat.
    pub id: ScheduleId,
    #[serde(flatten)]
    pub action: Action,
    #[serde(flatten)]
    pub timing: Timing,
    pub time_zone: TimeZone,
    pub created_at: Timestamp,
    pub to: Recipient,
}

/// The content of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// This text is sent.
    Text(String),
    /// This is asked, and the answer is sent.
    Prompt(String),
}

/// The dates of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Timing {
    At(Timestamp),
    /// At each date of this cron pattern: minute, hour, day of the month, month, day of the week.
    Cron(String),
}

/// The person whom a schedule is for, and the way to them: that of their message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recipient {
    pub channel: Channel,
    /// The platform's id of the chat.
    pub chat_id: String,
    pub user_id: String,
    /// See [`Record::person`](crate::record::Record::person).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// Id of the message: Lark sends to a message.
    pub message_id: String,
    /// The fields of its metadata by which the platform finds the chat, and those that tell the person's language.
    #[serde(default)]
    pub metadata: Metadata,
}

/// A date or pattern that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    #[error("{pattern:?} is not a cron pattern of five fields (minute, hour, day, month, weekday): {reason}")]
    Pattern { pattern: String, reason: String },
    #[error("{pattern:?} comes due more often than every {} minutes", SHORTEST_INTERVAL.as_secs() / 60)]
    TooOften { pattern: String },
    #[error("{pattern:?} never comes due: there is no such date")]
    NoDate { pattern: String },
    #[error("it never comes due: its date is past, or more than five years away")]
    Never,
}

impl Recipient {
    /// Returns the Person in `chat`, as [`Record::sender`](crate::record::Record::sender) does.
    pub fn sender(&self, chat: &ChatKey) -> String {
        person_of_sender(chat, self.channel, &self.user_id, self.person.as_deref())
    }
}

impl Action {
    pub fn content(&self) -> &str {
        match self {
            Self::Text(content) | Self::Prompt(content) => content,
        }
    }
}

impl Timing {
    /// Checks a pattern, whose dates are at least [`SHORTEST_INTERVAL`] apart.
    pub fn cron(pattern: &str, zone: TimeZone, now: Timestamp) -> Result<Self, TimingError> {
        let pattern = pattern.trim().to_owned();
        let (cron, rules) = (parsed(&pattern)?, zone.rules());
        let mut dates = vec![now];
        while dates.len() <= DATES_CHECKED
            && let Some(next) = next_date(&cron, &rules, dates[dates.len() - 1])
        {
            dates.push(next);
        }
        dates.remove(0);
        if dates.windows(2).any(|pair| pair[1].since(pair[0]) < SHORTEST_INTERVAL) {
            return Err(TimingError::TooOften { pattern });
        }
        if dates.is_empty() { Err(TimingError::NoDate { pattern }) } else { Ok(Self::Cron(pattern)) }
    }
}

impl Schedule {
    /// Returns its first date after `after`.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.timing {
            Timing::At(at) => (*at > after).then_some(*at),
            Timing::Cron(pattern) => next_date(&parsed(pattern).ok()?, &self.time_zone.rules(), after),
        }
    }
}

fn parsed(pattern: &str) -> Result<Crontab, TimingError> {
    let invalid = |reason: String| TimingError::Pattern { pattern: pattern.to_owned(), reason };
    let fields = pattern.split_whitespace().count();
    if fields != 5 {
        return Err(invalid(format!("the number of its fields is {fields}")));
    }
    let mut options = ParseOptions::default();
    options.fallback_timezone_option = FallbackTimezoneOption::UTC;
    // The library's text repeats the pattern on lines of its own, with a mark under the place; its reason follows the mark.
    let reason = |text: String| text.rsplit("^ ").next().unwrap_or_default().to_owned();
    cronexpr::parse_crontab_with(pattern, options).map_err(|error| invalid(reason(error.to_string())))
}

/// Returns the first date of `cron` after `after` in `zone`. A time of day that clocks skip comes as much later, and one that
/// they repeat comes once.
fn next_date(cron: &Crontab, zone: &tz::TimeZone, after: Timestamp) -> Option<Timestamp> {
    // The pattern is read in UTC, so that its dates are times on the clocks of the zone.
    let in_utc = |local: DateTime| local.to_zoned(tz::TimeZone::UTC).ok();
    let mut local = in_utc(instant(after).to_zoned(zone.clone()).datetime())?;
    loop {
        let next = cron.find_next(MakeTimestamp(local.timestamp())).ok()?.datetime();
        let at = Timestamp::from_millis(next.to_zoned(zone.clone()).ok()?.timestamp().as_millisecond())?;
        if at > after {
            return Some(at);
        }
        // In the hour that clocks repeat, this time of day has come already.
        local = in_utc(next)?;
    }
}

/// Formats `at` in `zone`: `2026-11-25 09:00 Asia/Shanghai`.
pub fn shown(at: Timestamp, zone: TimeZone) -> String {
    format!("{} {zone}", instant(at).to_zoned(zone.rules()).strftime("%Y-%m-%d %H:%M"))
}

/// Returns `at` as jiff's.
fn instant(at: Timestamp) -> Instant {
    // Every `Timestamp` is in the range of jiff's.
    Instant::from_millisecond(at.as_millis()).unwrap_or(Instant::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_rfc3339(text).unwrap()
    }

    fn schedule(timing: Timing, time_zone: TimeZone) -> Schedule {
        Schedule {
            id: ScheduleId::try_from("a-1".to_owned()).unwrap(),
            action: Action::Prompt("What is new?".into()),
            timing,
            time_zone,
            created_at: Timestamp::from_secs(5),
            to: Recipient {
                channel: Channel::Telegram,
                chat_id: "42".into(),
                user_id: "7".into(),
                person: None,
                message_id: "1".into(),
                metadata: Metadata::default(),
            },
        }
    }

    fn dates(pattern: &str, name: &str, from: &str, count: usize) -> Vec<String> {
        let zone = TimeZone::named(name).unwrap();
        let timing = Timing::cron(pattern, zone, at(from)).unwrap();
        let (schedule, mut last) = (schedule(timing, zone), at(from));
        let next = |_| {
            last = schedule.next(last).unwrap();
            last.rfc3339()
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn a_pattern_keeps_its_time_of_day_when_clocks_change() {
        // In New York clocks go back on 1 November 2026, and forward on 14 March 2027.
        assert_eq!(
            dates("0 9 * * *", "America/New_York", "2026-10-31T00:00:00Z", 3),
            ["2026-10-31T13:00:00.000Z", "2026-11-01T14:00:00.000Z", "2026-11-02T14:00:00.000Z"]
        );
        // 02:30 does not exist on the 14th, and comes once all the same.
        assert_eq!(
            dates("30 2 * * *", "America/New_York", "2027-03-13T12:00:00Z", 2),
            ["2027-03-14T07:30:00.000Z", "2027-03-15T06:30:00.000Z"]
        );
        // 01:30 comes twice on 1 November, and counts once.
        assert_eq!(
            dates("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", 2),
            ["2026-11-01T05:30:00.000Z", "2026-11-02T06:30:00.000Z"]
        );
    }

    #[test]
    fn a_pattern_goes_on_after_the_hour_that_clocks_repeat() {
        // From the second 01:58 on: 01:59 has come already.
        assert_eq!(
            dates("59 * * * *", "America/New_York", "2026-11-01T06:58:00Z", 2),
            ["2026-11-01T07:59:00.000Z", "2026-11-01T08:59:00.000Z"]
        );
    }

    #[test]
    fn a_pattern_of_weekdays_is_read_as_cron_does() {
        // 26 November 2026 is a Thursday.
        assert_eq!(
            dates("0 9 * * 1-5", "Asia/Shanghai", "2026-11-26T12:00:00Z", 2),
            ["2026-11-27T01:00:00.000Z", "2026-11-30T01:00:00.000Z"]
        );
    }

    /// As the description of the agent's tool says.
    #[test]
    fn a_pattern_of_days_has_the_last_of_the_month_and_skips_what_a_month_lacks() {
        let of = |pattern: &str| dates(pattern, "UTC", "2027-01-31T12:00:00Z", 3);
        let [february, march, april, may] = ["02-28", "03-31", "04-30", "05-31"];
        let wanted = |days: [&str; 3]| days.map(|day| format!("2027-{day}T09:00:00.000Z"));
        assert_eq!(of("0 9 L * *"), wanted([february, march, april]));
        assert_eq!(of("0 9 31 * *"), wanted([march, may, "07-31"]));
    }

    #[test]
    fn a_date_comes_once() {
        let once = schedule(Timing::At(at("2026-11-26T12:00:00Z")), TimeZone::UTC);
        assert_eq!(once.next(at("2026-11-26T11:59:59Z")), Some(at("2026-11-26T12:00:00Z")));
        assert_eq!(once.next(at("2026-11-26T12:00:00Z")), None);
    }

    #[test]
    fn an_invalid_pattern_is_refused_with_its_reason() {
        let error = |pattern: &str| {
            Timing::cron(pattern, TimeZone::UTC, at("2026-11-24T00:00:00Z")).unwrap_err().to_string()
        };
        for pattern in ["9 o'clock", "0 0 9 * * *", "", "61 9 * * *"] {
            assert!(error(pattern).contains("is not a cron pattern of five fields"), "{pattern}");
        }
        let told = "\"@daily\" is not a cron pattern of five fields (minute, hour, day, month, weekday): the number of its \
                    fields is 1";
        assert_eq!(error("@daily"), told);
        let told = error("0 9 * * 8");
        assert!(told.contains("weekday): ") && !told.contains(['\n', '^']), "{told}");
        for pattern in ["* * * * *", "0,3 9 * * *"] {
            assert_eq!(error(pattern), format!("{pattern:?} comes due more often than every 5 minutes"));
        }
        assert_eq!(error("0 9 30 2 *"), "\"0 9 30 2 *\" never comes due: there is no such date");
    }

    #[test]
    fn a_schedule_is_stored_with_its_content_and_dates_by_name() {
        let schedule = schedule(Timing::Cron("0 9 * * *".into()), TimeZone::UTC);
        let json = serde_json::to_value(&schedule).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "id": "a-1", "prompt": "What is new?", "cron": "0 9 * * *", "timeZone": "UTC", "createdAt": 5000,
                "to": {"channel": "telegram", "chatId": "42", "userId": "7", "messageId": "1", "metadata": {}},
            })
        );
        assert_eq!(serde_json::from_value::<Schedule>(json).unwrap(), schedule);
    }
}
