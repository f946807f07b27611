//! Parsed content of the files: [`Item`].

use std::sync::Arc;

use annals_channel::settings::Settings;
use annals_core::chat_key::ChatKey;
use annals_core::draft::Draft;
use annals_core::sort_key::Timestamp;
use annals_engine::settings::ViewConfig;

/// Facts that the files lack.
#[derive(Clone, Debug)]
pub struct Options {
    /// The chat, if a file names none. Of a file with several chats, only this one is imported.
    pub chat: Option<ChatKey>,
    /// User id of the bot at Telegram. Its messages are the assistant's.
    pub bot: Option<i64>,
    /// Settings of all channels.
    pub settings: Settings,
    /// Settings of a context: what exceeds it is put before a boundary.
    pub view: ViewConfig,
}

/// A message to import.
#[derive(Debug)]
pub(super) struct Item {
    /// Name of its chat for people.
    pub(super) chat_name: Arc<str>,
    /// Its time is meaningless if `ts` is `None`.
    pub(super) draft: Draft,
    /// When it was sent, if the file says so.
    pub(super) ts: Option<Timestamp>,
    /// When the agent sent it, if that is another time.
    pub(super) sent_at: Option<Timestamp>,
    pub(super) place: Place,
    /// Number of its form.
    pub(super) revision: u32,
}

/// Place of a record relative to the message that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The message itself.
    Message,
    /// The text after a boundary.
    Opening,
    /// A later form of the message.
    Form,
    /// The reply.
    Reply,
    /// A later form of the reply.
    ReplyForm,
    /// A confirmation.
    Notice,
    /// An answer to this request of the reply for approval.
    Approval(String),
}

/// Kind of skipped content, with the reason: in the singular and in the plural.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Skipped {
    pub(super) one: String,
    pub(super) more: String,
}

impl Skipped {
    /// Returns a kind with `why` after both forms.
    pub(super) fn of(one: &str, more: &str, why: &str) -> Self {
        Self { one: format!("{one}{why}"), more: format!("{more}{why}") }
    }
}
