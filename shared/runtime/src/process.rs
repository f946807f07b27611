//! The process of a deployed function: [`run`] reads its settings, once, and serves with them and with what every function has, its
//! [`Process`].

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use annals_aws::bucket::Bucket;
use annals_aws::{SdkConfig, config};
use annals_core::agents::profile;
use annals_core::settings::{ConfigError, Env};
use annals_engine::ingress::{Ingress, IngressConfig};
use annals_engine::profiles::{AGENTS_FOLDER, AgentsFolder, Profiles, ProfilesSetting};
use annals_engine::settings::{ToolsConfig, ToolsSetting};
use annals_io::clock::Clock;
use annals_io::environment::process_env;
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
        let settings = Settings::read(process_env, &aws).await?;
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

    /// Reads the outside tools that `setting` names: its document, or an object of S3.
    pub async fn tools(&self, setting: Option<ToolsSetting>) -> Result<Option<ToolsConfig>, ConfigError> {
        Ok(match setting {
            None => None,
            Some(ToolsSetting::Given(tools)) => Some(tools),
            Some(ToolsSetting::Stored { bucket, key }) => {
                let text = self.text("TOOLS", &bucket, &key).await?;
                Some(ToolsConfig::parse(&text, self.settings.env())?)
            }
        })
    }

    /// Reads the profiles of agents that `setting` names from S3.
    pub async fn profiles(&self, setting: &ProfilesSetting) -> Result<Profiles, ConfigError> {
        let mut files = BTreeMap::new();
        for id in &setting.ids {
            let AgentsFolder::Stored { bucket, prefix } = &setting.folder else {
                let problem = "must be s3://<bucket>/<prefix> in a deployed program";
                return Err(ConfigError::new(AGENTS_FOLDER.name, problem));
            };
            let folder = format!("{prefix}/{id}/");
            let listed = Bucket::new(&self.aws, bucket).list(&folder).await;
            let listed = listed.map_err(|error| {
                let problem = format!("cannot be listed at s3://{bucket}/{folder}: {}", error.reason);
                ConfigError::new(AGENTS_FOLDER.name, problem)
            })?;
            let mut own = BTreeMap::new();
            for key in &listed {
                let Some(path) = key.strip_prefix(&folder).filter(|path| profile::is_read(path)) else {
                    continue;
                };
                own.insert(path.to_owned(), self.text(AGENTS_FOLDER.name, bucket, key).await?);
            }
            files.insert(id.clone(), own);
        }
        setting.parse(files)
    }

    /// Reads an object of S3 as text, for the setting `variable`.
    async fn text(&self, variable: &str, bucket: &str, key: &str) -> Result<String, ConfigError> {
        let failed = |problem: String| {
            ConfigError::new(variable, format!("names s3://{bucket}/{key}, which {problem}"))
        };
        let object = Bucket::new(&self.aws, bucket).get(key).await;
        let object = object.map_err(|error| failed(format!("cannot be read: {}", error.reason)))?;
        let bytes = object.ok_or_else(|| failed("does not exist".into()))?;
        String::from_utf8(bytes).map_err(|_| failed("is no text".into()))
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
