//! The terms of a text, by which it is found: words and their stems, characters of Chinese, Japanese and Korean, dates.

use std::collections::HashSet;

use unicode_segmentation::UnicodeSegmentation;

use crate::chinese_numbers::with_digits;
use crate::sort_key::Timestamp;

/// English words that say little: a query is searched without them if it has others.
const STOP_WORDS: &str = "a about after all also am an and any are aren't as at be been before being both but by can can't could \
    couldn't did didn't do does doesn't doing don't down during each few for from further get got had has have having he her here \
    hers him his how i i'd i'll i'm i've if in into is isn't it it's its just let's like me more most my no nor not now of off on \
    once only or other our out over own same she should so some such than that that's the their them then there these they \
    they're this those through to too under until up us very was we we're were what what's when where which while who whom whose \
    why will with would you you're your yours";

/// Chinese characters that say little by themselves, as part of a question or between words: a query is searched without
/// them, and without pairs of them, if it has others.
const STOP_CHARACTERS: &str = "的了着过是在有和跟与及就都也还又很被把给从到对让那这个不没我你他她它们要会能可上下里来去说哪谁几\
    吗呢吧啊呀么嘛什怎多少各";

/// Names of months. Two are also other words.
const MONTHS: &str = "january february march april may june july august september october november december";

/// Words before `may` and `march` that make months of them.
const BEFORE_A_MONTH: [&str; 11] =
    ["in", "of", "since", "until", "last", "this", "next", "early", "late", "during", "mid"];

/// Returns the terms of `text`, in order: its words in lower case as stems; for Chinese, Japanese and Korean each
/// character and each pair of neighbours, so that words are found without knowing where they end; and a term for each
/// date, however it is written.
///
/// ```
/// use annals_core::terms::terms;
/// assert_eq!(terms("Tea, 北京烤鸭!"), ["tea", "北", "北京", "京", "京烤", "烤", "烤鸭", "鸭"]);
/// assert_eq!(terms("She plans walks."), terms("she planned walking"));
/// assert!(terms("on May 7th").contains(&"@5-7".to_owned()) && terms("2023-05-07").contains(&"@5-7".to_owned()));
/// ```
pub fn terms(text: &str) -> Vec<String> {
    let text: String = text.chars().map(plain).collect();
    let (mut terms, mut words) = (Vec::new(), Vec::new());
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        let has_spaces = !is_cjk(first);
        let end = rest.find(|c| is_cjk(c) == has_spaces).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        if has_spaces {
            for word in run.unicode_words() {
                let word = word.to_lowercase();
                terms.push(stem(&word).to_owned());
                words.push(word);
            }
        } else {
            add_characters(run, &mut terms);
            let run: Vec<char> = with_digits(run).chars().collect();
            words
                .extend(run.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()).map(String::from_iter));
        }
        rest = after;
    }
    add_dates(&words, &mut terms);
    terms
}

/// Returns the terms of `query`, each once, without stop words if there are others.
pub fn query_terms(query: &str) -> Vec<String> {
    let (mut asked, mut seen) = (terms(query), HashSet::new());
    asked.retain(|term| seen.insert(term.clone()));
    let is_stop = |term: &String| {
        STOP_WORDS.split_whitespace().any(|word| stem(word) == term)
            || term.chars().all(|c| STOP_CHARACTERS.contains(c))
    };
    if !asked.iter().all(is_stop) {
        asked.retain(|term| !is_stop(term));
    }
    asked
}

/// Returns the terms of the date of `ts` in UTC, as in a query that names its month, its day or its year.
pub fn terms_of_date(ts: Timestamp) -> Vec<String> {
    let date = ts.rfc3339();
    let number =
        |range: std::ops::Range<usize>| date.get(range).and_then(|digits| digits.parse::<u32>().ok());
    let (Some(year), Some(month), Some(day)) = (number(0..4), number(5..7), number(8..10)) else {
        return Vec::new();
    };
    vec![year_term(year), month_term(month), day_term(month, day)]
}

fn year_term(year: u32) -> String {
    format!("@y{year}")
}

fn month_term(month: u32) -> String {
    format!("@m{month}")
}

fn day_term(month: u32, day: u32) -> String {
    format!("@{month}-{day}")
}

/// Adds a term for each date among `words`, in which numbers are digits: `7 May 2023`, `May 7th`, `2023-05-07`, `in May`, `5月7日`,
/// `2023`.
fn add_dates(words: &[String], terms: &mut Vec<String>) {
    let mut found: Vec<String> = Vec::new();
    let number = |at: Option<usize>, chinese: &str| -> Option<u32> {
        let word = words.get(at?)?;
        let digits = word.trim_end_matches(|c: char| c.is_ascii_lowercase());
        let suffix = &word[digits.len()..];
        let is_plain = matches!(suffix, "" | "st" | "nd" | "rd" | "th") || suffix == chinese;
        digits.parse().ok().filter(|_| is_plain)
    };
    let is_day = |day: &u32| (1..=31).contains(day);
    let is_month = |month: &u32| (1..=12).contains(month);
    for (at, word) in words.iter().enumerate() {
        let next = |steps: usize| number(Some(at + steps), "");
        if let Some(month) = month_of(word) {
            let day = number(at.checked_sub(1), "").filter(is_day).or_else(|| next(1).filter(is_day));
            let before = at.checked_sub(1).map(|before| words[before].as_str());
            let is_clear = !matches!(word.as_str(), "may" | "march")
                || day.is_some()
                || next(1).is_some()
                || before.is_some_and(|before| BEFORE_A_MONTH.contains(&before));
            if is_clear {
                found.push(month_term(month));
                found.extend(day.map(|day| day_term(month, day)));
            }
        } else if word.starts_with('月') {
            // `5月7日`: the numbers are words of their own.
            if let Some(month) = number(at.checked_sub(1), "").filter(is_month) {
                found.push(month_term(month));
                let is_date = words.get(at + 2).is_some_and(|unit| unit.starts_with(['日', '号', '號']));
                found.extend(next(1).filter(|day| is_day(day) && is_date).map(|day| day_term(month, day)));
            }
        } else if let Some(year) = number(Some(at), "").filter(|year| (1900..2100).contains(year)) {
            found.push(year_term(year));
            if let (Some(month), Some(day)) = (next(1).filter(is_month), next(2).filter(is_day)) {
                found.extend([month_term(month), day_term(month, day)]);
            }
        }
    }
    terms.append(&mut found);
}

pub(crate) fn month_of(word: &str) -> Option<u32> {
    let is_it = |name: &str| name == word || (word.len() == 3 && name.starts_with(word) && word != "mar");
    let place = MONTHS.split(' ').position(is_it)?;
    u32::try_from(place + 1).ok()
}

/// Returns the stem of an English word in lower case: the word without the endings of plural, past and `-ing`. Other
/// words stay, or lose an ending in each of their texts.
fn stem(word: &str) -> &str {
    let word = word.strip_suffix("'s").unwrap_or(word);
    if !word.is_ascii() || word.bytes().any(|byte| !byte.is_ascii_lowercase()) {
        return word;
    }
    let cut = |word: &'_ str, suffix: &str, left: usize| {
        word.strip_suffix(suffix).filter(|stem| stem.len() >= left).map(str::len)
    };
    let mut end = word.len();
    // `studies`, `study` and `studied`.
    if let Some(stem) = ["ies", "ied", "y"].iter().find_map(|ending| cut(word, ending, 2)) {
        return &word[..stem];
    } else if let Some(stem) = cut(word, "sses", 1) {
        end = stem + 2;
    } else if word.len() > 3 && !["ss", "us", "is"].iter().any(|ending| word.ends_with(ending)) {
        end = cut(word, "s", 3).unwrap_or(end);
    }
    let mut stem = &word[..end];
    for ending in ["ingly", "edly", "ing", "ed"] {
        if let Some(shorter) = cut(stem, ending, 3) {
            stem = &stem[..shorter];
            let [.., a, b] = stem.as_bytes() else { break };
            // `planned`, but not `called`.
            if a == b && !matches!(b, b'l' | b's' | b'z') {
                stem = &stem[..stem.len() - 1];
            }
            break;
        }
    }
    // `hope` and `hoping`.
    if stem.len() > 3 { stem.strip_suffix('e').unwrap_or(stem) } else { stem }
}

fn add_characters(run: &str, terms: &mut Vec<String>) {
    let mut characters = run.chars().peekable();
    while let Some(character) = characters.next() {
        terms.push(character.into());
        if let Some(next) = characters.peek() {
            terms.push(String::from_iter([character, *next]));
        }
    }
}

/// Returns the plain form of a full-width letter, digit or sign, as people type them in Chinese text, and of an apostrophe.
pub(crate) fn plain(c: char) -> char {
    match c {
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(u32::from(c) - 0xFEE0).unwrap_or(c),
        '\u{3000}' => ' ',
        '\u{2019}' => '\'',
        _ => c,
    }
}

/// Returns true if `c` is a letter of Chinese, Japanese or Korean; punctuation does not count.
pub(crate) fn is_cjk(c: char) -> bool {
    matches!(c,
        '\u{3005}'..='\u{3007}' | '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FA}' | '\u{30FC}'..='\u{30FE}'
        | '\u{3105}'..='\u{312F}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}'
        | '\u{F900}'..='\u{FAFF}' | '\u{FF66}'..='\u{FF9D}' | '\u{20000}'..='\u{3FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(text: &str, term: &str) -> bool {
        terms(text).iter().any(|found| found == term)
    }

    #[test]
    fn a_query_of_any_length_has_each_term_once() {
        let characters = (0..100_000).filter_map(|n| char::from_u32(0x4e00 + n * 7919 % 20_000));
        let asked = query_terms(&characters.collect::<String>());
        assert!(asked.len() > 20_000, "{}", asked.len());
        assert_eq!(asked.iter().collect::<HashSet<_>>().len(), asked.len());
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for (a, b) in [
            ("walks", "walking"),
            ("planned", "plan"),
            ("called", "calls"),
            ("studies", "study"),
            ("hoping", "hoped"),
            ("dogs", "dog's"),
            ("classes", "class"),
        ] {
            assert_eq!(terms(a), terms(b), "{a}, {b}");
        }
        for (a, b) in [("is", "i"), ("bus", "bu"), ("sing", "s"), ("red", "r"), ("Prag", "Prague's")] {
            assert_ne!(terms(a), terms(b), "{a}, {b}");
        }
        assert_eq!(terms("größer A-1024"), ["größer", "a", "1024"]);
    }

    #[test]
    fn dates_have_one_term_however_they_are_written() {
        for text in [
            "7 May 2023",
            "May 7, 2023",
            "the 7th of May",
            "May 7th",
            "2023-05-07",
            "5月7日",
            "２０２３年5月7日",
            "生日在五月七日",
            "五月7号",
        ] {
            assert_eq!(has(text, "@5-7"), text != "the 7th of May", "{text}");
            assert!(has(text, "@m5"), "{text}");
        }
        assert!(has("in May", "@m5") && has("in march 1999", "@y1999") && has("Dec 24", "@12-24"));
        assert!(!has("you may go", "@m5") && !has("they march on", "@m3") && !has("room 2500", "@y2500"));
        assert!(has("去年五月", "@m5") && has("二〇二三年十二月", "@m12") && !has("五个月", "@m5"));
        let ts = Timestamp::from_millis(1_683_450_000_000).unwrap();
        assert_eq!(terms_of_date(ts), ["@y2023", "@m5", "@5-7"]);
    }

    #[test]
    fn a_query_is_searched_without_stop_words_if_it_has_others() {
        assert_eq!(query_terms("What did the cat do to the cat?"), ["cat"]);
        assert_eq!(query_terms("To be or not to be"), ["to", "be", "or", "not"]);
        assert_eq!(query_terms(""), [""; 0]);
        assert_eq!(query_terms("谁对账了?"), ["对账", "账", "账了"]);
        assert_eq!(query_terms("什么"), ["什", "什么", "么"]);
    }
}
