//! Splits a Markdown text into messages that Lark accepts: [`split`].

use annals_channel::split::Dialect;
pub use annals_channel::split::LEAST;
use pulldown_cmark::Options;

/// Extensions of `CommonMark` that cards show.
pub(super) const OPTIONS: Options =
    Options::ENABLE_STRIKETHROUGH.union(Options::ENABLE_TABLES).union(Options::ENABLE_TASKLISTS);

/// Lark's Markdown. The size of a text is that in the body of a request: see [`cost`].
///
/// Lark's documentation allows four tables in one Markdown element, but its own plugin for chat agents found that cards with
/// more than three are refused (`ErrCode: 11310`, `card table number over limit`).
const DIALECT: Dialect = Dialect { options: OPTIONS, cost_of, max_tables: 3 };

/// Splits `markdown` into pieces of at most `limit` bytes of a request: see [`annals_channel::split`].
pub fn split(markdown: &str, limit: usize) -> Vec<String> {
    annals_channel::split::split(markdown, limit, &DIALECT)
}

/// Returns the bytes that `text` takes in the body of a request, where it is a JSON string within a JSON string. A `<`
/// counts as the five bytes of the character reference that a card may need for it.
pub fn cost(text: &str) -> usize {
    DIALECT.cost(text)
}

fn cost_of(c: char) -> usize {
    match c {
        '"' | '\\' => 4,
        '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 3,
        '\0'..='\u{1f}' => 7,
        '<' => 5,
        c => c.len_utf8(),
    }
}
