//! `setup lark`: checks the app's settings and address, and prints the steps in Lark's console, for which Lark has no API.

use std::io::Write;

use annals_channel::setup::{self, Failure, Setup, SetupCommand};
use annals_io::clock::Clock;
use annals_io::errors::{chain, shown_url};
use reqwest::Url;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::EVENTS;
use crate::buttons::PRESSED;
use crate::client::{CallError, Client};
use crate::settings::{LarkConfig, NEEDED};
use crate::verify::encrypt;

pub(super) const COMMAND: SetupCommand = SetupCommand {
    about: "Check the app of `LARK_APP_ID`, and print the steps in Lark's console",
    url: "Address for events: https://…/lark",
    secret: "Read the app's settings from this secret in Secrets Manager",
    needed: &NEEDED,
    options: &[],
};

pub(super) async fn run(setup: Setup<'_>) -> Result<(), Failure> {
    let Setup { url, env, out, .. } = setup;
    let config = LarkConfig::from_env(env)?.ok_or(
        "LARK_APP_ID, LARK_APP_SECRET and LARK_VERIFICATION_TOKEN are not set: the app's page in the developer console \
         has them",
    )?;
    let client =
        Client::new(&config.api_base, config.app_id.clone(), config.app_secret.clone(), Clock::system())?;
    let bot = client.bot_info().await.map_err(|error| unknown(&error, &shown_url(&config.api_base)))?;
    writeln!(out, "app       {} ({})", bot.name, config.app_id)?;
    let key = if config.encrypt_key.is_some() { "events come encrypted and signed" } else { NO_KEY };
    writeln!(out, "key       {key}")?;
    let problem = challenge(&url, &config).await?;
    match &problem {
        None => writeln!(out, "address   {url} answers Lark's challenge")?,
        Some(problem) => writeln!(out, "address   {url}: {problem}")?,
    }
    steps(&url, &config, out)?;
    match problem {
        None => Ok(()),
        Some(_) => Err("the address does not answer Lark's challenge: step 3 would fail now".into()),
    }
}

/// Returns the error of a bot that could not be read.
fn unknown(error: &CallError, base: &str) -> String {
    let reason = if error.is_refusal() {
        "Lark refused the app, or it has no bot".to_owned()
    } else {
        format!(
            "{base} cannot be asked about the app; check LARK_API_BASE and the network, and run this again"
        )
    };
    format!("{reason}: {}", chain(error))
}

const NO_KEY: &str = "LARK_ENCRYPT_KEY is not set: events come plain, and the token in each is all that tells them from \
                      forged ones";

fn steps(url: &Url, config: &LarkConfig, out: &mut dyn Write) -> std::io::Result<()> {
    let console = shown_url(&config.api_base);
    let console = console.trim_end_matches('/');
    writeln!(out, "\nLark takes the rest in its developer console, {console}/app/{}:\n", config.app_id)?;
    writeln!(out, "1. Add the Bot ability. Under Permissions, add")?;
    writeln!(out, "     im:message, im:message.p2p_msg:readonly, im:message.group_at_msg:readonly")?;
    writeln!(
        out,
        "   and, to see all that is said in groups (GROUP_ACTIVATION=always, LARK_GROUP_CONTEXT), im:message.group_msg"
    )?;
    writeln!(out, "   and, so that a group's managers may allow calls of tools (TOOLS), im:chat:readonly")?;
    writeln!(
        out,
        "2. Events and callbacks, Encryption: the encrypt key and the verification token must be those above"
    )?;
    writeln!(
        out,
        "3. Events and callbacks, Event configuration: send events to the developer's server, at\n     {url}"
    )?;
    writeln!(out, "   and add these events:")?;
    for (event, meaning) in EVENTS {
        writeln!(out, "     {event:<48} {meaning}")?;
    }
    writeln!(
        out,
        "4. Events and callbacks, Callback configuration: send callbacks to the developer's server, at the same address,"
    )?;
    writeln!(out, "   and add this callback:")?;
    writeln!(out, "     {PRESSED:<48} a button was pressed, by which a call is allowed or denied")?;
    writeln!(out, "5. Create a version and publish it: permissions, events and callbacks hold from then on")
}

/// Sends the challenge to `url` that Lark sends when the address is entered in its console.
async fn challenge(url: &Url, config: &LarkConfig) -> Result<Option<String>, Failure> {
    const CHALLENGE: &str = "annals-setup";
    let token = config.verification_token.expose_secret();
    let mut body = json!({"challenge": CHALLENGE, "token": token, "type": "url_verification"});
    if let Some(key) = &config.encrypt_key {
        let plain = body.to_string();
        let encrypted =
            encrypt(key.expose_secret(), plain.as_bytes()).ok_or("the challenge cannot be encrypted")?;
        body = json!({ "encrypt": encrypted });
    }
    let (status, answer) = match setup::probe(url, |request| request.json(&body)).await {
        Ok(answer) => answer,
        Err(words) => return Ok(Some(words.en)),
    };
    let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
    Ok(match status.as_u16() {
        _ if status.is_success() && answer["challenge"] == CHALLENGE => None,
        401 => Some("it answers 401: the program there has another token or encrypt key".into()),
        status => Some(format!("it answers {status}, and no challenge")),
    })
}

#[cfg(test)]
mod tests {
    use annals_channel::settings::channel_settings;
    use annals_channel::webhook::Incoming;
    use annals_core::settings::Env;

    use super::*;
    use crate::bot::Bot;
    use crate::parse::parse;

    #[test]
    fn every_printed_event_is_parsed() {
        let settings = channel_settings(Env::new(&|_| None)).unwrap();
        let reason = |kind: &str| {
            let event = json!({"schema": "2.0", "header": {"event_type": kind}, "event": {}});
            let bot = Bot::default();
            match &parse(&event, &bot, &settings).unwrap()[..] {
                [Incoming::Ignored { reason, .. }] => reason.clone(),
                other => panic!("{kind}: {other:?}"),
            }
        };
        let unread = reason("im.chat.updated_v1");
        for (event, _) in EVENTS {
            assert_ne!(reason(event), unread, "{event}");
        }
    }
}
