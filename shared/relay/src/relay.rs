//! Claims the lease, connects, reconnects, ends: [`Relay`].

use std::fmt;
use std::time::Duration;

use annals_io::clock::Clock;
use annals_io::connection::Connection as Http;
use annals_io::{random, tls};
use annals_store::relay::{RelayPlace, RelayStore};
use futures::FutureExt;
use futures::future::Shared;
use tokio::sync::{Notify, mpsc};

use crate::config::RelayConfig;
use crate::connection::{Connection, Ended};
use crate::error::RelayError;
use crate::gateway::Gateway;
use crate::hold::{Hold, LeaseLost};
use crate::host::Host;
use crate::worker::Worker;

/// Number of events that may wait to be stored.
const MAX_WAITING: usize = 1_000;
/// Time in which a relay that is to stop stores the events that it has received.
const GRACE: Duration = Duration::from_secs(5);
/// Pause after the gateway could not be reached.
const UNREACHABLE: Duration = Duration::from_secs(30);
/// Time after which a session counts as stable.
const STABLE_AFTER: Duration = Duration::from_mins(10);
/// Longest pause between two sessions that were not stable: 288 IDENTIFYs a day, of the 1,000 that Discord allows.
const MAX_SESSION_PAUSE: Duration = Duration::from_mins(5);

/// A relay of Discord's gateway.
pub struct Relay<H> {
    config: RelayConfig,
    store: RelayStore,
    host: H,
    clock: Clock,
    holder: String,
    http: Http,
}

impl<H> fmt::Debug for Relay<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("config", &self.config).finish_non_exhaustive()
    }
}

/// The end of a session's events.
enum Stopped {
    LeaseLost,
    Fatal(RelayError),
}

impl From<LeaseLost> for Stopped {
    fn from(LeaseLost: LeaseLost) -> Self {
        Self::LeaseLost
    }
}

impl<H: Host> Relay<H> {
    /// Creates a relay that gives messages to `host`.
    pub fn new(config: RelayConfig, store: RelayStore, host: H, clock: Clock) -> Self {
        let http = Http::new(|| tls::client().build());
        Self { config, store, host, clock, holder: random::hex::<8>(), http }
    }

    /// Names the holder of the lease, for a program that is alone on its data: after a crash its next start has the lease at
    /// once.
    #[must_use]
    pub fn with_holder(self, holder: impl Into<String>) -> Self {
        Self { holder: holder.into(), ..self }
    }

    /// Relays until `shutdown` ends, then releases the lease. While another process is the relay, it waits. Returns false if
    /// it had the lease in the end, but received nothing, or could not store what it received.
    ///
    /// # Errors
    ///
    /// A fault that only the operator can repair. Everything else is retried.
    pub async fn run(&self, shutdown: impl Future<Output = ()>) -> Result<bool, RelayError> {
        let shutdown = shutdown.shared();
        loop {
            let (hold, place) = tokio::select! {
                () = shutdown.clone() => return Ok(true),
                claimed = Hold::claim(&self.store, &self.holder, &self.clock) => claimed,
            };
            let ended = tokio::select! {
                LeaseLost = hold.keep() => Err(Stopped::LeaseLost),
                ended = self.follow(&hold, place, &shutdown) => ended,
            };
            match ended {
                Err(Stopped::LeaseLost) => {
                    tracing::warn!("the lease of the Discord relay is lost; waiting for it");
                }
                Err(Stopped::Fatal(error)) => {
                    hold.release().await;
                    return Err(error);
                }
                Ok(has_relayed) => {
                    hold.release().await;
                    return Ok(has_relayed);
                }
            }
        }
    }

    /// Relays one session after another, until `shutdown` ends. Returns false as [`run`](Self::run) does.
    async fn follow<S: Future<Output = ()>>(
        &self,
        hold: &Hold,
        mut place: RelayPlace,
        shutdown: &Shared<S>,
    ) -> Result<bool, Stopped> {
        let (mut unstable, mut has_relayed) = (0, false);
        loop {
            let began = self.clock.now();
            let gateway = tokio::select! {
                () = shutdown.clone() => return Ok(has_relayed),
                gateway = Gateway::ask(&self.config, &self.http, &self.clock) => gateway.map_err(Stopped::Fatal)?,
            };
            let pause = match self.connect(hold, &gateway, &mut place, &mut has_relayed, shutdown).await? {
                Ended::Shutdown => return Ok(has_relayed),
                Ended::Fatal(error) => return Err(Stopped::Fatal(error)),
                Ended::Behind => Duration::ZERO,
                Ended::Unreachable => UNREACHABLE,
                Ended::SessionInvalid => {
                    place.session = None;
                    unstable = if self.clock.now().since(began) < STABLE_AFTER { unstable + 1 } else { 1 };
                    session_pause(unstable)
                }
            };
            tokio::select! {
                () = shutdown.clone() => return Ok(has_relayed),
                () = self.clock.sleep(pause) => {}
            }
        }
    }

    /// Relays over one connection. What it received is stored when it returns, unless that takes too long at the end.
    async fn connect<S: Future<Output = ()>>(
        &self,
        hold: &Hold,
        gateway: &Gateway,
        place: &mut RelayPlace,
        has_relayed: &mut bool,
        shutdown: &Shared<S>,
    ) -> Result<Ended, Stopped> {
        let (events, received) = mpsc::channel(MAX_WAITING);
        let stalled = Notify::new();
        let connection =
            Connection::new(&self.config, gateway, place.session.as_ref(), events, hold, &self.clock);
        let worker = Worker {
            host: &self.host,
            hold,
            clock: &self.clock,
            place: &mut *place,
            has_relayed: &mut *has_relayed,
            bot_id: &self.config.bot_id,
            refused: 0,
            stalled: &stalled,
        };
        let mut storing = Box::pin(worker.run(received));
        let mut is_stalled = false;
        let ended = tokio::select! {
            () = shutdown.clone() => Ended::Shutdown,
            () = stalled.notified() => {
                tracing::error!("messages of Discord cannot be stored; disconnecting until they can");
                is_stalled = true;
                Ended::Behind
            }
            ended = connection.read() => ended?,
            stored = &mut storing => {
                stored?;
                return Ok(Ended::Behind);
            }
        };
        // Here the connection is dropped, and the queue ends after its last event.
        match ended {
            Ended::Shutdown | Ended::Fatal(_) => tokio::select! {
                stored = &mut storing => stored?,
                () = self.clock.sleep(GRACE) => {
                    drop(storing);
                    hold.save(place).await?;
                }
            },
            _ => tokio::select! {
                stored = &mut storing => stored?,
                () = shutdown.clone() => {
                    drop(storing);
                    *has_relayed &= !is_stalled;
                    hold.save(place).await?;
                    return Ok(Ended::Shutdown);
                }
            },
        }
        Ok(ended)
    }
}

/// Returns the pause before a new session, after `unstable` short ones in a row. Discord asks for 1 to 5 seconds.
fn session_pause(unstable: u32) -> Duration {
    let random = Duration::from_millis(fastrand::u64(1_000..=5_000));
    let doubled = Duration::from_secs(5).saturating_mul(1 << unstable.saturating_sub(1).min(16));
    if unstable <= 1 { random } else { (doubled + random).min(MAX_SESSION_PAUSE) }
}
