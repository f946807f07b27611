//! The in-process form of the FIFO queue, with its promises: the turns of one chat in order and one at a time, chats
//! side by side, each at least once. A turn is stored before it is taken, so what was pending at a crash runs after
//! the restart.
//!
//! ```json
//! {"pk": "turns", "sk": "00000000000000000012", "turn": "{\"chat\":\"telegram:chat:42\",\"from\":\"1763…#…07\"}"}
//! ```

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use annals_agent::{Agent, Delivery};
use annals_shared::chat_key::ChatKey;
use annals_shared::queue::{QueueError, Turn, TurnQueue};
use anyhow::Context;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::DisplayErrorContext;
use aws_sdk_dynamodb::types::AttributeValue;
use futures::future::BoxFuture;
use tokio::sync::{Semaphore, mpsc};

use crate::stores::QUEUE_TABLE;

/// How many chats are answered at once.
const MAX_RUNS: usize = 64;

/// The queue of one process.
#[derive(Clone)]
pub struct LocalQueue {
    client: Client,
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    ready: mpsc::UnboundedSender<ChatKey>,
}

#[derive(Default)]
struct State {
    /// The number of the next turn.
    next: u64,
    /// What waits, by chat. A chat in here is being worked on, or is about to be.
    waiting: HashMap<ChatKey, VecDeque<Entry>>,
}

#[derive(Clone)]
struct Entry {
    number: u64,
    turn: Turn,
    deliveries: u32,
}

/// Chats that have something to do.
pub struct Ready(mpsc::UnboundedReceiver<ChatKey>);

impl LocalQueue {
    /// The queue with what an earlier process left in it; its chats wait in [`Ready`] for [`LocalQueue::run`].
    pub async fn open(client: Client) -> anyhow::Result<(Self, Ready)> {
        let (ready, receiver) = mpsc::unbounded_channel();
        let queue = Self { client, inner: Arc::new(Inner { state: Mutex::default(), ready }) };
        for (number, turn) in queue.stored().await? {
            queue.push(Entry { number, turn, deliveries: 0 });
        }
        Ok((queue, Ready(receiver)))
    }

    /// The chats that have something to do.
    pub fn pending(&self) -> Vec<ChatKey> {
        self.state().waiting.keys().cloned().collect()
    }

    /// Hands turns to `agent` until the process ends.
    pub async fn run(self, agent: Agent, Ready(mut ready): Ready) {
        let runs = Arc::new(Semaphore::new(MAX_RUNS));
        while let Some(chat) = ready.recv().await {
            let (queue, agent, runs) = (self.clone(), agent.clone(), Arc::clone(&runs));
            tokio::spawn(async move { queue.work_on(&chat, &agent, &runs).await });
        }
    }

    /// Answers one chat until nothing of it waits.
    async fn work_on(&self, chat: &ChatKey, agent: &Agent, runs: &Semaphore) {
        loop {
            let batch: Vec<Entry> = {
                let mut state = self.state();
                let Some(waiting) = state.waiting.get_mut(chat) else { return };
                if waiting.is_empty() {
                    state.waiting.remove(chat);
                    return;
                }
                for entry in waiting.iter_mut() {
                    entry.deliveries += 1;
                }
                waiting.iter().cloned().collect()
            };
            let from = batch.iter().map(|entry| &entry.turn.from).min();
            let delivery = Delivery(batch.iter().map(|entry| entry.deliveries).max().unwrap_or(1));
            let Ok(permit) = runs.acquire().await else { return };
            // On a task of its own, so that a panic is a failure of this turn and not the end of the chat.
            let run = tokio::spawn({
                let (agent, chat, from) = (agent.clone(), chat.clone(), from.cloned());
                async move { agent.run(&chat, from.as_ref(), delivery).await }
            });
            let run = run.await;
            // A chat that waits for its next try keeps no other from running.
            drop(permit);
            let (error, pause) = match run {
                Ok(Ok(())) => {
                    self.done(chat, &batch).await;
                    continue;
                }
                Ok(Err(error)) => (error.to_string(), error.retry_after(agent.clock.now(), delivery)),
                Err(_) => {
                    if let Err(error) = agent.history.free(chat).await {
                        tracing::error!(%error, "a chat stays claimed by a run that panicked");
                    }
                    ("the run panicked".to_owned(), delivery.pause())
                }
            };
            tracing::error!(chat = %chat.session_id(), error, ?delivery, "a turn is not done; it is tried again");
            agent.clock.sleep(pause).await;
        }
    }

    async fn done(&self, chat: &ChatKey, batch: &[Entry]) {
        for entry in batch {
            if let Err(error) = self.delete(entry.number).await {
                tracing::warn!(%error, "a finished turn will run again, and do nothing");
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
            // Its receiver lives as long as the program; before that, what is sent waits in the channel.
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
            for item in page.context("cannot read the queue")?.items.unwrap_or_default() {
                let text = |name: &str| item.get(name).and_then(|value| value.as_s().ok()).cloned();
                let number =
                    text("sk").and_then(|sk| sk.parse().ok()).context("the queue holds no number")?;
                let turn = text("turn").context("the queue holds no turn")?;
                turns.push((
                    number,
                    serde_json::from_str(&turn).context("the queue holds an unreadable turn")?,
                ));
            }
        }
        Ok(turns)
    }

    async fn delete(&self, number: u64) -> anyhow::Result<()> {
        self.client
            .delete_item()
            .table_name(QUEUE_TABLE)
            .key("pk", AttributeValue::S("turns".into()))
            .key("sk", AttributeValue::S(format!("{number:020}")))
            .send()
            .await?;
        Ok(())
    }
}

impl TurnQueue for LocalQueue {
    fn enqueue<'a>(&'a self, turn: &'a Turn, _: &'a str) -> BoxFuture<'a, Result<(), QueueError>> {
        Box::pin(async move {
            let number = {
                let mut state = self.state();
                state.next += 1;
                state.next - 1
            };
            let failed = |reason: String| QueueError { reason };
            let json = serde_json::to_string(turn).map_err(|error| failed(error.to_string()))?;
            self.client
                .put_item()
                .table_name(QUEUE_TABLE)
                .item("pk", AttributeValue::S("turns".into()))
                .item("sk", AttributeValue::S(format!("{number:020}")))
                .item("turn", AttributeValue::S(json))
                .send()
                .await
                .map_err(|error| failed(DisplayErrorContext(error).to_string()))?;
            self.push(Entry { number, turn: turn.clone(), deliveries: 0 });
            Ok(())
        })
    }
}
