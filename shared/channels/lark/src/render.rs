//! Renders a model's Markdown for Lark: [`chunks`].
//!
//! Text with markup is sent as a card with one Markdown element, since the card's Markdown (JSON 2.0) is the only form
//! whose documentation covers all that models write: headings, nested lists, inline code and code blocks, quotations,
//! links and tables. (The `md` tag of a `post` is documented without headings, tables and inline code, and clients
//! showed its tables as nothing.) Text without markup is sent as a `text`. A card that Lark refuses is sent as a `text`
//! too, with the Markdown as the model wrote it, but for formulas, which are code.
//!
//! ```text
//! {"msg_type": "interactive", "content": "{\"schema\":\"2.0\",\"body\":{\"elements\":[{\"tag\":\"markdown\",\"content\":\"# Plan\"}]}}"}
//! {"msg_type": "text", "content": "{\"text\":\"Plan\"}"}
//! ```
//!
//! *Invariants:* no text is lost, and nobody is notified: `<at id=all></at>` and the like are shown as text.
//!
//! Source: "Rich text (Markdown)" of the card JSON 2.0 components
//! (<https://open.larksuite.com/document/uAjLw4CM/ukzMukzMukzM/feishu-cards/card-json-v2-components/content-components/rich-text>),
//! "Message content structure" (<https://open.larksuite.com/document/uAjLw4CM/ukTMukTMukTM/im-v1/message/create_json>).

mod edits;
mod emphasis;
mod markdown;
#[cfg(test)]
mod tests;

use annals_channel::formula;
use serde_json::json;

use super::split::{LEAST, cost, split};

/// Maximum bytes of a card in the body of a request. Lark's limit is 30 KB, which includes the rest of the body and
/// what Lark adds for styles.
pub const CARD_LIMIT: usize = 28_000;
/// Maximum bytes of a `text` in the body of a request. Lark's limit is 150 KB, which includes the rest of the body.
pub const TEXT_LIMIT: usize = 140_000;

/// One message of a reply, before Lark has accepted a form of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Markdown for a card, otherwise plain text.
    source: String,
    is_card: bool,
}

/// Content of a message, in a form of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// `msg_type: text`: plain text.
    Text(String),
    /// `msg_type: interactive`: a card with this Markdown.
    Card(String),
}

/// Converts a model's Markdown into the messages that show it. An empty text gives no message.
pub fn chunks(markdown: &str) -> Vec<Chunk> {
    let source = formula::to_code(&markdown.replace("\r\n", "\n").replace('\r', "\n"));
    let is_card = !markdown::is_plain(&source);
    let mut chunks = Vec::new();
    if is_card {
        fit(&markdown::tidy(&source), is_card, CARD_LIMIT, &mut chunks);
    } else {
        fit(&source, is_card, TEXT_LIMIT, &mut chunks);
    }
    chunks
}

/// Adds `source` to `chunks`, in pieces of about `limit` bytes that are small enough to be sent.
fn fit(source: &str, is_card: bool, limit: usize, chunks: &mut Vec<Chunk>) {
    for source in split(source, limit) {
        let chunk = Chunk { source, is_card };
        let most = if is_card { CARD_LIMIT } else { TEXT_LIMIT };
        // A card's JSON and its escaped characters take additional bytes.
        if chunk.primary().bytes() > most && limit > LEAST {
            fit(&chunk.source, is_card, limit - limit / 4, chunks);
        } else {
            chunks.push(chunk);
        }
    }
}

impl Chunk {
    /// Returns the preferred form.
    pub fn primary(&self) -> Content {
        if self.is_card { Content::Card(markdown::to_card(&self.source)) } else { self.plain() }
    }

    /// Returns the form to send if Lark refuses [`Chunk::primary`].
    pub fn plain(&self) -> Content {
        Content::Text(markdown::without_mentions(&self.source))
    }

    /// Returns the chunk as plain text, or `None` if it is already.
    pub(super) fn to_plain(&self) -> Option<Self> {
        self.is_card.then(|| Self { source: self.source.clone(), is_card: false })
    }

    /// Splits the chunk in two or more; returns one if it cannot be split.
    pub(super) fn halves(&self) -> Vec<Self> {
        let pieces = split(&self.source, cost(&self.source) / 2);
        pieces.into_iter().map(|source| Self { source, is_card: self.is_card }).collect()
    }
}

impl Content {
    /// Returns `msg_type`.
    pub fn msg_type(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Card(_) => "interactive",
        }
    }

    /// Returns `content`: JSON as a string.
    pub fn to_json(&self) -> String {
        match self {
            Self::Text(text) => json!({ "text": text }),
            Self::Card(markdown) => json!({
                "schema": "2.0",
                "body": {"elements": [{"tag": "markdown", "content": markdown}]},
            }),
        }
        .to_string()
    }

    /// Returns the number of bytes of `content` in the body of a request, where it is a JSON string.
    pub fn bytes(&self) -> usize {
        let json = self.to_json();
        json.len() + json.bytes().filter(|b| matches!(b, b'"' | b'\\')).count()
    }
}
