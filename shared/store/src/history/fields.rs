//! The stored fields of a record: the one list that the table's items (`item.rs`) and the lines of segments
//! (`segment.rs`) share.
//!
//! A field that is a string, a number or a flag needs nothing else to be stored: items and lines are made of [`Fields`] by its
//! names. A list or an object is also written in `item.rs`, and named in its `NOT_PLAIN`. The conversions here name every
//! field, so that a new field of a record does not compile until it is stored.

use annals_core::chat_key::ChatKey;
use annals_core::message::{Role, UiMessage};
use annals_core::record::{Attributes, Channel, DeliveryFailure, Details, Kind, Record, Source};
use annals_core::reply_token::ReplyToken;
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use annals_core::trace::Trace;
use serde::{Deserialize, Serialize};

/// The name of the partition key in a line; in an item it is `pk`.
pub(super) const CHAT_KEY: &str = "chatKey";

/// A record without its message. The names and their order are those of a segment's line, and the names those of an
/// item, whose partition key is `chatKey`. A new field is the last, with a default that is not written, so that old items and
/// segments are read and their bytes stay.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Fields {
    pub(super) chat_key: ChatKey,
    pub(super) sk: SortKey,
    /// For people who read the item or the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) actor_key: Option<String>,
    pub(super) channel: Channel,
    pub(super) chat_id: String,
    pub(super) user_id: String,
    pub(super) message_id: MessageId,
    pub(super) ts: Timestamp,
    pub(super) sent_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) form_ts: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) revision: u32,
    pub(super) role: Role,
    pub(super) kind: Kind,
    #[serde(default)]
    pub(super) tokens: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) album: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) asks: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) covers: Vec<SortKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) delivery_failure: Option<DeliveryFailure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<Source>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) person: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) trace: Option<Trace>,
    /// Only in an item: a segment is exported.
    #[serde(skip)]
    pub(super) reply_token: Option<ReplyToken>,
}

impl Fields {
    /// Returns the fields of `record`, all but its message.
    pub(super) fn of(record: &Record) -> Self {
        let Record {
            chat,
            key,
            channel,
            chat_id,
            user_id,
            message_id,
            ts,
            sent_at,
            message,
            tokens,
            expires_at,
            person,
            details,
        } = record;
        let Attributes {
            form_ts,
            revision,
            album,
            asks,
            covers,
            delivery_failure,
            trace,
            source,
            reply_token,
        } = details.attributes();
        Self {
            chat_key: chat.clone(),
            sk: key.clone(),
            actor_key: chat.actor_key(user_id).ok(),
            channel: *channel,
            chat_id: chat_id.clone(),
            user_id: user_id.clone(),
            message_id: message_id.clone(),
            ts: *ts,
            sent_at: *sent_at,
            form_ts,
            revision,
            role: message.role,
            kind: record.kind(),
            tokens: *tokens,
            expires_at: *expires_at,
            album,
            asks,
            covers,
            delivery_failure,
            source,
            person: person.clone(),
            trace,
            reply_token,
        }
    }

    /// Returns the record with these fields and `message`; without parts if `message` is in S3. `None` if the fields
    /// contradict each other: a summary without a source.
    pub(super) fn record(self, message: Option<UiMessage>) -> Option<Record> {
        let attributes = Attributes {
            form_ts: self.form_ts,
            revision: self.revision,
            album: self.album,
            asks: self.asks,
            covers: self.covers,
            delivery_failure: self.delivery_failure,
            trace: self.trace,
            source: self.source,
            reply_token: self.reply_token,
        };
        let without_parts = || UiMessage::new(self.message_id.as_str(), self.role, Vec::new());
        Some(Record {
            chat: self.chat_key,
            details: Details::of(self.kind, self.role, &self.sk, attributes)?,
            key: self.sk,
            channel: self.channel,
            chat_id: self.chat_id,
            user_id: self.user_id,
            ts: self.ts,
            sent_at: self.sent_at,
            message: message.unwrap_or_else(without_parts),
            message_id: self.message_id,
            tokens: self.tokens,
            expires_at: self.expires_at,
            person: self.person,
        })
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes by reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
