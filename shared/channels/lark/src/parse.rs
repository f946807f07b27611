//! Parses an event: [`parse`], a pure function.
//!
//! Each event that holds a message becomes an [`Incoming`], including types that are newer than this code, so that no
//! text is lost. An event without a message becomes [`Incoming::Ignored`]: log it and return `200`.
//!
//! A message belongs to the Chat of its thread if it has a `thread_id` and its window is a group: in a topic group, and
//! in a group where somebody opened a thread under a message. In a p2p chat a thread is only a way to reply, and its
//! messages belong to the chat itself.
//!
//! Source: [events of messages and groups](https://open.feishu.cn/document/server-docs/im-v1/message/events/receive).

use annals_channel::json::JsonView;
use annals_channel::settings::Settings;
use annals_channel::webhook::{Incoming, ParseError, Places, ReadError};
use annals_core::chat_key::{ChatKey, Place};
use annals_core::draft::{Draft, Origin};
use annals_core::record::{Channel, Kind};
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use serde_json::{Value, json};

use super::bot::Bot;
use super::buttons;
use super::content::Content;
use super::event::{Envelope, Message, RECEIVED, RECEIVED_V1};
use super::user_id::user_ids;
use super::{gate, metadata};

/// Parses a decrypted event in the envelope of either schema. There is one result, since Lark sends one event per call.
pub fn parse(event: &Value, bot: &Bot, settings: &Settings) -> Result<Vec<Incoming>, ReadError> {
    let call = JsonView::of(event).ok_or(ReadError::NotAnEvent)?;
    let Some(envelope) = Envelope::of(call) else {
        return Ok(vec![Incoming::ignored("none", "the call contains no event")]);
    };
    let parser = Parser { bot, settings };
    let Envelope { kind, event, at } = envelope;
    let at = at.unwrap_or(Timestamp::MIN);
    let parsed = match kind {
        RECEIVED | RECEIVED_V1 => parser.message(envelope),
        buttons::PRESSED => match buttons::press(event, settings) {
            Some(press) => Ok(Incoming::Press(Box::new(press))),
            None => Err(ParseError("a button that is not from this program")),
        },
        "im.message.recalled_v1" => recall(event, at),
        "im.chat.member.bot.added_v1" | "add_bot" => membership(event, true, at),
        "im.chat.member.bot.deleted_v1" | "im.chat.disbanded_v1" | "remove_bot" | "chat_disband" => {
            membership(event, false, at)
        }
        "im.chat.access_event.bot_p2p_chat_entered_v1" | "p2p_chat_create" => parser.entered(event, at),
        _ => Err(ParseError("holds no message of a chat")),
    };
    Ok(vec![Incoming::parsed(kind, parsed)])
}

/// Returns true if [`parse`] needs the bot's `open_id` to decide if `event` addresses the bot or is a command after its
/// mention: if a single person or bot is mentioned. Without the id, the same event would get another meaning.
pub fn needs_open_id(event: &Value) -> bool {
    received(event).is_some_and(|message| gate::needs_open_id(&message))
}

/// Returns true if the time in `event` is that of its message. Otherwise, as in schema 1, two deliveries may differ,
/// and the time of the first has to be kept with `first_time`.
pub fn has_own_time(event: &Value) -> bool {
    let call = JsonView::of(event).and_then(Envelope::of);
    call.is_none_or(|envelope| match envelope.kind {
        RECEIVED_V1 => false,
        RECEIVED => Message::received(envelope.event).is_ok_and(|message| message.created.is_some()),
        _ => true,
    })
}

/// Returns the message of `event` if it opens a thread without naming it, as may happen in a topic group. The API
/// returns the `thread_id` of the message, with which [`with_thread`] completes the event.
pub fn missing_thread(event: &Value) -> Option<MessageId> {
    let is_topic_group =
        event.pointer("/event/message/chat_type").and_then(Value::as_str) == Some("topic_group");
    received(event).filter(|message| is_topic_group && message.thread_id.is_none()).map(|message| message.id)
}

/// Adds the thread of its message to `event`.
#[must_use]
pub fn with_thread(mut event: Value, thread_id: &str) -> Value {
    if let Some(Value::Object(message)) = event.pointer_mut("/event/message") {
        message.insert("thread_id".into(), json!(thread_id));
    }
    event
}

/// Returns the base of the record of `item`, which is the API's answer for a recalled message, and the chats that may
/// contain it, the most likely first. Returns `None` if the item is not a message or has no time.
///
/// The event of the recall names neither thread nor time, which are part of the key; the API still returns both:
///
/// ```json
/// {"message_id": "om_…", "chat_id": "oc_…", "thread_id": "omt_…", "create_time": "1764057600000", "deleted": true}
/// ```
///
/// There are several chats, since the API does not tell a p2p chat from a group, and a thread may have been opened
/// under a message after it was stored.
pub fn places(item: &Value, settings: &Settings) -> Option<(SortKey, Vec<ChatKey>)> {
    let message = Message::listed(JsonView::of(item)?).ok()?;
    let sender = message.sender.first().copied().filter(|_| !message.is_of_bot);
    let chats = chats(message.chat_id, message.thread_id, sender, settings).collect();
    Some((SortKey::message(message.created?, &message.id), chats))
}

/// Reads the message of an event of schema 2.
fn received(event: &Value) -> Option<Message<'_>> {
    let envelope = JsonView::of(event).and_then(Envelope::of).filter(|envelope| envelope.kind == RECEIVED)?;
    Message::received(envelope.event).ok()
}

/// Builds the record of `message` with this `content` in `chat`. It does not ask.
pub(super) fn draft(message: &Message<'_>, content: Content, chat: ChatKey) -> Draft {
    // A sender without any id gets the id of the window, so that the message counts as one of all its members.
    let user_id = message.sender.first().copied().unwrap_or(message.chat_id).to_owned();
    let origin = Origin { chat, channel: Channel::Lark, chat_id: message.chat_id.to_owned(), user_id };
    Draft::new(origin, message.id.clone(), message.created.unwrap_or(Timestamp::MIN))
        .with_form_ts(message.updated.or(message.created))
        .of_kind(if content.is_event { Kind::Event } else { Kind::Normal })
        .with_parts(content.parts)
        .with_metadata(metadata::of(message))
}

/// Returns the chats that a message of this window, thread and sender may be in, the most likely first: the chat of the
/// thread, of the window, and with `DM_SCOPE=user` of the person.
fn chats(
    chat_id: &str,
    thread_id: Option<&str>,
    sender: Option<&str>,
    settings: &Settings,
) -> impl Iterator<Item = ChatKey> {
    let thread = thread_id.and_then(|thread_id| {
        ChatKey::new(Place::LarkThread { chat_id: chat_id.into(), thread_id: thread_id.into() }).ok()
    });
    let window = ChatKey::new(Place::LarkChat { chat_id: chat_id.into() }).ok();
    let person = sender.and_then(|sender| settings.direct(Channel::Lark, sender).ok()?);
    thread.into_iter().chain(window).chain(person)
}

struct Parser<'a> {
    bot: &'a Bot,
    settings: &'a Settings,
}

impl Parser<'_> {
    fn message(&self, envelope: Envelope<'_>) -> Result<Incoming, ParseError> {
        let message = match envelope.kind {
            RECEIVED_V1 => Message::received_v1(envelope.event, envelope.at)?,
            _ => Message::received(envelope.event)?,
        };
        if gate::is_own(&message, self.bot) {
            return Err(ParseError("the bot's own message, which is already stored"));
        }
        let content = Content::of(&message);
        let command = gate::command(&message, &content, self.bot).filter(|_| !message.is_edit());
        let asks = gate::asks(&message, &content, self.bot);
        let draft = draft(&message, content, self.chat(&message)?);
        let draft = draft.asking_as(asks, self.settings.group_activation);
        let has_parent = draft.asks && metadata::parent_of(&draft.metadata).is_some();
        Ok(match command {
            Some(command) => Incoming::command(command, draft),
            None if has_parent || message.kind == "merge_forward" => Incoming::Partial(Box::new(draft)),
            None => Incoming::message(draft),
        })
    }

    fn entered(&self, event: JsonView<'_>, at: Timestamp) -> Result<Incoming, ParseError> {
        let chat_id = event.id("chat_id").or_else(|| event.id("open_chat_id")).ok_or(NO_CHAT)?;
        let person = event.object("operator_id").or_else(|| event.object("user")).map(user_ids);
        let person = person.and_then(|ids| ids.first().copied());
        Ok(Incoming::Membership { chat: self.window(chat_id, person)?, left: None, at })
    }

    fn chat(&self, message: &Message<'_>) -> Result<ChatKey, ParseError> {
        if message.is_p2p {
            return self.window(message.chat_id, message.sender.first().copied());
        }
        chats(message.chat_id, message.thread_id, None, self.settings).next().ok_or(ParseError(NO_CHAT))
    }

    /// Returns the chat of a person's p2p window with the bot.
    fn window(&self, chat_id: &str, person: Option<&str>) -> Result<ChatKey, ParseError> {
        let direct = person.map(|person| self.settings.direct(Channel::Lark, person)).transpose()?.flatten();
        let window = || chats(chat_id, None, None, self.settings).next();
        direct.or_else(window).ok_or(ParseError(NO_CHAT))
    }
}

const NO_CHAT: &str = "the event has no chat";

fn recall(event: JsonView<'_>, at: Timestamp) -> Result<Incoming, ParseError> {
    let chat_id = event.id("chat_id").ok_or(NO_CHAT)?;
    let message_id = event.text("message_id").and_then(|id| MessageId::new(id).ok());
    let message_id = message_id.ok_or("the event has no message")?;
    let window = ChatKey::new(Place::LarkChat { chat_id: chat_id.into() }).ok();
    let at = Some(event.time("recall_time").unwrap_or(at));
    let places = Places { exact: None, window };
    Ok(Incoming::Withdrawal { message_id, places, at, words: "[message recalled]" })
}

fn membership(event: JsonView<'_>, can_write: bool, at: Timestamp) -> Result<Incoming, ParseError> {
    let chat_id = event.id("chat_id").or_else(|| event.id("open_chat_id")).ok_or(NO_CHAT)?;
    let chat = ChatKey::new(Place::LarkChat { chat_id: chat_id.into() }).map_err(|_| NO_CHAT)?;
    let left = (!can_write).then_some("the bot was removed, or the group is gone");
    Ok(Incoming::Membership { chat, left, at })
}
