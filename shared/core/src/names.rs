//! Closed lists of names that are stored: [`Channel`], [`ChatType`] and [`Kind`]; and macros for others.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The channel that a message came by, or that a reply goes out by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// A Telegram bot.
    Telegram,
    /// A Lark (Feishu) bot.
    Lark,
    /// A Discord application.
    Discord,
    /// The HTTP API.
    Http,
    /// `useChat` of the AI SDK.
    Web,
    /// `annals chat`, on the machine that the program runs on.
    Terminal,
}

impl Channel {
    /// Returns the channels of platforms.
    pub fn platforms() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|channel| channel.is_platform())
    }

    /// Returns true for the channel of a platform: people there often write several messages in a row, and the reply is
    /// sent to them. Returns false if callers fetch the reply.
    pub fn is_platform(self) -> bool {
        !matches!(self, Self::Http | Self::Web | Self::Terminal)
    }

    /// Returns the identity of the channel's user `user_id`, which is the user part of a direct chat's key:
    /// `telegram-<id>`, `lark-<open_id>`, and the id itself on Discord and where there is no platform.
    pub fn identity(self, user_id: &str) -> String {
        let is_bare = self == Self::Discord || !self.is_platform();
        if is_bare { user_id.to_owned() } else { format!("{self}-{user_id}") }
    }

    /// Returns true if `id` has the form of the platform's message ids, which operators may not choose. Derived ids have `/` and
    /// more after it.
    pub fn has_message_ids_like(self, id: &str) -> bool {
        let own = id.split('/').next().unwrap_or_default();
        match self {
            Self::Telegram | Self::Discord => own.bytes().all(|byte| byte.is_ascii_digit()),
            Self::Lark => own.starts_with("om_"),
            Self::Http | Self::Web | Self::Terminal => false,
        }
    }

    /// Returns true if the platform reaches a thread by a message in it alone. Others are given the thread, and would quote
    /// the message.
    pub fn reaches_threads_by_messages(self) -> bool {
        match self {
            Self::Lark => true,
            Self::Telegram | Self::Discord | Self::Http | Self::Web | Self::Terminal => false,
        }
    }

    /// Returns true for the channels of the API's callers. They choose the ids of messages and name the user, so that a caller
    /// may repeat another user's id; and they read replies and confirmations in the history, files included.
    pub fn is_of_callers(self) -> bool {
        matches!(self, Self::Http | Self::Web)
    }

    /// Returns the name of the platform or protocol, as people are shown it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Telegram => "Telegram",
            Self::Lark => "Lark",
            Self::Discord => "Discord",
            Self::Http => "HTTP",
            Self::Web => "web",
            Self::Terminal => "terminal",
        }
    }
}

/// Type of a platform's chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChatType {
    /// One person and the bot alone.
    Private,
    /// A group.
    Group,
    /// A large group of Telegram.
    Supergroup,
    /// A channel of Telegram, in which only its owners write. A room in which people talk is a [`Group`](Self::Group), also if
    /// its platform calls it a channel.
    #[serde(rename = "channel")]
    Broadcast,
}

impl ChatType {
    /// Returns true if several people can speak in such a chat.
    pub fn is_group(self) -> bool {
        match self {
            Self::Group | Self::Supergroup => true,
            Self::Private | Self::Broadcast => false,
        }
    }
}

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
    /// A confirmation, a failure notice, or a command other than a boundary: listed, never in the Context.
    Notice,
}

macro_rules! string_enum {
    ($type:ident { $($variant:ident => $name:literal),+ $(,)? }) => {
        impl $type {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the name as stored and listed.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
        impl std::str::FromStr for $type {
            type Err = $crate::names::UnknownName;
            fn from_str(name: &str) -> Result<Self, Self::Err> {
                let unknown = || $crate::names::UnknownName(name.to_owned());
                match name { $($name => Ok(Self::$variant),)+ _ => Err(unknown()) }
            }
        }
    };
}
pub(crate) use string_enum;
string_enum!(Channel {
    Telegram => "telegram", Lark => "lark", Discord => "discord", Http => "http", Web => "web", Terminal => "terminal",
});
string_enum!(ChatType {
    Private => "private", Group => "group", Supergroup => "supergroup", Broadcast => "channel",
});
string_enum!(Kind {
    Normal => "normal", Event => "event", Revision => "revision", Summary => "summary", Boundary => "boundary",
    Notice => "notice",
});

/// A stored name that this version does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown name {0:?}")]
pub struct UnknownName(pub(crate) String);

/// Stores a type as the string that it displays and is parsed from.
macro_rules! serde_as_string {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <String as serde::Deserialize>::deserialize(deserializer)?
                    .parse()
                    .map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use serde_as_string;

/// Gives the text of a type that holds a string.
macro_rules! text_of {
    ($($type:ident),+) => {$(
        impl $type {
            /// Returns it as a string slice.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}
pub(crate) use text_of;
