//! Archiving: each record is in one segment in the end, also if a run is overtaken at any request. `stopped.rs` kills it at each.

use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_store::history::turn::Claim;
use annals_store::history::{
    Archived, History, HistoryError, MAX_SEGMENT_BYTES, MAX_SEGMENT_RECORDS, SegmentError, ToArchive,
};

use crate::faults::{Faults, Plan};
use crate::world::{EVERYTHING, LEASE, World, archived, chat, claim, message, records_of};

/// Each record of the table is in one segment, as it is; and S3 holds no other segments.
async fn assert_archived_once(world: &World, chat: &ChatKey, what: &str) {
    let history = world.another_process();
    let segments = history.segments(chat).await.unwrap();
    for info in &segments {
        let records = records_of(&history, info).await;
        assert_eq!(records.len(), usize::try_from(info.count).unwrap(), "{what}");
        assert_eq!((&records[0].key, &records[records.len() - 1].key), (&info.from, &info.to), "{what}");
    }
    let held = archived(&history, chat).await;
    let stored = history.range(chat, None).await.unwrap();
    assert_eq!(held.into_values().collect::<Vec<_>>(), stored, "{what}");
    let archive = history.head(chat).await.unwrap().archive;
    assert!(archive.is_none_or(|archive| archive.storing.is_none()), "{what}");
    let folder = format!("segments/{}/", chat.session_id());
    let objects = world.segment_objects(&folder).await;
    assert_eq!(objects.len(), segments.len(), "{what}: {objects:?}");
    assert_eq!(world.objects(&folder).await.len(), 2 * segments.len(), "{what}: each with its index");
}

/// Archives as a compactor does: the older half, then the rest. Ends if a request fails or another run holds the chat.
async fn work(history: &History, chat: &ChatKey) -> Option<()> {
    let Claim::Claimed(lease) = history.claim(chat, LEASE).await.ok()? else { return None };
    let half = ToArchive { up_to: Some(message(chat, 4, 4_000, "").key()), ..EVERYTHING };
    history.archive_all(&lease, &half).await.ok()?;
    history.archive_all(&lease, &EVERYTHING).await.ok()?;
    history.release(&lease).await.ok()
}

async fn fill(history: &History, chat: &ChatKey) {
    for id in 1..=8_u64 {
        let ts = i64::try_from(id).unwrap() * 1000;
        history.append(&message(chat, id, ts, &format!("message {id}"))).await.unwrap();
    }
}

/// Late messages before, between and after those that are archived already or just now.
async fn come_late(history: &History, chat: &ChatKey) {
    for (id, ts) in [(100, 500), (101, 2_500), (102, 6_500), (103, 9_500)] {
        history.append(&message(chat, id, ts, "late")).await.unwrap();
    }
}

/// A run that is thought dead goes on later, from each of its requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_run_that_was_overtaken_changes_nothing() {
    let world = World::new().await;
    let (history, counter) = world.counted();
    fill(&history, &chat(0)).await;
    counter.take();
    work(&history, &chat(0)).await.unwrap();
    for request in 2..=counter.take() {
        for is_late in [false, true] {
            let (chat, what) = (chat(2 * request + usize::from(is_late)), format!("{request}, {is_late}"));
            fill(&history, &chat).await;
            let (faults, stall) = Faults::stalling(request);
            let slow = world.history_with(faults);
            let run = tokio::spawn({
                let chat = chat.clone();
                async move { work(&slow, &chat).await }
            });
            stall.reached();
            if is_late {
                come_late(&history, &chat).await;
            }
            world.clock.advance(LEASE + Duration::from_secs(1));
            work(&world.another_process(), &chat).await.unwrap();
            stall.go_on();
            run.await.unwrap();
            assert_archived_once(&world, &chat, &what).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn two_runs_at_once_end_as_one() {
    let world = World::new().await;
    for number in 0..10 {
        let chat = chat(number);
        fill(&world.another_process(), &chat).await;
        let (a, b) = (world.another_process(), world.another_process());
        let first = claim(&a, &chat).await;
        world.clock.advance(LEASE + Duration::from_secs(1));
        let second = claim(&b, &chat).await;
        let (_, done) = tokio::join!(a.archive_all(&first, &EVERYTHING), b.archive_all(&second, &EVERYTHING));
        done.unwrap();
        assert_archived_once(&world, &chat, &format!("round {number}")).await;
    }
}

#[tokio::test]
async fn segments_are_bounded_by_records_and_bytes_and_a_run_by_segments() {
    let world = World::new().await;
    let (history, counter) = world.counted();
    for id in 0..1_100_u64 {
        world.say(id, id.cast_signed(), "short").await;
    }
    // 300 KB each: thirteen fill a segment.
    for id in 1_100..1_120_u64 {
        world.say(id, id.cast_signed(), &"long ".repeat(60 * 1024)).await;
    }
    let lease = world.claim().await;
    let once = ToArchive { max_segments: 1, ..EVERYTHING };
    world.meter.take();
    counter.take();
    let first = history.archive_all(&lease, &once).await.unwrap();
    let (consumed, requests) = (world.meter.take(), counter.take());
    assert_eq!((first.segments, first.records, first.finished), (1, MAX_SEGMENT_RECORDS as u64, false));
    assert!(first.remaining.is_some());
    // Five requests for a segment beside the records' pages: commit, put, get, index, pointer; at the ends the head.
    let pages = 3;
    assert_eq!(requests, 1 + pages + 5 + 1);
    // At most: the plan, the pointer, the plan's end.
    assert!(consumed.write_units <= 3.0, "{consumed:?}");

    let rest = history.archive_all(&lease, &EVERYTHING).await.unwrap();
    assert_eq!((rest.records, rest.finished, rest.remaining), (120, true, None));
    let segments = world.segments().await;
    assert_eq!(segments.iter().map(|info| u64::from(info.count)).sum::<u64>(), 1_120);
    assert!(segments.iter().all(|info| info.json_bytes <= MAX_SEGMENT_BYTES as u64), "{segments:?}");
    assert!(segments.len() == 3, "{segments:?}");
    assert_archived_once(&world, &world.chat, "bounded").await;
}

/// The compactor reads all of them for the segment's index.
#[tokio::test]
async fn a_segment_has_few_messages_that_are_too_large_for_the_table() {
    let world = World::new().await;
    for id in 0..12_u64 {
        world.say(id, id.cast_signed(), &"long ".repeat(72 * 1024)).await;
    }
    assert_eq!(world.objects("bodies/").await.len(), 12);
    let archived = world.archive_everything().await;
    assert_eq!((archived.segments, archived.records, archived.finished), (2, 12, true));
    assert_archived_once(&world, &world.chat, "large").await;
}

#[tokio::test]
async fn messages_after_the_archived_ones_stay_and_are_reported() {
    let world = World::new().await;
    let (history, chat) = (&world.history, &world.chat);
    fill(history, chat).await;
    world.clock.advance(Duration::from_hours(1));
    let between = world.clock.now();
    world.clock.advance(Duration::from_secs(1));
    world.say(100, 2_500, "late").await;
    world.say(101, 6_500, "late too").await;
    let lease = world.claim().await;
    let old = ToArchive { sent_before: Some(between), ..EVERYTHING };
    let archived = history.archive_all(&lease, &old).await.unwrap();
    assert_eq!((archived.segments, archived.records, archived.finished), (1, 8, true));
    let remaining = archived.remaining.unwrap();
    assert_eq!(remaining.sent_at, world.clock.now());
    assert_eq!(remaining.expires_at, Some(world.clock.now().as_millis() / 1000 + 216 * 3600));

    // By name: two that are archived, and one of the two that are not.
    let records = world.records().await;
    assert_eq!(records[2].message.plain_text(), "late");
    let archived = history.archive(&lease, &records[1..4]).await.unwrap();
    assert_eq!((archived.segments, archived.records, archived.finished), (1, 1, true));
    assert_eq!(history.archive(&lease, &[]).await.unwrap().segments, 0);
    let archived = history.archive_all(&lease, &EVERYTHING).await.unwrap();
    assert_eq!((archived.segments, archived.records, archived.remaining), (1, 1, None));
    assert_archived_once(&world, chat, "late").await;
}

#[tokio::test]
async fn without_expiry_nothing_is_archived() {
    let world = World::with(&[("ARCHIVE_ON_COMPACT", "false")]).await;
    fill(&world.history, &world.chat).await;
    assert_eq!(world.archive_everything().await, Archived { finished: true, ..Archived::default() });
    let lease = world.claim().await;
    world.history.archive(&lease, &world.records().await).await.unwrap();
    assert_eq!(world.segments().await, []);
    assert_eq!(world.objects("segments/").await, [""; 0]);
}

#[tokio::test]
async fn a_damaged_object_is_noticed_before_and_after_its_pointer_is_written() {
    let world = World::new().await;
    let (history, chat) = (&world.history, &world.chat);
    let put = async |key: &str, bytes: Vec<u8>| {
        world.stores.bucket.put(key, "application/gzip", bytes).await.unwrap();
    };
    let get = async |key: &str| -> Vec<u8> { world.stores.bucket.get(key).await.unwrap().unwrap() };

    // Before: the run dies right after its put.
    fill(history, chat).await;
    let lease = world.claim().await;
    let mut request = 0;
    while world.objects("segments/").await.is_empty() {
        request += 1;
        assert!(request < 20, "no run gets as far as its put");
        let dying = world.history_with(Faults::new(Plan::After(request)));
        assert!(dying.archive_all(&lease, &EVERYTHING).await.is_err());
    }
    let key = world.objects("segments/").await.remove(0);
    let whole = get(&key).await;
    put(&key, whole[..whole.len() / 2].to_vec()).await;
    let error = world.another_process().archive_all(&lease, &EVERYTHING).await.unwrap_err();
    let HistoryError::Segment(SegmentError::ReadBack { key: named, .. }) = &error else { panic!("{error}") };
    assert_eq!(*named, key);
    assert_eq!(world.segments().await, []);
    world.stores.bucket.delete(&key).await.unwrap();
    history.archive_all(&lease, &EVERYTHING).await.unwrap();
    assert_archived_once(&world, chat, "stored again").await;

    // After it: the pointer knows better.
    let info = world.segments().await.remove(0);
    let mut changed = get(&key).await;
    let last = changed.len() - 1;
    changed[last] ^= 1;
    put(&key, changed).await;
    let error = world.another_process().segment(chat, &info.id).await.unwrap_err();
    assert!(matches!(error, HistoryError::Segment(SegmentError::Damaged { .. })), "{error}");
    world.stores.bucket.delete(&key).await.unwrap();
    let error = world.another_process().segment(chat, &info.id).await.unwrap_err();
    assert!(matches!(error, HistoryError::Segment(SegmentError::Missing { .. })), "{error}");
}
