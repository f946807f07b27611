//! `setup telegram`, `setup lark`: has a platform send to Annals, or says how.
//!
//! A platform is pointed to an address only where what answers there holds the same secrets. So a bot in use goes on
//! working by its old webhook until the new one works too, and nothing is lost or late.

mod lark;
mod telegram;
mod vault;

use std::io::Write;
use std::time::Duration;

use annals_shared::config::Env;
use anyhow::Context;
use reqwest::Url;

pub(crate) use self::telegram::Problem;
use self::vault::Vault;

/// What `setup telegram` is told.
#[derive(Clone, Debug)]
pub struct TelegramSetup {
    /// Where updates are to go.
    pub url: String,
    /// The secret in Secrets Manager that holds the token, and is to hold the webhook secret.
    pub secret: Option<String>,
    /// How many updates may be delivered at once.
    pub max_connections: u8,
    /// Whether the webhook is set although what answers does not take the secret.
    pub anyway: bool,
}

/// What `setup lark` is told.
#[derive(Clone, Debug)]
pub struct LarkSetup {
    /// Where events are to go.
    pub url: String,
    /// The secret in Secrets Manager that holds the app's settings.
    pub secret: Option<String>,
}

/// Sets the webhook and the menu of a Telegram bot.
pub async fn telegram(env: Env<'_>, setup: &TelegramSetup, out: &mut impl Write) -> anyhow::Result<()> {
    let vault = Vault::open(setup.secret.as_deref(), &[telegram::TOKEN]).await?;
    telegram::run(env, vault, setup, out).await
}

/// Checks a Lark app and prints what is left to do in its console.
pub async fn lark(env: Env<'_>, setup: &LarkSetup, out: &mut impl Write) -> anyhow::Result<()> {
    let vault = Vault::open(setup.secret.as_deref(), &lark::NEEDED).await?;
    lark::run(env, &vault, setup, out).await
}

/// Asks a Telegram webhook whether it takes `secret`; why not, where it does not. Nothing is stored there by it.
pub(crate) async fn takes_secret(url: &str, secret: &str) -> anyhow::Result<Option<Problem>> {
    telegram::ask(&Url::parse(url)?, secret).await
}

/// Says that there is no Discord yet.
pub fn discord() -> anyhow::Result<()> {
    anyhow::bail!(
        "this version has no door for Discord: there is nothing to set up, and DISCORD_* is not read"
    )
}

/// The address of a webhook, which ends in `route`.
fn address(url: &str, route: &str) -> anyhow::Result<Url> {
    let url = Url::parse(url).with_context(|| format!("--url takes a whole address, https://…{route}"))?;
    anyhow::ensure!(
        matches!(url.scheme(), "https" | "http") && url.path().ends_with(route),
        "--url must be the address of the route {route}: https://…{route}"
    );
    Ok(url)
}

/// A client that asks an address what answers there.
fn asking() -> anyhow::Result<reqwest::Client> {
    // As long as a function may take to start and answer.
    let client = reqwest::Client::builder().timeout(Duration::from_secs(30));
    Ok(client.redirect(reqwest::redirect::Policy::none()).build()?)
}

/// Why an address could not be asked.
fn unreachable(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() {
        "nothing answers there in time"
    } else if error.is_connect() {
        "no connection can be made to it"
    } else {
        "no whole answer comes from it"
    }
}
