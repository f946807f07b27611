//! The process of a deployed function: [`serve_webhook`].

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use annals_channel::platform::{Platform, Registered};
use annals_channel::settings::{Settings, access, channel_settings};
use annals_channel::webhook::Webhook;
use annals_core::record::Channel;
use annals_core::settings::Env;
use annals_engine::delivery::Deliverer;
use annals_engine::ingress::{Approvers, Ingress};
use annals_engine::receiving::Receiver;
use annals_engine::settings::{admins, memory_is_on};
use annals_io::clock::Clock;
use annals_io::metrics::Metrics;
use annals_store::settings::StoreConfig;

use crate::metrics::Reporter;
use crate::telemetry;
use crate::telemetry::Traces;
use crate::{aws, webhook};

/// Error of a function that does not start or has stopped.
pub type FunctionError = Box<dyn Error + Send + Sync>;

/// Runs the function of the webhook of `channel`, which `of_channel` makes together with the client of its platform.
pub async fn serve_webhook<W: Webhook, P: Platform + 'static>(
    channel: Channel,
    of_channel: impl FnOnce(Env<'_>, &Settings, &Clock) -> Result<(W, P), FunctionError>,
) -> ExitCode {
    let traces = telemetry::init_json();
    telemetry::ended(serve(channel, of_channel, traces).await)
}

async fn serve<W: Webhook, P: Platform + 'static>(
    channel: Channel,
    of_channel: impl FnOnce(Env<'_>, &Settings, &Clock) -> Result<(W, P), FunctionError>,
    traces: Traces,
) -> Result<(), FunctionError> {
    let aws = aws::sdk_config().await;
    let settings = aws::settings(&aws).await?;
    let env = settings.env();
    let traces = traces.authorized(env)?;
    let store = StoreConfig::from_env(env)?;
    let settings = channel_settings(env)?;
    let queue_url = env.required("ANNALS_QUEUE_URL")?;
    let clock = Clock::system();
    let (webhook, platform) = of_channel(env, &settings, &clock)?;

    let metrics = Metrics::collected();
    let reporter = Reporter::to_stdout(metrics.clone(), store.table.clone(), clock.clone(), traces);
    let history = aws::history(&aws, store, clock.clone());
    let queue = Arc::new(aws::queue(&aws, queue_url));
    let deliverer = Deliverer::new([Registered::new(channel, platform)], None);
    let approvers = Approvers { admins: admins(env)?.into(), platforms: Some(deliverer.clone()) };
    let ingress = Ingress::new(history, queue, settings.agent_id)
        .with_metrics(metrics)
        .with_approvers(approvers)
        .with_access(access(env)?)
        .with_memory(memory_is_on(env)?);
    let router = webhook::router(Receiver { webhook, ingress, deliverer, clock });
    lambda_http::run(reporter.of_router(router)).await
}
