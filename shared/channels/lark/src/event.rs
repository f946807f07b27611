//! Lenient access to the JSON of events: [`JsonView`] of an object, [`Envelope`] of an event, [`Message`] in its forms.
//!
//! A message must not be lost because one of its fields has another type than expected. So nothing is deserialized into
//! structs: each field is read where it is used, and a field of the wrong type counts as absent.
//!
//! ```json
//! {"schema": "2.0", "header": {"event_type": "im.message.receive_v1", "create_time": "1764057600000"},
//!  "event": {"sender": {"sender_id": {"open_id": "ou_…"}, "sender_type": "user"},
//!            "message": {"message_id": "om_…", "chat_id": "oc_…", "chat_type": "p2p", "message_type": "text",
//!                        "create_time": "1764057600000", "content": "{\"text\":\"hello\"}"}}}
//! ```
//!
//! Source: [`im.message.receive_v1`](https://open.feishu.cn/document/server-docs/im-v1/message/events/receive).

use annals_channel::json::JsonView;
use annals_core::sort_key::{MessageId, Timestamp};
use serde_json::{Map, Value};

use super::mention::Mentions;
use super::user_id::user_ids;

/// Type of an event with a message, in schema 2.
pub(super) const RECEIVED: &str = "im.message.receive_v1";
/// Types of event of schema 2 that are read, and their meaning. An app subscribes to these.
pub const EVENTS: [(&str, &str); 6] = [
    (RECEIVED, "a message"),
    ("im.message.recalled_v1", "a message was recalled"),
    ("im.chat.member.bot.added_v1", "the bot can write to a group"),
    ("im.chat.member.bot.deleted_v1", "the bot can no longer write to a group"),
    ("im.chat.disbanded_v1", "a group was disbanded"),
    ("im.chat.access_event.bot_p2p_chat_entered_v1", "the bot can write to a person"),
];

/// Type of an event with a message, in schema 1.
pub(super) const RECEIVED_V1: &str = "message";

/// Envelope of an event, of either schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct Envelope<'a> {
    pub(super) kind: &'a str,
    pub(super) event: JsonView<'a>,
    /// Time of the first delivery.
    pub(super) at: Option<Timestamp>,
}

impl<'a> Envelope<'a> {
    /// Returns the envelope in `call`, or `None` if it contains no event.
    pub(super) fn of(call: JsonView<'a>) -> Option<Self> {
        let event = call.object("event")?;
        let (kind, at) = match call.object("header") {
            Some(header) => (header.text("event_type"), header.time("create_time")),
            None => (event.text("type"), call.text("ts").and_then(fractional_seconds)),
        };
        // Seen in practice: an envelope of schema 1 around a message of schema 2.
        let kind = kind.or_else(|| event.object("message").map(|_| RECEIVED));
        Some(Self { kind: kind.unwrap_or("none"), event, at })
    }
}

/// Parses the `ts` of schema 1, such as `1502199207.7171419`.
fn fractional_seconds(text: &str) -> Option<Timestamp> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = seconds.parse().ok().filter(|seconds| *seconds > 0)?;
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    Timestamp::from_millis(seconds.checked_mul(1000)?.checked_add(digits.parse().ok()?)?)
}

/// A message, from an event of either schema or from the API.
#[derive(Debug)]
pub(super) struct Message<'a> {
    pub(super) id: MessageId,
    pub(super) chat_id: &'a str,
    pub(super) is_p2p: bool,
    pub(super) thread_id: Option<&'a str>,
    pub(super) root_id: Option<&'a str>,
    pub(super) parent_id: Option<&'a str>,
    pub(super) created: Option<Timestamp>,
    pub(super) updated: Option<Timestamp>,
    /// `text`, `post`, `image`, …
    pub(super) kind: &'a str,
    pub(super) body: Body,
    pub(super) mentions: Mentions<'a>,
    /// True if Lark itself says that the bot is mentioned, as schema 1 does.
    pub(super) is_marked: bool,
    /// Ids of the sender, the one that identifies them first.
    pub(super) sender: Vec<&'a str>,
    pub(super) is_of_bot: bool,
    /// The text without the bot's mention, if Lark gives it.
    pub(super) bare_text: Option<&'a str>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Body {
    /// A JSON object, as expected.
    Object(Map<String, Value>),
    /// A string that is not a JSON object.
    Raw(String),
    Empty,
}

impl Body {
    fn of(content: Option<&Value>) -> Self {
        match content {
            Some(Value::Object(fields)) => Self::Object(fields.clone()),
            Some(Value::String(text)) => match serde_json::from_str(text) {
                Ok(Value::Object(fields)) => Self::Object(fields),
                _ => Self::Raw(text.clone()),
            },
            _ => Self::Empty,
        }
    }
}

const NO_ID: &str = "the message has no id";
const NO_CHAT: &str = "the message has no chat";

impl<'a> Message<'a> {
    /// Reads the message of a [`RECEIVED`] event. The error is the reason for the log.
    pub(super) fn received(event: JsonView<'a>) -> Result<Self, &'static str> {
        let message = event.object("message").ok_or("the event has no message")?;
        let sender = event.object("sender");
        let chat_type = message.text("chat_type").or_else(|| event.text("chat_type"));
        Ok(Self {
            is_p2p: chat_type == Some("p2p"),
            kind: message.text("message_type").or_else(|| message.text("msg_type")).unwrap_or_default(),
            body: Body::of(message.raw("content")),
            sender: sender.and_then(|sender| sender.object("sender_id")).map(user_ids).unwrap_or_default(),
            is_of_bot: sender.is_some_and(is_bot),
            ..Self::shared(message, "message_id", "chat_id")?
        })
    }

    /// Reads the message of a [`RECEIVED_V1`] event sent `at`. Its content is not nested, but among the other fields.
    ///
    /// Source: [receive message, schema 1](https://open.feishu.cn/document/ukTMukTMukTM/ukjNxYjL5YTM24SO2EjN/message).
    pub(super) fn received_v1(event: JsonView<'a>, at: Option<Timestamp>) -> Result<Self, &'static str> {
        const AROUND: &[&str] = &[
            "app_id",
            "chat_type",
            "employee_id",
            "is_mention",
            "lark_version",
            "msg_type",
            "open_chat_id",
            "open_id",
            "open_message_id",
            "parent_id",
            "root_id",
            "tenant_key",
            "text_without_at_bot",
            "type",
            "union_id",
            "user_agent",
            "user_open_id",
        ];
        let mut content: Map<String, Value> = event.map().clone();
        content.retain(|name, _| !AROUND.contains(&name.as_str()));
        if let Some(text) = event.text("text") {
            content.insert("text".into(), without_at_tags(text).into());
        }
        Ok(Self {
            is_p2p: event.text("chat_type") == Some("private"),
            created: at,
            kind: event.text("msg_type").unwrap_or_default(),
            body: Body::Object(content),
            is_marked: event.flag("is_mention"),
            sender: ["open_id", "employee_id", "union_id"].iter().filter_map(|name| event.id(name)).collect(),
            bare_text: event.text("text_without_at_bot"),
            ..Self::shared(event, "open_message_id", "open_chat_id")?
        })
    }

    /// Reads an item of the API's lists of messages. The API does not tell the type of the chat.
    ///
    /// Source: [list](https://open.feishu.cn/document/server-docs/im-v1/message/list).
    pub(super) fn listed(item: JsonView<'a>) -> Result<Self, &'static str> {
        let sender = item.object("sender");
        Ok(Self {
            kind: item.text("msg_type").unwrap_or_default(),
            body: Body::of(item.object("body").and_then(|body| body.raw("content"))),
            sender: sender.and_then(|sender| sender.id("id")).into_iter().collect(),
            is_of_bot: sender.is_some_and(is_bot),
            ..Self::shared(item, "message_id", "chat_id")?
        })
    }

    /// Reads the fields that all forms have.
    fn shared(view: JsonView<'a>, id: &str, chat_id: &str) -> Result<Self, &'static str> {
        // Seen in practice: the first message of a thread names the thread as its root.
        let thread_in_root = || view.id("root_id").filter(|root| root.starts_with("omt_"));
        let is_message = |id: &&str| !id.starts_with("omt_");
        Ok(Self {
            id: view.text(id).and_then(|id| MessageId::new(id).ok()).ok_or(NO_ID)?,
            chat_id: view.id(chat_id).ok_or(NO_CHAT)?,
            is_p2p: false,
            thread_id: view.id("thread_id").or_else(thread_in_root),
            root_id: view.id("root_id").filter(is_message),
            parent_id: view.id("parent_id").filter(is_message),
            created: view.time("create_time"),
            updated: view.time("update_time"),
            kind: "",
            body: Body::Empty,
            mentions: Mentions::of(view),
            is_marked: false,
            sender: Vec::new(),
            is_of_bot: false,
            bare_text: None,
        })
    }

    /// Returns true if this is an edit: a new message is updated less than a second after its creation.
    pub(super) fn is_edit(&self) -> bool {
        matches!((self.created, self.updated), (Some(created), Some(updated)) if updated.since(created).as_secs() > 0)
    }
}

fn is_bot(sender: JsonView<'_>) -> bool {
    matches!(sender.text("sender_type"), Some("app" | "bot")) || sender.text("id_type") == Some("app_id")
}

/// Removes the tags of schema 1's mentions: `<at open_id="ou_…">@Tom</at> hi` becomes `@Tom hi`.
fn without_at_tags(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("<at ") {
        let Some((inner, after)) =
            rest[at..].split_once('>').and_then(|(_, inner)| inner.split_once("</at>"))
        else {
            break;
        };
        plain.push_str(&rest[..at]);
        plain.push_str(inner.trim());
        rest = after;
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_read_in_several_units() {
        let check = |value: Value, wanted: Option<i64>| {
            let view = json!({ "t": value });
            assert_eq!(JsonView::of(&view).unwrap().time("t").map(Timestamp::as_millis), wanted, "{view}");
        };
        check(json!("1609073151345"), Some(1_609_073_151_345));
        check(json!(1_609_073_151_345_i64), Some(1_609_073_151_345));
        check(json!("1693834271"), Some(1_693_834_271_000));
        check(json!("1603977298000000"), Some(1_603_977_298_000));
        for not_a_time in
            [json!("0"), json!("-5"), json!(""), json!("soon"), json!(null), json!(i64::MAX), json!(1.5)]
        {
            check(not_a_time, None);
        }
        assert_eq!(
            fractional_seconds("1502199207.7171419").map(Timestamp::as_millis),
            Some(1_502_199_207_717)
        );
        assert_eq!(fractional_seconds("1502199207.7").map(Timestamp::as_millis), Some(1_502_199_207_700));
        assert_eq!(fractional_seconds("1502199207").map(Timestamp::as_millis), Some(1_502_199_207_000));
        for not_a_time in ["", ".", "x.1", "1.x", "-1.0", "99999999999999999999.1", "9223372036854775807.9"] {
            assert_eq!(fractional_seconds(not_a_time), None, "{not_a_time}");
        }
    }

    #[test]
    fn at_tags_are_replaced_by_their_names() {
        assert_eq!(
            without_at_tags("<at open_id=\"ou_1\">@Tom</at> hi <at user_id='x'>@B</at>"),
            "@Tom hi @B"
        );
        assert_eq!(without_at_tags("a < b, <at nothing, </at> x"), "a < b, <at nothing, </at> x");
        assert_eq!(without_at_tags("<at >é"), "<at >é");
    }
}
