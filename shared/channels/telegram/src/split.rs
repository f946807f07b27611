//! Splits a text into messages that Telegram accepts: [`split`].
//!
//! Cuts are made at the end of a paragraph if possible, otherwise of a line, a sentence or a word, and within a word
//! only if nothing else is left. Short code blocks, code and links are not cut. All pieces but the last are at least
//! half full if there is such a place. Styles continue in the next piece.
//!
//! *Invariant:* only white space at a cut is dropped, and none within a code block, except for a piece that would be
//! only white space, which Telegram would refuse.

use std::ops::Range;

use annals_channel::seam::{boundaries, is_grapheme_end, is_sentence_end, is_word_end};

use super::render::{Entity, EntityKind, Styled, utf16_len};

/// Maximum length of a message, in UTF-16 units (`sendMessage` of the Bot API).
pub const LIMIT: usize = 4096;
/// Maximum number of entities of a message. Telegram drops further ones (`EntitiesTooLong` of its API).
pub const MAX_ENTITIES: usize = 100;

/// Splits `styled` into pieces of at most `limit` UTF-16 units and [`MAX_ENTITIES`] entities. A limit below 2, the
/// length of one emoji, is raised to 2. No piece is empty or only white space; an empty text gives no piece.
pub fn split(styled: &Styled, limit: usize) -> Vec<Styled> {
    let source = Source::new(styled);
    let limit = limit.max(2);
    let mut pieces = Vec::new();
    let mut start = Place::default();
    while let Some(from) = source.skip_blank(start, limit) {
        let window = source.window(from, limit);
        let cut = if window == styled.text.len() { window } else { source.cut(from.byte, window, limit) };
        pieces.push(source.piece(from, source.trim_end(from.byte, cut)));
        start = source.place_at(from, cut);
    }
    pieces
}

/// A position in the text, in bytes and in UTF-16 units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    byte: usize,
    unit: usize,
}

/// An entity with its positions in bytes and units.
struct Span<'a> {
    kind: &'a EntityKind,
    start: Place,
    end: Place,
}

struct Source<'a> {
    text: &'a str,
    /// Sorted by start, the longer first.
    spans: Vec<Span<'a>>,
    /// Byte ranges of the code blocks, sorted and disjoint.
    blocks: Vec<Range<usize>>,
}

/// Kinds of place to cut at, best first.
#[derive(Clone, Copy)]
enum Seam {
    Paragraph,
    Line,
    Sentence,
    Word,
    Grapheme,
}

impl<'a> Source<'a> {
    fn new(styled: &'a Styled) -> Self {
        let mut units: Vec<usize> =
            styled.entities.iter().flat_map(|entity| [entity.offset, entity.range().end]).collect();
        units.sort_unstable();
        units.dedup();
        // A single pass over the text finds the byte positions of all units.
        let mut places = Vec::with_capacity(units.len());
        let mut chars = styled.text.chars();
        let mut here = Place::default();
        for unit in &units {
            while here.unit < *unit
                && let Some(c) = chars.next()
            {
                here = Place { byte: here.byte + c.len_utf8(), unit: here.unit + c.len_utf16() };
            }
            places.push(here);
        }
        let place = |unit: usize| places[units.partition_point(|known| *known < unit)];
        let mut spans: Vec<Span> = styled
            .entities
            .iter()
            .map(|entity| Span {
                kind: &entity.kind,
                start: place(entity.offset),
                end: place(entity.range().end),
            })
            .filter(|span| span.start.byte < span.end.byte)
            .collect();
        spans.sort_by_key(|span| (span.start.byte, std::cmp::Reverse(span.end.byte)));
        let mut blocks: Vec<Range<usize>> = Vec::new();
        for span in spans.iter().filter(|span| matches!(span.kind, EntityKind::Pre { .. })) {
            match blocks.last_mut() {
                Some(last) if span.start.byte < last.end => last.end = last.end.max(span.end.byte),
                _ => blocks.push(span.start.byte..span.end.byte),
            }
        }
        Self { text: &styled.text, spans, blocks }
    }

    /// Returns the first position from `from` at which a piece can begin. White space is skipped, except within a code
    /// block.
    fn skip_blank(&self, from: Place, limit: usize) -> Option<Place> {
        let rest = self.text.get(from.byte..)?;
        let ink = from.byte + rest.find(|c: char| !c.is_whitespace())?;
        let blank = self.text[from.byte..ink].char_indices().map(|(at, _)| from.byte + at);
        let start = blank.chain([ink]).find(|at| *at == ink || self.is_in_block(*at)).unwrap_or(ink);
        // Telegram refuses a message of only white space.
        let start = if utf16_len(&self.text[start..ink]) + 2 > limit { ink } else { start };
        Some(self.place_at(from, start))
    }

    /// Returns the end of the text that fits into a piece that begins at `from`.
    fn window(&self, from: Place, limit: usize) -> usize {
        let mut units = 0;
        let fits = self.text[from.byte..].char_indices().find(|(_, c)| {
            units += c.len_utf16();
            units > limit
        });
        let end = fits.map_or(self.text.len(), |(at, _)| from.byte + at);
        let ink = self.ink(from.byte);
        let too_many = self.spans.iter().filter(|span| span.end.byte > from.byte).nth(MAX_ENTITIES);
        match too_many {
            // More than the limit cover this one place. Nobody could tell them apart, so the first ones are enough.
            Some(span) if span.start.byte <= ink => end,
            Some(span) => end.min(span.start.byte),
            None => end,
        }
    }

    /// Returns the end of a piece that begins at `from` and ends at `end` at the latest.
    fn cut(&self, from: usize, end: usize, limit: usize) -> usize {
        let least = self.ink(from) + 1;
        let half = least.max(from + (end - from) / 2);
        let natural = [Seam::Paragraph, Seam::Line, Seam::Sentence, Seam::Word];
        // A span shorter than this is kept whole: cutting before it still leaves a piece half full.
        let short = limit / 2;
        let whole: Vec<&Span> = self
            .spans
            .iter()
            .filter(|span| {
                let is_whole = matches!(
                    span.kind,
                    EntityKind::Pre { .. } | EntityKind::Code | EntityKind::TextLink { .. }
                );
                is_whole && span.start.byte < end && span.end.byte > from
            })
            .collect();
        let is_inside = |at: usize, short: usize| {
            whole.iter().any(|span| {
                let is_parted = span.start.byte < at && at < span.end.byte;
                is_parted && span.end.unit - span.start.unit <= short
            })
        };
        let find = |low: usize, seams: &[Seam], short: usize| {
            seams.iter().find_map(|seam| {
                boundaries(self.text, low, end).find(|at| self.is_seam(*seam, *at) && !is_inside(*at, short))
            })
        };
        find(half, &natural, short)
            .or_else(|| find(half, &natural, 0))
            .or_else(|| find(least, &natural, short))
            .or_else(|| find(least, &natural, 0))
            .or_else(|| find(least, &[Seam::Grapheme], 0))
            // A single grapheme cluster that is longer than a piece.
            .unwrap_or(end)
    }

    fn is_seam(&self, seam: Seam, at: usize) -> bool {
        let (before, after) = self.text.split_at(at);
        let next = after.chars().next();
        let last = before.chars().next_back();
        match seam {
            // The next piece of the code block would begin with the line break.
            Seam::Paragraph | Seam::Line if next == Some('\n') && self.is_in_block(at) => false,
            Seam::Paragraph => {
                before.ends_with("\n\n") || after.starts_with("\n\n") || (last == Some('\n') && next == last)
            }
            Seam::Line => last == Some('\n') || next == Some('\n'),
            Seam::Sentence => is_sentence_end(self.text, at, &[]),
            Seam::Word => is_word_end(self.text, at),
            Seam::Grapheme => is_grapheme_end(self.text, at),
        }
    }

    /// Returns true if the character at `at` is in a code block.
    fn is_in_block(&self, at: usize) -> bool {
        let next = self.blocks.partition_point(|block| block.end <= at);
        self.blocks.get(next).is_some_and(|block| block.start <= at)
    }

    /// Returns the first position from `from` that is not white space, or `from` if there is none.
    fn ink(&self, from: usize) -> usize {
        self.text[from..].find(|c: char| !c.is_whitespace()).map_or(from, |ink| from + ink)
    }

    /// Returns `cut` without the white space before it, except within a code block.
    fn trim_end(&self, from: usize, cut: usize) -> usize {
        let mut end = cut;
        for (at, c) in self.text[from..cut].char_indices().rev() {
            if !c.is_whitespace() || self.is_in_block(from + at) {
                break;
            }
            end = from + at;
        }
        end
    }

    fn place_at(&self, from: Place, byte: usize) -> Place {
        Place { byte, unit: from.unit + utf16_len(&self.text[from.byte..byte]) }
    }

    fn piece(&self, from: Place, end: usize) -> Styled {
        let to = self.place_at(from, end);
        let entities = self
            .spans
            .iter()
            .filter(|span| span.end.byte > from.byte && span.start.byte < to.byte)
            .take(MAX_ENTITIES)
            .map(|span| {
                let offset = span.start.unit.saturating_sub(from.unit);
                let length = span.end.unit.min(to.unit) - from.unit - offset;
                Entity { kind: span.kind.clone(), offset, length }
            })
            .collect();
        Styled { text: self.text[from.byte..end].to_owned(), entities }
    }
}

#[cfg(test)]
mod tests;
