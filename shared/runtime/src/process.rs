//! The process of a deployed function: [`run`] starts it, [`Process`] is what every function begins with.

use std::error::Error;
use std::process::ExitCode;

use annals_io::clock::Clock;
use annals_io::metrics::Metrics;
use annals_store::history::History;
use annals_store::settings::StoreConfig;
use aws_config::SdkConfig;

use crate::aws;
use crate::metrics::Reporter;
use crate::secrets::Settings;
use crate::telemetry::{self, Traces};

/// Error of a function that does not start or has stopped.
pub type FunctionError = Box<dyn Error + Send + Sync>;

/// Runs a function until it stops.
pub async fn run(serve: impl AsyncFnOnce(Process) -> Result<(), FunctionError>) -> ExitCode {
    let traces = telemetry::init_json();
    let ended = match Process::start(traces).await {
        Ok(process) => serve(process).await,
        Err(error) => Err(error),
    };
    telemetry::ended(ended)
}

/// The clients, settings and reports that every function has.
pub struct Process {
    /// Configuration of AWS's clients.
    pub aws: SdkConfig,
    /// The environment, and the secrets that it names.
    pub settings: Settings,
    /// The histories.
    pub history: History,
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
    async fn start(traces: Traces) -> Result<Self, FunctionError> {
        let aws = aws::sdk_config().await;
        let settings = aws::settings(&aws).await?;
        let env = settings.env();
        let traces = traces.authorized(env)?;
        let store = StoreConfig::from_env(env)?;
        let (table, clock, metrics) = (store.table.clone(), Clock::system(), Metrics::collected());
        let reporter = Reporter::to_stdout(metrics.clone(), table.clone(), clock.clone(), traces);
        let history = aws::history(&aws, store, clock.clone());
        Ok(Self { aws, settings, history, table, metrics, reporter, clock })
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
