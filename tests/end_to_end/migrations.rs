//! Telegram: a group becomes a supergroup with another id, and its history goes on there.

use std::time::Duration;

use annals_test_support::mcp_server::McpServer;
use annals_test_support::model_api::texts_of;
use serde_json::{Value, json};

use crate::app::{OPS_KEY, TestApp, chat_path, lines, wait_until};
use crate::memory::list;
use crate::outside_tools::start_with_shop;
use crate::turns::assert_has;
use crate::updates::{group, supergroup};

const OLD: i64 = -4_100_200;
const NEW: i64 = -1_002_000_300_400;

/// Telegram's updates in the old chat and in the new one.
fn service_messages() -> [Value; 2] {
    let to = group(OLD, 20, "").without("text").with("migrate_to_chat_id", json!(NEW));
    let from = supergroup(NEW, 1, "").without("text").at(21).with("migrate_from_chat_id", json!(OLD));
    [to.into(), from.into()]
}

async fn history_goes_on(order: [usize; 2]) {
    let app = TestApp::start().await;
    let (old, new) = (format!("telegram:chat:{OLD}"), format!("telegram:chat:{NEW}"));
    app.handle(group(OLD, 11, "@annals_test_bot I am Ada").mention()).await;
    app.receive(group(OLD, 12, "it rains")).await;
    let updates = service_messages();
    for _ in 0..2 {
        for side in order {
            app.receive(updates[side].clone()).await;
        }
    }
    app.handle(supergroup(NEW, 2, "@annals_test_bot is it raining, and who am I?").at(30).mention()).await;

    let earlier = [
        "11 user: @annals_test_bot I am Ada",
        "11/reply assistant: You said: Ada: @annals_test_bot I am Ada",
        "12 user: it rains",
        "20 user event: [the group became a supergroup]",
        "1 user event: [the supergroup was made of a group]",
        "2 user: @annals_test_bot is it raining, and who am I?",
    ];
    let history = app.lines(&new).await;
    assert_eq!(history[..6], earlier, "{order:?}");
    assert_eq!(history.len(), 7);
    assert_eq!(app.lines(&old).await, history, "the old key reads the same");
    assert_eq!(app.context_lines(&new).await, history);

    let asked = texts_of(&app.model().requests()[1], "user").join("\n");
    assert_has(&asked, &["I am Ada", "it rains"]);
    assert!(asked.ends_with("who am I?"), "{asked}");
    let sent = app.telegram_api().sent();
    assert_eq!(sent.iter().map(|sent| sent.chat_id).collect::<Vec<_>>(), [OLD, NEW]);

    // A search and pages go over both keys, and pages both ways.
    for chat in [&old, &new] {
        let hits = app.get(&chat_path(chat, "search?q=rain")).await["hits"].take();
        let hits: Vec<&Value> = hits.as_array().unwrap().iter().map(|hit| &hit["message"]["id"]).collect();
        for id in ["12", "2"] {
            assert_eq!(hits.iter().filter(|hit| **hit == id).count(), 1, "{hits:?}");
        }
    }
    let pages = app.pages_back(&new, 2).await;
    assert_eq!(lines(&pages), history);
    assert_eq!(app.pages_forward(&new, 2).await, pages);
    app.finish().await;
}

#[tokio::test]
async fn the_history_continues_whichever_chat_reports_the_migration_first() {
    for order in [[0, 1], [1, 0]] {
        history_goes_on(order).await;
    }
}

/// Nobody has told yet that the group has moved but Telegram's answer to the send.
#[tokio::test]
async fn a_reply_goes_where_telegram_says_that_the_group_has_moved() {
    let app = TestApp::builder().telegram().model().refusals_are_fine().start().await;
    app.telegram_api().edit(|store| store.migrated.insert(OLD, NEW));
    app.handle(group(OLD, 11, "@annals_test_bot I am Ada").mention()).await;
    let sent = app.telegram_api().sent();
    assert_eq!((sent.len(), sent[0].chat_id, sent[0].reply_to), (1, NEW, None));

    app.handle(supergroup(NEW, 2, "@annals_test_bot who am I?").at(30).mention()).await;
    assert_eq!(app.lines(&format!("telegram:chat:{NEW}")).await.len(), 4);
    assert_eq!(texts_of(&app.model().requests()[1], "user").len(), 2);
    let reply = &app.history(&format!("telegram:chat:{OLD}")).await[1];
    assert_eq!(reply["metadata"]["deliveryFailure"], Value::Null);
    app.finish().await;
}

/// Returns a shop and a program in which a reply of the old chat was approved in the new one, and makes its call.
async fn approved_after_the_migration() -> (McpServer, TestApp) {
    let (shop, app) = start_with_shop(&json!({"tools": {"slow": {"approval": true}}})).await;
    app.model().answer_tools(&[("shop_slow", json!({}))]);
    app.handle(group(OLD, 11, "@annals_test_bot take your time").mention()).await;
    for update in service_messages() {
        app.receive(update).await;
    }
    app.receive(supergroup(NEW, 2, "/approve").at(30).command()).await;
    wait_until("the call is under way", async || shop.carried_out().len() == 1).await;
    (shop, app)
}

/// The reply goes on under the earlier name, in a run of its own.
#[tokio::test]
async fn a_question_does_not_wait_for_a_reply_that_was_approved_after_the_migration() {
    let (shop, app) = approved_after_the_migration().await;
    app.receive(supergroup(NEW, 3, "@annals_test_bot are you there?").at(31).mention()).await;
    let is_answered = async || {
        app.telegram_api()
            .sent()
            .iter()
            .any(|sent| sent.chat_id == NEW && sent.text.ends_with("are you there?"))
    };
    wait_until("the question is answered", is_answered).await;
    shop.release();
    app.idle().await;
    assert_eq!(app.last_sent().chat_id, OLD);
    app.finish().await;
}

#[tokio::test]
async fn a_stop_after_the_migration_leaves_the_reply_under_the_earlier_name_to_its_run() {
    let (shop, app) = approved_after_the_migration().await;
    app.receive(supergroup(NEW, 3, "/stop").at(31).command()).await;
    shop.release();
    app.idle().await;
    assert_eq!(app.last_sent().chat_id, OLD);
    app.finish().await;
}

/// A schedule stays under the name under which it was set, until it comes due.
#[tokio::test]
async fn what_was_scheduled_before_is_listed_and_cancelled_afterwards() {
    let app = TestApp::start().await;
    for (id, what) in [(11, "tea"), (12, "milk"), (13, "soup")] {
        app.handle(group(OLD, id, &format!("/remind 2026-12-01 9:00 {what}")).command()).await;
    }
    for update in service_messages() {
        app.receive(update).await;
    }
    let path = chat_path(&format!("telegram:chat:{NEW}"), "schedules");
    let listed = async || app.get(&path).await["schedules"].as_array().unwrap().clone();
    let set = listed().await;
    assert_eq!(set.len(), 3);
    let ids: Vec<&str> = set.iter().map(|stored| stored["id"].as_str().unwrap()).collect();
    app.handle(supergroup(NEW, 2, "/remind").at(30).command()).await;
    let list = app.last_sent().text;
    assert!(ids.iter().all(|id| list.contains(id)), "{list}");

    app.model().answer_tools(&[("schedule_list", json!({}))]);
    app.model().answer_tools(&[("schedule_cancel", json!({"id": ids[0]}))]);
    app.handle(supergroup(NEW, 3, "@annals_test_bot not the tea").at(31).mention()).await;
    let told = texts_of(&app.last_request(), "tool");
    assert!(ids.iter().all(|id| told[0].contains(id)), "{told:?}");
    assert_has(&told[1], &["cancelled", ids[0]]);
    assert_eq!(listed().await, set[1..]);
    app.handle(supergroup(NEW, 4, &format!("/remind cancel {}", ids[1])).at(32).command()).await;
    assert_eq!(listed().await, set[2..]);
    app.finish().await;
}

/// Each of its names comes due by itself.
#[tokio::test]
async fn a_session_over_two_names_is_remembered_once() {
    let app = TestApp::builder().set("CAPTURE_GROUP_MEMORY", "true").start().await;
    app.receive(group(OLD, 11, "the tomatoes are Ada's")).await;
    for update in service_messages() {
        app.receive(update).await;
    }
    app.handle(supergroup(NEW, 2, "the beans are Olle's").at(30)).await;
    let query = format!("chatKey=telegram:chat:{NEW}");
    let remembered = async || list(&app, &query, OPS_KEY).await;
    wait_until("it is captured", async || {
        app.clock().advance(Duration::from_hours(1));
        !remembered().await.is_empty()
    })
    .await;
    let mut memories = Vec::new();
    for _ in 0..12 {
        app.clock().advance(Duration::from_hours(5));
        memories = remembered().await;
    }
    let texts: Vec<&str> = memories.iter().map(|memory| memory["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["Said: the tomatoes are Ada's / the beans are Olle's"]);
    app.finish().await;
}
