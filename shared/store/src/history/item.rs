//! A [`Record`] as a DynamoDB item, and back.
//!
//! ```json
//! {"pk": "telegram:chat:42", "sk": "1763765920000#00000000000000000007",
//!  "channel": "telegram", "chatId": "42", "userId": "42", "actorKey": "telegram:chat:42:user:42",
//!  "messageId": "7", "ts": 1763765920000, "sentAt": 1763765920512, "role": "user", "kind": "normal",
//!  "message": "{\"id\":\"7\",\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"text\":\"hello\"}],\"metadata\":{…}}",
//!  "tokens": 6, "asks": true, "expiresAt": 1764543520}
//! ```
//!
//! Optional: `formTs` (if it is not `ts`), `revision` (n > 0), `revisions` (number of later forms of a message),
//! `album`, `covers` (sort keys, newline-separated), `deliveryFailure` (JSON), `person`, `replyToken` (JSON, a secret: see
//! [`ReplyToken`](annals_core::reply_token::ReplyToken)), and for a large message `body`
//! (its S3 key) and `digest` in place of `message`. A summary has `source`, a JSON object
//! `{"from": …, "fromId": …, "to": …, "toId": …, "count": …, "lastInteraction": …, "readAt": …}`, and `counts` (sort
//! keys, newline-separated, deflated: its keys share most of their digits).

use std::io::{Read, Write};

use annals_core::message::{Role, UiMessage};
use annals_core::record::{Record, Source};
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use aws_lc_rs::digest;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::Deserialize;
use serde_json::json;

use super::fields::Fields;
use super::table::{Item, number, string};

/// An item in a chat's partition that is not a readable record.
#[derive(Debug, thiserror::Error)]
#[error("the record {sk} of its chat has no readable '{attribute}': correct the item, or restore the table")]
pub struct ItemError {
    sk: String,
    attribute: &'static str,
}

/// A record, and the place of its message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stored {
    /// In the item.
    Inline(Record),
    /// In S3 under `body`; the record's message has no parts yet.
    Body { record: Record, body: String },
}

impl Stored {
    /// Returns the record; without its parts if its message is in S3.
    pub(crate) fn record(&self) -> &Record {
        match self {
            Self::Inline(record) | Self::Body { record, .. } => record,
        }
    }
}

/// Builds the item of `record`; its message becomes the attribute `message`, or `body` if it is in S3.
pub(crate) fn to_item(record: &Record, message: MessageAttribute) -> Item {
    let Fields {
        chat_key,
        sk,
        actor_key,
        channel,
        chat_id,
        user_id,
        message_id,
        ts,
        sent_at,
        form_ts,
        revision,
        role,
        kind,
        tokens,
        expires_at,
        album,
        asks,
        covers,
        // Noted on the item later; see `note_delivery_failure`.
        delivery_failure: _,
        source,
        person,
        reply_token,
    } = Fields::of(record);
    let mut item = Item::new();
    let mut set = |name: &str, value: AttributeValue| item.insert(name.to_owned(), value);
    set("pk", string(chat_key.to_string()));
    set("sk", string(sk.as_str()));
    set("channel", string(channel.as_str()));
    set("chatId", string(chat_id));
    set("userId", string(user_id));
    if let Some(actor_key) = actor_key {
        set("actorKey", string(actor_key));
    }
    set("messageId", string(message_id.as_str()));
    set("ts", number(ts));
    set("sentAt", number(sent_at));
    set("role", string(role.as_str()));
    set("kind", string(kind.as_str()));
    set("tokens", number(tokens));
    match message {
        MessageAttribute::Inline(json) => {
            set("message", string(json));
        }
        MessageAttribute::Body { key, digest } => {
            set("body", string(key));
            set("digest", string(digest));
        }
    }
    if asks {
        set("asks", AttributeValue::Bool(true));
    }
    if let Some(expires_at) = expires_at {
        set("expiresAt", number(expires_at));
    }
    if let Some(form_ts) = form_ts.filter(|form_ts| *form_ts != ts) {
        set("formTs", number(form_ts));
    }
    if revision > 0 {
        set("revision", number(revision));
    }
    if let Some(album) = album {
        set("album", string(album));
    }
    if !covers.is_empty() {
        set("covers", string(lines(&covers)));
    }
    if let Some(person) = person {
        set("person", string(person));
    }
    if let Some(Ok(json)) = reply_token.as_ref().map(serde_json::to_string) {
        set("replyToken", string(json));
    }
    if let Some(source) = source {
        let json = json!({
            "from": source.from, "fromId": source.from_id, "to": source.to, "toId": source.to_id,
            "count": source.count, "lastInteraction": source.last_interaction, "readAt": source.read_at,
        });
        set("source", string(json.to_string()));
        set("counts", AttributeValue::B(Blob::new(deflated(&lines(&source.counts)))));
    }
    item
}

fn lines(keys: &[SortKey]) -> String {
    keys.iter().map(SortKey::as_str).collect::<Vec<_>>().join("\n")
}

fn deflated(text: &str) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    // Writing into memory does not fail.
    let written = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
    written.unwrap_or_default()
}

fn inflated(bytes: &[u8]) -> Option<String> {
    let mut text = String::new();
    DeflateDecoder::new(bytes).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Reads the `source` and `counts` of a summary.
fn source_of(item: &Item) -> Option<Source> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Stored {
        from: SortKey,
        from_id: MessageId,
        to: SortKey,
        to_id: MessageId,
        count: u32,
        last_interaction: Timestamp,
        #[serde(default)]
        read_at: Option<Timestamp>,
    }
    let stored: Stored = serde_json::from_str(text(item, "source")?).ok()?;
    let counts = inflated(item.get("counts")?.as_b().ok()?.as_ref())?;
    Some(Source {
        from: stored.from,
        from_id: stored.from_id,
        to: stored.to,
        to_id: stored.to_id,
        count: stored.count,
        last_interaction: stored.last_interaction,
        read_at: stored.read_at,
        counts: counts.lines().map(str::parse).collect::<Result<_, _>>().ok()?,
    })
}

/// The attribute that holds a message.
pub(crate) enum MessageAttribute {
    Inline(String),
    Body { key: String, digest: String },
}

/// Reads the record in `item`.
pub(crate) fn from_item(item: &Item) -> Result<Stored, ItemError> {
    let sk = text(item, "sk").unwrap_or_default();
    let missing = |attribute| ItemError { sk: sk.to_owned(), attribute };
    let required = |attribute: &'static str| text(item, attribute).ok_or_else(|| missing(attribute));
    let time = |attribute: &'static str| integer(item, attribute).and_then(Timestamp::from_millis);
    let message_id: MessageId =
        serde_json::from_value(required("messageId")?.into()).map_err(|_| missing("messageId"))?;
    let role = match required("role")? {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        _ => return Err(missing("role")),
    };
    let covers = text(item, "covers").unwrap_or_default();
    let fields = Fields {
        chat_key: required("pk")?.parse().map_err(|_| missing("pk"))?,
        sk: sk.parse().map_err(|_| missing("sk"))?,
        actor_key: None,
        channel: required("channel")?.parse().map_err(|_| missing("channel"))?,
        chat_id: required("chatId")?.to_owned(),
        user_id: required("userId")?.to_owned(),
        message_id,
        ts: time("ts").ok_or_else(|| missing("ts"))?,
        sent_at: time("sentAt").ok_or_else(|| missing("sentAt"))?,
        form_ts: time("formTs"),
        revision: integer(item, "revision").and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        role,
        kind: required("kind")?.parse().map_err(|_| missing("kind"))?,
        tokens: integer(item, "tokens").and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        expires_at: integer(item, "expiresAt"),
        album: text(item, "album").map(str::to_owned),
        asks: asks(item),
        covers: covers.lines().map(str::parse).collect::<Result<_, _>>().map_err(|_| missing("covers"))?,
        delivery_failure: text(item, "deliveryFailure").and_then(|json| serde_json::from_str(json).ok()),
        source: match item.get("source") {
            Some(_) => Some(source_of(item).ok_or_else(|| missing("source"))?),
            None => None,
        },
        person: text(item, "person").map(str::to_owned),
        reply_token: text(item, "replyToken").and_then(|json| serde_json::from_str(json).ok()),
    };
    if let Some(body) = text(item, "body") {
        return Ok(Stored::Body {
            record: fields.record(None).ok_or_else(|| missing("source"))?,
            body: body.to_owned(),
        });
    }
    let message = serde_json::from_str(required("message")?).map_err(|_| missing("message"))?;
    Ok(Stored::Inline(fields.record(Some(message)).ok_or_else(|| missing("source"))?))
}

/// Returns the digest by which two forms of a message differ: SHA-256 over role and parts, in hex.
pub(crate) fn content_digest(message: &UiMessage) -> String {
    let content = serde_json::json!([message.role, message.parts]).to_string();
    hex::encode(digest::digest(&digest::SHA256, content.as_bytes()))
}

/// Returns the [`content_digest`] of the message in `item`.
pub(crate) fn stored_digest(item: &Item) -> Option<String> {
    match text(item, "digest") {
        Some(digest) => Some(digest.to_owned()),
        None => serde_json::from_str(text(item, "message")?).ok().map(|message| content_digest(&message)),
    }
}

/// Returns true if the record in `item` asks for an answer.
pub(crate) fn asks(item: &Item) -> bool {
    matches!(item.get("asks"), Some(AttributeValue::Bool(true)))
}

pub(crate) fn text<'a>(item: &'a Item, attribute: &str) -> Option<&'a str> {
    item.get(attribute).and_then(|value| value.as_s().ok()).map(String::as_str)
}

pub(crate) fn integer(item: &Item, attribute: &str) -> Option<i64> {
    item.get(attribute).and_then(|value| value.as_n().ok()).and_then(|n| n.parse().ok())
}

#[cfg(test)]
mod tests;
