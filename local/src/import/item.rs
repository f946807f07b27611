//! Parsed content of the files: [`Item`].

use std::sync::Arc;

use annals_channel::settings::Settings;
use annals_core::chat_key::ChatKey;
use annals_core::draft::Draft;
use annals_core::message::Role;
use annals_core::person::canonical;
use annals_core::sort_key::Timestamp;
use annals_engine::settings::ViewConfig;
use annals_http::auth::Caller;
use anyhow::Context;

/// Facts that the files lack.
#[derive(Clone, Debug)]
pub struct Options {
    /// The chat, if a file names none. Of a file with several chats, only this one is imported.
    pub chat: Option<ChatKey>,
    /// Time of the import.
    pub now: Timestamp,
    /// User id of the bot at Telegram. Its messages are the assistant's.
    pub bot: Option<i64>,
    /// Names of the admin keys of the HTTP API, in whose chats people are named by their bare `userId`; `None` if they are unknown.
    pub admin_keys: Option<Vec<String>>,
    /// Settings of all channels.
    pub settings: Settings,
    /// Settings of a context: what exceeds it is put before a boundary.
    pub view: ViewConfig,
}

impl Options {
    /// Returns the person who writes `draft`, as the HTTP API would name them, or `None` if the API does not name them: the agent, an
    /// operator, or somebody on a platform.
    pub(super) fn person_of(&self, draft: &Draft) -> anyhow::Result<Option<String>> {
        let (chat, user_id) = (&draft.chat, &draft.user_id);
        if draft.role != Role::User || draft.channel.is_platform() || draft.metadata.is_of_operator() {
            return Ok(None);
        }
        let Some(name) = chat.key_name() else {
            // The direct chat of a person, of whose id `userId` is the end or the whole.
            let is_own = |person: &&str| {
                let key = person.strip_suffix(user_id);
                key.is_some_and(|key| key.is_empty() || key.ends_with('/')) || *person == canonical(user_id)
            };
            return Ok(chat.person().filter(is_own).map(str::to_owned));
        };
        let admin_keys = self.admin_keys.as_ref().with_context(|| {
            format!(
                "it is of the API key {name:?}: set HTTP_API_KEYS as in the stack, since the names of people depend on it"
            )
        })?;
        let admin = admin_keys.iter().any(|key| key == name);
        Ok(Some(Caller { name: name.to_owned(), admin, language: None }.crossing_user_id(user_id)))
    }
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
