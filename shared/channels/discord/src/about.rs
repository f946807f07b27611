//! Facts about Discord's channel: [`ABOUT`].

use std::time::Duration;

use annals_channel::about::About;
use annals_core::record::Channel;

use crate::client::{BOT_RATE_LIMIT, CHANNEL_RATE_LIMIT};
use crate::settings::{API_BASE, PUBLIC_KEY, SETTINGS};
use crate::setup;

/// Facts about Discord's channel.
pub static ABOUT: About = About {
    channel: Channel::Discord,
    proofs: &[PUBLIC_KEY],
    unverified: "invalid request signature",
    // Text from which the development key pair is made.
    development_secret: "dev-discord-key",
    settings: &SETTINGS,
    api_base: API_BASE,
    bot_rate_limit: BOT_RATE_LIMIT,
    chat_rate_limit: CHANNEL_RATE_LIMIT,
    webhook_patience: Duration::from_secs(5),
    setup: setup::COMMAND,
};
