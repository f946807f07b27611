//! What a deployed function counts, for CloudWatch: [`Metrics`], and their lines on standard output in the
//! [embedded metric format](https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html).
//!
//! ```json
//! {"_aws": {"Timestamp": 1795305600000, "CloudWatchMetrics": [{"Namespace": "Annals", "Dimensions": [["Table"]],
//!   "Metrics": [{"Name": "Turns", "Unit": "Count"}, {"Name": "ModelLatency", "Unit": "Milliseconds"}]}]},
//!  "Table": "annals-Table-1X2Y", "Turns": 1, "ModelLatency": [812, 1430]}
//! {"_aws": {…, "Dimensions": [["Table"], ["Table", "Channel"]], …}, "Table": "annals-Table-1X2Y",
//!  "Channel": "telegram", "Deliveries": 1}
//! ```
//!
//! By table, so that two stacks of one account do not add up. Nothing of a message, of a chat or of a person is in them.

use std::collections::BTreeMap;
use std::io::{Write, stdout};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::middleware::{Next, from_fn};
use serde_json::{Map, Value, json};

use crate::clock::Clock;
use crate::record::Channel;
use crate::sort_key::Timestamp;
use crate::telemetry::Traces;

/// The namespace of all metrics.
pub const NAMESPACE: &str = "Annals";

/// How many values of one metric a line may hold.
const MAX_VALUES: usize = 100;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Messages and commands stored for the first time, by channel.
    Messages,
    /// Deliveries of what was stored already, by channel.
    Duplicates,
    /// Later forms of messages, by channel.
    Revisions,
    /// Turns finished, with an answer or a notice.
    Turns,
    /// Runs that ended without the answer they should have given; they are tried again.
    TurnFailures,
    /// Turns whose users were told that there is no answer.
    TurnsGivenUp,
    /// How long each request to a model took that was answered.
    ModelLatency,
    /// Requests to a model without an answer: refused, broken off, or given up.
    ModelErrors,
    /// The tokens that each request to a model took, as its provider counts.
    InputTokens,
    /// The tokens of each answer.
    OutputTokens,
    /// Replies and confirmations that their platform took, by channel.
    Deliveries,
    /// Those that it will never take, by channel.
    DeliveryFailures,
    /// Summaries stored.
    Compactions,
    /// Compactions that came to nothing; they are tried again.
    CompactionFailures,
}

impl Metric {
    /// Each metric.
    pub const ALL: [Self; 14] = [
        Self::Messages,
        Self::Duplicates,
        Self::Revisions,
        Self::Turns,
        Self::TurnFailures,
        Self::TurnsGivenUp,
        Self::ModelLatency,
        Self::ModelErrors,
        Self::InputTokens,
        Self::OutputTokens,
        Self::Deliveries,
        Self::DeliveryFailures,
        Self::Compactions,
        Self::CompactionFailures,
    ];

    /// Its name in CloudWatch.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// Its unit in CloudWatch.
    pub fn unit(self) -> &'static str {
        if self == Self::ModelLatency { "Milliseconds" } else { "Count" }
    }

    /// Whether each value counts for itself, so that there are percentiles, and not their sum.
    fn is_distribution(self) -> bool {
        matches!(self, Self::ModelLatency | Self::InputTokens | Self::OutputTokens)
    }
}

/// Where things are counted until they are reported. Clones count together; the default counts nothing.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Option<Arc<Mutex<Collected>>>);

type Collected = BTreeMap<(Option<Channel>, Metric), Vec<u64>>;

impl Metrics {
    /// Metrics that are to be [reported](Reporter).
    pub fn collected() -> Self {
        Self(Some(Arc::default()))
    }

    /// Adds `value` to `metric`.
    pub fn add(&self, metric: Metric, value: u64) {
        self.collect(None, metric, value);
    }

    /// Adds one to `metric` of `channel`.
    pub fn count(&self, metric: Metric, channel: Channel) {
        self.collect(Some(channel), metric, 1);
    }

    fn collect(&self, channel: Option<Channel>, metric: Metric, value: u64) {
        let Some(collected) = &self.0 else { return };
        let mut collected = collected.lock().unwrap_or_else(PoisonError::into_inner);
        let values = collected.entry((channel, metric)).or_default();
        match values.last_mut().filter(|_| !metric.is_distribution()) {
            Some(sum) => *sum += value,
            None => values.push(value),
        }
    }

    /// What has been counted since it was last taken, as lines: one for each channel and one for what is of none.
    pub fn take(&self, table: &str, now: Timestamp) -> Vec<Value> {
        let Some(collected) = &self.0 else { return Vec::new() };
        let collected = std::mem::take(&mut *collected.lock().unwrap_or_else(PoisonError::into_inner));
        let mut lines: BTreeMap<(Option<Channel>, usize), Vec<Measured>> = BTreeMap::new();
        for ((channel, metric), values) in collected {
            for (number, values) in values.chunks(MAX_VALUES).enumerate() {
                let value = if metric.is_distribution() { values.into() } else { values[0].into() };
                let measured = (metric.name(), metric.unit(), value);
                lines.entry((channel, number)).or_default().push(measured);
            }
        }
        lines.into_iter().map(|((channel, _), metrics)| line(table, channel, metrics, now)).collect()
    }
}

/// A metric's name, unit and value or values.
pub type Measured = (String, &'static str, Value);

/// One line of `metrics`, of `table`, and of `channel` too where there is one.
pub fn line(table: &str, channel: Option<Channel>, metrics: Vec<Measured>, now: Timestamp) -> Value {
    let definitions: Vec<Value> =
        metrics.iter().map(|(name, unit, _)| json!({"Name": name, "Unit": unit})).collect();
    let dimensions =
        if channel.is_some() { json!([["Table"], ["Table", "Channel"]]) } else { json!([["Table"]]) };
    let directive = json!({"Namespace": NAMESPACE, "Dimensions": dimensions, "Metrics": definitions});
    let mut line = Map::new();
    line.insert("_aws".into(), json!({"Timestamp": now, "CloudWatchMetrics": [directive]}));
    line.insert("Table".into(), table.into());
    line.extend(channel.map(|channel| ("Channel".to_owned(), json!(channel))));
    line.extend(metrics.into_iter().map(|(name, _, value)| (name, value)));
    Value::Object(line)
}

/// Tells of an invocation when that ends: writes what was counted, however it ends, and sends its spans.
#[derive(Clone)]
pub struct Reporter {
    /// What is counted.
    pub metrics: Metrics,
    /// The table that it is counted for.
    pub table: String,
    /// The time.
    pub clock: Clock,
    /// Where spans go.
    pub traces: Traces,
    /// Takes lines, each ended.
    pub write: fn(&str),
}

impl Reporter {
    /// One that writes to standard output.
    pub fn to_stdout(metrics: Metrics, table: String, clock: Clock, traces: Traces) -> Self {
        // Not `print!`, which panics where nobody reads: counting must break nothing.
        Self { metrics, table, clock, traces, write: |lines| drop(stdout().write_all(lines.as_bytes())) }
    }

    /// An invocation, which reports when this is dropped: at its end, its failure or its panic. Where several run at
    /// once, each reports what has been counted until then, and all of them together everything once.
    #[must_use]
    pub fn invocation(&self) -> Invocation {
        Invocation(self.clone())
    }

    /// `router`, with each of its requests as an invocation.
    pub fn of_router(self, router: Router) -> Router {
        router.layer(from_fn(move |request, next: Next| {
            let invocation = self.invocation();
            async move {
                let response = next.run(request).await;
                invocation.ended().await;
                response
            }
        }))
    }
}

/// See [`Reporter::invocation`].
pub struct Invocation(Reporter);

impl Invocation {
    /// Its regular end. Spans of one that fails or panics are sent with the next.
    pub async fn ended(self) {
        let traces = self.0.traces.clone();
        drop(self);
        traces.flush().await;
    }
}

impl Drop for Invocation {
    fn drop(&mut self) {
        let Reporter { metrics, table, clock, write, .. } = &self.0;
        let lines = metrics.take(table, clock.now());
        if !lines.is_empty() {
            let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
            write(&(lines.join("\n") + "\n"));
        }
    }
}

#[cfg(test)]
mod tests;
