//! The process of a deployed function: [`run`] reads its settings, once, and serves with them and with what every function has, its
//! [`Process`].

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use annals_aws::{SdkConfig, config};
use annals_core::settings::{ConfigError, Env};
use annals_engine::ingress::{Ingress, IngressConfig};
use annals_engine::profiles::{Profiles, ProfilesSetting};
use annals_engine::settings::{ToolsConfig, ToolsSetting};
use annals_io::clock::Clock;
use annals_io::metrics::Metrics;
use annals_store::history::History;
use annals_store::queue::Sqs;
use annals_store::settings::StoreConfig;

use crate::aws;
use crate::metrics::Reporter;
use crate::secrets::Settings;
use crate::telemetry::{self, Traces};

/// Error of a function that does not start or has stopped.
pub type FunctionError = Box<dyn Error + Send + Sync>;

/// Runs a function until it stops: `read` reads its settings, `serve` serves with them.
pub async fn run<C>(
    read: impl FnOnce(Env<'_>, &Clock) -> Result<C, FunctionError>,
    serve: impl AsyncFnOnce(C, Process) -> Result<(), FunctionError>,
) -> ExitCode {
    run_with(config::function, read, serve).await
}

/// Runs a function, or the process of a container, whose credentials come from wherever AWS offers them.
pub async fn run_anywhere<C>(
    read: impl FnOnce(Env<'_>, &Clock) -> Result<C, FunctionError>,
    serve: impl AsyncFnOnce(C, Process) -> Result<(), FunctionError>,
) -> ExitCode {
    run_with(config::anywhere, read, serve).await
}

async fn run_with<C>(
    aws: impl AsyncFnOnce() -> SdkConfig,
    read: impl FnOnce(Env<'_>, &Clock) -> Result<C, FunctionError>,
    serve: impl AsyncFnOnce(C, Process) -> Result<(), FunctionError>,
) -> ExitCode {
    let traces = telemetry::init_json();
    let ended = async {
        let process = Process::start(aws().await, traces).await?;
        let config = read(process.settings.env(), &process.clock)?;
        serve(config, process).await
    };
    telemetry::ended(ended.await)
}

/// Settings of every process.
pub struct ProcessConfig {
    store: StoreConfig,
    queue_url: String,
}

impl ProcessConfig {
    /// Reads the settings.
    pub fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        Ok(Self { store: StoreConfig::from_env(env)?, queue_url: env.required("ANNALS_QUEUE_URL")? })
    }
}

/// The clients and reports that every function has.
pub struct Process {
    aws: SdkConfig,
    settings: Settings,
    /// The histories.
    pub history: History,
    /// The queue of turns.
    pub queue: Sqs,
    /// `ANNALS_TABLE`
    pub table: String,
    /// Counters.
    pub metrics: Metrics,
    /// Reports the counters and spans of each invocation.
    pub reporter: Reporter,
    /// The time.
    pub clock: Clock,
}

impl Process {
    async fn start(aws: SdkConfig, traces: Traces) -> Result<Self, FunctionError> {
        let settings = aws::settings(&aws).await?;
        let env = settings.env();
        let traces = traces.authorized(env)?;
        let ProcessConfig { store, queue_url } = ProcessConfig::from_env(env)?;
        let (table, clock, metrics) = (store.table.clone(), Clock::system(), Metrics::collected());
        let reporter = Reporter::to_stdout(metrics.clone(), table.clone(), clock.clone(), traces);
        let (history, queue) = (aws::history(&aws, store, clock.clone()), Sqs::new(&aws, queue_url));
        Ok(Self { aws, settings, history, queue, table, metrics, reporter, clock })
    }

    /// Returns the configuration of AWS's clients.
    pub fn aws(&self) -> &SdkConfig {
        &self.aws
    }

    /// Creates an ingress of these histories and this queue.
    pub fn ingress(&self, config: impl Into<Arc<IngressConfig>>) -> Ingress {
        let queue = Arc::new(self.queue.clone());
        Ingress::new(self.history.clone(), queue, config).with_metrics(self.metrics.clone())
    }

    /// Reads the outside tools that `setting` names.
    pub async fn tools(&self, setting: Option<ToolsSetting>) -> Result<Option<ToolsConfig>, ConfigError> {
        aws::tools(&self.aws, setting, self.settings.env()).await
    }

    /// Reads the profiles of agents that `setting` names.
    pub async fn profiles(&self, setting: &ProfilesSetting) -> Result<Profiles, ConfigError> {
        aws::profiles(&self.aws, setting).await
    }
}

/// Waits for SIGTERM or Ctrl-C.
pub async fn stopped() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = interrupt => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    drop(interrupt.await);
}
