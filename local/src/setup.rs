//! `setup telegram`, `setup lark`: points a platform's webhook to Annals, or prints how to do it.
//!
//! A webhook is set only if the server at its address has the same secrets. So a bot in use keeps its old webhook until the new
//! one works, and no message is lost or late.

mod lark;
mod telegram;
mod vault;
mod webhook;

use std::io::Write;

use annals_core::settings::Env;
use reqwest::Url;

pub(crate) use self::telegram::Problem;
use self::vault::Vault;
pub use self::webhook::{LarkSetup, TelegramSetup};

/// Sets the webhook and the menu of a Telegram bot.
pub async fn telegram(env: Env<'_>, setup: &TelegramSetup, out: &mut impl Write) -> anyhow::Result<()> {
    let vault = Vault::open(setup.secret.as_deref(), &[telegram::TOKEN]).await?;
    telegram::run(env, vault, setup, out).await
}

/// Checks a Lark app and prints the steps that remain in its console.
pub async fn lark(env: Env<'_>, setup: &LarkSetup, out: &mut impl Write) -> anyhow::Result<()> {
    let vault = Vault::open(setup.secret.as_deref(), &lark::NEEDED).await?;
    lark::run(env, &vault, setup, out).await
}

/// Probes whether a Telegram webhook accepts `secret`, and returns the reason if it does not. Stores nothing there.
pub(crate) async fn takes_secret(url: &str, secret: &str) -> anyhow::Result<Option<Problem>> {
    telegram::ask(&Url::parse(url)?, secret).await
}

/// Fails: Discord is not supported yet.
pub fn discord() -> anyhow::Result<()> {
    anyhow::bail!(
        "this version does not support Discord: there is nothing to set up, and DISCORD_* is not read"
    )
}
