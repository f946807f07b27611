//! The function of a webhook: [`serve_webhook`]; its [`ingress`].

use std::process::ExitCode;
use std::sync::Arc;

use annals_channel::platform::{Platform, Registered};
use annals_channel::settings::{Settings, access, agents, channel_settings, links, time_zone};
use annals_channel::webhook::Webhook;
use annals_core::record::Channel;
use annals_core::settings::Env;
use annals_engine::delivery::Deliverer;
use annals_engine::ingress::{Approvers, Ingress};
use annals_engine::receiving::Receiver;
use annals_engine::settings::{admins, memory_is_on};
use annals_engine::usage::UsageConfig;
use annals_io::clock::Clock;

use crate::process::{FunctionError, Process, run};
use crate::{aws, webhook};

/// Runs the function of the webhook of `channel`, which `of_channel` makes together with the client of its platform.
pub async fn serve_webhook<W: Webhook, P: Platform + 'static>(
    channel: Channel,
    of_channel: impl FnOnce(Env<'_>, &Settings, &Clock) -> Result<(W, P), FunctionError>,
) -> ExitCode {
    run(async |process| serve(channel, of_channel, process).await).await
}

async fn serve<W: Webhook, P: Platform + 'static>(
    channel: Channel,
    of_channel: impl FnOnce(Env<'_>, &Settings, &Clock) -> Result<(W, P), FunctionError>,
    process: Process,
) -> Result<(), FunctionError> {
    let env = process.settings.env();
    let settings = channel_settings(env)?;
    let clock = process.clock.clone();
    let (webhook, platform) = of_channel(env, &settings, &clock)?;
    let (ingress, deliverer) = ingress(channel, platform, &settings, &process)?;
    let router = webhook::router(Receiver { webhook, ingress, deliverer, clock });
    lambda_http::run(process.reporter.of_router(router)).await
}

/// Creates the ingress of the events of `channel`, and the deliverer of the confirmations of commands, which `platform`
/// sends.
///
/// # Errors
///
/// A setting is missing or malformed.
pub fn ingress<P: Platform + 'static>(
    channel: Channel,
    platform: P,
    settings: &Settings,
    process: &Process,
) -> Result<(Ingress, Deliverer), FunctionError> {
    let env = process.settings.env();
    let (access, links, admins) = (access(env)?, links(env)?, admins(env)?);
    let queue = Arc::new(aws::queue(&process.aws, env.required("ANNALS_QUEUE_URL")?));
    let deliverer = Deliverer::new([Registered::new(channel, platform)], None);
    let approvers = Approvers { admins: admins.into(), platforms: Some(deliverer.clone()) };
    let ingress = Ingress::new(process.history.clone(), queue, agents(env)?)
        .with_metrics(process.metrics.clone())
        .with_approvers(approvers)
        .with_access(access)
        .with_people(settings.dm_scope, links)
        .with_language(settings.language)
        .with_time_zone(time_zone(env)?)
        .with_memory(memory_is_on(env)?)
        .with_usage(Arc::new(UsageConfig::from_env(env)?));
    Ok((ingress, deliverer))
}
