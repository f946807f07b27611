//! Destination of a reply ([`Address`]) and place of a message that was sent ([`Posted`]).

use annals_core::record::{Channel, Record};

use super::metadata::Ids;

/// Destination for `sendMessage`: the place that a record came from.
///
/// Source: the parameters of [`sendMessage`](https://core.telegram.org/bots/api#sendmessage).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Default))]
pub struct Address {
    /// `chat_id`: negative for groups and channels.
    pub chat_id: i64,
    /// `message_thread_id`: a forum topic. Never General, whose id `sendMessage` refuses.
    pub thread_id: Option<i64>,
    /// `reply_parameters.message_id`: the record's own message, if Telegram gave it a number.
    pub reply_to: Option<i64>,
    /// `business_connection_id`: the business account on whose behalf a reply is sent.
    pub business_connection_id: Option<String>,
    /// `direct_messages_topic_id`: a person's topic in a channel's direct messages.
    pub direct_messages_topic_id: Option<i64>,
}

/// A message that the bot sent, addressed as the editing methods need it.
///
/// Source: the parameters of [`editMessageReplyMarkup`](https://core.telegram.org/bots/api#editmessagereplymarkup).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// `chat_id`: negative for groups and channels.
    pub chat_id: i64,
    /// `message_id`
    pub message_id: i64,
    /// `business_connection_id`: the business account on whose behalf it was sent.
    pub business_connection_id: Option<String>,
}

/// Id of the General topic in clients. `sendMessage` refuses it.
const GENERAL_TOPIC: i64 = 1;

impl Address {
    /// Returns the place that `record` came from, or `None` if its `chat_id` is not a Telegram chat id.
    pub fn of(record: &Record) -> Option<Self> {
        let ids: Ids = record.message.metadata.ids_of(Channel::Telegram);
        Some(Self {
            chat_id: record.chat_id.parse().ok()?,
            thread_id: ids.thread_id.filter(|id| *id != GENERAL_TOPIC),
            reply_to: record.message_id.as_str().parse().ok().filter(|id| *id > 0),
            business_connection_id: ids.business_connection_id,
            direct_messages_topic_id: ids.direct_messages_topic_id,
        })
    }
}
