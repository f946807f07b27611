//! `GET /local/status`: the checks of `doctor`, made by the running program of itself.

use std::sync::Arc;
use std::time::Duration;

use annals_channel::finding::{Finding, Verdict};
use annals_core::language::Language;
use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::doctor::own_findings;
use crate::stores::Stores;

/// Time for which results are returned again, since the checks send requests to platforms and models.
const LIFETIME: Duration = Duration::from_secs(15);

/// Results of the checks, in a language.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Checked {
    checked_at: Timestamp,
    findings: Vec<FindingView>,
}

/// A finding in a language.
#[derive(Clone, Debug, Serialize)]
struct FindingView {
    check: String,
    verdict: Verdict,
    words: String,
}

/// The last results.
#[derive(Debug)]
pub(crate) struct Status {
    clock: Clock,
    /// The program's.
    stores: Stores,
    last: Mutex<Option<(Timestamp, Arc<[Finding]>)>>,
}

impl Status {
    /// Creates one that has checked nothing yet.
    pub(crate) fn new(clock: Clock, stores: Stores) -> Self {
        Self { clock, stores, last: Mutex::new(None) }
    }

    /// Returns results that are at most [`LIFETIME`] old, in `language`.
    pub(crate) async fn read(&self, language: Language) -> Checked {
        let (checked_at, findings) = self.findings().await;
        let findings = findings.iter().map(|Finding { check, verdict, words }| FindingView {
            check: check.clone(),
            verdict: *verdict,
            words: words.text(language).to_owned(),
        });
        Checked { checked_at, findings: findings.collect() }
    }

    /// Returns the last results, or new ones. Callers at the same time wait for the same checks.
    async fn findings(&self) -> (Timestamp, Arc<[Finding]>) {
        let mut last = self.last.lock().await;
        if let Some((checked_at, findings)) = &*last
            && checked_at.is_fresh(LIFETIME, self.clock.now())
        {
            return (*checked_at, Arc::clone(findings));
        }
        let (clock, stores, runtime) = (self.clock.clone(), self.stores.clone(), Handle::current());
        // On a thread of its own, since a source of settings does not move between threads.
        let made = tokio::task::spawn_blocking(move || runtime.block_on(own_findings(&clock, &stores))).await;
        let failed = |error: tokio::task::JoinError| vec![Finding::fault("status", error.to_string())];
        let findings = made.unwrap_or_else(failed).into();
        last.insert((self.clock.now(), findings)).clone()
    }
}
