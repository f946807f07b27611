//! Where a reply is sent, [`Address`], and where one stands: [`Posted`].

use serde_json::Value;

use crate::record::Record;

/// What `sendMessage` needs to reach the place a record came from.
///
/// Source: the parameters of [`sendMessage`](https://core.telegram.org/bots/api#sendmessage).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `chat_id`: negative for groups and channels.
    pub chat_id: i64,
    /// `message_thread_id`: a forum topic; never General, which has no id that could be sent.
    pub thread_id: Option<i64>,
    /// `reply_parameters.message_id`: the record's own message, where the platform numbers it.
    pub reply_to: Option<i64>,
    /// `business_connection_id`: on whose behalf a reply is sent.
    pub business_connection_id: Option<String>,
    /// `direct_messages_topic_id`: a person's topic in a channel's direct messages.
    pub direct_messages_topic_id: Option<i64>,
}

/// A message of the bot's, as the methods that change it name it.
///
/// Source: the parameters of [`editMessageReplyMarkup`](https://core.telegram.org/bots/api#editmessagereplymarkup).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// `chat_id`
    pub chat_id: i64,
    /// `message_id`
    pub message_id: i64,
    /// `business_connection_id`: on whose behalf it was sent.
    pub business_connection_id: Option<String>,
}

/// The id under which clients show the General topic; `sendMessage` refuses it.
const GENERAL_TOPIC: i64 = 1;

impl Address {
    /// Where `record` came from; `None` if its window has no Telegram chat id.
    pub fn of(record: &Record) -> Option<Self> {
        let telegram = record.message.metadata.get("telegram");
        let field = |name: &str| telegram.and_then(|telegram| telegram.get(name));
        Some(Self {
            chat_id: record.chat_id.parse().ok()?,
            thread_id: field("threadId").and_then(Value::as_i64).filter(|id| *id != GENERAL_TOPIC),
            reply_to: record.message_id.as_str().parse().ok().filter(|id| *id > 0),
            business_connection_id: field("businessConnectionId").and_then(Value::as_str).map(str::to_owned),
            direct_messages_topic_id: field("directMessagesTopicId").and_then(Value::as_i64),
        })
    }
}
