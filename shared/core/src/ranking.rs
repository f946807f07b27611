//! Ranks texts by how well they fit a query: BM25 over [terms](crate::terms), raised by the texts beside each.
//!
//! Texts are indexed first, in the order in which people said them. An [`Index`] is small, holds no text, and has a
//! stable form in bytes ([`Index::to_bytes`]), which is stored beside the texts. One query goes over any number of
//! indexes as over one list of texts.

use std::collections::{HashMap, HashSet};

use crate::sort_key::Timestamp;
use crate::terms::{query_terms, terms, terms_of_date};

/// Saturation of a term that a text repeats: BM25's k1.
const SATURATION: f32 = 1.2;

/// Share of a text's length in its score, from 0 to 1: BM25's b.
const LENGTH_SHARE: f32 = 0.5;

/// Shares of a score that go to the texts one, two and three places before and after.
const TO_NEIGHBOURS: [f32; 3] = [0.5, 0.3, 0.15];

/// Factor of the score of a text that is near a better one, which is shown beside that.
const NEAR_A_BETTER: f32 = 0.25;

/// Marks the terms of a text's sender and date. They raise a text that has a word of the query, and alone find none,
/// unless no text has a word of it.
const ABOUT: char = '~';

#[derive(Clone, Copy, Debug, Default)]
pub struct Text<'a> {
    pub text: &'a str,
    pub sender: Option<&'a str>,
    pub at: Option<Timestamp>,
}

/// A text of one of several indexes, and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// Number of its index, from 0.
    pub index: usize,
    /// Its number in that index, from 0.
    pub text: usize,
    /// Score above 0, comparable only within the same ranking.
    pub score: f32,
}

/// Terms of texts, by the texts that have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// Number of terms of each text.
    lengths: Vec<u16>,
    /// Digests of terms, ascending, each with the end of its postings; they start where those of the term before end.
    terms: Vec<(u32, u32)>,
    postings: Vec<Posting>,
}

/// A text that has a term, in the upper 24 bits, and how often, in the lower 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Posting(u32);

impl Posting {
    fn new(text: u32, count: u8) -> Self {
        Self((text << 8) | u32::from(count))
    }

    fn text(self) -> u32 {
        self.0 >> 8
    }

    fn count(self) -> u8 {
        self.0.to_le_bytes()[0]
    }
}

impl Index {
    pub fn of<'a>(texts: impl IntoIterator<Item = Text<'a>>) -> Self {
        let mut lengths = Vec::new();
        let mut postings: HashMap<u32, Vec<Posting>> = HashMap::new();
        for (number, text) in (0_u32..).zip(texts) {
            let said = terms(text.text);
            lengths.push(u16::try_from(said.len()).unwrap_or(u16::MAX));
            let about = text.sender.map(terms).unwrap_or_default();
            let about = about.into_iter().chain(text.at.map(terms_of_date).unwrap_or_default());
            for digest in said.iter().map(|term| digest(term)).chain(about.map(|term| digest_about(&term))) {
                let of_term = postings.entry(digest).or_default();
                match of_term.last_mut().filter(|last| last.text() == number) {
                    Some(last) => *last = Posting::new(number, last.count().saturating_add(1)),
                    None => of_term.push(Posting::new(number, 1)),
                }
            }
        }
        let mut by_term: Vec<(u32, Vec<Posting>)> = postings.into_iter().collect();
        by_term.sort_unstable_by_key(|(digest, _)| *digest);
        let mut index = Self { lengths, ..Self::default() };
        for (digest, of_term) in by_term {
            index.postings.extend(of_term);
            index.terms.push((digest, u32::try_from(index.postings.len()).unwrap_or(u32::MAX)));
        }
        index
    }

    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Returns true if it has no texts.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Returns its size in memory, in bytes.
    pub fn size(&self) -> usize {
        2 * self.lengths.len() + 8 * self.terms.len() + 4 * self.postings.len()
    }

    /// Returns its stable form, which [`Index::from_bytes`] reads: numbers of seven bits a byte, the last of which is
    /// below 128. The number of texts and their lengths; then the number of terms, and for each the distance of its
    /// digest from the one before, the number of its texts, and for each the distance from the one before and the count.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.size() / 2);
        let mut put = |mut number: u32| {
            while number >= 128 {
                bytes.push(number.to_le_bytes()[0] | 128);
                number /= 128;
            }
            bytes.push(number.to_le_bytes()[0]);
        };
        put(count_of(&self.lengths));
        self.lengths.iter().for_each(|length| put(u32::from(*length)));
        put(count_of(&self.terms));
        let (mut digest_before, mut start) = (0, 0);
        for (digest, end) in &self.terms {
            put(digest - digest_before);
            put(end - start);
            let mut before = 0;
            for posting in &self.postings[start as usize..*end as usize] {
                put(posting.text() - before);
                put(u32::from(posting.count()));
                before = posting.text();
            }
            (digest_before, start) = (*digest, *end);
        }
        bytes
    }

    /// Reads the form of [`Index::to_bytes`]; `None` if `bytes` is not one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut bytes = bytes.iter();
        let mut next = || {
            let mut number = 0_u32;
            for shift in [0, 7, 14, 21, 28] {
                let byte = *bytes.next()?;
                number |= u32::from(byte & 127).checked_shl(shift)?;
                if byte < 128 {
                    return Some(number);
                }
            }
            None
        };
        let mut index = Self::default();
        for _ in 0..next()? {
            index.lengths.push(u16::try_from(next()?).ok()?);
        }
        let texts = count_of(&index.lengths);
        let mut digest = 0_u32;
        for _ in 0..next()? {
            digest = digest.checked_add(next()?)?;
            let mut text = 0_u32;
            for _ in 0..next()? {
                text = text.checked_add(next()?).filter(|text| *text < texts)?;
                index.postings.push(Posting::new(text, u8::try_from(next()?).ok()?));
            }
            index.terms.push((digest, count_of(&index.postings)));
        }
        bytes.next().is_none().then_some(index)
    }

    /// Returns the texts that have the term of this digest, with its count in each.
    fn with(&self, digest: u32) -> &[Posting] {
        let Ok(place) = self.terms.binary_search_by_key(&digest, |(digest, _)| *digest) else { return &[] };
        let start = place.checked_sub(1).map_or(0, |before| self.terms[before].1);
        self.postings.get(start as usize..self.terms[place].1 as usize).unwrap_or_default()
    }
}

fn count_of<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

/// Ranks the texts of `indexes`, each of which follows the one before, by how well they fit `query`. Returns at most
/// `at_most` of them, the best first, and only those that share a [term](crate::terms) with it: of their words, or if
/// none does, of their senders and dates. Texts that fit raise those beside them; a text within `near` places of a better
/// one comes later than it would. With `near` 0 the texts have nothing to do with their neighbours.
///
/// `is_shown` selects the texts that count. Equal scores keep their order.
pub fn search(
    indexes: &[&Index],
    query: &str,
    near: usize,
    at_most: usize,
    is_shown: impl Fn(usize, usize) -> bool,
) -> Vec<Ranked> {
    let scores = scores(indexes, query, near > 0);
    // Texts are numbered through all indexes.
    let mut starts: Vec<usize> = Vec::new();
    let mut start = 0;
    for index in indexes {
        starts.push(start);
        start += index.len();
    }
    let place_in = |place: usize| {
        let index = starts.partition_point(|start| *start <= place) - 1;
        (index, place - starts[index])
    };
    let is_shown = |place: usize| {
        let (index, text) = place_in(place);
        is_shown(index, text)
    };
    let by_words = scores.iter().enumerate().any(|(place, score)| score.has_word && is_shown(place));
    let is_found = |score: &Score| if by_words { score.has_word } else { score.own > 0.0 };
    let found = scores.iter().enumerate().filter(|(place, score)| is_found(score) && is_shown(*place));
    let mut ranked: Vec<(usize, f32)> =
        found.map(|(place, score)| (place, score.own + score.of_neighbours)).collect();
    ranked.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    if near > 0 {
        // Further ones are not among the first, however many are near better ones.
        ranked.truncate(at_most.saturating_mul(2 * near + 1));
        let mut better: HashSet<usize> = HashSet::new();
        for (place, score) in &mut ranked {
            if (place.saturating_sub(near)..=*place + near).any(|near| better.contains(&near)) {
                *score *= NEAR_A_BETTER;
            } else {
                better.insert(*place);
            }
        }
        ranked.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    }
    ranked.truncate(at_most);
    let ranked = ranked.into_iter().map(|(place, score)| {
        let (index, text) = place_in(place);
        Ranked { index, text, score }
    });
    ranked.collect()
}

/// Ranks `documents`, which have nothing to do with their neighbours, as [`search`] does. Returns the places of those
/// that share a term with `query`, the best first.
pub fn rank(query: &str, documents: &[Text<'_>]) -> Vec<usize> {
    let index = Index::of(documents.iter().copied());
    let ranked = search(&[&index], query, 0, documents.len(), |_, _| true);
    ranked.into_iter().map(|ranked| ranked.text).collect()
}

#[derive(Clone, Copy, Debug, Default)]
struct Score {
    own: f32,
    of_neighbours: f32,
    has_word: bool,
}

/// Returns the score of each text of `indexes`, one after the other; those that fit raise their neighbours if
/// `raise_neighbours`.
#[allow(clippy::cast_precision_loss, reason = "scores need no more")]
fn scores(indexes: &[&Index], query: &str, raise_neighbours: bool) -> Vec<Score> {
    let count: usize = indexes.iter().map(|index| index.len()).sum();
    let lengths = indexes.iter().flat_map(|index| &index.lengths);
    let length: usize = lengths.map(|length| usize::from(*length)).sum();
    let average = (length as f32 / count.max(1) as f32).max(1.0);
    let mut scores = vec![Score::default(); count];
    let asked = query_terms(query);
    for (digest, is_word) in asked.iter().flat_map(|term| [(digest(term), true), (digest_about(term), false)])
    {
        let having: usize = indexes.iter().map(|index| index.with(digest).len()).sum();
        let (all, having) = (count as f32, having as f32);
        let rarity = (1.0 + (all - having + 0.5) / (having + 0.5)).ln();
        let mut start = 0;
        for index in indexes {
            for posting in index.with(digest) {
                let text = posting.text() as usize;
                let times = f32::from(posting.count());
                let length = f32::from(index.lengths[text]) / average;
                let damped = SATURATION * (1.0 - LENGTH_SHARE + LENGTH_SHARE * length);
                scores[start + text].own += rarity * times * (SATURATION + 1.0) / (times + damped);
                scores[start + text].has_word |= is_word;
            }
            start += index.len();
        }
    }
    for place in 0..if raise_neighbours { count } else { 0 } {
        let own = scores[place].own;
        if own > 0.0 {
            for (steps, share) in (1..).zip(TO_NEIGHBOURS) {
                if let Some(before) = place.checked_sub(steps) {
                    scores[before].of_neighbours += own * share;
                }
                if let Some(after) = scores.get_mut(place + steps) {
                    after.of_neighbours += own * share;
                }
            }
        }
    }
    scores
}

fn digest_about(term: &str) -> u32 {
    digest(&format!("{ABOUT}{term}"))
}

/// Returns the digest of a term: FNV-1a of 64 bits, folded. It is stored, so it must stay the same.
fn digest(term: &str) -> u32 {
    let long = term.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    #[allow(clippy::cast_possible_truncation, reason = "folded")]
    let folded = (long ^ (long >> 32)) as u32;
    folded
}

#[cfg(test)]
mod tests;
