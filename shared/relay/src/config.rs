//! Settings of a relay: [`RelayConfig`].

use secrecy::SecretString;
use twilight_gateway::Intents;

/// Settings of a relay.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// `DISCORD_APPLICATION_ID`: names the state.
    pub application_id: String,
    /// User id of the bot.
    pub bot_id: String,
    /// `DISCORD_BOT_TOKEN`
    pub token: SecretString,
    /// `DISCORD_API_BASE`, without a slash at its end.
    pub api_base: String,
    /// `User-Agent` of requests to that.
    pub user_agent: &'static str,
    /// True if messages that do not address the bot are to have their text, too (`GROUP_ACTIVATION=always`). It needs the
    /// privileged intent `MESSAGE_CONTENT`.
    pub needs_message_content: bool,
}

impl RelayConfig {
    pub(crate) fn intents(&self) -> Intents {
        let intents = Intents::GUILDS | Intents::GUILD_MESSAGES | Intents::DIRECT_MESSAGES;
        if self.needs_message_content { intents | Intents::MESSAGE_CONTENT } else { intents }
    }
}
