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
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{RequestBuilder, StatusCode, Url};

use crate::finding::Words;
use crate::words;

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

/// Posts a probe to the webhook at `url`, with what `add` adds to it. Returns the answer's status and body. An error
/// says why nothing answered.
pub async fn probe(
    url: &Url,
    add: impl FnOnce(RequestBuilder) -> RequestBuilder,
) -> Result<(StatusCode, String), Words> {
    let answered = async {
        // The time in which a function starts and answers.
        let client = tls::client().timeout(Duration::from_secs(30)).redirect(Policy::none()).build()?;
        let answer = add(client.post(url.clone()).header(CONTENT_TYPE, "application/json")).send().await?;
        Ok::<_, reqwest::Error>((answer.status(), answer.text().await?))
    };
    answered.await.map_err(|error| match error {
        error if error.is_timeout() => words!("nothing answers there in time", "该处没有及时应答"),
        error if error.is_connect() => words!("no connection can be made to it", "无法连接到该处"),
        _ => words!("no whole answer comes from it", "该处没有给出完整的应答"),
    })
}

/// Returns the reason why a webhook answers 403: the local program does so if its channel is not set up.
pub fn not_local(needed: &str) -> Words {
    words!(
        "the program there was started without {needed}, or its tunnel does not rewrite the Host header",
        "该处的程序启动时没有 {needed}，或它的隧道没有改写 Host 头"
    )
}

/// Returns the command that sets the webhook of `channel`, for a remedy.
pub fn command(channel: &str) -> String {
    format!("cargo run -- setup {channel} --url https://…/{channel}")
}
