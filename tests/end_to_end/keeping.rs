//! `ARCHIVE_ON_COMPACT=false`: nothing leaves the table, and records with an expiry from before the setting are archived.

use std::time::Duration;

use annals_core::sort_key::SortKey;
use annals_local::stores::TABLE;
use annals_local::upkeep::sweep;
use annals_store::history::{History, MAX_PAGE, Position};
use serde_json::json;

use crate::app::{APP_KEY, NOW, TestApp, chat_path};
use crate::faults::Faults;
use crate::world::{World, chat, echo_upkeep, message, records_of};

const CHAT: &str = "http:chat:app:c";

async fn listed(history: &History) -> Vec<SortKey> {
    let page = history.page(&chat(0), &Position::Oldest, MAX_PAGE).await.unwrap();
    page.records.into_iter().map(|record| record.key).collect()
}

#[tokio::test]
async fn a_chat_is_summed_up_and_stays_in_the_table_whole() {
    let app = TestApp::builder()
        .set("ARCHIVE_ON_COMPACT", "false")
        .set("CONTEXT_WINDOW", "375")
        .set("KEEP_RECENT", "4")
        .start()
        .await;
    for n in 0..20 {
        let text = format!("message {n:03}: {}", "lorem ipsum ".repeat(5));
        app.advance_to((NOW + n * 60) * 1000);
        let body = json!({"userId": "ada", "messageId": format!("m{n:03}"), "ts": (NOW + n * 60) * 1000, "text": text});
        assert_eq!(app.post(&chat_path("c", "messages"), APP_KEY, &body).await.status, 202);
        app.idle().await;
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
    let said = |n: u64| message(&chat(0), n, i64::try_from(n).unwrap() * 60_000, &format!("message {n}"));
    let dated = world.history();
    for n in 1..=10 {
        dated.append(&said(n)).await.unwrap();
    }
    // The setting changes, and the chat goes on.
    world.clock.advance(Duration::from_hours(24));
    let kept = world.history_with(Faults::default(), false);
    for n in 11..=20 {
        kept.append(&said(n)).await.unwrap();
    }
    let before = listed(&kept).await;
    world.clock.advance(Duration::from_hours(47));
    let visited = echo_upkeep(&kept).visit(&chat(0)).await.unwrap();
    assert_eq!((visited.archived, visited.segments), (10, 1), "what leaves, and nothing else");
    world.clock.advance(Duration::from_hours(1_000));
    let visited = echo_upkeep(&kept).visit(&chat(0)).await.unwrap();
    assert_eq!((visited.archived, visited.segments), (0, 0));
    // As TTL does, whatever is unanswered.
    for record in kept.range(&chat(0), None).await.unwrap() {
        if record.expires_at.is_some() {
            world.expire(&record).await;
        }
    }
    assert_eq!(kept.range(&chat(0), None).await.unwrap().len(), 10);
    assert_eq!(listed(&kept).await, before, "all of it, from both");
    let [info] = &kept.segments(&chat(0)).await.unwrap()[..] else { panic!("one segment") };
    assert_eq!(records_of(&kept, info).await.len(), 10);
    assert_eq!(sweep(&world.stores.dynamodb, TABLE, world.clock.now()).await.unwrap(), 0);
}

#[tokio::test]
async fn a_visit_reads_no_more_of_what_is_kept_for_ever() {
    let mut costs = Vec::new();
    for length in [200_u64, 1_000] {
        let world = World::new().await;
        let kept = world.history_with(Faults::default(), false);
        for n in 1..=length {
            let ts = i64::try_from(n).unwrap() * 1_800_000;
            world.clock.advance(Duration::from_mins(30));
            kept.append(&message(&chat(0), n, ts, "lorem ipsum dolor sit amet")).await.unwrap();
            if n % 60 == 0 {
                echo_upkeep(&kept).visit(&chat(0)).await.unwrap();
            }
        }
        // A Session ends, so that there is nothing to keep in view.
        world.clock.advance(Duration::from_hours(50));
        echo_upkeep(&kept).visit(&chat(0)).await.unwrap();
        kept.meter().take();
        echo_upkeep(&kept).visit(&chat(0)).await.unwrap();
        costs.push(kept.meter().take().read_units);
    }
    assert!(costs[1] <= costs[0] + 2.0, "of 200 messages and of 1,000: {costs:?}");
}
