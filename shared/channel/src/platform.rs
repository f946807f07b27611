//! The client of a platform, as the rest of Annals uses it: [`Platform`].

use std::sync::Arc;

use annals_core::message::Part;
use annals_core::record::{Channel, Record};
use async_trait::async_trait;

use crate::delivery::{DeliveryError, Drafted, OutgoingReply, Progress};
use crate::file::FileError;
use crate::rate_limit::RateLimit;
use crate::surroundings::Surroundings;

/// A platform that is set up.
#[derive(Clone)]
pub struct Registered {
    /// Its channel.
    pub channel: Channel,
    /// Its client.
    pub client: Arc<dyn Platform>,
    /// Fetches the messages around those of groups, if the platform does not send them.
    pub surroundings: Option<Arc<dyn Surroundings>>,
}

impl Registered {
    /// Registers `client` for `channel`, without surroundings.
    pub fn new(channel: Channel, client: impl Platform + 'static) -> Self {
        Self { channel, client: Arc::new(client), surroundings: None }
    }
}

/// Sends replies to one platform, shows there that an answer is being made, and asks it what an answer depends on.
#[async_trait]
pub trait Platform: Send + Sync {
    /// Returns the rate limit of the chat of `to`.
    fn rate_limit(&self, to: &Record) -> Option<RateLimit>;

    /// Sends the pieces of `reply` after the first `sent`. `progress` is told of each, and stores how many have been sent, so
    /// that a run after a crash continues with the next one.
    async fn send(
        &self,
        reply: OutgoingReply<'_>,
        sent: usize,
        progress: &Progress<'_>,
    ) -> Result<(), DeliveryError>;

    /// Returns the bytes of the file of `part`, at most `limit` of them.
    async fn fetch(&self, part: &Part, limit: usize) -> Result<Vec<u8>, FileError>;

    /// Returns true if the platform names `user_id` as an administrator of the group `chat_id`.
    ///
    /// # Errors
    ///
    /// The reason why the platform does not tell, for the log.
    async fn is_administrator(&self, chat_id: &str, user_id: &str) -> Result<bool, String>;

    /// Returns the title of the chat of `to`, `None` in it if the chat has none. `None` for a chat whose events carry its
    /// title, and for one that no request tells the title of.
    ///
    /// # Errors
    ///
    /// The reason why the platform does not tell, for the log.
    async fn chat_title(&self, to: &Record) -> Option<Result<Option<String>, String>>;

    /// Returns true if the bot still receives the messages of the chat of `to` while it may not write there. Then the
    /// platform is asked from time to time if it may write again; otherwise a message to the bot says so.
    fn is_heard_when_blocked(&self, to: &Record) -> bool;

    /// Returns the way in which people see that an answer to `to` is being made.
    fn sign(&self, to: &Record) -> Sign<'_>;
}

/// The way in which people see that an answer is being made.
#[derive(Clone, Copy)]
pub enum Sign<'a> {
    /// A typing indicator.
    Typing(&'a dyn Typing),
    /// A typing indicator, and then the answer as it grows.
    Draft(&'a dyn Drafts),
    /// A reaction to the message that is being answered.
    Reaction(&'a dyn Reactions),
}

/// A typing indicator.
#[async_trait]
pub trait Typing: Send + Sync {
    /// Shows the typing indicator for a few seconds. Failures are ignored.
    async fn show_typing(&self, to: &Record);
}

/// Drafts of an answer.
#[async_trait]
pub trait Drafts: Typing {
    /// Shows the answer so far, in Markdown.
    async fn show_draft(&self, to: &Record, markdown: &str) -> Drafted;
}

/// Reactions to messages.
#[async_trait]
pub trait Reactions: Send + Sync {
    /// Adds a reaction to the message that is being answered. Returns its id.
    async fn add_reaction(&self, to: &Record) -> Option<String>;

    /// Removes the reaction `id`. Failures are ignored.
    async fn remove_reaction(&self, to: &Record, id: &str);
}
