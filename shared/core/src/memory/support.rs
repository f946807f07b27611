//! Comparison of a finding with the messages that it cites: [`is_supported`].
//!
//! No rule can tell if a sentence follows from others. These tell if it says something that nobody said: a number, a
//! date or a name that the messages do not have, or nothing but words that they do not have. Other words pass, so that
//! a model can put what was said in a sentence of its own.

use std::collections::BTreeSet;

use jiff::civil::Date;
use unicode_segmentation::UnicodeSegmentation;

use super::dates::{date_of, dates, in_digits, numbers};
use crate::sort_key::Timestamp;
use crate::terms::{is_cjk, month_of, plain, query_terms, terms};

/// Number of first letters that two forms of a word have in common: `Norway` and `Norwegian`, `allergy` and `allergic`.
const COMMON_LETTERS: usize = 4;

/// Words that name a day by the time at which they are said.
const RELATIVE: &str = "today tonight tomorrow yesterday now next last this coming day days week weeks weekend month months \
    year years ago soon later since monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun \
    morning afternoon evening noon birthday";
const RELATIVE_CHARACTERS: &str = "今明昨前后下上本这周天月年日号早晚刚";

/// Minimum number of words of a finding that has to share one with the messages.
const SHORT_WORDS: usize = 3;

/// The messages that support a finding.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// Texts of the cited messages and the names of their senders, texts of the answers before them, and of the entry that the finding replaces.
    pub cited: &'a str,
    /// Times of the cited messages.
    pub times: &'a [Timestamp],
    /// Everything in which a name may be introduced: all messages of people, senders and known entries.
    pub shown: &'a str,
}

/// Returns true if nothing in `finding` contradicts that it follows from `evidence`:
///
/// - Its numbers are in the cited messages; an hour may be on a clock of 24 hours.
/// - Its dates are, too, or are the day of a cited message, or the messages speak of days by the time of speaking
///   ("tomorrow").
/// - Its names, that is words with a capital letter inside a sentence and Latin words in Chinese text, are in what the model
///   was shown, in some form.
/// - Of three or more words at least one is in the cited messages, and of Chinese characters a quarter; unless only one of
///   the two is in Chinese.
pub fn is_supported(finding: &str, evidence: &Evidence<'_>) -> bool {
    has_numbers(finding, evidence) && has_names(finding, evidence.shown) && has_words(finding, evidence.cited)
}

fn has_numbers(finding: &str, evidence: &Evidence<'_>) -> bool {
    let cited = numbers(evidence.cited);
    let days: Vec<_> = evidence.times.iter().map(|time| date_of(*time)).collect();
    let is_relative = is_relative(evidence.cited);
    let told = terms(evidence.cited);
    let has = |part: i8| u64::try_from(part).is_ok_and(|part| cited.contains(&part));
    let is_month = |month: i8| told.contains(&format!("@m{month}"));
    let is_told = |date: &Date| has(date.day()) && (has(date.month()) || is_month(date.month()));
    let is_near =
        |date: &Date| days.iter().any(|day| day.since(*date).is_ok_and(|span| span.get_days().abs() <= 1));
    let mut allowed = cited.clone();
    for date in dates(finding) {
        if !is_told(&date) && !is_near(&date) && !is_relative {
            return false;
        }
        allowed.extend([date.month(), date.day()].iter().filter_map(|part| u64::try_from(*part).ok()));
        allowed.extend(u64::try_from(date.year()).ok());
    }
    // A year, and a month of it, without a day.
    for day in &days {
        for year in (day.year() - 1)..=(day.year() + 1) {
            let is_meant = year == day.year() || is_relative || (1..=12).any(is_month);
            allowed.extend(u64::try_from(year).ok().filter(|_| is_meant));
        }
        if is_relative {
            allowed.extend(1..=12);
        }
    }
    in_digits(finding).into_iter().all(|number| {
        number == 0
            || allowed.contains(&number)
            || ((13..24).contains(&number) && cited.contains(&(number - 12)))
    })
}

fn is_relative(text: &str) -> bool {
    let words: BTreeSet<String> = text.unicode_words().map(str::to_lowercase).collect();
    RELATIVE.split_whitespace().any(|word| words.contains(word))
        || text.chars().any(|c| RELATIVE_CHARACTERS.contains(c))
}

fn has_names(finding: &str, shown: &str) -> bool {
    let known: BTreeSet<String> = shown.unicode_words().map(str::to_lowercase).collect();
    names(finding).iter().all(|name| known.iter().any(|word| word == name || have_one_stem(word, name)))
}

/// Returns the names in `text`, in lower case: words with a capital letter that do not start a sentence, words of capital
/// letters, and in Chinese text all Latin words. Names of days and months are part of dates.
pub(super) fn names(text: &str) -> BTreeSet<String> {
    let text: String = text.chars().map(plain).collect();
    let is_chinese = text.chars().any(is_cjk);
    let mut starts = true;
    let mut found = BTreeSet::new();
    for part in text.split_word_bounds() {
        let has_letters = part.chars().any(|c| c.is_alphabetic() && !is_cjk(c));
        if has_letters {
            let capitals = part.chars().filter(|c| c.is_uppercase()).count();
            let lower = part.to_lowercase();
            let lower = lower.strip_suffix("'s").unwrap_or(&lower).to_owned();
            let is_name = (capitals > 0 && !starts) || capitals > 1 || (is_chinese && lower.len() > 1);
            if is_name && lower.len() > 1 && month_of(&lower).is_none() && !is_day(&lower) {
                found.insert(lower);
            }
            starts = false;
        } else if part.contains(['.', '!', '?', ':', ';', '\n', '"', '“', '(']) {
            starts = true;
        }
    }
    found
}

fn is_day(word: &str) -> bool {
    let word = word.trim_end_matches('s');
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"].contains(&word)
}

fn have_one_stem(a: &str, b: &str) -> bool {
    let common = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    common >= COMMON_LETTERS.min(a.chars().count()).min(b.chars().count()).max(3)
}

fn has_words(finding: &str, cited: &str) -> bool {
    let is_chinese = |text: &str| text.chars().any(is_cjk);
    // A translation, if enough was said.
    if is_chinese(finding) != is_chinese(cited) && terms(cited).len() >= SHORT_WORDS {
        return true;
    }
    let is_word = |term: &String| !term.starts_with('@') && term.chars().any(char::is_alphabetic);
    let (characters, words): (Vec<String>, Vec<String>) =
        query_terms(finding).into_iter().filter(is_word).partition(|term| term.chars().any(is_cjk));
    let characters: Vec<&String> = characters.iter().filter(|term| term.chars().count() == 1).collect();
    let said: BTreeSet<String> = terms(cited).into_iter().collect();
    let shared = characters.iter().filter(|term| said.contains(term.as_str())).count();
    if characters.len() > words.len() {
        return shared * 4 >= characters.len();
    }
    words.len() < SHORT_WORDS
        || words.iter().any(|word| said.iter().any(|other| other == word || have_one_stem(other, word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(finding: &str, cited: &str, expect: bool) {
        let times = [Timestamp::parse_rfc3339("2026-11-24T21:25:00Z").unwrap()];
        let shown = format!("Ada Nils {cited}");
        let evidence = Evidence { cited, times: &times, shown: &shown };
        assert_eq!(is_supported(finding, &evidence), expect, "{finding:?} of {cited:?}");
    }

    #[test]
    fn paraphrases_pass() {
        for (finding, cited) in [
            ("Prefers window seats on trains.", "Please always book me a seat by the window"),
            ("Ada is vegetarian.", "I don't eat meat"),
            ("Is allergic to peanuts.", "Careful, I have a peanut allergy"),
            ("The rent is 4200 euros.", "we pay 4,200 a month"),
            ("Has three cats, 3 in all.", "my three cats"),
            ("The meeting is at 20:00.", "meeting at 8pm"),
            ("The class starts at 15:30.", "下午三点半上课"),
            ("Nils speaks Norwegian.", "Nils grew up in Norway and speaks the language"),
            ("Has an appointment with the dentist on 2026-11-27.", "dentist on Friday!"),
            ("Lives in Bergen since November 2026.", "I moved to Bergen this month"),
            ("Started the job at Acme on 2026-11-24.", "Just started the job at Acme"),
            ("Deadline is 12 December 2026.", "the deadline is 12/12"),
            ("The flight leaves on 2026-12-04.", "on 3 December. No wait, they moved it to the 4th"),
            ("Wants to go to Rome in March 2027.", "I want to see Rome in March"),
            ("2026年11月27日去看牙医。", "这周五要去看牙医"),
            ("喜欢喝乌龙茶,不喝咖啡", "我平时喝乌龙茶,咖啡不碰的"),
            ("后端使用Rust", "后端我们定了用Rust写"),
            ("喜欢喝乌龙茶", "I like oolong tea a lot"),
            ("Likes oolong tea a lot.", "我喜欢喝乌龙茶"),
        ] {
            check(finding, cited, true);
        }
    }

    #[test]
    fn what_nobody_said_does_not_pass() {
        for (finding, cited) in [
            ("The rent is 950 euros.", "the rent is 900 euros"),
            ("Ada lives in Bergen.", "I like the sea"),
            ("Works with Kubernetes daily.", "I work with containers daily"),
            ("Has an appointment on 2027-03-01.", "I should see a dentist"),
            ("Born in 1984.", "I am getting old"),
            ("Enjoys hiking mountains regularly.", "the invoice is paid"),
            ("2027年3月1日搬家。", "要搬家了,好累"),
            ("后端使用Kotlin", "后端我们定了用Rust写"),
            ("在银行担任财务经理,负责贷款审批", "喜欢喝乌龙茶"),
        ] {
            check(finding, cited, false);
        }
    }
}
