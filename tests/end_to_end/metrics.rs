//! The metrics of real turns, in the format that CloudWatch reads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use annals_agent::Agent;
use annals_channel::delivery::{DeliveryError, Outbox, OutboxEntry};
use annals_core::compaction::cut::Why;
use annals_core::draft::Draft;
use annals_core::message::Role;
use annals_core::sort_key::SortKey;
use annals_engine::compaction::Compaction;
use annals_engine::delivery::Deliverer;
use annals_io::metrics::{Metrics, NAMESPACE};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::app::passing;
use crate::world::World;

/// Takes what is sent, or refuses it for good.
struct TestOutbox {
    accepts: bool,
}

impl Outbox for TestOutbox {
    fn post<'a>(&'a self, _: &'a str, _: OutboxEntry) -> BoxFuture<'a, Result<(), DeliveryError>> {
        let refused = || DeliveryError::Refused { reason: "not here".into() };
        Box::pin(async move { self.accepts.then_some(()).ok_or_else(refused) })
    }
}

/// A chat whose ingress and agent count.
struct Counted {
    world: World,
    metrics: Metrics,
}

impl Counted {
    async fn new() -> Self {
        Self { world: World::hosted(&[("KEEP_RECENT", "2")]).await, metrics: Metrics::collected() }
    }

    fn agent(&self, accepts: bool) -> Agent {
        let agent = self.world.agent();
        Agent {
            model: agent.model.with_metrics(self.metrics.clone()),
            deliverer: Deliverer::new([], Some(Arc::new(TestOutbox { accepts }))),
            metrics: self.metrics.clone(),
            ..agent
        }
    }

    async fn hear(&self, id: u64, text: &str) -> SortKey {
        let draft = Draft { asks: true, ..self.world.message(id, id.cast_signed(), text) };
        let ingress = self.world.ingress();
        ingress.with_metrics(self.metrics.clone()).receive(&draft).await.unwrap().base
    }

    /// A run, as time passes; whether it did its work.
    async fn run(&self, from: &SortKey, accepts: bool) -> bool {
        let run = self.world.start(self.agent(accepts), from);
        passing(&self.world.clock, Duration::from_millis(500), run).await.unwrap().is_ok()
    }

    /// Reads the next report, by channel and name; each line is one of the embedded metric format.
    fn told(&self) -> BTreeMap<String, Value> {
        let now = self.world.clock.now();
        let lines = self.metrics.take("annals-t", now);
        assert!(!format!("{lines:?}").contains("text of"), "{lines:?}");
        lines.iter().flat_map(|line| measured(line, now.as_millis())).collect()
    }
}

/// The metrics of a line, each as `name` or `channel name`. Held against the specification:
/// <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>.
fn measured(line: &Value, now: i64) -> Vec<(String, Value)> {
    let members = line.as_object().unwrap();
    let metadata = members["_aws"].as_object().unwrap();
    assert_eq!((metadata.len(), &metadata["Timestamp"]), (2, &json!(now)));
    let [directive] = &metadata["CloudWatchMetrics"].as_array().unwrap()[..] else { panic!("{line}") };
    assert_eq!((directive.as_object().unwrap().len(), &directive["Namespace"]), (3, &json!(NAMESPACE)));
    let channel = members.get("Channel").map(|channel| channel.as_str().unwrap());
    let dimensions =
        if channel.is_some() { json!([["Table"], ["Table", "Channel"]]) } else { json!([["Table"]]) };
    assert_eq!((&directive["Dimensions"], &members["Table"]), (&dimensions, &json!("annals-t")));
    let metrics = directive["Metrics"].as_array().unwrap();
    // Nothing else is told.
    assert_eq!(members.len(), metrics.len() + 2 + usize::from(channel.is_some()), "{line}");
    let prefix = channel.map(|channel| format!("{channel} ")).unwrap_or_default();
    let named = metrics.iter().map(|metric| {
        let (name, unit) = (metric["Name"].as_str().unwrap(), metric["Unit"].as_str().unwrap());
        assert!(["Count", "Milliseconds"].contains(&unit) && metric.as_object().unwrap().len() == 2);
        (format!("{prefix}{name}"), members[name].clone())
    });
    named.collect()
}

fn expected(pairs: &[(&str, Value)]) -> BTreeMap<String, Value> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// Takes the latencies out, which are of the world: how many there are.
fn latencies(told: &mut BTreeMap<String, Value>) -> usize {
    told.remove("ModelLatency").map_or(0, |latencies| {
        let latencies = latencies.as_array().unwrap().clone();
        assert!(latencies.iter().all(|latency| latency.as_u64().is_some_and(|latency| latency < 60_000)));
        latencies.len()
    })
}

#[tokio::test]
async fn a_turn_is_counted_with_what_came_in_what_the_model_took_and_what_went_out() {
    let chat = Counted::new().await;
    let from = chat.hear(1, "text of the first").await;
    chat.hear(1, "text of the first").await;
    chat.hear(1, "text of an edit").await;
    let came = ["telegram Messages", "telegram Duplicates", "telegram Revisions"];
    assert_eq!(chat.told(), expected(&came.map(|name| (name, json!(1)))));

    assert!(chat.run(&from, true).await);
    let reply =
        chat.world.records().await.into_iter().find(|record| record.role() == Role::Assistant).unwrap();
    let usage = &reply.message.metadata.fields()["usage"];
    let mut told = chat.told();
    assert_eq!(latencies(&mut told), 1);
    let done = expected(&[
        ("Turns", json!(1)),
        ("InputTokens", json!([usage["inputTokens"]])),
        ("OutputTokens", json!([usage["outputTokens"]])),
        ("telegram Deliveries", json!(1)),
    ]);
    assert_eq!(told, done);

    // A turn that comes again does nothing, and counts for nothing.
    assert!(chat.run(&from, true).await);
    assert_eq!(chat.told(), expected(&[]));

    // A reply that is refused for good is no delivery.
    let from = chat.hear(2, "text of a question").await;
    assert!(chat.run(&from, false).await);
    let told = chat.told();
    assert_eq!((&told["telegram DeliveryFailures"], told.get("telegram Deliveries")), (&json!(1), None));
}

#[tokio::test]
async fn a_failing_model_is_counted_and_so_is_the_turn_that_is_given_up() {
    let chat = Counted::new().await;
    let from = chat.hear(1, "text of a question").await;
    chat.told();
    chat.world.model().fail(6, 500);
    assert!(!chat.run(&from, true).await);
    assert_eq!(chat.told(), expected(&[("ModelErrors", json!(3)), ("TurnFailures", json!(1))]));
    chat.world.fail_turn(1).await;
    assert!(chat.run(&from, true).await, "the user is told");
    let given_up = [
        ("ModelErrors", json!(3)),
        ("Turns", json!(1)),
        ("TurnsGivenUp", json!(1)),
        ("telegram Deliveries", json!(1)),
    ];
    assert_eq!(chat.told(), expected(&given_up));
}

#[tokio::test]
async fn compactions_are_counted_and_those_that_come_to_nothing() {
    let chat = Counted::new().await;
    for id in 1..5 {
        let from = chat.hear(id, "text of a question").await;
        assert!(chat.run(&from, true).await);
    }
    let Agent { history, model, view, agent_id, metrics, .. } = chat.agent(true);
    let compaction = Compaction { history, model, view, agent_id, profile_id: None, metrics };
    let mut lease = chat.world.claim().await;
    let records = chat.world.records().await;
    chat.told();

    chat.world.model().answer_by(|_| Some(String::new()));
    assert!(compaction.run(&mut lease, &records, Why::Asked, None).await.is_err());
    let mut told = chat.told();
    latencies(&mut told);
    assert_eq!((&told["CompactionFailures"], told.get("Compactions")), (&json!(1), None));

    chat.world.model().answer_by(|_| None);
    assert!(compaction.run(&mut lease, &records, Why::Asked, None).await.unwrap().is_some());
    let told = chat.told();
    assert_eq!((&told["Compactions"], told.get("CompactionFailures")), (&json!(1), None));
}

#[tokio::test]
async fn a_reply_to_a_platform_that_is_not_set_up_is_a_failed_delivery() {
    let chat = Counted::new().await;
    let from = chat.hear(1, "text of the first").await;
    let agent = Agent { deliverer: Deliverer::new([], None), ..chat.agent(true) };
    let run = chat.world.start(agent, &from);
    passing(&chat.world.clock, Duration::from_millis(500), run).await.unwrap().unwrap();
    let records = chat.world.records().await;
    assert_eq!(records[1].delivery_failure().unwrap().reason, "telegram is not set up");
    assert_eq!(chat.told()["telegram DeliveryFailures"], json!(1));
    assert!(chat.world.head().await.blocked.is_some(), "tasks would ask the model at each date");
}
