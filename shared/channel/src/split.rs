//! Splits a Markdown text into messages that a platform accepts: [`split`], by its [`Dialect`].
//!
//! Cuts are made between blocks if possible, otherwise between list items, lines, sentences or words, and within a word
//! only if nothing else is left. All pieces but the last are at least a quarter full if there is such a place. A code
//! block that continues in the next piece is closed and opened again there, a table repeats its head (unless the head
//! alone would fill a quarter of the piece), and a list that continues starts without indentation.
//!
//! *Invariant:* only white space at a cut is dropped, and within a code block only the line break of the cut.
//!
//! ```text
//! "Look:\n```rs\nlet a = 1;\nlet b = 2;\n```"  →  "Look:\n```rs\nlet a = 1;\n```", "```rs\nlet b = 2;\n```"
//! ```

mod outline;
#[cfg(test)]
mod tests;

use pulldown_cmark::Options;

use self::outline::Outline;
use crate::seam::{boundaries, is_grapheme_end, is_sentence_end, is_word_end};

/// The Markdown of a platform, and the size of a text there.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// Extensions of `CommonMark` that the platform shows.
    pub options: Options,
    /// Returns the size of a character in a message, in the unit of the limit.
    pub cost_of: fn(char) -> usize,
    /// Maximum number of tables in a message.
    pub max_tables: usize,
}

impl Dialect {
    /// Returns the size of `text` in a message.
    pub fn cost(&self, text: &str) -> usize {
        text.chars().map(self.cost_of).sum()
    }
}

/// Lowest limit: it has space for a character and for the lines that open and close a code block around it.
pub const LEAST: usize = 64;

/// Splits `markdown` into pieces of at most `limit` (see [`Dialect::cost`]) and at most [`Dialect::max_tables`] tables. A
/// limit below [`LEAST`] is raised to it. An empty text gives no piece.
pub fn split(markdown: &str, limit: usize, dialect: &Dialect) -> Vec<String> {
    let limit = limit.max(LEAST);
    let outline = Outline::of(markdown, limit / 4, dialect);
    let splitter = Splitter { text: markdown, outline, limit, dialect };
    let mut pieces = Vec::new();
    let mut start = 0;
    while let Some(from) = splitter.skip_blank(start) {
        let end = splitter.window(from);
        let cut = if end == markdown.len() { end } else { splitter.cut(from, end) };
        pieces.push(splitter.piece(from, cut));
        start = cut;
    }
    pieces
}

struct Splitter<'a> {
    text: &'a str,
    outline: Outline<'a>,
    limit: usize,
    dialect: &'a Dialect,
}

/// Kinds of place to cut at, best first.
#[derive(Clone, Copy)]
enum Seam {
    Block,
    Item,
    Line,
    CodeLine,
    Sentence,
    Word,
}

const SEAMS: [Seam; 6] = [Seam::Block, Seam::Item, Seam::Line, Seam::CodeLine, Seam::Sentence, Seam::Word];

impl Splitter<'_> {
    /// Returns the first position from `from` at which a piece can begin: the start of a line that is not blank. Within
    /// a code block, blank lines are kept.
    fn skip_blank(&self, from: usize) -> Option<usize> {
        let ink = from + self.text[from..].find(|c: char| !c.is_whitespace())?;
        if self.outline.code_at(from).is_some() {
            return Some(from);
        }
        // The indentation of the first line is part of the markup.
        let line = self.text[from..ink].rfind('\n').map_or(from, |at| from + at + 1);
        let is_line = line == 0 || self.text[..line].ends_with('\n');
        let indent = &self.text[line..ink];
        let is_indent = is_line && indent.chars().all(|c| c == ' ' || c == '\t');
        Some(if is_indent && self.dialect.cost(indent) < self.limit / 4 { line } else { ink })
    }

    /// Returns the end of the text that fits into a piece that begins at `from`.
    fn window(&self, from: usize) -> usize {
        let mut left =
            self.limit.saturating_sub(self.dialect.cost(&self.opening(from)) + self.closing_reserve(from));
        let fits = self.text[from..].char_indices().find(|(_, c)| {
            let cost = (self.dialect.cost_of)(*c);
            let is_over = cost > left;
            left = left.saturating_sub(cost);
            is_over
        });
        let end = fits.map_or(self.text.len(), |(at, _)| from + at);
        match self.outline.tables_after(from).nth(self.dialect.max_tables) {
            Some(table) if table.start > from => end.min(table.start),
            _ => end,
        }
    }

    /// Returns the bytes to reserve for closing a code block in a piece from `from`.
    fn closing_reserve(&self, from: usize) -> usize {
        let until = from + self.limit;
        let codes = self.outline.codes.iter().filter(|code| code.body.end > from && code.body.start < until);
        codes.map(|code| self.dialect.cost(&code.close) + 3).max().unwrap_or(0)
    }

    /// Returns the end of a piece that begins at `from` and ends at `end` at the latest.
    fn cut(&self, from: usize, end: usize) -> usize {
        let ink = self.text[from..end].find(|c: char| !c.is_whitespace()).map_or(from, |at| from + at);
        let first = self.text[ink..].chars().next().map_or(1, char::len_utf8);
        let least = (ink + first).min(end);
        let part = |n: usize| least.max(from + (end - from) / 4 * n);
        let find = |low: usize, seams: &[Seam]| {
            seams.iter().find_map(|seam| boundaries(self.text, low, end).find(|at| self.is_seam(*seam, *at)))
        };
        find(part(2), &[Seam::Block])
            .or_else(|| find(part(1), &[Seam::Block]))
            .or_else(|| find(part(2), &SEAMS))
            .or_else(|| find(least, &SEAMS))
            .or_else(|| boundaries(self.text, least, end).find(|at| is_grapheme_end(self.text, *at)))
            // A single grapheme cluster that is longer than a piece.
            .unwrap_or(end)
    }

    fn is_seam(&self, seam: Seam, at: usize) -> bool {
        let is_line = self.text[..at].ends_with('\n');
        let code = self.outline.code_at(at);
        let is_free = code.is_none() && !self.outline.is_fixed(at);
        match seam {
            Seam::Block => self.outline.is_block_edge(at),
            Seam::Item => is_line && is_free && self.outline.is_item(at),
            Seam::Line => is_line && is_free,
            Seam::CodeLine => is_line && code.is_some(),
            Seam::Sentence => is_free && is_sentence_end(self.text, at, &['*', '_']),
            Seam::Word => is_word_end(self.text, at) && !self.outline.is_fixed(at),
        }
    }

    /// Returns the markup to repeat before a piece that begins at `from`: the fence of a code block or the head of a
    /// table.
    fn opening(&self, from: usize) -> String {
        if let Some(code) = self.outline.code_at(from) {
            return format!("{}\n", code.open);
        }
        self.outline.table_at(from).map(|table| table.head.to_owned()).unwrap_or_default()
    }

    fn piece(&self, from: usize, to: usize) -> String {
        let opening = self.opening(from);
        let text = &self.text[from..to];
        let whole = match self.outline.code_at(to) {
            Some(code) if to < self.text.len() => {
                let line_break = if text.ends_with('\n') { "" } else { "\n" };
                format!("{opening}{text}{line_break}{}", code.close)
            }
            _ => format!("{opening}{}", text.trim_end()),
        };
        if self.outline.is_in_list(from) { dedent(&whole) } else { whole }
    }
}

/// Moves `text` to the left by the indentation of its first line.
fn dedent(text: &str) -> String {
    let spaces = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let indent = spaces(text);
    let lines: Vec<&str> =
        text.split('\n').map(|line| line.get(spaces(line).min(indent)..).unwrap_or(line)).collect();
    lines.join("\n")
}
