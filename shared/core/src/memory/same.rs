//! Comparison of texts of entries: [`says_the_same`].

use std::collections::BTreeSet;

use super::dates::numbers;
use super::support::names;
use crate::terms::{plain, terms};

/// Words that carry no meaning in a note, so that two notes may differ in them.
const EMPTY_WORDS: &str = "a an the is are was were be been being am has have had do does did will would of in on at for with and \
    that this these those his her their its my he she they i it as by who which user users person people";

/// Such words in Chinese.
const EMPTY_CHINESE: [&str; 8] = ["用户", "的", "了", "是", "在", "他", "她", "有"];

/// Words that turn a statement into its opposite.
const NEGATIONS: &str = "not no never don't doesn't didn't isn't aren't wasn't won't can't cannot without nothing stopped quit 不 没 未 无 \
    别 非";

/// Minimum share of the words of two texts that both have, in percent, for them to say the same.
const SHARE_PERCENT: usize = 80;

/// Returns true if `text` says nothing that `known` does not say: each of its words is in `known`, in any form and order;
/// or nearly all are, and its names and numbers are. A text that denies is never the same as one that does not.
///
/// The order of words is not compared, so "Ada pays Bo" is the same as "Bo pays Ada".
pub fn says_the_same(text: &str, known: &str) -> bool {
    let (said, kept) = (words(text), words(known));
    if said.is_empty() || kept.is_empty() {
        // Texts of signs alone.
        return text.trim() == known.trim();
    }
    let denies = |words: &BTreeSet<String>| terms(NEGATIONS).iter().any(|negation| words.contains(negation));
    if denies(&said) != denies(&kept) || !signs(text).is_subset(&signs(known)) {
        return false;
    }
    let both = said.intersection(&kept).count();
    let all = said.union(&kept).count();
    both == said.len()
        || (both * 100 >= all * SHARE_PERCENT
            && numbers(text).is_subset(&numbers(known))
            && names(text).is_subset(&names(known)))
}

fn words(text: &str) -> BTreeSet<String> {
    let empty = terms(EMPTY_WORDS);
    let text = EMPTY_CHINESE.iter().fold(text.to_owned(), |text, empty| text.replace(empty, ""));
    terms(&text).into_iter().filter(|term| !term.starts_with('@') && !empty.contains(term)).collect()
}

/// Returns the words of `text` that end in a sign of their own, such as `C++`.
fn signs(text: &str) -> BTreeSet<String> {
    let text: String = text.chars().map(plain).collect();
    let words = text.split(|c: char| c.is_whitespace() || matches!(c, '.' | ',' | ';' | ')' | '('));
    let is_signed = |word: &&str| word.ends_with(['+', '#']) && word.chars().any(char::is_alphanumeric);
    words.filter(is_signed).map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, known: &str, expect: bool) {
        assert_eq!(says_the_same(text, known), expect, "{text:?}, {known:?}");
    }

    #[test]
    fn what_an_entry_says_already_is_found_in_other_words() {
        check("ada lives  in BERGEN", "Ada lives in Bergen.", true);
        check("The user lives in Bergen.", "Lives in Bergen, Norway.", true);
        check("Living in Bergen", "Ada lives in Bergen.", true);
        check("Ada planned walks with Nils", "Ada plans walks with Nils on Sundays", true);
        check("喜欢喝茶", "用户喜欢喝茶。", true);
        check("用户住在卑尔根", "住在卑尔根,在大学工作", true);
        check(
            "Takes part in the weekly planning meeting of the design team on Mondays in Oslo",
            "Attends the weekly planning meeting of the design team on Mondays in Oslo",
            false,
        );
        check(
            "Goes to the weekly long planning meeting of the design team on Mondays, Oslo office",
            "Goes to the weekly planning meeting of the design team on Mondays, Oslo office",
            true,
        );
        check("🙂", "🙂", true);
    }

    #[test]
    fn what_differs_in_a_fact_is_not_the_same() {
        for (text, known) in [
            ("Ada lives in Bergen with Nils.", "Ada lives in Bergen."),
            ("Ada lives in Oslo.", "Ada lives in Bergen."),
            ("Likes tea.", "Hates tea and coffee."),
            ("Does not like tea.", "Likes tea."),
            ("Likes tea.", "Does not like tea."),
            ("The rent is 900 euros.", "The rent is 950 euros."),
            ("Ada writes C++.", "Ada writes C."),
            ("Stopped running on Mondays", "Running on Mondays"),
            ("喜欢喝咖啡", "喜欢喝茶"),
            ("不喜欢喝茶", "喜欢喝茶"),
            ("每周四下午三点和王老师上钢琴课", "每周三下午三点和王老师上钢琴课"),
            (
                "Flies from Oslo on 3 May at noon with Bo and the whole team to see it",
                "Flies from Oslo on 4 May at noon with Bo and the whole team to see it",
            ),
            ("🙂", "🙃"),
        ] {
            check(text, known, false);
        }
    }
}
