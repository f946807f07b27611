//! The index of due chats, and the compactor's runs over it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::Duration;

use annals_compactor::{Compactor, Report};
use annals_core::chat_key::ChatKey;
use annals_core::draft::Draft;
use annals_core::sort_key::{MessageId, Timestamp};
use annals_engine::upkeep::{UpkeepError, Visited};
use annals_local::stores::{Stores, TABLE};
use annals_store::history::due::{Due, Entry, SHARDS, shard_of};
use annals_store::history::turn::Claim;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};

use crate::meter::Consumed;
use crate::world::{self, A_LIFE, World, claim};

/// Start of a world, in epoch seconds.
pub(crate) const START: i64 = world::START / 1000;
/// Time from an append until its chat is due, with the default settings.
pub(crate) const D: Duration = Duration::from_hours(36);
const NOTHING: Visited = Visited {
    archived: 0,
    segments: 0,
    summaries: 0,
    captured: 0,
    next: None,
    spoken_at: None,
    finished: true,
};

impl World {
    /// Appends a message of now to one of many chats.
    pub(crate) async fn say_in(&self, chat: i64, number: u64) {
        self.append(&message(chat, number, self.clock.now())).await;
    }

    /// Appends a message by a process that is no more then: it registers its chat.
    pub(crate) async fn say_by_another(&self, chat: i64, number: u64) {
        self.another_process().append(&message(chat, number, self.clock.now())).await.unwrap();
    }

    /// Returns the index's entry of `chat`, if it is due now.
    pub(crate) async fn due(&self, chat: i64) -> Option<Due> {
        let chat = key(chat);
        let page = self.history.due(shard_of(&chat), self.clock.now(), 1000, None).await.unwrap();
        assert!(page.next.is_none());
        page.chats.into_iter().find(|due| due.chat == chat)
    }

    async fn all_due(&self) -> usize {
        let mut count = 0;
        for shard in 0..SHARDS {
            count += self.history.due(shard, self.clock.now(), 10_000, None).await.unwrap().chats.len();
        }
        count
    }
}

pub(crate) fn key(chat: i64) -> ChatKey {
    ChatKey::telegram(chat, None)
}

fn message(chat: i64, number: u64, ts: Timestamp) -> Draft {
    Draft { ts, ..world::message(&key(chat), number, 0, "hello") }
}

fn sort_key(secs: i64, number: u64) -> String {
    format!("{secs}000#{number:020}")
}

#[tokio::test]
async fn a_record_registers_its_chat_until_it_is_settled() {
    let world = World::new().await;
    world.say_in(1, 1).await;
    world.clock.advance(Duration::from_secs(18 * 3600 - 1));
    world.say_in(1, 2).await;
    world.clock.advance(Duration::from_secs(1));
    world.say_in(1, 3).await;
    world.clock.advance(Duration::from_millis(18 * 3_600_000 - 1));
    assert_eq!(world.due(1).await, None, "the chat is due too early");
    world.clock.advance(Duration::from_millis(1));
    let first = Entry { key: sort_key(START, 1), due_at: START + 36 * 3600 };
    let due = world.due(1).await.unwrap();
    assert_eq!(due.entries, std::slice::from_ref(&first), "another entry than the first is due");
    assert_eq!(due.due_at(), Timestamp::from_secs(START + 36 * 3600));

    world.clock.advance(Duration::from_hours(18));
    let third = Entry { key: sort_key(START + 18 * 3600, 3), due_at: START + 54 * 3600 };
    assert_eq!(world.due(1).await.unwrap().entries, [first.clone(), third.clone()]);

    // Only what was seen at its date is settled.
    let elsewhen = Entry { due_at: third.due_at - 1, ..third.clone() };
    let never = Entry { key: sort_key(START, 99), due_at: START };
    world.history.settle(&key(1), &[first, elsewhen, never], None, None).await.unwrap();
    assert_eq!(world.due(1).await.unwrap().entries, std::slice::from_ref(&third));
    assert_eq!(world.history.range(&key(1), None).await.unwrap().len(), 3);
    world.history.settle(&key(1), &[third], None, None).await.unwrap();
    assert_eq!(world.due(1).await, None);
}

#[tokio::test]
async fn a_head_keeps_the_date_of_the_next_visit_and_since_when_the_chat_waits() {
    let world = World::new().await;
    let hours = |hours: i64| Timestamp::from_secs(START + hours * 3600);
    let head = |due_at: i64| Entry { key: "!head".into(), due_at: START + due_at * 3600 };
    world.say_in(1, 1).await;
    world.clock.advance(D);

    // Put off, twice, by what failed: the record has left the index, the chat has not.
    let entries = world.due(1).await.unwrap().entries;
    assert_eq!(world.history.put_off(&key(1), &entries, hours(37)).await.unwrap(), hours(36));
    assert_eq!(world.due(1).await, None);
    world.clock.advance(Duration::from_hours(1));
    assert_eq!(world.due(1).await.unwrap().entries, [head(37)]);
    assert_eq!(world.history.put_off(&key(1), &[head(37)], hours(38)).await.unwrap(), hours(36));

    // Then visited, with another visit to come; asking for a later one changes nothing, for an earlier one it does.
    world.clock.advance(Duration::from_hours(1));
    world.history.settle(&key(1), &[head(38)], Some(hours(60)), None).await.unwrap();
    assert_eq!(world.due(1).await, None);
    world.history.ask_for_visit(&key(1), hours(70)).await.unwrap();
    world.history.ask_for_visit(&key(1), hours(50)).await.unwrap();
    world.clock.advance(Duration::from_hours(12));
    assert_eq!(world.due(1).await.unwrap().entries, [head(50)]);

    // It waits since then, and no longer since its first date.
    assert_eq!(world.history.put_off(&key(1), &[head(50)], hours(51)).await.unwrap(), hours(50));
    world.clock.advance(Duration::from_hours(1));
    world.history.settle(&key(1), &[head(50)], None, None).await.unwrap();
    assert_eq!(world.due(1).await.unwrap().entries, [head(51)], "another's date was settled");
    world.history.settle(&key(1), &[head(51)], None, None).await.unwrap();
    world.clock.advance(Duration::from_hours(1000));
    assert_eq!(world.due(1).await, None);
}

#[tokio::test]
async fn the_due_index_costs_these_units() {
    let world = World::new().await;
    let units = |read_units, write_units, calls| Consumed { read_units, write_units, calls };
    let cost = || world.meter.take();
    world.say_in(1, 1).await;
    assert_eq!(cost(), units(0.0, 2.0, 1), "the record and its entry");
    world.clock.advance(D);
    let entries = world.due(1).await.unwrap().entries;
    assert_eq!(cost(), units(0.5, 0.0, 1), "a shard, of up to 4 KB of keys");
    world.history.put_off(&key(1), &entries, world.in_an_hour()).await.unwrap();
    // Head and record with their entries, and the chat's new place, in a transaction after a refused update.
    assert_eq!(cost(), units(0.0, 10.0, 4));
    world.history.claim(&key(1), Duration::from_mins(5)).await.unwrap();
    assert_eq!(cost(), units(0.0, 1.0, 1), "a run's write to a head that is an entry changes no entry");
    world.clock.advance(Duration::from_hours(1));
    let entries = world.due(1).await.unwrap().entries;
    world.meter.take();
    world.history.settle(&key(1), &entries, Some(world.in_an_hour()), None).await.unwrap();
    assert_eq!(cost(), units(0.0, 3.0, 1), "an entry that moves is two");
    world.clock.advance(Duration::from_hours(1));
    let entries = world.due(1).await.unwrap().entries;
    world.meter.take();
    world.history.settle(&key(1), &entries, None, None).await.unwrap();
    assert_eq!(cost(), units(0.0, 2.0, 1));
}

#[tokio::test]
async fn a_run_visits_each_due_chat_once_the_oldest_first() {
    let world = World::new().await;
    for chat in 0..60 {
        world.say_in(chat, 1).await;
        world.clock.advance(Duration::from_secs(2));
    }
    world.say_by_another(7, 2).await;
    world.clock.advance(Duration::from_mins(36 * 60 - 1));
    let visits = RefCell::new(Vec::new());
    let visit = |chat: ChatKey| {
        visits.borrow_mut().push(chat);
        async { Ok(Visited { archived: 3, segments: 1, summaries: 1, captured: 2, ..NOTHING }) }
    };
    let one_by_one = Compactor { parallel: 1, ..world.compactor() };
    let report = one_by_one.run_visiting(world.in_an_hour(), visit).await;
    // The last thirty, of one minute, are not due yet.
    assert_eq!(visits.take(), (0..=30).map(key).collect::<Vec<_>>());
    let expected =
        Report { visited: 31, archived: 93, segments: 31, summaries: 31, captured: 62, ..Report::default() };
    assert_eq!(report, expected);
    assert_eq!(world.all_due().await, 0);
    let again = one_by_one.run_visiting(world.in_an_hour(), visit).await;
    assert_eq!((again, visits.take().len()), (Report::default(), 0));

    world.clock.advance(Duration::from_mins(2));
    assert_eq!(one_by_one.run_visiting(world.in_an_hour(), visit).await.visited, 30);
    assert!(visits.take().contains(&key(7)), "the chat with a later message was not visited again");
}

/// The usage of a day finds the replies of that day by the chat's place in the list.
#[tokio::test]
async fn a_visit_leaves_a_chat_at_the_place_of_its_last_occurrence() {
    let world = World::new().await;
    world.say(1, 0, "hello").await;
    let at = world.clock.now().plus(Duration::from_hours(1));
    let due = annals_core::schedule::due::Due {
        id: "news".to_owned().try_into().unwrap(),
        at,
        to: "1".into(),
        recurs: false,
    };
    let mut occurrence = world.message(2, 3_600_000, "News?").asking(true);
    occurrence.metadata.set_due(&due);
    world.append(&occurrence).await;
    world.clock.advance(Duration::from_hours(2));
    let visited = world.upkeep().visit(&world.chat).await.unwrap();
    assert_eq!(visited.spoken_at, Some(occurrence.ts));
}

#[tokio::test]
async fn a_chat_with_more_entries_than_a_page_is_visited_for_each_page_and_settled() {
    let world = World::new().await;
    for number in 0..130 {
        world.say_by_another(1, number).await;
    }
    world.say_in(2, 1).await;
    world.clock.advance(D);
    let visits = RefCell::new(Vec::new());
    let next = world.clock.now().plus(Duration::from_hours(3));
    let report = world
        .compactor()
        .run_visiting(world.in_an_hour(), |chat| {
            visits.borrow_mut().push(chat);
            async move { Ok(Visited { next: Some(next), ..NOTHING }) }
        })
        .await;
    assert_eq!((report.visited, visits.take().len()), (3, 3));
    assert_eq!(world.all_due().await, 0, "an entry was not settled");
    world.clock.advance(Duration::from_hours(3));
    let entries = world.due(1).await.unwrap().entries;
    assert_eq!(entries, [Entry { key: "!head".into(), due_at: next.as_millis() / 1000 }]);
}

#[tokio::test]
async fn chats_that_fail_hold_no_other_and_come_again() {
    let world = World::new().await;
    // The first that are due, and more of them than are visited side by side.
    for chat in 0..60 {
        if chat == 40 {
            world.clock.advance(Duration::from_secs(1));
        }
        world.say_in(chat, 1).await;
    }
    world.clock.advance(D);
    let visits = RefCell::new(Vec::new());
    let is_well = Cell::new(false);
    let visit = |chat: ChatKey| {
        let number: i64 = chat.chat_id().parse().unwrap();
        visits.borrow_mut().push(chat);
        let breaks = number < 40 && !is_well.get();
        async move {
            match number % 4 {
                _ if !breaks => Ok(NOTHING),
                0 => Err(UpkeepError::Busy { until: Timestamp::MAX }),
                1 => Err(UpkeepError::Compaction(annals_model::ModelError::Empty.into())),
                2 => panic!("a poisoned chat"),
                _ => std::future::pending().await,
            }
        }
    };
    let compactor = Compactor { patience: Duration::from_millis(100), ..world.compactor() };
    let report = compactor.run_visiting(world.in_an_hour(), visit).await;
    assert_eq!((report.visited, report.failed, report.busy, report.left), (20, 30, 10, 0));
    assert_eq!(report.oldest_overdue, Duration::from_secs(1));
    assert_eq!(visits.take().len(), 60);
    assert_eq!(world.all_due().await, 0, "a failed chat was not put off");

    // The next run has all of its time for the others.
    world.say_by_another(99, 1).await;
    let report = compactor.run_visiting(world.in_an_hour(), visit).await;
    assert_eq!((report, visits.take().len()), (Report::default(), 0));

    world.clock.advance(Duration::from_mins(30));
    let report = compactor.run_visiting(world.in_an_hour(), visit).await;
    assert_eq!((report.visited, report.failed, report.busy), (0, 30, 10));
    assert_eq!(report.oldest_overdue, Duration::from_secs(1 + 30 * 60), "since the first date");

    is_well.set(true);
    world.clock.advance(Duration::from_mins(30));
    let report = compactor.run_visiting(world.in_an_hour(), visit).await;
    assert_eq!((report.visited, report.failed, report.oldest_overdue), (40, 0, Duration::ZERO));
    world.clock.advance(Duration::from_hours(1));
    assert_eq!(world.all_due().await, 0);
}

#[tokio::test]
async fn a_chat_that_a_run_has_is_left_to_it() {
    let world = World::new().await;
    world.say_in(1, 1).await;
    world.say_in(2, 1).await;
    world.clock.advance(D);
    let lease = claim(&world.history, &key(1)).await;
    let report = world.run_compactor().await;
    assert_eq!((report.visited, report.busy, report.failed), (1, 1, 0));
    // The run's own writes to the head neither see nor disturb the entry in it.
    world.history.release(&lease).await.unwrap();
    assert_eq!(world.all_due().await, 0);
    world.clock.advance(Duration::from_mins(5));
    assert_eq!(world.due(1).await.unwrap().entries[0].key, "!head");
    let report = world.run_compactor().await;
    assert_eq!((report.visited, report.busy, report.oldest_overdue), (1, 0, Duration::ZERO));
}

#[tokio::test]
async fn a_run_ends_in_time_and_the_next_goes_on() {
    let world = World::new().await;
    for chat in 0..80 {
        world.say_in(chat, 1).await;
        world.clock.advance(Duration::from_secs(1));
    }
    world.clock.advance(D);
    let visits = RefCell::new(Vec::new());
    let visit = |chat: ChatKey| {
        visits.borrow_mut().push(chat);
        let clock = world.clock.clone();
        async move {
            clock.advance(Duration::from_secs(1));
            Ok(NOTHING)
        }
    };
    let one_by_one = Compactor { parallel: 1, ..world.compactor() };
    let deadline = world.clock.now().plus(Duration::from_secs(20));
    let report = one_by_one.run_visiting(deadline, visit).await;
    assert_eq!((report.visited, report.left, report.duration.as_secs()), (20, 60, 20));
    // The 21st came due 60 s before the run's start.
    assert_eq!(report.oldest_overdue, Duration::from_secs(60 + 20));
    assert_eq!(visits.take(), (0..20).map(key).collect::<Vec<_>>());

    let few = Compactor { most: 15, ..one_by_one.clone() };
    assert_eq!(few.run_visiting(world.in_an_hour(), visit).await.visited, 15);
    assert_eq!(visits.take(), (20..35).map(key).collect::<Vec<_>>());

    let report = one_by_one.run_visiting(world.in_an_hour(), visit).await;
    assert_eq!((report.visited, report.left, report.oldest_overdue), (45, 0, Duration::ZERO));
    assert_eq!(visits.take(), (35..80).map(key).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_unfinished_visit_is_continued_by_the_next() {
    let world = World::new().await;
    world.say_in(1, 1).await;
    world.clock.advance(D + Duration::from_hours(1));
    let visit = |finished| move |_: ChatKey| async move { Ok(Visited { finished, archived: 1, ..NOTHING }) };
    let compactor = world.compactor();
    for hour in 1..4 {
        let report = compactor.run_visiting(world.in_an_hour(), visit(false)).await;
        assert_eq!((report.visited, report.archived, report.failed), (1, 1, 0));
        assert_eq!(report.oldest_overdue, Duration::from_hours(hour), "it still counts as overdue");
        world.clock.advance(Duration::from_hours(1));
    }
    let report = compactor.run_visiting(world.in_an_hour(), visit(true)).await;
    assert_eq!((report.visited, report.oldest_overdue), (1, Duration::ZERO));
    assert_eq!(compactor.run_visiting(world.in_an_hour(), visit(true)).await, Report::default());
}

/// A visit stores 25 segments.
#[tokio::test]
async fn a_chat_with_more_segments_than_one_visit_stores_is_visited_by_the_next_run() {
    let world = World::with(&[("MEMORY", "off")]).await;
    let life = i64::try_from(A_LIFE.as_millis()).unwrap();
    for id in 1..=27_u64 {
        // So far from the others that it gets a segment of its own.
        world.say(id, -id.cast_signed() * life, "hello").await;
    }
    world.clock.advance(D + Duration::from_hours(1));
    assert_eq!(world.run_compactor().await.segments, 25);
    world.clock.advance(Duration::from_mins(15));
    assert_eq!(world.run_compactor().await.segments, 2);
}

#[tokio::test]
async fn expired_records_are_swept_after_their_chat_was_visited() {
    let world = World::new().await;
    let expiry = Duration::from_hours(48 + 168);
    world.say_in(1, 1).await;
    world.say_in(2, 1).await;
    world.say_in(3, 1).await;
    world.history.first_time(&key(2), &MessageId::number(1), world.clock.now()).await.unwrap();
    world.clock.advance(expiry);
    world.say_by_another(2, 2).await;
    let swept = async || world.sweep().await;
    assert_eq!(swept().await, 0, "a record was deleted in the second of its expiry");
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(swept().await, 0, "a record was deleted before its chat was visited");

    let visit = |chat: ChatKey| async move {
        if chat == key(3) { Err(UpkeepError::Busy { until: Timestamp::MIN }) } else { Ok(NOTHING) }
    };
    world.compactor().run_visiting(world.in_an_hour(), visit).await;
    assert_eq!(swept().await, 2, "other than the two records were deleted");
    for (chat, left) in [(1, vec![]), (2, vec!["2"]), (3, vec!["1"])] {
        let records = world.history.range(&key(chat), None).await.unwrap();
        let ids: Vec<&str> = records.iter().map(|record| record.message_id.as_str()).collect();
        assert_eq!(ids, left, "chat {chat}");
    }
    let marked = world.history.first_time(&key(2), &MessageId::number(1), Timestamp::MAX).await.unwrap();
    assert_eq!(marked, Timestamp::from_secs(START), "the marker is gone, or has another time");
    assert_eq!(swept().await, 0);
}

#[tokio::test]
async fn the_data_of_an_earlier_version_is_indexed_and_its_chats_are_due() {
    let world = World::new().await;
    let dynamodb = &world.stores.dynamodb;
    dynamodb.delete_table().table_name(TABLE).send().await.unwrap();
    let mut old = dynamodb.create_table().table_name(TABLE).billing_mode(BillingMode::PayPerRequest);
    for (name, key_type) in [("pk", KeyType::Hash), ("sk", KeyType::Range)] {
        let definition = AttributeDefinition::builder().attribute_name(name);
        let definition = definition.attribute_type(ScalarAttributeType::S).build().unwrap();
        let schema = KeySchemaElement::builder().attribute_name(name).key_type(key_type).build().unwrap();
        old = old.attribute_definitions(definition).key_schema(schema);
    }
    old.send().await.unwrap();
    let sent_at = HashMap::from([(1_i64, [START - 90, START - 50]), (2, [START - 70, START - 80])]);
    for (chat, times) in &sent_at {
        for (number, sent_at) in times.iter().enumerate() {
            let put = dynamodb.put_item().table_name(TABLE);
            let put = put.item("pk", AttributeValue::S(key(*chat).to_string()));
            let put = put.item("sk", AttributeValue::S(sort_key(START - 100, number as u64)));
            let put = put.item("sentAt", AttributeValue::N((sent_at * 1000).to_string()));
            put.send().await.unwrap();
        }
    }
    // A head that is there keeps what it has.
    let lease = world.history.claim(&key(2), Duration::from_mins(5)).await.unwrap();
    assert!(matches!(lease, Claim::Claimed(_)));

    // Another process, since an engine knows its tables from its start.
    let world = world.reopened().await;
    let head = |due_at| vec![Entry { key: "!head".into(), due_at }];
    assert_eq!(world.due(1).await.unwrap().entries, head(START - 50));
    assert_eq!(world.due(2).await.unwrap().entries, head(START - 70));
    assert!(matches!(world.history.claim(&key(2), D).await.unwrap(), Claim::Busy(_)));
    // Once is enough.
    world.history.settle(&key(1), &head(START - 50), None, None).await.unwrap();
    Stores::open(world.folder()).await.unwrap();
    assert_eq!(world.due(1).await, None);
}
