//! The Lambda function of the HTTP API, at API Gateway or at a function URL that streams: wires the API to its table, bucket and
//! queue.

use std::process::ExitCode;
use std::sync::Arc;

use annals_channel::settings::{dm_scope, language, links};
use annals_core::agents::Agents;
use annals_engine::ingress::{Approvers, Ingress};
use annals_engine::profiles::ProfilesSetting;
use annals_engine::settings::{MemoryConfig, ViewConfig, admins};
use annals_engine::usage::UsageConfig;
use annals_http::chat::Web;
use annals_http::settings::{HttpConfig, HttpResponses};
use annals_http::{Http, router};
use annals_runtime::aws;
use annals_runtime::process::{FunctionError, Process, run};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    run(serve).await
}

async fn serve(process: Process) -> Result<(), FunctionError> {
    let Process { aws, settings, history, metrics, reporter, clock, .. } = process;
    let env = settings.env();
    let (config, responses) = (HttpConfig::deployed(env)?, HttpResponses::from_env(env)?);
    let (view, memory) = (ViewConfig::from_env(env)?, MemoryConfig::from_env(env)?);
    let admins = admins(env)?;
    let (dm_scope, links) = (dm_scope(env)?, links(env)?);
    let queue = env.required("ANNALS_QUEUE_URL")?;

    let profiles = ProfilesSetting::from_env(env, &memory.agents, config.models.clone())?;
    let profiles = aws::profiles(&aws, &profiles).await?;
    let approvers = Approvers { admins: admins.into(), platforms: None };
    let ingress = Ingress::new(history, Arc::new(aws::queue(&aws, queue)), Agents::clone(&memory.agents))
        .with_metrics(metrics)
        .with_approvers(approvers)
        .with_people(dm_scope, links)
        .with_language(language(env)?)
        .with_time_zone(view.time_zone)
        .with_memory(memory.is_on)
        .with_usage(Arc::new(UsageConfig::from_env(env)?));
    let web = Web::buffered(ingress.clone());
    let http = Http::deployed(config, ingress, web, view, (memory, profiles), clock);
    let router = reporter.of_router(router(http));
    match responses {
        HttpResponses::Buffered => lambda_http::run(router).await,
        HttpResponses::Streaming => lambda_http::run_with_streaming_response(router).await,
    }
}
