//! Who may approve a call, and what they are shown of it.

use serde_json::{Value, json};

use crate::app::{APP_KEY, OPS_KEY, TestApp, chat_path};
use crate::outside_tools::with_shop;
use crate::support::mcp_server::McpServer;
use crate::support::model_api::texts_of;
use crate::updates::{Update, group, private};

const GROUP: &str = "telegram:chat:-7";
const NOT_YOURS: &str = "Only the person who asked, or an administrator, can answer this.";

fn asks(approval: &Value) -> Value {
    json!({"tools": {"refund": {"approval": approval}}})
}

fn by(update: Update, user: i64) -> Update {
    update.with("from", json!({"id": user, "is_bot": false, "first_name": "Somebody"}))
}

fn last_text(app: &TestApp) -> String {
    app.telegram_api().sent().pop().unwrap().text
}

/// `user` says it as message `id` of the group.
async fn say(app: &TestApp, user: i64, id: i64, text: &str) {
    let update = by(group(-7, id, text), user);
    app.receive(if text.starts_with('/') { update.command() } else { update }).await;
    app.idle_as_time_passes().await;
}

/// Ada (42) and Bob (43) ask in one turn for a call that must be approved.
async fn asked_by_two(shop: &McpServer, admins: &str) -> TestApp {
    let app = with_shop(shop, &asks(&json!(true))).set("GROUP_ACTIVATION", "always").set("REPLY_QUIET", "2s");
    let app = app.set("ADMINS", admins).start().await;
    app.telegram_api().set_administrators(-7, &[50]);
    app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    app.receive(by(group(-7, 1, "Pay A1 back."), 42)).await;
    app.receive(by(group(-7, 2, "Yes, do."), 43)).await;
    app.idle_as_time_passes().await;
    let reply = app.records(GROUP).await.into_iter().find(|record| record.key.is_reply()).unwrap();
    assert_eq!(reply.covers.len(), 2, "one turn covers both");
    app
}

#[tokio::test]
async fn of_several_askers_all_must_approve_and_one_alone_cannot() {
    let shop = McpServer::start().await;
    let mut app = asked_by_two(&shop, "").await;
    say(&app, 43, 3, "/approve").await;
    assert_eq!(
        last_text(&app),
        "Recorded. shop_refund also needs the approval of 1 more person who asked, or of an administrator."
    );
    // Again, after a restart, and by somebody who did not ask.
    app.restart().await;
    say(&app, 43, 4, "/approve").await;
    assert!(last_text(&app).starts_with("Recorded. shop_refund also needs"), "{}", last_text(&app));
    say(&app, 44, 5, "/approve").await;
    assert_eq!((last_text(&app).as_str(), shop.carried_out().len()), (NOT_YOURS, 0));
    say(&app, 42, 6, "/approve").await;
    assert_eq!(shop.carried_out(), [("refund".to_owned(), json!({"order": "A1"}))]);
    app.export(GROUP, "approved-by-all").await;
    app.finish().await;
}

#[tokio::test]
async fn of_several_askers_each_may_deny_and_an_administrator_decides() {
    for (admins, user, command, calls) in
        [("", 43, "/deny", 0), ("telegram-77", 77, "/approve", 1), ("", 50, "/approve", 1)]
    {
        let shop = McpServer::start().await;
        let app = asked_by_two(&shop, admins).await;
        say(&app, 43, 3, "/approve").await;
        assert_eq!(shop.carried_out().len(), 0);
        say(&app, user, 4, command).await;
        assert_eq!(shop.carried_out().len(), calls, "{user} {command}");
        say(&app, 42, 5, "/approve").await;
        assert_eq!(shop.carried_out().len(), calls, "it is settled");
        app.finish().await;
    }
}

#[tokio::test]
async fn what_only_admins_approve_neither_the_asker_nor_a_group_s_administrator_does() {
    let shop = McpServer::start().await;
    let app = with_shop(&shop, &asks(&json!("admins"))).set("GROUP_ACTIVATION", "always");
    let app = app.set("ADMINS", "telegram-77").start().await;
    app.telegram_api().set_administrators(-7, &[50]);
    app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    say(&app, 42, 1, "Pay A1 back.").await;
    let asked = last_text(&app);
    assert!(asked.contains("Only an administrator of this bot can approve it."), "{asked}");
    for (id, user) in [(2, 42), (3, 50)] {
        say(&app, user, id, "/approve").await;
        assert_eq!(last_text(&app), "Only an administrator of this bot can answer this.");
    }
    assert_eq!(shop.carried_out(), []);
    say(&app, 77, 4, "/approve").await;
    assert_eq!(shop.carried_out().len(), 1);
    app.finish().await;
}

#[tokio::test]
async fn over_http_several_askers_must_all_approve() {
    let shop = McpServer::start().await;
    let mut app = with_shop(&shop, &asks(&json!(true))).start().await;
    app.model().hang();
    let path = chat_path("c", "messages");
    for (user, text) in [("ada", "Pay A1 back."), ("bob", "Yes, do.")] {
        app.post(&path, APP_KEY, &json!({"userId": user, "text": text})).await;
    }
    app.restart().await;
    app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    app.model().resume();
    app.idle_as_time_passes().await;
    let say = async |user: &str, key: &str, chat: &str| {
        let path = format!("{}?wait=20", chat_path(chat, "messages"));
        let body = json!({"userId": user, "text": "/approve"});
        let answer = app.as_time_passes(Box::pin(app.post(&path, key, &body))).await.body;
        answer["reply"]["parts"][0]["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(say("carol", APP_KEY, "c").await, NOT_YOURS);
    // An admin key speaks for whom it names, and Ada through it is not this key's Ada.
    assert_eq!(say("ada", OPS_KEY, "http:chat:app:c").await, NOT_YOURS);
    assert!(say("ada", APP_KEY, "c").await.starts_with("Recorded."));
    assert_eq!(shop.carried_out(), []);
    assert_eq!(say("bob", APP_KEY, "c").await, "Approved: shop_refund.");
    app.idle_as_time_passes().await;
    assert_eq!(shop.carried_out().len(), 1);
    app.finish().await;
}

/// A long first argument hid what follows it, and the button worked.
#[tokio::test]
async fn every_argument_is_shown_and_what_cannot_be_seen_is_written_out() {
    let shop = McpServer::start().await;
    let app = with_shop(&shop, &asks(&json!(true))).start().await;
    let input = json!({
        "order": "A1 ".repeat(2_000), "note": ["n".repeat(1_500), {"deep": "z"}], "payTo": "m\u{202e}alic\u{200b}e",
        "amount": 9_999,
    });
    app.model().answer_tools(&[("shop_refund", input)]);
    app.receive(private(42, 1, "Pay A1 back.")).await;
    app.idle_as_time_passes().await;
    let sent = app.telegram_api().sent();
    let asked: String = sent.iter().map(|sent| sent.text.as_str()).collect();
    for shown in [
        "\"payTo\": \"m\\u202ealic\\u200be\"",
        "\"amount\": 9999",
        "\"deep\": \"z\"",
        "characters are not shown",
    ] {
        assert!(asked.contains(shown), "{shown}: {asked}");
    }
    assert!(!asked.contains(['\u{202e}', '\u{200b}']));
    assert_eq!(sent.last().unwrap().keyboard.len(), 1, "the buttons follow the last of the arguments");
    app.finish().await;
}

/// An input that is longer than one message is asked for in several; one that nobody would read is not asked for.
#[tokio::test]
async fn what_is_too_long_for_a_message_is_asked_in_several_or_not_at_all() {
    let shop = McpServer::start().await;
    let app = with_shop(&shop, &asks(&json!(true))).start().await;
    let lines = |count: usize| -> Value {
        json!({"order": "A1", "lines": (0..count).map(|at| format!("position {at:04}")).collect::<Vec<_>>()})
    };
    app.model().answer_tools(&[("shop_refund", lines(250))]);
    app.receive(private(42, 1, "Pay it back.")).await;
    app.idle_as_time_passes().await;
    let sent = app.telegram_api().sent();
    assert!(sent.len() > 1, "several messages");
    let asked: String = sent.iter().map(|sent| sent.text.as_str()).collect();
    assert!((0..250).all(|at| asked.contains(&format!("position {at:04}"))), "{asked}");
    assert!(sent.iter().rev().skip(1).all(|sent| sent.keyboard.is_empty()), "the buttons are under the last");

    app.model().answer_tools(&[("shop_refund", lines(900))]);
    app.receive(private(42, 2, "Pay it all back.")).await;
    app.idle_as_time_passes().await;
    let told = texts_of(&app.model().requests().pop().unwrap(), "tool").concat();
    assert!(told.contains("its arguments are too long to be shown"), "{told}");
    assert_eq!(shop.carried_out(), []);
    app.finish().await;
}
