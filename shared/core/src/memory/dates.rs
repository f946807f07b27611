//! Dates in the text of an entry: [`dates`], [`numbers`].

use std::collections::BTreeSet;

use jiff::civil::Date;

use crate::chinese_numbers::{number_of, value_of, with_digits};
use crate::sort_key::Timestamp;
use crate::terms::{month_of, plain};

const DAY_MILLIS: i64 = 24 * 3600 * 1000;

/// Returns the dates in `text` that have a year: `2026-05-07`, `2026年5月7日`, `2026年五月七日`, `7 May 2026`, `May 7th, 2026`.
pub fn dates(text: &str) -> Vec<Date> {
    let tokens = tokens(&with_digits(text));
    let number = |token: &Token| match token {
        Token::Number(number) => i16::try_from(*number).ok(),
        Token::Word(_) => None,
    };
    let month = |token: &Token| match token {
        Token::Word(word) => month_of(word).and_then(|month| i8::try_from(month).ok()),
        Token::Number(_) => None,
    };
    let small = |token: &Token| number(token).and_then(|number| i8::try_from(number).ok());
    let found = tokens.windows(3).filter_map(|window| {
        let [a, b, c] = window else { return None };
        let (year, month, day) = match (number(a), month(b), month(a)) {
            (_, Some(month), _) => (number(c)?, month, small(a)?),
            (_, _, Some(month)) => (number(c)?, month, small(b)?),
            (Some(year), None, None) => (year, small(b)?, small(c)?),
            (None, None, None) => return None,
        };
        Date::new(year, month, day).ok().filter(|date| (1900..2100).contains(&date.year()))
    });
    found.collect()
}

/// Returns the end of `date` in UTC.
pub fn end_of(date: Date) -> Option<Timestamp> {
    let days = date.since(jiff::civil::date(1970, 1, 1)).ok()?.get_days();
    Timestamp::from_millis((i64::from(days) + 1) * DAY_MILLIS)
}

/// Returns the date of `time` in UTC.
pub fn date_of(time: Timestamp) -> Date {
    let time = jiff::Timestamp::from_millisecond(time.as_millis()).unwrap_or_default();
    time.to_zoned(jiff::tz::TimeZone::UTC).date()
}

/// Returns the numbers in `text`: in digits, with and without separators, and small ones in English and Chinese words.
pub fn numbers(text: &str) -> BTreeSet<u64> {
    const WORDS: [&str; 13] = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
        "twelve",
    ];
    let mut found: BTreeSet<u64> = in_digits(text);
    for token in tokens(text) {
        if let Token::Word(word) = token
            && let Some(number) = WORDS.iter().position(|name| *name == word)
        {
            found.insert(u64::try_from(number).unwrap_or_default());
        }
    }
    let mut run = Vec::new();
    for c in text.chars().chain([' ']) {
        match value_of(c) {
            Some(value) => run.push(value),
            None if run.is_empty() => {}
            None => {
                found.insert(number_of(&run));
                run.clear();
            }
        }
    }
    // Half past.
    if text.contains('半') || text.to_lowercase().contains("half") {
        found.insert(30);
    }
    found
}

/// Returns the numbers in `text` that are written in digits.
pub fn in_digits(text: &str) -> BTreeSet<u64> {
    let text: Vec<char> = text.chars().map(plain).collect();
    let is_digit = |at: usize| text.get(at).is_some_and(char::is_ascii_digit);
    // `4,200`
    let is_separator = |at: usize| {
        matches!(text[at], ',' | '\'' | '\u{2009}' | '\u{202F}')
            && at > 0
            && is_digit(at - 1)
            && (1..=3).all(|next| is_digit(at + next))
            && !is_digit(at + 4)
    };
    let (mut found, mut run) = (BTreeSet::new(), String::new());
    for at in 0..=text.len() {
        if is_digit(at) {
            run.push(text[at]);
        } else if at == text.len() || !is_separator(at) {
            found.extend(run.parse::<u64>());
            run.clear();
        }
    }
    found
}

#[derive(Debug)]
enum Token {
    Number(u64),
    Word(String),
}

/// Returns the runs of ASCII digits and of ASCII letters in `text`, in order, without endings as in `7th`.
fn tokens(text: &str) -> Vec<Token> {
    let text: Vec<char> = text.chars().map(plain).collect();
    let kind = |c: &char| (c.is_ascii_digit(), c.is_ascii_alphabetic());
    let runs = text.chunk_by(|a, b| kind(a) == kind(b));
    let token = |run: &[char]| {
        let text: String = run.iter().collect::<String>().to_lowercase();
        match run.first() {
            Some(c) if c.is_ascii_digit() => text.parse().ok().map(Token::Number),
            Some(c) if c.is_ascii_alphabetic() => {
                (!matches!(text.as_str(), "st" | "nd" | "rd" | "th" | "of")).then_some(Token::Word(text))
            }
            _ => None,
        }
    };
    runs.filter_map(token).collect()
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    #[test]
    fn dates_with_a_year_are_found() {
        for text in [
            "on 2026-05-07.",
            "2026年5月7日前",
            "2026年五月七日前",
            "the 7th of May 2026",
            "May 7, 2026: frost",
            "２０２６年５月７日",
        ] {
            assert_eq!(dates(text), [date(2026, 5, 7)], "{text}");
        }
        assert_eq!(dates("from 2026-05-07 to 2026-05-09"), [date(2026, 5, 7), date(2026, 5, 9)]);
        for text in ["7 May", "2026-13-40", "room 7 8 9", "9999-01-01", ""] {
            assert_eq!(dates(text), [], "{text}");
        }
        assert_eq!(end_of(date(1970, 1, 1)).unwrap().as_millis(), DAY_MILLIS);
        assert_eq!(date_of(Timestamp::from_secs(1_778_112_000)), date(2026, 5, 7));
    }

    #[test]
    fn months_and_days_are_read_in_chinese_numbers() {
        assert_eq!(dates("2026年十一月二十日"), [date(2026, 11, 20)]);
        assert_eq!(dates("2026年有三个人五只猫"), []);
    }

    #[test]
    fn numbers_are_read_in_digits_and_in_words() {
        let of = |text: &str| numbers(text).into_iter().collect::<Vec<_>>();
        assert_eq!(of("4,200 euros in 2 parts, A-17"), [2, 17, 4200]);
        assert_eq!(of("1,2,3"), [1, 2, 3]);
        assert_eq!(of("three cats"), [3]);
        assert_eq!(of("二十三号"), [23]);
        assert_eq!(of("十二月"), [12]);
        assert_eq!(of("三千五百"), [3500]);
        assert_eq!(of("两万"), [20_000]);
        assert_eq!(of("下午三点半"), [3, 30]);
        assert_eq!(of("nothing"), [0; 0]);
    }
}
