//! The Lambda function of the HTTP API, at API Gateway or at a function URL that streams: wires the API to its table, bucket and
//! queue.

use std::process::ExitCode;
use std::sync::Arc;

use annals_channel::settings::agent_id;
use annals_engine::ingress::{Approvers, Ingress};
use annals_engine::settings::{MemoryConfig, ViewConfig, admins};
use annals_http::chat::Web;
use annals_http::settings::HttpResponses;
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
    let queue = Arc::new(aws::queue(&aws, env.required("ANNALS_QUEUE_URL")?));
    let responses = HttpResponses::from_env(env)?;
    let approvers = Approvers { admins: admins(env)?.into(), platforms: None };
    let memory = MemoryConfig::from_env(env)?;
    let ingress = Ingress::new(history, queue, agent_id(env)?)
        .with_metrics(metrics)
        .with_approvers(approvers)
        .with_memory(memory.is_on);
    let web = Web::buffered(ingress.clone());
    let http = Http::deployed(env, ingress, web, ViewConfig::from_env(env)?, memory, clock)?;
    let router = reporter.of_router(router(http));
    match responses {
        HttpResponses::Buffered => lambda_http::run(router).await,
        HttpResponses::Streaming => lambda_http::run_with_streaming_response(router).await,
    }
}
