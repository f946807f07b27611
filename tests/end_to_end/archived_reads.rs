//! Reading what was archived: pages, exports and the routes, with and without the raw records.

use std::collections::BTreeMap;
use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::message::Part;
use annals_core::record::{DeliveryFailure, Record};
use annals_core::sort_key::SortKey;
use annals_store::history::{History, Position, ToArchive};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{APP_KEY, Answer, NOW, TestApp, lines};
use crate::world::{self, EVERYTHING, World, chat, claim, message, reply};

/// Returns the whole history of `chat`, read in pages of `limit` from its newest.
async fn paged_back(history: &History, chat: &ChatKey, limit: usize) -> Vec<Record> {
    let (mut position, mut records) = (Position::Newest, Vec::new());
    loop {
        let page = history.page(chat, &position, limit).await.unwrap();
        assert!(page.records.len() <= limit);
        records.splice(0..0, page.records);
        let Some(before) = page.before else { return records };
        position = Position::Before(before);
    }
}

/// One event in the life of a chat.
#[derive(Clone, Debug)]
enum Step {
    /// A message is said under the new name or the old one, at this time.
    Say { is_new: bool, ts: i64 },
    /// All records up to this time are archived.
    Archive { is_new: bool, up_to: i64 },
    /// Days pass.
    Wait,
    /// The TTL deletes some of what has expired, in an order of its own.
    Expire(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (any::<bool>(), 0..400_i64).prop_map(|(is_new, ts)| Step::Say { is_new, ts }),
        2 => (any::<bool>(), 0..500_i64).prop_map(|(is_new, up_to)| Step::Archive { is_new, up_to }),
        1 => Just(Step::Wait),
        1 => any::<u64>().prop_map(Step::Expire),
    ];
    prop::collection::vec(step, 1..60)
}

async fn check(world: &World, case: usize, steps: &[Step]) -> Result<(), TestCaseError> {
    let history = world.another_process();
    let (old, new) = (chat(2 * case), chat(2 * case + 1));
    history.rename(&old, &new, world.clock.now()).await.unwrap();
    let name = |is_new: &bool| if *is_new { &new } else { &old };
    let mut said: BTreeMap<(bool, SortKey), Record> = BTreeMap::new();
    let mut archived: Vec<(bool, SortKey)> = Vec::new();
    for (id, step) in steps.iter().enumerate() {
        match step {
            Step::Say { is_new, ts } => {
                let draft = message(name(is_new), id as u64, *ts, &format!("message {id}"));
                history.append(&draft).await.unwrap();
                for record in history.message(name(is_new), &draft.key()).await.unwrap() {
                    said.insert((*is_new, record.key.clone()), record);
                }
            }
            Step::Archive { is_new, up_to } => {
                let lease = claim(&history, name(is_new)).await;
                let up_to = message(name(is_new), 0, *up_to, "").key();
                let which = ToArchive { up_to: Some(up_to.clone()), ..EVERYTHING };
                let done = history.archive_all(&lease, &which).await.unwrap();
                prop_assert!(done.finished);
                history.release(&lease).await.unwrap();
                archived.extend(said.keys().filter(|(name, key)| name == is_new && *key <= up_to).cloned());
            }
            Step::Wait => world.clock.advance(Duration::from_hours(100)),
            Step::Expire(which) => {
                let now = world.clock.now().as_millis() / 1000;
                for (index, place) in archived.iter().enumerate() {
                    let record = &said[place];
                    if record.expires_at.unwrap() <= now && which >> (index % 64) & 1 == 1 {
                        world.expire(record).await;
                    }
                }
            }
        }
    }
    let expected: Vec<Record> = said.into_values().collect();
    for limit in [1, 3, 200] {
        let back = paged_back(&world.another_process(), &new, limit).await;
        prop_assert_eq!(&back, &expected, "pages of {}, from the newest", limit);
        let forward = world::listed(&world.another_process(), &new, limit).await;
        prop_assert_eq!(&forward, &expected, "pages of {}, from the oldest", limit);
    }
    // The segments of both names, in each of which no record is twice.
    world::archived(&history, &old).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_from_a_message_on_are_found_up_to_a_bound() {
    const COUNT: u64 = 1_005;
    let world = World::new().await;
    let said = |id: u64| world.message(id, i64::try_from(id).unwrap(), "hello");
    for id in 0..COUNT {
        world.append(&said(id)).await;
    }
    let from = async |id: u64, most: usize| {
        let read = world.another_process().records_from(&world.chat, &said(id).key(), most, |_| true).await;
        read.unwrap().map(|records| records.len() as u64)
    };
    assert_eq!(from(COUNT - 5, 6).await, Some(5));
    assert_eq!(from(COUNT - 5, 5).await, None, "there may be more behind a full page");
    assert_eq!(from(0, 1_000).await, None);
    assert_eq!(from(0, 1_001).await, Some(COUNT), "whole pages");
    // What was archived counts as well.
    world.archive_everything().await;
    world.clock.advance(Duration::from_hours(240));
    world.expire_due().await;
    assert_eq!(from(COUNT - 5, 6).await, Some(5));
    assert_eq!(from(0, 2_000).await, Some(COUNT));
    assert_eq!(from(0, 1_000).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_show_all_records_whether_archived_or_expired() {
    let world = World::new().await;
    let runtime = tokio::runtime::Handle::current();
    let case = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(Config { cases: 40, failure_persistence: None, ..Config::default() });
    tokio::task::block_in_place(|| {
        runner.run(&steps(), |steps| {
            case.set(case.get() + 1);
            runtime.block_on(check(&world, case.get(), &steps))
        })
    })
    .unwrap();
}

#[tokio::test]
async fn a_page_reads_no_segment_that_has_nothing_to_add() {
    let world = World::new().await;
    let chat = world.chat.clone();
    // Forty days of a lively chat, each day archived on its own.
    for day in 0..40_u64 {
        for id in 0..10 {
            world.say(day * 10 + id, (day * 86_400_000 + id * 1000).cast_signed(), "hello").await;
        }
        world.clock.advance(Duration::from_hours(24));
        world.archive_everything().await;
    }
    let records = world.records().await;
    let page = async |position: &Position| {
        let history = world.counted();
        let page = history.0.page(&chat, position, 50).await.unwrap();
        (page, history.1.take())
    };
    let (newest, requests) = page(&Position::Newest).await;
    assert_eq!(newest.records, records[350..]);
    assert_eq!(requests, 3, "the head, the records, the pointers");

    world.expire_due().await;
    assert_eq!(world.records().await.len(), 80, "eight days of forty");
    let (again, requests) = page(&Position::Newest).await;
    assert_eq!((again.records.as_slice(), requests), (&records[350..], 3));

    // A page in the middle of what is archived: its five segments and the one that tells that there is more.
    let cursor = world.history.page(&chat, &Position::Newest, 150).await.unwrap().before.unwrap();
    let before = Position::Before(cursor);
    let (middle, requests) = page(&before).await;
    assert_eq!(middle.records, records[200..250]);
    assert_eq!(requests, 3 + 6);
    let (oldest, requests) = page(&Position::Oldest).await;
    assert_eq!(oldest.records, records[..50]);
    assert_eq!(requests, 3 + 6);

    // An export reads each segment once, and only those whose records may be gone.
    let (history, counter) = world.counted();
    world.meter.take();
    assert_eq!(world::listed(&history, &chat, 7).await, records);
    let of_s3 = counter.take() - usize::try_from(world.meter.take().calls).unwrap();
    assert_eq!((of_s3, history.segments(&chat).await.unwrap().len()), (32, 40));
}

#[tokio::test]
async fn large_bodies_stay_outside_and_a_failure_noted_later_is_shown() {
    let world = World::new().await;
    let large = "x".repeat(400 * 1024);
    let first = world.ask(1, 1, &large).await;
    world.history.append_reply(&world.chat, reply(&[first], 1, "hi")).await.unwrap();
    world.archive_everything().await;
    let info = world.segments().await.remove(0);
    assert!(info.json_bytes < 2000, "{info:?}");

    let reply = world.records().await.remove(1);
    let failure = DeliveryFailure { reason: "gone".into(), at: world.clock.now() };
    world.history.note_delivery_failure(&reply.chat, &reply.key, &failure).await.unwrap();
    world.clock.advance(Duration::from_hours(300));
    let read = world.listed().await;
    assert_eq!(read[1].delivery_failure(), Some(&failure), "the table's copy counts");

    world.expire_all().await;
    let read = world.listed().await;
    assert_eq!(read[0].message.parts, [Part::text(large)]);
    assert_eq!(read[1], reply);
}

#[tokio::test]
async fn routes_show_the_segments() {
    const CHAT: &str = "http:chat:app:c1";
    let app = TestApp::builder().start().await;
    let post = async |id: &str, ts: i64| {
        let body =
            json!({"userId": "ada", "text": format!("I am {id}"), "messageId": id, "ts": NOW * 1000 + ts});
        app.say("c1", &body).await;
    };
    let get = async |path: &str, key: &str| app.call(Method::GET, path, key).await;
    let none = get("/v1/chats/c1/segments", APP_KEY).await;
    assert_eq!((none.status.as_u16(), none.body), (200, json!({"segments": []})));

    post("m1", 1).await;
    post("m2", 2).await;
    app.archive_everything(CHAT).await;
    post("m3", 3).await;
    post("late", 0).await;
    app.archive_everything(CHAT).await;
    let exported = app.history(CHAT).await;

    let listed = get("/v1/chats/c1/segments", APP_KEY).await.body["segments"].as_array().unwrap().clone();
    let ends = |segment: &Value| json!([segment["fromId"], segment["toId"], segment["count"]]);
    let ends: Vec<Value> = listed.iter().map(ends).collect();
    assert_eq!(ends, [json!(["late", "m3/reply", 4]), json!(["m1", "m2/reply", 4])]);
    assert!(listed.iter().all(|segment| segment["bytes"].as_u64().unwrap() > 100));
    assert!(listed.iter().all(|segment| segment["createdAt"] == app.clock().now().as_millis()));
    assert_eq!(listed[0].as_object().unwrap().len(), 6);

    let mut read = Vec::new();
    for segment in &listed {
        let path = format!("/v1/chats/c1/segments/{}", segment["id"].as_str().unwrap());
        read.extend(app.export_of(&path, APP_KEY).await);
        assert_eq!(get(&path, "other-secret").await.status, 404);
        assert_eq!(Answer::of(app.request(Method::GET, &path)).await.status, 401);
    }
    assert_eq!(lines(&read)[..2], lines(&exported)[..2]);
    read.sort_by_key(|message| exported.iter().position(|other| other == message).unwrap());
    assert_eq!(read, exported);
    for id in ["1795305512000-0123456789abcdef", "nothing", "%FF"] {
        let answer = get(&format!("/v1/chats/c1/segments/{id}"), APP_KEY).await;
        assert_eq!(answer.status, if id == "%FF" { 400 } else { 404 });
        assert_eq!(answer.content_type, "application/problem+json");
    }

    // With nothing left in the table all reads the same.
    app.leave_the_table(CHAT).await;
    assert_eq!(app.records(CHAT).await, []);
    assert_eq!(app.history(CHAT).await, exported);
    assert_eq!(app.export_of("/v1/chats/c1/messages", APP_KEY).await, exported);
    app.finish().await;
}
