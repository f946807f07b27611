//! A chat of any length, lived through as it would be: messages, turns with their compactions, the compactor's visits,
//! and records that leave the table when their time comes. What each operation on it consumes is in [`costs`].

use std::fmt;
use std::time::Duration;

use annals_agent::Agent;
use annals_compactor::Compactor;
use annals_local::stores::{BUCKET, Stores, TABLE};
use annals_shared::chat_key::ChatKey;
use annals_shared::clock::Clock;
use annals_shared::compaction::cut::Why;
use annals_shared::compaction::run::Compaction;
use annals_shared::config::{Env, ViewConfig, retention};
use annals_shared::delivery::Deliverer;
use annals_shared::history::due::shard_of;
use annals_shared::history::turn::{Claim, Ending};
use annals_shared::history::{Consumed, History, Outcome, Position};
use annals_shared::live::Live;
use annals_shared::memory::{EntryKind, Finding, Memory, Owner, Source};
use annals_shared::message::{Part, Role};
use annals_shared::metrics::Metrics;
use annals_shared::model::Model;
use annals_shared::record::{Channel, Draft, Kind};
use annals_shared::sort_key::{MessageId, SortKey, Timestamp};
use annals_shared::upkeep::Upkeep;
use aws_sdk_dynamodb::types::AttributeValue;

const START: i64 = 1_763_765_920;
/// How often somebody writes. The table then holds some 650 messages: nine days of them.
const PACE: Duration = Duration::from_mins(20);
/// Every which message asks for an answer.
const ASKS: u64 = 10;
/// Messages may take 6,400 tokens: some 70 of these.
const WINDOW: &str = "8000";
/// How many messages lie between two compactions that are asked for, and two visits.
const STRETCH: u64 = 100;
/// How many entries the memory of a turn that recalls has: a page of them.
const ENTRIES: u64 = 48;

/// What one operation consumed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cost {
    pub(crate) what: &'static str,
    pub(crate) consumed: Consumed,
}

impl fmt::Display for Cost {
    /// `<write units> W, <read units> R, <requests>`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Consumed { write_units, read_units, calls } = self.consumed;
        write!(f, "{write_units} W, {read_units} R, {calls} requests")
    }
}

/// The chat and what serves it.
pub(crate) struct Chat {
    history: History,
    agent: Agent,
    compactor: Compactor,
    stores: Stores,
    clock: Clock,
    said: u64,
    next_sweep: Timestamp,
    _dir: tempfile::TempDir,
}

impl Chat {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let stores = Stores::open(dir.path()).await.unwrap();
        let clock = Clock::manual(Timestamp::from_secs(START));
        let env = Env::new(&|name| (name == "CONTEXT_WINDOW").then(|| WINDOW.to_owned()));
        let (dynamodb, s3) = (stores.dynamodb.clone(), stores.s3.clone());
        let retention = retention(env).unwrap();
        let history = History::new(dynamodb, TABLE.into(), s3, BUCKET.into(), clock.clone(), retention);
        let view = ViewConfig::from_env(env).unwrap();
        let agent = Agent {
            history: history.clone(),
            model: Model::Echo,
            deliverer: Deliverer::default(),
            surroundings: None,
            servers: None,
            view,
            memory: annals_shared::config::MemoryConfig::default(),
            system_prompt: None,
            agent_id: "annals".into(),
            metrics: Metrics::default(),
            live: Live::default(),
            stream_replies: false,
            lease: Duration::from_mins(5),
            quiet: Duration::ZERO,
            clock: clock.clone(),
        };
        let upkeep = Upkeep {
            access: annals_shared::access::Access::default(),
            history: history.clone(),
            model: Model::Echo,
            view,
            memory: annals_shared::config::MemoryConfig::default(),
            agent_id: "annals".into(),
            metrics: Metrics::default(),
        };
        let compactor = Compactor::new(history.clone(), upkeep);
        Self { next_sweep: clock.now(), history, agent, compactor, stores, clock, said: 0, _dir: dir }
    }

    /// Goes on until `length` messages have been said.
    pub(crate) async fn live_until(&mut self, length: u64) {
        while self.said < length {
            self.pass().await;
            let draft = self.next_message((self.said + 1).is_multiple_of(ASKS));
            self.history.append(&draft).await.unwrap();
            if draft.asks {
                Box::pin(self.agent.run(&draft.chat, Some(&draft.key()))).await.unwrap();
            }
        }
    }

    /// What each operation consumes now; the same operations at each length, so that lengths can be compared.
    pub(crate) async fn costs(&mut self) -> Vec<Cost> {
        let mut costs = Vec::new();
        // From the same place between two compactions.
        self.compact().await;
        let mut count = |what, consumed| costs.push(Cost { what, consumed });

        let head = self.history.head(&chat()).await.unwrap();
        let policy = self.agent.view.policy(0);
        self.take();
        let seen = self.history.context(&chat(), &head, None, &policy).await.unwrap();
        count("context load", self.take());
        assert_eq!(seen.context.left_out, 0);
        assert!(seen.context.messages[0].metadata.contains_key("sourceRange"), "a summary stands first");

        let draft = self.next_message(false);
        self.append_unregistered(&draft).await;
        count("append", self.take());
        assert_eq!(self.history.append(&draft).await.unwrap().outcome, Outcome::Duplicate);
        count("the same again (duplicate)", self.take());
        count("turn, with no memory to recall", self.turn().await);
        self.remember().await;
        count("turn, with 48 entries of memory to recall from", self.turn().await);

        self.say_a_stretch().await;
        count("compaction of 100 messages", self.compact().await);
        self.say_a_stretch().await;
        self.clock.advance(Duration::from_hours(1));
        self.take();
        let visited = Box::pin(self.compactor.upkeep.visit(&chat())).await.unwrap();
        count("compactor's visit, 100 messages to archive", self.take());
        assert!(u64::from(visited.archived) >= STRETCH && visited.finished, "{visited:?}");
        Box::pin(self.compactor.upkeep.visit(&chat())).await.unwrap();
        count("compactor's visit, nothing to do", self.take());

        let newest = self.history.page(&chat(), &Position::Newest, 50).await.unwrap();
        count("newest page of 50", self.take());
        let before = Position::Before(newest.before.unwrap());
        assert_eq!(self.history.page(&chat(), &before, 50).await.unwrap().records.len(), 50);
        count("the page of 50 before it", self.take());
        self.fall_silent().await;
        let other = History::new(
            self.stores.dynamodb.clone(),
            TABLE.into(),
            self.stores.s3.clone(),
            BUCKET.into(),
            self.clock.clone(),
            self.history.retention().clone(),
        );
        // By a process that has read no segment yet.
        let oldest = other.page(&chat(), &Position::Oldest, 50).await.unwrap();
        count("oldest page of 50, from the archive", other.meter().take());
        assert_eq!(oldest.records.len(), 50);
        costs
    }

    fn take(&self) -> Consumed {
        self.history.meter().take()
    }

    /// The next message, as the Telegram parser makes it, with 300 characters of text.
    fn next_message(&mut self, asks: bool) -> Draft {
        self.said += 1;
        let metadata = serde_json::json!({
            "senderName": "Ada Lovelace", "senderUsername": "ada_lovelace", "chatType": "private",
        });
        let text = format!(
            "message {:06} of ours: {}",
            self.said,
            "the beans, the plums and the new engine; ".repeat(7)
        );
        Draft {
            chat: chat(),
            channel: Channel::Telegram,
            chat_id: "42".into(),
            user_id: "42".into(),
            message_id: MessageId::number(self.said),
            ts: self.clock.now(),
            form_ts: None,
            role: Role::User,
            kind: Kind::Normal,
            parts: vec![Part::text(&text[..300])],
            metadata: metadata.as_object().unwrap().clone(),
            album: None,
            asks,
            opens_session: false,
            person: None,
        }
    }

    /// Twenty minutes pass, with what is on a schedule.
    async fn pass(&mut self) {
        self.clock.advance(PACE);
        if self.clock.now() < self.next_sweep {
            return;
        }
        self.next_sweep = self.clock.now().plus(Duration::from_hours(6));
        let due = self.history.due(shard_of(&chat()), self.clock.now(), 1, None).await.unwrap();
        if !due.chats.is_empty() {
            let report = self.compactor.run(self.next_sweep).await;
            assert_eq!((report.visited, report.failed), (1, 0));
        }
        self.sweep().await;
    }

    /// Deletes what has expired, as the table's TTL does.
    async fn sweep(&self) {
        let now = self.clock.now().as_millis() / 1000;
        for record in self.history.range(&chat(), None).await.unwrap() {
            if record.expires_at.unwrap() >= now {
                continue;
            }
            let text = |value: String| AttributeValue::S(value);
            let delete = self.stores.dynamodb.delete_item().table_name(TABLE);
            let delete =
                delete.key("pk", text(record.chat.to_string())).key("sk", text(record.key.to_string()));
            delete.send().await.unwrap();
        }
    }

    /// Everybody falls silent, all is archived and leaves the table.
    async fn fall_silent(&mut self) {
        self.clock.advance(Duration::from_hours(24 * 20));
        Box::pin(self.compactor.upkeep.visit(&chat())).await.unwrap();
        self.sweep().await;
    }

    /// Appends without the unit that registers the chat, once in 18 hours.
    async fn append_unregistered(&mut self, draft: &Draft) {
        let before = self.next_message(false);
        self.history.append(&before).await.unwrap();
        self.take();
        self.history.append(draft).await.unwrap();
    }

    async fn turn(&mut self) -> Consumed {
        let draft = self.next_message(true);
        self.history.append(&draft).await.unwrap();
        self.take();
        Box::pin(self.agent.run(&draft.chat, Some(&draft.key()))).await.unwrap();
        self.take()
    }

    async fn say_a_stretch(&mut self) {
        for _ in 0..STRETCH {
            self.clock.advance(Duration::from_secs(10));
            let draft = self.next_message(false);
            self.history.append(&draft).await.unwrap();
        }
    }

    /// `/compact`: the summaries that it takes, the reading of what they sum up included, the claim and the end not.
    async fn compact(&mut self) -> Consumed {
        let Claim::Claimed(mut lease) = self.history.claim(&chat(), Duration::from_mins(5)).await.unwrap()
        else {
            panic!("the chat is busy")
        };
        let compaction = Compaction {
            history: self.history.clone(),
            model: Model::Echo,
            view: self.agent.view,
            agent_id: "annals".into(),
            metrics: Metrics::default(),
        };
        self.take();
        loop {
            let seen =
                self.history.context(&chat(), &lease.head, None, &self.agent.view.policy(0)).await.unwrap();
            let Some(compacted) =
                Box::pin(compaction.run(&lease, &seen.records, Why::Asked, None)).await.unwrap()
            else {
                break;
            };
            lease.head.context_from = compacted.context_from;
            lease.head.longest_segment.get_or_insert_default();
            if !compacted.leaves_more {
                break;
            }
        }
        let consumed = self.take();
        self.history.finish(&lease, &Ending::default()).await.unwrap().unwrap();
        self.take();
        consumed
    }

    async fn remember(&self) {
        let (memory, owner) = (Memory::beside(&self.history), Owner::User("telegram-42".into()));
        for number in 0..ENTRIES / 8 {
            let id = MessageId::number(number);
            let key = SortKey::message(Timestamp::from_secs(START), &id);
            let source = Source {
                session: Source::session_id(
                    &chat(),
                    Timestamp::from_secs(START).plus(Duration::from_secs(number)),
                ),
                chat: chat(),
                from: key.clone(),
                to: key,
                from_id: id.clone(),
                to_id: id,
            };
            let finding = |place: u64| Finding {
                kind: EntryKind::Fact,
                text: format!(
                    "The plum tree number {} stands beside shed {}.",
                    number * 8 + place,
                    place * 37
                ),
                outside: Vec::new(),
            };
            memory.capture(&owner, &source, &(0..8).map(finding).collect::<Vec<_>>()).await.unwrap();
        }
        self.take();
    }
}

fn chat() -> ChatKey {
    ChatKey::telegram(42, None)
}
