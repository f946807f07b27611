//! Dates as people write them after `/remind`, in English and Chinese: [`parse`].
//!
//! | English | Chinese |
//! | --- | --- |
//! | `9:00`, `9am`, `21:30`, `at 9` | `9点`, `9点半`, `9:30`, `下午3点20` |
//! | `tomorrow 9:00`, `monday at 9`, `2026-12-01 9:00` | `明天9点`, `后天9点`, `周一9点`, `2026-12-01 9点` |
//! | `in 20 minutes`, `in 2 hours and 5 minutes`, `in 3 days` | `20分钟后`, `2小时5分钟后`, `3天后` |
//! | `every day 9:00`, `every weekday 9:00`, `every monday 9:00` | `每天9点`, `工作日9点`, `每周一9点` |
//!
//! A time of day without a day is the next one. The rest of the text is what to say.

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::{Span, Timestamp as Instant, ToSpan, Zoned};

use super::{Timing, TimingError, instant};
use crate::sort_key::Timestamp;
use crate::time_zone::TimeZone;

/// Longest time from now, in days.
const MAX_DAYS: i64 = 366 * 5;

const WEEKDAYS: [(Weekday, &str, char); 7] = [
    (Weekday::Monday, "monday", '一'),
    (Weekday::Tuesday, "tuesday", '二'),
    (Weekday::Wednesday, "wednesday", '三'),
    (Weekday::Thursday, "thursday", '四'),
    (Weekday::Friday, "friday", '五'),
    (Weekday::Saturday, "saturday", '六'),
    (Weekday::Sunday, "sunday", '日'),
];

/// Names of a unit of time in English and Chinese, and the addition of so many to a span.
type Unit = (&'static [&'static str], &'static [&'static str], fn(Span, i64) -> Result<Span, jiff::Error>);

/// From the shortest to the longest.
const UNITS: [Unit; 4] = [
    (&["m", "min", "mins", "minute", "minutes"], &["分钟", "分"], |span, number| span.try_minutes(number)),
    (&["h", "hour", "hours"], &["个小时", "小时"], |span, number| span.try_hours(number)),
    (&["d", "day", "days"], &["天"], |span, number| span.try_days(number)),
    (&["w", "week", "weeks"], &["周"], |span, number| span.try_weeks(number)),
];

/// The days of a date with a time of day.
enum Days {
    /// The next time that this time of day comes.
    Next,
    On(Date),
    /// As the last field of a cron pattern.
    Every(String),
}

/// Parses the date at the start of `text`, as of `now` in `zone`. Returns it and the rest of the text, or `None` if there is no
/// date or nothing after it.
/// Fails with [`TimingError::Never`] if the date is past or further away than five years.
pub fn parse(text: &str, now: Timestamp, zone: TimeZone) -> Option<Result<(Timing, String), TimingError>> {
    let text = text.trim();
    let (said_at, now) = (now, &instant(now).to_zoned(zone.rules()));
    if let Some((span, rest)) = after_a_while(text) {
        let at = now.checked_add(span).map_err(|_| TimingError::Never);
        let content = content(rest)?;
        return Some(at.and_then(|at| once(&at, now)).map(|timing| (timing, content)));
    }
    let (days, rest) = days(text, now);
    let (time, rest) = time_of_day(rest)?;
    let content = content(rest)?;
    let timing = match days {
        Days::Every(weekdays) => {
            let pattern = format!("{} {} * * {weekdays}", time.minute(), time.hour());
            Timing::cron(&pattern, zone, said_at)
        }
        Days::On(date) => on(date, time, now),
        Days::Next => {
            let today = on(now.date(), time, now);
            today.or_else(|_| {
                now.date().tomorrow().map_or(Err(TimingError::Never), |date| on(date, time, now))
            })
        }
    };
    Some(timing.map(|timing| (timing, content)))
}

/// Reads a date of RFC 3339, or one without an offset in `zone`.
pub fn date(text: &str, zone: TimeZone) -> Option<Timestamp> {
    let millis = |at: Instant| Timestamp::from_millis(at.as_millisecond());
    if let Ok(at) = text.trim().parse::<Instant>() {
        return millis(at);
    }
    let local: DateTime = text.trim().parse().ok()?;
    millis(local.to_zoned(zone.rules()).ok()?.timestamp())
}

fn on(date: Date, time: Time, now: &Zoned) -> Result<Timing, TimingError> {
    let at = date.to_datetime(time).to_zoned(now.time_zone().clone()).map_err(|_| TimingError::Never)?;
    once(&at, now)
}

fn once(at: &Zoned, now: &Zoned) -> Result<Timing, TimingError> {
    let is_near = at.timestamp().as_millisecond() - now.timestamp().as_millisecond() < MAX_DAYS * 86_400_000;
    let at = Timestamp::from_millis(at.timestamp().as_millisecond()).filter(|_| at > now && is_near);
    at.map(Timing::At).ok_or(TimingError::Never)
}

/// Returns the rest of a reminder: without the words that join it to its date.
fn content(rest: &str) -> Option<String> {
    let rest = rest.trim_start_matches([',', '，', ':', '：', '、']).trim();
    let rest =
        ["to ", "that ", "提醒我", "叫我"].iter().find_map(|word| strip(rest, word)).unwrap_or(rest).trim();
    (!rest.is_empty()).then(|| rest.to_owned())
}

/// Reads `in 20 minutes`, `in 2 hours and 5 minutes` or `2小时5分钟后`. An "and" that no shorter unit follows is no part of a
/// text: "in an hour and a half" is refused rather than read as an hour.
fn after_a_while(text: &str) -> Option<(Span, &str)> {
    if let Some(rest) = strip(text, "in ") {
        let (span, rest) = span(rest)?;
        return strip(rest.trim_start_matches([',', ' ']), "and ").is_none().then_some((span, rest));
    }
    if let Some(rest) = strip(text, "半小时后").or(strip(text, "半个小时后")) {
        return Some((30.minutes(), rest));
    }
    let (span, rest) = span(text)?;
    Some((span, strip(rest, "后")?))
}

/// Reads numbers and units, each shorter than the one before: `2 hours and 5 minutes`, `1 day, 2h 5m`, `2小时5分钟`.
fn span(text: &str) -> Option<(Span, &str)> {
    let (mut span, mut shorter, mut rest) = (Span::new(), UNITS.len(), text);
    loop {
        let next = rest.trim_start_matches([',', '，', ' ']);
        let joined = strip(next, "and ").or(strip(next, "零"));
        let next = joined.unwrap_or(next).trim_start();
        // "in 2 hours a minute of silence" is in two hours.
        let is_joined = joined.is_some() || shorter == UNITS.len();
        let one = strip(next, "an ").or(strip(next, "a ")).filter(|_| is_joined);
        let amount = number(next).or_else(|| Some((1, one?)));
        let read = amount.and_then(|(number, next)| {
            let (name, after) = word(next.trim_start());
            UNITS[..shorter].iter().enumerate().find_map(|(index, (english, chinese, add))| {
                let is_named = english.contains(&name.to_ascii_lowercase().as_str()).then_some(after);
                let after = is_named.or_else(|| chinese.iter().find_map(|unit| strip(after, unit)))?;
                Some((index, add(span, number).ok()?, after))
            })
        });
        match read {
            Some((index, sum, after)) => (shorter, span, rest) = (index, sum, after),
            None => return (shorter < UNITS.len()).then_some((span, rest)),
        }
    }
}

/// Reads the days before a time of day.
fn days<'a>(text: &'a str, now: &Zoned) -> (Days, &'a str) {
    let (every, rest) = match strip(text, "every ").or(strip(text, "每")) {
        Some(rest) => (true, rest.trim_start()),
        None => (false, text),
    };
    if let Some(rest) = strip(text, "工作日") {
        return (Days::Every("1-5".into()), rest);
    }
    if every {
        for (name, field) in [("weekday", "1-5"), ("个工作日", "1-5"), ("day", "*"), ("天", "*"), ("日", "*")]
        {
            if let Some(rest) = strip(rest, name) {
                return (Days::Every(field.into()), rest);
            }
        }
    }
    let weekday = ["周", "星期", "礼拜"].iter().find_map(|prefix| {
        let rest = strip(rest, prefix)?;
        let first = rest.chars().next()?;
        let (day, ..) =
            WEEKDAYS.iter().find(|(.., sign)| *sign == first || (first == '天' && *sign == '日'))?;
        Some((*day, &rest[first.len_utf8()..]))
    });
    let weekday = weekday.or_else(|| {
        let (name, after) = word(rest);
        let name = name.to_ascii_lowercase();
        let (day, ..) = WEEKDAYS.iter().find(|(_, full, _)| name.len() >= 3 && full.starts_with(&*name))?;
        Some((*day, after))
    });
    match weekday {
        Some((day, rest)) if every => (Days::Every(day.to_sunday_zero_offset().to_string()), rest),
        Some((day, rest)) => match now.date().nth_weekday(1, day) {
            // The same weekday is in a week: its time of day may be past.
            Ok(date) => (Days::On(date), rest),
            Err(_) => (Days::Next, rest),
        },
        None => {
            let named = [("today", 0), ("tomorrow", 1), ("今天", 0), ("明天", 1), ("后天", 2)];
            let named = named.iter().find_map(|(name, days)| {
                let date = now.date().checked_add(days.days()).ok()?;
                Some((Days::On(date), strip(rest, name)?))
            });
            named.or_else(|| dated(rest)).unwrap_or((Days::Next, rest))
        }
    }
}

/// Reads `2026-12-01`.
fn dated(text: &str) -> Option<(Days, &str)> {
    let date: Date = text.get(..10)?.parse().ok()?;
    Some((Days::On(date), &text[10..]))
}

fn time_of_day(text: &str) -> Option<(Time, &str)> {
    let text = text.trim_start();
    let after_at = strip(text, "at ");
    let text = after_at.unwrap_or(text).trim_start();
    if let Some(rest) = strip(text, "noon").or(strip(text, "中午12点")).or(strip(text, "中午十二点"))
    {
        return Some((Time::midnight().with().hour(12).build().ok()?, rest));
    }
    let parts =
        [("上午", false), ("早上", false), ("凌晨", false), ("下午", true), ("晚上", true), ("傍晚", true)];
    let is_night = text.starts_with("晚上");
    let part = parts.iter().find_map(|(name, is_late)| Some((*is_late, strip(text, name)?)));
    let (is_late, text) = part.map_or((None, text), |(is_late, rest)| (Some(is_late), rest.trim_start()));
    let (hour, rest) = number(text)?;
    let (minute, rest, is_marked) = match rest.chars().next() {
        Some(':' | '：') => {
            let rest = rest.trim_start_matches([':', '：']);
            let (minute, after) = number(rest)?;
            if rest.len() - after.len() != 2 {
                return None;
            }
            (minute, after, true)
        }
        Some('点' | '點') => {
            let rest = rest.trim_start_matches(['点', '點']);
            match strip(rest, "半").map(|rest| (30, rest)).or_else(|| number(rest)) {
                Some((minute, rest)) => (minute, strip(rest, "分").unwrap_or(rest), true),
                None => (0, strip(rest, "钟").or(strip(rest, "整")).unwrap_or(rest), true),
            }
        }
        _ => (0, rest, after_at.is_some()),
    };
    let (meridiem, after) = word(rest.trim_start());
    let (is_late, rest) = match meridiem.to_ascii_lowercase().as_str() {
        "am" => (Some(false), after),
        "pm" => (Some(true), after),
        _ => (is_late, rest),
    };
    // "9 bottles" begins with no time of day.
    if !is_marked && is_late.is_none() {
        return None;
    }
    // Ambiguous: of this day or of the next.
    if is_night && matches!(hour, 12 | 1..=4) {
        return None;
    }
    let hour = match (is_late, hour) {
        (Some(true), 1..=11) => hour + 12,
        (Some(false), 12) => 0,
        (Some(_), 13..) => return None,
        _ => hour,
    };
    if rest.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let (hour, minute) = (i8::try_from(hour).ok()?, i8::try_from(minute).ok()?);
    Some((Time::new(hour, minute, 0, 0).ok()?, rest))
}

/// Reads digits of ASCII, at most six.
fn number(text: &str) -> Option<(i64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..end].parse().ok().filter(|_| (1..=6).contains(&end))?;
    Some((number, &text[end..]))
}

/// Reads letters of ASCII.
fn word(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len()))
}

/// Returns the text after `prefix`, in any case.
fn strip<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let start = text.get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses `text` on Tuesday, 24 November 2026, 10:00 in Shanghai.
    fn read(text: &str) -> Option<String> {
        let zone = TimeZone::named("Asia/Shanghai").unwrap();
        let now = Timestamp::parse_rfc3339("2026-11-24T02:00:00Z").unwrap();
        let (timing, content) = match parse(text, now, zone)? {
            Ok(read) => read,
            Err(error) => return Some(error.to_string()),
        };
        let date = match timing {
            Timing::At(at) => instant(at).to_zoned(zone.rules()).strftime("%Y-%m-%d %H:%M").to_string(),
            Timing::Cron(pattern) => pattern,
        };
        Some(format!("{date} | {content}"))
    }

    #[test]
    fn dates_are_read_in_both_languages() {
        for (text, wanted) in [
            ("9:00 stand-up", "2026-11-25 09:00 | stand-up"),
            ("tomorrow at 9 to call Bo", "2026-11-25 09:00 | call Bo"),
            ("at 9 to call Bo", "2026-11-25 09:00 | call Bo"),
            ("11am tea", "2026-11-24 11:00 | tea"),
            ("9 pm tea", "2026-11-24 21:00 | tea"),
            ("12am sleep", "2026-11-25 00:00 | sleep"),
            ("noon lunch", "2026-11-24 12:00 | lunch"),
            ("today 18:30, gym", "2026-11-24 18:30 | gym"),
            ("Tomorrow at 9:05 call", "2026-11-25 09:05 | call"),
            ("monday 9:00 report", "2026-11-30 09:00 | report"),
            ("tue 9:00 report", "2026-12-01 09:00 | report"),
            ("2026-12-01 9:00 rent", "2026-12-01 09:00 | rent"),
            ("in 20 minutes the oven", "2026-11-24 10:20 | the oven"),
            ("in 2h stretch", "2026-11-24 12:00 | stretch"),
            ("in an hour stretch", "2026-11-24 11:00 | stretch"),
            ("in 3 days pay", "2026-11-27 10:00 | pay"),
            ("in 2 hours and 5 minutes the oven", "2026-11-24 12:05 | the oven"),
            ("in 2h5m stretch", "2026-11-24 12:05 | stretch"),
            ("in 1 day, 2 h 5 min to stretch", "2026-11-25 12:05 | stretch"),
            ("in a day and an hour stretch", "2026-11-25 11:00 | stretch"),
            ("in 5 minutes 2 minute eggs", "2026-11-24 10:05 | 2 minute eggs"),
            ("in 2 hours a minute of silence", "2026-11-24 12:00 | a minute of silence"),
            ("in 2 hours 5 bottles", "2026-11-24 12:00 | 5 bottles"),
            ("every day 9:00 water", "0 9 * * * | water"),
            ("every weekday at 9:15 stand-up", "15 9 * * 1-5 | stand-up"),
            ("every Sunday 20:00 plan", "0 20 * * 0 | plan"),
            ("9点开会", "2026-11-25 09:00 | 开会"),
            ("明天9点半提醒我开会", "2026-11-25 09:30 | 开会"),
            ("下午3点20 喝水", "2026-11-24 15:20 | 喝水"),
            ("晚上8点：写日报", "2026-11-24 20:00 | 写日报"),
            ("后天 9:30 体检", "2026-11-26 09:30 | 体检"),
            ("周一9点交报告", "2026-11-30 09:00 | 交报告"),
            ("20分钟后关火", "2026-11-24 10:20 | 关火"),
            ("半小时后 开会", "2026-11-24 10:30 | 开会"),
            ("3天后交租", "2026-11-27 10:00 | 交租"),
            ("2小时5分钟后关火", "2026-11-24 12:05 | 关火"),
            ("1天2个小时零5分后 关火", "2026-11-25 12:05 | 关火"),
            ("每天9点喝水", "0 9 * * * | 喝水"),
            ("每周五18点写周报", "0 18 * * 5 | 写周报"),
            ("工作日9点站会", "0 9 * * 1-5 | 站会"),
        ] {
            assert_eq!(read(text).as_deref(), Some(wanted), "{text}");
        }
    }

    #[test]
    fn a_date_is_read_with_and_without_an_offset() {
        let zone = TimeZone::named("Asia/Shanghai").unwrap();
        let read = |text| date(text, zone).map(Timestamp::rfc3339);
        for text in
            ["2026-11-25T09:00:00+08:00", "2026-11-25T01:00:00Z", "2026-11-25T09:00", "2026-11-25 09:00:00"]
        {
            assert_eq!(read(text).as_deref(), Some("2026-11-25T01:00:00.000Z"), "{text}");
        }
        for text in ["", "tomorrow", "09:00", "2026-13-01T00:00", "1969-01-01T00:00Z"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_text_without_a_date_or_content_is_none() {
        let others = "|call Bo|9:00|in 20 minutes|9:5 x|25:00 x|in a while x|13pm x|明天|9apples|9 bottles|\
            晚上12点 x|明天晚上1点半 x|tomorrow 9 x|in an hour and a half x|in 2 hours and x|in 2 hours, and a half x|5分钟2小时后 x";
        for text in others.split('|') {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_date_that_is_past_or_too_far_is_an_error() {
        for text in ["today 9:00 x", "2026-11-23 9:00 x", "2099-01-01 9:00 x"] {
            assert_eq!(
                read(text).as_deref(),
                Some("it never comes due: its date is past, or more than five years away"),
                "{text}"
            );
        }
    }
}
