//! Reports of what an invocation counted: [`Reporter`].

use std::io::{Write, stdout};

use annals_io::clock::Clock;
use annals_io::metrics::Metrics;
use axum::Router;
use axum::middleware::{Next, from_fn};
use serde_json::Value;

use crate::telemetry::Traces;

/// Reports at the end of each invocation, however it ends: writes the counters and sends the spans.
#[derive(Clone)]
pub struct Reporter {
    /// A counter.
    pub metrics: Metrics,
    /// Table, as the dimension of the counters.
    pub table: String,
    /// The time.
    pub clock: Clock,
    /// Destination of spans.
    pub traces: Traces,
    /// Writes lines, each with a line end.
    pub write: fn(&str),
}

impl Reporter {
    /// Creates a reporter that writes to standard output.
    pub fn to_stdout(metrics: Metrics, table: String, clock: Clock, traces: Traces) -> Self {
        // Not `print!`, which panics if standard output is closed: counting must not break anything.
        Self { metrics, table, clock, traces, write: |lines| drop(stdout().write_all(lines.as_bytes())) }
    }

    /// Starts an invocation. It reports when it is dropped: at its end, its failure or its panic. If several run at
    /// once, each reports the counts up to its end, and everything is reported once.
    #[must_use]
    pub fn invocation(&self) -> Invocation {
        Invocation(self.clone())
    }

    /// Wraps `router` so that each request is an invocation.
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
    /// Ends the invocation regularly. If it fails or panics instead, its spans are sent with the next.
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
