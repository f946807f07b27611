//! Places at which a text may be cut, for splitting a reply into messages.

use unicode_segmentation::GraphemeCursor;

/// Characters that may follow the end of a sentence before the space.
const CLOSERS: &[char] = &['"', '\'', ')', ']', '”', '’', '»', '）', '】', '」', '』', '》'];

/// Returns the character boundaries of `text` in `low..=end`, last first.
pub fn boundaries(text: &str, low: usize, end: usize) -> impl Iterator<Item = usize> + '_ {
    (low..=end).rev().filter(|at| text.is_char_boundary(*at))
}

/// Returns true if a sentence ends at `at`. `marks` are characters of the platform's markup that may follow it.
pub fn is_sentence_end(text: &str, at: usize, marks: &[char]) -> bool {
    let (before, after) = text.split_at(at);
    let closes = |c: char| CLOSERS.contains(&c) || marks.contains(&c);
    let said = before.trim_end_matches(closes);
    let next = after.chars().next();
    (said.ends_with(['。', '！', '？', '…']) && !next.is_some_and(closes))
        || (said.ends_with(['.', '!', '?']) && next.is_none_or(char::is_whitespace))
}

/// Returns true if a word ends or begins at `at`.
pub fn is_word_end(text: &str, at: usize) -> bool {
    let (before, after) = text.split_at(at);
    let last = before.chars().next_back();
    after.chars().next().is_none_or(char::is_whitespace)
        || last.is_none_or(|c| c.is_whitespace() || matches!(c, '，' | '、' | '；' | '：'))
}

/// Returns true if a character, as people see it, ends at `at`.
pub fn is_grapheme_end(text: &str, at: usize) -> bool {
    GraphemeCursor::new(at, text.len(), true).is_boundary(text, 0).unwrap_or(true)
}
