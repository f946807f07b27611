//! `GET /local/status`: the checks of `doctor`, made by the running program of itself.

use std::sync::Arc;
use std::time::Duration;

use annals_channel::finding::Finding;
use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::doctor::own_findings;

/// Time for which results are returned again, since the checks send requests to platforms and models.
const LIFETIME: Duration = Duration::from_secs(15);

/// Results of the checks.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Checked {
    checked_at: Timestamp,
    findings: Arc<[Finding]>,
}

/// The last results.
#[derive(Debug)]
pub(crate) struct Status {
    clock: Clock,
    last: Mutex<Option<Checked>>,
}

impl Status {
    /// Creates one that has checked nothing yet.
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, last: Mutex::new(None) }
    }

    /// Returns results that are at most [`LIFETIME`] old. Callers at the same time wait for the same checks.
    pub(crate) async fn read(&self) -> Checked {
        let mut last = self.last.lock().await;
        if let Some(checked) = &*last
            && self.clock.now().since(checked.checked_at) < LIFETIME
        {
            return checked.clone();
        }
        let (clock, runtime) = (self.clock.clone(), Handle::current());
        // On a thread of its own, since a source of settings does not move between threads.
        let made = tokio::task::spawn_blocking(move || runtime.block_on(own_findings(&clock))).await;
        let findings = made.unwrap_or_else(|error| vec![Finding::fault("status", error.to_string())]).into();
        last.insert(Checked { checked_at: self.clock.now(), findings }).clone()
    }
}
