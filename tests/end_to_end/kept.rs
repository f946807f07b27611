//! Records that stay in the table beyond their date because a live session shows them: if no summary can be made, and if
//! sessions never end.

use std::time::Duration;

use annals_test_support::model_api::is_for_summary;

use crate::sixty_days::{
    DAY, LIFETIME, Life, fact, message_with, say_what_is_noted, whole, write_every_forty_hours,
};
use crate::world::{SMALL, World};

/// Records that expire within this time are kept in view, since nobody may write until then: 48 hours, and a quarter of a week.
const SOON: Duration = Duration::from_hours(48 + 42);
/// Records that expire within this time are kept along with those.
const BEFORE_LONG: Duration = Duration::from_hours(48 + 42 + 63);

#[tokio::test]
async fn without_a_summary_the_records_in_view_are_kept_and_no_others() {
    let mut life = Life::new(&[]).await;
    life.world
        .model()
        .answer_by(|body| Some(if is_for_summary(body) { String::new() } else { say_what_is_noted(body) }));
    write_every_forty_hours(&mut life, 30).await;
    assert_eq!((life.summaries(), life.expired.len()), (0, 0), "all of it is still in the table");
    let now = life.world.clock.now();
    for (key, record) in &life.stored {
        let (age, is_moved) = (now.since(record.sent_at), life.moved.contains(key));
        assert!(is_moved || age < LIFETIME.saturating_sub(SOON), "{key} was not moved: {age:?} old");
        assert!(!is_moved || age > LIFETIME.saturating_sub(BEFORE_LONG), "{key} was moved: {age:?} old");
        let left = record.expires_at.unwrap() - now.as_millis() / 1000;
        assert!(left >= SOON.as_secs().cast_signed(), "{key} leaves in {left} s, before somebody may write");
    }
    let young = life.stored.len() - life.moved.len();
    assert!(life.moved.len() > 24 && young >= 2, "{} moved, {young} as they were", life.moved.len());
    println!(
        "{} of {} dates were moved on, up to {:?}",
        life.moved.len(),
        life.stored.len(),
        life.moved.last()
    );
    life.check_that_nothing_is_lost().await;
    life.check_what_is_left_when_all_has_expired().await;
    life.finish();
}

/// A visit makes four summaries.
#[tokio::test]
async fn what_a_visit_leaves_to_summarise_stays_in_the_table() {
    let world = World::with(&[SMALL, &[("MEMORY", "off")]].concat()).await;
    for id in 1..=40_u64 {
        let text = format!("message {id}: lorem ipsum dolor sit amet");
        world.say(id, id.cast_signed() * 1000, &text).await;
    }
    for id in 41..=43_u64 {
        world.clock.advance(Duration::from_hours(40));
        world.say(id, world.elapsed_millis(), "still here").await;
    }
    world.clock.advance(Duration::from_hours(10));
    let visited = world.upkeep().visit(&world.chat).await.unwrap();
    assert_eq!(visited.summaries, 4);
    let to =
        world.records().await.iter().filter_map(|record| Some(record.source()?.to.clone())).max().unwrap();
    let soon = (world.clock.now().as_millis() + i64::try_from(SOON.as_millis()).unwrap()) / 1000;
    let left: Vec<_> =
        world.records().await.into_iter().filter(|r| r.source().is_none() && r.key > to).collect();
    assert!(left.len() > 3, "{left:#?}");
    assert!(left.iter().all(|record| record.expires_at.unwrap() > soon), "{left:#?}");
}

/// After a hundred days; and on a laptop that is off for ten days and starts without a network, where it stays until it can
/// be summarised.
#[tokio::test]
async fn a_session_that_never_grows_stale_is_seen_after_its_records_have_left_the_table() {
    for is_off in [false, true] {
        let mut life = Life::new(&[("SESSION_STALE_AFTER", "0")]).await;
        for number in 0..3 {
            life.say(number, &message_with(number)).await;
        }
        if is_off {
            life.world.clock.advance(DAY * 10);
            life.world.model().fail(100, 401);
            assert_eq!(life.world.run_compactor().await.failed, 1);
            assert_eq!(life.world.sweep().await, 0, "what the session shows is kept");
            life.world.model().recover();
            life.world.clock.advance(DAY);
            assert_eq!(life.world.run_compactor().await.failed, 0);
            assert_eq!(life.world.sweep().await, 6);
        } else {
            life.pass(DAY * 100).await;
            assert_eq!(life.expired.len(), 6, "what was said has left the table");
        }
        let text = whole(&life.say(3, &message_with(3)).await);
        for number in 0..=3 {
            assert!(text.contains(&fact(number)), "{:?} is not in:\n{text}", fact(number));
        }
        life.check_that_nothing_is_lost().await;
        life.finish();
    }
}

/// A release after weeks answers nothing that is longer ago than a message lives.
#[tokio::test]
async fn an_unanswered_message_is_kept_unless_an_operator_has_the_chat() {
    for is_taken_over in [false, true] {
        let world = World::new().await;
        world.ask(1, 0, "Where is my parcel?").await;
        if is_taken_over {
            world.history.take_over(&world.chat, "Grace").await.unwrap();
        }
        let date = world.records().await[0].expires_at;
        world.clock.advance(LIFETIME.saturating_sub(Duration::from_hours(1)));
        world.upkeep().visit(&world.chat).await.unwrap();
        assert_eq!(world.records().await[0].expires_at == date, is_taken_over);
    }
}
