//! `setup telegram`: sets the webhook and the menu of commands.
//!
//! 1. Reads the bot of the token.
//! 2. Makes a webhook secret if there is none, and stores it before it is used.
//! 3. Probes whether the address accepts the secret, with a body that is not an update, so that nothing is stored.
//! 4. Only then sets the webhook at Telegram, and reads it back.

use annals_channel::finding::Words;
use annals_channel::settings::language;
use annals_channel::setup::{self, Failure, Setup, SetupCommand, SetupOption};
use annals_channel::words;
use annals_core::settings::Env;
use annals_io::clock::Clock;
use annals_io::errors::chain;
use annals_io::random;
use reqwest::{StatusCode, Url};
use secrecy::ExposeSecret;

use crate::allowed_updates;
use crate::client::Client;
use crate::settings::{SECRET, SECRET_HEADER, TOKEN, TelegramConfig};

pub(super) const COMMAND: SetupCommand = SetupCommand {
    about: "Set the webhook and the menu of the bot of `TELEGRAM_BOT_TOKEN`",
    url: "Address for updates: https://…/telegram",
    secret: "Read the token from this secret in Secrets Manager, and store the webhook secret there if it has none",
    needed: &[TOKEN],
    options: &[
        SetupOption {
            name: "max-connections",
            help: "Largest number of parallel deliveries",
            number: Some((40, 1..=100)),
        },
        SetupOption {
            name: "anyway",
            help: "Set the webhook even if the address does not accept the secret",
            number: None,
        },
    ],
};

pub(super) async fn run(setup: Setup<'_>) -> Result<(), Failure> {
    let Setup { url, env, mut vault, option, out } = setup;
    let Some(token) = env.optional(TOKEN) else {
        let place = match &vault {
            Some(vault) => format!(", neither here nor in the secret {}", vault.name()),
            None => String::new(),
        };
        return Err(format!("{TOKEN} is not set{place}: @BotFather gives it").into());
    };
    let known = env.optional(SECRET);
    let is_new = known.is_none();
    let secret = known.map_or_else(random::secret::<32>, Ok)?;
    // Parsed like in a function.
    let settings = |name: &str| match name {
        TOKEN => Some(token.clone()),
        SECRET => Some(secret.clone()),
        _ => env.optional(name),
    };
    let config = TelegramConfig::from_env(Env::new(&settings))?.ok_or("Telegram is not set up")?;
    let language = language(env)?;
    let client = Client::new(&config.api_base, config.token, Clock::system())?;

    let me = client.get_me().await?;
    writeln!(out, "bot       @{} ({})", me.username, me.id)?;
    if let Some(vault) = vault.as_deref_mut() {
        if vault.has(SECRET) {
            writeln!(out, "secret    as the secret {} has it", vault.name())?;
        } else {
            vault.put(SECRET, &secret).await?;
            writeln!(out, "secret    stored in the secret {}, beside what it held", vault.name())?;
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

    if let Some(problem) = probe(&url, config.secret.expose_secret()).await {
        let words = problem.words().en;
        if option("anyway").is_none() {
            let (does, next) = match (&problem, &vault) {
                (Problem::OtherSecret, Some(_)) => (
                    "does not accept the secret",
                    "Deploy with another SecretsRevision, so that the functions read the secret again, and then run \
                     this again.",
                ),
                (Problem::OtherSecret, None) => (
                    "does not accept the secret",
                    "Start the program there with this secret, and then run this again.",
                ),
                (Problem::Unreachable(_), _) => (
                    "cannot be asked if it accepts the secret",
                    "Start the program there with this secret, and then run this again.",
                ),
                (Problem::Other(_), _) => {
                    ("does not accept the secret", "Check the program there, and then run this again.")
                }
            };
            let scheme = if url.scheme() == "http" { " Telegram delivers to https addresses." } else { "" };
            return Err(format!(
                "{url} {does}: {words}\n\n{next}{scheme} The webhook is as it was. (--anyway sets it all the \
                 same: Telegram then tries for a day to deliver what people write.)"
            )
            .into());
        }
        writeln!(out, "address   {words}; set all the same")?;
    }

    client.set_webhook(url.as_str(), &config.secret, option("max-connections").unwrap_or(40)).await?;
    let info = client.webhook_info().await?;
    if info.url != url.as_str() {
        let set = if info.url.is_empty() { "none" } else { &info.url };
        return Err(format!("Telegram says that its webhook is {set}: somebody else sets it too").into());
    }
    let missing = info.missing();
    if !missing.is_empty() {
        return Err(format!("Telegram does not send what it was asked for: {}", missing.join(", ")).into());
    }
    let kinds = allowed_updates().count();
    let waiting = info.pending_update_count;
    writeln!(out, "webhook   {}: {kinds} kinds of update, {waiting} waiting", info.url)?;
    let commands = client
        .set_commands(language)
        .await
        .map_err(|error| format!("the webhook is set, but not the menu of commands: {}", chain(&error)))?;
    writeln!(out, "commands  {commands} in the menu")?;
    Ok(())
}

/// Reason why an address does not accept a secret.
#[derive(Debug)]
pub(super) enum Problem {
    OtherSecret,
    /// Nothing answers there.
    Unreachable(Words),
    Other(Words),
}

impl Problem {
    /// Returns the reason in words.
    pub(super) fn words(&self) -> Words {
        match self {
            Self::OtherSecret => words!(
                "it answers 401: the program there has another secret",
                "应答为 401：该处的程序使用另一个密钥"
            ),
            Self::Unreachable(words) | Self::Other(words) => words.clone(),
        }
    }
}

/// Probes whether the webhook at `url` accepts `secret`, and returns the reason if it does not. Stores nothing there.
pub(super) async fn probe(url: &Url, secret: &str) -> Option<Problem> {
    // Not an update, so it is refused, but only after the secret is checked.
    let (status, body) =
        match setup::probe(url, |request| request.header(SECRET_HEADER, secret).body("[]")).await {
            Ok(answer) => answer,
            Err(words) => return Some(Problem::Unreachable(words)),
        };
    match status {
        StatusCode::BAD_REQUEST if body.contains("urn:annals:problem:not-an-update") => None,
        StatusCode::UNAUTHORIZED => Some(Problem::OtherSecret),
        StatusCode::FORBIDDEN if body.contains("urn:annals:problem:not-local") => {
            Some(Problem::Other(setup::not_local("TELEGRAM_BOT_TOKEN and TELEGRAM_WEBHOOK_SECRET")))
        }
        status => {
            let status = status.as_u16();
            let words =
                words!("it answers {status}, which Annals does not", "应答为 {status}，Annals 不会这样应答");
            Some(Problem::Other(words))
        }
    }
}
