//! Sends replies through the platform of their channel, and asks platforms: [`Deliverer`].

use std::collections::BTreeMap;
use std::sync::Arc;

use annals_channel::delivery::{DeliveryError, Outbox, OutboxEntry, OutgoingReply, Progress};
use annals_channel::file::FileError;
use annals_channel::platform::Platform;
use annals_channel::rate_limit::RateLimit;
use annals_core::message::Part;
use annals_core::record::{Channel, Record};

/// The platforms that are set up, and the outbox for channels that are not. The default delivers nowhere.
#[derive(Clone, Default)]
pub struct Deliverer {
    platforms: BTreeMap<Channel, Arc<dyn Platform>>,
    outbox: Option<Arc<dyn Outbox>>,
    delivers: bool,
    is_rate_limited: bool,
}

impl Deliverer {
    /// Creates a deliverer to these platforms. Replies of other platforms are stored in `outbox`; without it they fail.
    pub fn new(
        platforms: impl IntoIterator<Item = Arc<dyn Platform>>,
        outbox: Option<Arc<dyn Outbox>>,
    ) -> Self {
        let platforms = platforms.into_iter().map(|platform| (platform.about().channel, platform)).collect();
        Self { platforms, outbox, delivers: true, is_rate_limited: false }
    }

    /// Sets if chats have a [`Deliverer::rate_limit`].
    #[must_use]
    pub fn with_rate_limits(mut self, is_rate_limited: bool) -> Self {
        self.is_rate_limited = is_rate_limited;
        self
    }

    /// Returns the platform of the chat of `to`, if it is set up.
    pub fn platform(&self, to: &Record) -> Option<&dyn Platform> {
        self.platforms.get(&to.channel).map(AsRef::as_ref)
    }

    /// Returns the rate limit of the chat of `to`, which the caller must keep.
    pub fn rate_limit(&self, to: &Record) -> Option<RateLimit> {
        self.platform(to).filter(|_| self.is_rate_limited).map(|platform| platform.rate_limit(to))
    }

    /// Returns true if replies of this channel are to be delivered. Callers of the HTTP API fetch theirs.
    pub fn reaches(&self, channel: Channel) -> bool {
        channel.is_platform() && self.delivers
    }

    /// Returns the bytes of the file of `part`, a part of a message of `channel`, at most `limit` of them.
    pub async fn fetch(&self, channel: Channel, part: &Part, limit: usize) -> Result<Vec<u8>, FileError> {
        match self.platforms.get(&channel) {
            Some(platform) => platform.fetch(part, limit).await,
            None => Err(FileError::NoChannel),
        }
    }

    /// Sends the pieces of `reply` after the first `sent`; see [`Platform::send`].
    pub async fn deliver(
        &self,
        reply: OutgoingReply<'_>,
        sent: usize,
        progress: &Progress<'_>,
    ) -> Result<(), DeliveryError> {
        let channel = reply.to.channel;
        match (self.platforms.get(&channel), &self.outbox) {
            _ if !self.reaches(channel) => Ok(()),
            (Some(platform), _) => platform.send(reply, sent, progress).await,
            (None, Some(outbox)) => {
                let entry = OutboxEntry {
                    channel,
                    chat_id: reply.to.chat_id.clone(),
                    text: reply.texts().collect::<Vec<_>>().join("\n\n"),
                    ts: reply.ts,
                };
                outbox.post(&reply.id(), entry).await
            }
            (None, None) => Err(DeliveryError::Blocked { reason: format!("{channel} is not set up") }),
        }
    }

    /// Returns true if the platform names this user as an administrator of this group; false if it does not tell.
    pub async fn is_administrator(&self, channel: Channel, chat_id: &str, user_id: &str) -> bool {
        let Some(platform) = self.platforms.get(&channel) else { return false };
        platform.is_administrator(chat_id, user_id).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "failed to ask a platform for the administrators of a group");
            false
        })
    }
}
