//! Connects a terminal to a room elsewhere, to the program that uses the data directory, or runs a program itself:
//! [`Session`].

use std::future::pending;
use std::time::Duration;

use annals_core::texts::Texts;
use annals_io::clock::Clock;
use annals_io::tls;
use anyhow::bail;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, oneshot};
use tokio::task::JoinHandle;

use super::endpoint;
use super::room::Room;
use crate::api::Api;
use crate::config::LocalConfig;
use crate::errors::plain;
use crate::program::Program;
use crate::queue::Failed;
use crate::stores::try_lock;

/// Attempts to reach a program that has just started or just ended, over three seconds.
const ATTEMPTS: usize = 30;
const PAUSE: Duration = Duration::from_millis(100);

/// A connection to a program.
pub(super) struct Session {
    pub(super) room: Room,
    /// The program that uses the data directory of this machine; `None` for one elsewhere.
    here: Option<Box<Here>>,
}

struct Here {
    config: LocalConfig,
    clock: Clock,
    own: Option<OwnProgram>,
}

/// A program that runs as long as the terminal.
struct OwnProgram {
    stop: oneshot::Sender<()>,
    served: JoinHandle<anyhow::Result<()>>,
    failures: broadcast::Receiver<Failed>,
    /// The last failure, until it is known if it is this terminal's.
    failed: Option<Failed>,
}

impl Session {
    /// Returns a connection to a room elsewhere.
    pub(super) fn elsewhere(room: Room) -> Self {
        Self { room, here: None }
    }

    /// Connects to the program that uses the data directory, or runs one.
    pub(super) async fn open(config: LocalConfig, clock: Clock) -> anyhow::Result<Self> {
        let client = tls::loopback_client();
        #[cfg(unix)]
        let client = client.unix_socket(endpoint::socket(&config.data_dir));
        let api = Api::of_terminal(client, endpoint::KEY.into())?;
        let room = Room::direct(api, config.user.clone(), clock.clone());
        let mut here = Here { config, clock, own: None };
        here.reach(&room).await?;
        Ok(Self { room, here: Some(Box::new(here)) })
    }

    /// Returns a description of the other side, for people.
    pub(super) fn name(&self, model: &str, texts: &dyn Texts) -> String {
        let Some(here) = &self.here else { return self.room.name(texts) };
        // Only the settings of a running program tell its model.
        let by = match here.own {
            Some(_) => format!("{model},"),
            None => texts.other_program().to_owned(),
        };
        format!("{by} {}", here.config.data_dir.display())
    }

    /// Connects again. If the program of the data directory has ended, runs one.
    pub(super) async fn reopen(&mut self) -> anyhow::Result<()> {
        self.end().await;
        match &mut self.here {
            Some(here) => here.reach(&self.room).await?,
            None => self.room.pause().await,
        }
        Ok(())
    }

    /// Ends the program if it is this terminal's own. The next start continues its work.
    pub(super) async fn end(&mut self) {
        if let Some(OwnProgram { stop, served, .. }) = self.here.as_mut().and_then(|here| here.own.take()) {
            let _ = stop.send(());
            drop(served.await);
        }
    }

    /// Waits for the next failure of a run for this terminal, which is retried, and returns its reason. Waits forever if the program
    /// is not the terminal's own: that one logs failures itself. Cancel-safe.
    pub(super) async fn failed(&mut self) -> String {
        let own = self.here.as_mut().and_then(|here| here.own.as_mut());
        let Some(OwnProgram { failures, failed, .. }) = own else { return pending().await };
        loop {
            let Some(Failed { chat, error }) = failed else {
                match failures.recv().await {
                    Ok(next) => *failed = Some(next),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return pending().await,
                }
                continue;
            };
            let (chat, why) = (chat.to_string(), plain(error));
            // Links and agents decide which chat is the terminal's, so its newest message tells. If it cannot be read, the reason
            // is probably the same.
            let is_own = match self.room.history(1).await {
                Ok(newest) => newest.iter().any(|message| message.metadata.chat_key() == Some(&*chat)),
                Err(_) => true,
            };
            *failed = None;
            if is_own {
                return why;
            }
        }
    }
}

impl Here {
    /// Waits until the program that uses the data directory answers. Runs one if none does.
    async fn reach(&mut self, room: &Room) -> anyhow::Result<()> {
        let mut failure = None;
        for _ in 0..ATTEMPTS {
            if self.own.is_none()
                && let Some(lock) = try_lock(&self.config.data_dir)?
            {
                let (config, clock) = (self.config.clone(), self.clock.clone());
                let program = Box::pin(Program::start_locked(config, clock, lock)).await?;
                let (stop, stopped) = oneshot::channel();
                let failures = program.failures();
                let served = tokio::spawn(program.serve(async { drop(stopped.await) }));
                self.own = Some(OwnProgram { stop, served, failures, failed: None });
            }
            match room.history(1).await {
                Ok(_) => return Ok(()),
                Err(error) => failure = Some(error),
            }
            self.clock.sleep(PAUSE).await;
        }
        if let Some(failure) = failure.filter(|_| self.own.is_some()) {
            return Err(failure);
        }
        bail!(
            "another program uses {} and does not answer `annals chat`: a command that writes there, or an earlier version of \
             Annals; end it, or set ANNALS_DATA_DIR to another directory",
            self.config.data_dir.display()
        )
    }
}
