//! The lease while a process holds it: [`Hold`].

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use annals_io::errors::chain;
use annals_store::relay::{RelayClaim, RelayLease, RelayPlace, RelayStore, RelayStoreError};

/// Duration of the lease: the longest time for which nobody relays after a crash.
const LEASE: Duration = Duration::from_mins(1);
/// Time after which the lease is renewed, unless a save has renewed it.
const RENEW_AFTER: Duration = Duration::from_secs(20);
/// Pause between two attempts to claim or renew the lease.
const RETRY: Duration = Duration::from_secs(5);

/// The lease of this process.
pub(crate) struct Hold {
    store: RelayStore,
    lease: RelayLease,
    clock: Clock,
    until: Mutex<Timestamp>,
}

/// Another process may be the relay now: this one must not store or save any more.
#[derive(Debug)]
pub(crate) struct LeaseLost;

impl Hold {
    /// Claims the lease as `holder`, as soon as nobody else has it.
    pub(crate) async fn claim(store: &RelayStore, holder: &str, clock: &Clock) -> (Self, RelayPlace) {
        let mut is_waiting = false;
        loop {
            let until = clock.now().plus(LEASE);
            let pause = match store.claim(holder, LEASE).await {
                Ok(RelayClaim::Claimed(lease, place)) => {
                    tracing::info!("this process is the Discord relay now");
                    let hold =
                        Self { store: store.clone(), lease, clock: clock.clone(), until: Mutex::new(until) };
                    return (hold, place);
                }
                Ok(RelayClaim::Busy(until)) => {
                    if !std::mem::replace(&mut is_waiting, true) {
                        tracing::info!("another process is the Discord relay; waiting for its lease to end");
                    }
                    // It ends early if the other one releases it.
                    until.since(clock.now()).clamp(Duration::from_millis(200), RETRY)
                }
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "failed to claim the lease of the Discord relay; retrying");
                    RETRY
                }
            };
            clock.sleep(pause).await;
        }
    }

    /// Keeps the lease. Returns when it is lost.
    pub(crate) async fn keep(&self) -> LeaseLost {
        loop {
            self.clock.sleep(self.renew_at().since(self.clock.now())).await;
            // A save may have renewed it meanwhile.
            if self.clock.now() >= self.renew_at() {
                match self.renew().await {
                    Ok(true) => {}
                    Ok(false) => self.clock.sleep(RETRY).await,
                    Err(lost) => return lost,
                }
            }
        }
    }

    /// Fails if the lease has run out.
    pub(crate) fn check(&self) -> Result<(), LeaseLost> {
        if self.clock.now() < self.until() { Ok(()) } else { Err(LeaseLost) }
    }

    /// Renews the lease. Returns false if the store failed and the lease has not run out.
    pub(crate) async fn renew(&self) -> Result<bool, LeaseLost> {
        let until = self.clock.now().plus(LEASE);
        self.written(until, self.store.renew(self.lease, LEASE).await)
    }

    /// Saves `place`, which renews the lease. Returns false if the store failed and the lease has not run out.
    pub(crate) async fn save(&self, place: &RelayPlace) -> Result<bool, LeaseLost> {
        let until = self.clock.now().plus(LEASE);
        self.written(until, self.store.save(self.lease, place, LEASE).await)
    }

    /// Ends the lease. A failure is logged; the lease then runs out.
    pub(crate) async fn release(self) {
        if let Err(error) = self.store.release(self.lease).await {
            tracing::warn!(error = %chain(&error), "failed to release the lease of the Discord relay; it ends in a minute");
        }
    }

    fn written(&self, until: Timestamp, result: Result<(), RelayStoreError>) -> Result<bool, LeaseLost> {
        match result {
            Ok(()) => {
                *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
                Ok(true)
            }
            Err(RelayStoreError::LeaseLost) => Err(LeaseLost),
            Err(error) => {
                tracing::warn!(error = %chain(&error), "failed to save the state of the Discord relay; retrying");
                self.check().map(|()| false)
            }
        }
    }

    fn renew_at(&self) -> Timestamp {
        self.until().minus(LEASE).plus(RENEW_AFTER)
    }

    fn until(&self) -> Timestamp {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
