//! Text with styles, as `sendMessage` takes it in `text` and `entities`.

use std::ops::Range;

use serde::Serialize;

/// A text and its styles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Styled {
    /// The text without markup.
    pub text: String,
    /// Styles, sorted by offset, the longer first.
    pub entities: Vec<Entity>,
}

impl Styled {
    /// Creates a text without styles.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), entities: Vec::new() }
    }

    /// Returns the length in UTF-16 units, in which Telegram counts.
    pub fn units(&self) -> usize {
        utf16_len(&self.text)
    }

    /// Returns the text with ` (url)` after each link, to be sent if Telegram refuses the entities.
    pub fn to_plain(&self) -> String {
        let mut links: Vec<(Range<usize>, &str)> = self
            .entities
            .iter()
            .filter_map(|entity| match &entity.kind {
                EntityKind::TextLink { url } => Some((entity.range(), url.as_str())),
                _ => None,
            })
            .collect();
        links.sort_by_key(|(range, _)| range.end);
        let mut links = links.into_iter().peekable();
        let mut plain = String::with_capacity(self.text.len());
        let mut at = 0;
        for c in self.text.chars() {
            while let Some((_, url)) = links.next_if(|(range, _)| range.end <= at) {
                plain.extend([" (", url, ")"]);
            }
            plain.push(c);
            at += c.len_utf16();
        }
        for (_, url) in links {
            plain.extend([" (", url, ")"]);
        }
        plain
    }
}

/// A style of a range of the text: Telegram's `MessageEntity`.
///
/// ```json
/// {"type": "text_link", "url": "https://example.com/", "offset": 4, "length": 7}
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entity {
    /// The style.
    #[serde(flatten)]
    pub kind: EntityKind,
    /// Start of the range, in UTF-16 units from the start of the text.
    pub offset: usize,
    /// Its length in UTF-16 units.
    pub length: usize,
}

impl Entity {
    /// Returns the range in UTF-16 units.
    pub fn range(&self) -> Range<usize> {
        self.offset..self.offset.saturating_add(self.length)
    }
}

/// Style of a range of text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EntityKind {
    /// Bold.
    Bold,
    /// Italic.
    Italic,
    /// Struck through.
    Strikethrough,
    /// Monospace within a line.
    Code,
    /// A monospace block.
    Pre {
        /// The programming language, which Telegram highlights and names above the block.
        #[serde(skip_serializing_if = "Option::is_none")]
        language: Option<String>,
    },
    /// A link.
    TextLink {
        /// The URL: `http`, `https` or `tg`.
        url: String,
    },
    /// A quotation. Telegram does not nest these.
    Blockquote,
}

/// Returns the length of `text` in UTF-16 units.
pub(crate) fn utf16_len(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}
