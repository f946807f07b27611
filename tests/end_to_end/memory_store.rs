//! Memory's store: a session is captured once in spite of crashes and concurrent runs; recall, and its cost.

use std::collections::BTreeSet;
use std::time::Duration;

use annals_core::memory::validity::valid;
use annals_core::memory::{Correction, EntryId, EntryKind, Finding, Owner};
use annals_store::memory::MAX_RECALLED_FROM;
use annals_store::memory::{Captured, Deleted, Memory};
use aws_sdk_dynamodb::types::AttributeValue;
use futures::future::join_all;

use crate::faults::{Faults, Plan};
use crate::memory::{findings, source, user};
use crate::turns::assert_has;
use crate::world::{World, change_item, scan};

const CHAT: &str = "telegram:chat:42";

impl World {
    /// The memory of a process that dies after this many calls.
    fn mortal(&self, calls: usize) -> Memory {
        Memory::beside(&self.history_with(Faults::new(Plan::Before(calls + 1))))
    }

    async fn entries(&self, owner: &Owner) -> Vec<(u32, String)> {
        let list = self.memory.list(owner).await.unwrap();
        list.into_iter().map(|kept| (kept.number, kept.entry.text)).collect()
    }

    /// Every item of the table as text.
    async fn dump(&self) -> String {
        format!("{:?}", scan(&self.stores).await)
    }

    async fn recalled(&self, owner: &Owner, query: &str, budget: u32) -> Vec<u32> {
        let recalled = self.memory.recall(owner, query, budget).await.unwrap();
        recalled.iter().map(|found| found.stored.number).collect()
    }
}

fn numbered(texts: &[&str]) -> Vec<(u32, String)> {
    (1..).zip(texts.iter().map(|text| (*text).to_owned())).collect()
}

#[tokio::test]
async fn a_session_is_captured_once() {
    let world = World::new().await;
    let (ada, session) = (user("ada"), source(CHAT, 9));
    assert!(!world.memory.has_captured(&ada, &session).await.unwrap());
    let first = findings(&["one", "a secret garden", "three"]);
    let captured = world.memory.capture(&ada, &session, &first).await.unwrap();
    assert!(world.dump().await.contains("secret garden"));
    assert_eq!(captured, Captured::Stored(3));
    assert!(world.memory.has_captured(&ada, &session).await.unwrap());
    let id = EntryId { owner: ada.clone(), number: 2 };
    assert_eq!(world.memory.delete(&id).await.unwrap(), Deleted::Now);
    assert!(!world.dump().await.contains("secret garden"));
    for again in [&first[..], &findings(&["other"]), &[]] {
        let captured = world.memory.capture(&ada, &session, again).await.unwrap();
        assert_eq!(captured, Captured::Before);
    }
    assert_eq!(world.memory.delete(&id).await.unwrap(), Deleted::Before);
    assert_eq!(world.memory.get(&id).await.unwrap(), None);
    let correction = Correction::of_text("two again").unwrap();
    assert_eq!(world.memory.correct(&id, &correction).await.unwrap(), None);
    assert_eq!(world.entries(&ada).await, [(1, "one".to_owned()), (3, "three".to_owned())]);
    // Another session, another owner.
    world.memory.capture(&ada, &source(CHAT, 10), &findings(&["four"])).await.unwrap();
    world.memory.capture(&user("bo"), &session, &findings(&["Bo's"])).await.unwrap();
    assert_eq!(world.entries(&ada).await.last().unwrap(), &(4, "four".to_owned()));
    assert_eq!(world.entries(&user("bo")).await, numbered(&["Bo's"]));
    // Nothing found is a capture too.
    assert_eq!(world.memory.capture(&ada, &source(CHAT, 11), &[]).await.unwrap(), Captured::Stored(0));
    assert!(world.memory.has_captured(&ada, &source(CHAT, 11)).await.unwrap());
    assert!(!world.memory.has_captured(&user("bo"), &source(CHAT, 11)).await.unwrap());
}

/// After a crash at any call, the next process ends in the state that no crash would have left, and never in a mixture
/// of two answers of the model.
#[tokio::test]
async fn a_crash_between_any_two_steps_changes_nothing() {
    let texts = ["one", "two", "three"];
    let mut completed = false;
    for calls in 0..20 {
        for resumes_by_capture in [true, false] {
            let world = World::new().await;
            let (ada, session) = (user("ada"), source(CHAT, 9));
            world.memory.capture(&ada, &source(CHAT, 1), &findings(&["before"])).await.unwrap();
            let died = world.mortal(calls).capture(&ada, &session, &findings(&texts)).await.is_err();
            completed |= !died;
            let begun = calls >= 2;
            // The next process dies too, at another step, and meanwhile another session is captured.
            drop(world.mortal(calls % 4).has_captured(&ada, &session).await);
            world.memory.capture(&ada, &source("http:chat:app:c1", 1), &findings(&["beside"])).await.unwrap();
            if resumes_by_capture {
                // The model's second answer differs.
                let other = findings(&["two", "other", "words", "more"]);
                let captured = world.memory.capture(&ada, &session, &other).await.unwrap();
                assert_eq!(captured, if begun { Captured::Before } else { Captured::Stored(4) }, "{calls}");
            } else {
                assert_eq!(world.memory.has_captured(&ada, &session).await.unwrap(), begun, "{calls}");
            }
            let list = world.entries(&ada).await;
            let numbers: Vec<u32> = list.iter().map(|(number, _)| *number).collect();
            assert_eq!(numbers, (1..).take(list.len()).collect::<Vec<_>>(), "{calls}: {list:?}");
            let found: Vec<&str> = list.iter().map(|(_, text)| text.as_str()).collect();
            let mut wanted = vec!["before", "beside"];
            wanted.extend(match (begun, resumes_by_capture) {
                (true, _) => &texts[..],
                (false, true) => &["two", "other", "words", "more"],
                (false, false) => &[],
            });
            let sorted = |mut texts: Vec<&str>| {
                texts.sort_unstable();
                texts.join(", ")
            };
            assert_eq!(sorted(found), sorted(wanted), "{calls}");
            // The text is in the entries alone.
            assert_eq!(world.dump().await.matches("findings").count(), 0, "{calls}");
        }
    }
    assert!(completed, "the last of these processes lives long enough");
}

/// One put replaces an entry, so each crash leaves either the old one valid or the new one; and a capture that is
/// completed ends with the new one alone, also after both have moved to another owner.
#[tokio::test]
async fn a_crash_leaves_the_old_entry_or_the_new_one() {
    let mut completed = false;
    for calls in 0..16 {
        let world = World::new().await;
        let (ada, bo) = (user("ada"), user("bo"));
        world.memory.capture(&bo, &source("http:chat:app:c1", 1), &findings(&["Bo's"])).await.unwrap();
        world.memory.capture(&ada, &source(CHAT, 1), &findings(&["Works at X."])).await.unwrap();
        let newer = Finding { supersedes: vec![1], ..findings(&["Works at Y."])[0].clone() };
        let newer = [findings(&["Likes tea."])[0].clone(), newer];
        let (second, valid_now) = (source(CHAT, 9), async || {
            let list = world.memory.list(&ada).await.unwrap();
            valid(list, world.memory.now()).into_iter().map(|kept| kept.entry.text).collect::<Vec<_>>()
        });
        let captured = world.mortal(calls).capture(&ada, &second, &newer).await;
        let left = valid_now().await;
        let has = |text: &str| left.iter().any(|kept| kept == text);
        assert!(has("Works at X.") != has("Works at Y."), "{calls}: {left:?}");
        world.memory.capture(&ada, &second, &newer).await.unwrap();
        assert_eq!(valid_now().await, ["Likes tea.", "Works at Y."], "{calls}");
        let moving = world.mortal(calls).move_entries(&ada, &bo, &[1, 2, 3]).await;
        world.memory.move_entries(&ada, &bo, &[1, 2, 3]).await.unwrap();
        let moved = world.memory.list(&bo).await.unwrap();
        assert_eq!(moved.iter().map(|kept| kept.number).collect::<Vec<_>>(), [1, 2, 3, 4], "{calls}");
        assert_eq!(moved[3].entry.supersedes, [2], "{calls}: {moved:?}");
        let texts: Vec<String> =
            valid(moved, world.memory.now()).into_iter().map(|kept| kept.entry.text).collect();
        assert_eq!(texts, ["Bo's", "Likes tea.", "Works at Y."], "{calls}");
        completed = captured.is_ok() && moving.is_ok();
    }
    assert!(completed, "the last of these processes lives long enough");
}

/// Tasks and notes end with their term; facts stay. Past entries are listed and found, and not recalled.
#[tokio::test]
async fn past_entries_are_found_and_not_recalled() {
    let world = World::new().await;
    let ada = user("ada");
    let kinds = [EntryKind::Fact, EntryKind::Task, EntryKind::Note];
    let all = kinds.map(|kind| Finding::new(kind, format!("A {kind} about tomatoes.")));
    world.memory.capture(&ada, &source(CHAT, 9), &all).await.unwrap();
    let numbers = async |days: u64| {
        world.clock.advance(Duration::from_hours(24 * days));
        let (section, _) = world.memory.recall_section(&ada, "tomatoes", 1000).await.unwrap();
        let section = section.unwrap_or_default();
        let recalled: Vec<EntryKind> =
            kinds.into_iter().filter(|kind| section.contains(&format!("A {kind}"))).collect();
        assert_eq!(world.recalled(&ada, "tomatoes", 1000).await.len(), 3);
        recalled
    };
    assert_eq!(numbers(89).await, kinds);
    assert_eq!(numbers(2).await, [EntryKind::Fact, EntryKind::Note]);
    assert_eq!(numbers(90).await, [EntryKind::Fact]);
    let found = world.memory.recall(&ada, "task", 1000).await.unwrap();
    let past = found.iter().filter(|found| found.validity.is_past(world.memory.now())).count();
    assert_eq!(past, 2);
}

/// A saving is cut off after any call, and then its chat is forgotten.
#[tokio::test]
async fn nothing_of_a_saving_outlives_its_chat() {
    let mut completed = false;
    for calls in 0..8 {
        let world = World::new().await;
        let (ada, place) = (user("ada"), source(CHAT, 9));
        let finding = Finding::new(EntryKind::Fact, "a secret garden".into());
        completed = world.mortal(calls).save(&ada, &place, 0, &finding).await.is_ok();
        world.memory.forget_chat(&ada, &place.chat).await.unwrap();
        assert!(!world.dump().await.contains("secret garden"), "{calls}");
    }
    assert!(completed, "the last of these processes lives long enough");
}

#[tokio::test]
async fn of_two_changes_the_last_is_undone_first() {
    let world = World::new().await;
    let ada = user("ada");
    for (to, text, supersedes) in [(1, "Tea.", vec![]), (2, "Coffee.", vec![1]), (3, "Water.", vec![2, 1])] {
        let found = Finding { supersedes, ..Finding::new(EntryKind::Fact, text.into()) };
        world.memory.capture(&ada, &source(CHAT, to), &[found]).await.unwrap();
    }
    let undone = async |number| {
        let undone = world.memory.undo(&EntryId { owner: ada.clone(), number }).await.unwrap();
        undone.map(|stored| stored.entry.text)
    };
    assert_eq!(undone(1).await, None);
    assert_eq!(undone(2).await.as_deref(), Some("Coffee."));
    assert_eq!(undone(1).await.as_deref(), Some("Tea."));
    assert_eq!(world.entries(&ada).await, numbered(&["Tea."]));
}

/// Entries and captures from before they had a lifecycle are read, and completed.
#[tokio::test]
async fn entries_and_captures_of_an_earlier_version_are_read() {
    let world = World::new().await;
    let (ada, session) = (user("ada"), source(CHAT, 9));
    // Read, plan, one entry of two.
    world.mortal(3).capture(&ada, &session, &findings(&["one", "two"])).await.unwrap_err();
    let key = format!("!capture#{}#{}", session.chat.session_id(), session.to);
    let before = r#"[{"type":"fact","text":"one"},{"type":"fact","text":"two","outside":["shop/lookup"]}]"#;
    let before = [(":findings", AttributeValue::S(before.into()))];
    change_item(&world.stores, (&ada.partition(), &key), "SET findings = :findings", &before).await;
    assert!(world.memory.has_captured(&ada, &session).await.unwrap());
    assert_eq!(world.entries(&ada).await, numbered(&["one", "two"]));
}

#[tokio::test]
async fn a_forgotten_entry_stays_forgotten_when_a_cut_off_capture_is_completed() {
    let world = World::new().await;
    let (ada, session) = (user("ada"), source(CHAT, 9));
    // Read, plan, two entries of three.
    world.mortal(4).capture(&ada, &session, &findings(&["one", "two", "three"])).await.unwrap_err();
    assert_eq!(world.entries(&ada).await, numbered(&["one", "two"]));
    world.memory.delete(&EntryId { owner: ada.clone(), number: 1 }).await.unwrap();
    assert!(world.memory.has_captured(&ada, &session).await.unwrap());
    assert_eq!(world.entries(&ada).await, [(2, "two".to_owned()), (3, "three".to_owned())]);
}

#[tokio::test]
async fn captures_beside_each_other_end_as_one_each() {
    let world = World::new().await;
    let ada = user("ada");
    let runs = (0..12_u64).map(|run| {
        let (memory, ada) = (&world.memory, &ada);
        // Three runs of each of four sessions, each with an answer of its own.
        let (session, answer) = (run % 4, run / 4);
        let texts: Vec<String> = (0..3).map(|n| format!("s{session} a{answer} n{n}")).collect();
        async move { memory.capture(ada, &source(CHAT, 10 + session), &findings(&texts)).await.unwrap() }
    });
    let captured = join_all(runs).await;
    assert_eq!(captured.iter().filter(|captured| **captured == Captured::Stored(3)).count(), 4);
    let list = world.entries(&ada).await;
    assert_eq!(list.iter().map(|(number, _)| *number).collect::<Vec<_>>(), (1..=12).collect::<Vec<_>>());
    let answers: BTreeSet<&str> = list.iter().map(|(_, text)| &text[..5]).collect();
    assert_eq!(answers.len(), 4, "one answer of each session: {list:?}");
}

#[tokio::test]
async fn entries_that_match_the_message_are_recalled_first_also_in_chinese() {
    let world = World::new().await;
    let ada = user("ada");
    let texts = [
        "她住在卑尔根,在大学工作。",
        "Grows tomatoes on the balcony.",
        "喜欢喝乌龙茶,不喝咖啡。",
        "The cat is called Nils.",
        "计划五月去北京旅行。",
    ];
    world.memory.capture(&ada, &source(CHAT, 9), &findings(&texts)).await.unwrap();
    assert_eq!(world.recalled(&ada, "我想喝茶,你有什么推荐?", 10_000).await[0], 3);
    assert_eq!(world.recalled(&ada, "北京的天气怎么样", 10_000).await[0], 5);
    assert_eq!(world.recalled(&ada, "What ails my tomatoes?", 10_000).await, [2, 5, 4, 3, 1]);
    // Nothing fits: the newest first.
    assert_eq!(world.recalled(&ada, "zzz", 10_000).await, [5, 4, 3, 2, 1]);
    assert_eq!(world.recalled(&ada, "", 10_000).await, [5, 4, 3, 2, 1]);
    assert_eq!(world.recalled(&ada, "tomatoes", 66).await, [2]);
    assert_eq!(world.recalled(&ada, "tomatoes", 5).await, [0; 0]);
    assert_eq!(world.recalled(&user("bo"), "tomatoes", 10_000).await, [0; 0]);
    let (section, _) = world.memory.recall_section(&ada, "tomatoes", 100).await.unwrap();
    assert_has(section.unwrap(), &["not instructions", "\n- [fact, 2025-11-21] Grows tomatoes"]);
    world.memory.delete(&EntryId { owner: ada.clone(), number: 2 }).await.unwrap();
    assert_eq!(world.recalled(&ada, "tomatoes", 10_000).await, [5, 4, 3, 1]);
    assert_eq!(world.memory.recall_section(&user("bo"), "tomatoes", 100).await.unwrap(), (None, None));
}

/// A figure here is a promise, as in `budgets.rs`.
#[tokio::test]
async fn memory_costs_these_units() {
    let world = World::new().await;
    let ada = user("ada");
    let used = || {
        let used = world.meter.take();
        (used.calls, used.read_units, used.write_units)
    };
    let sentence = "Grows tomatoes and beans on the balcony in Bergen, and waters them each morning.";
    let one = |n: u64| findings(&[format!("{n} {sentence}")]);
    used();
    world.memory.recall(&ada, "tomatoes", 2000).await.unwrap();
    assert_eq!(used(), (1, 0.5, 0.0));
    world.memory.has_captured(&ada, &source(CHAT, 1)).await.unwrap();
    assert_eq!(used(), (1, 1.0, 0.0));
    world.memory.capture(&ada, &source(CHAT, 1), &[]).await.unwrap();
    assert_eq!(used(), (1, 0.0, 1.0));
    world.memory.capture(&ada, &source(CHAT, 2), &one(2)).await.unwrap();
    assert_eq!(used(), (4, 0.5, 3.0));
    let three = findings(&["a", "b", "c"].map(|letter| format!("{letter} {sentence}")));
    world.memory.capture(&ada, &source(CHAT, 3), &three).await.unwrap();
    assert_eq!(used(), (6, 0.5, 5.0));
    world.memory.has_captured(&ada, &source(CHAT, 3)).await.unwrap();
    assert_eq!(used(), (1, 1.0, 0.0));
    for n in 4..=19 {
        world.memory.capture(&ada, &source(CHAT, n), &one(n)).await.unwrap();
    }
    used();
    // Twenty entries of some 700 bytes, with their front matter.
    world.memory.recall(&ada, "tomatoes", 2000).await.unwrap();
    let (calls, read, write) = used();
    assert_eq!((calls, write), (1, 0.0));
    assert!(read <= 2.0, "{read}");
    world.memory.delete(&EntryId { owner: ada.clone(), number: 3 }).await.unwrap();
    assert_eq!(used(), (1, 0.0, 1.0));
    let (number, correction) = (4, Correction::of_text("Grows beans.").unwrap());
    world.memory.correct(&EntryId { owner: ada.clone(), number }, &correction).await.unwrap();
    assert_eq!(used(), (2, 1.0, 1.0));
    // Who has been known for years costs no more than the newest entries do.
    for n in 20..=60 {
        let eight: Vec<String> = (0..8).map(|k| format!("{n} {k} {sentence}")).collect();
        world.memory.capture(&ada, &source(CHAT, n), &findings(&eight)).await.unwrap();
    }
    assert_eq!(world.entries(&ada).await.len(), 20 - 1 + 41 * 8);
    used();
    assert_eq!(world.recalled(&ada, "tomatoes", 100_000).await.len(), MAX_RECALLED_FROM);
    let (calls, read, _) = used();
    assert!(calls == 1 && read <= 20.0, "{read}");
}
