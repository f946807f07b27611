//! The signs of a run before its reply: the typing status, and drafts of the answer.

use std::time::Duration;

use annals_test_support::model_api::Mishap;
use annals_test_support::telegram_api::{Shown, Sign};
use serde_json::json;

use crate::app::{Builder, TestApp, wait_until};
use crate::outside_tools::shop_with;
use crate::updates::{group, private, supergroup};

fn streaming() -> Builder {
    TestApp::builder().set("STREAM_REPLIES", "true").telegram().model()
}

fn typed(app: &TestApp) -> usize {
    app.telegram_api().shown().iter().filter(|shown| shown.sign == Sign::Typing).count()
}

/// The drafts, as their id and text.
pub(crate) fn drafts(app: &TestApp) -> Vec<(i64, String)> {
    let draft = |shown: Shown| match shown.sign {
        Sign::Draft(id, text) => Some((id, text)),
        Sign::Typing => None,
    };
    app.telegram_api().shown().into_iter().filter_map(draft).collect()
}

/// Typing is shown again and again while nothing else happens.
async fn is_typing(app: &TestApp) {
    let before = typed(app);
    let goes_on = wait_until("typing is shown again and again", async || typed(app) >= before + 3);
    app.as_time_passes(goes_on).await;
}

/// A model that stalls is asked once more.
async fn over(app: &TestApp) {
    app.clock().advance(Duration::from_secs(40));
    app.idle_as_time_passes().await;
}

#[tokio::test]
async fn a_private_chat_sees_the_answer_grow() {
    let app = streaming().start().await;
    let answer = (0..2000).map(|n| format!("w{n:04}")).collect::<Vec<_>>().join(" ");
    let answer = format!("**{answer}**");
    app.model().answer_with(&answer);
    app.model().mishap(1, Mishap::Stalls);
    app.receive(private(42, 7, "count")).await;
    // Half of it comes: the second message that it becomes.
    let has_come = async || drafts(&app).last().is_some_and(|(_, text)| text.trim_end().ends_with("w1000"));
    app.as_time_passes(wait_until("a draft is shown", has_come)).await;
    let (id, text) = drafts(&app).pop().unwrap();
    assert!(id == 7 && text.starts_with('w'), "{id} {text}");
    assert!(!text.contains("w0000") && text.split(' ').count() > 300, "{text}");
    // Nothing more comes: what is shown is kept up.
    let (shown, typing) = (drafts(&app).len(), typed(&app));
    app.as_time_passes(wait_until("the draft is kept up", async || drafts(&app).len() > shown)).await;
    assert_eq!((drafts(&app).len(), typed(&app)), (shown + 1, typing), "typing would take its place");

    // The model is asked once more, and answers whole.
    over(&app).await;
    assert_eq!(app.model().count(), 2);
    let (sent, shown) = (app.telegram_api().sent(), app.telegram_api().shown());
    assert_eq!(sent.len(), 3);
    assert!(shown.iter().all(|shown| shown.chat_id == 42 && shown.thread_id.is_none()));
    let mut drafts = shown.iter().filter(|shown| shown.sign != Sign::Typing);
    assert!(drafts.all(|shown| shown.at_seq < sent[0].at_seq));
    app.finish().await;
}

#[tokio::test]
async fn only_private_chats_see_drafts_and_all_see_typing_where_it_belongs() {
    let app = streaming().start().await;
    app.model().answer_with("one two three four five six seven eight");
    app.model().mishap(3, Mishap::Stalls);
    let in_topic =
        supergroup(-100, 7, "@annals_test_bot count").mention().with("message_thread_id", json!(17));
    app.receive(in_topic.with("is_topic_message", json!(true))).await;
    app.receive(group(-5, 8, "@annals_test_bot count").mention()).await;
    let business = private(43, 9, "count").with("business_connection_id", json!("bc_9f2"));
    app.receive(business.kind("business_message")).await;
    app.model().wait_for(3).await;
    is_typing(&app).await;
    is_typing(&app).await;
    let shown = app.telegram_api().shown();
    let of = |chat: i64| shown.iter().find(|shown| shown.chat_id == chat).unwrap();
    assert_eq!(of(-100).thread_id, Some(17));
    assert_eq!((of(-5).thread_id, of(43).business_connection_id.as_deref()), (None, Some("bc_9f2")));
    assert_eq!(drafts(&app), []);
    over(&app).await;
    app.finish().await;
}

#[tokio::test]
async fn drafts_pause_as_long_as_telegram_says_and_no_answer_waits_for_them() {
    let app = streaming().refusals_are_fine().start().await;
    app.telegram_api().edit(|store| store.signs.rate_limit = (1, 30));
    app.model().answer_with("one two three four five six seven eight");
    app.model().mishap(1, Mishap::Stalls);
    app.receive(private(42, 7, "count")).await;
    let refused = || app.telegram_api().statuses("sendMessageDraft");
    app.as_time_passes(wait_until("a draft is refused", async || !refused().is_empty())).await;
    let at = app.clock().now();
    app.as_time_passes(wait_until("one is taken", async || !drafts(&app).is_empty())).await;
    assert!(app.clock().now().since(at) >= Duration::from_secs(29), "not before");
    assert_eq!(refused()[..2], [429, 200]);
    over(&app).await;

    // An API that does not know them is not asked a second time.
    app.telegram_api().edit(|store| store.signs.knows_no_drafts = true);
    let before = refused().len();
    app.model().mishap(1, Mishap::Stalls);
    app.receive(private(42, 8, "again")).await;
    app.as_time_passes(wait_until("a draft is refused", async || refused().len() > before)).await;
    is_typing(&app).await;
    over(&app).await;
    assert_eq!(refused()[before..], [404]);
    assert_eq!(app.telegram_api().sent().len(), 2);
    app.finish().await;
}

/// Not only while the model is asked.
#[tokio::test]
async fn typing_continues_during_tools_and_summaries() {
    let (shop, app) = shop_with(&json!({}), |app| app.set("KEEP_RECENT", "2")).await;
    app.model().answer_tools(&[("shop_slow", json!({}))]);
    app.receive(private(42, 1, "look")).await;
    wait_until("the tool is called", async || !shop.carried_out().is_empty()).await;
    is_typing(&app).await;
    shop.release();
    app.idle().await;
    for id in 2..5 {
        app.handle(private(42, id, "more")).await;
    }
    app.model().hang_notes();
    app.receive(private(42, 5, "/compact").command()).await;
    app.model().wait_for_notes(1).await;
    is_typing(&app).await;
    app.model().resume();
    app.idle().await;
    let until_then = typed(&app);
    app.clock().advance(Duration::from_mins(1));
    app.idle().await;
    assert_eq!(typed(&app), until_then, "and no longer");
    app.finish().await;
}

/// Without `STREAM_REPLIES` no drafts are shown.
#[tokio::test]
async fn typing_goes_on_while_the_model_stalls_and_while_telegram_has_the_reply_wait() {
    let app = TestApp::builder().telegram().model().refusals_are_fine().start().await;
    app.model().mishap(1, Mishap::Stalls);
    app.receive(private(42, 6, "one two three four")).await;
    app.model().wait_for(1).await;
    is_typing(&app).await;
    assert_eq!(drafts(&app), []);
    over(&app).await;

    app.telegram_api().rate_limit(1, 30.0);
    app.receive(private(42, 7, "hello")).await;
    wait_until("the reply waits", async || app.telegram_api().statuses("sendMessage") == [200, 429]).await;
    is_typing(&app).await;
    app.idle_as_time_passes().await;
    assert_eq!(app.telegram_api().sent().len(), 2);
    app.finish().await;
}
