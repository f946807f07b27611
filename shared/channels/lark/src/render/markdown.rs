//! Adapts a model's Markdown to Lark's cards: the text is kept, some markup is changed.

use std::ops::Range;

use pulldown_cmark::{Event, LinkType, Parser, Tag, TagEnd};

use super::super::split::OPTIONS;
use super::edits::{BREAK, Edits, refer};
use super::emphasis::{strengthen, without_accidents};

/// Returns true if `source` has no markup, so that it can be sent unchanged.
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

/// Rewrites markup that a card, or a piece of one, would lose: images, which would have to be uploaded first, become
/// links; links with a definition elsewhere become inline links; `---` below a text becomes a rule; nested lists are
/// indented by four spaces per level, as Lark requires.
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
            // The parser omits it.
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
            // No link uses this definition, so it is shown as text.
            edits.replace(span.start..span.start, "\\");
        }
    }
    indent_lists(source, &events, &mut edits);
    edits.apply(source)
}

/// Makes a rule of `---` below a text. `CommonMark` reads it as a heading, but people do not mean that.
fn part_rule(source: &str, heading: &Range<usize>, edits: &mut Edits) {
    let text = source[heading.clone()].trim_end();
    if let Some((_, underline)) = text.rsplit_once('\n')
        && underline.starts_with("---")
    {
        let at = heading.start + text.len() - underline.len();
        edits.replace(at..at, "\n");
    }
}

/// Returns the start of the part of `link` that refers to a definition, if it does.
fn reference_tail(link: &str, link_type: LinkType) -> Option<usize> {
    match link_type {
        LinkType::Reference => link.rfind('['),
        LinkType::Collapsed | LinkType::Shortcut => Some(link.strip_suffix("[]").unwrap_or(link).len()),
        _ => None,
    }
}

/// Returns `(url "title")`, the part after a link's text.
fn address(url: &str, title: &str) -> String {
    let is_simple = !url.is_empty() && !url.contains(|c: char| c.is_whitespace() || "()<>".contains(c));
    let url = if is_simple { url.to_owned() } else { format!("<{}>", url.replace(['<', '>', '\n'], "")) };
    if title.is_empty() { format!("({url})") } else { format!("({url} \"{}\")", title.replace('"', "'")) }
}

fn escaped(text: &str) -> String {
    text.replace('[', "\\[").replace(']', "\\]")
}

/// A list item and its indentation.
struct Item {
    /// Start of the line of its marker.
    line: usize,
    range: Range<usize>,
    /// Indentation of its marker: current and wanted.
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
                    // The parent is in a quotation or after a tab: leave it unchanged.
                    Some(None) => None,
                };
                open.push(item);
            }
            Event::End(TagEnd::Item) => items.extend(open.pop().flatten()),
            _ => {}
        }
    }
    // Inner items come first: each line belongs to the innermost one.
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

/// Returns the item at `range`, if there are only spaces before its marker.
fn item(source: &str, range: Range<usize>, to_be: usize) -> Option<Item> {
    let line = source[..range.start].rfind('\n').map_or(0, |at| at + 1);
    let before = &source[line..range.start];
    let marker = range.start + source[range.start..].find(|c| c != ' ').unwrap_or(0);
    let indent = marker - line;
    let is_spaces = before.bytes().all(|b| b == b' ') && !source[marker..].starts_with('\t');
    is_spaces.then_some(Item { line, range, indent: (indent, to_be) })
}

/// Returns the indentation of the content of `item`: four more than its own, or the length of its marker if that is
/// longer.
fn inner_indent(source: &str, item: &Item) -> usize {
    let text = source[item.line..].trim_start_matches(' ');
    let marker = text.find([' ', '\n']).unwrap_or(text.len()) + 1;
    item.indent.1 + marker.max(4)
}

/// Converts `markdown` for a card's Markdown element: HTML, and markup by accident, are shown as they were written.
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

/// Returns true for `<br>`, which cards support.
fn is_line_break(html: &str) -> bool {
    matches!(html.to_ascii_lowercase().as_str(), "<br>" | "<br/>" | "<br />")
}

/// Inserts an invisible character after the `<` of each `<at …>`, so that it is not a mention.
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

/// Returns the end of the first `<` of `text`, or of a character reference for one, and the text after it.
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

/// Returns true if `tag`, the text after a `<`, is a mention.
fn is_mention(tag: &str) -> bool {
    let name = tag.trim_start_matches(|c: char| c == '/' || c.is_whitespace() || c.is_control());
    let is_at = name.get(..2).is_some_and(|name| name.eq_ignore_ascii_case("at"));
    is_at && !name[2..].starts_with(|c: char| c.is_alphanumeric())
}
