//! Writes text with entities: computes offsets, line breaks and indentation, and knows nothing of Markdown.

use super::styled::{Entity, EntityKind, Styled, utf16_len};

/// Maximum indentation. Deeper list levels are indented no further, so that a short text cannot become a long one.
const MAX_INDENT: usize = 24;
/// Maximum number of nested styles. Further ones are not shown; no person writes them.
const MAX_OPEN: usize = 32;

/// A text under construction.
#[derive(Default)]
pub(super) struct Writer {
    text: String,
    units: usize,
    entities: Vec<Entity>,
    open: Vec<Open>,
    /// White space to write before the next text.
    pending: Pending,
    /// Indentation of each open list item's text.
    indents: Vec<usize>,
    /// True until something is written after the last list marker.
    is_item_fresh: bool,
}

#[derive(Clone, Copy, Default)]
enum Pending {
    #[default]
    Nothing,
    Space,
    Lines(usize),
}

/// An open style. `start` is set with its first text.
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
    /// Writes `text`, after any pending white space.
    pub(super) fn push(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.flush(true);
        self.append(text);
    }

    /// Writes `code` in monospace; within a link as plain text, since Telegram keeps only one of the two.
    pub(super) fn code(&mut self, code: &str) {
        let in_link = self.open.iter().any(|open| matches!(open.kind, Some(EntityKind::TextLink { .. })));
        self.open((!in_link).then_some(EntityKind::Code));
        self.push(code);
        self.close();
    }

    /// Writes `text` as a monospace block on its own lines, unchanged.
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

    /// Writes the lines of `text`, each after `prefix`.
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
            // The prefix is text as well: white space that a pending line break would not write.
            self.flush(true);
            self.append(prefix);
            self.append(line);
            self.line(1);
        }
    }

    /// Requests `count` line breaks before the next text. Of several requests, the largest counts.
    pub(super) fn line(&mut self, count: usize) {
        let asked = if let Pending::Lines(lines) = self.pending { lines } else { 0 };
        self.pending = Pending::Lines(asked.max(count));
    }

    /// Requests a space before the next text on this line.
    pub(super) fn space(&mut self) {
        self.pending = Pending::Space;
    }

    /// Starts a block after `count` line breaks, at least one, or directly after its list marker.
    pub(super) fn begin_block(&mut self, count: usize) {
        if !std::mem::take(&mut self.is_item_fresh) {
            self.line(count.max(1));
        }
    }

    /// Writes a list marker and indents the text after it.
    pub(super) fn start_item(&mut self, marker: &str) {
        self.push(marker);
        self.space();
        self.is_item_fresh = true;
        self.indents.push(utf16_len(marker) + 1);
    }

    /// Ends the list item and its indentation.
    pub(super) fn end_item(&mut self) {
        self.is_item_fresh = false;
        self.indents.pop();
    }

    /// Opens a style that starts with the next text. `None`, and a style that is already open, change nothing.
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

    /// Closes the style that was opened last.
    pub(super) fn close(&mut self) {
        if let Some(Open { kind: Some(kind), start: Some(start) }) = self.open.pop() {
            self.entities.push(Entity { kind, offset: start.unit, length: self.units - start.unit });
        }
    }

    /// Closes the link that was opened last. A link without text shows its URL; a text that equals the URL becomes
    /// plain text. `is_nested` means that only an outer link can be opened, so that this URL has to be shown.
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

    /// Returns the text and its entities, in the order that Telegram expects.
    pub(super) fn finish(mut self) -> Styled {
        while !self.open.is_empty() {
            self.close();
        }
        let mut entities = around_code(self.entities);
        // They are in the order of their ends: of two at the same place, the outer one came last.
        entities.reverse();
        entities.sort_by_key(|entity| (entity.offset, std::cmp::Reverse(entity.length)));
        Styled { text: self.text, entities }
    }

    /// Writes pending white space.
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

    /// Writes `text`. Styles without a start begin here.
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

/// Returns the address as people write it, if `url` has a scheme that Telegram does not link.
fn url_text(url: &str) -> Option<&str> {
    url.strip_prefix("mailto:").or_else(|| url.strip_prefix("tel:"))
}

/// Interrupts bold, italic and strikethrough entities at code, which Telegram does not combine with them.
fn around_code(entities: Vec<Entity>) -> Vec<Entity> {
    let is_code = |entity: &Entity| matches!(entity.kind, EntityKind::Code | EntityKind::Pre { .. });
    // Written one after the other, so they are sorted and disjoint.
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
