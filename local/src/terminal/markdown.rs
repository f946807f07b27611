//! Renders Markdown for a terminal while it is written: [`Markdown`].
//!
//! Text appears as it comes. Held back are only what may still become markup: the start of a line, a span until it is closed, and a
//! table, whose columns depend on all rows. A span that does not end on its line is no markup.

use console::measure_text_width;

use crate::tty::printable;

const BOLD: &str = "1";
const DIM: &str = "2";
const ITALIC: &str = "3";
const UNDERLINED: &str = "4";
const STRUCK: &str = "9";
const CODE: &str = "36";

/// Longest text, in bytes, that is held back as the beginning of a span.
const MAX_SPAN: usize = 400;
/// Longest beginning of a line that is held back; longer ones are text. Tables and fences are whole lines.
const MAX_START: usize = 80;

/// Renders one text.
#[derive(Debug, Default)]
pub(super) struct Markdown {
    /// Without it, text is shown as it is.
    colours: bool,
    /// Codes of the whole text, and of the line.
    base: Vec<&'static str>,
    line: Vec<&'static str>,
    /// Text that is not shown yet.
    held: String,
    is_in_line: bool,
    /// The fence of the block of code that the text is in.
    fence: Option<&'static str>,
    table: Vec<String>,
}

/// The text to show, and the length of what it stands for; `None` if more text decides.
type Next = Option<(String, usize)>;

impl Markdown {
    /// Creates a renderer; without `colours`, of text as it is.
    pub(super) fn new(colours: bool) -> Self {
        Self { colours, ..Self::default() }
    }

    /// Renders a whole text, dimmed.
    pub(super) fn dimmed(text: &str, colours: bool) -> String {
        let mut markdown = Self { base: vec![DIM], ..Self::new(colours) };
        markdown.push(text) + &markdown.finish()
    }

    /// Adds text; returns what is to be shown now.
    pub(super) fn push(&mut self, text: &str) -> String {
        let text = printable(text);
        if !self.colours {
            return text;
        }
        self.held.push_str(&text);
        self.take(false)
    }

    /// Ends the text; returns the rest of it.
    pub(super) fn finish(&mut self) -> String {
        let mut shown = self.take(true);
        shown.push_str(&self.end_table());
        if self.is_in_line {
            shown.push_str(&self.end_line());
        }
        self.fence = None;
        shown
    }

    fn take(&mut self, is_end: bool) -> String {
        let mut shown = String::new();
        while !self.held.is_empty() {
            let next = if self.is_in_line { self.inline(is_end) } else { self.start_of_line(is_end) };
            let Some((text, length)) = next else { break };
            shown.push_str(&text);
            self.held.drain(..length);
        }
        shown
    }

    /// Looks at the beginning of a line.
    fn start_of_line(&mut self, is_end: bool) -> Next {
        let line_end = self.held.find('\n');
        let is_whole = line_end.is_some() || is_end;
        let line = self.held[..line_end.unwrap_or(self.held.len())].to_owned();
        let length = line_end.map_or(line.len(), |end| end + 1);
        let text = line.trim_start();
        if let Some(fence) = self.fence {
            if !is_whole && fence.starts_with(text.get(..3).unwrap_or(text)) {
                return None;
            }
            if text.starts_with(fence) && text.trim_end().trim_start_matches(&fence[..1]).is_empty() {
                self.fence = None;
                return Some((String::new(), length));
            }
            return if line_end == Some(0) {
                Some(("\n".to_owned(), 1))
            } else {
                Some(self.begin(vec![CODE], "", 0))
            };
        }
        let fence = ["```", "~~~"].into_iter().find(|fence| text.starts_with(*fence));
        let is_row = text.starts_with('|');
        let may_be_block = || text.len() <= MAX_START && may_be_block(text);
        if !is_whole && (fence.is_some() || is_row || may_be_block()) {
            return None;
        }
        if fence.is_some() {
            self.fence = fence;
            return Some((self.end_table(), length));
        }
        if is_row {
            self.table.push(text.trim_end().to_owned());
            return Some((String::new(), length));
        }
        let table = self.end_table();
        if !table.is_empty() {
            return Some((table, 0));
        }
        if text.is_empty() {
            let end = if line_end.is_some() { "\n" } else { "" };
            return Some((end.to_owned(), length));
        }
        if is_rule(text) {
            return Some((format!("{}\n", self.styled("─".repeat(24).as_str(), &[DIM])), length));
        }
        let indent = &line[..line.len() - text.len()];
        let level = text.bytes().take_while(|byte| *byte == b'#').count();
        if (1..=6).contains(&level) && text[level..].starts_with(' ') {
            let marker = indent.len() + level + text[level..].len() - text[level..].trim_start().len();
            return Some(self.begin(vec![BOLD], "", marker));
        }
        if let Some(rest) = text.strip_prefix("> ") {
            return Some(self.begin(vec![ITALIC], "│ ", line.len() - rest.len()));
        }
        if let Some(item) = ["- ", "* ", "+ "].iter().find_map(|marker| text.strip_prefix(marker)) {
            let boxes = [("[ ] ", "☐ "), ("[x] ", "☑ "), ("[X] ", "☑ ")];
            let ticked = boxes.iter().find_map(|(marker, sign)| Some((item.strip_prefix(marker)?, *sign)));
            let (item, sign) = ticked.unwrap_or((item, "• "));
            return Some(self.begin(Vec::new(), &format!("{indent}{sign}"), line.len() - item.len()));
        }
        Some(self.begin(Vec::new(), "", 0))
    }

    /// Begins a line of this style with `sign` in place of its first `length` bytes.
    fn begin(&mut self, style: Vec<&'static str>, sign: &str, length: usize) -> (String, usize) {
        self.is_in_line = true;
        self.line = self.base.iter().copied().chain(style).collect();
        (sign.to_owned() + &codes(&self.line), length)
    }

    fn end_line(&mut self) -> String {
        self.is_in_line = false;
        if self.line.is_empty() { String::new() } else { "\x1b[0m".to_owned() }
    }

    /// Looks at text within a line.
    fn inline(&mut self, is_end: bool) -> Next {
        if self.held.starts_with('\n') {
            return Some((self.end_line() + "\n", 1));
        }
        let line_end = self.held.find('\n');
        let line = &self.held[..line_end.unwrap_or(self.held.len())];
        if self.fence.is_some() {
            return Some((line.to_owned(), line.len()));
        }
        let is_whole = line_end.is_some() || is_end || line.len() > MAX_SPAN;
        match spans(line, &self.line, is_whole) {
            (_, 0) => None,
            next => Some(next),
        }
    }

    fn styled(&self, text: &str, style: &[&'static str]) -> String {
        let all: Vec<_> = self.base.iter().chain(style).copied().collect();
        format!("{}{text}\x1b[0m", codes(&all))
    }

    /// Renders the rows of the table that has ended, if there is one.
    fn end_table(&mut self) -> String {
        let rows: Vec<Vec<String>> = std::mem::take(&mut self.table).iter().map(|row| cells(row)).collect();
        let is_rule = |row: &Vec<String>| {
            row.iter().all(|cell| !cell.is_empty() && cell.chars().all(|c| matches!(c, '-' | ':')))
        };
        let width_of = |cell: &str| measure_text_width(&spans(cell, &[], true).0);
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = rows.iter().filter(|row| !is_rule(row)).filter_map(|row| row.get(column));
            cells.map(|cell| width_of(cell)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut shown = String::new();
        for (at, row) in rows.iter().enumerate() {
            if is_rule(row) {
                let lines: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                shown.push_str(&self.styled(&lines.join("─┼─"), &[DIM]));
            } else {
                let style: &[&str] = if at == 0 && rows.get(1).is_some_and(is_rule) { &[BOLD] } else { &[] };
                let style: Vec<_> = self.base.iter().chain(style).copied().collect();
                let padded = widths.iter().enumerate().map(|(column, width)| {
                    let cell = row.get(column).map_or("", String::as_str);
                    let (text, _) = spans(cell, &style, true);
                    let blank = if column + 1 == columns { 0 } else { width - width_of(cell) };
                    let end = if style.is_empty() { "" } else { "\x1b[0m" };
                    format!("{}{text}{end}{}", codes(&style), " ".repeat(blank))
                });
                shown.push_str(&padded.collect::<Vec<_>>().join(" │ "));
            }
            shown.push('\n');
        }
        shown
    }
}

fn codes(style: &[&str]) -> String {
    style.iter().flat_map(|code| ["\x1b[", code, "m"]).collect()
}

/// Returns true if the beginning of a line may become a block that is not text.
fn may_be_block(text: &str) -> bool {
    let Some(first) = text.chars().next() else { return true };
    let is_marker_only = text.chars().all(|c| c == first);
    match first {
        '#' | '>' | '`' | '~' | '+' => is_marker_only,
        '-' | '*' | '_' => {
            let item = text.get(1..).unwrap_or_default();
            is_marker_only
                || is_rule_so_far(text)
                || ["", " ", " [", " [ ", " [x", " [X", " [ ]", " [x]", " [X]"].contains(&item)
        }
        _ => false,
    }
}

fn is_rule_so_far(text: &str) -> bool {
    let first = text.chars().next();
    matches!(first, Some('-' | '*' | '_')) && text.chars().all(|c| c == ' ' || Some(c) == first)
}

fn is_rule(text: &str) -> bool {
    is_rule_so_far(text) && text.chars().filter(|c| *c != ' ').count() >= 3
}

/// Returns the cells of a row, trimmed.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim().trim_start_matches('|');
    let row = if row.ends_with("\\|") { row } else { row.strip_suffix('|').unwrap_or(row) };
    let marked = row.replace("\\|", "\u{0}");
    marked.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect()
}

/// Renders the spans of `text`, which is on one line of this style. Returns the result and the length of what was rendered: all,
/// or unless the text `is_whole`, as much as cannot change any more.
fn spans(text: &str, style: &[&'static str], is_whole: bool) -> (String, usize) {
    let mut shown = String::new();
    let mut at = 0;
    let mut before = ' ';
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if !matches!(c, '*' | '_' | '`' | '~' | '[' | '!' | '\\') {
            shown.push(c);
            (at, before) = (at + c.len_utf8(), c);
            continue;
        }
        match span(rest, before, style) {
            Some((rendered, length)) => {
                shown.push_str(&rendered);
                before = rest[..length].chars().next_back().unwrap_or(c);
                at += length;
            }
            None if !is_whole => break,
            None => {
                // All of a run, since its second character opens nothing either.
                let run = rest.len() - rest.trim_start_matches(c).len();
                shown.push_str(&rest[..run]);
                (at, before) = (at + run, c);
            }
        }
    }
    (shown, at)
}

/// Renders the span that `text` begins with, after the character `before`, in a line of this style. Returns `None` if it is not
/// closed.
fn span(text: &str, before: char, style: &[&'static str]) -> Option<(String, usize)> {
    let styled = |inner: &str, code: &'static str| {
        let all: Vec<_> = style.iter().copied().chain([code]).collect();
        let (inner, _) = spans(inner, &all, true);
        format!("\x1b[{code}m{inner}\x1b[0m{}", codes(style))
    };
    if let Some(escaped) = text.strip_prefix('\\') {
        let c = escaped.chars().next()?;
        let shown = if c.is_ascii_punctuation() { c.to_string() } else { format!("\\{c}") };
        return Some((shown, 1 + c.len_utf8()));
    }
    if text.starts_with('`') {
        let ticks = text.len() - text.trim_start_matches('`').len();
        let fence = &text[..ticks];
        let end = text[ticks..].find(fence)?;
        let code = text[ticks..ticks + end].trim();
        return Some((format!("\x1b[{CODE}m{code}\x1b[0m{}", codes(style)), 2 * ticks + end));
    }
    if text.starts_with('[') || text.starts_with("![") {
        let (label, rest) = text.split_once("](")?;
        let (url, _) = rest.split_once(')')?;
        let length = label.len() + 2 + url.len() + 1;
        let name = label.trim_start_matches('!').trim_start_matches('[');
        let url = url.split_whitespace().next().unwrap_or_default();
        let name_shown = styled(name, UNDERLINED);
        return Some(if name == url {
            (name_shown, length)
        } else {
            (format!("{name_shown} \x1b[{DIM}m({url})\x1b[0m{}", codes(style)), length)
        });
    }
    if text.starts_with('!') {
        // Not the beginning of an image, unless nothing follows yet.
        return (text.len() > 1).then(|| ("!".to_owned(), 1));
    }
    for (marker, code) in [("**", BOLD), ("__", BOLD), ("~~", STRUCK), ("*", ITALIC), ("_", ITALIC)] {
        let Some(inner) = text.strip_prefix(marker) else { continue };
        let opens = inner.chars().next().is_some_and(|c| !c.is_whitespace())
            && !(marker.starts_with('_') && before.is_alphanumeric());
        if !opens {
            continue;
        }
        let closes = |end: usize| {
            let after = inner[end + marker.len()..].chars().next();
            let is_longer =
                marker.len() == 1 && (after == marker.chars().next() || inner[..end].ends_with(marker));
            let is_within_word = marker.starts_with('_') && after.is_some_and(char::is_alphanumeric);
            let is_open = inner[..end].ends_with(char::is_whitespace);
            end > 0 && !(is_longer || is_open || is_within_word)
        };
        let end = inner.match_indices(marker).map(|(end, _)| end).find(|end| closes(*end))?;
        return Some((styled(&inner[..end], code), 2 * marker.len() + end));
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns what is shown of a text that comes in these pieces.
    fn shown<'a>(pieces: impl IntoIterator<Item = &'a str>) -> String {
        let mut markdown = Markdown::new(true);
        let mut shown: String = pieces.into_iter().map(|piece| markdown.push(piece)).collect();
        shown.push_str(&markdown.finish());
        shown
    }

    /// Checks the text as a whole, and letter by letter; `‹1›` stands for a code, and `‹›` for its end.
    fn check(text: &str, wanted: &str) {
        let codes = [BOLD, DIM, ITALIC, UNDERLINED, STRUCK, CODE];
        let wanted = wanted.replace("‹›", "\x1b[0m");
        let wanted = codes
            .iter()
            .fold(wanted, |wanted, code| wanted.replace(&format!("‹{code}›"), &format!("\x1b[{code}m")));
        assert_eq!(shown([text]), wanted, "{text:?}");
        let letters: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(shown(letters.iter().map(String::as_str)), wanted, "{text:?}, letter by letter");
    }

    #[test]
    fn spans_are_styled_and_what_is_no_span_is_left() {
        check("a **bold** and *it* and _it_ word", "a ‹1›bold‹› and ‹3›it‹› and ‹3›it‹› word");
        check("**bold with *it* and `code`**.", "‹1›bold with ‹3›it‹›‹1› and ‹36›code‹›‹1›‹›.");
        check("`a*b*c` ``x`y``", "‹36›a*b*c‹› ‹36›x`y‹›");
        check("~~old~~ new", "‹9›old‹› new");
        check("2 * 3 * 4, snake_case_name, 5 *stars", "2 * 3 * 4, snake_case_name, 5 *stars");
        check("never **closed\nnext", "never **closed\nnext");
        check(r"\*as it is\* \d", r"*as it is* \d");
        check("[the plan](https://x.example/a_b)!", "‹4›the plan‹› ‹2›(https://x.example/a_b)‹›!");
        check("see [1] and hey!", "see [1] and hey!");
        check("![a cat](cat.png)", "‹4›a cat‹› ‹2›(cat.png)‹›");
    }

    #[test]
    fn blocks_are_recognized_at_the_start_of_a_line() {
        check("# Title\ntext", "‹1›Title‹›\ntext");
        check("## A **b**\n", "‹1›A ‹1›b‹›‹1›‹›\n");
        check("#tag", "#tag");
        check("- one\n* two\n  + three\n1. four", "• one\n• two\n  • three\n1. four");
        check("- [ ] open\n- [x] done", "☐ open\n☑ done");
        check("-5 degrees\n**b** x", "-5 degrees\n‹1›b‹› x");
        check("> said\n", "│ ‹3›said‹›\n");
        check("a\n\n---\nb", "a\n\n‹2›────────────────────────‹›\nb");
        check("```rust\nlet a = *b;\n\n# no title\n```\ntext", "‹36›let a = *b;‹›\n\n‹36›# no title‹›\ntext");
        check("```\nnever closed", "‹36›never closed‹›");
    }

    #[test]
    fn columns_of_a_table_are_aligned_by_the_width_of_their_characters() {
        check(
            "| name | n |\n|---|--:|\n| 番茄 | **7** |\n| `a` | 1 \\| 2 |\nafter",
            "‹1›name‹› │ ‹1›n‹›\n‹2›─────┼──────‹›\n番茄 │ ‹1›7‹›\n‹36›a‹›    │ 1 | 2\nafter",
        );
    }

    #[test]
    fn text_appears_before_its_line_ends() {
        let mut markdown = Markdown::new(true);
        assert_eq!(markdown.push("Hello "), "Hello ");
        assert_eq!(markdown.push("wor"), "wor");
        assert_eq!(markdown.push("ld **a"), "ld ");
        assert_eq!(markdown.push("**"), "\x1b[1ma\x1b[0m");
    }

    #[test]
    fn without_colours_text_is_left_as_it_is() {
        let mut markdown = Markdown::new(false);
        assert_eq!(markdown.push("# **a** \x1b[31m"), "# **a** \u{FFFD}[31m");
        assert_eq!(markdown.finish(), "");
    }

    proptest! {
        /// No control character of the text reaches the terminal, and no letter or digit is lost.
        #[test]
        fn any_text_in_any_pieces_is_shown_safely(pieces in proptest::collection::vec("[a-z0-9番 \\n*_`~#>|()\\[\\]!\\\\\u{1b}\u{7}\u{9b}-]{0,12}", 0..8)) {
            let out = shown(pieces.iter().map(String::as_str));
            let mut text = String::new();
            let mut rest = out.as_str();
            while let Some((before, code)) = rest.split_once('\x1b') {
                text.push_str(before);
                let (digits, after) = code.strip_prefix('[').and_then(|code| code.split_once('m')).unwrap();
                prop_assert!(digits.bytes().all(|b| b.is_ascii_digit()), "{:?}", out);
                rest = after;
            }
            text.push_str(rest);
            prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{:?}", text);
            let whole = pieces.concat();
            // The language of a block of code is not shown, nor that of a link without an address.
            if !whole.contains("```") && !whole.contains("~~~") && !whole.contains("](") {
                let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
                prop_assert_eq!(letters(&whole), letters(&text));
            }
        }
    }
}
