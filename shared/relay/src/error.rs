//! Reasons for which a relay ends by itself: [`RelayError`].

/// A fault that only the operator can repair. The message names the setting and the next step.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// Discord refused the token.
    #[error(
        "Discord refused DISCORD_BOT_TOKEN: copy the token from the page Bot of the application in the developer portal"
    )]
    Token,
    /// The privileged intent is not enabled (close code 4014).
    #[error(
        "Discord refused the intent MESSAGE_CONTENT: turn on \"Message Content Intent\" on the page Bot of the application \
         in the developer portal, or set GROUP_ACTIVATION=mention"
    )]
    MessageContent,
    /// The bot is in more guilds than one connection may serve (close codes 4010 and 4011).
    #[error("the bot is in too many guilds for one gateway connection (2,500): remove it from some")]
    TooManyGuilds,
    /// Another close code after which Discord does not allow a reconnect.
    #[error(
        "Discord's gateway refused the connection with close code {0}: look it up in Discord's documentation, and update Annals"
    )]
    Refused(u16),
}

impl RelayError {
    /// Returns the error of a close code after which a client must not reconnect.
    pub(crate) fn of_close_code(code: u16) -> Option<Self> {
        // https://discord.com/developers/docs/topics/opcodes-and-status-codes#gateway-gateway-close-event-codes
        match code {
            4004 => Some(Self::Token),
            4010 | 4011 => Some(Self::TooManyGuilds),
            4012 | 4013 => Some(Self::Refused(code)),
            4014 => Some(Self::MessageContent),
            _ => None,
        }
    }
}
