//! Batches of the queue: failed turns are returned, and delay no others.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use annals_agent::{Agent, batch};
use annals_aws::connector::Https;
use annals_channel::delivery::{DeliveryError, Outbox, OutboxEntry};
use annals_core::chat_key::ChatKey;
use annals_core::draft::Draft;
use annals_core::message::Role;
use annals_engine::delivery::Deliverer;
use annals_store::queue::Sqs;
use annals_test_support::http::serve;
use axum::Router;
use axum::http::HeaderMap;
use axum::routing::post;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::app::{a_while, wait_until};
use crate::turns::assert_answered_once;
use crate::world::{World, chat, claim, message};

/// An outbox that accepts all texts but two: it is unavailable for one, and panics on the other.
struct FaultyOutbox;

const SHUT: usize = 1;
const BROKEN: usize = 2;

impl Outbox for FaultyOutbox {
    fn post<'a>(&'a self, _: &'a str, entry: OutboxEntry) -> BoxFuture<'a, Result<(), DeliveryError>> {
        Box::pin(async move {
            // The texts of all messages that the reply answers, one per line.
            match entry.text.lines().next().unwrap_or_default() {
                "shut" => Err(DeliveryError::Unavailable { reason: "shut".into() }),
                "broken" => panic!("on purpose"),
                _ => Ok(()),
            }
        })
    }
}

/// Starts an emulator of the queue; returns it with the delay in seconds of each message's next delivery, by receipt
/// handle.
async fn queue(world: &World) -> (Sqs, Arc<Mutex<BTreeMap<String, u64>>>) {
    let pauses: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    let noted = Arc::clone(&pauses);
    let router = Router::new().fallback(post(async move |headers: HeaderMap, body: String| {
        assert_eq!(headers["x-amz-target"], "AmazonSQS.ChangeMessageVisibility");
        let body: Value = serde_json::from_str(&body).unwrap();
        let receipt = body["ReceiptHandle"].as_str().unwrap().to_owned();
        noted.lock().unwrap().insert(receipt, body["VisibilityTimeout"].as_u64().unwrap());
        "{}"
    }));
    let url = serve(router).await;
    let aws = world.stores.aws.to_builder().endpoint_url(&url).http_client(Https::new()).build();
    (Sqs::new(&aws, format!("{url}/turns.fifo")), pauses)
}

struct Bench {
    world: World,
    agent: Agent,
    queue: Sqs,
    pauses: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Bench {
    async fn new() -> Self {
        Self::on(World::new().await).await
    }

    async fn on(world: World) -> Self {
        let deliverer = Deliverer::new([], Some(Arc::new(FaultyOutbox)));
        let agent = Agent { deliverer, ..world.agent() };
        let (queue, pauses) = queue(&world).await;
        Self { world, agent, queue, pauses }
    }

    /// Appends a message in the chat `number` and returns its turn in the queue.
    async fn say(&self, number: usize, id: u64, text: &str) -> Value {
        let draft = Draft { asks: true, ..message(&chat(number), id, id.cast_signed(), text) };
        let from = self.world.append(&draft).await.base;
        let body = json!({"chat": chat(number), "from": from}).to_string();
        queued(&format!("{number}-{id}"), &chat(number), &body)
    }

    /// Handles the batch. Returns the ids of the failed messages, in order, and the delays by receipt handle.
    async fn handle(&self, records: &[Value]) -> (Vec<String>, BTreeMap<String, u64>) {
        let event = serde_json::from_value(json!({"Records": records})).unwrap();
        let response = batch::handle(&self.agent, &self.queue, event).await;
        let mut failed: Vec<String> =
            response.batch_item_failures.into_iter().map(|failure| failure.item_identifier).collect();
        failed.sort();
        (failed, std::mem::take(&mut *self.pauses.lock().unwrap()))
    }

    async fn replies(&self, number: usize) -> Vec<String> {
        let records = self.world.history.range(&chat(number), None).await.unwrap();
        let replies = records.iter().filter(|record| record.role() == Role::Assistant);
        replies.map(|reply| reply.message.plain_text()).collect()
    }
}

fn queued(id: &str, chat: &ChatKey, body: &str) -> Value {
    json!({
        "messageId": id, "receiptHandle": format!("receipt-{id}"), "body": body, "eventSource": "aws:sqs",
        "attributes": {"ApproximateReceiveCount": "1", "MessageGroupId": chat.session_id()},
    })
}

#[tokio::test]
async fn failed_turns_are_returned_to_the_queue_and_the_others_are_done() {
    let bench = Bench::new().await;
    let records = [
        bench.say(0, 1, "hello").await,
        bench.say(SHUT, 1, "shut").await,
        bench.say(BROKEN, 1, "broken").await,
        bench.say(3, 1, "good day").await,
        // It follows a message that fails, and is of the same group.
        bench.say(SHUT, 2, "shut").await,
        // An invalid turn delays its group as little as possible.
        queued("poison", &chat(4), r#"{"chat": "nonsense"}"#),
        bench.say(4, 1, "good night").await,
    ];
    let (failed, pauses) = bench.handle(&records).await;
    let expected = ["1-1", "1-2", "2-1", "poison"];
    assert_eq!(failed, expected, "no message of a group is acknowledged after one that failed");
    let pause_of = |id| (format!("receipt-{id}"), if id == "poison" { 0 } else { 5 });
    assert_eq!(pauses, expected.map(pause_of).into());
    for (chat, reply) in [(0, "hello"), (3, "good day"), (4, "good night")] {
        assert_eq!(bench.replies(chat).await, [reply]);
    }
}

/// Returns the turn as the streaming function queues it, received for the `count`th time. That function runs its turns
/// itself.
fn net(message: &Value, count: &str) -> Value {
    let mut message = message.clone();
    let mut body: Value = serde_json::from_str(message["body"].as_str().unwrap()).unwrap();
    body["net"] = true.into();
    message["body"] = body.to_string().into();
    message["attributes"]["ApproximateReceiveCount"] = count.into();
    message
}

#[tokio::test]
async fn the_queue_runs_a_turn_only_if_the_streaming_function_has_not() {
    let bench = Bench::new().await;
    let said = bench.say(0, 1, "hello").await;
    let (failed, pauses) = bench.handle(&[net(&said, "1")]).await;
    assert_eq!(failed, ["0-1"], "the streaming function has only just begun");
    assert_eq!(pauses, [("receipt-0-1".to_owned(), 20)].into());
    assert_eq!(bench.replies(0).await, [""; 0]);
    // It is still running, and may fail long before its lease ends.
    let running = claim(&bench.world.history, &chat(0)).await;
    let (failed, pauses) = bench.handle(&[net(&said, "2")]).await;
    assert_eq!((failed.len(), pauses), (1, [("receipt-0-1".to_owned(), 20)].into()));
    bench.world.history.release(&running).await.unwrap();
    let (failed, _) = bench.handle(&[net(&said, "2")]).await;
    assert_eq!((failed, bench.replies(0).await), (Vec::new(), vec!["hello".to_owned()]));

    // If the streaming function has run it, there is nothing to do, and nothing is written.
    let (history, requests) = bench.world.counted();
    let bench = Bench { agent: bench.world.agent_of(&history), ..bench };
    let (failed, _) = bench.handle(&[net(&said, "2")]).await;
    assert_eq!(failed, [""; 0]);
    assert_eq!(requests.take(), 2, "the head and what waits: no claim");
}

/// An outbox that accepts nothing until a test opens it.
#[derive(Default)]
struct Slow {
    begun: AtomicUsize,
    opens: watch::Sender<bool>,
    taken: Mutex<Vec<String>>,
}

impl Outbox for Slow {
    fn post<'a>(&'a self, _: &'a str, entry: OutboxEntry) -> BoxFuture<'a, Result<(), DeliveryError>> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            drop(self.opens.subscribe().wait_for(|is_open| *is_open).await);
            self.taken.lock().unwrap().push(entry.text);
            Ok(())
        })
    }
}

/// The environment runs several turns and outlives each of them: a run whose time is over is dropped in the middle.
#[tokio::test]
async fn a_run_whose_time_is_over_neither_commits_nor_delivers_any_more() {
    for waits_for_model in [true, false] {
        let mut bench = Bench::on(World::hosted(&[]).await).await;
        let said = [bench.say(0, 1, "hello").await];
        let slow = Arc::new(Slow::default());
        bench.world.model().answer_with("hello");
        if waits_for_model {
            bench.world.model().hang();
        }
        let (history, requests) = bench.world.counted();
        let deliverer = Deliverer::new([], Some(slow.clone()));
        bench.agent = Agent {
            deliverer: deliverer.clone(),
            // Shorter than a model's answer may take.
            lease: Duration::from_mins(1),
            ..bench.world.agent_of(&history)
        };
        let time_passes = async {
            if waits_for_model {
                bench.world.model().wait_for(1).await;
            } else {
                wait_until("it is sent", async || slow.begun.load(Ordering::SeqCst) > 0).await;
            }
            bench.world.clock.advance(Duration::from_mins(1));
        };
        let ((failed, _), ()) = tokio::join!(Box::pin(bench.handle(&said)), time_passes);
        assert_eq!(failed, ["0-1"]);
        let before = requests.requests();
        bench.world.model().resume();
        slow.opens.send_replace(true);
        a_while().await;
        assert_eq!((requests.requests(), slow.taken.lock().unwrap().len()), (before, 0), "nothing more");
        let head = bench.world.history.head(&chat(0)).await.unwrap();
        assert_eq!(head.turn.is_some(), !waits_for_model);

        bench.world.clock.advance(Duration::from_secs(1));
        bench.agent = Agent { deliverer, ..bench.world.agent() };
        assert_eq!(bench.handle(&said).await.0, [""; 0]);
        assert_eq!(bench.replies(0).await, ["hello"]);
        assert_eq!(*slow.taken.lock().unwrap(), ["hello"]);
        assert_answered_once(&bench.world.history.range(&chat(0), None).await.unwrap());
    }
}
