use proptest::prelude::*;

use super::*;

fn chat(id: i64) -> ChatKey {
    ChatKey::telegram(id, None)
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_795_305_600_000 + millis).unwrap()
}

fn retention(stale_after: Duration) -> Retention {
    Retention { stale_after: Some(stale_after), archive_grace: Duration::from_hours(168), archive: true }
}

#[test]
fn the_dates_follow_the_stale_time() {
    let hours = |stale_after: Option<Duration>| {
        Retention { stale_after, ..retention(Duration::ZERO) }.due_after().as_secs() / 3600
    };
    assert_eq!(hours(Some(Duration::from_hours(48))), 36);
    assert_eq!(hours(None), 36, "where no session is ever stale");
    assert_eq!(hours(Some(Duration::from_hours(4))), 3);
}

#[test]
fn an_entry_is_in_its_shard_and_never_due_too_early() {
    let mut item = Item::new();
    register(&mut item, &chat(42), at(1), &retention(Duration::from_secs(4)));
    assert_eq!(text(&item, DUE_SHARD), Some(shard_of(&chat(42)).to_string().as_str()));
    assert_eq!(integer(&item, DUE_AT), Some(1_795_305_604), "3.001 seconds later, rounded up");
    let shards: std::collections::HashSet<u8> = (0..1000).map(|id| shard_of(&chat(id))).collect();
    assert_eq!(shards.len(), usize::from(SHARDS), "{shards:?}");
}

#[test]
fn a_chat_is_remembered_for_half_the_time_and_no_longer() {
    let registry = Registry::default();
    let due_after = Duration::from_secs(10);
    let wants = |id, millis| registry.wants(&chat(id), at(millis), due_after);
    assert!(wants(1, 0));
    assert!(wants(1, 0), "asking is not storing");
    registry.remember(&chat(1), at(0));
    assert!(!wants(1, 0) && !wants(1, 4_999) && wants(1, 5_000));
    assert!(wants(2, 0), "another chat");
    assert!(wants(1, -1), "a clock that was set back");
}

#[test]
fn the_memory_is_bounded() {
    let registry = Registry::default();
    let due_after = Duration::from_hours(36);
    let bound = i64::try_from(MAX_REMEMBERED).unwrap();
    for id in 0..=bound {
        registry.remember(&chat(id), at(0));
        assert!(!registry.wants(&chat(id), at(0), due_after), "{id}");
        assert_eq!(registry.wants(&chat(0), at(0), due_after), id == bound, "{id}");
    }
}

/// An event of one chat.
#[derive(Clone, Debug)]
enum Event {
    /// A process appends a record; `refused` if its key was taken.
    Append { process: usize, refused: bool },
    /// A process is replaced by one that remembers nothing.
    Restart { process: usize },
    /// The compactor reads the index, and visits the chat if it is due, with success or not.
    Look { succeeds: bool },
}

fn events() -> impl Strategy<Value = Vec<(u32, Event)>> {
    let event = prop_oneof![
        6 => (0..3_usize, prop::bool::weighted(0.2)).prop_map(|(process, refused)| Event::Append { process, refused }),
        1 => (0..3_usize).prop_map(|process| Event::Restart { process }),
        3 => prop::bool::weighted(0.7).prop_map(|succeeds| Event::Look { succeeds }),
    ];
    // Steps of no time, of less than a second, and of the order of the stale time.
    let step = prop_oneof![Just(0), 1..1000_u32, 1000..20_000_u32];
    prop::collection::vec((step, event), 1..120)
}

proptest! {
    #[test]
    fn every_record_has_an_entry_that_comes_due_after_it(
        events in events(),
        stale_secs in prop_oneof![Just(5_u64), Just(16), Just(60)],
    ) {
        let retention = retention(Duration::from_secs(stale_secs));
        let mut processes = [Registry::default(), Registry::default(), Registry::default()];
        let (mut now, mut entries, mut open) = (at(0), Vec::<i64>::new(), Vec::<Timestamp>::new());
        for (step, event) in events {
            now = now.plus(Duration::from_millis(u64::from(step)));
            match event {
                Event::Append { process, refused } => {
                    let wants = processes[process].wants(&chat(1), now, retention.due_after());
                    if !refused {
                        open.push(now);
                        if wants {
                            let mut item = Item::new();
                            register(&mut item, &chat(1), now, &retention);
                            entries.push(integer(&item, DUE_AT).unwrap());
                            processes[process].remember(&chat(1), now);
                        }
                    }
                }
                Event::Restart { process } => processes[process] = Registry::default(),
                Event::Look { succeeds } => {
                    let is_due = |entry: &i64| *entry <= now.as_millis() / 1000;
                    if entries.iter().any(is_due) {
                        entries.retain(|entry| !is_due(entry));
                        if succeeds {
                            open.clear();
                        } else {
                            entries.push(seconds_up(now.plus(Duration::from_secs(3))));
                        }
                    }
                }
            }
            for stored in &open {
                prop_assert!(
                    entries.iter().any(|entry| Timestamp::from_secs(*entry) > *stored),
                    "nobody comes for what was stored at {stored}; there are {entries:?}"
                );
            }
        }
    }
}
