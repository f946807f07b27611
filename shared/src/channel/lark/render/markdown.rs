//! A model's Markdown, brought to what Lark's cards show: the text stays, its markup is changed at places.

use std::ops::Range;

use pulldown_cmark::{Event, LinkType, Parser, Tag, TagEnd};

use super::OPTIONS;
use super::edits::{BREAK, Edits, refer};
use super::emphasis::{strengthen, without_accidents};

/// Whether `source` has no markup: as it is, it says all.
pub(super) fn is_plain(source: &str) -> bool {
    let mut said = String::new();
    for event in Parser::new_ext(source, OPTIONS) {
        match event {
            // A hard break: two spaces before a line break.
            Event::Start(Tag::Paragraph)
            | Event::End(TagEnd::Paragraph)
            | Event::SoftBreak
            | Event::HardBreak => {}
            Event::Text(text) => said.push_str(&text),
            _ => return false,
        }
    }
    // Escapes, character references and link definitions are markup too.
    ink(&said).eq(ink(source)) && strengthen(source).is_none()
}

fn ink(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| !c.is_whitespace())
}

/// `source` without what would be lost in a card or in a piece of it: images, which would have to be uploaded first,
/// and links whose address stands elsewhere become links that stand for themselves, `---` below a text is a rule, and
/// nested lists are indented by four spaces a level, which Lark wants.
pub(super) fn tidy(source: &str) -> String {
    let mut edits = Edits::default();
    let mut parser = Parser::new_ext(source, OPTIONS).into_offset_iter();
    let events: Vec<(Event, Range<usize>)> = parser.by_ref().collect();
    let definitions = parser.reference_definitions();
    let mut used = Vec::new();
    for (event, range) in &events {
        if let Event::Start(Tag::Heading { .. }) = event {
            part_rule(source, range, &mut edits);
        }
        let Event::Start(
            Tag::Link { link_type, dest_url, title, id } | Tag::Image { link_type, dest_url, title, id },
        ) = event
        else {
            continue;
        };
        let link = &source[range.clone()];
        let empty = ["![]", "[]"].into_iter().find(|empty| link.starts_with(empty));
        if let Some(empty) = empty {
            edits.replace(range.start..range.start + empty.len(), format!("[{}]", escaped(dest_url)));
        } else if matches!(event, Event::Start(Tag::Image { .. })) {
            edits.replace(range.start..range.start + 1, "");
        }
        if let Some(tail) = reference_tail(link, *link_type) {
            // The parser leaves it out.
            let empty_label =
                source[range.end..].strip_prefix("[]").filter(|_| *link_type == LinkType::Collapsed);
            let end = range.end + empty_label.map_or(0, |_| 2);
            edits.replace(range.start + tail..end, address(dest_url, title));
            used.extend(definitions.get(id).map(|definition| definition.span.start));
        }
    }
    for (_, definition) in definitions.iter() {
        let span = definition.span.clone();
        if used.contains(&span.start) {
            edits.replace(span, "");
        } else {
            // Shown as it was written: no link shows its address.
            edits.replace(span.start..span.start, "\\");
        }
    }
    indent_lists(source, &events, &mut edits);
    edits.apply(source)
}

/// Makes a rule of the `---` below a text, which `CommonMark` takes for a heading and people do not.
fn part_rule(source: &str, heading: &Range<usize>, edits: &mut Edits) {
    let text = source[heading.clone()].trim_end();
    if let Some((_, underline)) = text.rsplit_once('\n')
        && underline.starts_with("---")
    {
        let at = heading.start + text.len() - underline.len();
        edits.replace(at..at, "\n");
    }
}

/// Where in `link` the part begins that says where its address stands, if it stands elsewhere.
fn reference_tail(link: &str, link_type: LinkType) -> Option<usize> {
    match link_type {
        LinkType::Reference => link.rfind('['),
        LinkType::Collapsed | LinkType::Shortcut => Some(link.strip_suffix("[]").unwrap_or(link).len()),
        _ => None,
    }
}

/// `(url "title")`, as it stands behind a link's text.
fn address(url: &str, title: &str) -> String {
    let is_simple = !url.is_empty() && !url.contains(|c: char| c.is_whitespace() || "()<>".contains(c));
    let url = if is_simple { url.to_owned() } else { format!("<{}>", url.replace(['<', '>', '\n'], "")) };
    if title.is_empty() { format!("({url})") } else { format!("({url} \"{}\")", title.replace('"', "'")) }
}

fn escaped(text: &str) -> String {
    text.replace('[', "\\[").replace(']', "\\]")
}

/// A list item on the way to four spaces a level.
struct Item {
    /// Where its marker's line begins.
    line: usize,
    range: Range<usize>,
    /// How far its marker is indented, and is to be.
    indent: (usize, usize),
}

fn indent_lists(source: &str, events: &[(Event, Range<usize>)], edits: &mut Edits) {
    let mut open: Vec<Option<Item>> = Vec::new();
    let mut items: Vec<Item> = Vec::new();
    for (event, range) in events {
        match event {
            Event::Start(Tag::Item) => {
                let item = match open.last() {
                    None => item(source, range.clone(), 0),
                    Some(Some(parent)) => item(source, range.clone(), inner_indent(source, parent)),
                    // Its parent stands in a quotation or behind a tab: left as it is.
                    Some(None) => None,
                };
                open.push(item);
            }
            Event::End(TagEnd::Item) => items.extend(open.pop().flatten()),
            _ => {}
        }
    }
    // Inner items come first: each line belongs to the innermost.
    for item in items {
        let (is, to_be) = item.indent;
        let lines = source[item.line..item.range.end].split_inclusive('\n');
        let mut at = item.line;
        for line in lines {
            let spaces = line.len() - line.trim_start_matches(' ').len();
            if line.trim().is_empty() {
            } else if to_be < is {
                edits.replace(at..at + spaces.min(is - to_be), "");
            } else if spaces > 0 || at == item.line {
                edits.replace(at..at + spaces, " ".repeat(spaces + to_be - is));
            }
            at += line.len();
        }
    }
}

/// The item at `range`, if nothing but spaces stands before its marker.
fn item(source: &str, range: Range<usize>, to_be: usize) -> Option<Item> {
    let line = source[..range.start].rfind('\n').map_or(0, |at| at + 1);
    let before = &source[line..range.start];
    let marker = range.start + source[range.start..].find(|c| c != ' ').unwrap_or(0);
    let indent = marker - line;
    let is_spaces = before.bytes().all(|b| b == b' ') && !source[marker..].starts_with('\t');
    is_spaces.then_some(Item { line, range, indent: (indent, to_be) })
}

/// How far what stands in `item` is to be indented: by four, or by its marker where that is longer.
fn inner_indent(source: &str, item: &Item) -> usize {
    let text = source[item.line..].trim_start_matches(' ');
    let marker = text.find([' ', '\n']).unwrap_or(text.len()) + 1;
    item.indent.1 + marker.max(4)
}

/// `markdown` as a card's Markdown element takes it: what is HTML, or is markup only by accident, is shown as it was
/// written.
pub(super) fn to_card(markdown: &str) -> String {
    let source = without_mentions(markdown);
    let source = strengthen(&source).unwrap_or(source);
    let mut edits = Edits::default();
    without_accidents(&source, &mut edits);
    for (event, range) in Parser::new_ext(&source, OPTIONS).into_offset_iter() {
        match event {
            Event::InlineHtml(html) if is_line_break(&html) => {}
            Event::Html(_) | Event::InlineHtml(_) => refer(&mut edits, &source, range, '<'),
            _ => {}
        }
    }
    edits.apply(&source)
}

/// `<br>`, which cards know.
fn is_line_break(html: &str) -> bool {
    matches!(html.to_ascii_lowercase().as_str(), "<br>" | "<br/>" | "<br />")
}

/// `text` in which no `<at …>` is a mention: an invisible character stands behind the `<`.
pub(super) fn without_mentions(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((opener, tail)) = next_opener(rest) {
        out.push_str(&rest[..opener]);
        if is_mention(tail) {
            out.push_str(BREAK);
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}

/// The end of the first `<` of `text`, or of a character reference, which may stand for one, and what is behind it.
fn next_opener(text: &str) -> Option<(usize, &str)> {
    let at = text.find(['<', '＜', '&'])?;
    let tail = &text[at..];
    let name =
        tail.strip_prefix('&').map(|name| name.trim_start_matches(|c: char| c == '#' || c.is_alphanumeric()));
    let behind = match name.map(|name| name.strip_prefix(';').unwrap_or(&tail[1..])) {
        Some(behind) => behind,
        None => tail.trim_start_matches(['<', '＜']),
    };
    Some((text.len() - behind.len(), behind))
}

/// Whether `tag`, what stands behind a `<`, names a mention.
fn is_mention(tag: &str) -> bool {
    let name = tag.trim_start_matches(|c: char| c == '/' || c.is_whitespace() || c.is_control());
    let is_at = name.get(..2).is_some_and(|name| name.eq_ignore_ascii_case("at"));
    is_at && !name[2..].starts_with(|c: char| c.is_alphanumeric())
}
