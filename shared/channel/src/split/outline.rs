//! Structure of a Markdown text, as far as it matters for splitting it: [`Outline`].

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use super::Dialect;

/// Structure of a text. Positions are in bytes.
pub(super) struct Outline<'a> {
    /// Starts and ends of the outermost blocks, sorted.
    edges: Vec<usize>,
    /// Starts of the outermost list items, sorted.
    items: Vec<usize>,
    /// The outermost lists, sorted.
    lists: Vec<Range<usize>>,
    /// Fenced code blocks that can be closed and opened again, sorted.
    pub(super) codes: Vec<Code>,
    /// Tables, sorted.
    pub(super) tables: Vec<Table<'a>>,
}

/// A fenced code block at any depth.
pub(super) struct Code {
    /// The whole block.
    block: Range<usize>,
    /// From the line after the opening fence to the closing fence.
    pub(super) body: Range<usize>,
    /// The line with the opening fence.
    pub(super) open: String,
    /// The line with the closing fence.
    pub(super) close: String,
}

pub(super) struct Table<'a> {
    pub(super) start: usize,
    pub(super) end: usize,
    /// Its first two lines with line ends; empty if they are too long to be repeated.
    pub(super) head: &'a str,
    /// Everything after the head.
    pub(super) rows: Range<usize>,
}

impl<'a> Outline<'a> {
    /// Returns the outline of `text`. Markup of more than `most` is not repeated in each piece.
    pub(super) fn of(text: &'a str, most: usize, dialect: &Dialect) -> Self {
        let mut outline = Self {
            edges: Vec::new(),
            items: Vec::new(),
            lists: Vec::new(),
            codes: Vec::new(),
            tables: Vec::new(),
        };
        let mut depth = 0_usize;
        let mut lists = 0_usize;
        for (event, range) in Parser::new_ext(text, dialect.options).into_offset_iter() {
            match event {
                Event::Start(tag) => {
                    if depth == 0 {
                        outline.edges.extend([range.start, range.end]);
                        if !matches!(tag, Tag::CodeBlock(_)) {
                            // Without the line break, which a piece does not need.
                            outline.edges.push(range.start + text[range.clone()].trim_end().len());
                        }
                    }
                    depth += 1;
                    match tag {
                        Tag::List(_) => {
                            if lists == 0 {
                                outline.lists.push(range);
                            }
                            lists += 1;
                        }
                        Tag::Item if lists == 1 => outline.items.push(line_start(text, range.start)),
                        Tag::CodeBlock(CodeBlockKind::Fenced(_)) => {
                            outline.codes.extend(Code::of(text, range, most, dialect));
                        }
                        Tag::Table(_) => outline.tables.push(Table::of(text, range, most, dialect)),
                        _ => {}
                    }
                }
                Event::End(tag) => {
                    depth = depth.saturating_sub(1);
                    lists -= usize::from(matches!(tag, TagEnd::List(_))).min(lists);
                }
                _ if depth == 0 => outline.edges.extend([range.start, range.end]),
                _ => {}
            }
        }
        outline.edges.sort_unstable();
        outline
    }

    /// Returns the code block whose body contains a cut at `at`.
    pub(super) fn code_at(&self, at: usize) -> Option<&Code> {
        let next = self.codes.partition_point(|code| code.body.end <= at);
        self.codes.get(next).filter(|code| code.body.start < at)
    }

    /// Returns true if a cut at `at` would break a table's head, or a line with a fence.
    pub(super) fn is_fixed(&self, at: usize) -> bool {
        let next = self.codes.partition_point(|code| code.block.end <= at);
        let code = self.codes.get(next).filter(|code| code.block.start < at);
        let in_code = code.is_some_and(|code| at <= code.body.start || code.body.end <= at);
        let next = self.tables.partition_point(|table| table.end <= at);
        in_code || self.tables.get(next).is_some_and(|table| table.start < at && at <= table.rows.start)
    }

    /// Returns the table of which a piece from `from` would begin with a row.
    pub(super) fn table_at(&self, from: usize) -> Option<&Table<'a>> {
        let next = self.tables.partition_point(|table| table.end <= from);
        self.tables.get(next).filter(|table| table.rows.contains(&from))
    }

    /// Returns true if an outermost block begins or ends at `at`.
    pub(super) fn is_block_edge(&self, at: usize) -> bool {
        self.edges.binary_search(&at).is_ok()
    }

    /// Returns true if an item of an outermost list begins at `at`.
    pub(super) fn is_item(&self, at: usize) -> bool {
        self.items.binary_search(&at).is_ok()
    }

    /// Returns true if `at` is within a list.
    pub(super) fn is_in_list(&self, at: usize) -> bool {
        let next = self.lists.partition_point(|list| list.end <= at);
        self.lists.get(next).is_some_and(|list| list.start < at)
    }

    /// Returns the tables that end after `from`, sorted.
    pub(super) fn tables_after(&self, from: usize) -> impl Iterator<Item = &Table<'a>> {
        self.tables.iter().filter(move |table| table.end > from)
    }
}

impl Code {
    /// Returns the code block at `range`, if it can be closed and opened again.
    fn of(text: &str, range: Range<usize>, most: usize, dialect: &Dialect) -> Option<Self> {
        let block = &text[range.clone()];
        let (first, rest) = block.split_once('\n')?;
        let mark = first.chars().next()?;
        let fence: String = first.chars().take_while(|c| *c == mark).collect();
        // In a list or a quotation, the characters before the fence are before each line.
        let before = &text[line_start(text, range.start)..range.start];
        let prefix: String = before.chars().map(|c| if c == '>' { c } else { ' ' }).collect();
        let open = format!("{prefix}{first}");
        let close = format!("{prefix}{fence}");
        let is_closed =
            rest.lines().next_back().is_some_and(|last| last.trim_start_matches([' ', '>']) == fence);
        let last = if is_closed { rest.rfind('\n').map_or(0, |at| at + 1) } else { rest.len() };
        let start = range.start + first.len() + 1;
        let fits = dialect.cost(&open) + dialect.cost(&close) + 6 <= most;
        fits.then(|| Self { block: range.clone(), body: start..start + last, open, close })
    }
}

impl<'a> Table<'a> {
    fn of(text: &'a str, range: Range<usize>, most: usize, dialect: &Dialect) -> Self {
        let start = line_start(text, range.start);
        let mut ends = text[start..range.end].match_indices('\n').map(|(at, _)| start + at + 1);
        let rows = ends.nth(1).unwrap_or(range.end);
        let head = &text[start..rows];
        let head = if dialect.cost(head) <= most { head } else { "" };
        let first_row = rows.min(range.end);
        Self { start, end: range.end, head, rows: first_row..range.end }
    }
}

/// Returns the start of the line of `at`.
fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |line| line + 1)
}
