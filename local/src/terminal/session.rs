//! The way to the program that has the data directory, or a program of one's own where none has.

use std::future::pending;
use std::time::Duration;

use annals_shared::chat_key::ChatKey;
use annals_shared::clock::Clock;
use annals_shared::message::UiMessage;
use anyhow::{Context, bail};
use reqwest::{RequestBuilder, Response, StatusCode};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, oneshot};
use tokio::task::JoinHandle;

use super::USER;
use super::wire::{Event, Say};
use crate::config::LocalConfig;
use crate::program::Program;
use crate::queue::Failed;
use crate::said::plain;
use crate::stores::try_lock;

/// How often a program that has just started, or just ended, is looked for again, and after how long: three seconds.
const TRIES: usize = 30;
const PAUSE: Duration = Duration::from_millis(100);
/// How long a request that streams nothing may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A way to the program.
pub(super) struct Session {
    http: reqwest::Client,
    config: LocalConfig,
    clock: Clock,
    own: Option<Own>,
}

/// A program that lives as long as the terminal.
struct Own {
    stop: oneshot::Sender<()>,
    served: JoinHandle<anyhow::Result<()>>,
    failures: broadcast::Receiver<Failed>,
}

impl Session {
    pub(super) async fn open(config: LocalConfig, clock: Clock) -> anyhow::Result<Self> {
        // It is on this machine, whatever proxies are set.
        let http = reqwest::Client::builder().no_proxy();
        #[cfg(unix)]
        let http = http.unix_socket(super::door::socket(&config.data_dir));
        let http = http.build()?;
        let own = reach(&http, &config, &clock).await?;
        Ok(Self { http, config, clock, own })
    }

    /// Whether the program is another's.
    pub(super) fn is_shared(&self) -> bool {
        self.own.is_none()
    }

    /// Finds the program anew: it may have ended, and then this is the next.
    pub(super) async fn reopen(&mut self) -> anyhow::Result<()> {
        self.end().await;
        self.own = reach(&self.http, &self.config, &self.clock).await?;
        Ok(())
    }

    /// Says `text` under `id`, which a repeat shares.
    pub(super) async fn say(&self, id: &str, text: &str) -> anyhow::Result<Events> {
        let said = Say { id: id.to_owned(), text: text.to_owned() };
        Ok(Events::of(sent(self.http.post(url("/say")).json(&said)).await?))
    }

    /// The reply that is being made, if one is.
    pub(super) async fn pending(&self) -> anyhow::Result<Option<Events>> {
        let answer = sent(self.http.get(url("/pending"))).await?;
        Ok((answer.status() != StatusCode::NO_CONTENT).then(|| Events::of(answer)))
    }

    /// The last `limit` messages.
    pub(super) async fn history(&self, limit: usize) -> anyhow::Result<Vec<UiMessage>> {
        let url = url(&format!("/history?limit={limit}"));
        Ok(sent(self.http.get(url).timeout(PATIENCE)).await?.json().await?)
    }

    /// Ends the program, where it is this terminal's own. What is under way is gone on with at the next start.
    pub(super) async fn end(&mut self) {
        if let Some(Own { stop, served, .. }) = self.own.take() {
            let _ = stop.send(());
            drop(served.await);
        }
    }

    /// Why a run for the person at the terminal has failed, which is tried again. Waits for the next; for ever where the
    /// program is another's, whose own log says it.
    pub(super) async fn failed(&mut self) -> String {
        let chat = ChatKey::direct(&self.config.agent.agent_id, USER).ok();
        loop {
            let Some(Own { failures, .. }) = &mut self.own else { return pending().await };
            match failures.recv().await {
                Ok(failed) if Some(&failed.chat) == chat.as_ref() => return plain(&failed.error),
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return pending().await,
            }
        }
    }
}

/// The address of `path`: the socket decides where it leads, whatever the host is called.
fn url(path: &str) -> String {
    format!("http://localhost{path}")
}

/// Waits until the program that works on the data directory answers; starts one if there is none.
async fn reach(http: &reqwest::Client, config: &LocalConfig, clock: &Clock) -> anyhow::Result<Option<Own>> {
    let mut own = None;
    for _ in 0..TRIES {
        if own.is_none()
            && let Some(lock) = try_lock(&config.data_dir)?
        {
            let program = Box::pin(Program::start_locked(config.clone(), clock.clone(), lock)).await?;
            let (stop, stopped) = oneshot::channel();
            let failures = program.failures();
            let served = tokio::spawn(program.serve(async { drop(stopped.await) }));
            own = Some(Own { stop, served, failures });
        }
        let look = http.get(url("/history?limit=1")).timeout(PATIENCE);
        if look.send().await.is_ok_and(|answer| answer.status().is_success()) {
            return Ok(own);
        }
        clock.sleep(PAUSE).await;
    }
    bail!(
        "another program works on {} and does not answer `annals chat`: a command that writes there, or an Annals of \
         an earlier version; end it, or set ANNALS_DATA_DIR to another",
        config.data_dir.display()
    )
}

async fn sent(request: RequestBuilder) -> anyhow::Result<Response> {
    let answer = request.send().await.context("the program does not answer")?;
    if answer.status().is_success() {
        return Ok(answer);
    }
    let text = answer.text().await.unwrap_or_default();
    bail!("the program could not do that: {text}")
}

/// What the program answers, piece by piece.
pub(super) struct Events {
    answer: Response,
    waiting: Vec<u8>,
}

impl Events {
    fn of(answer: Response) -> Self {
        Self { answer, waiting: Vec::new() }
    }

    /// The next; `None` behind the last. An error where the program has gone. Safe to give up and to call again.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Event>> {
        loop {
            if let Some(end) = self.waiting.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.waiting.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            match self.answer.chunk().await.context("the program has gone")? {
                Some(chunk) => self.waiting.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }
}
