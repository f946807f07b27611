//! Facts about a channel: [`About`].

use std::time::Duration;

use annals_core::record::Channel;
use annals_core::settings::{ConfigError, Setting, Unset};

use crate::rate_limit::RateLimit;
use crate::setup::SetupCommand;

/// Facts about a channel, which do not depend on its settings.
#[derive(Debug)]
pub struct About {
    /// The channel.
    pub channel: Channel,
    /// Settings by which the webhook tells the platform's calls from forged ones. Only `replay` names them, after a 401.
    pub proofs: &'static [&'static str],
    /// Detail of the 401 for a call that is not the platform's. It is the same for every reason, so that a forger learns
    /// nothing.
    pub unverified: &'static str,
    /// Secret of the settings that apply if nothing is set:
    /// [`ChannelDefinition::development`](crate::channel::ChannelDefinition::development). Everybody knows it.
    pub development_secret: &'static str,
    /// All settings of the channel. The first is one that must be set. One whose default is only
    /// [described](Setting::described) counts as a [secret](About::secrets).
    pub settings: &'static [Setting],
    /// Setting with the address of the platform's API. On a host of the operator's own it has no default: it is
    /// [described](Setting::described) as required, read by [`all_or_none`](crate::settings::all_or_none) with the secrets,
    /// and one of those for development.
    pub api_base: Setting,
    /// Rate limit of the bot over all chats.
    pub bot_rate_limit: RateLimit,
    /// Rate limit of a chat: see [`Platform::rate_limit`](crate::platform::Platform::rate_limit).
    pub chat_rate_limit: RateLimit,
    /// Longest wait for a rate limit while the platform waits for the webhook's response.
    pub webhook_patience: Duration,
    /// The command `setup`.
    pub setup: SetupCommand,
}

impl About {
    /// Returns the platform's name, such as `Telegram`.
    pub fn platform(&self) -> &'static str {
        self.channel.title()
    }

    /// Returns the settings that a secret of Secrets Manager has: those without a default, except [`About::api_base`].
    pub fn secrets(&self) -> impl Iterator<Item = &'static str> {
        let names = self.settings.iter().filter(|one| matches!(one.unset, Unset::Described(_)));
        names.map(|one| one.name).filter(|name| *name != self.api_base.name)
    }

    /// Returns the path of the webhook, such as `/telegram`.
    pub fn path(&self) -> String {
        format!("/{}", self.channel)
    }

    /// Returns the error for a channel that must be set up, and is not.
    pub fn not_set_up(&self) -> ConfigError {
        ConfigError::new(self.settings[0].name, "is not set")
    }
}
