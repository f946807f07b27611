//! The Lambda function behind `POST /lark`: wires the webhook to its table, bucket, queue and app.

use std::process::ExitCode;
use std::sync::Arc;

use annals_lark::{Identity, Lark, WEBHOOK_PATIENCE, router};
use annals_shared::aws;
use annals_shared::channel::lark::client::{CHAT_PACE, Client};
use annals_shared::clock::Clock;
use annals_shared::config::{
    ConfigError, LarkConfig, StoreConfig, access, admins, channel_settings, memory_is_on,
};
use annals_shared::delivery::Deliverer;
use annals_shared::ingress::{Approvers, Ingress};
use annals_shared::metrics::{Metrics, Reporter};
use annals_shared::telemetry::{self, Traces};
use lambda_http::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let traces = telemetry::init_json();
    telemetry::ended(serve(traces).await)
}

async fn serve(traces: Traces) -> Result<(), Error> {
    let aws = aws::sdk_config().await;
    let settings = aws::settings(&aws).await?;
    let env = settings.env();
    let traces = traces.authorized(env)?;
    let store = StoreConfig::from_env(env)?;
    let settings = channel_settings(env)?;
    let queue_url = env.required("ANNALS_QUEUE_URL")?;
    let config = LarkConfig::from_env(env)?.ok_or_else(|| ConfigError::new("LARK_APP_ID", "is not set"))?;
    let clock = Clock::system();
    let client = Client::new(&config.api_base, config.app_id.clone(), config.app_secret, clock.clone())?
        .with_patience(WEBHOOK_PATIENCE)
        // It confirms commands alone.
        .with_pace(Some(CHAT_PACE));

    let metrics = Metrics::collected();
    let reporter = Reporter::to_stdout(metrics.clone(), store.table.clone(), clock.clone(), traces);
    let history = aws::history(&aws, store, clock.clone());
    let queue = Arc::new(aws::queue(&aws, queue_url));
    let deliverer = Deliverer::new(None, Some(client.clone()), None);
    let approvers = Approvers { admins: admins(env)?.into(), platforms: Some(deliverer.clone()) };
    let ingress = Ingress::new(history, queue, settings.agent_id.clone())
        .with_metrics(metrics)
        .with_approvers(approvers)
        .with_access(access(env)?)
        .with_memory(memory_is_on(env)?);
    let router = router(Lark {
        ingress,
        deliverer,
        settings,
        verification_token: config.verification_token,
        encrypt_key: config.encrypt_key,
        identity: Identity::asked_for(config.app_id, client),
        clock,
    });
    lambda_http::run(reporter.of_router(router)).await
}
