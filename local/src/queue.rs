//! The in-process form of the FIFO queue, with SQS's promises: the turns of one chat in order and one at a time, chats
//! side by side, each at least once, and a deduplication id that repeats within five minutes is dropped. A turn is stored
//! before it is taken, so what was pending at a crash runs after the restart.
//!
//! ```json
//! {"pk": "turns", "sk": "00000000000000000012", "turn": "{\"chat\":\"telegram:chat:42\",\"from\":\"1763…#…07\"}"}
//! ```

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use annals_agent::{Agent, Attempt};
use annals_shared::chat_key::ChatKey;
use annals_shared::clock::Clock;
use annals_shared::queue::{QueueError, Turn, TurnQueue, deduplication_id};
use annals_shared::sort_key::{SortKey, Timestamp};
use annals_shared::telemetry;
use anyhow::Context;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use futures::future::BoxFuture;
use tokio::sync::{Semaphore, broadcast, mpsc};
use tracing::Instrument;

use crate::said::said;
use crate::stores::QUEUE_TABLE;

/// How many chats are answered at once.
const MAX_RUNS: usize = 64;

/// How long a deduplication id is remembered: SQS's time.
const DEDUPLICATED_FOR: Duration = Duration::from_mins(5);

/// How many failures a slow listener finds.
const KEPT_FAILURES: usize = 16;

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

/// A run that failed, and is tried again.
#[derive(Clone, Debug)]
pub struct Failed {
    /// Whose.
    pub chat: ChatKey,
    /// Why.
    pub error: String,
}

#[derive(Default)]
struct State {
    /// The number of the next turn.
    next: u64,
    /// What waits, by chat. A chat in here is being worked on, or is about to be.
    waiting: HashMap<ChatKey, VecDeque<Entry>>,
    /// The deduplication ids of the last five minutes, and when each came.
    recent: HashMap<String, Timestamp>,
}

#[derive(Clone)]
struct Entry {
    number: u64,
    turn: Turn,
}

/// Chats that have something to do.
pub struct Ready(mpsc::UnboundedReceiver<ChatKey>);

impl LocalQueue {
    /// The queue with what an earlier process left in it; its chats wait in [`Ready`] for [`LocalQueue::run`].
    pub async fn open(client: Client, clock: Clock) -> anyhow::Result<(Self, Ready)> {
        let (ready, receiver) = mpsc::unbounded_channel();
        let (failures, _) = broadcast::channel(KEPT_FAILURES);
        let queue =
            Self { client, inner: Arc::new(Inner { state: Mutex::default(), clock, ready, failures }) };
        for (number, turn) in queue.stored().await? {
            queue.push(Entry { number, turn });
        }
        Ok((queue, Ready(receiver)))
    }

    /// The chats that have something to do.
    pub fn pending(&self) -> Vec<ChatKey> {
        self.state().waiting.keys().cloned().collect()
    }

    /// The runs that fail from now on.
    pub fn failures(&self) -> broadcast::Receiver<Failed> {
        self.inner.failures.subscribe()
    }

    /// Hands turns to `agent` until the process ends.
    pub async fn run(self, agent: Agent, Ready(mut ready): Ready) {
        let runs = Arc::new(Semaphore::new(MAX_RUNS));
        while let Some(chat) = ready.recv().await {
            let (queue, agent, runs) = (self.clone(), agent.clone(), Arc::clone(&runs));
            let span = telemetry::of_chat(&chat);
            tokio::spawn(async move { queue.work_on(&chat, &agent, &runs).await }.instrument(span));
        }
    }

    /// Answers one chat until nothing of it waits.
    async fn work_on(&self, chat: &ChatKey, agent: &Agent, runs: &Semaphore) {
        // As SQS counts: how often this batch, or what is left of it, was handed out.
        let mut deliveries = 0;
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
            // On a task of its own, so that a panic is a failure of this turn and not the end of the chat.
            let run = tokio::spawn({
                let (agent, chat) = (agent.clone(), chat.clone());
                async move { agent.run_all(&chat, &named).await }.in_current_span()
            });
            let run = run.await;
            // A chat that waits for its next try keeps no other from running.
            drop(permit);
            let (error, pause) = match run {
                Ok(Ok(())) => {
                    self.done(chat, &batch).await;
                    deliveries = 0;
                    continue;
                }
                Ok(Err(undone)) => {
                    deliveries += 1;
                    (undone.to_string(), undone.retry_after(agent.clock.now(), deliveries))
                }
                Err(_) => {
                    if let Err(error) = agent.history.free(chat).await {
                        tracing::error!(%error, "a chat stays claimed by a run that panicked");
                    }
                    deliveries += 1;
                    ("the run panicked".to_owned(), Attempt(deliveries).pause())
                }
            };
            tracing::error!(error, "a turn is not done; it is tried again");
            // Nobody may listen.
            drop(self.inner.failures.send(Failed { chat: chat.clone(), error }));
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

impl LocalQueue {
    /// Stores a turn that is sent under `id`, unless one was in the last five minutes, done or not.
    pub async fn send(&self, turn: &Turn, id: &str) -> Result<(), QueueError> {
        let now = self.inner.clock.now();
        let number = {
            let mut state = self.state();
            state.recent.retain(|_, at| now.since(*at) < DEDUPLICATED_FOR);
            if state.recent.contains_key(id) {
                return Ok(());
            }
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
            .map_err(|error| failed(said(&error)))?;
        self.state().recent.insert(id.to_owned(), now);
        self.push(Entry { number, turn: turn.clone() });
        Ok(())
    }
}

impl TurnQueue for LocalQueue {
    fn enqueue<'a>(&'a self, turn: &'a Turn) -> BoxFuture<'a, Result<(), QueueError>> {
        Box::pin(async move { self.send(turn, &deduplication_id()).await })
    }
}

#[cfg(test)]
mod tests {
    use annals_shared::config::{Env, ViewConfig, retention};
    use annals_shared::delivery::Deliverer;
    use annals_shared::history::History;
    use annals_shared::live::Live;
    use annals_shared::message::{Part, Role};
    use annals_shared::metrics::Metrics;
    use annals_shared::model::Model;
    use annals_shared::record::{Channel, Draft, Kind};
    use annals_shared::sort_key::MessageId;

    use super::*;
    use crate::stores::{BUCKET, Stores, TABLE};

    fn chat(id: i64) -> ChatKey {
        ChatKey::telegram(id, None)
    }

    fn key(number: u64) -> SortKey {
        SortKey::message(Timestamp::from_secs(1_763_765_920), &MessageId::number(number))
    }

    async fn enqueue(queue: &LocalQueue, chat_id: i64, number: u64) {
        queue.enqueue(&Turn { chat: chat(chat_id), from: key(number), at: None }).await.unwrap();
    }

    /// The numbers and messages of what waits for a chat, in order.
    fn waiting(queue: &LocalQueue, chat_id: i64) -> Vec<(u64, SortKey)> {
        let state = queue.state();
        let entries = state.waiting.get(&chat(chat_id)).into_iter().flatten();
        entries.map(|entry| (entry.number, entry.turn.from.clone())).collect()
    }

    #[tokio::test]
    async fn what_waits_is_there_in_its_order_behind_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let client = Stores::open(dir.path()).await.unwrap().dynamodb;
        let (queue, _) = LocalQueue::open(client.clone(), Clock::system()).await.unwrap();
        // More than nine, and not in the order of the messages: a later turn may be of an older one.
        for number in (1..=12).rev() {
            enqueue(&queue, 1, number).await;
        }
        enqueue(&queue, 2, 50).await;
        enqueue(&queue, 1, 13).await;
        let (first, second) = (waiting(&queue, 1), waiting(&queue, 2));
        assert_eq!((first.len(), second.len()), (13, 1));

        let (again, Ready(mut ready)) = LocalQueue::open(client.clone(), Clock::system()).await.unwrap();
        assert_eq!((waiting(&again, 1), waiting(&again, 2)), (first.clone(), second));
        let announced = [ready.try_recv().unwrap(), ready.try_recv().unwrap()];
        assert_eq!(announced, [chat(1), chat(2)], "each once, the one that has waited longest first");
        assert!(ready.try_recv().is_err());

        // What is taken from now on stands behind, and in place of nothing.
        enqueue(&again, 1, 99).await;
        assert_eq!(waiting(&again, 1).last(), Some(&(14, key(99))));
        let (again, _) = LocalQueue::open(client, Clock::system()).await.unwrap();
        assert_eq!(waiting(&again, 1)[..13], first);
        assert_eq!(waiting(&again, 1).len(), 14);
    }

    #[tokio::test]
    async fn what_is_done_is_gone_and_what_came_meanwhile_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let client = Stores::open(dir.path()).await.unwrap().dynamodb;
        let (queue, _) = LocalQueue::open(client.clone(), Clock::system()).await.unwrap();
        for number in 1..=3 {
            enqueue(&queue, 1, number).await;
        }
        let batch: Vec<Entry> = queue.state().waiting[&chat(1)].iter().cloned().collect();
        enqueue(&queue, 1, 4).await;
        enqueue(&queue, 2, 5).await;
        queue.done(&chat(1), &batch).await;
        let (again, _) = LocalQueue::open(client, Clock::system()).await.unwrap();
        for queue in [&queue, &again] {
            assert_eq!(waiting(queue, 1), [(3, key(4))]);
            assert_eq!(waiting(queue, 2), [(4, key(5))]);
        }
    }

    /// The whole way: what an earlier process left is answered by the next, and leaves the queue.
    #[tokio::test]
    async fn what_an_earlier_process_left_is_answered() {
        let dir = tempfile::tempdir().unwrap();
        let stores = Stores::open(dir.path()).await.unwrap();
        let clock = Clock::manual(Timestamp::from_secs(1_763_766_000));
        let env = Env::new(&|_| None);
        let history = History::new(
            stores.dynamodb.clone(),
            TABLE.into(),
            stores.s3,
            BUCKET.into(),
            clock.clone(),
            retention(env).unwrap(),
        );
        let (queue, _) = LocalQueue::open(stores.dynamodb.clone(), clock.clone()).await.unwrap();
        for (chat_id, number) in [(1, 1), (2, 2), (1, 3)] {
            let draft = Draft {
                chat: chat(chat_id),
                channel: Channel::Telegram,
                chat_id: chat_id.to_string(),
                user_id: chat_id.to_string(),
                message_id: MessageId::number(number),
                ts: key(number).ts(),
                form_ts: None,
                role: Role::User,
                kind: Kind::Normal,
                parts: vec![Part::text(format!("message {number}"))],
                metadata: serde_json::Map::new(),
                album: None,
                asks: true,
                opens_session: false,
                person: None,
            };
            let base = history.append(&draft).await.unwrap().base;
            queue.enqueue(&Turn { chat: chat(chat_id), from: base, at: None }).await.unwrap();
        }
        drop(queue);

        let (queue, ready) = LocalQueue::open(stores.dynamodb.clone(), clock.clone()).await.unwrap();
        let agent = Agent {
            history: history.clone(),
            model: Model::Echo,
            deliverer: Deliverer::default(),
            surroundings: None,
            servers: None,
            memory: annals_shared::config::MemoryConfig::default(),
            view: ViewConfig::from_env(env).unwrap(),
            system_prompt: None,
            agent_id: "annals".into(),
            metrics: Metrics::default(),
            live: Live::default(),
            stream_replies: false,
            lease: Duration::from_mins(5),
            quiet: Duration::ZERO,
            clock: clock.clone(),
        };
        let running = tokio::spawn(queue.clone().run(agent, ready));
        let emptied = async {
            while !queue.pending().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), emptied).await.unwrap();
        running.abort();
        for (chat_id, texts) in
            [(1, vec!["message 1", "message 3", "message 1\nmessage 3"]), (2, vec!["message 2", "message 2"])]
        {
            let records = history.range(&chat(chat_id), None).await.unwrap();
            let said: Vec<String> = records.iter().map(|record| record.message.plain_text()).collect();
            assert_eq!(said, texts);
        }
        let (queue, _) = LocalQueue::open(stores.dynamodb, Clock::system()).await.unwrap();
        assert_eq!(queue.pending(), []);
    }
}
