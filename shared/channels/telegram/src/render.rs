//! Renders a model's Markdown for Telegram: plain text, and entities that mark bold text, code, links and so on.
//!
//! ```text
//! "# Plan\n- **one**\n- `two`"  →  "Plan\n• one\n• two"
//! [{"type": "bold", "offset": 0, "length": 4}, {"type": "bold", "offset": 7, "length": 3},
//!  {"type": "code", "offset": 13, "length": 3}]
//! ```
//!
//! Entities are used instead of `parse_mode`, since then nothing needs escaping and no text is refused for its
//! punctuation.
//!
//! *Invariant:* no text is lost. Markup that is not supported (raw HTML, footnotes, unused link definitions, surplus
//! cells, links that Telegram would drop) is shown as it was written, a formula as
//! code, and a text without markup is not changed.
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

use annals_channel::formula;
use pulldown_cmark::{CodeBlockKind, Event, Tag, TagEnd};

use self::events::Parsed;
pub(super) use self::styled::utf16_len;
pub use self::styled::{Entity, EntityKind, Styled};
use self::table::Table;
use self::writer::Writer;

/// Renders `markdown` for Telegram.
///
/// Line breaks and blank lines between blocks are kept. White space at both ends is trimmed.
pub fn render(markdown: &str) -> Styled {
    let source = formula::to_code(&markdown.replace("\r\n", "\n").replace('\r', "\n"));
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
    // The source is only markup, such as a lone `#`: show the source.
    if styled.text.trim().is_empty() { Styled::plain(source.trim()) } else { styled }
}

struct Renderer<'a> {
    source: &'a str,
    parsed: &'a Parsed<'a>,
    writer: Writer,
    /// The source up to here is in the output, either as text or as markup of that text.
    seen: usize,
    /// The source up to here has been searched for text that is missing in the output.
    checked: usize,
    lists: Vec<List>,
    links: Vec<Link<'a>>,
    /// Text so far of the open code or HTML block.
    block: Option<String>,
    table: Option<Table>,
}

#[derive(Default)]
struct List {
    /// Number of the first item in the source.
    first: Option<u64>,
    /// Number shown for the last item.
    shown: Option<u64>,
}

struct Link<'a> {
    url: &'a str,
    title: &'a str,
    is_image: bool,
    /// In a table: start of the link text in the cell.
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
                // In a bullet list, the box has already replaced the bullet.
                if self.lists.last().is_some_and(|list| list.first.is_some()) {
                    self.writer.push(task_box(*checked));
                    self.writer.space();
                }
            }
            // These extensions are off.
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
                    // The line of the fence.
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
            // Parts of tables are handled in `table_event`. The rest are extensions that are off.
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd, range: &Range<usize>) {
        match tag {
            TagEnd::Heading(_) => {
                // Includes the underline, if the heading has one.
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
                // If every item has the same number, as in `1. 1. 1.`, count upwards.
                let number = match list.shown {
                    Some(shown) if number == list.first => Some(shown.saturating_add(1)),
                    _ => number,
                };
                list.shown = number;
                let delimiter = marker.get(digits..).unwrap_or(".");
                number.map_or_else(|| marker.to_owned(), |number| format!("{number}{delimiter}"))
            }
            (_, Some(Event::TaskListMarker(checked))) => task_box(*checked).to_owned(),
            // An empty item is more likely a dash than a list.
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
            // Text that is only indented is rarely code.
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
                    // A code block cannot contain links, so the URL is added after the text.
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

    /// Marks `range` as written to the output.
    fn leaf(&mut self, range: &Range<usize>) {
        self.seen = self.seen.max(range.end);
    }

    /// Starts the block at `range`, with as many line breaks before it as the source has.
    fn begin_block(&mut self, range: &Range<usize>) {
        let gap = self.source.get(self.content_end()..range.start).unwrap_or_default();
        self.writer.begin_block(gap.matches('\n').take(2).count());
    }

    /// Returns `seen` without the line break that some events include.
    fn content_end(&self) -> usize {
        self.source[..self.seen].trim_end().len()
    }

    /// Writes text before `end` for which the parser made no event, as it is in the source.
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
