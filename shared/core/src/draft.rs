//! A message as a channel passes it on, before it is stored: [`Draft`].

use crate::chat_key::ChatKey;
use crate::chat_settings::GroupActivation;
use crate::message::{Part, Role};
use crate::metadata::Metadata;
use crate::names::{Channel, Kind};
use crate::record::{Attributes, Record, person_of_sender};
use crate::reply_token::ReplyToken;
use crate::sort_key::{MessageId, SortKey, Timestamp};

/// A message as a channel passes it on: everything in its record that comes from the event alone.
///
/// ```
/// # use annals_core::chat_key::ChatKey;
/// # use annals_core::message::Part;
/// # use annals_core::draft::{Draft, Origin};
/// # use annals_core::record::Channel;
/// # use annals_core::sort_key::{MessageId, Timestamp};
/// # let (chat, ts) = (ChatKey::telegram(42, None), Timestamp::MIN);
/// let origin = Origin { chat, channel: Channel::Telegram, chat_id: "42".into(), user_id: "7".into() };
/// let draft = Draft::new(origin, MessageId::number(1), ts).with_parts(vec![Part::text("hello")]).asking(true);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "each says something of its own about a message")]
pub struct Draft {
    pub chat: ChatKey,
    pub channel: Channel,
    /// The platform's id of the chat. A reply is sent there.
    pub chat_id: String,
    /// The platform's bare id of the sender.
    pub user_id: String,
    /// Id, unique in the chat.
    pub message_id: MessageId,
    /// Time of the message, by the event; [`Timestamp::MIN`] if the event does not tell it. Of a platform, it is the message's
    /// own time only if `Events::has_own_time` of its call is true; else `Receiver::timed` keeps the time that came first.
    pub ts: Timestamp,
    /// Time at which this form was made, if the platform gives it. It orders the forms of one message, so that a late
    /// redelivery of an older form is recognised as a duplicate.
    pub form_ts: Option<Timestamp>,
    /// True if a form with the same [`Draft::form_ts`] is the same form, however it is described: the platform tells the time of
    /// each form exactly, but leaves out details when it lists messages.
    pub form_ts_is_exact: bool,
    pub role: Role,
    /// [`Kind::Normal`], [`Kind::Event`], [`Kind::Boundary`] or [`Kind::Notice`].
    pub kind: Kind,
    pub parts: Vec<Part>,
    pub metadata: Metadata,
    /// The platform's id of the album that it belongs to.
    pub album: Option<String>,
    /// True if it asks the agent for an answer.
    pub asks: bool,
    /// True if it asks only where every message does, so that its chat's own settings decide. Then `asks` is as
    /// `GROUP_ACTIVATION` says.
    pub is_unaddressed: bool,
    /// True if it is the text that came with a boundary of the same id, and so directly follows it.
    pub opens_session: bool,
    pub person: Option<String>,
    /// The secret with which the platform lets this message be answered.
    pub reply_token: Option<ReplyToken>,
}

/// The way in which a message asks for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// It does not.
    Never,
    /// It asks the bot.
    Addressed,
    /// A person says it in a group, and not to the bot: it asks where every message does.
    Unaddressed,
}

/// The chat and the sender that a [`Draft`] comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub chat: ChatKey,
    pub channel: Channel,
    pub chat_id: String,
    pub user_id: String,
}

macro_rules! setters {
    ($($set:ident => $field:ident: $type:ty;)+) => {$(
        #[must_use]
        pub fn $set(self, $field: $type) -> Self {
            Self { $field, ..self }
        }
    )+};
}

impl Draft {
    /// Creates a person's message without content that does not ask for an answer.
    pub fn new(origin: Origin, message_id: MessageId, ts: Timestamp) -> Self {
        let Origin { chat, channel, chat_id, user_id } = origin;
        Self {
            chat,
            channel,
            chat_id,
            user_id,
            message_id,
            ts,
            form_ts: None,
            form_ts_is_exact: false,
            role: Role::User,
            kind: Kind::Normal,
            parts: Vec::new(),
            metadata: Metadata::default(),
            album: None,
            asks: false,
            is_unaddressed: false,
            opens_session: false,
            person: None,
            reply_token: None,
        }
    }

    setters! {
        with_parts => parts: Vec<Part>;
        with_metadata => metadata: Metadata;
        with_form_ts => form_ts: Option<Timestamp>;
        by => role: Role;
        of_kind => kind: Kind;
        in_album => album: Option<String>;
        opening_session => opens_session: bool;
    }

    /// Sets [`Draft::form_ts`], which is [exact](Draft::form_ts_is_exact).
    #[must_use]
    pub fn with_exact_form_ts(self, form_ts: Timestamp) -> Self {
        Self { form_ts: Some(form_ts), form_ts_is_exact: true, ..self }
    }

    /// Sets [`Draft::asks`], whatever the settings of its chat.
    #[must_use]
    pub fn asking(self, asks: bool) -> Self {
        Self { asks, is_unaddressed: false, ..self }
    }

    /// Sets [`Draft::asks`] for a message that asks in this way, with this `GROUP_ACTIVATION`.
    #[must_use]
    pub fn asking_as(self, asks: Asks, activation: GroupActivation) -> Self {
        let is_unaddressed = asks == Asks::Unaddressed;
        let is_asked = asks == Asks::Addressed || (is_unaddressed && activation == GroupActivation::Always);
        Self { asks: is_asked, is_unaddressed, ..self }
    }

    /// Sets [`Draft::person`].
    #[must_use]
    pub fn of_person(self, person: impl Into<Option<String>>) -> Self {
        Self { person: person.into(), ..self }
    }

    /// Sets [`Draft::reply_token`].
    #[must_use]
    pub fn with_reply_token(self, reply_token: ReplyToken) -> Self {
        Self { reply_token: Some(reply_token), ..self }
    }

    /// Returns the Person who sent it: see `ADMINS` and `ALLOW_FROM`.
    pub fn sender(&self) -> String {
        person_of_sender(&self.chat, self.channel, &self.user_id, self.person.as_deref())
    }

    /// Returns the key at which it is stored, unless another form of it is stored there already.
    pub fn key(&self) -> SortKey {
        let base = SortKey::message(self.ts, &self.message_id);
        if self.opens_session { base.opening_message() } else { base }
    }
}

impl From<&Record> for Draft {
    /// Rebuilds the draft of a message from its record, to make further records from it.
    fn from(record: &Record) -> Self {
        // Names every field of a record and of a draft, so that a new one does not compile until it is carried over or left.
        let Record {
            chat,
            key,
            channel,
            chat_id,
            user_id,
            message_id,
            ts,
            sent_at: _,
            message,
            tokens: _,
            expires_at: _,
            person,
            details,
        } = record;
        let Attributes {
            form_ts,
            revision: _,
            album,
            asks,
            covers: _,
            delivery_failure: _,
            trace: _,
            source: _,
            // It answers the message as it came, and no other record.
            reply_token: _,
        } = details.attributes();
        Self {
            chat: chat.clone(),
            channel: *channel,
            chat_id: chat_id.clone(),
            user_id: user_id.clone(),
            message_id: message_id.clone(),
            ts: *ts,
            form_ts,
            form_ts_is_exact: false,
            role: message.role,
            kind: record.kind(),
            parts: message.parts.clone(),
            metadata: message.metadata.clone(),
            album,
            asks,
            is_unaddressed: false,
            opens_session: *key == key.base().opening_message(),
            person: person.clone(),
            reply_token: None,
        }
    }
}
