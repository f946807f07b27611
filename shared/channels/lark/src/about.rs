//! Facts about Lark's channel: [`ABOUT`].

use std::time::Duration;

use annals_channel::about::About;
use annals_core::record::Channel;

use crate::client::{APP_RATE_LIMIT, CHAT_RATE_LIMIT};
use crate::settings::{API_BASE, ENCRYPT_KEY, SETTINGS, VERIFICATION_TOKEN};
use crate::setup;

/// Facts about Lark's channel.
pub static ABOUT: About = About {
    channel: Channel::Lark,
    proofs: &[VERIFICATION_TOKEN, ENCRYPT_KEY],
    unverified: "the call is not signed, encrypted or marked as Lark's calls are",
    development_secret: "dev-lark-token",
    settings: &SETTINGS,
    api_base: API_BASE,
    bot_rate_limit: APP_RATE_LIMIT,
    chat_rate_limit: CHAT_RATE_LIMIT,
    // Lark waits three seconds for the response.
    webhook_patience: Duration::from_secs(1),
    setup: setup::COMMAND,
};
