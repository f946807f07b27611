//! `setup discord`: registers the commands, and sets the addresses of the application.
//!
//! 1. Reads the application of the bot's token, and compares it with the settings.
//! 2. Probes whether the address refuses a call without a signature, as Annals does.
//! 3. Sets the addresses. Discord then checks the address with signatures of its own, right and wrong ones.
//! 4. Registers the commands.

use annals_channel::finding::Words;
use annals_channel::settings::language;
use annals_channel::setup::{self, Failure, Setup, SetupCommand};
use annals_channel::words;
use annals_io::clock::Clock;
use annals_io::errors::chain;
use reqwest::{StatusCode, Url};

use crate::client::{Application, Client};
use crate::commands::commands;
use crate::settings::{APPLICATION_ID, BOT_TOKEN, DiscordConfig, PUBLIC_KEY};

pub(super) const COMMAND: SetupCommand = SetupCommand {
    about: "Register the commands of the application of `DISCORD_BOT_TOKEN`, and set its addresses",
    url: "Address for interactions and webhook events: https://…/discord",
    secret: "Read the application's settings from this secret in Secrets Manager",
    needed: &[APPLICATION_ID, PUBLIC_KEY, BOT_TOKEN],
    options: &[],
};

pub(super) async fn run(setup: Setup<'_>) -> Result<(), Failure> {
    let Setup { url, env, out, .. } = setup;
    let config = DiscordConfig::from_env(env)?.ok_or(
        "DISCORD_APPLICATION_ID and DISCORD_PUBLIC_KEY are not set: the page General Information of the application in \
         the developer portal has them",
    )?;
    if config.bot_token.is_none() {
        return Err("DISCORD_BOT_TOKEN is not set: the page Bot of the application in the developer portal makes one. \
                    It registers the commands, even for a bot that answers commands alone"
            .into());
    }
    let language = language(env)?;
    let client = Client::new(&config, Clock::system())?;
    let application = client.application().await?;
    writeln!(out, "app       {} ({})", application.name, application.id)?;
    if let Some(problem) = mismatch(&application, &config) {
        return Err(problem.en.into());
    }
    if let Some(Words { en, .. }) = probe(&url).await {
        return Err(format!(
            "{url}: {en}\n\nNothing was changed. Start the program there with these settings, and run this again."
        )
        .into());
    }
    let set = client.set_endpoints(url.as_str()).await.map_err(|error| {
        format!(
            "{}\n\nDiscord checks the address when it is set: the program there must have this DISCORD_PUBLIC_KEY.",
            chain(&error)
        )
    })?;
    if set.interactions_endpoint_url.as_deref() != Some(url.as_str()) {
        return Err("Discord did not keep the address for interactions: run this again".into());
    }
    writeln!(out, "address   {url}: interactions, and events of installations")?;
    let registered = client
        .set_commands(&commands(language))
        .await
        .map_err(|error| format!("the address is set, but not the commands: {}", chain(&error)))?;
    writeln!(out, "commands  {registered} registered, for servers, direct messages and group DMs")?;
    writeln!(out, "\nLeft to do:\n")?;
    writeln!(out, "1. Add the app to a server or to your account:")?;
    writeln!(out, "     https://discord.com/oauth2/authorize?client_id={}", application.id)?;
    writeln!(
        out,
        "2. For messages that are not commands (mentions, replies, direct messages), run the relay: docs/channels.md#discord"
    )?;
    if !application.has_message_content() {
        writeln!(
            out,
            "3. Only for GROUP_ACTIVATION=always: turn on the Message Content intent, on the page Bot of the application"
        )?;
    }
    Ok(())
}

/// Returns what differs between the application and the settings.
pub(super) fn mismatch(application: &Application, config: &DiscordConfig) -> Option<Words> {
    let (of_token, set) = (&application.id, &config.application_id);
    if of_token != set {
        return Some(words!(
            "DISCORD_BOT_TOKEN is that of the application {of_token}, and DISCORD_APPLICATION_ID is {set}: copy both from \
             one application in the developer portal",
            "DISCORD_BOT_TOKEN 属于应用 {of_token}，而 DISCORD_APPLICATION_ID 是 {set}：请在开发者门户中从同一应用复制两者"
        ));
    }
    let is_own = application.verify_key.eq_ignore_ascii_case(&hex::encode(config.public_key));
    (!is_own).then(|| {
        words!(
            "DISCORD_PUBLIC_KEY is not the application's public key: copy it from the page General Information in the \
             developer portal",
            "DISCORD_PUBLIC_KEY 不是该应用的公钥：请从开发者门户的 General Information 页面复制"
        )
    })
}

/// Probes whether the address refuses a call without a signature, and returns the reason if it does not.
pub(super) async fn probe(url: &Url) -> Option<Words> {
    match setup::probe(url, |request| request.body("{}")).await {
        Err(words) => Some(words),
        Ok((StatusCode::UNAUTHORIZED, _)) => None,
        Ok((StatusCode::FORBIDDEN, _)) => {
            Some(setup::not_local("DISCORD_APPLICATION_ID and DISCORD_PUBLIC_KEY"))
        }
        Ok((status, _)) => {
            let status = status.as_u16();
            Some(words!(
                "it answers {status} to a call without a signature; Annals answers 401",
                "对没有签名的请求应答 {status}，Annals 会应答 401"
            ))
        }
    }
}
