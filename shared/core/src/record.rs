//! Entries of a history: [`Draft`] before it is stored, [`Record`] afterwards.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::chat_key::{ActorKey, ChatKey, KeyError, Place};
use crate::message::{Part, Role, UiMessage};
use crate::sort_key::{MessageId, SortKey, Timestamp};

/// The channel that a message came by, or that a reply goes out by.
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
    /// Returns true for the channel of a platform: people there often write several messages in a row, and the reply is
    /// sent to them. Returns false if callers fetch the reply.
    pub fn is_platform(self) -> bool {
        match self {
            Self::Telegram | Self::Lark | Self::Discord => true,
            Self::Http | Self::Web | Self::Terminal => false,
        }
    }

    /// Returns true if callers choose the ids of messages and name the user, so that a caller may repeat another user's
    /// id.
    pub fn lets_callers_name_messages(self) -> bool {
        matches!(self, Self::Http | Self::Web)
    }
}

/// Metadata field of the notice that covers stopped messages, which are no longer answered: the id of the `/stop`.
pub const STOPPED_BY: &str = "stoppedBy";

/// Metadata field of a message that was edited or sent again: the key from which on it replaces earlier messages.
pub const REPLACES_FROM: &str = "replacesFrom";

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A message of a person or a reply of the agent.
    Normal,
    /// An event that a platform reports (a title changed, somebody joined). It is in the Context, but is not an
    /// interaction.
    Event,
    /// A later form of an earlier message.
    Revision,
    /// A summary that replaces the messages that it counts.
    Summary,
    /// The start of a new Session (`/new`, `/reset`): listed, never in the Context.
    Boundary,
    /// A command that is not a boundary, a confirmation or a failure notice: listed, never in the Context.
    Notice,
}

macro_rules! string_enum {
    ($type:ident { $($variant:ident => $name:literal),+ $(,)? }) => {
        impl $type {
            /// Returns the name as stored and listed.
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

/// A message as a channel passes it on: everything in its record that comes from the event alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The chat it belongs to.
    pub chat: ChatKey,
    /// The channel that it came by.
    pub channel: Channel,
    /// The platform's id of the chat. A reply is sent there.
    pub chat_id: String,
    /// The platform's bare id of the sender.
    pub user_id: String,
    /// Id, unique in the chat.
    pub message_id: MessageId,
    /// Time of the message, by the event.
    pub ts: Timestamp,
    /// Time at which this form was made, if the platform gives it. It orders the forms of one message, so that a late
    /// redelivery of an older form is recognised as a duplicate.
    pub form_ts: Option<Timestamp>,
    /// Author.
    pub role: Role,
    /// [`Kind::Normal`], [`Kind::Event`] or [`Kind::Boundary`].
    pub kind: Kind,
    /// Content.
    pub parts: Vec<Part>,
    /// Metadata from the platform: `senderName`, `chatType`, `replyTo`, `forward`, …
    pub metadata: Map<String, Value>,
    /// The platform's id of the album that it belongs to.
    pub album: Option<String>,
    /// True if it asks the agent for an answer.
    pub asks: bool,
    /// True if it is the text that came with a boundary of the same id, and so directly follows it.
    pub opens_session: bool,
    /// See [`Record::person`].
    pub person: Option<String>,
}

/// Returns the sender's Person, which is the same in all channels: `person` if the channel names one, else
/// `telegram-<id>`, `lark-<open_id>`, `discord-<id>`; in a key's own chat `<keyName>/<userId>`, and else the bare
/// `userId`.
fn person_of_sender(chat: &ChatKey, channel: Channel, user_id: &str, person: Option<&str>) -> String {
    match (person, channel, chat.place()) {
        (Some(person), ..) => person.to_owned(),
        (None, ..) if channel.is_platform() => format!("{channel}-{user_id}"),
        // A record of an earlier version that named no person. Its key is not an admin key.
        (None, _, Place::HttpChat { key_name, .. } | Place::WebRoom { key_name, .. }) => {
            format!("{key_name}/{user_id}")
        }
        (None, ..) => user_id.to_owned(),
    }
}

impl Draft {
    /// Returns the Person who sent it: see `ADMINS` and `ALLOW_FROM`.
    pub fn sender(&self) -> String {
        person_of_sender(&self.chat, self.channel, &self.user_id, self.person.as_deref())
    }

    /// Returns the draft as a message that asks for no answer: its sender may not use the bot.
    #[must_use]
    pub fn as_context(&self) -> Self {
        Self { asks: false, ..self.clone() }
    }

    /// Returns the key at which it is stored, unless another form of it is stored there already.
    pub fn key(&self) -> SortKey {
        let base = SortKey::message(self.ts, &self.message_id);
        if self.opens_session { base.opening_message() } else { base }
    }

    /// Returns the key of its sender.
    pub fn actor(&self) -> Result<ActorKey, KeyError> {
        ActorKey::new(self.chat.clone(), &self.user_id)
    }
}

impl From<&Record> for Draft {
    /// Rebuilds the draft of a message from its record, to make further records from it.
    fn from(record: &Record) -> Self {
        Self {
            chat: record.chat.clone(),
            channel: record.channel,
            chat_id: record.chat_id.clone(),
            user_id: record.user_id.clone(),
            message_id: record.message_id.clone(),
            ts: record.ts,
            form_ts: record.form_ts(),
            role: record.role(),
            kind: record.kind(),
            parts: record.message.parts.clone(),
            metadata: record.message.metadata.clone(),
            album: record.album().map(str::to_owned),
            asks: record.asks(),
            opens_session: record.key == record.key.base().opening_message(),
            person: record.person.clone(),
        }
    }
}

/// The reason why a reply did not reach its platform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryFailure {
    /// Answer of the platform.
    pub reason: String,
    /// Time of the attempt.
    pub at: Timestamp,
}

/// Maximum time by which a message's time may be ahead of our clock. The HTTP API refuses a message that is further
/// ahead. A platform's message is accepted, and counts as sent when it arrived.
pub const MAX_AHEAD: Duration = Duration::from_mins(5);

/// The messages that a summary replaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// Key of the first message, including those of a folded earlier summary.
    pub from: SortKey,
    /// That message's id.
    pub from_id: MessageId,
    /// Key of the last message or reply.
    pub to: SortKey,
    /// That message's id.
    pub to_id: MessageId,
    /// Number of user and assistant messages, including those of a folded earlier summary.
    pub count: u32,
    /// Time of a person's last message among them, including those of a folded earlier summary.
    pub last_interaction: Timestamp,
    /// Time at which its source records were read; unknown for summaries of versions before 0.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_at: Option<Timestamp>,
    /// Keys of the records that it counts beyond the earlier summary that it folds, in order: the bases of messages,
    /// the keys of replies. A record that is not listed here is new, even if its time is in the range.
    pub counts: Vec<SortKey>,
}

/// One stored entry of a history: the fields that each has, and what it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The chat it is stored under; an earlier name of the chat for records from before a migration.
    pub chat: ChatKey,
    /// Key of the record in its chat.
    pub key: SortKey,
    /// The channel that it came by or goes out by.
    pub channel: Channel,
    /// The platform's id of the chat.
    pub chat_id: String,
    /// The platform's bare id of the sender; the agent's id on replies.
    pub user_id: String,
    /// The message's own id, shared by all its forms.
    pub message_id: MessageId,
    /// The time of its key: its own, or on a reply the time of the newest message that it covers.
    pub ts: Timestamp,
    /// Time of the append, by our clock.
    pub sent_at: Timestamp,
    /// The message, with the platform's metadata.
    pub message: UiMessage,
    /// Token estimate of `message`.
    pub tokens: u32,
    /// Time from which it may leave the table, in epoch seconds; `None` means never.
    pub expires_at: Option<i64>,
    /// The sender as one person in all channels, if neither chat nor channel identify them: an HTTP caller's user, as
    /// `<keyName>/<userId>`, or the bare `userId` of an admin key. On a summary: the one person that it is about.
    pub person: Option<String>,
    /// Its kind, with the attributes of that kind.
    pub details: Details,
}

/// The kind of a record, with the attributes that only such a record has. [`Kind`] has the stored names.
#[derive(Clone, Debug, PartialEq)]
pub enum Details {
    /// A message in one of its forms: of a person, or, imported, of the agent.
    Message(Said),
    /// An event that a platform reports.
    Event(Said),
    /// The start of a new Session.
    Boundary(Said),
    /// A person's command that is not a boundary, or a person's answer to a request for approval.
    Command(Said),
    /// A reply of the agent, in one of its forms.
    Reply(Answer),
    /// A confirmation or a failure notice of the agent.
    Notice(Answer),
    /// A summary, and the messages that it replaces.
    Summary(Source),
}

/// The attributes of what is said by a person, or reported by a platform.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Number of this form of the message: 0 for the first, then 1, 2, …
    pub revision: u32,
    /// See [`Draft::form_ts`].
    pub form_ts: Option<Timestamp>,
    /// See [`Draft::album`].
    pub album: Option<String>,
    /// True if it asks for an answer.
    pub asks: bool,
}

/// The attributes of what the agent answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Number of this form of the reply, or of the form of the message that it answers.
    pub revision: u32,
    /// The bases of the messages that it answers.
    pub covers: Vec<SortKey>,
    /// The reason why it was not delivered.
    pub delivery_failure: Option<DeliveryFailure>,
}

/// The attributes of all kinds of [`Details`], as they are stored: on most records, most are absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes {
    /// See [`Draft::form_ts`].
    pub form_ts: Option<Timestamp>,
    /// See [`Said::revision`] and [`Answer::revision`].
    pub revision: u32,
    /// See [`Draft::album`].
    pub album: Option<String>,
    /// See [`Said::asks`].
    pub asks: bool,
    /// See [`Answer::covers`].
    pub covers: Vec<SortKey>,
    /// See [`Answer::delivery_failure`].
    pub delivery_failure: Option<DeliveryFailure>,
    /// On summaries: the messages that it replaces.
    pub source: Option<Source>,
}

impl Details {
    /// Returns the details of a record of this `kind`, author and key. A later form of any message is a message.
    ///
    /// Returns `None` for a summary without [`Attributes::source`]. Attributes that such a record does not have
    /// are dropped.
    pub fn of(kind: Kind, role: Role, key: &SortKey, attributes: Attributes) -> Option<Self> {
        let Attributes { form_ts, revision, album, asks, covers, delivery_failure, source } = attributes;
        let said = Said { revision, form_ts, album, asks };
        let answer = Answer { revision, covers, delivery_failure };
        let is_of_agent = role == Role::Assistant;
        Some(match kind {
            Kind::Normal | Kind::Revision if key.is_reply() || key.hangs_on_reply() => Self::Reply(answer),
            Kind::Normal | Kind::Revision => Self::Message(said),
            Kind::Event => Self::Event(said),
            Kind::Boundary => Self::Boundary(said),
            Kind::Notice if is_of_agent => Self::Notice(answer),
            Kind::Notice => Self::Command(said),
            Kind::Summary => Self::Summary(source?),
        })
    }

    /// Returns the attributes to store.
    pub fn attributes(&self) -> Attributes {
        match self.clone() {
            Self::Message(said) | Self::Event(said) | Self::Boundary(said) | Self::Command(said) => {
                let Said { revision, form_ts, album, asks } = said;
                Attributes { form_ts, revision, album, asks, ..Attributes::default() }
            }
            Self::Reply(answer) | Self::Notice(answer) => {
                let Answer { revision, covers, delivery_failure } = answer;
                Attributes { revision, covers, delivery_failure, ..Attributes::default() }
            }
            Self::Summary(source) => Attributes { source: Some(source), ..Attributes::default() },
        }
    }

    fn said(&self) -> Option<&Said> {
        match self {
            Self::Message(said) | Self::Event(said) | Self::Boundary(said) | Self::Command(said) => {
                Some(said)
            }
            Self::Reply(_) | Self::Notice(_) | Self::Summary(_) => None,
        }
    }

    fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Reply(answer) | Self::Notice(answer) => Some(answer),
            _ => None,
        }
    }
}

impl Record {
    /// Returns the name of what it is, as stored and listed.
    pub fn kind(&self) -> Kind {
        match &self.details {
            Details::Message(_) | Details::Reply(_) if self.key.is_later_form() => Kind::Revision,
            Details::Message(_) | Details::Reply(_) => Kind::Normal,
            Details::Event(_) => Kind::Event,
            Details::Boundary(_) => Kind::Boundary,
            Details::Command(_) | Details::Notice(_) => Kind::Notice,
            Details::Summary(_) => Kind::Summary,
        }
    }

    /// Returns the number of this form of the message: 0 for the first, then 1, 2, …
    pub fn revision(&self) -> u32 {
        let answered = self.details.answer().map(|answer| answer.revision);
        self.details.said().map(|said| said.revision).or(answered).unwrap_or(0)
    }

    /// Returns the platform's time of this form: see [`Draft::form_ts`].
    pub fn form_ts(&self) -> Option<Timestamp> {
        self.details.said()?.form_ts
    }

    /// Returns the platform's id of the album that it belongs to.
    pub fn album(&self) -> Option<&str> {
        self.details.said()?.album.as_deref()
    }

    /// Returns true if it asks for an answer.
    pub fn asks(&self) -> bool {
        self.details.said().is_some_and(|said| said.asks)
    }

    /// Makes it a message that asks for no answer.
    pub fn ask_nothing(&mut self) {
        match &mut self.details {
            Details::Message(said)
            | Details::Event(said)
            | Details::Boundary(said)
            | Details::Command(said) => {
                said.asks = false;
            }
            Details::Reply(_) | Details::Notice(_) | Details::Summary(_) => {}
        }
    }

    /// Returns the bases of the messages that it answers; none unless it is a reply or a notice.
    pub fn covers(&self) -> &[SortKey] {
        self.details.answer().map_or(&[], |answer| &answer.covers)
    }

    /// Returns the reason why a reply was not delivered.
    pub fn delivery_failure(&self) -> Option<&DeliveryFailure> {
        self.details.answer()?.delivery_failure.as_ref()
    }

    /// Returns the messages that a summary replaces.
    pub fn source(&self) -> Option<&Source> {
        match &self.details {
            Details::Summary(source) => Some(source),
            _ => None,
        }
    }

    /// Returns the sender's Person, as [`Draft::sender`] does.
    pub fn sender(&self) -> String {
        person_of_sender(&self.chat, self.channel, &self.user_id, self.person.as_deref())
    }

    /// Returns the author.
    pub fn role(&self) -> Role {
        self.message.role
    }

    /// Returns true if its platform's clock was ahead of ours by more than [`MAX_AHEAD`].
    pub fn is_ahead(&self) -> bool {
        self.ts > self.sent_at.plus(MAX_AHEAD)
    }

    /// Returns the time of the message, but not later than its arrival.
    pub fn said_at(&self) -> Timestamp {
        if self.is_ahead() { self.sent_at } else { self.ts }
    }

    /// Returns its place among the messages: its own key, or the time of its arrival if its platform's clock was ahead.
    pub fn place(&self) -> SortKey {
        if self.is_ahead() { SortKey::start_of(self.sent_at) } else { self.key.base() }
    }

    /// Returns true if this is a person's own message. Such messages keep a Session fresh.
    pub fn is_interaction(&self) -> bool {
        self.role() == Role::User && matches!(self.details, Details::Message(_))
    }

    /// Returns the business connection that it came by, or `None` if it was sent to the bot itself. Telegram gives a
    /// person's chat with a business and the one with the bot the same id; each is one line of the chat.
    pub fn line(&self) -> Option<&str> {
        self.message.metadata.get("telegram")?.get("businessConnectionId")?.as_str()
    }

    /// Returns the id of the `/stop` because of which this notice covers its messages.
    pub fn stopped_by(&self) -> Option<&str> {
        self.message.metadata.get(STOPPED_BY)?.as_str()
    }

    /// Returns the key from which on this message, an edit or another attempt, replaces the messages up to it; see
    /// `annals_store::history::History::append_again`.
    pub fn replaces_from(&self) -> Option<SortKey> {
        if self.role() != Role::User {
            return None;
        }
        self.message.metadata.get(REPLACES_FROM)?.as_str()?.parse().ok()
    }

    /// Puts a reply on this message's line: see [`Record::line`].
    pub fn copy_line_to(&self, metadata: &mut Map<String, Value>) {
        if let Some(line) = self.line() {
            metadata.insert("telegram".into(), json!({ "businessConnectionId": line }));
        }
    }

    /// Returns true if the platform says that the chat is a group.
    pub fn is_group(&self) -> bool {
        matches!(self.message.metadata.get("chatType").and_then(Value::as_str), Some("group" | "supergroup"))
    }

    /// Returns the message for readers, with its listed id (`<messageId>@<n>` for revision n). `metadata` contains,
    /// besides the platform's fields, `ts, chatKey, channel, chatId, userId, actorKey, messageId, kind`, on replies
    /// `sentAt`, on summaries `sourceRange {fromId, toId, count}`.
    pub fn listed(&self) -> UiMessage {
        let mut message = self.message.clone();
        message.id = match self.revision() {
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
            // A form with a key of its own (a repeated message and its reply) is a revision, too.
            "kind": match self.kind() { Kind::Normal if self.revision() > 0 => Kind::Revision, kind => kind },
        });
        if let Value::Object(own) = own {
            message.metadata.extend(own);
        }
        if self.role() == Role::Assistant {
            message.metadata.insert("sentAt".into(), json!(self.sent_at));
        }
        if let Some(source) = self.source() {
            let range = json!({"fromId": source.from_id, "toId": source.to_id, "count": source.count});
            message.metadata.insert("sourceRange".into(), range);
        }
        if let Some(failure) = self.delivery_failure() {
            message.metadata.insert("deliveryFailure".into(), json!(failure));
        }
        message
    }
}
