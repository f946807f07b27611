//! Writes a text with its entities: offsets, line breaks and indentation are its business, Markdown is not.

use super::{Entity, EntityKind, Styled, utf16_len};

/// Deeper list levels are indented no further, so that a short text cannot become a long one.
const MAX_INDENT: usize = 24;
/// Styles inside this many others are not shown: no person writes them.
const MAX_OPEN: usize = 32;

/// A text in the making.
#[derive(Default)]
pub(super) struct Writer {
    text: String,
    units: usize,
    entities: Vec<Entity>,
    open: Vec<Open>,
    /// What comes before the next text, if one comes.
    pending: Pending,
    /// The text behind each open list marker stands this far in.
    indents: Vec<usize>,
    /// Nothing has come behind the last list marker yet.
    is_item_fresh: bool,
}

#[derive(Clone, Copy, Default)]
enum Pending {
    #[default]
    Nothing,
    Space,
    Lines(usize),
}

/// A style that begins with the next text, or has begun.
struct Open {
    kind: Option<EntityKind>,
    start: Option<Place>,
}

#[derive(Clone, Copy)]
struct Place {
    byte: usize,
    unit: usize,
}

impl Writer {
    /// Writes `text`, behind what was asked for before it.
    pub(super) fn push(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.flush(true);
        self.append(text);
    }

    /// Writes `code` in monospace; within a link as it is, since Telegram keeps only one of the two.
    pub(super) fn code(&mut self, code: &str) {
        let in_link = self.open.iter().any(|open| matches!(open.kind, Some(EntityKind::TextLink { .. })));
        self.open((!in_link).then_some(EntityKind::Code));
        self.push(code);
        self.close();
    }

    /// Writes `text` as a monospace block on lines of its own, with nothing added inside it.
    pub(super) fn pre(&mut self, text: &str, language: Option<&str>) {
        if text.trim().is_empty() {
            return;
        }
        self.line(1);
        self.flush(false);
        self.open(Some(EntityKind::Pre { language: language.map(str::to_owned) }));
        self.flush(false);
        self.append(text);
        self.close();
    }

    /// Writes the lines of `text`, each behind `prefix`.
    pub(super) fn lines(&mut self, text: &str, prefix: &str) {
        let mut blank = 0;
        for line in text.trim_end().split('\n') {
            if line.trim().is_empty() {
                blank += 1;
                continue;
            }
            if blank > 0 && !self.is_item_fresh {
                self.line(1 + blank);
            }
            blank = 0;
            // The prefix is text too: white space that a pending line break would not bring.
            self.flush(true);
            self.append(prefix);
            self.append(line);
            self.line(1);
        }
    }

    /// Asks for `count` line breaks before the next text; the most asked for counts.
    pub(super) fn line(&mut self, count: usize) {
        let asked = if let Pending::Lines(lines) = self.pending { lines } else { 0 };
        self.pending = Pending::Lines(asked.max(count));
    }

    /// Asks for a space before the next text of this line.
    pub(super) fn space(&mut self) {
        self.pending = Pending::Space;
    }

    /// Begins a block, `count` line breaks (one at least) behind the last, or right behind its list marker.
    pub(super) fn begin_block(&mut self, count: usize) {
        if !std::mem::take(&mut self.is_item_fresh) {
            self.line(count.max(1));
        }
    }

    /// Writes a list marker and sets what follows behind it.
    pub(super) fn start_item(&mut self, marker: &str) {
        self.push(marker);
        self.space();
        self.is_item_fresh = true;
        self.indents.push(utf16_len(marker) + 1);
    }

    /// What follows stands where the marker stood.
    pub(super) fn end_item(&mut self) {
        self.is_item_fresh = false;
        self.indents.pop();
    }

    /// Begins a style with the next text. One that is open already, and `None`, changes nothing.
    pub(super) fn open(&mut self, kind: Option<EntityKind>) {
        let kind = kind.filter(|kind| {
            let is_link = matches!(kind, EntityKind::TextLink { .. });
            self.open.len() < MAX_OPEN
                && !self
                    .open
                    .iter()
                    .filter_map(|open| open.kind.as_ref())
                    .any(|open| open == kind || (is_link && matches!(open, EntityKind::TextLink { .. })))
        });
        self.open.push(Open { kind, start: None });
    }

    /// Ends the style opened last.
    pub(super) fn close(&mut self) {
        if let Some(Open { kind: Some(kind), start: Some(start) }) = self.open.pop() {
            self.entities.push(Entity { kind, offset: start.unit, length: self.units - start.unit });
        }
    }

    /// Ends the link opened last: without text it shows its address, and a text that is the address needs no
    /// link. `is_nested` says that only an outer link can be followed, so that this address has to be shown.
    pub(super) fn close_link(&mut self, url: &str, title: &str, is_nested: bool) {
        let start = self.open.last().and_then(|open| open.start);
        let text = start.and_then(|start| self.text.get(start.byte..)).unwrap_or_default().trim();
        if text.is_empty() || text == url || is_nested || url_text(url).is_some() {
            let shown = match url_text(url).unwrap_or(url) {
                shown if text == shown => None,
                shown if text.is_empty() => Some(shown.to_owned()),
                shown => Some(format!(" ({shown})")),
            };
            if let Some(open) = self.open.last_mut() {
                open.kind = None;
            }
            self.push(&shown.unwrap_or_default());
        }
        self.close();
        if !title.is_empty() {
            self.push(&format!(" ({title})"));
        }
    }

    /// The text and its entities, as Telegram wants them.
    pub(super) fn finish(mut self) -> Styled {
        while !self.open.is_empty() {
            self.close();
        }
        let mut entities = around_code(self.entities);
        // They are in the order of their ends: of two in one place, the outer came last.
        entities.reverse();
        entities.sort_by_key(|entity| (entity.offset, std::cmp::Reverse(entity.length)));
        Styled { text: self.text, entities }
    }

    /// Writes what is pending, and begins the styles that wait for text.
    fn flush(&mut self, indented: bool) {
        self.is_item_fresh = false;
        match std::mem::take(&mut self.pending) {
            Pending::Space => self.append_raw(" "),
            Pending::Lines(count) if !self.text.is_empty() => {
                let indent = if indented { self.indents.iter().sum::<usize>().min(MAX_INDENT) } else { 0 };
                self.append_raw(&format!("{}{}", "\n".repeat(count), " ".repeat(indent)));
            }
            Pending::Lines(_) | Pending::Nothing => {}
        }
    }

    /// Writes `text` where the last ended; styles that wait begin here.
    fn append(&mut self, text: &str) {
        let here = Place { byte: self.text.len(), unit: self.units };
        for open in self.open.iter_mut().rev().take_while(|open| open.start.is_none()) {
            open.start = Some(here);
        }
        self.append_raw(text);
    }

    fn append_raw(&mut self, text: &str) {
        self.units += utf16_len(text);
        self.text.push_str(text);
    }
}

/// The address as people write it, for schemes that Telegram makes no links of.
fn url_text(url: &str) -> Option<&str> {
    url.strip_prefix("mailto:").or_else(|| url.strip_prefix("tel:"))
}

/// `entities` with bold, italic and strikethrough interrupted where there is code, which can hold neither.
fn around_code(entities: Vec<Entity>) -> Vec<Entity> {
    let is_code = |entity: &Entity| matches!(entity.kind, EntityKind::Code | EntityKind::Pre { .. });
    // Written one after the other, so they are in order and apart.
    let code: Vec<_> = entities.iter().filter(|entity| is_code(entity)).map(Entity::range).collect();
    let mut apart = Vec::with_capacity(entities.len());
    for entity in entities {
        if !matches!(entity.kind, EntityKind::Bold | EntityKind::Italic | EntityKind::Strikethrough) {
            apart.push(entity);
            continue;
        }
        let Entity { kind, offset: mut start, .. } = entity.clone();
        let end = entity.range().end;
        let first = code.partition_point(|code| code.end <= start);
        for code in code[first..].iter().take_while(|code| code.start < end) {
            if code.start > start {
                apart.push(Entity { kind: kind.clone(), offset: start, length: code.start - start });
            }
            start = code.end;
        }
        if start < end {
            apart.push(Entity { kind, offset: start, length: end - start });
        }
    }
    apart
}
