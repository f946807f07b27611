//! Destination of a reply: [`Address`].

use annals_core::record::{Channel, Record};
use annals_core::reply_token::ReplyToken;

use super::metadata::Ids;

/// Destination of a reply: the interaction, as long as its token is valid, and afterwards the channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The channel, thread or direct messages.
    pub channel_id: String,
    /// The message to refer to; `None` for an interaction, which is not a message.
    pub message_id: Option<String>,
    /// The token of the interaction.
    pub token: Option<ReplyToken>,
    /// True if the app is installed for the user alone, which limits the number of follow-ups.
    pub user_installed: bool,
}

impl Address {
    /// Returns the place that `record` came from, or `None` if it did not come from Discord.
    pub fn of(record: &Record) -> Option<Self> {
        if record.channel != Channel::Discord || record.chat_id.is_empty() {
            return None;
        }
        let ids: Ids = record.message.metadata.ids_of(Channel::Discord);
        // The id of a boundary is that of its message with a suffix.
        let message_id = record.message_id.as_str().split('/').next();
        let is_number = |id: &&str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
        Some(Self {
            channel_id: record.chat_id.clone(),
            message_id: message_id.filter(|_| !ids.interaction).filter(is_number).map(str::to_owned),
            token: record.reply_token().cloned(),
            user_installed: ids.user_installed,
        })
    }
}
