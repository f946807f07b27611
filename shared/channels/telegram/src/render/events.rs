//! Parses Markdown, adapted to chat messages.
//!
//! `CommonMark` is made for documents and reads some ordinary chat text as markup: `2*3*4`, `__init__`, `f[i](x)`, a
//! text above a line of dashes. These are turned back into text here, so that the renderer does not have to know them.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, LinkType, Options, Parser, Tag, TagEnd};

/// The result of parsing, and the link definitions, for which there are no events.
pub(super) struct Parsed<'a> {
    /// Events in the order of the source, with their ranges in it.
    pub(super) events: Vec<Spanned<'a>>,
    /// Ranges of the link definitions whose URL a link shows, sorted.
    used: Vec<Range<usize>>,
    /// Ranges of the other link definitions, sorted.
    unused: Vec<Range<usize>>,
}

/// An event and its range in the source, in bytes.
pub(super) type Spanned<'a> = (Event<'a>, Range<usize>);

/// Parses `source`, whose line ends are `\n`.
pub(super) fn parse(source: &str) -> Parsed<'_> {
    let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS;
    let mut parser = Parser::new_ext(source, options).into_offset_iter();
    let events: Vec<Spanned> = parser.by_ref().collect();
    let definitions = parser.reference_definitions();
    let mut used: Vec<Range<usize>> = events
        .iter()
        .filter_map(|(event, _)| match event {
            Event::Start(Tag::Link { dest_url, id, .. } | Tag::Image { dest_url, id, .. })
                if !id.is_empty() && shows_address(dest_url) =>
            {
                definitions.get(id).map(|definition| definition.span.clone())
            }
            _ => None,
        })
        .collect();
    used.sort_by_key(|span| span.start);
    used.dedup();
    let mut unused: Vec<Range<usize>> = definitions
        .iter()
        .map(|(_, definition)| definition.span.clone())
        .filter(|span| used.binary_search_by_key(&span.start, |used| used.start).is_err())
        .collect();
    unused.sort_by_key(|span| span.start);
    let mut events = without_accidents(source, events);
    strengthen(source, &mut events);
    Parsed { events, used, unused }
}

impl Parsed<'_> {
    /// Returns true if there is no markup, so that the source can be shown unchanged.
    pub(super) fn is_plain(&self, source: &str) -> bool {
        let mut seen = 0;
        let mut is_blank_until = |to: usize| {
            let gap = seen..to;
            seen = seen.max(to);
            source.get(gap.clone()).unwrap_or_default().trim().is_empty() || self.has_unused_in(&gap)
        };
        self.used.is_empty()
            && self.events.iter().all(|(event, range)| match event {
                Event::Start(Tag::Paragraph | Tag::HtmlBlock | Tag::CodeBlock(CodeBlockKind::Indented))
                | Event::End(TagEnd::Paragraph | TagEnd::HtmlBlock | TagEnd::CodeBlock) => true,
                Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                    let is_verbatim = source.get(range.clone()).is_some_and(|source| source == &**text);
                    let is_plain = is_verbatim && is_blank_until(range.start);
                    is_blank_until(range.end);
                    is_plain
                }
                Event::SoftBreak | Event::HardBreak => is_blank_until(range.end),
                _ => false,
            })
    }

    /// Returns the text in `gap`, a range between two events: unused link definitions, and anything but punctuation.
    pub(super) fn lost_in(&self, source: &str, gap: &Range<usize>) -> Option<String> {
        let mut left = String::new();
        let mut at = gap.start;
        let first = self.used.partition_point(|span| span.start < gap.start);
        for span in self.used[first..].iter().take_while(|span| span.end <= gap.end) {
            left.push_str(source.get(at..span.start)?);
            at = span.end;
        }
        left.push_str(source.get(at..gap.end)?);
        let is_text = |c: char| !c.is_whitespace() && !c.is_ascii_punctuation();
        (self.has_unused_in(gap) || left.contains(is_text)).then(|| left.trim().to_owned())
    }

    fn has_unused_in(&self, gap: &Range<usize>) -> bool {
        let first = self.unused.partition_point(|span| span.start < gap.start);
        self.unused.get(first).is_some_and(|span| span.end <= gap.end)
    }
}

/// Treatment of an inline style, link or heading.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    /// Markup: keep it.
    Keep,
    /// Text: show its markup characters.
    Literal,
    /// Show only its content.
    Unwrap,
    /// A link whose brackets are shown as text.
    Bracketed,
    /// A heading whose underline is text: treat it as a paragraph.
    Paragraph,
}

fn without_accidents<'a>(source: &'a str, events: Vec<Spanned<'a>>) -> Vec<Spanned<'a>> {
    let text =
        |range: Range<usize>| (Event::Text(source.get(range.clone()).unwrap_or_default().into()), range);
    let mut kept: Vec<Spanned> = Vec::with_capacity(events.len());
    let mut open = Vec::new();
    let starts: Vec<usize> = events.iter().map(|(_, range)| range.start).collect();
    // End of the content before an end tag.
    let mut content_end = 0;
    for (number, (event, range)) in events.into_iter().enumerate() {
        match event {
            Event::Start(tag) => {
                let fate = fate(source, &tag, &range);
                open.push(fate);
                let child =
                    starts.get(number + 1).copied().unwrap_or(range.end).clamp(range.start, range.end);
                content_end = child;
                match fate {
                    Fate::Keep => kept.push((Event::Start(tag), range)),
                    Fate::Literal => kept.push(text(range.start..child)),
                    Fate::Unwrap => {}
                    Fate::Bracketed => {
                        kept.push((Event::Start(tag), range.clone()));
                        kept.push(text(range.start..range.start + 1));
                    }
                    Fate::Paragraph => kept.push((Event::Start(Tag::Paragraph), range)),
                }
            }
            Event::End(tag) => {
                let content_end =
                    std::mem::replace(&mut content_end, range.end).clamp(range.start, range.end);
                match open.pop().unwrap_or(Fate::Keep) {
                    Fate::Keep => kept.push((Event::End(tag), range)),
                    Fate::Literal => kept.push(text(content_end..range.end)),
                    Fate::Unwrap => {}
                    Fate::Bracketed => {
                        kept.push(text(content_end..content_end + 1));
                        kept.push((Event::End(tag), range));
                    }
                    Fate::Paragraph => {
                        let underline = underline(source, &range);
                        if source[underline.clone()].starts_with("---") {
                            kept.push((Event::End(TagEnd::Paragraph), range));
                            kept.push((Event::Rule, underline));
                        } else {
                            kept.push((Event::SoftBreak, underline.start..underline.start));
                            kept.push(text(underline));
                            kept.push((Event::End(TagEnd::Paragraph), range));
                        }
                    }
                }
            }
            leaf => {
                content_end = range.end;
                match kept.last_mut() {
                    // Joins two leftover marks.
                    Some((Event::Text(last), at))
                        if &**last == "*" && at.end == range.start && leaf == Event::Text("*".into()) =>
                    {
                        *last = "**".into();
                        at.end = range.end;
                    }
                    _ => kept.push((leaf, range)),
                }
            }
        }
    }
    kept
}

fn fate(source: &str, tag: &Tag, range: &Range<usize>) -> Fate {
    let markup = source.get(range.clone()).unwrap_or_default();
    let is_literal = match tag {
        Tag::Emphasis => markup.starts_with('*') && is_in_word(source, range),
        Tag::Strong if markup.starts_with('_') => is_dunder(markup),
        Tag::Strong => is_in_word(source, range),
        Tag::Strikethrough => !markup.starts_with("~~"),
        Tag::Link { link_type: LinkType::Autolink | LinkType::Email, .. } => return Fate::Unwrap,
        Tag::Link { dest_url, id, .. } | Tag::Image { dest_url, id, .. } => {
            if shows_address(dest_url) && id.starts_with('^') && markup.starts_with("[^") {
                return Fate::Bracketed;
            }
            !shows_address(dest_url)
        }
        Tag::Heading { .. } if !markup.trim_start().starts_with('#') => {
            let underline = &source[underline(source, range)];
            let is_heading = underline.starts_with("===") && markup.trim().lines().count() == 2;
            return if is_heading { Fate::Keep } else { Fate::Paragraph };
        }
        _ => false,
    };
    if is_literal { Fate::Literal } else { Fate::Keep }
}

/// Returns the range of the underline of a heading.
fn underline(source: &str, heading: &Range<usize>) -> Range<usize> {
    let markup = source.get(heading.clone()).unwrap_or_default().trim_end();
    let line = markup.rfind('\n').map_or(0, |line| line + 1);
    let start = markup[line..].find(['=', '-']).map_or(markup.len(), |mark| line + mark);
    heading.start + start..heading.start + markup.len()
}

/// Returns true for `2*3*4`: letters or digits on both outer sides.
fn is_in_word(source: &str, range: &Range<usize>) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    is_word(char_before(source, range.start)) && is_word(char_after(source, range.end))
}

/// Returns true for `__init__`, a name in Python.
fn is_dunder(markup: &str) -> bool {
    markup.bytes().all(|b| b == b'_' || b.is_ascii_lowercase() || b.is_ascii_digit())
}

/// Returns true if Telegram shows the URL of a link, or can open it.
///
/// Telegram silently drops links with other schemes, and links to hosts without a dot (`check_link_impl` of `TDLib`).
fn shows_address(url: &str) -> bool {
    if url.len() > 2048 || url.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return false;
    }
    let Some((scheme, rest)) = url.split_once(':') else { return false };
    let rest = rest.strip_prefix("//");
    match (scheme.to_ascii_lowercase().as_str(), rest) {
        ("http" | "https", Some(rest)) => {
            let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
            let host = authority.rsplit('@').next().unwrap_or_default();
            host.starts_with('[')
                || host.split(':').next().is_some_and(|host| host.trim_matches('.').contains('.'))
        }
        ("tg", Some(rest)) => !rest.is_empty(),
        // These are shown as text after the label.
        ("mailto" | "tel", None) => true,
        _ => false,
    }
}

/// Makes `**重点：**内容` bold.
///
/// By the rule of `CommonMark`, a `**` between punctuation and a letter does not close, which presumes spaces between
/// words. Chinese and Japanese texts, where models write this all the time, have none. So if such a mark is left over,
/// the marks around it are paired again by the sides on which text touches them, and the new pairing is kept if it
/// leaves fewer marks over.
fn strengthen<'a>(source: &'a str, events: &mut [Spanned<'a>]) {
    // Marks of each open block or inline; a bold range counts as two marks.
    let mut open = vec![Vec::new()];
    let mut closed = Vec::new();
    for (number, (event, range)) in events.iter().enumerate() {
        let is_strong = source.get(range.start..).is_some_and(|markup| markup.starts_with("**"));
        let mark = match event {
            Event::Start(Tag::Strong) if is_strong => range.start..range.start + 2,
            Event::End(TagEnd::Strong) if is_strong => range.end.saturating_sub(2)..range.end,
            Event::Text(text) if &**text == "**" && stands_alone(source, range) => range.clone(),
            Event::Start(_) => {
                open.push(Vec::new());
                continue;
            }
            Event::End(_) => {
                closed.extend(open.pop());
                continue;
            }
            _ => continue,
        };
        if let Some(marks) = open.last_mut() {
            marks.push((number, mark));
        }
    }
    for marks in closed {
        pair_again(source, events, &marks);
    }
}

/// Returns true if a mark is neither escaped nor part of a longer one.
fn stands_alone(source: &str, mark: &Range<usize>) -> bool {
    !matches!(char_before(source, mark.start), Some('*' | '\\')) && char_after(source, mark.end) != Some('*')
}

fn pair_again<'a>(source: &'a str, events: &mut [Spanned<'a>], marks: &[(usize, Range<usize>)]) {
    let left_over = marks.iter().filter(|(number, _)| matches!(events[*number].0, Event::Text(_))).count();
    let is_wide = |c: Option<char>| c.is_some_and(|c| !c.is_ascii());
    let is_ink = |c: Option<char>| c.is_some_and(|c| !c.is_whitespace());
    let around = |mark: &Range<usize>| (char_before(source, mark.start), char_after(source, mark.end));
    let concerns =
        marks.iter().map(|(_, mark)| around(mark)).any(|(before, after)| is_wide(before) || is_wide(after));
    if left_over == 0 || !concerns {
        return;
    }
    let mut pairs = Vec::new();
    let mut start = None;
    for mark in marks {
        let (before, after) = around(&mark.1);
        match start {
            Some(first) if is_ink(before) => {
                pairs.push((first, mark));
                start = None;
            }
            _ if is_ink(after) => start = Some(mark),
            _ => {}
        }
    }
    if marks.len() - 2 * pairs.len() >= left_over {
        return;
    }
    for (number, mark) in marks {
        events[*number] = (Event::Text(source.get(mark.clone()).unwrap_or_default().into()), mark.clone());
    }
    for ((start, from), (end, to)) in pairs {
        // Both events of a pair have the same range, as tags have.
        let range = from.start..to.end;
        events[*start] = (Event::Start(Tag::Strong), range.clone());
        events[*end] = (Event::End(TagEnd::Strong), range);
    }
}

fn char_before(source: &str, at: usize) -> Option<char> {
    source.get(..at)?.chars().next_back()
}

fn char_after(source: &str, at: usize) -> Option<char> {
    source.get(at..)?.chars().next()
}
