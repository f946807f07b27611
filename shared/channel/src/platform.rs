//! The client of a platform, as the rest of Annals uses it: [`Platform`].

use annals_core::draft::Draft;
use annals_core::message::Part;
use annals_core::record::Record;
use async_trait::async_trait;

use crate::about::About;
use crate::client::{Api, CallError};
use crate::delivery::{DeliveryError, Drafted, OutgoingReply, Progress};
use crate::file::FileError;
use crate::rate_limit::RateLimit;

/// Returns true for a message that is not stored yet.
pub type IsNew<'a> = dyn Fn(&Draft) -> bool + Sync + 'a;

/// The client of one platform. It keeps the defaults for what the platform does not tell or show.
#[async_trait]
pub trait Platform: Send + Sync {
    /// Returns the facts about its channel.
    fn about(&self) -> &'static About;

    /// Returns the API that it calls.
    fn api(&mut self) -> &mut Api;

    /// Sends the [pieces](crate::delivery::Pieces) of `reply` after the first `sent`. `progress` stores how many have been
    /// sent, so that a run after a crash continues with the next one.
    ///
    /// # Errors
    ///
    /// For an access token that was refused, or has ended, that of [`CallError::Token`], after which the reply is sent later;
    /// never that of [`CallError::Refused`], after which it is lost.
    async fn send(
        &self,
        reply: OutgoingReply<'_>,
        sent: usize,
        progress: &Progress<'_>,
    ) -> Result<(), DeliveryError>;

    /// Returns the rate limit of the chat of `to`.
    fn rate_limit(&self, _to: &Record) -> RateLimit {
        self.about().chat_rate_limit
    }

    /// Returns the bytes of the file of `part`, at most `limit` of them.
    async fn fetch(&self, _part: &Part, _limit: usize) -> Result<Vec<u8>, FileError> {
        Err(FileError::NoChannel)
    }

    /// Returns true if the platform names `user_id` as an administrator of the group `chat_id`.
    async fn is_administrator(&self, _chat_id: &str, _user_id: &str) -> Result<bool, CallError> {
        Ok(false)
    }

    /// Returns the title of the chat of `to`, `Some(Ok(None))` if it has none; `None` if its events carry the title, or if no
    /// request tells it.
    async fn chat_title(&self, _to: &Record) -> Option<Result<Option<String>, CallError>> {
        None
    }

    /// Fetches the messages around `newest`, a message of a group, for which `is_new` returns true, the oldest first: for
    /// platforms that send an app only the messages that mention it. Each has the chat of `newest`, also the message that its
    /// thread begins at. One that is delivered to this chat as an event and asks is left out: its event would be a duplicate.
    /// So nothing is taken if every message of a group asks.
    async fn surroundings(&self, _newest: &Record, _is_new: &IsNew<'_>) -> Result<Vec<Draft>, CallError> {
        Ok(Vec::new())
    }

    /// Returns true if the bot still receives the messages of the chat of `to` while it may not write there. Then the
    /// platform is asked from time to time if it may write again; otherwise a message to the bot says so.
    fn is_heard_when_blocked(&self, to: &Record) -> bool {
        to.is_group()
    }

    /// Shows the typing indicator for a few seconds. Failures are ignored.
    async fn show_typing(&self, _to: &Record) {}

    /// Shows the answer so far, in Markdown. After [`Drafted::Never`] the typing indicator is shown.
    async fn show_draft(&self, _to: &Record, _markdown: &str) -> Drafted {
        Drafted::Never
    }

    /// Adds a reaction to the message that is being answered, and returns its id.
    async fn add_reaction(&self, _to: &Record) -> Option<String> {
        None
    }

    /// Removes the reaction `id`. Failures are ignored.
    async fn remove_reaction(&self, _to: &Record, _id: &str) {}
}
