//! The Lambda function behind the queue: wires the agent to its table, bucket, queue, model and channels.

use std::process::ExitCode;
use std::sync::Arc;

use annals_agent::mcp::Servers;
use annals_agent::{Agent, batch};
use annals_channel::settings::DeliveryConfig;
use annals_engine::delivery::Deliverer;
use annals_engine::ingress::Ingress;
use annals_engine::live::Live;
use annals_engine::profiles::ProfilesSetting;
use annals_engine::settings::{AgentConfig, ToolsSetting, reply_quiet};
use annals_engine::usage::UsageConfig;
use annals_io::tls;
use annals_model::Models;
use annals_runtime::aws;
use annals_runtime::channels::platforms;
use annals_runtime::process::{FunctionError, Process, run};
use aws_lambda_events::sqs::SqsEvent;
use lambda_runtime::{LambdaEvent, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // The first turn needs TLS, to ask a model and to send.
    tls::warm();
    run(serve).await
}

async fn serve(process: Process) -> Result<(), FunctionError> {
    let Process { aws, settings, history, metrics, reporter, clock, .. } = process;
    let env = settings.env();
    let (config, quiet) = (AgentConfig::from_env(env, None)?, reply_quiet(env)?);
    let (delivery, tools) = (DeliveryConfig::from_env(env)?, ToolsSetting::from_env(env)?);
    let usage = Arc::new(UsageConfig::from_env(env)?);
    let queue = env.required("ANNALS_QUEUE_URL")?;
    let platforms = platforms(env, &delivery, &clock)?;

    let queue = aws::queue(&aws, queue);
    let outgoing = Ingress::new(history.clone(), Arc::new(queue.clone()), config.agent_id.clone());
    let tools = aws::tools(&aws, tools, env).await?;
    let servers = tools.map(|tools| Arc::new(Servers::new(tools, clock.clone())));
    let models = Models::new(&config.model, &clock, Some(&aws), &metrics)?;
    let profiles =
        aws::profiles(&aws, &ProfilesSetting::from_env(env, &config.memory.agents, config.model.names())?)
            .await?;
    let agent = Agent {
        surroundings: platforms.iter().filter_map(|platform| platform.surroundings.clone()).collect(),
        deliverer: Deliverer::new(platforms, None).with_rate_limits(delivery.is_rate_limited),
        servers,
        metrics,
        // Drafts are the only listeners in this process.
        live: if delivery.stream_replies { Live::on() } else { Live::default() },
        stream_replies: delivery.stream_replies,
        quiet,
        usage,
        outgoing: Some(outgoing),
        ..Agent::new(history, models, &config)
    };
    let agent = agent.with_profiles(profiles)?;
    let shared = Arc::new((agent, queue));
    // One invocation at a time, unless the environment allows more (`AWS_LAMBDA_MAX_CONCURRENCY`): a turn mostly waits.
    lambda_runtime::run_concurrent(service_fn(move |event: LambdaEvent<SqsEvent>| {
        let shared = Arc::clone(&shared);
        let invocation = reporter.invocation();
        async move {
            let response = batch::handle(&shared.0, &shared.1, event.payload).await;
            invocation.ended().await;
            Ok::<_, FunctionError>(response)
        }
    }))
    .await
}
