//! The Lambda function of the HTTP API at a function URL that streams: wires the API and the agent to their table, bucket, queue
//! and model.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use annals_agent::mcp::Servers;
use annals_agent::{Agent, LEASE};
use annals_core::settings::ConfigError;
use annals_engine::delivery::Deliverer;
use annals_engine::ingress::{Approvers, Ingress};
use annals_engine::live::Live;
use annals_engine::settings::{AgentConfig, ToolsSetting, admins};
use annals_http::chat::Web;
use annals_http::limit::Limits;
use annals_http::settings::{console, deployed_api_keys, http_cors_origins, http_rate_limit};
use annals_http::{Http, random_id, router};
use annals_io::clock::Clock;
use annals_io::metrics::Metrics;
use annals_io::tls;
use annals_model::Model;
use annals_runtime::aws;
use annals_runtime::metrics::Reporter;
use annals_runtime::telemetry;
use annals_runtime::telemetry::Traces;
use annals_store::queue::SafetyNet;
use annals_store::settings::StoreConfig;
use lambda_http::Error;

/// Longest time that a stream waits for its reply, so that it ends before the function is stopped.
const PATIENCE: Duration = LEASE.saturating_sub(Duration::from_secs(15));

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let traces = telemetry::init_json();
    telemetry::ended(serve(traces).await)
}

async fn serve(traces: Traces) -> Result<(), Error> {
    // People wait for the requests that call a model.
    tls::warm();
    let aws = aws::sdk_config().await;
    let settings = aws::settings(&aws).await?;
    let env = settings.env();
    let traces = traces.authorized(env)?;
    let store = StoreConfig::from_env(env)?;
    let config = AgentConfig::from_env(env, None)?;
    let keys = deployed_api_keys(env)?.ok_or_else(|| ConfigError::new("HTTP_API_KEYS", "is not set"))?;
    let queue_url = env.required("ANNALS_QUEUE_URL")?;
    let clock = Clock::system();
    let tools = aws::tools(&aws, ToolsSetting::from_env(env)?, env).await?;
    let servers = tools.map(|tools| Arc::new(Servers::new(tools, clock.clone())));
    let approvers = Approvers { admins: admins(env)?.into(), platforms: None };

    let metrics = Metrics::collected();
    let reporter = Reporter::to_stdout(metrics.clone(), store.table.clone(), clock.clone(), traces);
    let history = aws::history(&aws, store, clock.clone());
    let queue = aws::queue(&aws, queue_url);
    let ingress = |queue| {
        Ingress::new(history.clone(), queue, config.agent_id.clone())
            .with_metrics(metrics.clone())
            .with_approvers(approvers.clone())
            .with_memory(config.memory.is_on)
    };
    let live = Live::on();
    let agent = Arc::new(Agent {
        history: history.clone(),
        model: Model::new(&config.model, &clock, Some(&aws))?.with_metrics(metrics.clone()),
        // Clients of rooms fetch their replies.
        deliverer: Deliverer::default(),
        surroundings: Vec::new(),
        servers,
        memory: config.memory,
        view: config.view,
        system_prompt: config.system_prompt.clone(),
        agent_id: config.agent_id.clone(),
        metrics: metrics.clone(),
        live: live.clone(),
        stream_replies: false,
        lease: LEASE,
        quiet: Duration::ZERO,
        clock: clock.clone(),
    });
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
    let router = reporter.of_router(router(Http {
        ingress: ingress(Arc::new(queue)),
        web,
        keys,
        view: config.view,
        memory: config.memory,
        system_prompt: config.system_prompt,
        cors_origins: http_cors_origins(env)?,
        console: console(env, false)?,
        limits: Limits::new(http_rate_limit(env)?),
        new_id: random_id,
        after_forgetting: None,
        clock,
    }));
    lambda_http::run_with_streaming_response(router).await
}
