//! The Lambda function behind `/v1/…`: wires the API to its table, bucket and queue.

use std::sync::Arc;

use annals_http::{Http, random_id, router};
use annals_shared::aws;
use annals_shared::clock::Clock;
use annals_shared::config::{
    ConfigError, Env, MemoryConfig, StoreConfig, ViewConfig, admins, agent_id, api_keys, process_env,
};
use annals_shared::ingress::{Approvers, Ingress};
use annals_shared::telemetry;
use lambda_http::Error;

#[tokio::main]
async fn main() -> Result<(), Error> {
    telemetry::init_json();
    let env = Env::new(&process_env);
    let store = StoreConfig::from_env(env)?;
    let keys = api_keys(env)?.ok_or_else(|| ConfigError::new("HTTP_API_KEYS", "is not set"))?;
    let queue_url = env.required("ANNALS_QUEUE_URL")?;
    let clock = Clock::system();

    let aws = aws::sdk_config().await;
    let history = aws::history(&aws, store, clock.clone());
    let queue = Arc::new(aws::queue(&aws, queue_url));
    lambda_http::run(router(Http {
        ingress: Ingress::new(history, queue, agent_id(env)?)
            .with_approvers(Approvers { admins: admins(env)?.into(), platforms: None }),
        keys,
        view: ViewConfig::from_env(env)?,
        groups_remember: MemoryConfig::from_env(env)?.groups,
        system_prompt: env.optional("SYSTEM_PROMPT"),
        new_id: random_id,
        clock,
    }))
    .await
}
