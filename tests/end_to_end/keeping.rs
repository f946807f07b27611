//! `ARCHIVE_ON_COMPACT=false`: nothing leaves the table, and records with an expiry from before the setting are archived.

use std::time::Duration;

use serde_json::json;

use crate::app::{NOW, TestApp, chat_path};
use crate::world::World;

const CHAT: &str = "http:chat:app:c";

#[tokio::test]
async fn a_chat_is_summed_up_and_stays_in_the_table_whole() {
    let app = TestApp::builder().set("ARCHIVE_ON_COMPACT", "false");
    let app = app.set("CONTEXT_WINDOW", "375").set("KEEP_RECENT", "4").start().await;
    for n in 0..20 {
        let text = format!("message {n:03}: {}", "lorem ipsum ".repeat(5));
        app.advance_to((NOW + n * 60) * 1000);
        let body = json!({"userId": "ada", "messageId": format!("m{n:03}"), "ts": (NOW + n * 60) * 1000, "text": text});
        app.say("c", &body).await;
    }
    assert_eq!(app.context(CHAT).await[0]["metadata"]["kind"], "summary");
    let (before, records) = (app.history(CHAT).await, app.records(CHAT).await);
    assert_eq!(before.iter().filter(|message| message["metadata"]["kind"] == "normal").count(), 40);
    assert!(records.iter().all(|record| record.expires_at.is_none()));

    // Two months with visits and sweeps.
    for _ in 0..60 {
        app.clock().advance(Duration::from_hours(24));
        app.idle_as_time_passes().await;
    }
    assert_eq!(app.records(CHAT).await, records);
    assert_eq!(app.history(CHAT).await, before);
    assert_eq!(app.get(&chat_path(CHAT, "segments")).await, json!({"segments": []}));
    assert!(!app.data_dir().join("s3/annals/segments").exists());
    app.finish().await;
}

#[tokio::test]
async fn records_with_an_old_expiry_are_archived_before_they_expire() {
    let world = World::new().await;
    let (dated, kept) = (&world.history, world.keeping_history());
    let said = |n: u64| world.message(n, n.cast_signed() * 60_000, &format!("message {n}"));
    for n in 1..=10 {
        dated.append(&said(n)).await.unwrap();
    }
    // The setting changes, and the chat goes on.
    world.clock.advance(Duration::from_hours(24));
    for n in 11..=20 {
        kept.append(&said(n)).await.unwrap();
    }
    let before = world.lines().await;
    let upkeep = world.upkeep_of(&kept);
    world.clock.advance(Duration::from_hours(47));
    let visited = upkeep.visit(&world.chat).await.unwrap();
    assert_eq!((visited.archived, visited.segments), (10, 1), "what leaves, and nothing else");
    world.clock.advance(Duration::from_hours(1_000));
    let visited = upkeep.visit(&world.chat).await.unwrap();
    assert_eq!((visited.archived, visited.segments), (0, 0));
    world.expire_due().await;
    assert_eq!(world.records().await.len(), 10);
    assert_eq!(world.lines().await, before, "all of it, from both");
    assert_eq!((world.segments().await.len(), world.archived().await.len()), (1, 10));
    assert_eq!(world.sweep().await, 0);
}

#[tokio::test]
async fn a_visit_reads_no_more_of_what_is_kept_for_ever() {
    let mut costs = Vec::new();
    for length in [120_u64, 480] {
        let world = World::with(&[("ARCHIVE_ON_COMPACT", "false")]).await;
        let upkeep = world.upkeep();
        for n in 1..=length {
            world.clock.advance(Duration::from_mins(30));
            world.say(n, n.cast_signed() * 1_800_000, "lorem ipsum dolor sit amet").await;
            if n % 60 == 0 {
                upkeep.visit(&world.chat).await.unwrap();
            }
        }
        // A Session ends, so that there is nothing to keep in view.
        world.clock.advance(Duration::from_hours(50));
        upkeep.visit(&world.chat).await.unwrap();
        world.meter.take();
        upkeep.visit(&world.chat).await.unwrap();
        costs.push(world.meter.take().read_units);
    }
    assert!(costs[1] <= costs[0] + 2.0, "of 120 messages and of 480: {costs:?}");
}
