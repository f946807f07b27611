//! A model's Markdown as Lark shows it: [`chunks`].
//!
//! What has markup goes out as a card with one Markdown element, since the card's Markdown (JSON 2.0) is the only
//! form whose documentation covers all that models write: headings, nested lists, code in a line and in blocks,
//! quotations, links and tables. (The `md` tag of a `post` is documented without headings, tables and code in a line,
//! and clients have shown its tables as nothing.) What has none goes out as a `text`, which shows it as it is. A card
//! that Lark refuses goes out as a `text` too, with the Markdown as the model wrote it.
//!
//! ```text
//! {"msg_type": "interactive", "content": "{\"schema\":\"2.0\",\"body\":{\"elements\":[{\"tag\":\"markdown\",\"content\":\"# Plan\"}]}}"}
//! {"msg_type": "text", "content": "{\"text\":\"Plan\"}"}
//! ```
//!
//! *Invariants:* nothing of the text is lost, and nobody is notified: `<at id=all></at>` and the like are shown as text.
//!
//! Source: "Rich text (Markdown)" of the card JSON 2.0 components
//! (<https://open.larksuite.com/document/uAjLw4CM/ukzMukzMukzM/feishu-cards/card-json-v2-components/content-components/rich-text>),
//! "Message content structure"
//! (<https://open.larksuite.com/document/uAjLw4CM/ukTMukTMukTM/im-v1/message/create_json>).

mod edits;
mod emphasis;
mod markdown;
#[cfg(test)]
mod tests;

use pulldown_cmark::Options;
use serde_json::json;

use super::split::{LEAST, cost, split};

/// The Markdown that cards know.
pub(super) const OPTIONS: Options =
    Options::ENABLE_STRIKETHROUGH.union(Options::ENABLE_TABLES).union(Options::ENABLE_TASKLISTS);

/// The most bytes of a card in the body of a request: Lark takes 30 KB, the rest of the body and what Lark makes of
/// styles included.
pub const CARD_LIMIT: usize = 28_000;
/// The most bytes of a `text` in the body of a request: Lark takes 150 KB, the rest of the body included.
pub const TEXT_LIMIT: usize = 140_000;

/// One message of a reply, before it is known in what form Lark takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Markdown, or the text as it is.
    source: String,
    is_card: bool,
}

/// What a message says, in a form that Lark takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// `msg_type: text`: the text as it is.
    Text(String),
    /// `msg_type: interactive`: a card of this Markdown.
    Card(String),
}

/// A model's Markdown as the messages that show it. No text gives no message.
pub fn chunks(markdown: &str) -> Vec<Chunk> {
    let source = markdown.replace("\r\n", "\n").replace('\r', "\n");
    let is_card = !markdown::is_plain(&source);
    let mut chunks = Vec::new();
    if is_card {
        fit(&markdown::tidy(&source), is_card, CARD_LIMIT, &mut chunks);
    } else {
        fit(&source, is_card, TEXT_LIMIT, &mut chunks);
    }
    chunks
}

/// Adds `source` to `chunks`, in pieces of about `limit` bytes, each of which is small enough to be sent.
fn fit(source: &str, is_card: bool, limit: usize, chunks: &mut Vec<Chunk>) {
    for source in split(source, limit) {
        let chunk = Chunk { source, is_card };
        let most = if is_card { CARD_LIMIT } else { TEXT_LIMIT };
        // A card's JSON, and what stands in it for characters that are markup, take room of their own.
        if chunk.primary().bytes() > most && limit > LEAST {
            fit(&chunk.source, is_card, limit - limit / 4, chunks);
        } else {
            chunks.push(chunk);
        }
    }
}

impl Chunk {
    /// What to send.
    pub fn primary(&self) -> Content {
        if self.is_card { Content::Card(markdown::to_card(&self.source)) } else { self.plain() }
    }

    /// What to send where Lark does not take [`Chunk::primary`].
    pub fn plain(&self) -> Content {
        Content::Text(markdown::without_mentions(&self.source))
    }

    /// The same as a `text`, if it is not one already.
    pub(super) fn to_plain(&self) -> Option<Self> {
        self.is_card.then(|| Self { source: self.source.clone(), is_card: false })
    }

    /// The same in two or more; one where it cannot be cut.
    pub(super) fn halves(&self) -> Vec<Self> {
        let pieces = split(&self.source, cost(&self.source) / 2);
        pieces.into_iter().map(|source| Self { source, is_card: self.is_card }).collect()
    }
}

impl Content {
    /// `msg_type`.
    pub fn msg_type(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Card(_) => "interactive",
        }
    }

    /// `content`: JSON, as a string.
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

    /// How many bytes `content` takes in the body of a request, where it is a JSON string.
    pub fn bytes(&self) -> usize {
        let json = self.to_json();
        json.len() + json.bytes().filter(|b| matches!(b, b'"' | b'\\')).count()
    }
}
