//! From an event of Lark's to what it means for a history: [`parse`], a pure function.
//!
//! Each event that holds a message becomes an [`Incoming`], also of types that came later than this code, so that no
//! text is lost; what holds none is [`Incoming::Ignored`], which is worth a line in the log and a `200`.
//!
//! A message is in the Chat of its thread where it has a `thread_id` and its window is a group: that is what makes a
//! topic, in a topic group as in a group where somebody opened a thread under a message. In a p2p chat a thread is
//! only a way to reply, and its messages are the Chat's own.
//!
//! Source: [events of messages and groups](https://open.feishu.cn/document/server-docs/im-v1/message/events/receive).

use serde_json::{Value, json};

use super::bot::Bot;
use super::content::Content;
use super::event::{Envelope, Message, RECEIVED, RECEIVED_V1, user_ids};
use super::{card, gate, metadata};
use crate::approval::Button;
use crate::channel::settings::{DmScope, Settings};
use crate::channel::view::View;
use crate::chat_key::{ChatKey, KeyError, Place};
use crate::command::Command;
use crate::message::Role;
use crate::record::{Channel, Draft, Kind};
use crate::sort_key::{MessageId, Timestamp};

/// What an event means.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    /// To be recorded, and to be answered if it [asks](Draft::asks). An edit is a message like any other, with the
    /// id and the time of the message it is a form of.
    Message(Box<Draft>),
    /// A message that holds others, which only the API gives: to be completed by
    /// [`with_children`](super::listed::with_children), then treated like [`Incoming::Message`].
    MergeForward(Box<Draft>),
    /// To be acted on.
    Command {
        /// What to do.
        command: Command,
        /// The message as it was typed, which the boundary or notice is made of. It asks only if the command is
        /// `/new` with a first message.
        draft: Box<Draft>,
    },
    /// A message was taken back: to become a later form of its record, by [`recalled`](super::recall::recalled). The
    /// event does not say in which thread of the window it stood, nor when it was sent.
    Recall {
        /// The window.
        chat_id: String,
        /// The message.
        message_id: MessageId,
        /// When.
        at: Timestamp,
    },
    /// The bot was let into a group, or put out, or the group was disbanded.
    Membership {
        /// The group; not the threads in it.
        chat: ChatKey,
        /// Whether the bot can write there from now on.
        can_write: bool,
        /// When.
        at: Timestamp,
    },
    /// A person opened the p2p chat with the bot: it can write there.
    Entered {
        /// The chat.
        chat: ChatKey,
        /// When.
        at: Timestamp,
    },
    /// Somebody pressed a button that asks for an approval.
    Press(Box<Press>),
    /// Holds nothing to record.
    Ignored {
        /// The event's type.
        kind: String,
        /// Why, without any of its text.
        reason: String,
    },
}

/// A button that was pressed.
#[derive(Clone, Debug, PartialEq)]
pub struct Press {
    /// Which.
    pub button: Button,
    /// Who pressed it, and where, as a message would say.
    pub by: Draft,
}

/// Why an event cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The body is JSON but no object, and so not Lark's: delivering it again changes nothing.
    #[error("an event must be a JSON object")]
    NotAnObject,
    /// `AGENT_ID` makes no chat key for a direct chat.
    #[error("AGENT_ID cannot be part of a chat key")]
    AgentId(#[source] KeyError),
}

/// What `event`, in the envelope of either schema and decrypted, means: one thing, since Lark sends one event a call.
pub fn parse(event: &Value, bot: &Bot, settings: &Settings) -> Result<Vec<Incoming>, ParseError> {
    let call = View::of(event).ok_or(ParseError::NotAnObject)?;
    let Some(envelope) = Envelope::of(call) else {
        return Ok(vec![ignored("none", "the call holds no event")]);
    };
    let parser = Parser { bot, settings };
    let Envelope { kind, event, at } = envelope;
    let at = at.unwrap_or(Timestamp::MIN);
    let parsed = match kind {
        RECEIVED | RECEIVED_V1 => parser.message(envelope),
        card::PRESSED => match card::press(event) {
            Some(press) => Ok(Incoming::Press(Box::new(press))),
            None => Err(Refusal::Ignored("a button that is none of ours")),
        },
        "im.message.recalled_v1" => recall(event, at),
        "im.chat.member.bot.added_v1" | "add_bot" => membership(event, true, at),
        "im.chat.member.bot.deleted_v1" | "im.chat.disbanded_v1" | "remove_bot" | "chat_disband" => {
            membership(event, false, at)
        }
        "im.chat.access_event.bot_p2p_chat_entered_v1" | "p2p_chat_create" => parser.entered(event, at),
        _ => Err(Refusal::Ignored("holds no message of a chat")),
    };
    match parsed {
        Ok(incoming) => Ok(vec![incoming]),
        Err(Refusal::Ignored(reason)) => Ok(vec![ignored(kind, reason)]),
        Err(Refusal::Settings(error)) => Err(ParseError::AgentId(error)),
    }
}

/// Whether [`parse`] needs the bot's `open_id` to tell if `event` addresses it, or is a command behind its mention:
/// where somebody in particular is mentioned. With the id known or not, the same event would mean two things.
pub fn needs_open_id(event: &Value) -> bool {
    received(event).is_some_and(|message| gate::needs_open_id(&message))
}

/// Whether the time in `event` is its message's own. Where it is not, as in schema 1, it may differ between two
/// deliveries, and the first is to be kept by [`first_time`](crate::history::History::first_time).
pub fn has_own_time(event: &Value) -> bool {
    let call = View::of(event).and_then(Envelope::of);
    call.is_none_or(|envelope| match envelope.kind {
        RECEIVED_V1 => false,
        RECEIVED => Message::received(envelope.event).is_ok_and(|message| message.created.is_some()),
        _ => true,
    })
}

/// The message of `event` where it opens a topic and does not say which, as may happen in a topic group. The API
/// knows: with the `thread_id` that it gives for the message, [`with_thread`] completes the event.
pub fn missing_thread(event: &Value) -> Option<MessageId> {
    let is_topic_group =
        event.pointer("/event/message/chat_type").and_then(Value::as_str) == Some("topic_group");
    received(event).filter(|message| is_topic_group && message.thread_id.is_none()).map(|message| message.id)
}

/// `event` with the topic that its message is in.
#[must_use]
pub fn with_thread(mut event: Value, thread_id: &str) -> Value {
    if let Some(Value::Object(message)) = event.pointer_mut("/event/message") {
        message.insert("thread_id".into(), json!(thread_id));
    }
    event
}

/// The message of an event of schema 2.
fn received(event: &Value) -> Option<Message<'_>> {
    let envelope = View::of(event).and_then(Envelope::of).filter(|envelope| envelope.kind == RECEIVED)?;
    Message::received(envelope.event).ok()
}

/// The record that `message`, which says `content`, becomes in `chat`.
pub(super) fn draft(message: &Message<'_>, content: Content, chat: ChatKey, asks: bool) -> Draft {
    // A sender without any id is known by the window, as a message of everybody in it.
    let user_id = message.sender.first().copied().unwrap_or(message.chat_id).to_owned();
    Draft {
        chat,
        channel: Channel::Lark,
        chat_id: message.chat_id.to_owned(),
        user_id,
        message_id: message.id.clone(),
        ts: message.created.unwrap_or(Timestamp::MIN),
        form_ts: message.updated.or(message.created),
        role: Role::User,
        kind: if content.is_event { Kind::Event } else { Kind::Normal },
        parts: content.parts,
        metadata: metadata::of(message),
        album: None,
        asks,
        opens_session: false,
        person: None,
    }
}

/// The chats that a message of this window, thread and sender can be in, the likeliest first: that of the thread, of
/// the window, and under `DM_SCOPE=user` of the person.
pub(super) fn chats(
    chat_id: &str,
    thread_id: Option<&str>,
    sender: Option<&str>,
    settings: &Settings,
) -> impl Iterator<Item = ChatKey> {
    let thread = thread_id.and_then(|thread_id| {
        ChatKey::new(Place::LarkThread { chat_id: chat_id.into(), thread_id: thread_id.into() }).ok()
    });
    let window = ChatKey::new(Place::LarkChat { chat_id: chat_id.into() }).ok();
    let person = sender.filter(|_| settings.dm_scope == DmScope::User);
    thread.into_iter().chain(window).chain(person.and_then(|sender| direct(sender, settings).ok()))
}

/// The chat of a person under `DM_SCOPE=user`.
fn direct(open_id: &str, settings: &Settings) -> Result<ChatKey, KeyError> {
    ChatKey::direct(&settings.agent_id, &format!("lark-{open_id}"))
}

enum Refusal {
    Ignored(&'static str),
    Settings(KeyError),
}

impl From<&'static str> for Refusal {
    fn from(reason: &'static str) -> Self {
        Self::Ignored(reason)
    }
}

fn ignored(kind: &str, reason: &str) -> Incoming {
    Incoming::Ignored { kind: kind.into(), reason: reason.into() }
}

struct Parser<'a> {
    bot: &'a Bot,
    settings: &'a Settings,
}

impl Parser<'_> {
    fn message(&self, envelope: Envelope<'_>) -> Result<Incoming, Refusal> {
        let message = match envelope.kind {
            RECEIVED_V1 => Message::received_v1(envelope.event, envelope.at)?,
            _ => Message::received(envelope.event)?,
        };
        if gate::is_own(&message, self.bot) {
            return Err(Refusal::Ignored("the bot's own message, which its history has"));
        }
        let content = Content::of(&message);
        let command = gate::command(&message, &content, self.bot).filter(|_| !message.is_edit());
        let asks = match &command {
            Some(command) => matches!(command, Command::New { first_message: Some(_) }),
            None => gate::asks(&message, &content, self.bot, self.settings),
        };
        let draft = Box::new(draft(&message, content, self.chat(&message)?, asks));
        Ok(match command {
            Some(command) => Incoming::Command { command, draft },
            None if message.kind == "merge_forward" => Incoming::MergeForward(draft),
            None => Incoming::Message(draft),
        })
    }

    fn entered(&self, event: View<'_>, at: Timestamp) -> Result<Incoming, Refusal> {
        let chat_id = event.id("chat_id").or_else(|| event.id("open_chat_id")).ok_or(NO_CHAT)?;
        let person = event.object("operator_id").or_else(|| event.object("user")).map(user_ids);
        let person = person.and_then(|ids| ids.first().copied());
        Ok(Incoming::Entered { chat: self.window(chat_id, person)?, at })
    }

    fn chat(&self, message: &Message<'_>) -> Result<ChatKey, Refusal> {
        if message.is_p2p {
            return self.window(message.chat_id, message.sender.first().copied());
        }
        chats(message.chat_id, message.thread_id, None, self.settings).next().ok_or(Refusal::Ignored(NO_CHAT))
    }

    /// The chat of a person's p2p window with the bot.
    fn window(&self, chat_id: &str, person: Option<&str>) -> Result<ChatKey, Refusal> {
        match person {
            Some(person) if self.settings.dm_scope == DmScope::User => {
                direct(person, self.settings).map_err(Refusal::Settings)
            }
            _ => chats(chat_id, None, None, self.settings).next().ok_or(Refusal::Ignored(NO_CHAT)),
        }
    }
}

const NO_CHAT: &str = "the event has no chat";

fn recall(event: View<'_>, at: Timestamp) -> Result<Incoming, Refusal> {
    let chat_id = event.id("chat_id").ok_or(NO_CHAT)?.to_owned();
    let message_id = event.text("message_id").and_then(|id| MessageId::new(id).ok());
    let message_id = message_id.ok_or("the event has no message")?;
    Ok(Incoming::Recall { chat_id, message_id, at: event.time("recall_time").unwrap_or(at) })
}

fn membership(event: View<'_>, can_write: bool, at: Timestamp) -> Result<Incoming, Refusal> {
    let chat_id = event.id("chat_id").or_else(|| event.id("open_chat_id")).ok_or(NO_CHAT)?;
    let chat = ChatKey::new(Place::LarkChat { chat_id: chat_id.into() }).map_err(|_| NO_CHAT)?;
    Ok(Incoming::Membership { chat, can_write, at })
}
