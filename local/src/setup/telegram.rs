//! `setup telegram`: sets the webhook and the menu of commands.
//!
//! 1. Reads the bot of the token.
//! 2. Makes a webhook secret if there is none, and stores it before it is used.
//! 3. Probes whether the address accepts the secret, with a body that is not an update, so that nothing is stored.
//! 4. Only then sets the webhook at Telegram, and reads it back.

use std::io::Write;

use annals_channel_telegram::allowed_updates;
use annals_channel_telegram::client::{Client, Webhook};
use annals_channel_telegram::settings::TelegramConfig;
use annals_channel_telegram::verify::SECRET_HEADER;
use annals_core::settings::Env;
use annals_io::clock::Clock;
use anyhow::{Context, bail};
use reqwest::{StatusCode, Url};
use secrecy::ExposeSecret;

use super::vault::Vault;
use super::webhook::{TelegramSetup, address, asking, unreachable};
use crate::stores::random_hex;

pub(super) const TOKEN: &str = "TELEGRAM_BOT_TOKEN";
const SECRET: &str = "TELEGRAM_WEBHOOK_SECRET";

pub(super) async fn run(
    env: Env<'_>,
    mut vault: Vault,
    setup: &TelegramSetup,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let url = address(&setup.url, "/telegram")?;
    let Some(token) = vault.setting(env, TOKEN)? else {
        let place =
            vault.name().map_or(String::new(), |name| format!(", neither here nor in the secret {name}"));
        bail!("{TOKEN} is not set{place}: @BotFather gives it")
    };
    let known = vault.setting(env, SECRET)?;
    let is_new = known.is_none();
    let secret = known.map_or_else(random_hex::<32>, Ok)?;
    // Parsed like in a function.
    let settings = |name: &str| match name {
        TOKEN => Some(token.clone()),
        SECRET => Some(secret.clone()),
        _ => env.optional(name),
    };
    let config = TelegramConfig::from_env(Env::new(&settings))?.context("Telegram is not set up")?;
    let client = Client::new(&config.api_base, config.token, Clock::system())?;

    let me = client.get_me().await?;
    writeln!(out, "bot       @{} ({})", me.username, me.id)?;
    if let Some(name) = vault.name().map(str::to_owned) {
        if vault.has(SECRET) {
            writeln!(out, "secret    as the secret {name} has it")?;
        } else {
            vault.put(SECRET, &secret).await?;
            writeln!(out, "secret    stored in the secret {name}, beside what it held")?;
        }
    } else if is_new {
        writeln!(
            out,
            "secret    {SECRET} is not set. Here is one, which nobody holds yet; to start Annals with it:\n"
        )?;
        writeln!(out, "  export {SECRET}={secret}\n")?;
        writeln!(out, "Deployed, this makes one and stores it where the functions read it:\n")?;
        writeln!(out, "  cargo run -- setup telegram --url {url} --secret <the secret that has {TOKEN}>\n")?;
    } else {
        writeln!(out, "secret    as {SECRET} has it")?;
    }

    if let Some(problem) = ask(&url, config.secret.expose_secret()).await? {
        if !setup.anyway {
            let (does, next) = match (&problem, vault.name()) {
                (Problem::OtherSecret, Some(_)) => (
                    "does not take the secret",
                    "Deploy with another SecretsRevision, so that the functions read the secret again, and then run \
                     this again.",
                ),
                (Problem::OtherSecret, None) => (
                    "does not take the secret",
                    "Start what answers there with this secret, and then run this again.",
                ),
                (Problem::Unreachable(_), _) => (
                    "cannot be asked whether it takes the secret",
                    "Start what is to answer there, with this secret, and then run this again.",
                ),
                (Problem::Other(_), _) => {
                    ("does not take the secret", "See what answers there, and then run this again.")
                }
            };
            bail!(
                "{url} {does}: {problem}\n\n{next} The webhook is as it was. (--anyway sets it all the \
                 same: Telegram then tries for a day to deliver what people write.)"
            );
        }
        writeln!(out, "address   {problem}; set all the same")?;
    }

    let url = String::from(url);
    let webhook = Webhook { url, secret: config.secret, max_connections: setup.max_connections };
    client.set_webhook(&webhook).await?;
    let info = client.webhook_info().await?;
    anyhow::ensure!(
        info.url == webhook.url,
        "Telegram says that its webhook is {}: somebody else sets it too",
        if info.url.is_empty() { "none" } else { &info.url }
    );
    let missing = info.missing();
    anyhow::ensure!(
        missing.is_empty(),
        "Telegram does not send what it was asked for: {}",
        missing.join(", ")
    );
    let kinds = allowed_updates().count();
    let waiting = info.pending_update_count;
    writeln!(out, "webhook   {}: {kinds} kinds of update, {waiting} waiting", info.url)?;
    let commands = client.set_commands().await.context("the webhook is set, but not the menu of commands")?;
    writeln!(out, "commands  {commands} in the menu")?;
    Ok(())
}

/// Reason why an address does not accept a secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("it answers 401, so what answers there holds another one")]
    OtherSecret,
    /// The address could not be probed.
    #[error("{0}")]
    Unreachable(&'static str),
    #[error("{0}")]
    Other(String),
}

/// Probes whether `url` accepts `secret`.
pub(super) async fn ask(url: &Url, secret: &str) -> anyhow::Result<Option<Problem>> {
    let request = asking()?.post(url.clone()).header(SECRET_HEADER, secret);
    // Not an update, so it is refused, but only after the secret is checked.
    let answer = match request.header("Content-Type", "application/json").body("[]").send().await {
        Ok(answer) => answer,
        Err(error) => return Ok(Some(Problem::Unreachable(unreachable(&error)))),
    };
    let status = answer.status();
    let body = answer.text().await.unwrap_or_default();
    Ok(match status {
        StatusCode::BAD_REQUEST if body.contains("urn:annals:problem:not-an-update") => None,
        StatusCode::UNAUTHORIZED => Some(Problem::OtherSecret),
        StatusCode::FORBIDDEN if body.contains("urn:annals:problem:not-local") => Some(Problem::Other(
            "the program there was started without TELEGRAM_BOT_TOKEN and TELEGRAM_WEBHOOK_SECRET, or its tunnel does not \
             rewrite the Host header"
                .into(),
        )),
        status => Some(Problem::Other(format!("it answers {}, which Annals does not", status.as_u16()))),
    })
}
