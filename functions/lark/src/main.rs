//! The Lambda function behind `POST /lark`: wires the webhook to its table, bucket, queue and app.

use std::sync::Arc;

use annals_lark::{Identity, Lark, WEBHOOK_PATIENCE, router};
use annals_shared::aws;
use annals_shared::channel::lark::client::Client;
use annals_shared::clock::Clock;
use annals_shared::config::{
    ConfigError, Env, LarkConfig, StoreConfig, admins, channel_settings, process_env,
};
use annals_shared::delivery::Deliverer;
use annals_shared::ingress::{Approvers, Ingress};
use annals_shared::telemetry;
use lambda_http::Error;

#[tokio::main]
async fn main() -> Result<(), Error> {
    telemetry::init_json();
    let env = Env::new(&process_env);
    let store = StoreConfig::from_env(env)?;
    let settings = channel_settings(env)?;
    let queue_url = env.required("ANNALS_QUEUE_URL")?;
    let config = LarkConfig::from_env(env)?.ok_or_else(|| ConfigError::new("LARK_APP_ID", "is not set"))?;
    let clock = Clock::system();
    let client = Client::new(&config.api_base, config.app_id.clone(), config.app_secret, clock.clone())?
        .with_patience(WEBHOOK_PATIENCE);

    let aws = aws::sdk_config().await;
    let history = aws::history(&aws, store, clock.clone());
    let queue = Arc::new(aws::queue(&aws, queue_url));
    let deliverer = Deliverer::new(None, Some(client.clone()), None);
    let approvers = Approvers { admins: admins(env)?.into(), platforms: Some(deliverer.clone()) };
    let ingress = Ingress::new(history, queue, settings.agent_id.clone()).with_approvers(approvers);
    lambda_http::run(router(Lark {
        ingress,
        deliverer,
        settings,
        verification_token: config.verification_token,
        encrypt_key: config.encrypt_key,
        identity: Identity::asked_for(config.app_id, client),
        clock,
    }))
    .await
}
