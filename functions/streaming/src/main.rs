//! The Lambda function of the HTTP API at a function URL that streams: wires the API and the agent to their table, bucket, queue
//! and model.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use annals_agent::mcp::Servers;
use annals_agent::{Agent, LEASE};
use annals_channel::settings::{dm_scope, links};
use annals_core::agents::Agents;
use annals_engine::ingress::{Approvers, Ingress};
use annals_engine::live::Live;
use annals_engine::profiles::ProfilesSetting;
use annals_engine::settings::{AgentConfig, ToolsSetting, admins};
use annals_engine::usage::UsageConfig;
use annals_http::chat::Web;
use annals_http::settings::HttpConfig;
use annals_http::{Http, router};
use annals_io::tls;
use annals_model::Models;
use annals_runtime::aws;
use annals_runtime::process::{FunctionError, Process, run};
use annals_store::queue::SafetyNet;

/// Longest time that a stream waits for its reply, so that it ends before the function is stopped.
const PATIENCE: Duration = LEASE.saturating_sub(Duration::from_secs(15));

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // People wait for the requests that call a model.
    tls::warm();
    run(serve).await
}

async fn serve(process: Process) -> Result<(), FunctionError> {
    let Process { aws, settings, history, metrics, reporter, clock, .. } = process;
    let env = settings.env();
    let (config, http) = (AgentConfig::from_env(env, None)?, HttpConfig::deployed(env)?);
    let (tools, admins) = (ToolsSetting::from_env(env)?, admins(env)?);
    let queue = env.required("ANNALS_QUEUE_URL")?;
    let (dm_scope, links) = (dm_scope(env)?, links(env)?);

    let queue = aws::queue(&aws, queue);
    let tools = aws::tools(&aws, tools, env).await?;
    let servers = tools.map(|tools| Arc::new(Servers::new(tools, clock.clone())));
    let approvers = Approvers { admins: admins.into(), platforms: None };
    let usage = Arc::new(UsageConfig::from_env(env)?);
    let ingress = |queue| {
        Ingress::new(history.clone(), queue, Agents::clone(&config.memory.agents))
            .with_metrics(metrics.clone())
            .with_approvers(approvers.clone())
            .with_people(dm_scope, links.clone())
            .with_language(config.language)
            .with_time_zone(config.view.time_zone)
            .with_memory(config.memory.is_on)
            .with_usage(Arc::clone(&usage))
    };
    let live = Live::on();
    let models = Models::new(&config.model, &clock, Some(&aws), &metrics)?;
    // It delivers nowhere: clients of rooms fetch their replies.
    let profiles =
        aws::profiles(&aws, &ProfilesSetting::from_env(env, &config.memory.agents, config.model.names())?)
            .await?;
    let agent = Agent {
        servers,
        metrics: metrics.clone(),
        live: live.clone(),
        usage: Arc::clone(&usage),
        outgoing: Some(ingress(Arc::new(queue.clone()))),
        ..Agent::new(history.clone(), models, &config)
    };
    let agent = Arc::new(agent.with_profiles(profiles.clone())?);
    let runs = reporter.clone();
    let web = Web {
        ingress: ingress(Arc::new(SafetyNet(queue.clone()))),
        live,
        run: Some(Arc::new(move |chat, from| {
            // Metrics of a run are reported when it ends, which is after the head of the answer is sent.
            let (agent, invocation) = (Arc::clone(&agent), runs.invocation());
            Box::pin(async move {
                annals_streaming::run(&agent, &chat, &from).await;
                invocation.ended().await;
            })
        })),
        patience: PATIENCE,
    };
    let http =
        Http::deployed(http, ingress(Arc::new(queue)), web, config.view, (config.memory, profiles), clock);
    lambda_http::run_with_streaming_response(reporter.of_router(router(http))).await
}
