//! The Lambda function behind `POST /telegram`: wires the webhook to its table, bucket, queue and bot.

use std::sync::Arc;

use annals_shared::aws;
use annals_shared::channel::telegram::client::Client;
use annals_shared::clock::Clock;
use annals_shared::config::{
    ConfigError, Env, StoreConfig, TelegramConfig, admins, channel_settings, process_env,
};
use annals_shared::delivery::Deliverer;
use annals_shared::ingress::{Approvers, Ingress};
use annals_shared::telemetry;
use annals_telegram::{Identity, Telegram, WEBHOOK_PATIENCE, router};
use lambda_http::Error;

#[tokio::main]
async fn main() -> Result<(), Error> {
    telemetry::init_json();
    let env = Env::new(&process_env);
    let store = StoreConfig::from_env(env)?;
    let settings = channel_settings(env)?;
    let queue_url = env.required("ANNALS_QUEUE_URL")?;
    let config =
        TelegramConfig::from_env(env)?.ok_or_else(|| ConfigError::new("TELEGRAM_BOT_TOKEN", "is not set"))?;
    let clock = Clock::system();
    let client = Client::new(&config.api_base, config.token, clock.clone())?.with_patience(WEBHOOK_PATIENCE);

    let aws = aws::sdk_config().await;
    let history = aws::history(&aws, store, clock.clone());
    let queue = Arc::new(aws::queue(&aws, queue_url));
    let deliverer = Deliverer::new(Some(client.clone()), None, None);
    let approvers = Approvers { admins: admins(env)?.into(), platforms: Some(deliverer.clone()) };
    let ingress = Ingress::new(history, queue, settings.agent_id.clone()).with_approvers(approvers);
    lambda_http::run(router(Telegram {
        ingress,
        deliverer,
        settings,
        secret: config.secret,
        identity: Identity::asked_for(config.bot_id, client),
        clock,
    }))
    .await
}
