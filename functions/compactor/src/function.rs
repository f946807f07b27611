//! The scheduled function. Invoked with `{"schedules": true}`, it carries out the schedules of chats instead.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use annals_channel::settings::access;
use annals_core::access::Access;
use annals_core::settings::Env;
use annals_core::sort_key::Timestamp;
use annals_engine::scheduling::Scheduling;
use annals_engine::settings::AgentConfig;
use annals_engine::upkeep::Upkeep;
use annals_io::clock::Clock;
use annals_model::Model;
use annals_runtime::process::{FunctionError, Process};
use lambda_runtime::{LambdaEvent, service_fn};
use serde_json::Value;

use crate::{Compactor, PATIENCE, metrics};

/// Time that is reserved after the last visit for updating the index and reporting.
pub const MARGIN: Duration = Duration::from_secs(15);

/// Settings of the function.
pub struct Config {
    agent: AgentConfig,
    access: Access,
}

impl Config {
    /// Reads the settings.
    pub fn from_env(env: Env<'_>, _: &Clock) -> Result<Self, FunctionError> {
        Ok(Self { agent: AgentConfig::from_env(env, None)?, access: access(env)? })
    }
}

/// Visits the chats that are due, and carries out the schedules that are.
pub async fn serve(config: Config, process: Process) -> Result<(), FunctionError> {
    let Config { agent: config, access } = config;
    let model = Model::new(&config.model, &process.clock, Some(process.aws()))?;
    let Process { history, queue, table, metrics, reporter, clock, .. } = process;
    let model = model.with_metrics(metrics.clone());
    let scheduling = Scheduling {
        history: history.clone(),
        queue: Arc::new(queue),
        language: config.language,
        access: access.clone(),
    };
    let upkeep = Upkeep { metrics, access, ..Upkeep::new(history.clone(), model, &config) };
    let shared = Arc::new((Compactor::new(history, upkeep), table, clock, scheduling));
    lambda_runtime::run(service_fn(move |event: LambdaEvent<Value>| {
        let shared = Arc::clone(&shared);
        let invocation = reporter.invocation();
        // Boxed, since the compiler cannot lay out a future of this depth in one piece.
        Box::pin(async move {
            let (compactor, table, clock, scheduling) = &*shared;
            let ended = match event.payload.get("schedules") {
                Some(Value::Bool(true)) => run_schedules(scheduling, event.context.deadline).await,
                _ => run(compactor, table, clock, event.context.deadline).await,
            };
            invocation.ended().await;
            ended
        })
    }))
    .await
}

/// Carries out the schedules that are due in the time that is left until `ends_at` (epoch milliseconds).
async fn run_schedules(scheduling: &Scheduling, ends_at: u64) -> Result<(), FunctionError> {
    let clock = scheduling.history.clock();
    let ends_at = i64::try_from(ends_at).ok().and_then(Timestamp::from_millis).unwrap_or_else(|| clock.now());
    let ran = scheduling.run_due(ends_at.minus(MARGIN)).await?;
    if ran.occurrences > 0 {
        tracing::info!(occurrences = ran.occurrences, late = ran.late, "schedules came due");
    }
    // The alarm on errors reports it; the next invocation runs them.
    if ran.failed > 0 { Err("a schedule could not be carried out".into()) } else { Ok(()) }
}

/// Runs the compactor in the time that is left until `ends_at` (epoch milliseconds).
async fn run(compactor: &Compactor, table: &str, clock: &Clock, ends_at: u64) -> Result<(), FunctionError> {
    let ends_at = i64::try_from(ends_at).ok().and_then(Timestamp::from_millis).unwrap_or_else(|| clock.now());
    let report = compactor.run(ends_at.minus(PATIENCE + MARGIN)).await;
    let line = metrics::embedded(&report, table, compactor.history.retention().archive_grace, clock.now());
    writeln!(std::io::stdout().lock(), "{line}")?;
    if report.unread_shards > 0 {
        // The alarm on errors reports it; the next run tries again.
        return Err("a part of the index could not be read".into());
    }
    Ok(())
}
