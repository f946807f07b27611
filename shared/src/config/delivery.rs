//! Settings of how replies go out.

use super::{ConfigError, Env};

/// How replies go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryConfig {
    /// `STREAM_REPLIES`: whether private chats of Telegram see an answer grow.
    pub stream_replies: bool,
}

impl DeliveryConfig {
    /// From the environment.
    pub fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        let stream_replies = env.choice("STREAM_REPLIES", &[("true", true), ("false", false)], &false)?;
        Ok(Self { stream_replies })
    }
}
