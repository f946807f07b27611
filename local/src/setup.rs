//! `setup <channel>`: reads its arguments and settings, and runs the channel's own part.

mod vault;

use std::io::Write;

use annals_channel::about::About;
use annals_channel::setup::{self, Setup, SetupOption};
use annals_core::settings::Env;
use annals_runtime::channels;
use anyhow::{Context, anyhow, bail};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, Subcommand, value_parser};
use reqwest::Url;

use self::vault::Vault;

/// Arguments of `setup`: a channel, and its options.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    channel: String,
    options: ArgMatches,
}

impl FromArgMatches for Arguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let (channel, options) =
            matches.subcommand().ok_or_else(|| clap::Error::new(ErrorKind::MissingSubcommand))?;
        Ok(Self { channel: channel.to_owned(), options: options.clone() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for Arguments {
    fn augment_subcommands(command: Command) -> Command {
        command.subcommands(channels::local().into_iter().map(|entry| subcommand(entry.about)))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        channels::local().iter().any(|entry| entry.about.channel.as_str() == name)
    }
}

fn subcommand(about: &'static About) -> Command {
    let setup = &about.setup;
    let url = Arg::new("url").long("url").value_name("URL").required(true).help(setup.url);
    let secret = Arg::new("secret").long("secret").value_name("NAME").help(setup.secret);
    let options = setup.options.iter().map(|SetupOption { name, help, number }| {
        let option = Arg::new(*name).long(*name).help(*help);
        match number {
            Some((default, valid)) => option
                .value_name("NUMBER")
                .default_value(default.to_string())
                .value_parser(value_parser!(u64).range(valid.clone())),
            None => option.action(ArgAction::SetTrue),
        }
    });
    Command::new(about.channel.as_str()).about(setup.about).arg(url).arg(secret).args(options)
}

/// Points a channel's webhook to Annals, or prints the steps for it.
pub(crate) async fn setup(env: Env<'_>, arguments: &Arguments, out: &mut impl Write) -> anyhow::Result<()> {
    let Arguments { channel, options } = arguments;
    let Some(entry) = channels::local().into_iter().find(|entry| entry.about.channel.as_str() == channel)
    else {
        bail!("there is no channel {channel}")
    };
    let setup = &entry.about.setup;
    let argument = |name: &str| options.get_one::<String>(name).map(String::as_str);
    let mut vault = match argument("secret") {
        Some(name) => Some(Vault::open(name, setup.needed).await?),
        None => None,
    };
    let url = address(argument("url").unwrap_or_default(), &entry.about.path())?;
    let mut values = Vec::new();
    if let Some(vault) = &vault {
        for name in entry.about.secrets() {
            values.push((name, vault.setting(env, name)?));
        }
    }
    let settings = |name: &str| match values.iter().find(|(secret, _)| *secret == name) {
        Some((_, value)) => value.clone(),
        None => env.optional(name),
    };
    let option = |name: &str| {
        let option = setup.options.iter().find(|option| option.name == name)?;
        match option.number {
            Some(_) => options.get_one(name).copied(),
            None => options.get_flag(name).then_some(1),
        }
    };
    let vault = vault.as_mut().map(|vault| -> &mut dyn setup::Vault { vault });
    let run = (entry.setup)(Setup { url, env: Env::new(&settings), vault, option: &option, out });
    run.await.map_err(|error| anyhow!(error))
}

/// Parses the address of a webhook, which ends in `route`.
fn address(url: &str, route: &str) -> anyhow::Result<Url> {
    let url = Url::parse(url).with_context(|| format!("--url takes a whole address, https://…{route}"))?;
    anyhow::ensure!(
        matches!(url.scheme(), "https" | "http") && url.path().ends_with(route),
        "--url must be the address of the route {route}: https://…{route}"
    );
    Ok(url)
}
