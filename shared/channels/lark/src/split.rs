//! Splits a Markdown text into messages that Lark accepts: [`split`].

mod cost;

use annals_channel::split::Dialect;
pub use annals_channel::split::LEAST;

pub use self::cost::cost;
use crate::dialect::OPTIONS;

/// Lark's Markdown. The size of a text is that in the body of a request: see [`cost`].
///
/// Lark's documentation allows four tables in one Markdown element, but its own plugin for chat agents found that cards with
/// more than three are refused (`ErrCode: 11310`, `card table number over limit`).
const DIALECT: Dialect = Dialect { options: OPTIONS, cost_of: cost::cost_of, max_tables: 3 };

/// Splits `markdown` into pieces of at most `limit` bytes of a request: see [`annals_channel::split`].
pub fn split(markdown: &str, limit: usize) -> Vec<String> {
    annals_channel::split::split(markdown, limit, &DIALECT)
}
