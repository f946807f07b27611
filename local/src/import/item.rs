//! Parsed content of the files: [`Content`].

use std::collections::BTreeMap;

use annals_channel::settings::Settings;
use annals_core::chat_key::ChatKey;
use annals_core::record::Draft;
use annals_core::sort_key::Timestamp;

/// Facts that the files lack.
#[derive(Clone, Debug)]
pub struct Options {
    /// The chat, if a file names none. Of a file with several chats, only this one is imported.
    pub chat: Option<ChatKey>,
    /// User id of the bot at Telegram. Its messages are the assistant's.
    pub bot: Option<i64>,
    /// Settings of all channels.
    pub settings: Settings,
}

/// Messages of one chat in one file, in the order of the file.
#[derive(Debug)]
pub(super) struct Chat {
    pub(super) key: ChatKey,
    /// Its name for people.
    pub(super) name: String,
    pub(super) items: Vec<Item>,
}

/// A message to import.
#[derive(Debug)]
pub(super) struct Item {
    /// Its time is meaningless if `ts` is `None`.
    pub(super) draft: Draft,
    /// When it was sent, if the file says so.
    pub(super) ts: Option<Timestamp>,
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

/// Content of a file.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) chats: Vec<Chat>,
    /// Skipped content, and how often.
    pub(super) skipped: BTreeMap<Skipped, u64>,
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

impl Content {
    pub(super) fn skip(&mut self, skipped: Skipped) {
        *self.skipped.entry(skipped).or_default() += 1;
    }
}
