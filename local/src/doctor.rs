//! `doctor`: checks everything that Annals needs, and prints a remedy for each fault.
//!
//! ```text
//! ok      table annals         pk and sk, and the index of due chats
//! fault   table backups        point-in-time recovery is off: aws dynamodb update-continuous-backups --table-name …
//! -       model                MODEL is not set here: the stack's parameters have it
//! ```
//!
//! If one of the stack's names is set (`ANNALS_TABLE`, `ANNALS_BUCKET`, `ANNALS_QUEUE_URL`), it checks AWS, with the credentials
//! of the environment; otherwise the data directory of the local program. It changes nothing, but for a file in the data
//! directory that it deletes again, prints no secret, and continues after a fault. The words are in the language of the locale;
//! verdicts, names of checks and errors of other systems are the same in each.

mod clocks;
mod disk;
mod local;
mod model;
mod relay;
mod settings;
mod stack;

use std::io::Write;

use annals_aws::SdkConfig;
use annals_channel::finding::{Finding, Verdict};
use annals_channel::words;
use annals_core::language::Language;
use annals_core::settings::Env;
use annals_io::clock::Clock;
use annals_io::environment::{process_env, process_names};
use annals_runtime::secrets::Settings;
use anyhow::bail;
use aws_sdk_dynamodb::config::ProvideCredentials;

use self::settings::ValidSettings;
use crate::errors::chain;
use crate::settings::misspelt;
use crate::stores::Stores;
use crate::tty::line;

/// Checks everything, and prints a line for each check, in `language`. Fails if there is a fault. `colours` are for a
/// terminal.
pub(crate) async fn doctor(
    clock: Clock,
    language: Language,
    colours: bool,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let mut faults = 0;
    let report = |findings: Vec<Finding>| -> std::io::Result<()> {
        for finding in findings {
            faults += usize::from(finding.verdict == Verdict::Fault);
            print(&finding, language, colours, out)?;
        }
        out.flush()
    };
    check(&clock, None, report).await?;
    match faults {
        0 => Ok(()),
        1 => bail!(words!("1 fault", "1 个故障").text(language).to_owned()),
        faults => bail!(words!("{faults} faults", "{faults} 个故障").text(language).to_owned()),
    }
}

/// Prints `finding` as a line in `language`. `colours` are for a terminal.
fn print(finding: &Finding, language: Language, colours: bool, out: &mut impl Write) -> std::io::Result<()> {
    let (mark, colour) = match finding.verdict {
        Verdict::Ok => ("ok", "32"),
        Verdict::Warning => ("warn", "33"),
        Verdict::Fault => ("fault", "31"),
        Verdict::None => ("-", "2"),
    };
    let mark = if colours { format!("\x1b[{colour}m{mark:<6}\x1b[0m") } else { format!("{mark:<6}") };
    writeln!(out, "{mark} {:<20} {}", line(&finding.check), line(finding.words.text(language)))
}

/// Makes the checks for the running program, which this process is, with its `stores`.
pub(crate) async fn own_findings(clock: &Clock, stores: &Stores) -> Vec<Finding> {
    let mut all = Vec::new();
    let report = |findings| {
        all.extend(findings);
        Ok(())
    };
    // The report does not fail.
    drop(check(clock, Some(stores), report).await);
    all
}

/// Makes all checks and reports each. `program`: the stores of the program, if this process is it; then nothing else is checked.
async fn check(
    clock: &Clock,
    program: Option<&Stores>,
    mut report: impl FnMut(Vec<Finding>) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let own = Env::new(&process_env);
    let is_stack = program.is_none() && stack::NAMES.iter().any(|name| own.optional(name).is_some());
    let names_secrets = own.optional("ANNALS_SECRETS").is_some();
    let aws = if is_stack || names_secrets { Some(annals_aws::config::anywhere().await) } else { None };
    if let Some(aws) = &aws {
        report(credentials(aws).await)?;
    }
    let settings = match &aws {
        Some(aws) => Settings::read(process_env, aws).await,
        None => Settings::read(process_env, &SdkConfig::builder().build()).await,
    };
    // If the secrets cannot be read, only the environment is checked.
    let env = match &settings {
        Ok(settings) => settings.env(),
        Err(error) => {
            report(vec![Finding::fault("secrets", error.to_string())])?;
            own
        }
    };

    let (findings, found) = settings::check(env, is_stack);
    report(findings)?;
    let misspelt = misspelt(process_names()).into_iter();
    report(misspelt.map(|words| Finding::warning("settings", words)).collect())?;
    let ValidSettings { channels, channel_settings, model } = &found;
    match &aws {
        Some(aws) if is_stack => stack::check(env, aws, &mut report).await?,
        _ => {
            if program.is_none() {
                report(vec![local::program(env).await])?;
            }
            report(local::check(env, program).await)?;
        }
    }
    for (name, channel) in channels {
        report(match channel {
            Some(channel) => channel.check(channel_settings.as_ref(), clock).await,
            None => vec![Finding::not_set_up(name)],
        })?;
    }
    report(relay::check(env, aws.as_ref().filter(|_| is_stack), program, clock).await)?;
    report(model::check(model).await)?;
    report(clocks::check(&found, aws.as_ref().filter(|_| is_stack), clock).await)?;
    Ok(())
}

/// Reports missing credentials, once: without them, every request to AWS fails.
async fn credentials(aws: &SdkConfig) -> Vec<Finding> {
    let Some(provider) = aws.credentials_provider() else { return Vec::new() };
    let given = provider.provide_credentials().await;
    let fault = given.err().map(|error| {
        let error = chain(&error);
        let words = words!(
            "{error}; check AWS_PROFILE, or the access keys; with SSO, sign in and run eval \"$(aws configure \
             export-credentials --format env)\"",
            "{error}；请检查 AWS_PROFILE 或访问密钥；使用 SSO 时，请登录并运行 eval \"$(aws configure export-credentials \
             --format env)\""
        );
        Finding::fault("credentials", words)
    });
    fault.into_iter().collect()
}
