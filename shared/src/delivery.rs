//! Which door a reply goes out by, and what became of it.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::channel::telegram::address::Address;
use crate::channel::telegram::client::{self as telegram, SendError};
use crate::record::{Channel, Record};
use crate::sort_key::{SortKey, Timestamp};

/// Sends replies to the channels that are set up; what has no channel set goes to the outbox, where there is one.
#[derive(Clone, Default)]
pub struct Deliverer {
    telegram: Option<telegram::Client>,
    outbox: Option<Arc<dyn Outbox>>,
}

/// Where the local program keeps the replies of channels that are not set up.
pub trait Outbox: Send + Sync {
    /// Keeps `entry`, once for each `id`.
    fn post<'a>(&'a self, id: &'a str, entry: OutboxEntry) -> BoxFuture<'a, Result<(), DeliveryError>>;
}

/// A reply that would have been sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutboxEntry {
    /// The channel.
    pub channel: Channel,
    /// The platform's id of the window.
    pub chat_id: String,
    /// The text.
    pub text: String,
    /// When.
    pub ts: Timestamp,
}

/// A reply did not reach its platform.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The platform takes nothing for this chat: the bot was blocked or removed. Remember it, do not repeat it.
    #[error("{reason}")]
    Blocked {
        /// What the platform said.
        reason: String,
    },
    /// The platform will never take this reply.
    #[error("{reason}")]
    Refused {
        /// What the platform said.
        reason: String,
    },
    /// The chat has another id now.
    #[error("the chat has moved to {to}")]
    Moved {
        /// Telegram's new chat id.
        to: i64,
    },
    /// It may be taken later.
    #[error("{reason}")]
    Unavailable {
        /// What the platform or the connection said.
        reason: String,
    },
}

/// A reply on its way out.
#[derive(Clone, Copy, Debug)]
pub struct Parcel<'a> {
    /// The message that it answers, whose door it goes out by.
    pub to: &'a Record,
    /// Where the reply is, or will be, recorded: tells repeats from others.
    pub key: &'a SortKey,
    /// The text, in Markdown.
    pub text: &'a str,
    /// When.
    pub ts: Timestamp,
    /// The window's id now, where it is no longer the one that `to` came from.
    pub moved_to: Option<i64>,
}

/// Told after each piece but the last how many have been sent. (No `AsyncFn`: its future cannot be spawned yet.)
pub type Progress<'a> = dyn Fn(usize) -> BoxFuture<'a, Result<(), DeliveryError>> + Send + Sync + 'a;

impl Deliverer {
    /// A deliverer to `telegram`, and to `outbox` for every channel that is not set up.
    pub fn new(telegram: Option<telegram::Client>, outbox: Option<Arc<dyn Outbox>>) -> Self {
        Self { telegram, outbox }
    }

    /// Whether replies of this channel are sent anywhere; callers of the HTTP API fetch theirs.
    pub fn reaches(&self, channel: Channel) -> bool {
        match channel {
            Channel::Telegram => self.telegram.is_some() || self.outbox.is_some(),
            Channel::Lark | Channel::Discord => self.outbox.is_some(),
            Channel::Http | Channel::Web | Channel::Terminal => false,
        }
    }

    /// Sends the pieces of `parcel` behind the first `sent`; `progress` learns after each piece but the last how many
    /// have been sent, so that a crash goes on behind them.
    pub async fn deliver(
        &self,
        parcel: Parcel<'_>,
        sent: usize,
        progress: &Progress<'_>,
    ) -> Result<(), DeliveryError> {
        if !self.reaches(parcel.to.channel) {
            return Ok(());
        }
        match (&self.telegram, &self.outbox, parcel.to.channel) {
            (Some(client), _, Channel::Telegram) => {
                let chunks = telegram::chunks(parcel.text);
                let address = address(parcel)?;
                for (index, chunk) in chunks.iter().enumerate().skip(sent) {
                    let reply_to = address.reply_to.filter(|_| index == 0);
                    client.send_message(&Address { reply_to, ..address.clone() }, chunk).await?;
                    if index + 1 < chunks.len() {
                        progress(index + 1).await?;
                    }
                }
                Ok(())
            }
            (_, Some(outbox), channel) => {
                let entry = OutboxEntry {
                    channel,
                    chat_id: parcel.to.chat_id.clone(),
                    text: parcel.text.to_owned(),
                    ts: parcel.ts,
                };
                outbox.post(&format!("{} {}", parcel.to.chat, parcel.key), entry).await
            }
            (_, None, _) => Ok(()),
        }
    }

    /// Shows that an answer is being made, where the channel can. A failure of this is no failure of the turn.
    pub async fn show_typing(&self, to: &Record) {
        if let (Some(client), Channel::Telegram, Some(address)) =
            (&self.telegram, to.channel, Address::of(to))
            && let Err(error) = client.send_typing(&address).await
        {
            tracing::debug!(chat = %to.chat.session_id(), %error, "typing indicator not shown");
        }
    }
}

fn address(parcel: Parcel<'_>) -> Result<Address, DeliveryError> {
    let mut address = Address::of(parcel.to).ok_or_else(|| DeliveryError::Refused {
        reason: "the message that it answers has no Telegram chat id".into(),
    })?;
    if let Some(chat_id) = parcel.moved_to {
        // Message and topic ids are the old chat's.
        address = Address { chat_id, reply_to: None, thread_id: None, ..address };
    }
    Ok(address)
}

impl From<SendError> for DeliveryError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Blocked { description } => Self::Blocked { reason: description },
            SendError::Migrated { to } => Self::Moved { to },
            other if other.is_permanent() => Self::Refused { reason: other.to_string() },
            other => Self::Unavailable { reason: other.to_string() },
        }
    }
}
