//! The cost of a message, by the store's own `ConsumedCapacity`: the budgets of the design, at 10, 100 and 1,000
//! messages. A figure here is a promise; a change that breaks it must not pass.

use std::time::Duration;

use annals_agent::Agent;
use annals_core::chat_key::ChatKey;
use annals_core::draft::Draft;
use annals_core::record::Kind;
use annals_core::sort_key::Timestamp;
use annals_store::history::turn::Head;
use annals_store::history::{History, Outcome};
use serde_json::json;

use crate::meter::{Consumed, Meter};
use crate::world::{self, START, World};

/// An append, and what a duplicate costs as well.
const ONE_PUT: Consumed = Consumed { read_units: 0.0, write_units: 1.0, calls: 1 };
/// An append that registers its chat for the compactor: one unit more, for the index, in the same call.
const REGISTERING: Consumed = Consumed { write_units: 2.0, ..ONE_PUT };

/// One process on a world.
struct Bench {
    history: History,
    agent: Agent,
    meter: Meter,
}

impl Bench {
    fn on(world: &World) -> Self {
        let history = world.another_process();
        Self { agent: world.agent_of(&history), history, meter: world.meter.clone() }
    }

    async fn append(&self, draft: &Draft) -> (Outcome, Consumed) {
        self.meter.take();
        let appended = self.history.append(draft).await.unwrap();
        (appended.outcome, self.meter.take())
    }

    async fn turn(&self, asked: &Draft) -> Consumed {
        self.meter.take();
        self.agent.run(&asked.chat, &[asked.key()]).await.unwrap();
        self.meter.take()
    }
}

/// A message as the Telegram parser makes it, with 240 characters of text.
fn message(number: u64, asks: bool) -> Draft {
    let metadata = json!({
        "senderName": "Ada Lovelace", "senderUsername": "ada_lovelace", "chatType": "supergroup",
        "replyTo": {"messageId": "123456", "senderName": "Charles Babbage", "text": "Have you seen the new engine?"},
    });
    let chat = ChatKey::telegram(-1_001_234_567_890, None);
    let ts = i64::try_from(number).unwrap() * 1000 - 3_600_000;
    Draft {
        chat_id: "-1001234567890".into(),
        user_id: "123456789".into(),
        form_ts: Timestamp::from_millis(START),
        metadata: serde_json::from_value(metadata).unwrap(),
        asks,
        ..world::message(&chat, number, ts, &"m".repeat(240))
    }
}

#[tokio::test]
async fn an_append_is_one_write_and_a_duplicate_too() {
    let world = World::new().await;
    let bench = Bench::on(&world);
    let mut units = 0.0;
    for number in 1..=1000 {
        let expected = if number == 1 { REGISTERING } else { ONE_PUT };
        let (outcome, cost) = bench.append(&message(number, false)).await;
        assert_eq!((outcome, cost), (Outcome::Stored, expected), "message {number}");
        units += cost.write_units;
        if number == 100 {
            assert!(units <= 110.0, "amortised over a chat of 100 messages, a message costs {units} / 100");
        }
        if [1, 10, 100, 1000].contains(&number) {
            let again = bench.append(&message(1, false)).await;
            assert_eq!(again, (Outcome::Duplicate, ONE_PUT), "after {number}");
        }
    }
}

/// The registration by a record lasts 36 hours, and a process repeats it after 18.
#[tokio::test]
async fn a_lively_chat_registers_each_eighteen_hours_and_in_each_process() {
    let world = World::new().await;
    let bench = Bench::on(&world);
    let mut costs = Vec::new();
    for number in 1..=100 {
        let now = world.clock.now();
        costs.push(bench.append(&Draft { ts: now, ..message(number, false) }).await.1);
        world.clock.advance(Duration::from_mins(40));
    }
    let registering: Vec<usize> = (0..100).filter(|place| costs[*place] != ONE_PUT).collect();
    assert_eq!(registering, [0, 27, 54, 81], "of 67 hours");
    assert!(registering.into_iter().all(|place| costs[place] == REGISTERING), "{costs:?}");

    // What another process puts again is refused, and registers nothing; what it puts anew does.
    let (other, last) = (Bench::on(&world), world.clock.now().minus(Duration::from_mins(40)));
    let late = |number| Draft { ts: last, ..message(number, false) };
    assert_eq!(other.append(&late(100)).await, (Outcome::Duplicate, ONE_PUT));
    assert_eq!(other.append(&late(101)).await, (Outcome::Stored, REGISTERING));
    assert_eq!(other.append(&late(102)).await, (Outcome::Stored, ONE_PUT));
}

/// Deployed, the agent is another process than the endpoint, and remembers no chat.
#[tokio::test]
async fn the_first_turn_of_another_process_is_four_writes_too() {
    let world = World::new().await;
    let (ingress, agent) = (Bench::on(&world), Bench::on(&world));
    let (prompt, late) = (message(1, true), message(2, true));
    ingress.append(&prompt).await;
    let turn = agent.turn(&prompt).await;
    assert_eq!((turn.write_units, turn.calls), (4.0, 5), "{turn:?}");
    // A reply long after its message registers the chat: the message's own entry may be gone by then.
    ingress.append(&late).await;
    world.clock.advance(Duration::from_hours(10));
    let turn = agent.turn(&late).await;
    assert_eq!((turn.write_units, turn.calls), (5.0, 5), "{turn:?}");
}

#[tokio::test]
async fn a_turn_is_four_writes_and_one_query_at_any_age_of_the_chat() {
    for length in [10_u64, 100, 1000] {
        let world = World::new().await;
        let bench = Bench::on(&world);
        for number in 1..length {
            bench.append(&message(number, false)).await;
        }
        let asked = message(length, true);
        bench.append(&asked).await;

        bench.meter.take();
        let policy = bench.agent.view.policy(0);
        let seen = bench.history.context(&asked.chat, &Head::default(), None, &policy).await.unwrap();
        let load = bench.meter.take();
        assert_eq!(seen.context.messages.len() as u64, length);
        // Under 1 MB it is one page, and a strongly consistent read takes a unit for each 4 KB of it, rounded up.
        #[allow(clippy::cast_precision_loss, reason = "a count of at most a thousand")]
        let most = (length as f64 * 1024.0 / 4096.0).ceil();
        assert!(load.calls == 1 && load.write_units == 0.0 && load.read_units <= most, "{length}: {load:?}");

        let turn = bench.turn(&asked).await;
        assert_eq!(turn.calls, 4 + 1, "{length}: {turn:?}");
        assert!(turn.write_units <= 4.0, "{length}: {turn:?}");
        assert!(turn.read_units <= load.read_units, "{length}: the context, once: {turn:?}");

        // A repeated turn claims, looks, lets go.
        let again = bench.turn(&asked).await;
        assert_eq!((again.write_units, again.calls), (2.0, 3), "{length}");
    }
}

#[tokio::test]
async fn a_new_session_costs_the_same_after_any_history() {
    let mut turns = Vec::new();
    for length in [10_u64, 100, 1000] {
        let world = World::new().await;
        let bench = Bench::on(&world);
        for number in 1..=length {
            bench.append(&message(number, false)).await;
        }
        let boundary = Draft { kind: Kind::Boundary, ..message(length + 1, false) };
        bench.append(&boundary).await;
        let mut costs = Vec::new();
        // The first turn after the boundary still reads the records before it, and stores the Session's start.
        for number in length + 2..length + 5 {
            let asked = message(number, true);
            bench.append(&asked).await;
            costs.push(bench.turn(&asked).await);
        }
        turns.push(costs.split_off(1));
    }
    assert!(turns.iter().all(|costs| costs.len() == 2 && *costs == turns[0]), "{turns:?}");
}

#[tokio::test]
async fn late_messages_are_seen_though_only_the_session_is_read() {
    let world = World::new().await;
    let bench = Bench::on(&world);
    let hours = |hours: i64| Timestamp::from_millis(START + hours * 3_600_000).unwrap();
    let at = |number: u64, ts: Timestamp, asks: bool| Draft { ts, form_ts: None, ..message(number, asks) };
    let ids = async || {
        let chat = message(1, false).chat;
        let head = bench.history.head(&chat).await.unwrap();
        let seen = bench.history.context(&chat, &head, None, &bench.agent.view.policy(0)).await.unwrap();
        seen.context.messages.into_iter().map(|message| message.id).collect::<Vec<_>>()
    };
    // Two Sessions, 50 hours apart; the second is answered, so its start is known.
    bench.append(&at(1, hours(-50), false)).await;
    let asked = at(2, hours(0), true);
    bench.append(&asked).await;
    bench.turn(&asked).await;
    assert_eq!(ids().await, ["2", "2/reply"]);
    bench.append(&at(3, hours(-1), false)).await;
    assert_eq!(ids().await, ["3", "2", "2/reply"], "late, but of this Session");
    bench.append(&at(4, hours(-25), false)).await;
    assert_eq!(ids().await, ["1", "4", "3", "2", "2/reply"], "late, and closes the gap between two Sessions");
}
