//! Sixty days of a chat, in seconds: checks the model's context throughout, and that every message is still there at
//! the end. Records leave the table at their `expiresAt` to the second, archived or not, as with DynamoDB's TTL.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use annals_agent::Agent;
use annals_core::draft::Draft;
use annals_core::memory::Owner;
use annals_core::record::{Kind, Record};
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use annals_test_support::model_api::{is_for_notes, is_for_summary, notes_of, summary_of, texts_of};
use serde_json::{Value, json};

use crate::world::{START, World};

pub(crate) const DAY: Duration = Duration::from_hours(24);
const SILENCE: Duration = Duration::from_hours(40);
/// Interval at which this test runs the compactor and sweeps the table.
const STEP: Duration = Duration::from_hours(4);
/// Lifetime of a record in the table: 48 hours and a week.
pub(crate) const LIFETIME: Duration = Duration::from_hours(48 + 168);

/// A chat with everything that serves it, and a clock that only the test moves.
pub(crate) struct Life {
    pub(crate) world: World,
    agent: Agent,
    pub(crate) compactor_runs: bool,
    /// Every record that was ever in the table.
    pub(crate) stored: BTreeMap<SortKey, Record>,
    /// The records whose dates were moved on.
    pub(crate) moved: BTreeSet<SortKey>,
    /// The records that have left the table.
    pub(crate) expired: BTreeSet<SortKey>,
}

impl Life {
    pub(crate) async fn new(settings: &[(&str, &str)]) -> Self {
        let prompt = ("SYSTEM_PROMPT", "You are a gardener's companion.");
        let world = World::hosted(&[settings, &[prompt]].concat()).await;
        world.model().answer_by(|body| Some(say_what_is_noted(body)));
        Self {
            agent: world.agent_of(&world.history),
            world,
            compactor_runs: true,
            stored: BTreeMap::new(),
            moved: BTreeSet::new(),
            expired: BTreeSet::new(),
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.world.clock.now().since(Timestamp::from_millis(START).unwrap())
    }

    /// Sends a message, and returns the request that the model got for it.
    pub(crate) async fn say(&mut self, number: u32, text: &str) -> Value {
        let metadata = json!({"senderName": "Ada", "chatType": "private"});
        let metadata = serde_json::from_value(metadata).unwrap();
        let draft = self.world.message(number.into(), self.world.elapsed_millis(), text);
        let draft = Draft { chat_id: "42".into(), metadata, asks: true, ..draft };
        self.world.ingress().receive(&draft).await.unwrap();
        let before = self.world.model().count();
        for turn in self.world.queue.take() {
            Box::pin(self.agent.run(&turn.chat, &[turn.from])).await.unwrap();
        }
        self.note_what_is_stored().await;
        let mut requests = self.world.model().requests().split_off(before);
        assert_eq!(requests.len(), 1, "message {number} is answered by one request");
        requests.remove(0)
    }

    async fn note_what_is_stored(&mut self) {
        for record in self.world.records().await {
            let key = record.key.clone();
            let date = record.expires_at;
            if self.stored.insert(key.clone(), record).is_some_and(|before| before.expires_at != date) {
                self.moved.insert(key);
            }
        }
    }

    /// Lets time pass: the compactor runs on its schedule, if it runs at all, and expired records leave the table.
    pub(crate) async fn pass(&mut self, time: Duration) {
        let until = self.world.clock.now().plus(time);
        while self.world.clock.now() < until {
            self.world.clock.advance(STEP.min(until.since(self.world.clock.now())));
            // A compactor run without a due chat reads sixteen shards to find that out. This test has only one chat.
            if self.compactor_runs && self.world.due(42).await.is_some() {
                let report = self.world.run_compactor().await;
                assert_eq!((report.failed, report.busy, report.left, report.unread_shards), (0, 0, 0, 0));
                self.note_what_is_stored().await;
            }
            self.expired.extend(self.world.expire_due().await.into_iter().map(|record| record.key));
        }
    }

    /// Checks that nothing is lost: every record is listed once, in order, as it was stored, and is in the table or in one
    /// segment.
    pub(crate) async fn check_that_nothing_is_lost(&self) {
        let shown = |record: &Record| json!(record.listed());
        let listed: Vec<Value> = self.world.listed().await.iter().map(shown).collect();
        assert_eq!(listed, self.stored.values().map(shown).collect::<Vec<_>>());
        let mut kept = self.world.archived().await;
        for (key, record) in &kept {
            assert_eq!(record.message, self.stored[key].message);
        }
        kept.extend(self.world.records().await.into_iter().map(|record| (record.key.clone(), record)));
        assert!(kept.keys().eq(self.stored.keys()), "{:?}", kept.keys());
    }

    /// Runs the compactor without new messages until the table is empty; then checks that the segments contain all
    /// records.
    pub(crate) async fn check_what_is_left_when_all_has_expired(&mut self) {
        self.compactor_runs = true;
        self.pass(LIFETIME * 2).await;
        assert_eq!(self.world.records().await, []);
        self.check_that_nothing_is_lost().await;
        assert_eq!(self.expired.len(), self.stored.len());
    }

    /// Checks that each record left at the time set at its append, whatever was appended later.
    fn check_that_no_date_was_moved(&self) {
        assert_eq!(self.moved, BTreeSet::new());
        for record in self.stored.values() {
            let date = record.sent_at.plus(LIFETIME).as_millis() / 1000;
            assert_eq!(record.expires_at, Some(date), "{}", record.key);
        }
    }

    pub(crate) fn summaries(&self) -> usize {
        self.stored.values().filter(|record| record.kind() == Kind::Summary).count()
    }

    pub(crate) fn finish(self) {
        assert_eq!(self.world.model().refusals(), [""; 0], "the model refused requests");
    }
}

fn said(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        parts => parts.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()).collect(),
    }
}

/// Returns all texts in a request, of any role.
pub(crate) fn whole(request: &Value) -> String {
    request["messages"].as_array().unwrap().iter().map(said).collect::<Vec<_>>().join("\n")
}

/// Returns the `number`th fact.
pub(crate) fn fact(number: u32) -> String {
    match number % 3 {
        0 => format!("fact {number:03}: 第{number}号棚子的密码是 K{:04}-竹", number * 37),
        _ => format!("fact {number:03}: shed {number} opens with K{:04}-OAK", number * 37),
    }
}

/// Returns a message that contains it.
pub(crate) fn message_with(number: u32) -> String {
    format!(
        "Please keep this in mind, {}. And by the way, the beans are coming along nicely this week.",
        fact(number)
    )
}

/// Returns the facts in a text, each once, in order.
fn facts_in(text: &str) -> Vec<&str> {
    let mut facts = Vec::new();
    for (at, _) in text.match_indices("fact ") {
        let rest = &text[at..];
        let fact = &rest[..rest.find(['.', '\n']).unwrap_or(rest.len())];
        if !facts.contains(&fact) {
            facts.push(fact);
        }
    }
    facts
}

/// Answers like a model that keeps each fact in its notes, and nothing else.
pub(crate) fn say_what_is_noted(body: &Value) -> String {
    let text = format!("{}\n{}", summary_of(body), texts_of(body, "user").join("\n"));
    if is_for_summary(body) {
        return format!("Facts:\n{}", facts_in(&text).join("\n"));
    }
    if is_for_notes(body) {
        return facts_in(&text).iter().map(|fact| format!("- [fact] {fact}.")).collect::<Vec<_>>().join("\n");
    }
    "Noted.".into()
}

/// Writes a message every 40 hours for so many days, and checks that each request contains the whole conversation.
pub(crate) async fn write_every_forty_hours(life: &mut Life, days: u32) {
    let mut number = 0;
    loop {
        let request = life.say(number, &message_with(number)).await;
        let text = whole(&request);
        for number in 0..=number {
            let at = life.elapsed().as_secs() / 3600;
            assert!(text.contains(&fact(number)), "{at} hours in, {:?} is not in:\n{text}", fact(number));
        }
        let head = life.world.head().await;
        let policy = life.agent.view.policy(0);
        let seen = life.world.history.context(&life.world.chat, &head, None, &policy).await.unwrap().context;
        let first = SortKey::message(Timestamp::from_millis(START).unwrap(), &MessageId::number(0));
        assert_eq!(seen.session_start, Some(first), "the session never starts anew");
        let counted = seen.messages[0]
            .metadata
            .fields()
            .get("sourceRange")
            .map_or(0, |range| range["count"].as_u64().unwrap());
        let shown = seen.messages.len() - usize::from(counted > 0);
        assert_eq!(counted + shown as u64, 2 * u64::from(number + 1), "each message is shown or counted");
        if life.elapsed() >= DAY * days {
            break;
        }
        number += 1;
        life.pass(SILENCE).await;
    }
}

#[tokio::test]
async fn a_person_who_writes_every_forty_hours_keeps_the_whole_conversation() {
    // Without the compactor, the turns themselves keep the session.
    for (days, compactor_runs) in [(60, true), (30, false)] {
        let mut life = Life { compactor_runs, ..Life::new(&[]).await };
        write_every_forty_hours(&mut life, days).await;
        life.check_that_no_date_was_moved();
        let (expired, stored) = (life.expired.len(), life.stored.len());
        assert!(expired > stored / 2, "{expired} of {stored} have left the table");
        life.check_that_nothing_is_lost().await;
        assert!(life.summaries() > 3);
        life.check_what_is_left_when_all_has_expired().await;
        life.finish();
    }
}

/// Six messages in a quarter of an hour, then nothing for three days.
#[tokio::test]
async fn bursts_are_sessions_of_their_own_and_leave_their_facts_to_memory() {
    const BURST: u32 = 6;
    let mut life = Life::new(&[("KEEP_RECENT", "4")]).await;
    let owner = Owner::User("telegram-42".into());
    let (mut number, mut bursts) = (0, 0);
    while life.elapsed() <= DAY * 30 {
        let first = number;
        for place in 0..BURST {
            let text = match (place, bursts) {
                // Asks for a fact from the beginning, long ago and in another session.
                (0, 1..) => format!("What opens shed 1, and how far are the plans for shed {number}?"),
                _ => message_with(number),
            };
            let request = life.say(number, &text).await;
            let spoken = texts_of(&request, "user").join("\n");
            for earlier in 0..first {
                assert!(!spoken.contains(&fact(earlier)), "of an earlier session: {spoken}");
            }
            for number in first..=number {
                assert!(number == first && bursts > 0 || spoken.contains(&fact(number)), "{spoken}");
            }
            if place == 0 && bursts > 0 {
                let notes = notes_of(&request);
                assert!(notes.contains(&fact(1)), "recalled from the first session:\n{notes}");
            }
            number += 1;
            life.pass(Duration::from_mins(3)).await;
        }
        bursts += 1;
        life.pass(DAY * 3).await;
        // It was captured without a new message.
        let entries = life.world.memory.list(&owner).await.unwrap();
        for number in first + 1..number {
            let is_it = entries.iter().filter(|kept| kept.entry.text.contains(&fact(number))).count();
            assert_eq!(is_it, 1, "{:?} is remembered once", fact(number));
        }
    }
    assert!(bursts >= 9, "{bursts}");
    life.check_that_nothing_is_lost().await;
    life.check_what_is_left_when_all_has_expired().await;
    life.finish();
}
