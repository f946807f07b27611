//! Ranks a few texts by how well they fit a query: BM25 over words, and over characters for languages without spaces.
//!
//! There is no index: each query ranks the texts that it is given, so the caller must limit their number.

use std::cmp::Ordering;
use std::collections::HashSet;

use bm25::{EmbedderBuilder, Scorer, Tokenizer};
use unicode_segmentation::UnicodeSegmentation;

/// A text and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// Index of the text, from 0.
    pub index: usize,
    /// Score above 0, comparable only within the same ranking.
    pub score: f32,
}

/// Ranks `documents` by how well they fit `query`. Returns at most `at_most` of them, the best first, and only those
/// that share a [term](terms) with it. Equal scores keep their order.
pub fn rank(query: &str, documents: &[&str], at_most: usize) -> Vec<Scored> {
    let embedder = EmbedderBuilder::<u64, Terms>::with_tokenizer_and_fit_to_corpus(Terms, documents).build();
    let mut query = embedder.embed(query);
    // A term counts once, even if the query repeats it.
    let mut asked = HashSet::new();
    query.0.retain(|term| asked.insert(term.index));
    let mut scorer = Scorer::<usize, u64>::new();
    for (index, document) in documents.iter().enumerate() {
        let mut document = embedder.embed(document);
        // Other terms do not matter, and the terms of a long history must fit in memory.
        document.0.retain(|term| asked.contains(&term.index));
        document.0.shrink_to_fit();
        scorer.upsert(&index, document);
    }
    let mut ranked: Vec<Scored> = scorer
        .matches(&query)
        .into_iter()
        .map(|scored| Scored { index: scored.id, score: scored.score })
        .filter(|scored| scored.score > 0.0)
        .collect();
    ranked
        .sort_by(|a, b| b.score.partial_cmp(&a.score).unwrap_or(Ordering::Equal).then(a.index.cmp(&b.index)));
    ranked.truncate(at_most);
    ranked
}

/// Returns the terms of `text`: its words in lower case; for Chinese, Japanese and Korean each character and each pair
/// of neighbours, so that words are found without knowing where they end.
///
/// ```
/// assert_eq!(annals_core::ranking::terms("Tea, 北京烤鸭!"), ["tea", "北", "北京", "京", "京烤", "烤", "烤鸭", "鸭"]);
/// ```
pub fn terms(text: &str) -> Vec<String> {
    let text: String = text.chars().map(narrow).collect();
    let mut terms = Vec::new();
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        let has_spaces = !is_cjk(first);
        let end = rest.find(|c| is_cjk(c) == has_spaces).unwrap_or(rest.len());
        let (run, behind) = rest.split_at(end);
        if has_spaces {
            terms.extend(run.unicode_words().map(str::to_lowercase));
        } else {
            add_characters(run, &mut terms);
        }
        rest = behind;
    }
    terms
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

/// Returns the plain form of a full-width letter, digit or sign, as people type them in Chinese text.
fn narrow(c: char) -> char {
    match c {
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(u32::from(c) - 0xFEE0).unwrap_or(c),
        '\u{3000}' => ' ',
        _ => c,
    }
}

/// Returns true if `c` is a letter of Chinese, Japanese or Korean; punctuation does not count.
fn is_cjk(c: char) -> bool {
    matches!(c,
        '\u{3005}'..='\u{3007}' | '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FA}' | '\u{30FC}'..='\u{30FE}'
        | '\u{3105}'..='\u{312F}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}'
        | '\u{F900}'..='\u{FAFF}' | '\u{FF66}'..='\u{FF9D}' | '\u{20000}'..='\u{3FFFF}')
}

struct Terms;

impl Tokenizer for Terms {
    fn tokenize(&self, text: &str) -> Vec<String> {
        terms(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn order(query: &str, documents: &[&str]) -> Vec<usize> {
        rank(query, documents, documents.len()).iter().map(|scored| scored.index).collect()
    }

    #[test]
    fn a_document_with_more_of_the_query_comes_first() {
        let documents = [
            "Trains were late today.",
            "Ada's flight to Lisbon leaves on Friday, from gate 12.",
            "Lisbon has good trams.",
            "Nothing of note.",
        ];
        assert_eq!(order("when does the flight to LISBON leave?", &documents), [1, 2]);
        assert_eq!(order("gate", &documents), [1]);
        assert_eq!(order("gates", &documents), [0; 0]);
        assert_eq!(rank("lisbon trains", &documents, 1).len(), 1);
    }

    #[test]
    fn chinese_is_found_without_spaces() {
        let documents = [
            "我们明天去上海开会。",
            "她对花生过敏,不要放花生酱。",
            "订单号是 A-1024,周五发货",
            "生日在五月,喜欢花。",
            "Ada prefers tea.",
        ];
        assert_eq!(order("花生过敏", &documents), [1, 3]);
        assert_eq!(order("上海的会议", &documents)[0], 0);
        assert_eq!(order("发货", &documents), [2]);
        assert_eq!(order("1024", &documents), [2]);
        assert_eq!(
            order("\u{FF11}\u{FF10}\u{FF12}\u{FF14}", &documents),
            [2],
            "full-width digits are digits"
        );
        assert_eq!(order("tea 茶", &documents), [4]);
        assert_eq!(order("东京タワー", &["ソウルの塔", "東京タワーに行く"]), [1]);
        assert_eq!(order("타워", &["서울타워에서 만나요", "서울역"]), [0]);
    }

    #[test]
    fn documents_without_a_shared_term_are_not_ranked() {
        assert_eq!(order("", &["a"]), [0; 0]);
        assert_eq!(order("。!?", &["。!?", "天"]), [0; 0], "signs are no terms");
        assert_eq!(order("a", &[]), [0; 0]);
        assert_eq!(order("a", &["", "b", " "]), [0; 0]);
    }

    #[test]
    fn equals_keep_their_order_and_a_repeated_word_adds_nothing() {
        let documents = ["x y", "x z", "x y"];
        assert_eq!(order("x", &documents), [0, 1, 2]);
        assert_eq!(rank("y y y x", &documents, 3), rank("y x", &documents, 3));
    }

    #[test]
    fn a_term_in_all_documents_still_counts() {
        assert_eq!(order("tea", &["tea"]), [0]);
        assert_eq!(order("茶", &["喝茶", "茶叶"]).len(), 2);
    }

    proptest! {
        #[test]
        fn exactly_those_that_share_a_term_are_ranked(
            query in "[ab花生 ,]{0,6}",
            documents in proptest::collection::vec("[abc花生过 。]{0,8}", 0..6),
        ) {
            let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
            let asked = terms(&query);
            let shares = |document: &&str| terms(document).iter().any(|term| asked.contains(term));
            let mut ranked = order(&query, &documents);
            ranked.sort_unstable();
            let expected: Vec<usize> =
                documents.iter().enumerate().filter(|(_, d)| shares(d)).map(|(index, _)| index).collect();
            prop_assert_eq!(ranked, expected);
        }
    }
}
