//! Lark's wire, looked at leniently: [`View`] of a JSON object, [`Envelope`] of an event, [`Message`] in its forms.
//!
//! A field of another type than expected must not cost the message it stands in. So nothing is deserialized into
//! structs: each field is looked at where it is used, and one that is not what it should be is as good as absent.
//!
//! ```json
//! {"schema": "2.0", "header": {"event_type": "im.message.receive_v1", "create_time": "1764057600000"},
//!  "event": {"sender": {"sender_id": {"open_id": "ou_…"}, "sender_type": "user"},
//!            "message": {"message_id": "om_…", "chat_id": "oc_…", "chat_type": "p2p", "message_type": "text",
//!                        "create_time": "1764057600000", "content": "{\"text\":\"hello\"}"}}}
//! ```
//!
//! Source: [`im.message.receive_v1`](https://open.feishu.cn/document/server-docs/im-v1/message/events/receive).

use serde_json::{Map, Value};

use crate::channel::view::View;

use super::mention::Mentions;
use crate::sort_key::{MessageId, Timestamp};

/// The type of an event that brings a message, in schema 2.
pub(super) const RECEIVED: &str = "im.message.receive_v1";
/// The types of event that are read, of schema 2, and what each does: those that an app subscribes to.
pub const EVENTS: [(&str, &str); 6] = [
    (RECEIVED, "a message"),
    ("im.message.recalled_v1", "a message was taken back"),
    ("im.chat.member.bot.added_v1", "the bot can write to a group"),
    ("im.chat.member.bot.deleted_v1", "the bot can no longer write to a group"),
    ("im.chat.disbanded_v1", "a group is no more"),
    ("im.chat.access_event.bot_p2p_chat_entered_v1", "the bot can write to a person"),
];

/// The type of an event that brings a message, in schema 1.
pub(super) const RECEIVED_V1: &str = "message";

impl View<'_> {
    /// The field, if it is a time.
    ///
    /// Lark writes milliseconds as a string; some events write microseconds, and some senders seconds. The digits
    /// tell them apart from 1973 to the year 5138.
    pub(super) fn time(self, name: &str) -> Option<Timestamp> {
        let number = match self.raw(name)? {
            Value::Number(number) => number.as_i64()?,
            Value::String(digits) => digits.parse().ok()?,
            _ => return None,
        };
        match number {
            ..=0 => None,
            1..100_000_000_000 => Some(Timestamp::from_secs(number)),
            100_000_000_000..100_000_000_000_000 => Timestamp::from_millis(number),
            _ => Timestamp::from_millis(number / 1000),
        }
    }
}

/// What stands around an event, of either schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct Envelope<'a> {
    /// The event's type.
    pub(super) kind: &'a str,
    /// The event itself.
    pub(super) event: View<'a>,
    /// When Lark sent it first.
    pub(super) at: Option<Timestamp>,
}

impl<'a> Envelope<'a> {
    /// The envelope that `call` is; `None` where it holds no event.
    pub(super) fn of(call: View<'a>) -> Option<Self> {
        let event = call.object("event")?;
        let (kind, at) = match call.object("header") {
            Some(header) => (header.text("event_type"), header.time("create_time")),
            None => (event.text("type"), call.text("ts").and_then(fractional_seconds)),
        };
        // Found in the wild: an envelope of schema 1 around a message of schema 2.
        let kind = kind.or_else(|| event.object("message").map(|_| RECEIVED));
        Some(Self { kind: kind.unwrap_or("none"), event, at })
    }
}

/// `1502199207.7171419`, as schema 1 writes its `ts`.
fn fractional_seconds(text: &str) -> Option<Timestamp> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = seconds.parse().ok().filter(|seconds| *seconds > 0)?;
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    Timestamp::from_millis(seconds.checked_mul(1000)?.checked_add(digits.parse().ok()?)?)
}

/// A message, as an event of either schema or the API gives it.
#[derive(Debug)]
pub(super) struct Message<'a> {
    pub(super) id: MessageId,
    pub(super) chat_id: &'a str,
    pub(super) is_p2p: bool,
    /// The topic that it is in.
    pub(super) thread_id: Option<&'a str>,
    pub(super) root_id: Option<&'a str>,
    pub(super) parent_id: Option<&'a str>,
    pub(super) created: Option<Timestamp>,
    pub(super) updated: Option<Timestamp>,
    /// `text`, `post`, `image`, …
    pub(super) kind: &'a str,
    pub(super) body: Body,
    pub(super) mentions: Mentions<'a>,
    /// Whether the platform itself says that the bot is mentioned; schema 1 does.
    pub(super) is_marked: bool,
    /// The ids of who speaks, the one to know them by first.
    pub(super) sender: Vec<&'a str>,
    pub(super) is_of_bot: bool,
    /// The text without the bot's mention, where the platform gives it.
    pub(super) bare_text: Option<&'a str>,
}

/// What a message's content is.
#[derive(Debug, PartialEq)]
pub(super) enum Body {
    /// What it should be.
    Object(Map<String, Value>),
    /// A string that is no JSON object.
    Raw(String),
    /// Nothing.
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
    /// The message of an [`RECEIVED`] event, or why there is none.
    pub(super) fn received(event: View<'a>) -> Result<Self, &'static str> {
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

    /// The message of a [`RECEIVED_V1`] event sent `at`, whose content lies among its other fields.
    ///
    /// Source: [receive message, schema 1](https://open.feishu.cn/document/ukTMukTMukTM/ukjNxYjL5YTM24SO2EjN/message).
    pub(super) fn received_v1(event: View<'a>, at: Option<Timestamp>) -> Result<Self, &'static str> {
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

    /// An item of the API's lists of messages; the API does not say of what type its chat is.
    ///
    /// Source: [list](https://open.feishu.cn/document/server-docs/im-v1/message/list).
    pub(super) fn listed(item: View<'a>) -> Result<Self, &'static str> {
        let sender = item.object("sender");
        Ok(Self {
            kind: item.text("msg_type").unwrap_or_default(),
            body: Body::of(item.object("body").and_then(|body| body.raw("content"))),
            sender: sender.and_then(|sender| sender.id("id")).into_iter().collect(),
            is_of_bot: sender.is_some_and(is_bot),
            ..Self::shared(item, "message_id", "chat_id")?
        })
    }

    /// The fields that all forms share.
    fn shared(view: View<'a>, id: &str, chat_id: &str) -> Result<Self, &'static str> {
        // Found in the wild: the message that opens a topic names the topic as its root.
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

    /// Whether this is a later form of the message. What is sent is stored within the second.
    pub(super) fn is_edit(&self) -> bool {
        matches!((self.created, self.updated), (Some(created), Some(updated)) if updated.since(created).as_secs() > 0)
    }
}

/// The ids in a `UserId`, the one that is always given first.
pub(super) fn user_ids(ids: View<'_>) -> Vec<&str> {
    ["open_id", "user_id", "union_id"].into_iter().filter_map(|name| ids.id(name)).collect()
}

fn is_bot(sender: View<'_>) -> bool {
    matches!(sender.text("sender_type"), Some("app" | "bot")) || sender.text("id_type") == Some("app_id")
}

/// `<at open_id="ou_…">@Tom</at> hi`, as schema 1 writes a mention, without the tags.
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
    fn times_come_in_several_units() {
        let check = |value: Value, wanted: Option<i64>| {
            let view = json!({ "t": value });
            assert_eq!(View::of(&view).unwrap().time("t").map(Timestamp::as_millis), wanted, "{view}");
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
    fn a_field_of_another_type_is_as_good_as_absent() {
        let value = json!({"text": 5, "id": "a\u{1}", "long": "x".repeat(257), "empty": "", "off": false, "list": {}});
        let view = View::of(&value).unwrap();
        assert_eq!(view.text("text"), None);
        assert_eq!(view.scalar("text").as_deref(), Some("5"));
        assert_eq!((view.id("id"), view.id("long")), (None, None));
        assert!(!view.has("empty") && !view.has("off") && view.has("list"));
        assert_eq!(view.objects("list").count(), 0);
    }

    #[test]
    fn at_tags_leave_their_names() {
        assert_eq!(
            without_at_tags("<at open_id=\"ou_1\">@Tom</at> hi <at user_id='x'>@B</at>"),
            "@Tom hi @B"
        );
        assert_eq!(without_at_tags("a < b, <at nothing, </at> x"), "a < b, <at nothing, </at> x");
        assert_eq!(without_at_tags("<at >é"), "<at >é");
    }
}
