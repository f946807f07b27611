//! A reply on its way to its platform: [`OutgoingReply`].

use annals_core::approval::Button;
use annals_core::chat_key::ChatKey;
use annals_core::language::Language;
use annals_core::record::{Channel, Record};
use annals_core::sort_key::{SortKey, Timestamp};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

/// Store for the replies of channels that are not set up.
pub trait Outbox: Send + Sync {
    /// Stores `entry`, once for each `id`.
    fn post<'a>(&'a self, id: &'a str, entry: OutboxEntry) -> BoxFuture<'a, Result<(), DeliveryError>>;
}

/// A reply that would have been sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutboxEntry {
    /// Channel of the chat.
    pub channel: Channel,
    /// The platform's id of the window.
    pub chat_id: String,
    /// The text.
    pub text: String,
    /// Time of the reply.
    pub ts: Timestamp,
}

/// A reply did not reach its platform.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The platform takes nothing for this chat: the bot was blocked or removed. Store this and do not retry.
    #[error("{reason}")]
    Blocked {
        /// Its reason, without secrets.
        reason: String,
    },
    /// The platform will never take this reply. Do not retry.
    #[error("{reason}")]
    Refused {
        /// Its reason, without secrets.
        reason: String,
    },
    /// The chat has a new id.
    #[error("the chat has moved to {chat_id}")]
    Moved {
        /// The chat under its new id.
        chat: ChatKey,
        /// The platform's new id of the window.
        chat_id: String,
    },
    /// The platform may take the reply later. Retry.
    #[error("{reason}")]
    Unavailable {
        /// The reason given by the platform or the connection.
        reason: String,
    },
}

/// A reply on its way to its platform.
#[derive(Clone, Copy, Debug)]
pub struct OutgoingReply<'a> {
    /// The message that it answers, which names channel and chat.
    pub to: &'a Record,
    /// Key of the reply's record. It is the same in every attempt, and so identifies repeats.
    pub key: &'a SortKey,
    /// The text, in Markdown.
    pub text: &'a str,
    /// The question whether calls may be made, in Markdown; empty if there is none. It is rendered separately and sent after
    /// the text, so that nothing in the text changes how the arguments look.
    pub question: &'a str,
    /// Time of the reply.
    pub ts: Timestamp,
    /// The window's new id, if the chat has moved since `to`.
    pub moved_to: Option<&'a str>,
    /// True if it is sent also if the message of `to` was taken back: it answers others, too, or nobody asks for it now.
    pub survives_recall: bool,
    /// The calls that people are asked to approve, for platforms that have buttons.
    pub requests: &'a [RequestedCall],
}

/// A call that people are asked to approve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedCall {
    /// Number of the call among several, from 1; `None` if it is the only one.
    pub number: Option<usize>,
    /// Name of the tool.
    pub tool: String,
    /// Id of the request.
    pub id: String,
    /// Base of the reply's key.
    pub base: SortKey,
    /// Language of the person who asked.
    pub language: Language,
}

impl RequestedCall {
    /// Returns the button that approves or denies the call.
    pub fn button(&self, approved: bool) -> Button {
        Button { id: self.id.clone(), base: Some(self.base.clone()), approved }
    }

    /// Returns the label of that button.
    pub fn label(&self, approved: bool) -> String {
        let word = self.language.texts().button(approved);
        self.number.map_or_else(|| word.to_owned(), |number| format!("{word} {number}"))
    }
}

/// A step of sending a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendStep {
    /// A piece is about to be sent.
    Next {
        /// True if no other follows.
        is_last: bool,
    },
    /// A piece is sent, and others follow.
    Sent {
        /// Number of pieces sent so far.
        pieces: usize,
    },
}

/// Called with each step before the next one is taken; its error ends the delivery. (Not an `AsyncFn`, whose future cannot
/// be spawned.)
pub type Progress<'a> = dyn Fn(SendStep) -> BoxFuture<'a, Result<(), DeliveryError>> + Send + Sync + 'a;

/// A [`Progress`] that does nothing.
pub const NO_PROGRESS: &Progress<'static> = &|_| Box::pin(async { Ok(()) });

impl OutgoingReply<'_> {
    /// Returns the texts to send, each to be rendered separately.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        [self.text, self.question].into_iter().filter(|text| !text.is_empty())
    }

    /// Returns the id of the reply, the same in every attempt.
    pub fn id(&self) -> String {
        format!("{} {}", self.to.chat, self.key)
    }
}

/// The pieces of a reply that are still to be sent, one after the other.
pub struct Pieces<'r, 'p> {
    count: usize,
    next: usize,
    has_begun: bool,
    progress: &'r Progress<'p>,
}

/// A piece of a reply.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Number of pieces before it.
    pub index: usize,
    /// True if no other follows.
    pub is_last: bool,
}

impl<'r, 'p> Pieces<'r, 'p> {
    /// Returns those of `count` pieces after the first `sent`.
    pub fn new(count: usize, sent: usize, progress: &'r Progress<'p>) -> Self {
        Self { count, next: sent, has_begun: false, progress }
    }

    /// Returns the next piece, when it may be sent; `None` after the last one. The piece before it counts as sent.
    pub async fn next(&mut self) -> Result<Option<Piece>, DeliveryError> {
        let index = self.next;
        if index >= self.count {
            return Ok(None);
        }
        if self.has_begun {
            (self.progress)(SendStep::Sent { pieces: index }).await?;
        }
        let is_last = index + 1 == self.count;
        (self.progress)(SendStep::Next { is_last }).await?;
        (self.next, self.has_begun) = (index + 1, true);
        Ok(Some(Piece { index, is_last }))
    }
}

/// Result of showing a draft of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drafted {
    /// The draft is shown.
    Shown,
    /// The draft is not shown; a later one may be.
    NotNow,
    /// No draft will be shown in this chat.
    Never,
}
