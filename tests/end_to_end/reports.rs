//! The compactor's report agrees with what the stores hold afterwards.

use annals_compactor::{Report, metrics};
use annals_core::draft::Draft;
use annals_core::memory::Owner;
use annals_core::record::Kind;
use annals_local::stores::TABLE;

use crate::world::World;

#[tokio::test]
async fn a_visit_is_reported_as_it_was() {
    let world = World::new().await;
    let say = async |hours: i64, text: &str, kind: Kind| {
        world.append(&Draft { kind, ..world.draft(hours * 3600, text, false) }).await;
    };
    // A session that has ended, and one that goes on, whose first two messages leave the table before long.
    for seconds in 0..3 {
        world.append(&world.draft(seconds, &format!("message {seconds}"), false)).await;
    }
    say(1, "boundary", Kind::Boundary).await;
    for hours in [2, 42, 82, 122] {
        say(hours, &format!("message of hour {hours}"), Kind::Normal).await;
    }
    world.advance_to(140 * 3600);

    let owner = Owner::User("telegram-42".into());
    assert_eq!(world.memory.list(&owner).await.unwrap(), []);
    let before = world.records().await;
    let report = world.run_compactor().await;

    let (segments, archived) = (world.segments().await, world.archived().await);
    assert_eq!(archived.into_values().collect::<Vec<_>>(), before);
    let [summary] = &world.summaries().await[..] else { panic!("one summary") };
    assert_eq!(summary.source().unwrap().count, 2);
    let captured = world.memory.list(&owner).await.unwrap();
    let [entry] = &captured[..] else { panic!("{captured:#?}") };
    assert!(entry.entry.text.contains("message 2") && !entry.entry.text.contains("hour 2"), "{entry:#?}");

    let expected = Report {
        visited: 1,
        segments: u32::try_from(segments.len()).unwrap(),
        archived: u32::try_from(before.len()).unwrap(),
        summaries: 1,
        captured: u32::try_from(captured.len()).unwrap(),
        ..Report::default()
    };
    assert_eq!(report, expected);
    let line = metrics::embedded(&report, TABLE, world.history.retention().archive_grace, world.clock.now());
    let said = ["Visited", "Segments", "RecordsArchived", "Summaries", "MemoryEntries", "GraceUsed"];
    let said: Vec<f64> = said.iter().map(|name| line[name].as_f64().unwrap()).collect();
    assert_eq!(format!("{said:?}"), "[1.0, 1.0, 8.0, 1.0, 1.0, 0.0]");

    // Another run finds nothing to do, and says so.
    assert_eq!(world.run_compactor().await, Report::default());
}
