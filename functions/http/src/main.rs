//! The Lambda function of the HTTP API, at API Gateway or at a function URL that streams: wires the API to its table, bucket and
//! queue.

use std::process::ExitCode;
use std::sync::Arc;

use annals_channel::settings::agent_id;
use annals_core::settings::ConfigError;
use annals_engine::ingress::{Approvers, Ingress};
use annals_engine::settings::{MemoryConfig, ViewConfig, admins};
use annals_http::chat::Web;
use annals_http::limit::Limits;
use annals_http::settings::{HttpResponses, console, deployed_api_keys, http_cors_origins, http_rate_limit};
use annals_http::{Http, random_id, router};
use annals_io::clock::Clock;
use annals_io::metrics::Metrics;
use annals_runtime::aws;
use annals_runtime::metrics::Reporter;
use annals_runtime::telemetry;
use annals_runtime::telemetry::Traces;
use annals_store::settings::StoreConfig;
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
    let keys = deployed_api_keys(env)?.ok_or_else(|| ConfigError::new("HTTP_API_KEYS", "is not set"))?;
    let queue_url = env.required("ANNALS_QUEUE_URL")?;
    let responses = HttpResponses::from_env(env)?;
    let clock = Clock::system();

    let metrics = Metrics::collected();
    let reporter = Reporter::to_stdout(metrics.clone(), store.table.clone(), clock.clone(), traces);
    let history = aws::history(&aws, store, clock.clone());
    let queue = Arc::new(aws::queue(&aws, queue_url));
    let approvers = Approvers { admins: admins(env)?.into(), platforms: None };
    let memory = MemoryConfig::from_env(env)?;
    let ingress = Ingress::new(history, queue, agent_id(env)?)
        .with_metrics(metrics)
        .with_approvers(approvers)
        .with_memory(memory.is_on);
    let router = reporter.of_router(router(Http {
        web: Web::buffered(ingress.clone()),
        ingress,
        keys,
        view: ViewConfig::from_env(env)?,
        memory,
        system_prompt: env.optional("SYSTEM_PROMPT"),
        cors_origins: http_cors_origins(env)?,
        console: console(env, false)?,
        limits: Limits::new(http_rate_limit(env)?),
        new_id: random_id,
        after_forgetting: None,
        clock,
    }));
    match responses {
        HttpResponses::Buffered => lambda_http::run(router).await,
        HttpResponses::Streaming => lambda_http::run_with_streaming_response(router).await,
    }
}
