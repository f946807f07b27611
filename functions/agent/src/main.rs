//! The Lambda function behind the queue: wires the agent to its table, bucket, queue, model and channels.

use std::sync::Arc;
use std::time::Duration;

use annals_agent::mcp::Servers;
use annals_agent::surroundings::Surroundings;
use annals_agent::{Agent, batch};
use annals_shared::aws;
use annals_shared::channel::lark::client as lark;
use annals_shared::channel::telegram::client::Client;
use annals_shared::clock::Clock;
use annals_shared::config::{
    AgentConfig, Env, LarkConfig, StoreConfig, TelegramConfig, ToolsConfig, ToolsSetting, channel_settings,
    process_env,
};
use annals_shared::delivery::Deliverer;
use annals_shared::model::Model;
use annals_shared::telemetry;
use aws_lambda_events::sqs::SqsEvent;
use lambda_runtime::{Error, LambdaEvent, service_fn};

/// The function's timeout in the template, after which no run of it is alive.
const LEASE: Duration = Duration::from_mins(5);

#[tokio::main]
async fn main() -> Result<(), Error> {
    telemetry::init_json();
    let env = Env::new(&process_env);
    let store = StoreConfig::from_env(env)?;
    let config = AgentConfig::from_env(env, None)?;
    let queue_url = env.required("ANNALS_QUEUE_URL")?;
    let clock = Clock::system();
    let lark = match LarkConfig::from_env(env)? {
        Some(lark) => {
            let client =
                lark::Client::new(&lark.api_base, lark.app_id.clone(), lark.app_secret, clock.clone())?;
            Some((client, lark.app_id, lark.group_context))
        }
        None => None,
    };
    let surroundings = match &lark {
        Some((client, app_id, limit)) => {
            Surroundings::new(client.clone(), app_id.clone(), channel_settings(env)?, *limit)
        }
        None => None,
    };
    let telegram = match TelegramConfig::from_env(env)? {
        Some(telegram) => Some(Client::new(&telegram.api_base, telegram.token, clock.clone())?),
        None => None,
    };

    let aws = aws::sdk_config().await;
    let tools = match ToolsSetting::from_env(env)? {
        None => None,
        Some(ToolsSetting::Given(tools)) => Some(tools),
        Some(ToolsSetting::Stored { bucket, key }) => {
            Some(ToolsConfig::parse(&aws::text(&aws, &bucket, &key).await?, env)?)
        }
    };
    let servers = tools.map(|tools| Servers::new(tools, clock.clone())).transpose()?.map(Arc::new);
    let agent = Agent {
        history: aws::history(&aws, store, clock.clone()),
        model: Model::new(&config.model)?,
        deliverer: Deliverer::new(telegram, lark.map(|(client, ..)| client), None),
        surroundings,
        servers,
        groups_remember: config.memory.groups,
        view: config.view,
        system_prompt: config.system_prompt,
        agent_id: config.agent_id,
        lease: LEASE,
        clock,
    };
    let shared = Arc::new((agent, aws::queue(&aws, queue_url)));
    lambda_runtime::run(service_fn(move |event: LambdaEvent<SqsEvent>| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Error>(batch::handle(&shared.0, &shared.1, event.payload).await) }
    }))
    .await
}
