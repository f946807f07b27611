//! `doctor`: looks at everything that Annals needs, and says what to do about what is wrong.
//!
//! ```text
//! ok      table annals         pk and sk, and the index of due chats
//! fault   table backups        point-in-time recovery is off: aws dynamodb update-continuous-backups --table-name …
//! -       model                MODEL is not set here: the stack's parameters have it
//! ```
//!
//! Where one of the stack's names is set (`ANNALS_TABLE`, `ANNALS_BUCKET`, `ANNALS_QUEUE_URL`), it looks at AWS, by the
//! credentials of the environment; else at the data directory of the local program. It changes nothing and prints no secret,
//! and a fault keeps it from no other check.

mod channels;
mod clocks;
mod finding;
mod local;
mod model;
mod settings;
mod stack;

use std::io::Write;

use annals_shared::clock::Clock;
use annals_shared::config::{Env, Settings};
use annals_shared::{aws, config};
use anyhow::bail;
use aws_config::SdkConfig;
use aws_sdk_dynamodb::config::ProvideCredentials;

use self::finding::Finding;
use self::settings::Found;
use crate::said::chain;

/// The names of the stack's parts.
const STACK: [&str; 3] = ["ANNALS_TABLE", "ANNALS_BUCKET", "ANNALS_QUEUE_URL"];

/// Checks everything, a line each; an error where something is wrong. `colours` are for a terminal.
pub async fn doctor(clock: Clock, colours: bool, out: &mut impl Write) -> anyhow::Result<()> {
    let mut faults = 0;
    let mut report = |findings: Vec<Finding>| -> std::io::Result<()> {
        for finding in findings {
            faults += usize::from(finding.is_fault());
            finding.print(colours, out)?;
        }
        out.flush()
    };
    let own = Env::new(&config::process_env);
    let is_stack = STACK.iter().any(|name| own.optional(name).is_some());
    let names_secrets = own.optional("ANNALS_SECRETS").is_some();
    let aws = if is_stack || names_secrets { Some(aws::sdk_config().await) } else { None };
    if let Some(aws) = &aws {
        report(credentials(aws).await)?;
    }
    let settings = match &aws {
        Some(aws) => Settings::read(config::process_env, aws).await,
        None => Settings::read(config::process_env, &SdkConfig::builder().build()).await,
    };
    // What cannot be read of the secrets leaves the environment to go by.
    let env = match &settings {
        Ok(settings) => settings.env(),
        Err(error) => {
            report(vec![Finding::fault("secrets", error.to_string())])?;
            own
        }
    };

    let (findings, found) = settings::check(env, is_stack);
    report(findings)?;
    let Found { telegram, lark, model, channels } = &found;
    match &aws {
        Some(aws) if is_stack => stack::check(env, aws, &mut report).await?,
        _ => report(local::check(env, &clock).await)?,
    }
    report(channels::telegram(telegram.as_ref(), channels.as_ref(), &clock).await)?;
    report(channels::lark(lark.as_ref(), &clock).await)?;
    report(model::check(model).await)?;
    report(clocks::check(&found, aws.as_ref().filter(|_| is_stack), &clock).await)?;
    match faults {
        0 => Ok(()),
        1 => bail!("1 fault"),
        faults => bail!("{faults} faults"),
    }
}

/// Why there are no credentials, where there are none. Once, since all that is asked of AWS fails by it.
async fn credentials(aws: &SdkConfig) -> Vec<Finding> {
    let Some(provider) = aws.credentials_provider() else { return Vec::new() };
    let given = provider.provide_credentials().await;
    given.err().map(|error| Finding::fault("credentials", chain(&error))).into_iter().collect()
}
