//! Stores events in their order, and saves the place after each: [`Worker`].

mod missed;

use std::time::Duration;

use annals_core::sort_key::Timestamp;
use annals_io::clock::Clock;
use annals_io::errors::chain;
use annals_store::relay::{Missed, RelayPlace, RelaySession};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use crate::event::{Event, Guild, Ready, Received};
use crate::hold::{Hold, LeaseLost};
use crate::host::{Host, HostError};
use crate::snowflake;

/// Time between two saves while further events wait. What is not saved at a crash is stored again, as duplicates.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// Time for which an event may fail before the connection is dropped.
const PATIENCE: Duration = Duration::from_mins(2);
/// Time for one call of the host.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);
/// First and longest pause before a failed call is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Stores the events of one connection.
pub(crate) struct Worker<'a, H> {
    pub(crate) host: &'a H,
    pub(crate) hold: &'a Hold,
    pub(crate) clock: &'a Clock,
    /// The place, changed only after what it covers is stored.
    pub(crate) place: &'a mut RelayPlace,
    /// Set once an event is stored.
    pub(crate) has_relayed: &'a mut bool,
    pub(crate) bot_id: &'a str,
    /// Number of channels that refused to be read.
    pub(crate) refused: usize,
    /// Told when an event cannot be stored for [`PATIENCE`].
    pub(crate) stalled: &'a Notify,
}

impl<H: Host> Worker<'_, H> {
    /// Stores `events` until they end.
    pub(crate) async fn run(mut self, mut events: Receiver<Received>) -> Result<(), LeaseLost> {
        let (mut is_saved, mut saved_at) = (true, Timestamp::MIN);
        while let Some(Received { seq, event }) = events.recv().await {
            self.store(event, seq).await?;
            *self.has_relayed = true;
            if let Some(session) = &mut self.place.session {
                session.seq = seq;
            }
            let is_due = events.is_empty() || self.clock.now().since(saved_at) >= SAVE_EVERY;
            is_saved = is_due && self.hold.save(self.place).await?;
            if is_saved {
                saved_at = self.clock.now();
            }
        }
        if !is_saved {
            self.hold.save(self.place).await?;
        }
        Ok(())
    }

    async fn store(&mut self, event: Event, seq: u64) -> Result<(), LeaseLost> {
        match event {
            Event::Ready(ready) => self.begin(ready, seq).await,
            Event::Guild(guild) => self.guild(&guild).await,
            Event::GuildLeft(id) => {
                self.no_longer_missed(id);
                Ok(())
            }
            Event::Messages(dispatches) => {
                for dispatch in dispatches {
                    self.message(dispatch).await?;
                }
                Ok(())
            }
            Event::Other => Ok(()),
        }
    }

    /// Begins a new session. If there was one before, messages may have been missed in between: those of direct messages
    /// are fetched now, those of a guild as soon as it says which of its channels have any.
    async fn begin(&mut self, ready: Ready, seq: u64) -> Result<(), LeaseLost> {
        let since = self.place.missed.as_ref().map(|missed| missed.since).or(self.place.newest);
        match since {
            None => self.place.newest = Some(snowflake::at(self.clock.now())),
            Some(since) => {
                // Set first, and saved also without guilds: a direct message that is stored below must not hide older ones.
                let guilds = ready.guilds.iter().map(|guild| guild.id).collect();
                self.place.missed = Some(Missed { since, guilds });
                self.fetch_direct(since).await?;
            }
        }
        self.place.missed.take_if(|missed| missed.guilds.is_empty());
        let (id, resume_url) = (ready.session_id, ready.resume_gateway_url);
        self.place.session = Some(RelaySession { id, resume_url, seq });
        Ok(())
    }

    async fn guild(&mut self, guild: &Guild) -> Result<(), LeaseLost> {
        let missed = self.place.missed.as_ref();
        if let Some(since) =
            missed.filter(|missed| missed.guilds.contains(&guild.id)).map(|missed| missed.since)
            && !guild.unavailable
        {
            self.fetch_guild(guild, since).await?;
            self.no_longer_missed(guild.id);
        }
        Ok(())
    }

    fn no_longer_missed(&mut self, guild: u64) {
        if let Some(missed) = &mut self.place.missed {
            missed.guilds.remove(&guild);
        }
        if self.place.missed.take_if(|missed| missed.guilds.is_empty()).is_some() {
            tracing::info!("fetched the messages of Discord that were missed");
        }
    }

    async fn message(&mut self, dispatch: Value) -> Result<(), LeaseLost> {
        let created = (dispatch["t"] == "MESSAGE_CREATE").then(|| snowflake::of(&dispatch["d"])).flatten();
        self.until_done("store a message of Discord", || self.host.receive(dispatch.clone())).await?;
        self.place.newest = self.place.newest.max(created);
        Ok(())
    }

    /// Tries `call` until it succeeds. Returns `None` if it is refused.
    async fn until_done<T, F: Future<Output = Result<T, HostError>>>(
        &self,
        operation: &str,
        call: impl Fn() -> F,
    ) -> Result<Option<T>, LeaseLost> {
        let (started, mut pause) = (self.clock.now(), PAUSES.0);
        loop {
            self.hold.check()?;
            match timeout(CALL_TIMEOUT, call()).await {
                Ok(Ok(done)) => return Ok(Some(done)),
                Ok(Err(HostError::Refused(error))) => {
                    tracing::warn!(error = %chain(&*error), "cannot {operation}; skipped");
                    return Ok(None);
                }
                Ok(Err(HostError::Failed(error))) => {
                    tracing::warn!(error = %chain(&*error), "failed to {operation}; retrying");
                }
                Err(_) => tracing::warn!("failed to {operation} in time; retrying"),
            }
            if self.clock.now().since(started) >= PATIENCE {
                self.stalled.notify_one();
            }
            self.clock.sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }
}
