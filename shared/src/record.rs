//! What a history is made of: [`Draft`] on the way in, [`Record`] once stored.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::chat_key::{ActorKey, ChatKey, KeyError};
use crate::message::{Part, Role, UiMessage};
use crate::sort_key::{MessageId, SortKey, Timestamp};

/// The door that a message came in by, or that a reply goes out by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// A Telegram bot.
    Telegram,
    /// A Lark (Feishu) bot.
    Lark,
    /// A Discord application. Not in the code yet.
    Discord,
    /// The HTTP API.
    Http,
    /// `useChat` of the AI SDK.
    Web,
    /// `annals chat`, on the machine that the program runs on.
    Terminal,
}

impl Channel {
    /// Whether its people send what they have to say in several messages, one close behind the other: of the doors where
    /// programs write, each message is one.
    pub fn has_bursts(self) -> bool {
        matches!(self, Self::Telegram | Self::Lark)
    }

    /// Returns whether callers choose the ids of messages and name the user, so that one may repeat another user's id.
    pub fn lets_callers_name_messages(self) -> bool {
        matches!(self, Self::Http | Self::Web)
    }
}

/// What a notice that covers what nobody answers any more has in its metadata: the id of the `/stop`.
pub const STOPPED_BY: &str = "stoppedBy";

/// What a message that was said again has in its metadata: the key from where on it replaces what was said.
pub const REPLACES_FROM: &str = "replacesFrom";

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A message of a person or a reply of the agent.
    Normal,
    /// What a platform says happened (a title changed, somebody joined): in the Context, but no interaction.
    Event,
    /// A later form of an earlier message.
    Revision,
    /// A summary that stands for the messages that it counts.
    Summary,
    /// The start of a new Session (`/new`, `/reset`): listed, never in the Context.
    Boundary,
    /// A command that is no boundary, a confirmation or a failure notice: listed, never in the Context.
    Notice,
}

macro_rules! string_enum {
    ($type:ident { $($variant:ident => $name:literal),+ $(,)? }) => {
        impl $type {
            /// The name as stored and listed.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
        impl FromStr for $type {
            type Err = UnknownName;
            fn from_str(name: &str) -> Result<Self, UnknownName> {
                match name { $($name => Ok(Self::$variant),)+ _ => Err(UnknownName(name.to_owned())) }
            }
        }
    };
}
string_enum!(Channel {
    Telegram => "telegram", Lark => "lark", Discord => "discord", Http => "http", Web => "web", Terminal => "terminal",
});
string_enum!(Kind {
    Normal => "normal", Event => "event", Revision => "revision", Summary => "summary", Boundary => "boundary",
    Notice => "notice",
});

/// A stored name that this version does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown name {0:?}")]
pub struct UnknownName(String);

/// A message as a door hands it in: everything about its record that comes from the event alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The chat it belongs to.
    pub chat: ChatKey,
    /// The door.
    pub channel: Channel,
    /// The platform's id of the window, which a reply is sent to.
    pub chat_id: String,
    /// The platform's bare id of who speaks.
    pub user_id: String,
    /// Unique in the chat.
    pub message_id: MessageId,
    /// When it was said, by the event.
    pub ts: Timestamp,
    /// When this form of it was made, where the platform says so: orders the forms of one message, so that a late
    /// redelivery of an older form is met as the duplicate it is.
    pub form_ts: Option<Timestamp>,
    /// Who speaks.
    pub role: Role,
    /// [`Kind::Normal`], [`Kind::Event`] or [`Kind::Boundary`].
    pub kind: Kind,
    /// What is said.
    pub parts: Vec<Part>,
    /// What the platform says about it: `senderName`, `chatType`, `replyTo`, `forward`, …
    pub metadata: Map<String, Value>,
    /// The platform's id of the album that it is one item of.
    pub album: Option<String>,
    /// Whether it asks the agent for an answer.
    pub asks: bool,
    /// Whether it is the text that came with a boundary of the same id, and so stands directly behind it.
    pub opens_session: bool,
    /// See [`Record::person`].
    pub person: Option<String>,
}

/// Returns the Person that a sender is, across channels: `person` if the channel names one, else `telegram-<id>`,
/// `lark-<open_id>`, `discord-<id>`, or the bare `userId`.
fn person_of_sender(channel: Channel, user_id: &str, person: Option<&str>) -> String {
    match (person, channel) {
        (Some(person), _) => person.to_owned(),
        (None, Channel::Telegram | Channel::Lark | Channel::Discord) => format!("{channel}-{user_id}"),
        (None, Channel::Http | Channel::Web | Channel::Terminal) => user_id.to_owned(),
    }
}

impl Draft {
    /// Returns the Person who sent it: see `ADMINS` and `ALLOW_FROM`.
    pub fn sender(&self) -> String {
        person_of_sender(self.channel, &self.user_id, self.person.as_deref())
    }

    /// Returns it as a message that asks nothing: what somebody says who may not use the bot.
    #[must_use]
    pub fn as_context(&self) -> Self {
        Self { asks: false, ..self.clone() }
    }

    /// Where it is stored, unless another form of it is there already.
    pub fn key(&self) -> SortKey {
        let base = SortKey::message(self.ts, &self.message_id);
        if self.opens_session { base.opening_message() } else { base }
    }

    /// Who speaks, as a key.
    pub fn actor(&self) -> Result<ActorKey, KeyError> {
        ActorKey::new(self.chat.clone(), &self.user_id)
    }
}

impl From<&Record> for Draft {
    /// The draft that a message's record was made of, for what else is to be made beside it.
    fn from(record: &Record) -> Self {
        Self {
            chat: record.chat.clone(),
            channel: record.channel,
            chat_id: record.chat_id.clone(),
            user_id: record.user_id.clone(),
            message_id: record.message_id.clone(),
            ts: record.ts,
            form_ts: record.form_ts,
            role: record.role(),
            kind: record.kind,
            parts: record.message.parts.clone(),
            metadata: record.message.metadata.clone(),
            album: record.album.clone(),
            asks: record.asks,
            opens_session: record.key == record.key.base().opening_message(),
            person: record.person.clone(),
        }
    }
}

/// Why a reply did not reach its platform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryFailure {
    /// What the platform said.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

/// How far ahead of our clock a message's time may be. The HTTP API refuses what is further ahead; of a platform it is
/// taken, and does not count as said in the future.
pub const MAX_AHEAD: Duration = Duration::from_mins(5);

/// What a summary stands for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// The first message, those of a folded earlier summary included.
    pub from: SortKey,
    /// That message's id.
    pub from_id: MessageId,
    /// The last message, or reply.
    pub to: SortKey,
    /// That message's id.
    pub to_id: MessageId,
    /// How many user and assistant messages, those of a folded earlier summary included.
    pub count: u32,
    /// When a person last spoke among them, those of a folded earlier summary included.
    pub last_interaction: Timestamp,
    /// When the records that it was made of were read; not known of summaries of versions before 0.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_at: Option<Timestamp>,
    /// What it counts beyond the earlier summary that it folds, in order: the bases of messages, the keys of replies.
    /// What is not here, though its time lies in the range, is new.
    pub counts: Vec<SortKey>,
}

/// One stored entry of a history, as read back.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The chat it is stored under; an earlier name of the chat for records from before a migration.
    pub chat: ChatKey,
    /// Where it stands.
    pub key: SortKey,
    /// The door.
    pub channel: Channel,
    /// The platform's id of the window.
    pub chat_id: String,
    /// The platform's bare id of who speaks; the agent's id on replies.
    pub user_id: String,
    /// The message's own id, shared by all its forms.
    pub message_id: MessageId,
    /// The time of its place: its own, or on a reply that of the newest message it covers.
    pub ts: Timestamp,
    /// The clock's time when it was appended.
    pub sent_at: Timestamp,
    /// See [`Draft::form_ts`].
    pub form_ts: Option<Timestamp>,
    /// Which form of the message this is: 0 the first, then 1, 2, …
    pub revision: u32,
    /// What it is.
    pub kind: Kind,
    /// The message, with the platform's metadata.
    pub message: UiMessage,
    /// The token estimate of `message`.
    pub tokens: u32,
    /// When it may leave the table, in epoch seconds; never where absent.
    pub expires_at: Option<i64>,
    /// See [`Draft::album`].
    pub album: Option<String>,
    /// Whether it asks for an answer.
    pub asks: bool,
    /// On replies and failure notices: the bases of the messages that it answers.
    pub covers: Vec<SortKey>,
    /// On replies: why delivery ended without success.
    pub delivery_failure: Option<DeliveryFailure>,
    /// On summaries: what it stands for.
    pub source: Option<Source>,
    /// Who speaks, as one person through every door, where neither chat nor channel tell: an HTTP caller's user, as
    /// `<keyName>/<userId>`, or the bare `userId` of an admin key. On a summary: the one person that it speaks of.
    pub person: Option<String>,
}

impl Record {
    /// Returns the Person who sent it, as [`Draft::sender`] does.
    pub fn sender(&self) -> String {
        person_of_sender(self.channel, &self.user_id, self.person.as_deref())
    }

    /// Who speaks.
    pub fn role(&self) -> Role {
        self.message.role
    }

    /// Returns whether its platform's clock was ahead of ours by more than clocks differ.
    pub fn is_ahead(&self) -> bool {
        self.ts > self.sent_at.plus(MAX_AHEAD)
    }

    /// When it was said: its own time, but not later than it arrived.
    pub fn said_at(&self) -> Timestamp {
        if self.is_ahead() { self.sent_at } else { self.ts }
    }

    /// Where it stands among what was said: at its own key, or if its platform's clock was ahead, where it arrived.
    pub fn place(&self) -> SortKey {
        if self.is_ahead() { SortKey::start_of(self.sent_at) } else { self.key.base() }
    }

    /// Whether this is a person's own message: what keeps a Session fresh.
    pub fn is_interaction(&self) -> bool {
        self.role() == Role::User && matches!(self.kind, Kind::Normal | Kind::Revision)
    }

    /// Which of the lines of its chat it belongs to: the business connection that it came by, or `None` for what is
    /// said to the bot itself. Telegram numbers a person's chat with a business and with the bot alike.
    pub fn line(&self) -> Option<&str> {
        self.message.metadata.get("telegram")?.get("businessConnectionId")?.as_str()
    }

    /// The id of the `/stop` that this notice covers its messages for.
    pub fn stopped_by(&self) -> Option<&str> {
        self.message.metadata.get(STOPPED_BY)?.as_str()
    }

    /// From where on this message, an edit or another try, stands for what was said up to it; see
    /// [`crate::history::History::append_again`].
    pub fn replaces_from(&self) -> Option<SortKey> {
        if self.role() != Role::User {
            return None;
        }
        self.message.metadata.get(REPLACES_FROM)?.as_str()?.parse().ok()
    }

    /// Puts a reply on this message's line.
    pub fn copy_line_to(&self, metadata: &mut Map<String, Value>) {
        if let Some(line) = self.line() {
            metadata.insert("telegram".into(), json!({ "businessConnectionId": line }));
        }
    }

    /// Whether the chat is one of several people, by what the platform said.
    pub fn is_group(&self) -> bool {
        matches!(self.message.metadata.get("chatType").and_then(Value::as_str), Some("group" | "supergroup"))
    }

    /// The message as readers get it: listed id (`<messageId>@<n>` for revision n), and in `metadata` beside what
    /// the platform said `ts, chatKey, channel, chatId, userId, actorKey, messageId, kind`, on replies `sentAt`, on
    /// summaries `sourceRange {fromId, toId, count}`.
    pub fn listed(&self) -> UiMessage {
        let mut message = self.message.clone();
        message.id = match self.revision {
            0 => self.message_id.to_string(),
            n => format!("{}@{n}", self.message_id),
        };
        let actor = ActorKey::new(self.chat.clone(), &self.user_id).map(|a| a.to_string());
        let own = json!({
            "ts": self.ts,
            "chatKey": self.chat,
            "channel": self.channel,
            "chatId": self.chat_id,
            "userId": self.user_id,
            "actorKey": actor.ok(),
            "messageId": self.message_id,
            // One that has a place of its own, as what was said again and its reply, is a later form all the same.
            "kind": if self.revision > 0 && self.kind == Kind::Normal { Kind::Revision } else { self.kind },
        });
        if let Value::Object(own) = own {
            message.metadata.extend(own);
        }
        if self.role() == Role::Assistant {
            message.metadata.insert("sentAt".into(), json!(self.sent_at));
        }
        if let Some(source) = &self.source {
            let range = json!({"fromId": source.from_id, "toId": source.to_id, "count": source.count});
            message.metadata.insert("sourceRange".into(), range);
        }
        if let Some(failure) = &self.delivery_failure {
            message.metadata.insert("deliveryFailure".into(), json!(failure));
        }
        message
    }
}
