//! Corrects emphasis: `CommonMark`, made for documents with spaces between words, misreads some chat text.

use std::ops::Range;

use pulldown_cmark::{Event, Parser, Tag};

use super::super::split::OPTIONS;
use super::edits::{BREAK, Edits, refer};

/// Escapes text that is markup only by accident: `2*3*4`, `__init__`, `about ~5 or ~6`.
pub(super) fn without_accidents(source: &str, edits: &mut Edits) {
    for (event, range) in Parser::new_ext(source, OPTIONS).into_offset_iter() {
        let text = &source[range.clone()];
        let is_accident = match event {
            Event::Start(Tag::Strong | Tag::Emphasis) => is_accident(source, &range),
            Event::Start(Tag::Strikethrough) => !text.starts_with("~~"),
            _ => false,
        };
        if is_accident {
            let mark = text.chars().next().unwrap_or('*');
            let marks = if matches!(event, Event::Start(Tag::Strong)) { 2 } else { 1 };
            refer(edits, source, range.start..range.start + marks, mark);
            refer(edits, source, range.end - marks..range.end, mark);
        }
    }
}

fn is_accident(source: &str, range: &Range<usize>) -> bool {
    let is_ascii_word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let (before, after) = around(source, range);
    let text = &source[range.clone()];
    let is_name = text.starts_with("__") && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    (is_ascii_word(before) && is_ascii_word(after)) || is_name
}

/// Makes `**重点：**内容` bold in `source`; returns `None` if that changes nothing.
///
/// By the rule of `CommonMark`, a `**` between punctuation and a letter neither opens nor closes, which presumes spaces
/// between words. Chinese and Japanese texts, where models write this all the time, have none. An invisible character
/// beside the punctuation makes it markup. The change is kept if fewer marks are left over.
pub(super) fn strengthen(source: &str) -> Option<String> {
    let left_over = left_over(source);
    let mut edits = Edits::default();
    for mark in &left_over {
        let (before, after) = around(source, mark);
        let is_letter = |c: Option<char>| c.is_some_and(|c| !c.is_ascii() && c.is_alphanumeric());
        let is_mark = |c: Option<char>| c.is_some_and(|c| !c.is_alphanumeric() && !c.is_whitespace());
        if is_mark(before) && is_letter(after) {
            edits.replace(mark.start..mark.start, BREAK);
        } else if is_letter(before) && is_mark(after) {
            edits.replace(mark.end..mark.end, BREAK);
        }
    }
    let stronger = edits.apply(source);
    (self::left_over(&stronger).len() < left_over.len()).then_some(stronger)
}

/// Returns each `**` that is text, neither escaped nor part of a longer mark.
fn left_over(source: &str) -> Vec<Range<usize>> {
    let mut texts: Vec<Range<usize>> = Vec::new();
    for (event, range) in Parser::new_ext(source, OPTIONS).into_offset_iter() {
        match (event, texts.last_mut()) {
            (Event::Text(_), Some(last)) if last.end == range.start => last.end = range.end,
            (Event::Text(_), _) => texts.push(range),
            _ => {}
        }
    }
    let marks = texts.into_iter().flat_map(|range| {
        source[range.clone()]
            .match_indices("**")
            .map(move |(at, mark)| range.start + at..range.start + at + mark.len())
    });
    let is_alone = |mark: &Range<usize>| {
        let (before, after) = around(source, mark);
        !matches!(before, Some('*' | '\\')) && after != Some('*')
    };
    marks.filter(is_alone).collect()
}

/// Returns the characters on both sides of `range`.
fn around(source: &str, range: &Range<usize>) -> (Option<char>, Option<char>) {
    (source[..range.start].chars().next_back(), source[range.end..].chars().next())
}
