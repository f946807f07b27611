//! Entries of a history: [`Record`].

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use crate::chat_key::ChatKey;
use crate::message::{Role, UiMessage};
use crate::metadata::Listing;
pub use crate::names::{Channel, Kind, UnknownName};
use crate::reply_token::ReplyToken;
use crate::schedule::due::Due;
use crate::sort_key::{MessageId, SortKey, Timestamp};
use crate::takeover::Dispatch;
use crate::trace::Trace;

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
    pub from_id: MessageId,
    /// Key of the last message or reply.
    pub to: SortKey,
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

/// The attributes of what is said by a person, or reported by a platform: see [`Draft`](crate::draft::Draft).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Number of this form of the message: 0 for the first, then 1, 2, …
    pub revision: u32,
    pub form_ts: Option<Timestamp>,
    pub album: Option<String>,
    pub asks: bool,
    pub reply_token: Option<ReplyToken>,
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
    /// The steps of its turn; on a later form those of the turn that continued it.
    pub trace: Option<Trace>,
}

/// The attributes of all kinds of [`Details`], as they are stored: on most records, most are absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes {
    pub form_ts: Option<Timestamp>,
    pub revision: u32,
    pub album: Option<String>,
    pub asks: bool,
    pub covers: Vec<SortKey>,
    pub delivery_failure: Option<DeliveryFailure>,
    pub trace: Option<Trace>,
    pub source: Option<Source>,
    pub reply_token: Option<ReplyToken>,
}

impl Details {
    /// Returns the details of a record of this `kind`, author and key. A later form of any message is a message.
    ///
    /// Returns `None` for a summary without [`Attributes::source`]. Attributes that such a record does not have
    /// are dropped.
    pub fn of(kind: Kind, role: Role, key: &SortKey, attributes: Attributes) -> Option<Self> {
        let Attributes {
            form_ts,
            revision,
            album,
            asks,
            covers,
            delivery_failure,
            trace,
            source,
            reply_token,
        } = attributes;
        let said = Said { revision, form_ts, album, asks, reply_token };
        let answer = Answer { revision, covers, delivery_failure, trace };
        let is_of_agent = role == Role::Assistant;
        Some(match kind {
            Kind::Normal | Kind::Revision if key.is_reply() || key.belongs_to_reply() => Self::Reply(answer),
            Kind::Normal | Kind::Revision => Self::Message(said),
            Kind::Event => Self::Event(said),
            Kind::Boundary => Self::Boundary(said),
            Kind::Notice if is_of_agent => Self::Notice(answer),
            Kind::Notice => Self::Command(said),
            Kind::Summary => Self::Summary(source?),
        })
    }

    pub fn attributes(&self) -> Attributes {
        match self.clone() {
            Self::Message(said) | Self::Event(said) | Self::Boundary(said) | Self::Command(said) => {
                let Said { revision, form_ts, album, asks, reply_token } = said;
                Attributes { form_ts, revision, album, asks, reply_token, ..Attributes::default() }
            }
            Self::Reply(answer) | Self::Notice(answer) => {
                let Answer { revision, covers, delivery_failure, trace } = answer;
                Attributes { revision, covers, delivery_failure, trace, ..Attributes::default() }
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

    fn said_mut(&mut self) -> Option<&mut Said> {
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

    /// Returns the platform's time of this form: see [`Draft::form_ts`](crate::draft::Draft::form_ts).
    pub fn form_ts(&self) -> Option<Timestamp> {
        self.details.said()?.form_ts
    }

    /// Returns the platform's id of the album that it belongs to.
    pub fn album(&self) -> Option<&str> {
        self.details.said()?.album.as_deref()
    }

    pub fn asks(&self) -> bool {
        self.details.said().is_some_and(|said| said.asks)
    }

    /// Returns the secret with which the platform lets it be answered.
    pub fn reply_token(&self) -> Option<&ReplyToken> {
        self.details.said()?.reply_token.as_ref()
    }

    /// Sets the secret with which the platform lets it be answered. Does nothing to what the agent says.
    pub fn set_reply_token(&mut self, token: ReplyToken) {
        if let Some(said) = self.details.said_mut() {
            said.reply_token = Some(token);
        }
    }

    /// Makes it a message that asks for no answer.
    pub fn ask_nothing(&mut self) {
        if let Some(said) = self.details.said_mut() {
            said.asks = false;
        }
    }

    /// Returns the bases of the messages that it answers; none unless it is a reply or a notice.
    pub fn covers(&self) -> &[SortKey] {
        self.details.answer().map_or(&[], |answer| &answer.covers)
    }

    pub fn delivery_failure(&self) -> Option<&DeliveryFailure> {
        self.details.answer()?.delivery_failure.as_ref()
    }

    /// Returns the steps of the turn that made it: see [`Answer::trace`].
    pub fn trace(&self) -> Option<&Trace> {
        self.details.answer()?.trace.as_ref()
    }

    pub fn source(&self) -> Option<&Source> {
        match &self.details {
            Details::Summary(source) => Some(source),
            _ => None,
        }
    }

    /// Returns the sender's Person, as [`Draft::sender`](crate::draft::Draft::sender) does.
    pub fn sender(&self) -> String {
        person_of_sender(&self.chat, self.channel, &self.user_id, self.person.as_deref())
    }

    pub fn role(&self) -> Role {
        self.message.role
    }

    /// Returns true if it is a form of what a person says, or a platform reports: no boundary, and no answer to a request for
    /// approval, which shares its base with the messages and outlives them.
    pub fn is_said(&self) -> bool {
        self.role() == Role::User && self.kind() != Kind::Boundary && !self.key.belongs_to_reply()
    }

    /// Returns true if its date has come: nothing is answered or continued because of it any more. TTL deletes expired items
    /// in any order, so its reply, its later forms and what it led to may be gone before it, though they expire no earlier.
    pub fn has_lapsed(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| Timestamp::from_secs(at) <= now)
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

    /// Returns true if this is a person's own message, and no occurrence of a schedule. Such messages keep a Session
    /// fresh.
    pub fn is_interaction(&self) -> bool {
        self.role() == Role::User && matches!(self.details, Details::Message(_)) && self.due().is_none()
    }

    /// Returns the occurrence of a schedule that it is, or answers.
    pub fn due(&self) -> Option<Due> {
        self.message.metadata.due()
    }

    /// Returns the line of the chat that it is on: see [`Metadata::line`](crate::metadata::Metadata::line).
    pub fn line(&self) -> Option<&str> {
        self.message.metadata.line()
    }

    /// Returns the id of the `/stop` that ended this reply, or answered a request for approval.
    pub fn stopped_by(&self) -> Option<&str> {
        self.message.metadata.stopped_by()
    }

    /// Returns how this operator's message is to be sent, if it is one.
    pub fn dispatch(&self) -> Option<Dispatch> {
        if matches!(self.details, Details::Command(_)) { self.message.metadata.dispatch() } else { None }
    }

    /// Returns the person's message that the answer to this record is sent to, if it is an operator's message or an
    /// occurrence of a schedule.
    pub fn sent_to(&self) -> Option<MessageId> {
        let scheduled = || self.due().and_then(|due| MessageId::new(due.to).ok());
        self.dispatch().map(|dispatch| dispatch.to).or_else(scheduled)
    }

    /// Returns the key from which on this message, an edit or another attempt, replaces the messages up to it; see
    /// `annals_store::history::History::append_again`.
    pub fn replaces_from(&self) -> Option<SortKey> {
        if self.role() == Role::User { self.message.metadata.replaces_from() } else { None }
    }

    /// Returns true if the platform says that the chat is a group.
    pub fn is_group(&self) -> bool {
        self.message.metadata.is_group()
    }

    /// Returns the time at which the message was sent: for an imported one of the agent, by its export.
    pub fn first_sent_at(&self) -> Timestamp {
        self.message.metadata.exported_sent_at().unwrap_or(self.sent_at)
    }

    /// Returns the message for readers, with its listed id (`<messageId>@<n>` for revision n). `metadata` contains, besides
    /// what is stored, the fields of `listing!` (`metadata.rs`). The cause of a failed turn is left out.
    pub fn listed(&self) -> UiMessage {
        let mut message = self.listed_for_admins();
        if self.role() == Role::Assistant {
            message.metadata.remove_cause();
        }
        message
    }

    /// Returns the message as [`Record::listed`] does, with the cause of a failed turn.
    pub fn listed_for_admins(&self) -> UiMessage {
        let mut message = self.message.clone();
        message.id = match self.revision() {
            0 => self.message_id.to_string(),
            n => format!("{}@{n}", self.message_id),
        };
        let is_agents = self.role() == Role::Assistant;
        message.metadata.list(&Listing {
            ts: self.ts,
            chat_key: &self.chat,
            channel: self.channel,
            chat_id: &self.chat_id,
            user_id: &self.user_id,
            actor_key: self.chat.actor_key(&self.user_id).ok(),
            message_id: self.message_id.as_str(),
            // A form with a key of its own (a repeated message and its reply) is a revision, too.
            kind: match self.kind() {
                Kind::Normal if self.revision() > 0 => Kind::Revision,
                kind => kind,
            },
            sent_at: is_agents.then(|| self.first_sent_at()),
            source_range: self
                .source()
                .map(|source| json!({"fromId": source.from_id, "toId": source.to_id, "count": source.count})),
            delivery_failure: self.delivery_failure().map(|failure| json!(failure)),
        });
        message
    }
}

/// Returns the first form of the message at `base` that is [said](Record::is_said).
pub fn message_at<'a>(records: &'a [Record], base: &SortKey) -> Option<&'a Record> {
    records.iter().find(|record| record.is_said() && record.key.base() == *base)
}

/// Returns the sender's Person, which is the same in all channels: `person` if the channel names one, else
/// `telegram-<id>`, `lark-<open_id>`, `discord-<id>`; in a key's own chat `<keyName>/<userId>`, and else the bare
/// `userId`.
pub(crate) fn person_of_sender(
    chat: &ChatKey,
    channel: Channel,
    user_id: &str,
    person: Option<&str>,
) -> String {
    match (person, chat.key_name()) {
        (Some(person), _) => person.to_owned(),
        (None, _) if channel.is_platform() => format!("{channel}-{user_id}"),
        // A record of an earlier version that named no person. Its key is not an admin key.
        (None, Some(key_name)) => format!("{key_name}/{user_id}"),
        (None, None) => user_id.to_owned(),
    }
}

#[cfg(test)]
mod tests;
