//! The interface through which a relay stores messages and reads missed ones: [`Host`].

use std::error::Error;

use serde_json::Value;

/// Most messages of one page of [`Host::messages_after`].
pub const PAGE: usize = 100;

/// Stores messages, and reads those that the gateway does not bring any more.
pub trait Host: Send + Sync {
    /// Stores the message of a dispatch, and queues its turn. Gets `MESSAGE_CREATE`, `MESSAGE_UPDATE` and
    /// `MESSAGE_DELETE`, as `{"op": 0, "t": "MESSAGE_CREATE", "s": 42, "d": {…}}`, in order, and may get the same one
    /// again. Messages that are deleted in bulk come as a `MESSAGE_DELETE` each. A missed message comes as a `MESSAGE_CREATE`
    /// with a null `s`, and with the `guild_id` and `channel_type` that Discord's REST API leaves out.
    fn receive(&self, dispatch: Value) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Reads the oldest messages of a channel after the id `after`, at most [`PAGE`], in any order:
    /// `GET /channels/{channel_id}/messages?after={after}&limit=100`.
    fn messages_after(
        &self,
        channel_id: &str,
        after: u64,
    ) -> impl Future<Output = Result<Vec<Value>, HostError>> + Send;

    /// Returns the ids of the channels of direct messages in which missed messages are looked for. Discord does not list
    /// them.
    fn direct_channels(&self) -> impl Future<Output = Result<Vec<String>, HostError>> + Send;
}

/// A failure of a [`Host`]. It holds no text of a message.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// It may work later, and is tried again.
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
    /// It will not work: the event is not one, what is stored of its chat is damaged, or the bot may not read the channel. It is
    /// skipped.
    #[error(transparent)]
    Refused(Box<dyn Error + Send + Sync>),
}
