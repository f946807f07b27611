//! The compactor's report agrees with what the stores hold afterwards.

use std::time::Duration;

use annals_compactor::{Compactor, Report, metrics};
use annals_core::chat_key::ChatKey;
use annals_core::memory::Owner;
use annals_core::record::{Draft, Kind, Record};
use annals_core::sort_key::SortKey;
use annals_core::testing::set;
use annals_local::stores::TABLE;
use annals_store::memory::Memory;

use crate::world::{World, echo_upkeep, message, records_of};

const HOUR: i64 = 3_600_000;

#[tokio::test]
async fn a_visit_is_reported_as_it_was() {
    let world = World::new().await;
    let (history, chat) = (world.history(), ChatKey::telegram(42, None));
    let say = async |id: u64, at: i64, kind: Kind| {
        let mut draft =
            Draft { kind, ..message(&chat, id, at * HOUR, &format!("message {id}: lorem ipsum")) };
        draft.chat_id = "42".into();
        set(&mut draft.metadata, "chatType", "private");
        world.clock.advance(draft.ts.since(world.clock.now()));
        history.append(&draft).await.unwrap();
    };
    // A session that has ended, and one that goes on, whose first two messages leave the table before long.
    for id in 1..=3 {
        say(id, 0, Kind::Normal).await;
    }
    say(4, 1, Kind::Boundary).await;
    for (id, at) in [(5, 2), (6, 42), (7, 82), (8, 122)] {
        say(id, at, Kind::Normal).await;
    }
    world.clock.advance(Duration::from_hours(140 - 122));

    let memory = Memory::beside(&history);
    let owner = Owner::User("telegram-42".into());
    assert_eq!(memory.list(&owner).await.unwrap(), []);
    let before = history.range(&chat, None).await.unwrap();
    let compactor = Compactor::new(history.clone(), echo_upkeep(&history));
    let now = world.clock.now();
    let report = compactor.run(now.plus(Duration::from_hours(1))).await;

    let segments = history.segments(&chat).await.unwrap();
    let mut archived: Vec<SortKey> = Vec::new();
    for info in &segments {
        archived.extend(records_of(&history, info).await.into_iter().map(|record| record.key));
    }
    let key = |record: &Record| record.key.clone();
    assert_eq!(archived, before.iter().map(key).collect::<Vec<_>>());
    let stored = history.range(&chat, None).await.unwrap();
    let summaries: Vec<&Record> = stored.iter().filter(|record| record.kind() == Kind::Summary).collect();
    let [summary] = summaries[..] else { panic!("{summaries:#?}") };
    assert_eq!(summary.source().unwrap().count, 2);
    let captured = memory.list(&owner).await.unwrap();
    let [entry] = &captured[..] else { panic!("{captured:#?}") };
    assert!(entry.entry.text.contains("message 3") && !entry.entry.text.contains("message 5"), "{entry:#?}");

    let expected = Report {
        visited: 1,
        segments: u32::try_from(segments.len()).unwrap(),
        archived: u32::try_from(archived.len()).unwrap(),
        summaries: 1,
        captured: u32::try_from(captured.len()).unwrap(),
        ..Report::default()
    };
    assert_eq!(report, expected);
    let line = metrics::embedded(&report, TABLE, history.retention().archive_grace, world.clock.now());
    let said = ["Visited", "Segments", "RecordsArchived", "Summaries", "MemoryEntries", "GraceUsed"];
    let said: Vec<f64> = said.iter().map(|name| line[name].as_f64().unwrap()).collect();
    assert_eq!(format!("{said:?}"), "[1.0, 1.0, 8.0, 1.0, 1.0, 0.0]");

    // Another run finds nothing to do, and says so.
    let again = compactor.run(now.plus(Duration::from_hours(1))).await;
    assert_eq!(again, Report::default());
}
