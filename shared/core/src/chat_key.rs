//! Names of chats and of people in them: [`ChatKey`], [`SessionId`].
//!
//! ```text
//! telegram:chat:-1001234567890:topic:17                 a ChatKey, the DynamoDB partition key
//! telegram:chat:-1001234567890:topic:17:user:4242       an ActorKey: the ChatKey and a person
//! telegram-3f1c0a9be21d4f5a6b7c8d9e                     a SessionId: short, opaque, 96 bits of digest
//! ```
//!
//! Parts are separated by `:`. In a part, `:` is written `%3A` and `%` is written `%25`, and nothing else is escaped,
//! so that each key has exactly one spelling: `parse` and `Display` are inverses.

use std::fmt;
use std::str::FromStr;

use ring::digest;
use serde::{Deserialize, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::names::{Channel, serde_as_string, text_of};

/// Maximum length of a partition key in DynamoDB, in bytes of UTF-8.
pub const MAX_KEY_BYTES: usize = 2048;

/// The unit of history and of order: the window, group, channel, room or topic that people see.
///
/// The constructors refuse keys that could not be stored. The string is the partition key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChatKey {
    place: Place,
}

/// Declares the places that keys name: the form of each key, with `{}` for a part, and its parts with their names.
macro_rules! places {
    ($($(#[$of_place:meta])* $place:ident $form:literal { $($(#[$of_part:meta])* $part:ident $name:literal,)+ })+) => {
        /// The place that a key names, one variant per row of the keys table.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Place { $($(#[$of_place])* $place { $($(#[$of_part])* $part: String,)+ },)+ }

        impl Place {
            const FORMS: &[&str] = &[$($form),+];

            /// Returns the form of the key, and the parts with their names, in the order of the key.
            fn form(&self) -> (&'static str, Vec<(&'static str, &str)>) {
                match self { $(Self::$place { $($part),+ } => ($form, vec![$(($name, $part)),+]),)+ }
            }

            /// Reads the segments of a key. Returns `None` if they have none of the forms.
            fn read(segments: &[&str]) -> Result<Option<Self>, KeyError> {
                $(if let Some([$($part),+]) = parts_of($form, segments) {
                    return Ok(Some(Self::$place { $($part: unescape($part)?),+ }));
                })+
                Ok(None)
            }
        }
    };
}

places! {
    /// A private chat, a group or a channel.
    TelegramChat "telegram:chat:{}" {
        /// Telegram's chat id, negative for groups and channels.
        chat_id "chatId",
    }
    /// A forum topic other than General.
    TelegramTopic "telegram:chat:{}:topic:{}" {
        /// The forum's chat id.
        chat_id "chatId",
        /// The topic's `message_thread_id`.
        thread_id "threadId",
    }
    /// A Lark p2p chat or group.
    LarkChat "lark:chat:{}" {
        /// Lark's `chat_id` (`oc_…`).
        chat_id "chatId",
    }
    /// A Lark topic thread.
    LarkThread "lark:chat:{}:thread:{}" {
        /// The group's `chat_id`.
        chat_id "chatId",
        /// Lark's `thread_id` (`omt_…`).
        thread_id "threadId",
    }
    /// A conversation of an API caller.
    HttpChat "http:chat:{}:{}" {
        /// Name of the API key, so that no caller can name a chat of another.
        key_name "keyName",
        /// The caller's id of the conversation.
        chat_id "chatId",
    }
    /// A `useChat` conversation.
    WebRoom "web:room:{}:{}" {
        /// Name of the API key.
        key_name "keyName",
        /// The `id` that `useChat` sends.
        room_id "roomId",
    }
    /// A Discord channel.
    DiscordChannel "agent:{}:channel:{}:{}" { agent_id "agentId", guild_id "guildId", channel_id "channelId", }
    /// A Discord thread.
    DiscordThread "agent:{}:thread:{}:{}" { agent_id "agentId", guild_id "guildId", thread_id "threadId", }
    /// One chat per person, on every channel.
    Direct "agent:{}:user:{}" {
        /// `AGENT_ID`.
        agent_id "agentId",
        /// Id of the person across channels.
        user_id "userId",
    }
}

/// The people who can speak in a chat, as far as its key tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Speakers {
    /// One person, of this [identity](Channel::identity): the chat is their direct chat, or the platform gives their
    /// private chat the id of the person.
    One(String),
    /// The users that the callers of an API key name. Each message names its own ([`Record::person`]).
    ///
    /// [`Record::person`]: crate::record::Record::person
    Callers,
    /// One person or a group, which the platform tells with each message
    /// ([`Metadata::chat_type`](crate::metadata::Metadata::chat_type)). The person is the sender on this channel.
    Untold(Channel),
    /// A group, by the form of the key or by the prefix of its id.
    Several,
}

/// Error for a string or parts that are not a valid key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("the {part} of a chat key is empty")]
    EmptyPart { part: &'static str },
    #[error("the {part} of a chat key contains the control character U+{:04X}", *.character as u32)]
    ControlCharacter { part: &'static str, character: char },
    #[error("a chat key of {bytes} bytes is longer than the {MAX_KEY_BYTES} that DynamoDB accepts")]
    TooLong { bytes: usize },
    #[error("a chat key contains a '%' that starts neither '%3A' nor '%25'")]
    BadEscape,
    #[error("not a chat key: expected one of {}", Place::FORMS.join(", ").replace("{}", "…"))]
    UnknownShape,
}

impl PartialSchema for ChatKey {
    fn schema() -> RefOr<Schema> {
        let examples = ["telegram:chat:42", "http:chat:app:c1"];
        ObjectBuilder::new().schema_type(Type::String).examples(examples).into()
    }
}

impl ToSchema for ChatKey {}

impl ChatKey {
    /// Creates the key of `place`.
    /// Fails if a part is empty or contains a control character, or if the key is too long.
    pub fn new(place: Place) -> Result<Self, KeyError> {
        for (part, value) in place.form().1 {
            check_part(part, value)?;
        }
        let key = Self { place };
        let bytes = key.to_string().len();
        if bytes > MAX_KEY_BYTES { Err(KeyError::TooLong { bytes }) } else { Ok(key) }
    }

    /// Creates `telegram:chat:<chatId>`, with `:topic:<threadId>` for a forum topic.
    pub fn telegram(chat_id: i64, topic: Option<i64>) -> Self {
        let chat_id = chat_id.to_string();
        Self {
            place: match topic {
                None => Place::TelegramChat { chat_id },
                Some(thread_id) => Place::TelegramTopic { chat_id, thread_id: thread_id.to_string() },
            },
        }
    }

    /// Creates `http:chat:<keyName>:<chatId>`.
    pub fn http(key_name: &str, chat_id: &str) -> Result<Self, KeyError> {
        Self::new(Place::HttpChat { key_name: key_name.into(), chat_id: chat_id.into() })
    }

    /// Creates `agent:<agentId>:user:<userId>`.
    pub fn direct(agent_id: &str, user_id: &str) -> Result<Self, KeyError> {
        Self::new(Place::Direct { agent_id: agent_id.into(), user_id: user_id.into() })
    }

    /// Creates the key that the private window `chat_id` of `channel` has under `DM_SCOPE=chat`. Returns `None` if that is the
    /// direct chat of its person, as on Discord, or if the channel has no windows of its own.
    pub fn private_window(channel: Channel, chat_id: &str) -> Option<Self> {
        format!("{channel}:chat:{}", Escaped(chat_id)).parse().ok()
    }

    /// Returns true if the key of a private window of `channel` does not tell whose it is, nor an identity its window.
    pub fn are_private_windows_untold(channel: Channel) -> bool {
        let window = Self::private_window(channel, "1");
        window.is_some_and(|window| window.speakers() == Speakers::Untold(channel))
    }

    /// Creates the key of the private window of `identity`, if the identity alone tells it, as `telegram-42` does.
    pub fn window_of_identity(identity: &str) -> Option<Self> {
        let (channel, id) = identity.split_once('-')?;
        let window = Self::private_window(channel.parse().ok()?, id)?;
        (window.speakers() == Speakers::One(identity.to_owned())).then_some(window)
    }

    /// Returns the place with its parts unescaped.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the platform's id of the window, `<chatId>`; without one, the last part of the key.
    pub fn chat_id(&self) -> &str {
        let (_, parts) = self.place.form();
        let part = parts.iter().find(|(name, _)| *name == "chatId").or(parts.last());
        part.map_or("", |(_, id)| *id)
    }

    /// Returns the people who can speak in the chat. Whose memory it has, whose chat it is and what an erasure deletes of it
    /// follow from this.
    pub fn speakers(&self) -> Speakers {
        match &self.place {
            Place::Direct { user_id, .. } => Speakers::One(user_id.clone()),
            // The id of a private chat is that of the person; ids of groups and channels are negative.
            Place::TelegramChat { chat_id } | Place::TelegramTopic { chat_id, .. }
                if !chat_id.starts_with('-') =>
            {
                Speakers::One(Channel::Telegram.identity(chat_id))
            }
            Place::LarkChat { .. } => Speakers::Untold(Channel::Lark),
            Place::HttpChat { .. } | Place::WebRoom { .. } => Speakers::Callers,
            Place::TelegramChat { .. }
            | Place::TelegramTopic { .. }
            | Place::LarkThread { .. }
            | Place::DiscordChannel { .. }
            | Place::DiscordThread { .. } => Speakers::Several,
        }
    }

    /// Returns true for a private window on a platform, false for one of a group, and `None` if the key names no window or
    /// does not tell. Topics and threads are treated as their window.
    pub fn is_private(&self) -> Option<bool> {
        self.channel()?;
        match self.window().as_ref().unwrap_or(self).speakers() {
            Speakers::Callers | Speakers::Untold(_) => None,
            Speakers::One(_) => Some(true),
            Speakers::Several => Some(false),
        }
    }

    /// Returns the ActorKey of `user_id` here: `<ChatKey>:user:<userId>`. It is on every record, for audit, permission and
    /// approval.
    pub fn actor_key(&self, user_id: &str) -> Result<String, KeyError> {
        check_part("userId", user_id)?;
        Ok(format!("{self}:user:{}", Escaped(user_id)))
    }

    /// Returns the Person whose direct chat it is, on every channel; `None` for other chats.
    pub fn person(&self) -> Option<&str> {
        self.place.part("userId")
    }

    /// Returns the name of the API key whose conversation or room it is.
    pub fn key_name(&self) -> Option<&str> {
        self.place.part("keyName")
    }

    /// Returns the agent that the key names; `None` if it names none.
    pub fn agent_id(&self) -> Option<&str> {
        self.place.part("agentId")
    }

    /// Returns the key of the same place under `agent`; the same key if it names no agent.
    /// Fails if the key would be too long.
    pub fn of_agent(&self, agent: &str) -> Result<Self, KeyError> {
        let mut place = self.place.clone();
        if let Place::DiscordChannel { agent_id, .. }
        | Place::DiscordThread { agent_id, .. }
        | Place::Direct { agent_id, .. } = &mut place
        {
            agent.clone_into(agent_id);
        }
        Self::new(place)
    }

    /// Returns the window of a topic or a thread, if the key names it.
    pub fn window(&self) -> Option<Self> {
        self.place.part("threadId")?;
        // The key of a Discord thread does not name its channel.
        Self::private_window(self.channel()?, self.place.part("chatId")?)
    }

    /// Returns the channel; `None` for a direct chat, which may have several.
    pub fn channel(&self) -> Option<Channel> {
        match &self.place {
            Place::DiscordChannel { .. } | Place::DiscordThread { .. } => Some(Channel::Discord),
            _ => self.family().parse().ok(),
        }
    }

    /// Returns the first segment: `telegram`, `lark`, `http`, `web` or `agent`.
    pub fn family(&self) -> &'static str {
        let (form, _) = self.place.form();
        form.split_once(':').map_or(form, |(family, _)| family)
    }

    /// Returns the short opaque id of this chat, for message groups, S3 prefixes and logs.
    pub fn session_id(&self) -> SessionId {
        let digest = digest::digest(&digest::SHA256, self.to_string().as_bytes());
        SessionId(format!("{}-{}", self.family(), hex::encode(&digest.as_ref()[..12])))
    }
}

impl Place {
    fn part(&self, name: &str) -> Option<&str> {
        let (_, parts) = self.form();
        parts.into_iter().find(|(part, _)| *part == name).map(|(_, value)| value)
    }
}

impl fmt::Display for ChatKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (form, parts) = self.place.form();
        for (before, (_, part)) in form.split("{}").zip(parts) {
            write!(f, "{before}{}", Escaped(part))?;
        }
        Ok(())
    }
}

impl FromStr for ChatKey {
    type Err = KeyError;

    /// Parses a key as [`Display`](fmt::Display) writes it. `feishu:` is read as `lark:`, and the older form
    /// `<channel>:<agentId>:dm:<userId>` as the direct chat of that person.
    fn from_str(key: &str) -> Result<Self, KeyError> {
        let mut segments: Vec<&str> = key.split(':').collect();
        if segments[0] == "feishu" {
            segments[0] = "lark";
        }
        if let Some(place) = Place::read(&segments)? {
            return Self::new(place);
        }
        let [channel, agent, "dm", user] = segments[..] else { return Err(KeyError::UnknownShape) };
        let channel: Channel = channel.parse().map_err(|_| KeyError::UnknownShape)?;
        // Checked before it becomes a part of the Person.
        let user_id = unescape(user)?;
        check_part("userId", &user_id)?;
        Self::direct(&unescape(agent)?, &channel.identity(&user_id))
    }
}

/// Returns the parts of a key of this form, still escaped; `None` if it has another form.
fn parts_of<'a, const N: usize>(form: &str, segments: &[&'a str]) -> Option<[&'a str; N]> {
    let pairs = || form.split(':').zip(segments);
    let is_of =
        form.split(':').count() == segments.len() && pairs().all(|(of, own)| of == "{}" || of == *own);
    let parts = pairs().filter(|(of, _)| is_of && *of == "{}").map(|(_, own)| *own);
    parts.collect::<Vec<_>>().try_into().ok()
}

/// `<family>-<first 12 bytes of the SHA-256 of the ChatKey, in hex>`: short and opaque, and of 96 bits, so that two
/// chats never share one. It is the message group of the queue, the S3 prefix, and the name of the chat in logs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(String);

text_of!(SessionId);
serde_as_string!(ChatKey);

fn check_part(part: &'static str, value: &str) -> Result<(), KeyError> {
    if value.is_empty() {
        return Err(KeyError::EmptyPart { part });
    }
    match value.chars().find(|c| c.is_control()) {
        Some(character) => Err(KeyError::ControlCharacter { part, character }),
        None => Ok(()),
    }
}

struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find([':', '%']) {
            f.write_str(&rest[..at])?;
            f.write_str(if rest.as_bytes()[at] == b':' { "%3A" } else { "%25" })?;
            rest = &rest[at + 1..];
        }
        f.write_str(rest)
    }
}

fn unescape(part: &str) -> Result<String, KeyError> {
    let mut pieces = part.split('%');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        // Only the canonical spelling is accepted, so that a chat never has two keys.
        let (delimiter, rest) = match (piece.strip_prefix("3A"), piece.strip_prefix("25")) {
            (Some(rest), _) => (':', rest),
            (_, Some(rest)) => ('%', rest),
            _ => return Err(KeyError::BadEscape),
        };
        plain.push(delimiter);
        plain.push_str(rest);
    }
    Ok(plain)
}

#[cfg(test)]
mod tests;
