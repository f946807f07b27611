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
//! The snapshot of `item/tests.rs` has every field, in an item of every kind. Lists of sort keys are newline-separated,
//! objects are JSON; `trace` and the keys `counts` of a summary, which share most of their digits, are deflated. `formTs` is
//! left out if it is `ts`. `revisions`, the number of a message's later forms, is set when they are put. `body`, an S3 key,
//! and `digest` are in place of a large `message`.

use std::io::{Read, Write};

use annals_core::message::UiMessage;
use annals_core::record::{Record, Source};
use annals_core::sort_key::{SortKey, Timestamp};
use annals_core::trace::Trace;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use ring::digest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::fields::{CHAT_KEY, Fields};
use super::table::{Item, string};

/// Maximum bytes of a trace in an item.
const MAX_TRACE_BYTES: usize = 1_500;

/// An item in a chat's partition that is not a readable record.
#[derive(Debug, thiserror::Error)]
#[error("the record {sk} of its chat has no readable '{attribute}': correct the item, or restore the table")]
pub struct ItemError {
    sk: String,
    attribute: String,
}

/// A record, and the place of its message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stored {
    Inline(Record),
    /// In S3 under `body`; the record's message has no parts yet.
    Body {
        record: Record,
        body: String,
    },
}

impl Stored {
    /// Returns the record; without its parts if its message is in S3.
    pub(crate) fn record(&self) -> &Record {
        match self {
            Self::Inline(record) | Self::Body { record, .. } => record,
        }
    }
}

/// Attributes that are not plain: they are written and read by name. All others are those fields of [`Fields`] that are a
/// string, a number or a flag.
const NOT_PLAIN: [&str; 9] =
    ["message", "body", "digest", "covers", "source", "counts", "deliveryFailure", "trace", "replyToken"];

/// Builds the item of `record`; its message becomes the attribute `message`, or `body` if it is in S3.
pub(crate) fn to_item(record: &Record, message: MessageAttribute) -> Result<Item, serde_json::Error> {
    let mut fields = Fields::of(record);
    let (covers, source) = (std::mem::take(&mut fields.covers), fields.source.take());
    fields.form_ts = fields.form_ts.filter(|form_ts| *form_ts != fields.ts);
    // Noted on the item later; see `note_delivery_failure`.
    fields.delivery_failure = None;
    let mut item = plain_item(&fields)?;
    let mut set = |name: &str, value: AttributeValue| item.insert(name.to_owned(), value);
    match message {
        MessageAttribute::Inline(json) => {
            set("message", string(json));
        }
        MessageAttribute::Body { key, digest } => {
            set("body", string(key));
            set("digest", string(digest));
        }
    }
    if !covers.is_empty() {
        set("covers", string(lines(&covers)));
    }
    if let Some(trace) = fields.trace {
        set("trace", packed(trace, MAX_TRACE_BYTES));
    }
    if let Some(reply_token) = fields.reply_token {
        set("replyToken", string(serde_json::to_string(&reply_token)?));
    }
    if let Some(source) = source {
        let mut json = serde_json::to_value(&source)?;
        if let Value::Object(fields) = &mut json {
            fields.shift_remove("counts");
        }
        set("source", string(json.to_string()));
        set("counts", AttributeValue::B(Blob::new(deflated(&lines(&source.counts)))));
    }
    Ok(item)
}

/// Returns an item of those fields of `value` that are plain; a field `chatKey` is its partition key.
pub(super) fn plain_item<T: Serialize>(value: &T) -> Result<Item, serde_json::Error> {
    let fields: Map<String, Value> = serde_json::from_value(serde_json::to_value(value)?)?;
    Ok(fields.into_iter().filter_map(attribute).collect())
}

/// Reads the plain attributes of `item` as the fields of a value.
pub(super) fn plain<T: DeserializeOwned>(
    item: &Item,
) -> Result<T, serde_path_to_error::Error<serde_json::Error>> {
    serde_path_to_error::deserialize(Value::Object(item.iter().filter_map(field).collect()))
}

/// Returns a plain field as an attribute.
fn attribute((name, value): (String, Value)) -> Option<(String, AttributeValue)> {
    let value = match value {
        Value::String(text) => string(text),
        Value::Number(number) => AttributeValue::N(number.to_string()),
        Value::Bool(flag) => AttributeValue::Bool(flag),
        _ => return None,
    };
    Some((if name == CHAT_KEY { "pk".to_owned() } else { name }, value))
}

/// Returns a plain attribute as a field. One of another type becomes a list, which no field reads.
fn field((name, value): (&String, &AttributeValue)) -> Option<(String, Value)> {
    let value = match value {
        _ if NOT_PLAIN.contains(&name.as_str()) => return None,
        AttributeValue::S(text) => text.as_str().into(),
        AttributeValue::N(number) => Value::Number(number.parse().ok()?),
        AttributeValue::Bool(flag) => (*flag).into(),
        _ => Value::Array(Vec::new()),
    };
    Some((if name == "pk" { CHAT_KEY } else { name }.to_owned(), value))
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

/// Returns `trace` as an attribute of at most `limit` bytes: deflated JSON, without the last spans if it is too long.
pub(crate) fn packed(mut trace: Trace, limit: usize) -> AttributeValue {
    loop {
        let bytes = deflated(&serde_json::to_string(&trace).unwrap_or_default());
        if bytes.len() <= limit || trace.spans.is_empty() {
            return AttributeValue::B(Blob::new(bytes));
        }
        trace.shorten();
    }
}

/// Reads an attribute that [`packed`] has made.
pub(crate) fn unpacked(value: &AttributeValue) -> Option<Trace> {
    serde_json::from_str(&inflated(value.as_b().ok()?.as_ref())?).ok()
}

fn inflated(bytes: &[u8]) -> Option<String> {
    let mut text = String::new();
    DeflateDecoder::new(bytes).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Reads the `source` and `counts` of a summary.
fn source_of(item: &Item) -> Option<Source> {
    let mut source: Map<String, Value> = serde_json::from_str(text(item, "source")?).ok()?;
    let counts = inflated(item.get("counts")?.as_b().ok()?.as_ref())?;
    source.insert("counts".into(), counts.lines().collect());
    serde_json::from_value(Value::Object(source)).ok()
}

pub(crate) enum MessageAttribute {
    Inline(String),
    Body { key: String, digest: String },
}

/// Reads the record in `item`.
pub(crate) fn from_item(item: &Item) -> Result<Stored, ItemError> {
    let missing = |attribute: &str| ItemError {
        sk: text(item, "sk").unwrap_or_default().to_owned(),
        attribute: if attribute == CHAT_KEY { "pk" } else { attribute }.to_owned(),
    };
    let mut fields: Fields = plain(item).map_err(|error| missing(&name_of_fault(&error)))?;
    let covers = text(item, "covers").unwrap_or_default();
    fields.covers =
        covers.lines().map(str::parse).collect::<Result<_, _>>().map_err(|_| missing("covers"))?;
    if item.contains_key("source") {
        fields.source = Some(source_of(item).ok_or_else(|| missing("source"))?);
    }
    fields.delivery_failure = text(item, "deliveryFailure").and_then(|json| serde_json::from_str(json).ok());
    fields.trace = item.get("trace").and_then(unpacked);
    fields.reply_token = text(item, "replyToken").and_then(|json| serde_json::from_str(json).ok());
    if let Some(body) = text(item, "body") {
        let record = fields.record(None).ok_or_else(|| missing("source"))?;
        return Ok(Stored::Body { record, body: body.to_owned() });
    }
    let message = text(item, "message").and_then(|json| serde_json::from_str(json).ok());
    let message = message.ok_or_else(|| missing("message"))?;
    Ok(Stored::Inline(fields.record(Some(message)).ok_or_else(|| missing("source"))?))
}

/// Returns the name of the field that is invalid, or missing: then only the error's text names it, in backticks.
fn name_of_fault(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    match error.path().to_string().as_str() {
        "." => error.inner().to_string().split('`').nth(1).unwrap_or_default().to_owned(),
        name => name.to_owned(),
    }
}

/// Returns the digest by which two forms of a message differ: SHA-256 over role and parts, in hex, whatever the order of keys.
pub(crate) fn content_digest(message: &UiMessage) -> String {
    let mut content = serde_json::json!([message.role, message.parts]);
    content.sort_all_objects();
    sha256(&content)
}

/// Returns the digest that version 0.1 stored with a large message: over the keys in the order in which they came.
pub(crate) fn digest_of_0_1(message: &UiMessage) -> String {
    sha256(&serde_json::json!([message.role, message.parts]))
}

fn sha256(content: &Value) -> String {
    hex::encode(digest::digest(&digest::SHA256, content.to_string().as_bytes()))
}

/// Returns the [`content_digest`] of the message in `item`.
pub(crate) fn stored_digest(item: &Item) -> Option<String> {
    match text(item, "digest") {
        Some(digest) => Some(digest.to_owned()),
        None => serde_json::from_str(text(item, "message")?).ok().map(|message| content_digest(&message)),
    }
}

pub(crate) fn text<'a>(item: &'a Item, attribute: &str) -> Option<&'a str> {
    item.get(attribute).and_then(|value| value.as_s().ok()).map(String::as_str)
}

pub(crate) fn integer(item: &Item, attribute: &str) -> Option<i64> {
    item.get(attribute).and_then(|value| value.as_n().ok()).and_then(|n| n.parse().ok())
}

pub(crate) fn count(item: &Item, attribute: &str) -> Option<u32> {
    item.get(attribute).and_then(|value| value.as_n().ok()).and_then(|n| n.parse().ok())
}

pub(crate) fn time(item: &Item, attribute: &str) -> Option<Timestamp> {
    integer(item, attribute).and_then(Timestamp::from_millis)
}

#[cfg(test)]
mod tests;
