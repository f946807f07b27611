//! A model's Markdown as Telegram shows it: text, and entities that say which stretch of it is bold, code, a link.
//!
//! ```text
//! "# Plan\n- **one**\n- `two`"  →  "Plan\n• one\n• two"
//! [{"type": "bold", "offset": 0, "length": 4}, {"type": "bold", "offset": 7, "length": 3},
//!  {"type": "code", "offset": 13, "length": 3}]
//! ```
//!
//! Entities rather than `parse_mode`: nothing needs escaping, so no text is refused for its punctuation.
//!
//! *Invariant:* nothing of the text is lost. What this module does not know how to show (raw HTML, footnotes,
//! definitions that no link uses, surplus cells, links that Telegram would drop) is shown as it was written, and a
//! text without markup comes out as it went in.
//!
//! Source of the shapes and rules: `MessageEntity` and "Formatting options" of the Bot API
//! (<https://core.telegram.org/bots/api#formatting-options>).

mod events;
mod styled;
mod table;
#[cfg(test)]
mod tests;
mod writer;

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Tag, TagEnd};

use self::events::Parsed;
pub(super) use self::styled::utf16_len;
pub use self::styled::{Entity, EntityKind, Styled};
use self::table::Table;
use self::writer::Writer;

/// `markdown` as Telegram shows it.
///
/// Line breaks stay line breaks, and blocks that a blank line separates stay so. White space at both ends is
/// trimmed.
pub fn render(markdown: &str) -> Styled {
    let source = markdown.replace("\r\n", "\n").replace('\r', "\n");
    let parsed = events::parse(&source);
    if parsed.is_plain(&source) {
        return Styled::plain(source.trim());
    }
    let mut renderer = Renderer::new(&source, &parsed);
    for at in 0..parsed.events.len() {
        renderer.event(at);
    }
    renderer.keep_lost_before(source.len());
    let styled = renderer.writer.finish();
    // Nothing but markup, such as a lone `#`: what the sender sees is what they wrote.
    if styled.text.trim().is_empty() { Styled::plain(source.trim()) } else { styled }
}

struct Renderer<'a> {
    source: &'a str,
    parsed: &'a Parsed<'a>,
    writer: Writer,
    /// The source up to here is in the output, or is the markup of what is.
    seen: usize,
    /// The source up to here holds no text that is not in the output.
    checked: usize,
    lists: Vec<List>,
    links: Vec<Link<'a>>,
    /// What a code or HTML block has said so far.
    block: Option<String>,
    table: Option<Table>,
}

#[derive(Default)]
struct List {
    /// The number that the source gave the first item.
    first: Option<u64>,
    /// The number last shown.
    shown: Option<u64>,
}

struct Link<'a> {
    url: &'a str,
    title: &'a str,
    is_image: bool,
    /// In a table: where its text begins in the cell.
    cell_start: usize,
}

impl<'a> Renderer<'a> {
    fn new(source: &'a str, parsed: &'a Parsed<'a>) -> Self {
        Self {
            source,
            parsed,
            writer: Writer::default(),
            seen: 0,
            checked: 0,
            lists: Vec::new(),
            links: Vec::new(),
            block: None,
            table: None,
        }
    }

    fn event(&mut self, at: usize) {
        let parsed = self.parsed;
        let (event, range) = &parsed.events[at];
        if self.table.is_some() && !matches!(event, Event::End(TagEnd::Table)) {
            return self.table_event(event, range);
        }
        self.keep_lost_before(range.start);
        match event {
            Event::Start(tag) => self.start(tag, range, at),
            Event::End(tag) => self.end(*tag, range),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                self.leaf(range);
                match &mut self.block {
                    Some(block) => block.push_str(text),
                    None => self.writer.push(text),
                }
            }
            Event::Code(code) => {
                self.leaf(range);
                self.writer.code(code);
            }
            Event::SoftBreak | Event::HardBreak => {
                self.leaf(range);
                self.writer.line(1);
            }
            Event::Rule => {
                self.begin_block(range);
                self.leaf(range);
                self.writer.push("———");
                self.writer.line(1);
            }
            Event::TaskListMarker(checked) => {
                self.leaf(range);
                // A bullet has already given way to the box.
                if self.lists.last().is_some_and(|list| list.first.is_some()) {
                    self.writer.push(task_box(*checked));
                    self.writer.space();
                }
            }
            // Extensions that are off.
            Event::FootnoteReference(_) | Event::InlineMath(_) | Event::DisplayMath(_) => {
                self.leaf(range);
                self.writer.push(self.source.get(range.clone()).unwrap_or_default());
            }
        }
    }

    fn start(&mut self, tag: &'a Tag<'a>, range: &Range<usize>, at: usize) {
        match tag {
            Tag::Paragraph => self.begin_block(range),
            Tag::Heading { .. } => {
                self.begin_block(range);
                self.writer.open(Some(EntityKind::Bold));
            }
            Tag::BlockQuote(_) => {
                self.begin_block(range);
                self.writer.open(Some(EntityKind::Blockquote));
            }
            Tag::CodeBlock(kind) => {
                self.begin_block(range);
                if let CodeBlockKind::Fenced(_) = kind {
                    // The fence and what stands behind it.
                    let fence = self.source[range.start..].find('\n').unwrap_or(self.source.len());
                    self.seen = (range.start + fence).min(range.end);
                }
                self.block = Some(String::new());
            }
            Tag::HtmlBlock => {
                self.begin_block(range);
                self.block = Some(String::new());
            }
            Tag::List(first) => self.lists.push(List { first: *first, shown: None }),
            Tag::Item => self.start_item(range, at),
            Tag::Table(alignments) => {
                self.begin_block(range);
                self.table = Some(Table::new(alignments));
            }
            Tag::Emphasis => self.writer.open(Some(EntityKind::Italic)),
            Tag::Strong => self.writer.open(Some(EntityKind::Bold)),
            Tag::Strikethrough => self.writer.open(Some(EntityKind::Strikethrough)),
            Tag::Link { .. } | Tag::Image { .. } => {
                let link = Link::of(tag, 0);
                self.writer.open(link.map(|link| EntityKind::TextLink { url: link.url.to_owned() }));
                self.links.extend(Link::of(tag, 0));
            }
            // Parts of tables, which come elsewhere, and extensions that are off.
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd, range: &Range<usize>) {
        match tag {
            TagEnd::Heading(_) => {
                // The underline, if that is what makes it one.
                self.leaf(range);
                self.writer.close();
                self.writer.line(1);
            }
            TagEnd::BlockQuote(_) => {
                self.writer.close();
                self.writer.line(1);
            }
            TagEnd::Paragraph => self.writer.line(1),
            TagEnd::CodeBlock => self.end_code(range),
            TagEnd::HtmlBlock => {
                let html = self.block.take().unwrap_or_default();
                self.writer.lines(&html, "");
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::Item => {
                self.writer.end_item();
                self.writer.line(1);
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    self.writer.pre(&table.layout(), None);
                }
                self.writer.line(1);
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.writer.close();
            }
            TagEnd::Link | TagEnd::Image => {
                if let Some(link) = self.links.pop() {
                    let nested = link.is_image && !self.links.is_empty();
                    self.writer.close_link(link.url, link.title, nested);
                }
                self.seen = self.seen.max(range.end);
            }
            _ => {}
        }
    }

    fn start_item(&mut self, range: &Range<usize>, at: usize) {
        self.begin_block(range);
        let item = self.source[range.start..].trim_start();
        let digits = item.bytes().take_while(u8::is_ascii_digit).count();
        let marker = item.get(..=digits).unwrap_or(item);
        self.seen = self.seen.max(self.source.len() - item.len() + marker.len());
        let mut ahead = self.parsed.events[at + 1..].iter().map(|(event, _)| event);
        let mut next = ahead.next();
        if let Some(Event::Start(Tag::Paragraph)) = next {
            next = ahead.next();
        }
        let shown = match (self.lists.last_mut(), next) {
            (Some(list), _) if list.first.is_some() => {
                let number = marker.get(..digits).and_then(|digits| digits.parse::<u64>().ok());
                // Who numbers every item alike leaves the counting to the reader.
                let number = match list.shown {
                    Some(shown) if number == list.first => Some(shown.saturating_add(1)),
                    _ => number,
                };
                list.shown = number;
                let delimiter = marker.get(digits..).unwrap_or(".");
                number.map_or_else(|| marker.to_owned(), |number| format!("{number}{delimiter}"))
            }
            (_, Some(Event::TaskListMarker(checked))) => task_box(*checked).to_owned(),
            // An item of nothing: more likely a dash than a list.
            (_, Some(Event::End(TagEnd::Item))) => marker.to_owned(),
            _ => "•".to_owned(),
        };
        self.writer.start_item(&shown);
    }

    fn end_code(&mut self, range: &Range<usize>) {
        let code = self.block.take().unwrap_or_default();
        let source = self.source.get(range.clone()).unwrap_or_default();
        let fence = source.trim_start().chars().next().filter(|c| matches!(c, '`' | '~'));
        let info = fence.map(|fence| {
            let first_line = source.trim_start().lines().next().unwrap_or_default();
            first_line.trim_start_matches(fence).trim()
        });
        match info {
            // By indentation alone: more often an indented text than code.
            None => self.writer.lines(&code, "    "),
            Some(_) if code.trim().is_empty() => self.writer.lines(source, ""),
            Some(info) => {
                let end =
                    info.find(|c: char| c.is_whitespace() || matches!(c, ',' | '{')).unwrap_or(info.len());
                let (language, rest) = info.split_at(end);
                self.writer.lines(rest.trim_start_matches(',').trim(), "");
                let language = Some(language).filter(|language| !language.is_empty());
                self.writer.pre(code.strip_suffix('\n').unwrap_or(&code), language);
            }
        }
        self.seen = self.seen.max(range.start + source.trim_end().len());
        self.writer.line(1);
    }

    fn table_event(&mut self, event: &'a Event<'a>, range: &Range<usize>) {
        let lost = match event {
            Event::End(TagEnd::TableHead | TagEnd::TableRow) => self.take_lost_before(range.end),
            _ => None,
        };
        let Some(table) = &mut self.table else { return };
        match event {
            Event::Start(Tag::TableHead | Tag::TableRow) => table.start_row(),
            Event::Start(Tag::TableCell) => table.start_cell(),
            Event::Start(tag @ (Tag::Link { .. } | Tag::Image { .. })) => {
                self.links.extend(Link::of(tag, table.cell().len()));
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                if let Some(link) = self.links.pop() {
                    let cell = table.cell();
                    // A block of code holds no links, so the address stands behind the text.
                    match cell.get(link.cell_start..).unwrap_or_default() {
                        "" => cell.push_str(link.url),
                        text if text == link.url => {}
                        _ => cell.extend([" (", link.url, ")"]),
                    }
                    if !link.title.is_empty() {
                        cell.extend([" (", link.title, ")"]);
                    }
                }
                self.seen = self.seen.max(range.end);
            }
            Event::End(TagEnd::TableHead | TagEnd::TableRow) => {
                if let Some(lost) = lost {
                    table.start_cell();
                    table.cell().push_str(lost.trim_matches(|c: char| c == '|' || c.is_whitespace()));
                }
            }
            Event::Text(text) | Event::Code(text) | Event::Html(text) | Event::InlineHtml(text) => {
                table.cell().push_str(text);
                self.leaf(range);
            }
            Event::SoftBreak | Event::HardBreak => table.cell().push(' '),
            _ => {}
        }
    }

    /// What `range` holds is in the output now.
    fn leaf(&mut self, range: &Range<usize>) {
        self.seen = self.seen.max(range.end);
    }

    /// Parts the block at `range` from what stands before it, as far as the source does.
    fn begin_block(&mut self, range: &Range<usize>) {
        let gap = self.source.get(self.content_end()..range.start).unwrap_or_default();
        self.writer.begin_block(gap.matches('\n').take(2).count());
    }

    /// `seen`, without the line break that some events take in.
    fn content_end(&self) -> usize {
        self.source[..self.seen].trim_end().len()
    }

    /// Shows, as it was written, what stands before `end` and what no event was made of.
    fn keep_lost_before(&mut self, end: usize) {
        if let Some(lost) = self.take_lost_before(end) {
            self.writer.begin_block(2);
            self.writer.lines(&lost, "");
        }
    }

    fn take_lost_before(&mut self, end: usize) -> Option<String> {
        let gap = self.seen.max(self.checked)..end;
        if gap.is_empty() {
            return None;
        }
        self.checked = end;
        let lost = self.parsed.lost_in(self.source, &gap);
        if lost.is_some() {
            self.seen = end;
        }
        lost
    }
}

impl<'a> Link<'a> {
    fn of(tag: &'a Tag<'a>, cell_start: usize) -> Option<Self> {
        match tag {
            Tag::Link { dest_url, title, .. } => {
                Some(Self { url: dest_url, title, is_image: false, cell_start })
            }
            Tag::Image { dest_url, title, .. } => {
                Some(Self { url: dest_url, title, is_image: true, cell_start })
            }
            _ => None,
        }
    }
}

fn task_box(checked: bool) -> &'static str {
    if checked { "☑" } else { "☐" }
}
