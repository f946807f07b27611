//! Sixty days of a chat, in seconds: checks the model's context throughout, and that every message is still there at
//! the end. Records leave the table at their `expiresAt` to the second, archived or not, as with DynamoDB's TTL. The
//! transcript of the model's requests is printed: `cargo test sixty_days -- --nocapture`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use annals_agent::Agent;
use annals_compactor::Compactor;
use annals_core::chat_key::ChatKey;
use annals_core::memory::Owner;
use annals_core::record::{Draft, Kind, Record};
use annals_core::settings::Env;
use annals_core::sort_key::{MessageId, SortKey, Timestamp};
use annals_engine::ingress::Ingress;
use annals_engine::settings::ViewConfig;
use annals_engine::upkeep::Upkeep;
use annals_http::Http;
use annals_http::limit::Limits;
use annals_http::settings::{CorsOrigins, api_keys};
use annals_io::clock::Clock;
use annals_store::history::History;
use annals_store::history::due::shard_of;
use annals_store::memory::Memory;
use annals_store::settings::retention;
use annals_test_support::model_api::{ModelApi, notes_of, summary_of, texts_of};
use serde_json::{Value, json};

use crate::app::chat_path;
use crate::faults::Faults;
use crate::world::{START, Turns, World, echo_agent, echo_upkeep, hosted, message, records_of};

pub(crate) const DAY: Duration = Duration::from_hours(24);
const SILENCE: Duration = Duration::from_hours(40);
/// Interval at which this test runs the compactor and sweeps the table.
const STEP: Duration = Duration::from_hours(4);
/// Lifetime of a record in the table: 48 hours and a week.
pub(crate) const LIFETIME: Duration = Duration::from_hours(48 + 168);
/// The days that the transcript shows, each with the last request to the model.
const SHOWN_DAYS: [u32; 4] = [1, 3, 30, 60];

pub(crate) fn chat() -> ChatKey {
    ChatKey::telegram(42, None)
}

/// A chat with everything that serves it, and a clock that only the test moves.
pub(crate) struct Life {
    pub(crate) clock: Clock,
    pub(crate) history: History,
    ingress: Ingress,
    pub(crate) agent: Agent,
    compactor: Compactor,
    pub(crate) compactor_runs: bool,
    pub(crate) model: ModelApi,
    turns: Turns,
    base: String,
    world: World,
    /// Every record that was ever in the table.
    pub(crate) stored: BTreeMap<SortKey, Record>,
    /// The records whose dates were moved on.
    pub(crate) moved: BTreeSet<SortKey>,
    /// The records that have left the table.
    pub(crate) expired: BTreeSet<SortKey>,
    /// The requests for answers, with their times.
    seen: Vec<(Duration, Value)>,
}

impl Life {
    pub(crate) async fn new(settings: &'static [(&str, &str)]) -> Self {
        let world = World::new().await;
        let clock = world.clock.clone();
        let lookup =
            |name: &str| settings.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        let env = Env::new(&lookup);
        let history = world.process(Faults::default(), retention(env).unwrap(), &clock);
        let model = ModelApi::start().await;
        model.answer_by(|body| Some(say_what_is_noted(body)));
        let asked = hosted(&model, &clock);
        let view = ViewConfig::from_env(env).unwrap();
        let turns = Turns::default();
        let ingress = Ingress::new(history.clone(), Arc::new(turns.clone()), "annals".into());
        let agent = Agent {
            model: asked.clone(),
            view,
            system_prompt: Some("You are a gardener's companion.".into()),
            ..echo_agent(&history)
        };
        let upkeep = Upkeep { model: asked, view, ..echo_upkeep(&history) };
        let compactor = Compactor::new(history.clone(), upkeep);
        let keys = |name: &str| (name == "HTTP_API_KEYS").then(|| "ops:ops-secret:admin".to_owned());
        let http = annals_http::router(Http {
            after_forgetting: None,
            ingress: ingress.clone(),
            web: annals_http::chat::Web::buffered(ingress.clone()),
            keys: api_keys(Env::new(&keys)).unwrap().unwrap(),
            view,
            memory: annals_engine::settings::MemoryConfig::default(),
            system_prompt: None,
            cors_origins: CorsOrigins::None,
            console: false,
            limits: Limits::new(None),
            new_id: annals_http::random_id,
            clock: clock.clone(),
        });
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, http).await });
        Self {
            clock,
            history,
            ingress,
            agent,
            compactor,
            compactor_runs: true,
            model,
            turns,
            base,
            world,
            stored: BTreeMap::new(),
            moved: BTreeSet::new(),
            expired: BTreeSet::new(),
            seen: Vec::new(),
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.now().since(Timestamp::from_millis(START).unwrap())
    }

    /// Sends a message, and returns the request that the model got for it.
    pub(crate) async fn say(&mut self, number: u32, text: &str) -> Value {
        let now = self.clock.now();
        self.say_as(number, now, text).await
    }

    /// Sends a message dated `ts`, and returns the request that the model got for it.
    async fn say_as(&mut self, number: u32, ts: Timestamp, text: &str) -> Value {
        let metadata = json!({"senderName": "Ada", "chatType": "private"});
        let metadata = serde_json::from_value(metadata).unwrap();
        let draft = message(&chat(), number.into(), 0, text);
        let draft = Draft { chat_id: "42".into(), ts, metadata, asks: true, ..draft };
        self.ingress.receive(&draft).await.unwrap();
        let before = self.model.count();
        for turn in self.turns.take() {
            Box::pin(self.agent.run(&turn.chat, Some(&turn.from))).await.unwrap();
        }
        self.note_what_is_stored().await;
        let mut requests = self.model.requests().split_off(before);
        assert_eq!(requests.len(), 1, "message {number} is answered by one request");
        let request = requests.remove(0);
        self.seen.push((self.elapsed(), request.clone()));
        request
    }

    async fn note_what_is_stored(&mut self) {
        for record in self.history.range(&chat(), None).await.unwrap() {
            let key = record.key.clone();
            let date = record.expires_at;
            if self.stored.insert(key.clone(), record).is_some_and(|before| before.expires_at != date) {
                self.moved.insert(key);
            }
        }
    }

    /// Lets time pass: the compactor runs on its schedule, if it runs at all, and expired records leave the table.
    pub(crate) async fn pass(&mut self, time: Duration) {
        let until = self.clock.now().plus(time);
        while self.clock.now() < until {
            self.clock.advance(STEP.min(until.since(self.clock.now())));
            // A compactor run without a due chat reads sixteen shards to find that out. This test has only one chat.
            if self.compactor_runs && self.is_due().await {
                let report = self.compactor.run(self.clock.now().plus(DAY)).await;
                assert_eq!((report.failed, report.busy, report.left, report.unread_shards), (0, 0, 0, 0));
                self.note_what_is_stored().await;
            }
            self.sweep().await;
        }
    }

    async fn is_due(&self) -> bool {
        let page = self.history.due(shard_of(&chat()), self.clock.now(), 1, None).await.unwrap();
        !page.chats.is_empty()
    }

    /// Deletes expired records without any checks.
    async fn sweep(&mut self) {
        let now = self.clock.now().as_millis() / 1000;
        let has_expired = |record: &&Record| record.expires_at.unwrap() < now;
        if self.stored.values().filter(has_expired).all(|record| self.expired.contains(&record.key)) {
            return;
        }
        for record in self.history.range(&chat(), None).await.unwrap() {
            if has_expired(&&record) {
                self.world.expire(&record).await;
                self.expired.insert(record.key);
            }
        }
    }

    async fn in_table(&self) -> BTreeSet<SortKey> {
        let records = self.history.range(&chat(), None).await.unwrap();
        records.into_iter().map(|record| record.key).collect()
    }

    /// Returns the keys of the records in the segments. Checks that each is in one segment, as it was stored.
    async fn in_segments(&self) -> BTreeSet<SortKey> {
        let mut keys = BTreeSet::new();
        for info in self.history.segments(&chat()).await.unwrap() {
            for record in records_of(&self.history, &info).await {
                assert_eq!(record.message, self.stored[&record.key].message);
                assert!(keys.insert(record.key.clone()), "{} is in two segments", record.key);
            }
        }
        keys
    }

    /// Returns the whole history, read in pages of `GET …/messages`, oldest first.
    async fn listed(&self) -> Vec<Value> {
        let client = reqwest::Client::new();
        let path = format!("{}{}?limit=50", self.base, chat_path(&chat().to_string(), "messages"));
        let (mut listed, mut before) = (Vec::new(), String::new());
        loop {
            let page = client.get(format!("{path}{before}")).bearer_auth("ops-secret").send().await.unwrap();
            let page: Value = page.error_for_status().unwrap().json().await.unwrap();
            listed.splice(0..0, page["messages"].as_array().unwrap().clone());
            let Some(cursor) = page["before"].as_str() else { return listed };
            before = format!("&before={cursor}");
        }
    }

    /// Checks that nothing is lost: every record is listed once, in order, and is in the table or in one segment.
    pub(crate) async fn check_that_nothing_is_lost(&self) {
        let expected: Vec<Value> = self.stored.values().map(|record| json!(record.listed())).collect();
        assert_eq!(self.listed().await, expected);
        let keys: BTreeSet<SortKey> = self.stored.keys().cloned().collect();
        let (table, segments) = (self.in_table().await, self.in_segments().await);
        assert_eq!(table.union(&segments).cloned().collect::<BTreeSet<_>>(), keys);
    }

    /// Runs the compactor without new messages until the table is empty; then checks that the segments contain all
    /// records.
    pub(crate) async fn check_what_is_left_when_all_has_expired(&mut self) {
        self.compactor_runs = true;
        self.pass(LIFETIME * 2).await;
        assert_eq!(self.in_table().await, BTreeSet::new());
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

    /// Prints the last request to the model of each day in the transcript.
    fn transcript(&self, title: &str) {
        println!("\n# {title}");
        for days in SHOWN_DAYS {
            let shown = self.seen.iter().rev().find(|(at, _)| *at <= DAY * days);
            let (at, request) = shown.unwrap();
            println!(
                "\n## day {days}: what the model saw when somebody last wrote, {} hours in\n",
                at.as_secs() / 3600
            );
            for message in request["messages"].as_array().unwrap() {
                println!("{}: {}", message["role"].as_str().unwrap(), said(message));
            }
        }
    }

    pub(crate) fn finish(self) {
        assert_eq!(self.model.refusals(), [""; 0], "the model refused requests");
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
    let system = texts_of(body, "system").join("\n");
    let text = format!("{}\n{}", summary_of(body), texts_of(body, "user").join("\n"));
    if system.starts_with("You keep the memory of a chat") {
        return format!("Facts:\n{}", facts_in(&text).join("\n"));
    }
    if system.starts_with("You keep the memory of an assistant") {
        return facts_in(&text).iter().map(|fact| format!("- [fact] {fact}.")).collect::<Vec<_>>().join("\n");
    }
    "Noted.".into()
}

/// Writes a message every 40 hours for 60 days. `compactor_runs` tells by the elapsed time if the compactor runs.
async fn every_forty_hours(title: &str, compactor_runs: impl Fn(Duration) -> bool) -> Life {
    let mut life = Life::new(&[]).await;
    write_every_forty_hours(&mut life, compactor_runs).await;
    life.transcript(title);
    life.check_that_no_date_was_moved();
    assert!(life.expired.len() > 50, "most of it has left the table: {}", life.expired.len());
    life.check_that_nothing_is_lost().await;
    life
}

/// Writes like `every_forty_hours`, with any model, and checks that each request contains the whole conversation.
pub(crate) async fn write_every_forty_hours(life: &mut Life, compactor_runs: impl Fn(Duration) -> bool) {
    let mut number = 0;
    loop {
        let request = life.say(number, &message_with(number)).await;
        let text = whole(&request);
        for number in 0..=number {
            let at = life.elapsed().as_secs() / 3600;
            assert!(text.contains(&fact(number)), "{at} hours in, {:?} is not in:\n{text}", fact(number));
        }
        let head = life.history.head(&chat()).await.unwrap();
        let policy = life.agent.view.policy(0);
        let seen = life.history.context(&chat(), &head, None, &policy).await.unwrap().context;
        let first = SortKey::message(Timestamp::from_millis(START).unwrap(), &MessageId::number(0));
        assert_eq!(seen.session_start, Some(first), "the session never starts anew");
        let counted = seen.messages[0]
            .metadata
            .fields()
            .get("sourceRange")
            .map_or(0, |range| range["count"].as_u64().unwrap());
        let shown = seen.messages.len() - usize::from(counted > 0);
        assert_eq!(counted + shown as u64, 2 * u64::from(number + 1), "each message is shown or counted");
        if life.elapsed() >= DAY * 60 {
            break;
        }
        number += 1;
        let mut left = SILENCE;
        while !left.is_zero() {
            life.compactor_runs = compactor_runs(life.elapsed());
            let step = left.min(STEP);
            life.pass(step).await;
            left -= step;
        }
    }
}

#[tokio::test]
async fn a_person_who_writes_every_forty_hours_keeps_the_whole_conversation() {
    let mut life = every_forty_hours("Every 40 hours for 60 days", |_| true).await;
    assert!(life.summaries() > 3);
    life.check_what_is_left_when_all_has_expired().await;
    life.finish();
}

#[tokio::test]
async fn the_conversation_survives_a_week_without_the_compactor() {
    let is_up = |elapsed: Duration| !(DAY * 26..DAY * 33).contains(&elapsed);
    let mut life =
        every_forty_hours("Every 40 hours for 60 days, the compactor down from day 26 to 33", is_up).await;
    life.check_what_is_left_when_all_has_expired().await;
    life.finish();
}

#[tokio::test]
async fn the_conversation_survives_without_the_compactor() {
    let mut life = every_forty_hours("Every 40 hours for 60 days, without a compactor", |_| false).await;
    assert!(life.summaries() > 3, "the turns themselves keep the session");
    life.check_what_is_left_when_all_has_expired().await;
    life.finish();
}

/// Six messages in a quarter of an hour, then nothing for three days.
#[tokio::test]
async fn bursts_are_sessions_of_their_own_and_leave_their_facts_to_memory() {
    const BURST: u32 = 6;
    let mut life = Life::new(&[("KEEP_RECENT", "4")]).await;
    let memory = Memory::beside(&life.history);
    let owner = Owner::User("telegram-42".into());
    let (mut number, mut bursts) = (0, 0);
    while life.elapsed() <= DAY * 60 {
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
        let entries = memory.list(&owner).await.unwrap();
        for number in first + 1..number {
            let is_it = entries.iter().filter(|kept| kept.entry.text.contains(&fact(number))).count();
            assert_eq!(is_it, 1, "{:?} is remembered once", fact(number));
        }
    }
    assert!(bursts >= 19, "{bursts}");
    life.transcript("Bursts, and three days of silence");
    life.check_that_nothing_is_lost().await;
    life.check_what_is_left_when_all_has_expired().await;
    life.finish();
}
