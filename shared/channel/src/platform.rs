//! The client of a platform, as the rest of Annals uses it: [`Platform`].

use std::sync::Arc;

use annals_core::message::Part;
use annals_core::record::{Channel, Record};
use futures::future::BoxFuture;

use crate::delivery::OutgoingReply;
use crate::delivery::{DeliveryError, Drafted, Progress};
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

/// The way in which people see that an answer is being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A typing indicator, or the answer as it grows: see [`Platform::show_typing`] and [`Platform::show_draft`].
    Typing,
    /// A reaction to the message that is being answered: see [`Platform::add_reaction`].
    Reaction,
}

/// Sends replies to one platform, shows there that an answer is being made, and asks it what an answer depends on.
///
/// Every channel fills every method. A platform that has no typing indicator, for example, says so by doing nothing.
pub trait Platform: Send + Sync {
    /// Returns the rate limit of the chat of `to`.
    fn rate_limit(&self, to: &Record) -> Option<RateLimit>;

    /// Sends the pieces of `reply` after the first `sent`. `progress` is told of each, and stores how many have been sent, so
    /// that a run after a crash continues with the next one.
    fn send<'a, 'p: 'a>(
        &'a self,
        reply: OutgoingReply<'a>,
        sent: usize,
        progress: &'a Progress<'p>,
    ) -> BoxFuture<'a, Result<(), DeliveryError>>;

    /// Returns the bytes of the file of `part`, at most `limit` of them.
    fn fetch<'a>(&'a self, part: &'a Part, limit: usize) -> BoxFuture<'a, Result<Vec<u8>, FileError>>;

    /// Returns true if the platform names `user_id` as an administrator of the group `chat_id`.
    ///
    /// # Errors
    ///
    /// The reason why the platform does not tell, for the log.
    fn is_administrator<'a>(
        &'a self,
        chat_id: &'a str,
        user_id: &'a str,
    ) -> BoxFuture<'a, Result<bool, String>>;

    /// Returns the title of the chat of `to`, `None` in it if the chat has none. `None` for a chat whose events carry its
    /// title, and for one that no request tells the title of.
    ///
    /// # Errors
    ///
    /// The reason why the platform does not tell, for the log.
    fn chat_title<'a>(&'a self, to: &'a Record) -> Option<BoxFuture<'a, Result<Option<String>, String>>>;

    /// Returns true if the bot still receives the messages of the chat of `to` while it may not write there. Then the
    /// platform is asked from time to time if it may write again; otherwise a message to the bot says so.
    fn is_heard_when_blocked(&self, to: &Record) -> bool;

    /// Returns the way in which people see that an answer is being made.
    fn sign(&self) -> Sign;

    /// Shows the typing indicator for a few seconds. Failures are ignored.
    fn show_typing<'a>(&'a self, to: &'a Record) -> BoxFuture<'a, ()>;

    /// Returns true if the chat of `to` can show an answer while it grows.
    fn takes_drafts(&self, to: &Record) -> bool;

    /// Shows the answer so far, in Markdown.
    fn show_draft<'a>(&'a self, to: &'a Record, markdown: &'a str) -> BoxFuture<'a, Drafted>;

    /// Adds a reaction to the message that is being answered. Returns its id, for [`Platform::remove_reaction`].
    fn add_reaction<'a>(&'a self, to: &'a Record) -> BoxFuture<'a, Option<String>>;

    /// Removes the reaction `id`. Failures are ignored.
    fn remove_reaction<'a>(&'a self, to: &'a Record, id: &'a str) -> BoxFuture<'a, ()>;
}
