//! The Lambda function behind the queue: wires the agent to its table, bucket, queue, model and channels.

use std::process::ExitCode;
use std::sync::Arc;

use annals_agent::mcp::Servers;
use annals_agent::surroundings::Surroundings;
use annals_agent::{Agent, LEASE, batch};
use annals_shared::aws;
use annals_shared::channel::lark::client as lark;
use annals_shared::channel::telegram::client::{BOT_PACE, Client};
use annals_shared::clock::Clock;
use annals_shared::config::{
    AgentConfig, DeliveryConfig, LarkConfig, StoreConfig, TelegramConfig, ToolsSetting, channel_settings,
    reply_quiet,
};
use annals_shared::delivery::Deliverer;
use annals_shared::live::Live;
use annals_shared::metrics::{Metrics, Reporter};
use annals_shared::model::Model;
use annals_shared::telemetry::{self, Traces};
use annals_shared::tls;
use aws_lambda_events::sqs::SqsEvent;
use lambda_runtime::{Error, LambdaEvent, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let traces = telemetry::init_json();
    telemetry::ended(serve(traces).await)
}

async fn serve(traces: Traces) -> Result<(), Error> {
    // Its first turn asks a model, and sends.
    tls::warm();
    let aws = aws::sdk_config().await;
    let settings = aws::settings(&aws).await?;
    let env = settings.env();
    let traces = traces.authorized(env)?;
    let store = StoreConfig::from_env(env)?;
    let config = AgentConfig::from_env(env, None)?;
    let delivery = DeliveryConfig::from_env(env)?;
    let queue_url = env.required("ANNALS_QUEUE_URL")?;
    let clock = Clock::system();
    let lark = match LarkConfig::from_env(env)? {
        Some(lark) => {
            let client =
                lark::Client::new(&lark.api_base, lark.app_id.clone(), lark.app_secret, clock.clone())?
                    .with_pace(delivery.share(lark::APP_PACE));
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
        Some(telegram) => {
            let client = Client::new(&telegram.api_base, telegram.token, clock.clone())?;
            Some(client.with_pace(delivery.share(BOT_PACE)))
        }
        None => None,
    };

    let tools = aws::tools(&aws, ToolsSetting::from_env(env)?, env).await?;
    let servers = tools.map(|tools| Arc::new(Servers::new(tools, clock.clone())));

    let metrics = Metrics::collected();
    let reporter = Reporter::to_stdout(metrics.clone(), store.table.clone(), clock.clone(), traces);
    let agent = Agent {
        history: aws::history(&aws, store, clock.clone()),
        model: Model::new(&config.model, &clock, Some(&aws))?.with_metrics(metrics.clone()),
        deliverer: Deliverer::new(telegram, lark.map(|(client, ..)| client), None)
            .with_paces(delivery.is_paced),
        surroundings,
        servers,
        memory: config.memory,
        view: config.view,
        system_prompt: config.system_prompt,
        agent_id: config.agent_id,
        metrics,
        // Nobody else listens.
        live: if delivery.stream_replies { Live::on() } else { Live::default() },
        stream_replies: delivery.stream_replies,
        lease: LEASE,
        quiet: reply_quiet(env)?,
        clock,
    };
    let shared = Arc::new((agent, aws::queue(&aws, queue_url)));
    // One at a time, unless the environment takes more (`AWS_LAMBDA_MAX_CONCURRENCY`): most of a turn is waiting.
    lambda_runtime::run_concurrent(service_fn(move |event: LambdaEvent<SqsEvent>| {
        let shared = Arc::clone(&shared);
        let invocation = reporter.invocation();
        async move {
            let response = batch::handle(&shared.0, &shared.1, event.payload).await;
            invocation.ended().await;
            Ok::<_, Error>(response)
        }
    }))
    .await
}
