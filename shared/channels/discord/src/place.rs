//! The chat that a call or a message belongs to: [`Window`].
//!
//! | where | ChatKey |
//! | --- | --- |
//! | channel of a guild | `agent:<agentId>:channel:<guildId>:<channelId>` |
//! | thread of a guild | `agent:<agentId>:thread:<guildId>:<threadId>` |
//! | direct messages with the bot | `agent:<agentId>:user:<userId>` |
//! | group DM, or somebody's DM with somebody else | `agent:<agentId>:channel:@me:<channelId>`, a group |
//!
//! Source: [interaction contexts](https://discord.com/developers/docs/interactions/receiving-and-responding),
//! [channel types](https://discord.com/developers/docs/resources/channel#channel-object-channel-types).

use annals_channel::json::JsonView;
use annals_channel::settings::Settings;
use annals_channel::webhook::ParseError;
use annals_core::chat_key::{ChatKey, KeyError, Place};
use annals_core::draft::Origin;
use annals_core::metadata::ChatType;
use annals_core::record::Channel;

/// `guildId` of private channels.
const PRIVATE: &str = "@me";
/// Types of threads: of announcements, public, private.
const THREADS: [i64; 3] = [10, 11, 12];
/// Interaction context of direct messages with the bot.
const BOT_DM: i64 = 1;

/// The window that people see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window<'a> {
    pub(super) guild_id: Option<&'a str>,
    pub(super) channel_id: &'a str,
    is_thread: bool,
    /// True if only one person and the bot can read it.
    is_direct: bool,
}

impl<'a> Window<'a> {
    pub(super) fn of_interaction(call: JsonView<'a>) -> Result<Self, ParseError> {
        let channel = call.object("channel");
        let guild_id = call.id("guild_id").or_else(|| call.object("guild")?.id("id"));
        let channel_id = call.id("channel_id").or_else(|| channel?.id("id"));
        Ok(Self {
            guild_id,
            channel_id: channel_id.ok_or("the interaction has no channel")?,
            is_thread: channel.is_some_and(is_thread),
            // Without a context it might be somebody else's window.
            is_direct: guild_id.is_none() && call.int("context") == Some(BOT_DM),
        })
    }

    /// Returns the window of a message of the gateway or of the REST API. A bot gets no message of other people's direct
    /// messages.
    pub(super) fn of_message(message: JsonView<'a>) -> Result<Self, ParseError> {
        let guild_id = message.id("guild_id");
        Ok(Self {
            guild_id,
            channel_id: message.id("channel_id").ok_or("the message has no channel")?,
            is_thread: message.int("channel_type").is_some_and(|kind| THREADS.contains(&kind)),
            is_direct: guild_id.is_none(),
        })
    }

    /// Returns the chat, where `user_id` is the person with whom the bot has direct messages.
    pub(super) fn chat(self, user_id: &str, settings: &Settings) -> Result<ChatKey, KeyError> {
        let agent_id = settings.agent_id.clone();
        if self.is_direct {
            return ChatKey::direct(&agent_id, user_id);
        }
        let guild_id = self.guild_id.unwrap_or(PRIVATE).to_owned();
        let id = self.channel_id.to_owned();
        ChatKey::new(if self.is_thread {
            Place::DiscordThread { agent_id, guild_id, thread_id: id }
        } else {
            Place::DiscordChannel { agent_id, guild_id, channel_id: id }
        })
    }

    /// Returns the origin of a message of `user_id`.
    pub(super) fn origin(self, user_id: &str, settings: &Settings) -> Result<Origin, KeyError> {
        Ok(Origin {
            chat: self.chat(user_id, settings)?,
            channel: Channel::Discord,
            chat_id: self.channel_id.to_owned(),
            user_id: user_id.to_owned(),
        })
    }

    pub(super) fn chat_type(self) -> ChatType {
        if self.is_direct { ChatType::Private } else { ChatType::Group }
    }
}

/// Returns true if `channel` is a thread.
pub(super) fn is_thread(channel: JsonView<'_>) -> bool {
    channel.int("type").is_some_and(|kind| THREADS.contains(&kind))
}

/// Returns the chats that a message of this window of a guild may be in.
pub(super) fn chats_of_guild(
    guild_id: &str,
    channel_id: &str,
    settings: &Settings,
) -> Result<[ChatKey; 2], KeyError> {
    let window = |is_thread| Window { guild_id: Some(guild_id), channel_id, is_thread, is_direct: false };
    Ok([window(false).chat("", settings)?, window(true).chat("", settings)?])
}
