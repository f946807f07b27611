//! Counters of a deployed function for CloudWatch: [`Metrics`], and their lines on standard output in the [embedded
//! metric
//! format](https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html).
//!
//! ```json
//! {"_aws": {"Timestamp": 1795305600000, "CloudWatchMetrics": [{"Namespace": "Annals", "Dimensions": [["Table"]],
//!   "Metrics": [{"Name": "Turns", "Unit": "Count"}, {"Name": "ModelLatency", "Unit": "Milliseconds"}]}]},
//!  "Table": "annals-Table-1X2Y", "Turns": 1, "ModelLatency": [812, 1430]}
//! {"_aws": {…, "Dimensions": [["Table"], ["Table", "Channel"]], …}, "Table": "annals-Table-1X2Y",
//!  "Channel": "telegram", "Deliveries": 1}
//! ```
//!
//! They have the table as a dimension, so that two stacks of one account are not added up. They contain nothing of
//! messages, chats or people.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use annals_core::record::Channel;
use annals_core::sort_key::Timestamp;
use serde_json::{Map, Value, json};

/// Namespace of all metrics.
pub const NAMESPACE: &str = "Annals";

/// Maximum number of values of one metric in a line.
const MAX_VALUES: usize = 100;

/// A counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Messages and commands stored for the first time, by channel.
    Messages,
    /// Repeated deliveries of messages that were stored already, by channel.
    Duplicates,
    /// New forms of messages, by channel.
    Revisions,
    /// Turns that ended with an answer or a notice.
    Turns,
    /// Runs that failed; they are retried.
    TurnFailures,
    /// Turns that were given up; their users got a failure notice.
    TurnsGivenUp,
    /// Duration of each answered request to a model.
    ModelLatency,
    /// Requests to a model without an answer: refused, broken off, or given up.
    ModelErrors,
    /// Input tokens of each request to a model, as its provider counts.
    InputTokens,
    /// Output tokens of each answer.
    OutputTokens,
    /// Replies and confirmations that their platform accepted, by channel.
    Deliveries,
    /// Replies and confirmations that their platform will never accept, by channel.
    DeliveryFailures,
    /// Summaries stored.
    Compactions,
    /// Failed compactions; they are retried.
    CompactionFailures,
}

impl Metric {
    /// All metrics.
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

    /// Returns the name in CloudWatch.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// Returns the unit in CloudWatch.
    pub fn unit(self) -> &'static str {
        if self == Self::ModelLatency { "Milliseconds" } else { "Count" }
    }

    /// Returns true if each value is reported, for percentiles, instead of the sum.
    fn is_distribution(self) -> bool {
        matches!(self, Self::ModelLatency | Self::InputTokens | Self::OutputTokens)
    }
}

/// Counts until the next report. Clones share the counters; the default counts nothing.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Option<Arc<Mutex<Collected>>>);

type Collected = BTreeMap<(Option<Channel>, Metric), Vec<u64>>;

impl Metrics {
    /// Creates counters that are to be reported.
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

    /// Takes the counts since the last call as lines: one for each channel and one without a channel.
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

/// Name, unit, and value or values of a metric.
pub type Measured = (String, &'static str, Value);

/// Formats a line of `metrics`, of `table`, and of `channel` if there is one.
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
