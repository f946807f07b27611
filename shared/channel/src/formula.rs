//! Formulas in a model's Markdown: [`to_code`].
//!
//! No platform shows LaTeX, and Markdown drops a backslash before punctuation and reads stars and underscores as styles.
//! So formulas become code, which is shown as it was written. One between `\[ \]` or `$$` that has its lines for itself
//! becomes a code block, any other a code span, in which its lines are joined by spaces:
//!
//! ```text
//! "so \(x\,y\) or $x^*$"   →  "so `x\,y` or `x^*`"
//! "so\n\[ a \\ b \]\nthen" →  "so\n```latex\na \\ b\n```\nthen"
//! ```
//!
//! *Invariants:*
//! - Text outside formulas, code, HTML and the addresses of links stay byte for byte, but for a space between a code span
//!   and a backtick beside it.
//! - Of a formula, the delimiters are dropped, white space at its ends, and marks of quotations before lines that are
//!   joined.
//!
//! A code block ends the paragraph that it is in. So the marks of a style that begins before it and ends after it are
//! shown, and the line after it can begin a block that it could not begin within the paragraph.

use std::ops::Range;

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag};

#[cfg(test)]
mod tests;

const OPTIONS: Options =
    Options::ENABLE_STRIKETHROUGH.union(Options::ENABLE_TABLES).union(Options::ENABLE_TASKLISTS);
/// Characters by which a text between delimiters is a formula rather than one between two prices or escaped brackets.
const SIGNS: [char; 5] = ['\\', '^', '_', '{', '='];
/// Maximum number of backticks of a code span, so that a small text cannot become a large one.
const MAX_TICKS: usize = 8;
/// White space and marks of quotations.
const INDENT: [char; 3] = [' ', '\t', '>'];

/// Returns `markdown`, a whole reply with `\n` as line ends, with its formulas as code.
pub fn to_code(markdown: &str) -> String {
    if !markdown.contains(['$', '\\']) {
        return markdown.to_owned();
    }
    let source = Source::of(markdown);
    let mut out = String::with_capacity(markdown.len());
    let (mut seen, mut at) = (0, 0);
    while let Some(found) = markdown[at..].find(['$', '\\']) {
        at += found;
        let Some((range, code)) = source.formula_at(at) else {
            at += mark(markdown, at).len();
            continue;
        };
        // The backticks of two code spans would be one mark.
        let space = |is_beside: bool| if is_beside { " " } else { "" };
        out.push_str(&markdown[seen..range.start]);
        out.push_str(space(out.ends_with('`')));
        out.extend([code.as_str(), space(markdown[range.end..].starts_with('`'))]);
        (seen, at) = (range.end, range.end);
    }
    out.push_str(&markdown[seen..]);
    out
}

/// A Markdown text. Positions are in bytes.
struct Source<'a> {
    text: &'a str,
    /// Text outside code and HTML, sorted.
    texts: Vec<Range<usize>>,
    /// Starts of paragraphs, headings, items and cells, sorted. They are empty ranges.
    starts: Vec<Range<usize>>,
    /// Code, and links that are addresses, sorted.
    codes: Vec<Range<usize>>,
    /// Number of backticks of a code span: more than the text outside code has in a row.
    ticks: usize,
}

impl<'a> Source<'a> {
    fn of(text: &'a str) -> Self {
        let mut source = Self { text, texts: Vec::new(), starts: Vec::new(), codes: Vec::new(), ticks: 1 };
        for (event, range) in Parser::new_ext(text, OPTIONS).into_offset_iter() {
            match event {
                Event::Start(Tag::Paragraph | Tag::Heading { .. } | Tag::Item | Tag::TableCell) => {
                    source.starts.push(range.start..range.start);
                }
                Event::Code(_)
                | Event::Start(
                    Tag::CodeBlock(_) | Tag::Link { link_type: LinkType::Autolink | LinkType::Email, .. },
                ) => source.codes.push(range),
                Event::Text(_) if source.codes.last().is_none_or(|code| code.end <= range.start) => {
                    source.texts.push(range);
                }
                _ => {}
            }
        }
        let mut from = 0;
        for code in source.codes.iter().cloned().chain(std::iter::once(text.len()..text.len())) {
            let gap = text.get(from..code.start).unwrap_or_default();
            let runs = gap.split(|c: char| c != '`').map(|run| run.len() + 1);
            source.ticks = runs.fold(source.ticks, usize::max);
            from = code.end;
        }
        source
    }

    /// Returns the formula that begins at `start` as code, and the range that the code replaces.
    fn formula_at(&self, start: usize) -> Option<(Range<usize>, String)> {
        let opener = mark(self.text, start);
        let (closer, is_display) = match opener {
            r"\(" => (r"\)", false),
            r"\[" => (r"\]", true),
            "$" | "$$" => (opener, opener == "$$"),
            _ => return None,
        };
        let from = start + opener.len();
        let to = self.closer_after(from, closer, is_display)?;
        let (formula, end) = (&self.text[from..to], to + closer.len());
        let is_text = overlaps(&self.texts, from - 1..from) && overlaps(&self.texts, end - 1..end);
        let has_code = overlaps(&self.codes, start..end);
        let is_empty = formula.trim_matches([' ', '\t', '\n', '>']).is_empty();
        if !is_text || has_code || is_empty || self.ticks > MAX_TICKS {
            return None;
        }
        let (before, after) = (&self.text[..start], &self.text[end..]);
        let rest = after.trim_start_matches([' ', '\t']);
        let ends_line = is_display && (rest.is_empty() || rest.starts_with('\n'));
        // Not of each formula on a long line: that would take quadratic time.
        let is_line_needed = ends_line || formula.contains('\n');
        let line = if is_line_needed { before.rsplit('\n').next().unwrap_or_default() } else { "" };
        let margin = format!("\n{}", line.replace(|c| !matches!(c, '>' | '\t'), " "));
        let has_margin = formula.matches('\n').count() == formula.matches(&margin).count();
        if ends_line && has_margin && self.opens_block(line, start) {
            let fence = "`".repeat(self.ticks.max(3));
            let code = formula.trim_start_matches([' ', '\t']).trim_end();
            let code = code.strip_suffix(margin.trim_end()).unwrap_or(code);
            let first = if code.starts_with('\n') { "" } else { &margin };
            return Some((start..end, format!("{fence}latex{first}{code}{margin}{fence}")));
        }
        if overlaps(&self.starts, start + 1..end) || !is_formula(before, opener, formula, after) {
            return None;
        }
        let quote = &line[..line.len() - line.trim_start_matches(INDENT).len()];
        let code = formula.replace(&format!("\n{}", quote.trim_end()), " ").replace('\n', " ");
        let (ticks, code) = ("`".repeat(self.ticks), code.trim());
        let pad = if code.starts_with('`') || code.ends_with('`') { " " } else { "" };
        Some((start..end, format!("{ticks}{pad}{code}{pad}{ticks}")))
    }

    /// Returns the position of `closer` after `from`: for a formula within a text on the same line, otherwise before the
    /// next blank line. No formula begins before it.
    fn closer_after(&self, from: usize, closer: &str, is_display: bool) -> Option<usize> {
        let is_blank = |at: usize| self.text[at..].trim_start_matches(INDENT).starts_with('\n');
        let mut at = from;
        loop {
            at += self.text[at..].find(['\\', '$', '\n'])?;
            let mark = mark(self.text, at);
            match mark {
                _ if mark == closer => return Some(at),
                r"\(" | r"\[" => return None,
                "\n" if !is_display || is_blank(at + 1) => return None,
                _ if closer == "$" && mark.starts_with('$') => return None,
                _ => at += mark.len(),
            }
        }
    }

    /// Returns true if a block can begin at `start`, after `line`: white space and marks of quotations and items.
    fn opens_block(&self, line: &str, start: usize) -> bool {
        let text_of = |line: &str| line.trim_start_matches(|c| "0123456789-+*.) \t>".contains(c)).len();
        let above = self.text[..start].rsplit('\n').nth(1).unwrap_or_default();
        // In a paragraph, Markdown sees no block in a line that is indented by four more.
        let is_deep =
            line.trim().is_empty() && text_of(above) > 0 && line.len() > above.len() - text_of(above) + 3;
        let is_mark = text_of(line) == 0 && !overlaps(&self.texts, start - line.len()..start);
        is_mark && !is_deep && (line.is_empty() || line.ends_with(INDENT))
    }
}

/// Returns true if `formula`, which is not alone on its lines, is one, by its characters and by the text around it.
fn is_formula(before: &str, opener: &str, formula: &str, after: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric();
    let (has_sign, is_in_word) = (formula.contains(SIGNS), before.ends_with(is_word));
    let has_letter = formula.contains(|c: char| c.is_ascii_alphabetic());
    let is_one_word = !formula.contains(char::is_whitespace);
    match opener {
        // Not the escaped parentheses of "f\(x\)".
        r"\(" => has_sign || !is_in_word,
        // Not an escaped link.
        r"\[" => has_sign && !after.starts_with('('),
        // The second dollar sign opens a formula, or it is that of another price or variable.
        _ if after.starts_with(is_word) || after.starts_with(['_', '{', '(', '\\']) => false,
        // Price levels, "A ($$), B ($$)", which often have a link between them, and units, "$/kg".
        _ if formula.starts_with([')', ',', '/']) || formula.contains("](http") => false,
        "$" => !is_in_word && formula.trim() == formula && (has_sign || (is_one_word && has_letter)),
        _ => has_sign,
    }
}

/// Returns true if one of `ranges`, which are sorted, has a part in `range`.
fn overlaps(ranges: &[Range<usize>], range: Range<usize>) -> bool {
    let next = ranges.partition_point(|other| other.end <= range.start);
    ranges.get(next).is_some_and(|other| other.start < range.end)
}

/// Returns the backslash with the punctuation that it escapes, the run of dollar signs, or the character at `at`.
fn mark(text: &str, at: usize) -> &str {
    let rest = &text[at..];
    let len = match rest.as_bytes() {
        [b'$', ..] => rest.len() - rest.trim_start_matches('$').len(),
        [b'\\', next, ..] if next.is_ascii_punctuation() => 2,
        _ => 1,
    };
    &rest[..len]
}
