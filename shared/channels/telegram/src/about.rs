//! Facts about Telegram's channel: [`ABOUT`].

use std::time::Duration;

use annals_channel::about::About;
use annals_core::record::Channel;

use crate::client::{BOT_RATE_LIMIT, PRIVATE_RATE_LIMIT};
use crate::settings::{API_BASE, SECRET, SETTINGS};
use crate::setup;

/// Facts about Telegram's channel.
pub static ABOUT: About = About {
    channel: Channel::Telegram,
    proofs: &[SECRET],
    unverified: "X-Telegram-Bot-Api-Secret-Token is missing or wrong",
    development_secret: "dev-telegram-secret",
    settings: &SETTINGS,
    api_base: API_BASE,
    bot_rate_limit: BOT_RATE_LIMIT,
    chat_rate_limit: PRIVATE_RATE_LIMIT,
    webhook_patience: Duration::from_secs(5),
    setup: setup::COMMAND,
};
