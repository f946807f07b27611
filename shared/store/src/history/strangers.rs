//! The people who were refused by `ALLOW_FROM` or `ALLOW_CHATS`, so that the owner can add them. Their messages are not
//! kept.
//!
//! ```json
//! {"pk": "!strangers", "sk": "telegram-0f3a…", "person": "telegram-43", "name": "Bob", "chat": "telegram:chat:43",
//!  "at": 1763765920000, "expiresAt": 1766357920}
//! ```
//!
//! One item for each chat, made by its first message, which expires 30 days later. No ChatKey is `!strangers`.

use std::cmp::Reverse;
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::draft::Draft;
use annals_core::sort_key::Timestamp;
use annals_core::visible::escaped;
use serde::Serialize;
use utoipa::ToSchema;

use super::item::{integer, text, time};
use super::table::{Item, Span, item_at, number, string};
use super::{History, HistoryError};

const PARTITION: &str = "!strangers";
/// Time for which a stranger is listed.
const LISTED_FOR: Duration = Duration::from_hours(30 * 24);
/// The longest name that is kept, in characters.
const MAX_NAME_CHARS: usize = 64;
/// The most strangers that are returned.
const MAX_STRANGERS: usize = 200;
/// The most strangers that are read: they are in the order of their chats' digests, not of time.
const MAX_READ: usize = 5_000;

/// A person whose message was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stranger {
    /// The Person, as `ALLOW_FROM` takes it.
    pub person: String,
    /// The name that the platform has for them, hidden characters written out; null if it has none.
    #[schema(required)]
    pub name: Option<String>,
    /// The chat, as `ALLOW_CHATS` takes it.
    pub chat_key: String,
    /// The time of the first message that was refused in these 30 days.
    pub at: Timestamp,
}

impl History {
    /// Stores the sender and the chat of `draft`, unless the chat is listed already. One write.
    pub async fn note_stranger(&self, draft: &Draft) -> Result<(), HistoryError> {
        let now = self.clock.now();
        let mut item = item_at(PARTITION, draft.chat.session_id().to_string());
        item.insert("person".into(), string(draft.sender()));
        item.insert("chat".into(), string(draft.chat.to_string()));
        item.insert("at".into(), number(now));
        item.insert("expiresAt".into(), number(now.plus(LISTED_FOR).as_millis() / 1000));
        if let Some(name) = draft.metadata.sender_name() {
            let name: String = name.chars().take(MAX_NAME_CHARS).collect();
            item.insert("name".into(), string(escaped(&name)));
        }
        self.table.put_new(item).await?;
        Ok(())
    }

    /// Returns the strangers of the last 30 days, the newest first, at most 200. One query.
    pub async fn strangers(&self) -> Result<Vec<Stranger>, HistoryError> {
        // Above every printable ASCII character.
        let span = Span::first(MAX_READ, "!", "~");
        let items = self.table.query_eventually(PARTITION, &span).await?;
        let now = self.clock.now().as_millis() / 1000;
        let stranger = |item: &Item| {
            Some(Stranger {
                person: text(item, "person")?.to_owned(),
                name: text(item, "name").map(str::to_owned),
                chat_key: text(item, "chat")?.to_owned(),
                at: time(item, "at")?,
            })
        };
        let is_listed = |item: &&Item| integer(item, "expiresAt").is_some_and(|at| at > now);
        let mut strangers: Vec<Stranger> = items.iter().filter(is_listed).filter_map(stranger).collect();
        strangers.sort_by_key(|stranger| Reverse(stranger.at));
        strangers.truncate(MAX_STRANGERS);
        Ok(strangers)
    }

    /// Deletes the stranger in `chat`. One write.
    pub async fn forget_stranger(&self, chat: &ChatKey) -> Result<(), HistoryError> {
        self.table.delete(PARTITION, vec![chat.session_id().to_string()]).await?;
        Ok(())
    }
}
