//! Metadata of a message: sender, replied-to message, origin of a forward, and the ids that a reply needs.
//!
//! ```json
//! {"senderName": "Ada L", "senderUsername": "ada", "chatType": "supergroup",
//!  "chatTitle": "Book club", "topicTitle": "Plans",
//!  "replyTo": {"messageId": "41", "text": "what it said …", "senderName": "Annals", "fromBot": true, "own": true, "quote": "it"},
//!  "forward": {"from": "News", "chatId": "-1001", "messageId": "7", "date": 1763765920000},
//!  "links": [{"text": "here", "url": "https://example.com"}],
//!  "telegram": {"threadId": 17}}
//! ```

use annals_channel::json::JsonView;
use annals_channel::replied;
use annals_core::metadata::{ChatType, Forward, FromPlatform, Link, Metadata};
use annals_core::record::Channel;
use annals_core::sort_key::Timestamp;
use annals_core::title;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::bot::Bot;
use super::content::Content;
use super::event::{Flavour, chat_type, entities};
use super::gate;
use super::readable::{self, person_name};
use super::service;

/// The ids that [`Address`](super::address::Address) reads back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(clippy::struct_field_names, reason = "Telegram's own names")]
pub(super) struct Ids {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thread_id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) direct_messages_topic_id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) business_connection_id: Option<String>,
}

impl Ids {
    fn of(message: JsonView<'_>) -> Self {
        let id = |field: &str| message.text(field).map(str::to_owned);
        Self {
            thread_id: topic(message),
            direct_messages_topic_id: direct_messages_topic(message),
            business_connection_id: id("business_connection_id"),
        }
    }
}

/// Returns the metadata of `message` in `chat`, as `bot` gets it.
pub(super) fn of(message: JsonView<'_>, chat: JsonView<'_>, flavour: Flavour, bot: &Bot) -> Metadata {
    let sender = sender(message);
    let sender_name = sender.or(Some(chat)).and_then(display_name);
    let chat_type = chat_type(chat, flavour);
    let chat_title = display_name(chat)
        .filter(|title| chat_type != ChatType::Private || Some(title) != sender_name.as_ref());
    let mut metadata = Metadata::from(FromPlatform {
        sender_name,
        sender_username: sender.and_then(|sender| sender.text("username")).map(str::to_owned),
        language: sender.and_then(language),
        sender_is_bot: gate::is_bot(message),
        signature: message.text("author_signature").map(str::to_owned),
        chat_type: Some(chat_type),
        chat_title: chat_title.as_deref().and_then(title::clean),
        topic_title: topic_title(message).as_deref().and_then(title::clean),
        reply_to: reply(message, bot),
        forward: forward(message),
        via_bot: message.object("via_bot").and_then(|bot| bot.text("username")).map(str::to_owned),
        links: links(message),
    });
    metadata.set_ids_of(Channel::Telegram, &Ids::of(message));
    metadata
}

/// Returns the metadata of a press of a button under a message of `chat` by `from`.
pub(super) fn of_press(from: JsonView<'_>, chat_type: ChatType, line: Option<&str>) -> Metadata {
    let mut metadata = Metadata::from(FromPlatform {
        sender_name: person_name(from),
        language: language(from),
        chat_type: Some(chat_type),
        ..FromPlatform::default()
    });
    let ids = Ids { business_connection_id: line.map(str::to_owned), ..Ids::default() };
    metadata.set_ids_of(Channel::Telegram, &ids);
    metadata
}

/// Returns the language of a person's Telegram, as an IETF tag.
fn language(person: JsonView<'_>) -> Option<String> {
    person.text("language_code").map(str::to_owned)
}

/// Returns the sender: the channel or group if Telegram used one of its own accounts as sender, otherwise the person.
pub(super) fn sender(message: JsonView<'_>) -> Option<JsonView<'_>> {
    let person = message.object("from").filter(|from| !gate::is_stand_in(*from));
    person.or_else(|| message.object("sender_chat")).or_else(|| message.object("from"))
}

/// Returns the name of a user, or the title of a chat.
fn display_name(who: JsonView<'_>) -> Option<String> {
    person_name(who).or_else(|| who.text("title").map(str::to_owned))
}

fn reply(message: JsonView<'_>, bot: &Bot) -> Option<Value> {
    let mut reply = Map::new();
    let original = message.object("reply_to_message").filter(|original| !service::is_topic_event(*original));
    if let Some(original) = original {
        put_id(&mut reply, "messageId", original, "message_id");
        let is_own = gate::is_reply_to(message, bot);
        let text = replied::words(&Content::said(original).parts, is_own);
        if !text.is_empty() {
            reply.insert("text".into(), text.into());
        }
        if let Some(name) = sender(original).and_then(display_name) {
            reply.insert("senderName".into(), name.into());
        }
        if gate::is_bot(original) {
            reply.insert("fromBot".into(), true.into());
        }
        if is_own {
            reply.insert("own".into(), true.into());
        }
    } else if let Some(external) = message.object("external_reply") {
        // A message of another chat: Telegram sends its media and other content, but of its text only the quoted part.
        put_id(&mut reply, "messageId", external, "message_id");
        if let Some(chat) = external.object("chat") {
            put_id(&mut reply, "chatId", chat, "id");
        }
        if let Some(name) = external.object("origin").and_then(origin_name) {
            reply.insert("senderName".into(), name.into());
        }
        let said: Vec<String> = external
            .fields()
            .filter(|(name, _)| !matches!(*name, "origin" | "chat"))
            .filter(|(_, value)| value.is_object() || value.is_array())
            .flat_map(|(_, value)| readable::strings(value))
            .collect();
        if !said.is_empty() {
            reply.insert("text".into(), replied::shortened(&said.join("\n"), false).into());
        }
    } else if let Some(story) = message.object("reply_to_story") {
        put_id(&mut reply, "storyId", story, "id");
        if let Some(name) = story.object("chat").and_then(display_name) {
            reply.insert("senderName".into(), name.into());
        }
    }
    if let Some(quote) = message.object("quote").and_then(|quote| quote.text("text")) {
        reply.insert("quote".into(), quote.into());
    }
    (!reply.is_empty()).then_some(Value::Object(reply))
}

/// Returns the origin of a forwarded message, by `forward_origin` or by the fields that it replaced in Bot API 7.0.
fn forward(message: JsonView<'_>) -> Option<Forward> {
    let (date, from, chat, id) = if let Some(origin) = message.object("forward_origin") {
        let chat = origin.object("chat").or_else(|| origin.object("sender_chat"));
        (origin.int("date"), origin_name(origin), chat, origin.int("message_id"))
    } else {
        let chat = message.object("forward_from_chat");
        let name = message.object("forward_from").and_then(display_name);
        let name = name.or_else(|| message.text("forward_sender_name").map(str::to_owned));
        let name = name.or_else(|| chat.and_then(display_name));
        (message.int("forward_date"), name, chat, message.int("forward_from_message_id"))
    };
    let forward = Forward {
        from,
        chat_id: chat.and_then(|chat| chat.int("id")).map(|id| id.to_string()),
        message_id: id.map(|id| id.to_string()),
        date: date.map(Timestamp::from_secs),
    };
    (forward != Forward::default()).then_some(forward)
}

/// Returns the name in a `MessageOrigin`.
fn origin_name(origin: JsonView<'_>) -> Option<String> {
    let named = ["sender_user", "chat", "sender_chat"].into_iter().find_map(|field| origin.object(field));
    named.and_then(display_name).or_else(|| origin.text("sender_user_name").map(str::to_owned))
}

/// Returns the links whose text is not the URL.
fn links(message: JsonView<'_>) -> Vec<Link> {
    entities(message)
        .filter(|entity| entity.kind == "text_link")
        .filter_map(|entity| {
            Some(Link { text: entity.words.to_owned(), url: entity.view.text("url")?.to_owned() })
        })
        .collect()
}

/// Returns the forum topic of `message`. A `message_thread_id` without `is_topic_message` is a thread of replies.
pub(super) fn topic(message: JsonView<'_>) -> Option<i64> {
    message.int("message_thread_id").filter(|_| message.flag("is_topic_message"))
}

/// Returns the name of the forum topic of `message`: that of an event about the topic, or on what people say the name that
/// the topic was created with, by the event that it replies to.
fn topic_title(message: JsonView<'_>) -> Option<String> {
    topic(message)?;
    let named = |of: JsonView<'_>, event| of.object(event)?.text("name").map(str::to_owned);
    let own = named(message, "forum_topic_edited").or_else(|| named(message, "forum_topic_created"));
    let is_event = !service::lines(message).is_empty();
    own.or_else(|| named(message.object("reply_to_message").filter(|_| !is_event)?, "forum_topic_created"))
}

/// Returns the person's topic of `message` in a channel's direct messages.
pub(super) fn direct_messages_topic(message: JsonView<'_>) -> Option<i64> {
    message.object("direct_messages_topic")?.int("topic_id")
}

fn put_id(map: &mut Map<String, Value>, name: &str, of: JsonView<'_>, field: &str) {
    if let Some(id) = of.int(field) {
        map.insert(name.into(), id.to_string().into());
    }
}
