//! Connects a terminal to the program that uses the data directory, or runs a program if there is none: [`Session`].

use std::future::pending;
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::message::UiMessage;
use annals_io::clock::Clock;
use anyhow::{Context, bail};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{RequestBuilder, Response, StatusCode};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, oneshot};
use tokio::task::JoinHandle;

use super::endpoint;
use super::wire::{Event, Say};
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

/// A connection to the program.
pub(super) struct Session {
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
        let http = reqwest::Client::builder().no_proxy();
        #[cfg(unix)]
        let http = http.unix_socket(endpoint::socket(&config.data_dir));
        let http = http.build()?;
        let own = reach(&http, &config, &clock).await?;
        Ok(Self { http, config, clock, own })
    }

    /// Returns true if the program is not this terminal's own.
    pub(super) fn is_shared(&self) -> bool {
        self.own.is_none()
    }

    /// Connects again. If the program has ended, runs one.
    pub(super) async fn reopen(&mut self) -> anyhow::Result<()> {
        self.end().await;
        self.own = reach(&self.http, &self.config, &self.clock).await?;
        Ok(())
    }

    /// Sends `text` under `id`. A repeated message has the same id.
    pub(super) async fn say(&self, id: &str, text: &str) -> anyhow::Result<Events> {
        let said = Say { id: id.to_owned(), user: self.config.user.clone(), text: text.to_owned() };
        Ok(Events::of(sent(self.http.post(url("/say")).json(&said)).await?))
    }

    /// Returns the reply that is being made, if there is one.
    pub(super) async fn pending(&self) -> anyhow::Result<Option<Events>> {
        let answer = sent(self.http.get(self.url("/pending?"))).await?;
        Ok((answer.status() != StatusCode::NO_CONTENT).then(|| Events::of(answer)))
    }

    /// Returns the last `limit` messages.
    pub(super) async fn history(&self, limit: usize) -> anyhow::Result<Vec<UiMessage>> {
        let url = self.url(&format!("/history?limit={limit}&"));
        Ok(sent(self.http.get(url).timeout(PATIENCE)).await?.json().await?)
    }

    /// Returns the URL of `path`, which ends with `?` or `&`, for this terminal's person.
    fn url(&self, path: &str) -> String {
        url(&format!("{path}user={}", utf8_percent_encode(&self.config.user, NON_ALPHANUMERIC)))
    }

    /// Ends the program if it is this terminal's own. The next start continues its work.
    pub(super) async fn end(&mut self) {
        if let Some(OwnProgram { stop, served, .. }) = self.own.take() {
            let _ = stop.send(());
            drop(served.await);
        }
    }

    /// Waits for the next failure of a run for this terminal, which is retried, and returns its reason. Waits forever if the program
    /// is not the terminal's own: that one logs failures itself.
    pub(super) async fn failed(&mut self) -> String {
        let chat = ChatKey::direct(&self.config.agent.agent_id, &self.config.user).ok();
        loop {
            let Some(OwnProgram { failures, .. }) = &mut self.own else { return pending().await };
            match failures.recv().await {
                Ok(failed) if Some(&failed.chat) == chat.as_ref() => return plain(&failed.error),
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return pending().await,
            }
        }
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

/// A streamed answer of the program.
pub(super) struct Events {
    answer: Response,
    received: Vec<u8>,
}

impl Events {
    fn of(answer: Response) -> Self {
        Self { answer, received: Vec::new() }
    }

    /// Returns the next event, or `None` after the last. Fails if the program has ended. Cancel-safe.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Event>> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            match self.answer.chunk().await.context("the program has ended")? {
                Some(chunk) => self.received.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }
}
