//! `setup <channel>`: points a platform's webhook to Annals, or prints how to do it: [`Setup`].
//!
//! A webhook is set only if the server at its address has the same secrets. So a bot in use keeps its old webhook until
//! the new one works, and no message is lost or late.

use std::error::Error;
use std::io::Write;
use std::ops::RangeInclusive;
use std::time::Duration;

use annals_core::settings::Env;
use annals_io::tls;
use futures::future::LocalBoxFuture;
use reqwest::redirect::Policy;
use reqwest::{Client, Url};

/// An error for the operator. It contains no secret.
pub type Failure = Box<dyn Error + Send + Sync>;

/// The command `setup <channel>`, as its help shows it.
#[derive(Debug)]
pub struct SetupCommand {
    /// Purpose of the command.
    pub about: &'static str,
    /// Meaning of `--url`.
    pub url: &'static str,
    /// Meaning of `--secret`.
    pub secret: &'static str,
    /// Settings that a secret of Secrets Manager must have before the command is run.
    pub needed: &'static [&'static str],
    /// Settings that are read from the environment or from that secret.
    pub held: &'static [&'static str],
    /// The other options.
    pub options: &'static [SetupOption],
}

/// An option of `setup <channel>`.
#[derive(Debug)]
pub struct SetupOption {
    /// Name, without `--`.
    pub name: &'static str,
    /// Meaning.
    pub help: &'static str,
    /// Default and valid numbers; `None` for an option without a value.
    pub number: Option<(u64, RangeInclusive<u64>)>,
}

/// A run of `setup <channel>`.
pub struct Setup<'a> {
    /// `--url`: the address of the channel's route.
    pub url: Url,
    /// The environment, and the settings of the secret that `--secret` names.
    pub env: Env<'a>,
    /// That secret.
    pub vault: Option<&'a mut dyn Vault>,
    /// Returns the number of an option, or 1 if it has no value; `None` if it is not given.
    pub option: &'a dyn Fn(&str) -> Option<u64>,
    /// Standard output.
    pub out: &'a mut dyn Write,
}

/// A secret in Secrets Manager.
pub trait Vault {
    /// Returns its name or ARN.
    fn name(&self) -> &str;

    /// Returns true if it has this setting.
    fn has(&self, variable: &str) -> bool;

    /// Adds a setting to its content, and reads it back.
    fn put<'a>(&'a mut self, variable: &'a str, value: &'a str) -> LocalBoxFuture<'a, Result<(), Failure>>;
}

/// Returns a client for a probe of a webhook.
pub fn prober() -> reqwest::Result<Client> {
    // The time in which a function starts and answers.
    tls::client().timeout(Duration::from_secs(30)).redirect(Policy::none()).build()
}

/// Returns the command that sets the webhook of `channel`, for a remedy.
pub fn command(channel: &str) -> String {
    format!("cargo run -- setup {channel} --url https://…/{channel}")
}

/// Reason why a probe failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// It took too long.
    #[error("nothing answers there in time")]
    Late,
    /// Nothing listens there.
    #[error("no connection can be made to it")]
    NoConnection,
    /// The answer ended early.
    #[error("no whole answer comes from it")]
    BrokenOff,
}

impl From<reqwest::Error> for Unreachable {
    fn from(error: reqwest::Error) -> Self {
        match error {
            error if error.is_timeout() => Self::Late,
            error if error.is_connect() => Self::NoConnection,
            _ => Self::BrokenOff,
        }
    }
}

impl Unreachable {
    /// Returns the reason in Chinese.
    pub fn zh(self) -> &'static str {
        match self {
            Self::Late => "该处没有及时应答",
            Self::NoConnection => "无法连接到该处",
            Self::BrokenOff => "该处没有给出完整的应答",
        }
    }
}
