//! Markdown that Lark's cards understand: [`OPTIONS`].

use pulldown_cmark::Options;

/// Extensions of `CommonMark` that cards show.
pub(super) const OPTIONS: Options =
    Options::ENABLE_STRIKETHROUGH.union(Options::ENABLE_TABLES).union(Options::ENABLE_TASKLISTS);
