//! Connects a terminal to a room elsewhere, to the program that uses the data directory, or runs a program itself:
//! [`Session`].

use std::future::pending;
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::message::UiMessage;
use annals_core::texts::{TerminalText, Texts};
use annals_io::clock::Clock;
use annals_io::tls;
use anyhow::{Context, bail};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{RequestBuilder, Response, StatusCode};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, oneshot};
use tokio::task::JoinHandle;

use super::endpoint;
use super::room::{Room, RoomEvents};
use super::wire::{Event, Lines, Say};
use crate::config::LocalConfig;
use crate::errors::plain;
use crate::program::Program;
use crate::queue::Failed;
use crate::stores::try_lock;

/// Attempts to reach a program that has just started or just ended, over three seconds.
const ATTEMPTS: usize = 30;
const PAUSE: Duration = Duration::from_millis(100);
/// Longest time of a request that does not stream.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to a program.
pub(super) enum Session {
    /// One that uses a data directory of this machine.
    Here(Box<Here>),
    /// One elsewhere.
    Elsewhere(Room),
}

/// A connection to the program that uses the data directory.
pub(super) struct Here {
    http: reqwest::Client,
    config: LocalConfig,
    clock: Clock,
    own: Option<OwnProgram>,
}

/// A program that runs as long as the terminal.
struct OwnProgram {
    stop: oneshot::Sender<()>,
    served: JoinHandle<anyhow::Result<()>>,
    failures: broadcast::Receiver<Failed>,
}

impl Session {
    pub(super) async fn open(config: LocalConfig, clock: Clock) -> anyhow::Result<Self> {
        // The program is on this machine, so no proxy is used.
        let http = tls::loopback_client().no_proxy();
        #[cfg(unix)]
        let http = http.unix_socket(endpoint::socket(&config.data_dir));
        let http = http.build()?;
        let own = reach(&http, &config, &clock).await?;
        Ok(Self::Here(Box::new(Here { http, config, clock, own })))
    }

    /// Returns a description of the other side, for people.
    pub(super) fn name(&self, model: &str, texts: &dyn Texts) -> String {
        match self {
            Self::Here(here) => {
                // Only the settings of a running program tell its model.
                let by = match here.own {
                    Some(_) => format!("{model},"),
                    None => texts.terminal(TerminalText::OtherProgram).to_owned(),
                };
                format!("{by} {}", here.config.data_dir.display())
            }
            Self::Elsewhere(room) => room.name(texts),
        }
    }

    /// Connects again. If the program of the data directory has ended, runs one.
    pub(super) async fn reopen(&mut self) -> anyhow::Result<()> {
        self.end().await;
        match self {
            Self::Here(here) => here.own = reach(&here.http, &here.config, &here.clock).await?,
            Self::Elsewhere(room) => room.pause().await,
        }
        Ok(())
    }

    /// Sends `text` under `id`. A repeated message has the same id. If `text` answers a request for approval, `answered` is the
    /// reply with that answer, if no other request is open.
    pub(super) async fn say(
        &self,
        id: &str,
        text: &str,
        answered: Option<&UiMessage>,
    ) -> anyhow::Result<Events> {
        match self {
            Self::Here(here) => {
                let said = Say { id: id.to_owned(), user: here.config.user.clone(), text: text.to_owned() };
                Ok(Events::Here(Lines::of(sent(here.http.post(url("/say")).json(&said)).await?)))
            }
            Self::Elsewhere(room) => Ok(Events::Elsewhere(Box::new(room.say(id, text, answered).await?))),
        }
    }

    /// Returns the reply that is being made, if there is one.
    pub(super) async fn pending(&self) -> anyhow::Result<Option<Events>> {
        match self {
            Self::Here(here) => {
                let answer = sent(here.http.get(here.url("/pending?"))).await?;
                Ok((answer.status() != StatusCode::NO_CONTENT).then(|| Events::Here(Lines::of(answer))))
            }
            Self::Elsewhere(room) => {
                let events = room.pending().await?;
                Ok(events.map(|events| Events::Elsewhere(Box::new(events))))
            }
        }
    }

    /// Returns the last `limit` messages.
    pub(super) async fn history(&self, limit: usize) -> anyhow::Result<Vec<UiMessage>> {
        match self {
            Self::Here(here) => {
                let url = here.url(&format!("/history?limit={limit}&"));
                Ok(sent(here.http.get(url).timeout(PATIENCE)).await?.json().await?)
            }
            Self::Elsewhere(room) => room.history(limit).await,
        }
    }

    /// Ends the program if it is this terminal's own. The next start continues its work.
    pub(super) async fn end(&mut self) {
        if let Self::Here(here) = self
            && let Some(OwnProgram { stop, served, .. }) = here.own.take()
        {
            let _ = stop.send(());
            drop(served.await);
        }
    }

    /// Waits for the next failure of a run for this terminal, which is retried, and returns its reason. Waits forever if the program
    /// is not the terminal's own: that one logs failures itself.
    pub(super) async fn failed(&mut self) -> String {
        let Self::Here(here) = self else { return pending().await };
        let chat = ChatKey::direct(&here.config.agent.agent_id, &here.config.user).ok();
        loop {
            let Some(OwnProgram { failures, .. }) = &mut here.own else { return pending().await };
            match failures.recv().await {
                Ok(failed) if Some(&failed.chat) == chat.as_ref() => return plain(&failed.error),
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return pending().await,
            }
        }
    }
}

impl Here {
    /// Returns the URL of `path`, which ends with `?` or `&`, for this terminal's person.
    fn url(&self, path: &str) -> String {
        url(&format!("{path}user={}", utf8_percent_encode(&self.config.user, NON_ALPHANUMERIC)))
    }
}

/// Returns the URL of `path`. The host does not matter: all requests go to the socket.
fn url(path: &str) -> String {
    format!("http://localhost{path}")
}

/// Waits until the program that uses the data directory answers. Starts one if there is none.
async fn reach(
    http: &reqwest::Client,
    config: &LocalConfig,
    clock: &Clock,
) -> anyhow::Result<Option<OwnProgram>> {
    let mut own = None;
    for _ in 0..ATTEMPTS {
        if own.is_none()
            && let Some(lock) = try_lock(&config.data_dir)?
        {
            let program = Box::pin(Program::start_locked(config.clone(), clock.clone(), lock)).await?;
            let (stop, stopped) = oneshot::channel();
            let failures = program.failures();
            let served = tokio::spawn(program.serve(async { drop(stopped.await) }));
            own = Some(OwnProgram { stop, served, failures });
        }
        let probe = http.get(url("/history?limit=1&user=local")).timeout(PATIENCE);
        if probe.send().await.is_ok_and(|answer| answer.status().is_success()) {
            return Ok(own);
        }
        clock.sleep(PAUSE).await;
    }
    bail!(
        "another program uses {} and does not answer `annals chat`: a command that writes there, or an earlier version of \
         Annals; end it, or set ANNALS_DATA_DIR to another directory",
        config.data_dir.display()
    )
}

async fn sent(request: RequestBuilder) -> anyhow::Result<Response> {
    let answer = request.send().await.context("the program does not answer")?;
    if answer.status().is_success() {
        return Ok(answer);
    }
    let text = answer.text().await.unwrap_or_default();
    bail!("the program failed: {text}")
}

/// A streamed answer.
pub(super) enum Events {
    /// Of the program of the data directory: lines of JSON.
    Here(Lines),
    /// Of a room elsewhere.
    Elsewhere(Box<RoomEvents>),
}

impl Events {
    /// Returns the next event, or `None` after the last. Fails if the program has ended. Cancel-safe.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Event>> {
        match self {
            Self::Here(lines) => {
                let line = lines.next().await.context("the program has ended")?;
                Ok(line.map(|line| serde_json::from_slice(&line)).transpose()?)
            }
            Self::Elsewhere(events) => events.next().await,
        }
    }
}
