//! From an update of Telegram's to what it means for a history: [`parse`], a pure function.
//!
//! ```json
//! {"update_id": 1, "message": {"message_id": 42, "date": 1763765920, "text": "hello",
//!  "from": {"id": 7, "first_name": "Ada"}, "chat": {"id": 7, "type": "private"}}}
//! ```
//!
//! Each field of an update that holds a message becomes an [`Incoming`], also of kinds that came later than this
//! code, so that no text is lost; what holds none is [`Incoming::Ignored`], which is worth a line in the log and a
//! `200`.
//!
//! Source: [`Update`](https://core.telegram.org/bots/api#update).

use serde_json::Value;

use super::address::Posted;
use super::bot::Bot;
use super::content::Content;
use super::readable::person_name;
use super::update::{ChatType, Flavour, UpdateKind};
use super::{gate, metadata};
use crate::approval::Button;
use crate::channel::settings::{DmScope, Settings};
use crate::channel::view::View;
use crate::chat_key::{ChatKey, KeyError};
use crate::command::{self, Command};
use crate::message::Role;
use crate::record::{Channel, Draft, Kind};
use crate::sort_key::{MessageId, Timestamp};

/// What a part of an update means.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    /// To be recorded, and to be answered if it [asks](Draft::asks). An edit is a message like any other, with the
    /// id and the time of the message it is a form of.
    Message(Box<Draft>),
    /// To be acted on.
    Command {
        /// What to do.
        command: Command,
        /// The message as it was typed, which the boundary or notice is made of. It asks only if the command is
        /// `/new` with a first message.
        draft: Box<Draft>,
    },
    /// A group became a supergroup under a new id. Telegram tells both chats, so this comes twice, in any order.
    Migration {
        /// The group.
        old: ChatKey,
        /// The supergroup, whose history goes on from the group's.
        new: ChatKey,
        /// When.
        at: Timestamp,
        /// The service message, to be recorded in the chat that it stands in.
        event: Box<Draft>,
    },
    /// The bot was let into a chat, or put out; in a private chat: unblocked, or blocked.
    Membership {
        /// The chat.
        chat: ChatKey,
        /// Whether the bot may now write there.
        can_write: bool,
        /// When.
        at: Timestamp,
    },
    /// Somebody pressed a button that asks for an approval.
    Press(Box<Press>),
    /// Holds nothing to record.
    Ignored {
        /// The field's name in the update.
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
    /// What the press is answered by.
    pub callback_id: String,
    /// What it is under.
    pub under: Posted,
    /// What is left of the message's buttons without those of this request: `{"inline_keyboard": […]}`.
    pub left: Value,
}

/// Why an update cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The body is JSON but no object, and so not Telegram's: delivering it again changes nothing.
    #[error("an update must be a JSON object")]
    NotAnObject,
    /// `AGENT_ID` makes no chat key for a direct chat.
    #[error("AGENT_ID cannot be part of a chat key")]
    AgentId(#[source] KeyError),
}

/// What `update` means, in the order of its fields; in practice one thing, since Telegram sets one field.
pub fn parse(update: &Value, bot: &Bot, settings: &Settings) -> Result<Vec<Incoming>, ParseError> {
    let update = View::of(update).ok_or(ParseError::NotAnObject)?;
    let update_id = update.int("update_id");
    let mut found = Vec::new();
    for (name, value) in update.fields().filter(|(name, _)| *name != "update_id") {
        let parser = Parser { update_id, bot, settings };
        let parsed = match UpdateKind::of(name) {
            UpdateKind::Message(flavour) => parser.message(value, flavour, false),
            UpdateKind::Edit(flavour) => parser.message(value, flavour, true),
            UpdateKind::MyMembership => parser.membership(value),
            UpdateKind::Press => parser.press(value),
            UpdateKind::NoMessage => Err(Refusal::Ignored("holds no message of a chat")),
            UpdateKind::Unknown => parser.unknown(name, value),
        };
        found.push(match parsed {
            Ok(incoming) => incoming,
            Err(Refusal::Ignored(reason)) => ignored(name, reason),
            Err(Refusal::Settings(error)) => return Err(ParseError::AgentId(error)),
        });
    }
    if found.is_empty() {
        found.push(ignored("none", "the update has no kind"));
    }
    Ok(found)
}

/// Whether [`parse`] needs the bot's name to tell if `update` addresses it: where a group is written to with a
/// mention, or any chat with a command that has an `@`.
pub fn needs_username(update: &Value) -> bool {
    View::of(update).is_some_and(|update| {
        update.fields().any(|(name, value)| {
            let (UpdateKind::Message(flavour) | UpdateKind::Edit(flavour)) = UpdateKind::of(name) else {
                return false;
            };
            let Some(message) = View::of(value) else { return false };
            message.object("chat").is_some_and(|chat| gate::needs_username(message, chat, flavour))
        })
    })
}

enum Refusal {
    Ignored(&'static str),
    Settings(KeyError),
}

impl From<KeyError> for Refusal {
    fn from(error: KeyError) -> Self {
        Self::Settings(error)
    }
}

fn ignored(kind: &str, reason: &str) -> Incoming {
    Incoming::Ignored { kind: kind.into(), reason: reason.into() }
}

struct Parser<'a> {
    update_id: Option<i64>,
    bot: &'a Bot,
    settings: &'a Settings,
}

impl Parser<'_> {
    fn message(&self, value: &Value, flavour: Flavour, is_edit: bool) -> Result<Incoming, Refusal> {
        let message = View::of(value).ok_or(Refusal::Ignored("the message is no object"))?;
        let chat = message.object("chat").ok_or(Refusal::Ignored("the message has no chat"))?;
        let mut draft = self.draft(message, chat, flavour)?;

        if flavour == Flavour::Business && sender_business_bot(message) == Some(self.bot.id) {
            return Err(Refusal::Ignored("the bot's own reply, which its history has"));
        }
        if let Some((old, new)) = migration(message, chat) {
            let (old, new) = (ChatKey::telegram(old, None), ChatKey::telegram(new, None));
            return Ok(Incoming::Migration { old, new, at: draft.ts, event: Box::new(draft) });
        }
        if !is_edit && let Some(command) = self.command(message, chat, flavour, &draft) {
            draft.asks = matches!(command, Command::New { first_message: Some(_) });
            return Ok(Incoming::Command { command, draft: Box::new(draft) });
        }
        // A live location is edited every few seconds.
        draft.asks &= !(is_edit && message.has("location"));
        Ok(Incoming::Message(Box::new(draft)))
    }

    /// A kind of a later Bot API: recorded if it looks like a message, so that no text is lost; never answered.
    fn unknown(&self, name: &str, value: &Value) -> Result<Incoming, Refusal> {
        let message = View::of(value).filter(|view| view.has("message_id") || view.has("date"));
        let chat = message.and_then(|message| message.object("chat"));
        let (Some(message), Some(chat)) = (message, chat) else {
            return Err(Refusal::Ignored("an unknown kind that holds no message"));
        };
        let is_named_so = name.ends_with("message") || name.ends_with("post");
        if !is_named_so && Content::of(message).is_event {
            return Err(Refusal::Ignored("an unknown kind that says nothing"));
        }
        Ok(Incoming::Message(Box::new(self.draft(message, chat, Flavour::Unknown)?)))
    }

    fn membership(&self, value: &Value) -> Result<Incoming, Refusal> {
        let change = View::of(value).ok_or(Refusal::Ignored("the change is no object"))?;
        let chat = change.object("chat").ok_or(Refusal::Ignored("the change has no chat"))?;
        let chat_id = chat.int("id").ok_or(Refusal::Ignored("the chat has no id"))?;
        let member =
            change.object("new_chat_member").ok_or(Refusal::Ignored("the change has no new member"))?;
        let can_write = match member.text("status") {
            Some("creator" | "administrator" | "member") => true,
            Some("restricted") => member.flag("can_send_messages"),
            Some("left" | "kicked") => false,
            _ => return Err(Refusal::Ignored("the member's status is unknown")),
        };
        let chat = self.chat_key(chat_id, ChatType::of(chat, Flavour::Own), Flavour::Own, None)?;
        Ok(Incoming::Membership { chat, can_write, at: seconds(change, "date").unwrap_or(Timestamp::MIN) })
    }

    /// A press on a button of ours. The message under which it is may be out of Telegram's reach by now; then it says no
    /// more than where it is.
    fn press(&self, value: &Value) -> Result<Incoming, Refusal> {
        const NOT_OURS: Refusal = Refusal::Ignored("holds no message of a chat");
        let press = View::of(value).ok_or(NOT_OURS)?;
        let button = press.text("data").and_then(Button::parse).ok_or(NOT_OURS)?;
        let (Some(callback_id), Some(from), Some(message)) =
            (press.text("id"), press.object("from"), press.object("message"))
        else {
            return Err(NOT_OURS);
        };
        let chat = message.object("chat").ok_or(NOT_OURS)?;
        let (Some(chat_id), Some(message_id), Some(user_id)) =
            (chat.int("id"), message.int("message_id"), from.int("id"))
        else {
            return Err(NOT_OURS);
        };
        let topic = metadata::topic(message).or_else(|| metadata::direct_messages_topic(message));
        let line = message.text("business_connection_id");
        let flavour = if line.is_some() { Flavour::Business } else { Flavour::Own };
        let chat_type = ChatType::of(chat, flavour);
        let mut said = serde_json::Map::new();
        if let Some(name) = person_name(from) {
            said.insert("senderName".into(), name.into());
        }
        said.insert("chatType".into(), chat_type.as_str().into());
        if let Some(line) = line {
            said.insert("telegram".into(), serde_json::json!({ "businessConnectionId": line }));
        }
        let rows = message.object("reply_markup").and_then(|markup| markup.raw("inline_keyboard"));
        let rows = rows.and_then(Value::as_array).cloned().unwrap_or_default();
        let is_other = |row: &Value| {
            let mut data =
                row.as_array().into_iter().flatten().filter_map(|button| button.get("callback_data"));
            !data.any(|data| data.as_str().and_then(Button::parse).is_some_and(|b| b.id == button.id))
        };
        let left: Vec<Value> = rows.into_iter().filter(is_other).collect();
        let by = Draft {
            chat: self.chat_key(chat_id, chat_type, flavour, topic)?,
            channel: Channel::Telegram,
            chat_id: chat_id.to_string(),
            user_id: user_id.to_string(),
            message_id: MessageId::new(format!("press-{callback_id}")).map_err(|_| NOT_OURS)?,
            ts: Timestamp::MIN,
            form_ts: None,
            role: Role::User,
            kind: Kind::Notice,
            parts: Vec::new(),
            metadata: said,
            album: None,
            asks: false,
            opens_session: false,
            person: None,
        };
        let business_connection_id = line.map(str::to_owned);
        let under = Posted { chat_id, message_id, business_connection_id };
        let left = serde_json::json!({ "inline_keyboard": left });
        Ok(Incoming::Press(Box::new(Press { button, by, callback_id: callback_id.to_owned(), under, left })))
    }

    fn draft(&self, message: View<'_>, chat: View<'_>, flavour: Flavour) -> Result<Draft, Refusal> {
        let chat_id = chat.int("id").ok_or(Refusal::Ignored("the chat has no id"))?;
        let topic = metadata::topic(message).or_else(|| metadata::direct_messages_topic(message));
        let content = Content::of(message);
        let sender = metadata::sender(message).and_then(|sender| sender.int("id"));
        let is_own = gate::is_bot(message) && sender == Some(self.bot.id);
        let date = seconds(message, "date");
        Ok(Draft {
            chat: self.chat_key(chat_id, ChatType::of(chat, flavour), flavour, topic)?,
            channel: Channel::Telegram,
            chat_id: chat_id.to_string(),
            user_id: sender.unwrap_or(chat_id).to_string(),
            message_id: self.message_id(message)?,
            ts: date.unwrap_or(Timestamp::MIN),
            // A message that was edited before it was delivered comes once, and not as an edit.
            form_ts: seconds(message, "edit_date").or(date),
            role: if is_own && !content.is_event { Role::Assistant } else { Role::User },
            kind: if content.is_event { Kind::Event } else { Kind::Normal },
            asks: !content.is_event && gate::asks(message, chat, flavour, self.bot, self.settings),
            parts: content.parts,
            metadata: metadata::of(message, chat, flavour),
            album: message.scalar("media_group_id"),
            opens_session: false,
            person: None,
        })
    }

    fn chat_key(
        &self,
        chat_id: i64,
        chat_type: ChatType,
        flavour: Flavour,
        topic: Option<i64>,
    ) -> Result<ChatKey, Refusal> {
        let is_direct = chat_type == ChatType::Private && flavour == Flavour::Own;
        if is_direct && self.settings.dm_scope == DmScope::User {
            // The id of a private chat is the person's.
            return Ok(ChatKey::direct(&self.settings.agent_id, &format!("telegram-{chat_id}"))?);
        }
        Ok(ChatKey::telegram(chat_id, topic))
    }

    /// `message_id`, or the update's id where the message has none (ephemeral and scheduled messages have 0).
    fn message_id(&self, message: View<'_>) -> Result<MessageId, Refusal> {
        let id = message.int("message_id").and_then(|id| u64::try_from(id).ok()).filter(|id| *id != 0);
        let of_update = || MessageId::new(format!("u{}", self.update_id?)).ok();
        id.map(MessageId::number)
            .or_else(of_update)
            .ok_or(Refusal::Ignored("neither message nor update has an id"))
    }

    /// The command that a text is; a caption is none, since its medium would be lost with it.
    fn command(&self, message: View<'_>, chat: View<'_>, flavour: Flavour, draft: &Draft) -> Option<Command> {
        let text = message.text("text").filter(|_| draft.kind == Kind::Normal)?;
        // Somebody else wrote what is forwarded, or what an inline bot sends in the name of who taps it.
        if ["forward_origin", "forward_date", "via_bot"].iter().any(|field| message.has(field)) {
            return None;
        }
        if !gate::starts_with_command(message) || !gate::may_ask(message, chat, flavour, self.bot) {
            return None;
        }
        let is_private = ChatType::of(chat, flavour) == ChatType::Private;
        // With nobody else to address, an unknown name is taken for the bot's.
        let me = self.bot.username.as_deref().or_else(|| command::addressee(text).filter(|_| is_private));
        Command::parse(text, me)
    }
}

/// The old and the new id of a group that `message` says has become a supergroup.
fn migration(message: View<'_>, chat: View<'_>) -> Option<(i64, i64)> {
    let here = chat.int("id")?;
    let to = message.int("migrate_to_chat_id").map(|new| (here, new));
    let from = || message.int("migrate_from_chat_id").map(|old| (old, here));
    to.or_else(from).filter(|(old, new)| old != new)
}

fn sender_business_bot(message: View<'_>) -> Option<i64> {
    message.object("sender_business_bot")?.int("id")
}

fn seconds(view: View<'_>, field: &str) -> Option<Timestamp> {
    view.int(field).map(Timestamp::from_secs)
}
