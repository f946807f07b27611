//! The FIFO queue inside the process, with the guarantees of SQS: the turns of one chat run in order and one at a time, chats run
//! in parallel, and each turn runs at least once. A turn is stored before it is accepted, so turns that were pending at a crash run
//! after the restart.
//!
//! ```text
//! .annals/queue.db   turns(number, turn): 12, {"chat":"telegram:chat:42","from":"1763…#…07"}
//! ```

mod earlier;

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use annals_agent::{Agent, Attempt};
use annals_core::chat_key::ChatKey;
use annals_core::sort_key::SortKey;
use annals_io::clock::Clock;
use annals_runtime::telemetry;
use annals_store::queue::{QueueError, Turn, TurnQueue};
use anyhow::Context;
use futures::future::BoxFuture;
use rusqlite::Connection;
use tokio::sync::{Semaphore, broadcast, mpsc};
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::stores::files;

/// Largest number of chats that are answered at a time, so that a start after a long outage does not read all contexts at once.
const MAX_RUNS: usize = 1_000;

/// Pause before finished turns are deleted again.
const DELETE_AGAIN: Duration = Duration::from_secs(1);

/// Number of failures that wait for a slow listener.
const QUEUED_FAILURES: usize = 16;

/// The queue of one process.
#[derive(Clone)]
pub struct LocalQueue(Arc<Inner>);

struct Inner {
    stored: Mutex<Connection>,
    waiting: Mutex<Waiting>,
    clock: Clock,
    ready: mpsc::UnboundedSender<ChatKey>,
    failures: broadcast::Sender<Failed>,
}

/// A failed run, which is retried.
#[derive(Clone, Debug)]
pub struct Failed {
    /// Chat of the run.
    pub chat: ChatKey,
    /// Reason of the failure.
    pub error: String,
}

/// Pending turns by chat. Each chat in here is worked on, or announced.
type Waiting = HashMap<ChatKey, VecDeque<Entry>>;

#[derive(Clone)]
struct Entry {
    number: u64,
    turn: Turn,
}

/// Announced chats, which have pending turns.
pub struct Ready(mpsc::UnboundedReceiver<ChatKey>);

impl LocalQueue {
    /// Opens the queue of a data directory with the turns of an earlier process. Their chats wait in [`Ready`] for
    /// [`LocalQueue::run`].
    pub fn open(data_dir: &Path, clock: Clock) -> anyhow::Result<(Self, Ready)> {
        let path = data_dir.join(files::QUEUE[0]);
        let cannot = |what: &str| {
            format!(
                "cannot {what} the queue of turns, {} (if it is damaged, move queue.db, queue.db-wal and queue.db-shm away and \
                 start again; messages that waited in it are answered with the next one of their chat)",
                path.display()
            )
        };
        let stored = opened(&path).with_context(|| cannot("open"))?;
        let turns = turns_in(&stored).with_context(|| cannot("read"))?;
        let (ready, receiver) = mpsc::unbounded_channel();
        let (failures, _) = broadcast::channel(QUEUED_FAILURES);
        let inner = Inner { stored: Mutex::new(stored), waiting: Mutex::default(), clock, ready, failures };
        let queue = Self(Arc::new(inner));
        for entry in turns {
            queue.push(entry);
        }
        Ok((queue, Ready(receiver)))
    }

    /// Returns the chats that have pending turns.
    pub fn pending(&self) -> Vec<ChatKey> {
        self.waiting().keys().cloned().collect()
    }

    /// Subscribes to failed runs.
    pub fn failures(&self) -> broadcast::Receiver<Failed> {
        self.0.failures.subscribe()
    }

    /// Runs turns with `agent` until the process ends.
    pub async fn run(self, agent: Agent, Ready(mut ready): Ready) {
        let runs = Arc::new(Semaphore::new(MAX_RUNS));
        // Ends its tasks when it is dropped.
        let mut chats = JoinSet::new();
        while let Some(chat) = ready.recv().await {
            while chats.try_join_next().is_some() {}
            let (queue, agent, runs) = (self.clone(), agent.clone(), Arc::clone(&runs));
            let span = telemetry::of_chat(&chat);
            chats.spawn(async move { queue.work_on(&chat, &agent, &runs).await }.instrument(span));
        }
    }

    /// Runs the turns of one chat until none is pending.
    async fn work_on(&self, chat: &ChatKey, agent: &Agent, runs: &Semaphore) {
        // Attempts of this batch, or of the rest of it, counted as in SQS.
        let mut attempts = 0;
        loop {
            let batch: Vec<Entry> = {
                let mut chats = self.waiting();
                let Some(waiting) = chats.get_mut(chat) else { return };
                if waiting.is_empty() {
                    chats.remove(chat);
                    return;
                }
                waiting.iter().cloned().collect()
            };
            let named: Vec<SortKey> = batch.iter().map(|entry| entry.turn.from.clone()).collect();
            agent.settle(batch.iter().filter_map(|entry| entry.turn.at).max()).await;
            let Ok(permit) = runs.acquire().await else { return };
            // On a task, so that a panic fails this turn only.
            let mut run = JoinSet::new();
            run.spawn({
                let (agent, chat) = (agent.clone(), chat.clone());
                async move { agent.run(&chat, &named).await }.in_current_span()
            });
            let Some(run) = run.join_next().await else { return };
            // A chat that waits for a retry does not block others.
            drop(permit);
            let (error, pause, may_be_held) = match run {
                Ok(Ok(())) => {
                    self.done(chat, &batch).await;
                    attempts = 0;
                    continue;
                }
                Ok(Err(undone)) => {
                    attempts += 1;
                    // If the store failed, the release of the chat may have failed, too.
                    let may_be_held = !undone.error.counts() && !undone.error.continues_elsewhere();
                    (undone.to_string(), undone.retry_after(agent.clock.now(), attempts), may_be_held)
                }
                Err(_) => {
                    attempts += 1;
                    ("the run panicked".to_owned(), Attempt(attempts).pause(), true)
                }
            };
            tracing::error!(error, "failed to run a turn; retrying");
            // There may be no listener.
            drop(self.0.failures.send(Failed { chat: chat.clone(), error }));
            agent.clock.sleep(pause).await;
            // Otherwise the chat would wait for the end of the lease, an hour.
            while may_be_held && let Err(error) = agent.history.free(chat).await {
                tracing::error!(%error, "failed to release the chat of a failed run; retrying");
                agent.clock.sleep(pause).await;
            }
        }
    }

    async fn done(&self, chat: &ChatKey, batch: &[Entry]) {
        while let Err(error) = self.delete(batch).await {
            tracing::warn!(error = format!("{error:#}"), "failed to delete finished turns; retrying");
            self.0.clock.sleep(DELETE_AGAIN).await;
        }
        if let Some(waiting) = self.waiting().get_mut(chat) {
            waiting.drain(..batch.len());
        }
    }

    async fn delete(&self, batch: &[Entry]) -> anyhow::Result<()> {
        let (queue, numbers) = (self.clone(), batch.iter().map(|entry| entry.number).collect::<Vec<_>>());
        let deleted = tokio::task::spawn_blocking(move || {
            let mut stored = queue.stored();
            let deletes = stored.transaction()?;
            for number in numbers {
                deletes.prepare_cached("DELETE FROM turns WHERE number = ?1")?.execute([number])?;
            }
            deletes.commit()
        });
        Ok(deleted.await??)
    }

    fn push(&self, entry: Entry) {
        let mut waiting = self.waiting();
        let chat = entry.turn.chat.clone();
        let is_new = !waiting.contains_key(&chat);
        waiting.entry(chat.clone()).or_default().push_back(entry);
        if is_new {
            // The receiver lives as long as the program.
            drop(self.0.ready.send(chat));
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stored(&self) -> MutexGuard<'_, Connection> {
        self.0.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a turn, and announces its chat. Returns its number, larger than that of every earlier turn.
    pub async fn send(&self, turn: &Turn) -> Result<u64, QueueError> {
        let (queue, turn) = (self.clone(), turn.clone());
        // Ends even if the caller hangs up.
        let sent = tokio::task::spawn_blocking(move || queue.store(turn)).await;
        sent.map_err(anyhow::Error::from)
            .flatten()
            .map_err(|error| QueueError { reason: format!("{error:#}") })
    }

    fn store(&self, turn: Turn) -> anyhow::Result<u64> {
        let json = serde_json::to_string(&turn)?;
        // Kept until the turn is pending, for the order of the numbers.
        let stored = self.stored();
        stored.prepare_cached("INSERT INTO turns (turn) VALUES (?1)")?.execute([json])?;
        let number = stored.last_insert_rowid().cast_unsigned();
        self.push(Entry { number, turn });
        Ok(number)
    }
}

impl TurnQueue for LocalQueue {
    fn enqueue<'a>(&'a self, turn: &'a Turn) -> BoxFuture<'a, Result<(), QueueError>> {
        Box::pin(async move { self.send(turn).await.map(drop) })
    }
}

/// Opens the database. Each commit is written to the disk, which is `SQLite`'s default.
fn opened(path: &Path) -> rusqlite::Result<Connection> {
    let stored = Connection::open(path)?;
    stored.pragma_update(None, "journal_mode", "WAL")?;
    // Deleted rows leave no text in the file, however the program was built.
    stored.pragma_update(None, "secure_delete", true)?;
    // A number is never used again.
    stored.execute_batch(
        "CREATE TABLE IF NOT EXISTS turns (number INTEGER PRIMARY KEY AUTOINCREMENT, turn TEXT NOT NULL)",
    )?;
    Ok(stored)
}

fn turns_in(stored: &Connection) -> anyhow::Result<Vec<Entry>> {
    let mut query = stored.prepare("SELECT number, turn FROM turns ORDER BY number")?;
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
    rows.map(|row| {
        let (number, turn) = row?;
        let turn = serde_json::from_str(&turn).with_context(|| format!("turn {number} is invalid"))?;
        Ok(Entry { number, turn })
    })
    .collect()
}

#[cfg(test)]
mod tests;
