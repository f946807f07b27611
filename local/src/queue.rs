//! The FIFO queue inside the process, with the guarantees of SQS: the turns of one chat run in order and one at a time, chats run
//! in parallel, and each turn runs at least once. A turn is stored before it is accepted, so turns that were pending at a crash run
//! after the restart.
//!
//! ```json
//! {"pk": "turns", "sk": "00000000000000000012", "turn": "{\"chat\":\"telegram:chat:42\",\"from\":\"1763…#…07\"}"}
//! ```

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use annals_agent::{Agent, Attempt};
use annals_core::chat_key::ChatKey;
use annals_core::sort_key::{SortKey, Timestamp};
use annals_io::clock::Clock;
use annals_runtime::telemetry;
use annals_store::queue::{QueueError, Turn, TurnQueue};
use anyhow::Context;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, DeleteRequest, WriteRequest};
use futures::future::BoxFuture;
use tokio::sync::{Semaphore, broadcast, mpsc};
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::errors::aws_message;
use crate::stores::QUEUE_TABLE;

/// Largest number of chats that are answered at a time, so that a start after a long outage does not read all contexts at once.
const MAX_RUNS: usize = 1_000;

/// Largest number of writes in one request to DynamoDB.
const MAX_BATCH: usize = 25;

/// Pause before finished turns are deleted again.
const DELETE_AGAIN: Duration = Duration::from_secs(1);

/// Number of failures that wait for a slow listener.
const QUEUED_FAILURES: usize = 16;

/// The queue of one process.
#[derive(Clone)]
pub struct LocalQueue {
    client: Client,
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
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

#[derive(Default)]
struct State {
    /// Number of the next turn.
    next: u64,
    /// Pending turns by chat. Each chat in here is worked on, or announced.
    waiting: HashMap<ChatKey, VecDeque<Entry>>,
}

/// Receipt of a stored turn.
#[derive(Clone, Copy, Debug)]
pub struct Receipt {
    /// The time at which it was sent.
    pub at: Timestamp,
    /// Its number in this process.
    pub number: u64,
}

#[derive(Clone)]
struct Entry {
    number: u64,
    turn: Turn,
}

/// Announced chats, which have pending turns.
pub struct Ready(mpsc::UnboundedReceiver<ChatKey>);

impl LocalQueue {
    /// Opens the queue with the turns of an earlier process. Their chats wait in [`Ready`] for [`LocalQueue::run`].
    pub async fn open(client: Client, clock: Clock) -> anyhow::Result<(Self, Ready)> {
        let (ready, receiver) = mpsc::unbounded_channel();
        let (failures, _) = broadcast::channel(QUEUED_FAILURES);
        let queue =
            Self { client, inner: Arc::new(Inner { state: Mutex::default(), clock, ready, failures }) };
        for (number, turn) in queue.stored().await? {
            queue.push(Entry { number, turn });
        }
        Ok((queue, Ready(receiver)))
    }

    /// Returns the chats that have pending turns.
    pub fn pending(&self) -> Vec<ChatKey> {
        self.state().waiting.keys().cloned().collect()
    }

    /// Returns the time by the queue's clock.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// Subscribes to failed runs.
    pub fn failures(&self) -> broadcast::Receiver<Failed> {
        self.inner.failures.subscribe()
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
                let mut state = self.state();
                let Some(waiting) = state.waiting.get_mut(chat) else { return };
                if waiting.is_empty() {
                    state.waiting.remove(chat);
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
                async move { agent.run_all(&chat, &named).await }.in_current_span()
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
            drop(self.inner.failures.send(Failed { chat: chat.clone(), error }));
            agent.clock.sleep(pause).await;
            // Otherwise the chat would wait for the end of the lease, an hour.
            while may_be_held && let Err(error) = agent.history.free(chat).await {
                tracing::error!(%error, "failed to release the chat of a failed run; retrying");
                agent.clock.sleep(pause).await;
            }
        }
    }

    async fn done(&self, chat: &ChatKey, batch: &[Entry]) {
        for entries in batch.chunks(MAX_BATCH) {
            while let Err(error) = self.delete(entries).await {
                tracing::warn!(%error, "failed to delete finished turns; retrying");
                self.inner.clock.sleep(DELETE_AGAIN).await;
            }
        }
        if let Some(waiting) = self.state().waiting.get_mut(chat) {
            waiting.drain(..batch.len());
        }
    }

    fn push(&self, entry: Entry) {
        let mut state = self.state();
        state.next = state.next.max(entry.number + 1);
        let chat = entry.turn.chat.clone();
        let is_new = !state.waiting.contains_key(&chat);
        state.waiting.entry(chat.clone()).or_default().push_back(entry);
        if is_new {
            // The receiver lives as long as the program.
            drop(self.inner.ready.send(chat));
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn stored(&self) -> anyhow::Result<Vec<(u64, Turn)>> {
        let mut turns = Vec::new();
        let mut pages = self
            .client
            .query()
            .table_name(QUEUE_TABLE)
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", AttributeValue::S("turns".into()))
            .into_paginator()
            .send();
        while let Some(page) = pages.next().await {
            for item in page.context("failed to read the queue")?.items.unwrap_or_default() {
                let text = |name: &str| item.get(name).and_then(|value| value.as_s().ok()).cloned();
                let number = text("sk")
                    .and_then(|sk| sk.parse().ok())
                    .context("the queue has an entry without a number")?;
                let turn = text("turn").context("the queue has an entry without a turn")?;
                turns.push((number, serde_json::from_str(&turn).context("the queue has an invalid turn")?));
            }
        }
        Ok(turns)
    }

    async fn delete(&self, entries: &[Entry]) -> anyhow::Result<()> {
        let deletes = entries.iter().map(|entry| {
            let delete = DeleteRequest::builder()
                .key("pk", AttributeValue::S("turns".into()))
                .key("sk", AttributeValue::S(format!("{:020}", entry.number)))
                .build()?;
            Ok(WriteRequest::builder().delete_request(delete).build())
        });
        let deletes = deletes.collect::<anyhow::Result<Vec<_>>>()?;
        self.client.batch_write_item().request_items(QUEUE_TABLE, deletes).send().await?;
        Ok(())
    }

    /// Stores a turn, and announces its chat. After an error too, since the turn may be stored all the same: it would wait for the next
    /// start.
    pub async fn send(&self, turn: &Turn) -> Result<Receipt, QueueError> {
        let receipt = {
            let mut state = self.state();
            state.next += 1;
            Receipt { at: self.inner.clock.now(), number: state.next - 1 }
        };
        let failed = |reason: String| QueueError { reason };
        let json = serde_json::to_string(turn).map_err(|error| failed(error.to_string()))?;
        let put = self
            .client
            .put_item()
            .table_name(QUEUE_TABLE)
            .item("pk", AttributeValue::S("turns".into()))
            .item("sk", AttributeValue::S(format!("{:020}", receipt.number)))
            .item("turn", AttributeValue::S(json));
        let (queue, entry) = (self.clone(), Entry { number: receipt.number, turn: turn.clone() });
        // On a task, which ends even if the caller hangs up.
        let sent = tokio::spawn(
            async move {
                let sent = put.send().await;
                queue.push(entry);
                sent
            }
            .in_current_span(),
        );
        match sent.await {
            Ok(Ok(_)) => Ok(receipt),
            Ok(Err(error)) => Err(failed(aws_message(&error))),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

impl TurnQueue for LocalQueue {
    fn enqueue<'a>(&'a self, turn: &'a Turn) -> BoxFuture<'a, Result<(), QueueError>> {
        Box::pin(async move { self.send(turn).await.map(drop) })
    }
}

#[cfg(test)]
mod tests;
