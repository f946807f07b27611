//! Dates as people write them after `/remind`, in English and Chinese: [`parse`].
//!
//! | English | Chinese |
//! | --- | --- |
//! | `9:00`, `9am`, `9:30 p.m.`, `at 9`, `at 9.30` | `9点`, `9点半`, `9点一刻`, `9:30`, `下午3点20` |
//! | `tomorrow 9:00`, `at 9 on monday`, `2026-12-01 9:00` | `明天9点`, `后天9点`, `周一9点`, `2026-12-01 9点` |
//! | `tomorrow morning at 9`, `at 8 on friday in the evening` | `明早9点`, `周五晚上8点` |
//! | `in 20 minutes`, `in 2 hours and 5 minutes`, `in 3 days` | `20分钟后`, `2小时5分钟后`, `3天后` |
//! | `in 3 days at 9` | `3天后9点` |
//! | `every day 9:00`, `every weekday 9:00`, `every monday 9:00` | `每天9点`, `工作日9点`, `每周一9点` |
//!
//! A time of day without a day is the next one. The rest of the text is what to say. A text whose rest may belong to the date
//! is not read at all, since a reminder at a wrong time is worse than a question.

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::{Span, Timestamp as Instant, ToSpan, Zoned};

use super::{Timing, TimingError, instant};
use crate::chinese_numbers::{number_of, value_of};
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

/// The part of the day that an hour belongs to.
#[derive(Clone, Copy)]
enum Part {
    Morning,
    Noon,
    Afternoon,
    Night,
}

/// Parts of the day before an hour.
const BEFORE: [(&str, Part); 7] = [
    ("上午", Part::Morning),
    ("早上", Part::Morning),
    ("凌晨", Part::Morning),
    ("中午", Part::Noon),
    ("下午", Part::Afternoon),
    ("晚上", Part::Night),
    ("傍晚", Part::Night),
];

/// Parts of the day after a time.
const AFTER: [(&str, Part); 6] = [
    ("am", Part::Morning),
    ("a.m.", Part::Morning),
    ("a.m", Part::Morning),
    ("pm", Part::Afternoon),
    ("p.m.", Part::Afternoon),
    ("p.m", Part::Afternoon),
];

/// Parts of the day after a time or a day: `in the morning`, `tomorrow morning`.
const NAMED: [(&str, Part); 4] = [
    ("morning", Part::Morning),
    ("afternoon", Part::Afternoon),
    ("evening", Part::Night),
    ("night", Part::Night),
];

/// Parses the date at the start of `text`, as of `now` in `zone`. Returns it and the rest of the text, or `None` if there is no
/// date or nothing after it.
/// Fails with [`TimingError::Never`] if the date is past or further away than five years.
pub fn parse(text: &str, now: Timestamp, zone: TimeZone) -> Option<Result<(Timing, String), TimingError>> {
    let text = text.trim();
    let text = strip(text, "me ").or(strip(text, "提醒我")).unwrap_or(text).trim_start();
    let (said_at, now) = (now, &instant(now).to_zoned(zone.rules()));
    let Some((days, time, rest)) = days_and_time(text, now) else {
        let (span, rest) = after_a_while(text)?;
        let at = now.checked_add(span).map_err(|_| TimingError::Never);
        let content = content(rest, now)?;
        return Some(at.and_then(|at| once(&at, now)).map(|timing| (timing, content)));
    };
    let content = content(rest, now)?;
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

/// Returns the rest of a reminder: without the words that join it to its date. Returns `None` if it may begin with another date:
/// `9:00 and 21:00`, `8点和晚上8点`, `3天后9点3楼`. No text begins with "and": "at 9 and 10".
fn content(rest: &str, now: &Zoned) -> Option<String> {
    let more = rest.trim_start_matches(|c| is_separator(c) || "、和与以及或的在&/+".contains(c));
    let is_joined = more.len() < rest.trim_start_matches(is_separator).len();
    let at = strip(more, "at ").or_else(|| BEFORE.iter().find_map(|(name, _)| strip(more, name)));
    let is_number_of_date = number(at.unwrap_or(more).trim_start())
        .is_some_and(|(_, after)| at.is_some() || after.starts_with(['点', '點', '月']));
    let is_day = after_a_while(more).is_some() || (is_joined && days(more, now).is_some());
    let is_time = time_of_day(more).is_some() || days_and_time(more, now).is_some();
    if is_number_of_date || is_day || is_time || strip(more, "and ").is_some() {
        return None;
    }
    let rest =
        strip(rest, ". ").unwrap_or(rest).trim_start_matches([',', '，', ':', '：', '、', '。']).trim();
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

/// Reads days and a time of day, in either order. Returns `None` if either is said twice, or if it is not clear that a day after
/// the time belongs to the date: `9am sun cream`, `9点今天的日报`. If another day does, it is text: `每天9点今天的日报`.
fn days_and_time<'a>(text: &'a str, now: &Zoned) -> Option<(Days, Time, &'a str)> {
    let (mut date, mut clock, mut rest) = (None, None, text);
    loop {
        let next = rest.trim_start_matches(is_separator);
        let named = strip(next, "on ").unwrap_or(next);
        if let Some((hour, minute, part, after)) = time_of_day(next) {
            if clock.replace((hour, minute, part)).is_some() {
                return None;
            }
            rest = after;
        } else if let Some((days, part, after)) = days(named, now) {
            // The evening is of the date in "at 8 tomorrow evening call", of the text in "8am tomorrow evening class".
            let is_open = part.is_none() && matches!(clock, None | Some((..=12, _, None)));
            let of_day = part_of_day(after, &["in the ", "at ", ""]).filter(|_| is_open);
            let (part, after) = of_day.map_or((part, after), |(part, after)| (Some(part), after));
            // Not `、`: more days may follow it.
            let ends = after.chars().next().is_none_or(|c| is_separator(c) || matches!(c, ':' | '：'));
            let is_clear = named.len() - after.len() >= "today".len() && ends;
            match date {
                Some(_) if !is_clear && matches!(days, Days::On(_)) => break,
                None if is_clear || clock.is_none() => (date, rest) = (Some((days, part)), after),
                _ => return None,
            }
        } else if strip(named, "every ").or(strip(named, "每")).is_some() {
            return None;
        } else {
            break;
        }
    }
    let (days, part_of_days) = date.unwrap_or((Days::Next, None));
    let (hour, minute, part) = clock?;
    let hour = match (part.or(part_of_days), hour) {
        (None, _)
        | (Some(Part::Morning), ..=11)
        | (Some(Part::Noon), 11 | 12)
        | (Some(Part::Afternoon), 12)
        | (Some(Part::Night), 13..) => hour,
        (Some(Part::Morning), 12) => 0,
        (Some(Part::Noon), 1 | 2) | (Some(Part::Afternoon), 1..=11) | (Some(Part::Night), 5..=11) => {
            hour + 12
        }
        // At night, 12 and 1 are of this day or of the next.
        _ => return None,
    };
    let (hour, minute) = (i8::try_from(hour).ok()?, i8::try_from(minute).ok()?);
    Some((days, Time::new(hour, minute, 0, 0).ok()?, rest))
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || matches!(c, ',' | '，')
}

/// Reads the days of a date, and the part of the day if their name contains it.
fn days<'a>(text: &'a str, now: &Zoned) -> Option<(Days, Option<Part>, &'a str)> {
    if let Some((span, rest)) = after_a_while(text)
        && (span.get_hours(), span.get_minutes()) == (0, 0)
    {
        return Some((Days::On(now.date().checked_add(span).ok()?), None, rest));
    }
    let every = strip(text, "every ").or(strip(text, "每"));
    let rest = every.map_or(text, str::trim_start);
    if let Some(rest) = strip(text, "工作日") {
        return Some((Days::Every("1-5".into()), None, rest));
    }
    if every.is_some() {
        let named = [
            ("weekday", "1-5", None),
            ("个工作日", "1-5", None),
            ("day", "*", None),
            ("天", "*", None),
            ("日", "*", None),
            ("早上", "*", Some(Part::Morning)),
            ("早", "*", Some(Part::Morning)),
            ("晚上", "*", Some(Part::Night)),
            ("晚", "*", Some(Part::Night)),
        ];
        let read = |(name, field, part): (&str, &str, Option<Part>)| {
            Some((Days::Every(field.to_owned()), part, strip(rest, name)?))
        };
        let of_day =
            || part_of_day(rest, &[""]).map(|(part, rest)| (Days::Every("*".into()), Some(part), rest));
        if let Some(read) = named.into_iter().find_map(read).or_else(of_day) {
            return Some(read);
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
        Some((day, rest)) if every.is_some() => {
            Some((Days::Every(day.to_sunday_zero_offset().to_string()), None, rest))
        }
        // The same weekday is in a week: its time of day may be past.
        Some((day, rest)) => Some((Days::On(now.date().nth_weekday(1, day).ok()?), None, rest)),
        None if every.is_some() => None,
        None => {
            let named = [
                ("today", 0, None),
                ("tonight", 0, Some(Part::Night)),
                ("tomorrow", 1, None),
                ("今天", 0, None),
                ("今早", 0, Some(Part::Morning)),
                ("今晚", 0, Some(Part::Night)),
                ("明天", 1, None),
                ("明早", 1, Some(Part::Morning)),
                ("明晚", 1, Some(Part::Night)),
                ("后天", 2, None),
            ];
            let named = named.into_iter().find_map(|(name, days, part)| {
                let date = now.date().checked_add(days.days()).ok()?;
                Some((Days::On(date), part, strip(rest, name)?))
            });
            named.or_else(|| dated(rest))
        }
    }
}

/// Reads `2026-12-01`.
fn dated(text: &str) -> Option<(Days, Option<Part>, &str)> {
    let date: Date = text.get(..10)?.parse().ok()?;
    Some((Days::On(date), None, &text[10..]))
}

/// Reads the hour and the minute of a time of day as they are said, and the part of the day.
fn time_of_day(text: &str) -> Option<(i64, i64, Option<Part>, &str)> {
    let after_at = strip(text, "at ");
    let text = after_at.unwrap_or(text).trim_start();
    if let Some(rest) = strip(text, "noon") {
        return Some((12, 0, None, rest));
    }
    let before = BEFORE.iter().find_map(|(name, part)| Some((*part, strip(text, name)?)));
    let (before, text) = before.map_or((None, text), |(part, rest)| (Some(part), rest.trim_start()));
    let (hour, rest) = number(text)?;
    let (minute, rest, is_marked) = match rest.chars().next() {
        // "at 9. Call Bo" has no minutes.
        Some(mark @ (':' | '：' | '.')) if !rest[mark.len_utf8()..].starts_with(char::is_whitespace) => {
            let digits = &rest[mark.len_utf8()..];
            let (minute, rest) = number(digits)?;
            if digits[..digits.len() - rest.len()].chars().count() != 2 {
                return None;
            }
            (Some(minute), rest, mark != '.' || after_at.is_some())
        }
        Some(mark @ ('点' | '點')) => {
            let rest = &rest[mark.len_utf8()..];
            minutes(rest).map_or((None, rest, true), |(minute, rest)| (Some(minute), rest, true))
        }
        _ => match ["o'clock", "o’clock"].iter().find_map(|name| strip(rest.trim_start(), name)) {
            Some(rest) => (Some(0), rest, true),
            None => (None, rest, after_at.is_some()),
        },
    };
    let after = AFTER.iter().find_map(|(name, part)| {
        let rest = strip(rest.trim_start(), name)?;
        (!rest.starts_with(|c: char| c.is_ascii_alphanumeric())).then_some((*part, rest))
    });
    let after = after.or_else(|| part_of_day(rest, &["in the ", "this ", "at "]));
    let (after, rest) = after.map_or((None, rest), |(part, rest)| (Some(part), rest));
    let part = after.or(before);
    // "9 bottles" begins with no time of day.
    if !is_marked && part.is_none() {
        return None;
    }
    // "at 9 30", "9点 30" and "9点3楼" may have minutes, "9:30:15" has seconds, "9点 3楼" has none.
    let is_bare = minute.is_none() && after.is_none();
    let next = rest.trim_start_matches(|c: char| ".:：".contains(c) || (is_bare && c.is_whitespace()));
    let digits = next.chars().take_while(|c| digit(*c).is_some()).count();
    let is_apart = is_bare && after_at.is_none() && rest.starts_with(char::is_whitespace);
    if (digits > 0 && !(is_apart && digits != 2)) || rest.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    Some((hour, minute.unwrap_or(0), part, rest))
}

/// Reads a part of the day in English, after one of `joints`.
fn part_of_day<'a>(text: &'a str, joints: &[&str]) -> Option<(Part, &'a str)> {
    let (name, rest) = word(joints.iter().find_map(|joint| strip(text.trim_start(), joint))?);
    NAMED.iter().find_map(|(known, part)| name.eq_ignore_ascii_case(known).then_some((*part, rest)))
}

/// Reads the minutes after `点`: two digits, tens, or with `分`. `9点一起吃饭`, `9点五一放假` and `9点10分钟会议` have none.
fn minutes(text: &str) -> Option<(i64, &str)> {
    if ["半小时", "钟点", "整理", "整改", "整顿", "整合"].iter().any(|word| text.starts_with(word))
    {
        return None;
    }
    let named = [("半", 30), ("一刻", 15), ("三刻", 45), ("钟", 0), ("整", 0)];
    if let Some(read) = named.iter().find_map(|(name, minute)| Some((*minute, strip(text, name)?))) {
        return Some(read);
    }
    let (minute, rest) = number(strip(text, "零").unwrap_or(text)).filter(|(minute, _)| *minute < 60)?;
    let said = &text[..text.len() - rest.len()];
    let is_whole = said.chars().count() > 1
        && (said.starts_with(|c| matches!(c, '零' | '〇') || digit(c).is_some()) || said.contains('十'))
        && !rest.starts_with('个');
    match strip(rest, "分") {
        Some(rest) => (!rest.starts_with('钟')).then_some((minute, rest)),
        None => is_whole.then_some((minute, rest)),
    }
}

/// Reads at most six digits, also full-width ones, or a Chinese number such as `二十三`.
fn number(text: &str) -> Option<(i64, &str)> {
    let value: fn(char) -> Option<u64> =
        if text.starts_with(|c: char| digit(c).is_some()) { digit } else { value_of };
    let end = text.find(|c: char| value(c).is_none()).unwrap_or(text.len());
    let values: Vec<u64> = text[..end].chars().filter_map(value).collect();
    let number = i64::try_from(number_of(&values)).ok().filter(|_| (1..=6).contains(&values.len()))?;
    Some((number, &text[end..]))
}

fn digit(c: char) -> Option<u64> {
    match c {
        '０'..='９' => Some(u64::from(c) - u64::from('０')),
        _ => c.to_digit(10).map(u64::from),
    }
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
mod tests;
