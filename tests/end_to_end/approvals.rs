//! Calls that need approval: asked and answered once, and made at most once.

use std::time::Duration;

use annals_core::chat_key::ChatKey;
use annals_core::record::Kind;
use annals_test_support::model_api::{Mishap, texts_of};
use annals_test_support::telegram_api::Sent;
use aws_sdk_dynamodb::types::AttributeValue;
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{APP_KEY, Builder, OPS_KEY, TestApp, a_while, text_of, wait_until};
use crate::lines::business;
use crate::memory::call;
use crate::outside_tools::{shop_with, start_with_shop};
use crate::updates::{group, private};
use crate::world::{A_LIFE, change_item};

const CHAT: &str = "telegram:chat:42";
const GROUP: &str = "telegram:chat:-7";
const NOT_ANSWERED: &str = "Stopped before there was an answer.";
const GONE: &str = "This request is no longer open.";

/// `refund` and `slow` must be approved.
fn marked() -> Value {
    json!({"tools": {"refund": {"approval": true}, "slow": {"approval": true}}})
}

pub(crate) fn refund(order: &str) -> (&'static str, Value) {
    ("shop_refund", json!({ "order": order }))
}

/// Presses the button at `column` of row `row` under `sent`, as `user`.
pub(crate) async fn press(app: &TestApp, sent: &Sent, (row, column): (usize, usize), user: i64, id: &str) {
    let kind = if sent.chat_id < 0 { "group" } else { "private" };
    app.receive(json!({"update_id": 900, "callback_query": {
        "id": id, "chat_instance": "1", "data": sent.keyboard[row][column]["callback_data"],
        "from": {"id": user, "is_bot": false, "first_name": "Somebody"},
        "message": {"message_id": sent.message_id, "date": 1_763_765_920, "text": sent.text,
            "chat": {"id": sent.chat_id, "type": kind}, "reply_markup": {"inline_keyboard": sent.keyboard},
            "business_connection_id": sent.business_connection_id},
    }}))
    .await;
}

/// Presses the first button as Ada, and waits until its turn is done.
pub(crate) async fn approve(app: &TestApp, asked: &Sent) {
    press(app, asked, (0, 0), 42, "c1").await;
    app.idle().await;
}

/// Lets Ada say `Pay A1 back.`, and the model make `calls`; returns the question.
async fn asked_for(app: &TestApp, calls: &[(&'static str, Value)]) -> Sent {
    app.model().answer_tools(calls);
    app.ada_says(1, "Pay A1 back.").await;
    app.last_sent()
}

/// Returns the texts with which presses were answered.
fn told(app: &TestApp) -> Vec<String> {
    app.telegram_api().answered().into_iter().map(|answered| answered.text).collect()
}

/// `<id> <states of its calls>` of each form of the replies in a history.
async fn forms(app: &TestApp, chat: &str) -> Vec<String> {
    let mut history = app.history(chat).await;
    history.retain(|message| message["role"] == "assistant" && message["metadata"]["kind"] != "notice");
    let form = |message: &Value| {
        let states = message["parts"].as_array().unwrap().iter().filter_map(|part| part["state"].as_str());
        let id_and_states: Vec<&str> = message["id"].as_str().into_iter().chain(states).collect();
        id_and_states.join(" ")
    };
    history.iter().map(form).collect()
}

#[tokio::test]
async fn an_approved_call_is_made_once_and_the_reply_goes_on_days_and_restarts_later() {
    // Telegram takes one answer to a press, and no buttons that are there already.
    let (shop, mut app) = shop_with(&marked(), Builder::refusals_are_fine).await;
    let asked = asked_for(&app, &[("shop_lookup", json!({"order": "A1"})), refund("A1")]).await;
    let looked_up = ("lookup".to_owned(), json!({"order": "A1"}));
    assert_eq!(shop.carried_out(), [looked_up], "the one call that needs no approval");
    assert!(asked.text.contains("May I call shop_refund") && asked.text.contains("A1"), "{}", asked.text);
    assert_eq!(asked.keyboard.len(), 1);
    let reply = app.history(CHAT).await.pop().unwrap();
    let part = &reply["parts"][1];
    assert_eq!((&part["type"], &part["state"]), (&json!("tool-shop_refund"), &json!("approval-requested")));
    assert_eq!(part["approval"]["id"].as_str().unwrap().len(), 16);

    let waiting =
        async |app: &TestApp| app.get("/v1/chats?state=waiting").await["chats"].as_array().unwrap().len();
    assert_eq!(waiting(&app).await, 1);

    app.restart().await;
    app.clock().advance(Duration::from_hours(30));
    let before = app.model().count();
    // A press, its redelivery, a second press, and one of the other button.
    for (column, id) in [(0, "c1"), (0, "c1"), (0, "c2"), (1, "c3")] {
        press(&app, &asked, (0, column), 42, id).await;
        app.idle().await;
    }
    assert_eq!(waiting(&app).await, 0);
    let refunds = shop.carried_out().into_iter().filter(|(name, _)| name == "refund").count();
    assert_eq!(refunds, 1, "four presses did not make one call");
    let approved = "Approved: shop_refund.";
    assert_eq!(told(&app), [approved, approved, "Approved already: shop_refund."]);
    assert_eq!(app.last_sent().text, "You said: Pay A1 back.", "what is new alone");
    assert_eq!(app.telegram_api().sent()[0].keyboard, [Value::Null; 0]);

    let [request] = &app.model().requests()[before..] else { panic!("the model is asked once more") };
    assert!(texts_of(request, "tool").concat().contains("refunded A1"));
    assert_eq!(
        forms(&app, CHAT).await,
        [
            "1/reply output-available approval-requested",
            "1/reply@1 output-available approval-responded",
            "1/reply@2 output-available output-available",
            "1/reply@3 output-available output-available",
        ]
    );
    let context = app.context(CHAT).await;
    let [_, reply] = &context[..] else { panic!("{context:#?}") };
    assert_eq!((&reply["id"], text_of(reply).as_str()), (&json!("1/reply"), "You said: Pay A1 back."));
    assert_eq!(reply["parts"][1]["approval"]["approved"], true);
    app.export(CHAT, "approved").await;
    app.finish().await;
}

/// In a process that does not know the server's tools yet.
#[tokio::test]
async fn an_approved_call_waits_for_its_server_for_three_attempts() {
    for recovers in [true, false] {
        let (shop, mut app) = start_with_shop(&marked()).await;
        asked_for(&app, &[refund("A1")]).await;
        shop.edit(|stored| stored.is_down = true);
        app.restart().await;
        app.receive(private(42, 2, "/approve").command()).await;
        let chat = ChatKey::telegram(42, None);
        let failures = async || app.open_history().head(&chat).await.unwrap().failures;
        wait_until("an attempt has failed", async || failures().await == 1).await;
        shop.edit(|stored| stored.is_down = !recovers);
        app.idle_as_time_passes().await;
        let unreachable = "cannot be reached at the moment; nothing was carried out";
        let (calls, result) = if recovers { (1, "refunded A1") } else { (0, unreachable) };
        assert_eq!(shop.carried_out().len(), calls);
        let told = texts_of(&app.last_request(), "tool").concat();
        assert!(told.contains(result), "{told}");
        app.finish().await;
    }
}

#[tokio::test]
async fn a_denied_call_is_not_made_and_the_model_gets_the_reason() {
    let (shop, app) = start_with_shop(&marked()).await;
    app.model().answer_tools(&[refund("A1"), refund("A2")]);
    app.ada_says(1, "Pay both back.").await;
    app.export(CHAT, "pending").await;
    app.handle(private(42, 2, "/approve").command()).await;
    let which = app.last_sent().text;
    assert!(
        which.starts_with("Which one?") && which.ends_with("\n#1 shop_refund\n#2 shop_refund"),
        "{which}"
    );
    app.handle(private(42, 3, "/deny 2 too much").command()).await;
    assert_eq!(app.last_sent().text, "Denied: shop_refund.");
    let open = "1/reply approval-requested approval-requested";
    assert_eq!(forms(&app, CHAT).await, [open], "nothing is settled before both are answered");
    app.handle(private(42, 4, "/deny 1000 is too much").command()).await;
    let which = app.last_sent().text;
    assert!(which.starts_with("Which one?") && which.ends_with("\n#1 shop_refund"), "no such code: {which}");
    app.handle(private(42, 5, "/approve 1").command()).await;
    assert_eq!(shop.carried_out(), [("refund".to_owned(), json!({"order": "A1"}))]);
    let last = app.history(CHAT).await.into_iter().rfind(|form| form["metadata"]["messageId"] == "1/reply");
    let parts = last.unwrap()["parts"].clone();
    assert_eq!([&parts[0]["state"], &parts[1]["state"]], ["output-available", "output-denied"]);
    assert_eq!(parts[1]["approval"]["reason"], "too much");
    let seen = texts_of(&app.last_request(), "tool");
    assert!(seen[1].starts_with("not carried out: this call was denied") && seen[1].ends_with("too much"));
    app.export(CHAT, "denied").await;
    app.finish().await;
}

#[tokio::test]
async fn only_who_asked_or_administers_may_answer() {
    let settings = [("GROUP_ACTIVATION", "always"), ("ADMINS", "telegram-77,boss")];
    let (shop, app) = shop_with(&marked(), |app| app.set_all(&settings)).await;
    app.telegram_api().set_administrators(-7, &[50]);
    for (id, user, is_let) in [(1, 43, false), (2, 42, true), (3, 50, true), (4, 77, true)] {
        app.model().answer_tools(&[refund(&format!("A{id}"))]);
        app.handle(group(-7, id, "Pay it back.")).await;
        let (asked, before) = (app.last_sent(), shop.carried_out().len());
        press(&app, &asked, (0, 0), user, &format!("c{id}")).await;
        app.idle().await;
        assert_eq!(shop.carried_out().len() - before, usize::from(is_let), "user {user}");
        let answered = app.telegram_api().answered().pop().unwrap();
        assert_eq!(answered.alert, !is_let, "{answered:?}");
        if !is_let {
            assert_eq!(answered.text, "Only the person who asked, or an administrator, can answer this.");
            let verdicts = app.records(GROUP).await.into_iter().filter(|r| r.key.belongs_to_reply()).count();
            assert_eq!(verdicts, 0, "a stranger's press was recorded");
        }
    }
    app.finish().await;
}

#[tokio::test]
async fn a_call_that_a_crash_cut_off_is_not_made_again() {
    let (shop, mut app) = start_with_shop(&marked()).await;
    let asked = asked_for(&app, &[("shop_slow", json!({}))]).await;
    press(&app, &asked, (0, 0), 42, "c1").await;
    wait_until("the call is under way", async || shop.carried_out().len() == 1).await;
    app.restart().await;
    app.idle().await;
    assert_eq!(shop.carried_out().len(), 1, "the call was made again after the crash");
    let reply = app.history(CHAT).await.pop().unwrap();
    assert_eq!((&reply["id"], &reply["parts"][0]["state"]), (&json!("1/reply@3"), &json!("output-error")));
    let told = texts_of(&app.last_request(), "tool").concat();
    assert!(told.contains("the outcome of this call is not known"), "{told}");
    app.export(CHAT, "cut-off").await;
    app.finish().await;
}

/// An open request is returned at once. A caller who repeats the message later gets the result of its call.
#[tokio::test]
async fn a_repeat_over_http_gets_the_newest_form_of_the_reply() {
    let (_shop, app) = start_with_shop(&marked()).await;
    app.model().answer_tools(&[refund("A1")]);
    let said = json!({"userId": "ada", "messageId": "m1", "text": "Pay A1 back."});
    let state = async || app.ask("c", APP_KEY, &said).await.body["reply"]["parts"][0]["state"].take();
    for _ in 0..2 {
        assert_eq!(state().await, "approval-requested");
    }
    app.say("c", &json!({"userId": "ada", "text": "/approve"})).await;
    assert_eq!(state().await, "output-available");
    app.finish().await;
}

/// The process died when it had sent a second question, before it had noted that its turn was over.
#[tokio::test]
async fn what_follows_a_second_approval_is_sent_though_the_turn_that_asked_for_it_did_not_end() {
    let (shop, mut app) = start_with_shop(&marked()).await;
    let asked = asked_for(&app, &[refund("A1")]).await;
    app.model().answer_tools(&[refund("A2")]);
    approve(&app, &asked).await;
    let asked = app.last_sent();
    assert!(asked.text.contains("A2"), "{}", asked.text);
    let records = app.records(CHAT).await;
    let reply = records.iter().find(|record| record.key.is_reply() && record.revision() == 0).unwrap();
    let resumes = json!({"reply": reply.key, "shown": 0});
    let turn = json!({"covers": reply.covers(), "sent": 1, "resumes": resumes}).to_string();
    app.stop().await;
    let turn = [(":turn", AttributeValue::S(turn))];
    change_item(app.stores(), (CHAT, "!head"), "SET turn = :turn", &turn).await;
    app.restart().await;
    press(&app, &asked, (0, 0), 42, "c2").await;
    app.idle_as_time_passes().await;
    assert_eq!(app.last_sent().text, "You said: Pay A1 back.");
    assert_eq!(shop.carried_out().len(), 2);
    app.finish().await;
}

/// Its confirmation could not be sent, so Telegram delivers the command again.
#[tokio::test]
async fn a_command_that_is_delivered_again_allows_nothing_that_was_asked_since() {
    let (shop, app) = shop_with(&marked(), Builder::refusals_are_fine).await;
    for (id, word) in [(11, "/approve"), (12, "/approve 1"), (13, "/approve all")] {
        let command: Value = private(42, id, word).command().into();
        app.telegram_api().fail(3, 502);
        assert_eq!(app.as_time_passes(app.telegram(&command)).await, 503);
        app.model().answer_tools(&[refund("A1")]);
        app.handle_as_time_passes(private(42, 10 * id, "Pay A1 back.")).await;
        app.receive(command).await;
        app.idle_as_time_passes().await;
        assert_eq!(shop.carried_out(), [], "{word}");
        let told = app.last_sent().text;
        assert!(told.contains("May I call shop_refund") && told.contains("/approve "), "{word}: {told}");
        app.handle_as_time_passes(private(42, 10 * id + 1, "/deny").command()).await;
        assert_eq!(shop.carried_out(), []);
    }
    app.handle_as_time_passes(private(42, 200, "Pay A1 back.")).await;
    app.finish().await;
}

#[tokio::test]
async fn messages_during_an_open_request_are_answered_and_the_request_stays_open() {
    let (_shop, app) = start_with_shop(&marked()).await;
    let asked = asked_for(&app, &[refund("A1")]).await;
    app.ada_says(2, "What time is it?").await;
    let waits = texts_of(&app.last_request(), "tool").concat();
    assert!(waits.starts_with("not carried out: somebody has to allow this call first"), "{waits}");
    // The emulator repeats all messages since its last answer.
    assert_eq!(app.last_sent().text, "You said: Pay A1 back.\nWhat time is it?");
    app.export(CHAT, "meanwhile").await;
    approve(&app, &asked).await;
    assert_eq!(
        app.context_lines(CHAT).await,
        [
            "1 user: Pay A1 back.",
            "1/reply assistant revision: You said: Pay A1 back.",
            "2 user: What time is it?",
            "2/reply assistant: You said: Pay A1 back.\nWhat time is it?",
        ],
        "the reply was not continued in its own place"
    );
    let seen = texts_of(&app.last_request(), "user").concat();
    assert!(!seen.contains("What time"), "what was said after the request: {seen}");
    app.finish().await;
}

/// The whole Session is over by then, and others have been talking since.
#[tokio::test]
async fn a_press_on_what_was_asked_in_a_session_that_is_over_counts_all_the_same() {
    let (shop, mut app) = start_with_shop(&marked()).await;
    let asked = asked_for(&app, &[refund("A1")]).await;
    for (id, hours) in [(2, 50), (3, 70)] {
        app.clock().advance(Duration::from_hours(hours));
        app.ada_says(id, "Good morning.").await;
        app.restart().await;
    }
    approve(&app, &asked).await;
    assert_eq!(shop.carried_out(), [("refund".to_owned(), json!({"order": "A1"}))]);
    assert_eq!(texts_of(&app.last_request(), "user"), ["Pay A1 back."], "what it saw at the request");
    assert_eq!(told(&app), ["Approved: shop_refund."]);
    app.finish().await;
}

#[tokio::test]
async fn a_press_on_what_was_asked_before_a_link_counts() {
    let (shop, app) = shop_with(&marked(), |app| app.set("DM_SCOPE", "user")).await;
    let asked = asked_for(&app, &[refund("A1")]).await;
    app.clock().advance(Duration::from_mins(2));
    let links = Some(json!({"links": ["telegram-42"]}));
    assert_eq!(call(&app, Method::PUT, "/v1/people/ada/links", OPS_KEY, links).await.status, 200);
    app.idle_as_time_passes().await;
    approve(&app, &asked).await;
    assert_eq!(shop.carried_out(), [("refund".to_owned(), json!({"order": "A1"}))]);
    assert_eq!(told(&app), ["Approved: shop_refund."]);
    app.finish().await;
}

/// A person may read a request and yet not be able to answer it: it is in the archive alone, or what it answers is.
#[tokio::test]
async fn a_request_whose_record_has_expired_is_no_longer_open() {
    for (scope, chat) in [("chat", CHAT), ("user", "agent:annals:user:telegram-42")] {
        for leaves_reply in [false, true] {
            let (shop, app) = shop_with(&marked(), |app| app.set("DM_SCOPE", scope)).await;
            let asked = asked_for(&app, &[refund("A1")]).await;
            let before = app.model().count();
            app.archive_everything(chat).await;
            for record in app.records(chat).await.iter().filter(|r| !(leaves_reply && r.key.is_reply())) {
                app.expire(record).await;
            }
            // TTL takes in any order, but nothing before its time.
            let later = Duration::from_hours(if leaves_reply { 0 } else { 240 });
            app.clock().advance(later);
            let at = |id: i64| 60 + i64::try_from(later.as_secs()).unwrap() + id;
            let is_listed = app.history(chat).await.iter().any(|message| message["id"] == "1/reply");
            assert!(is_listed, "the pages do not show the reply");
            for (id, command) in [(2, "/approve"), (3, "/deny"), (4, "/approve all")] {
                app.handle(private(42, id, command).command().at(at(id))).await;
                assert_eq!(app.last_sent().text, GONE, "{scope} {command}");
            }
            approve(&app, &asked).await;
            assert_eq!(told(&app), [GONE]);
            app.handle(private(42, 5, "/stop").command().at(at(5))).await;
            assert_eq!(app.last_sent().text, "Nothing is being answered at the moment.");
            let verdicts = app.records(chat).await.into_iter().filter(|r| r.key.belongs_to_reply()).count();
            assert_eq!((verdicts, shop.carried_out().len(), app.model().count()), (0, 0, before));
            app.finish().await;
        }
    }
}

/// TTL deletes expired records in any order: what came of an approval may go before the request, and before the approval.
#[tokio::test]
async fn an_approved_call_is_not_made_again_once_its_reply_has_expired() {
    for leaves_verdict in [false, true] {
        // The buttons that are pressed once more are gone.
        let (shop, app) = shop_with(&marked(), Builder::refusals_are_fine).await;
        let asked = asked_for(&app, &[refund("A1")]).await;
        approve(&app, &asked).await;
        app.archive_everything(CHAT).await;
        app.clock().advance(A_LIFE);
        let records = app.records(CHAT).await;
        let followed = records.iter().filter(|record| record.key.belongs_to_reply());
        for record in followed.filter(|record| !leaves_verdict || record.kind() == Kind::Revision) {
            app.expire(record).await;
        }
        let before = app.model().count();
        press(&app, &asked, (0, 0), 42, "c2").await;
        app.ada_says(2, "Good morning.").await;
        assert_eq!(told(&app), ["Approved: shop_refund.", GONE]);
        assert_eq!((shop.carried_out().len(), app.model().count()), (1, before + 1));
        app.finish().await;
    }
}

/// A business's customer presses: its message is on a line of its own, whatever the scope of direct messages.
#[tokio::test]
async fn a_business_s_buttons_are_pressed_and_go() {
    for scope in ["chat", "user"] {
        let (shop, app) = shop_with(&marked(), |app| app.set("DM_SCOPE", scope)).await;
        app.model().answer_tools(&[refund("A1")]);
        let said = private(42, 1, "Pay A1 back.").with("business_connection_id", json!("bc_9f2"));
        app.handle(said.kind("business_message")).await;
        let asked = app.last_sent();
        assert_eq!((asked.business_connection_id.as_deref(), asked.keyboard.len()), (Some("bc_9f2"), 1));
        approve(&app, &asked).await;
        assert_eq!(told(&app), ["Approved: shop_refund."], "{scope}");
        assert_eq!(shop.carried_out(), [("refund".to_owned(), json!({"order": "A1"}))]);
        assert_eq!(app.telegram_api().sent()[0].keyboard, [Value::Null; 0]);
        let last = app.last_sent();
        assert_eq!(last.text, "You said: Pay A1 back.");
        assert_eq!(last.business_connection_id.as_deref(), Some("bc_9f2"));
        app.finish().await;
    }
}

/// The business reads its line, and what was asked of the bot in private is not the business's.
#[tokio::test]
async fn a_request_is_not_answered_or_shown_on_another_line() {
    let (shop, app) = start_with_shop(&marked()).await;
    asked_for(&app, &[refund("A1")]).await;
    for (id, command) in [(2, "/approve"), (3, "/deny 1"), (4, "/approve all")] {
        app.handle(business("bc_9f2", id, command).command()).await;
        assert_eq!(app.last_sent().text, "Nothing waits for an approval here.", "{command}");
    }
    assert_eq!(forms(&app, CHAT).await, ["1/reply approval-requested"]);
    app.handle(private(42, 5, "/approve").command()).await;
    assert_eq!(shop.carried_out().len(), 1);
    app.finish().await;
}

#[tokio::test]
async fn a_stop_denies_what_waits_and_the_reply_does_not_go_on() {
    // Telegram takes no buttons that are there already.
    let (shop, mut app) = shop_with(&marked(), Builder::refusals_are_fine).await;
    let asked = asked_for(&app, &[refund("A1"), refund("A2")]).await;
    let before = app.model().count();
    press(&app, &asked, (0, 0), 42, "c1").await;
    let command = private(42, 2, "/stop").command();
    app.handle(&command).await;
    assert_eq!(app.last_sent().text, "Stopped.");
    assert_eq!((app.model().count(), shop.carried_out().len()), (before, 0));
    let denied = ["1/reply approval-requested approval-requested", "1/reply@1 output-denied output-denied"];
    assert_eq!(forms(&app, CHAT).await, denied);
    let ended = app.history(CHAT).await.into_iter().find(|message| message["id"] == "1/reply@1").unwrap();
    assert_eq!(ended["metadata"]["stoppedBy"], "2");
    assert_eq!(ended["parts"][1]["approval"]["reason"], "stopped by /stop");
    app.export(CHAT, "stopped").await;

    app.restart().await;
    app.receive(&command).await;
    for (column, id) in [(0, "c2"), (1, "c3")] {
        press(&app, &asked, (1, column), 42, id).await;
        app.idle().await;
    }
    let expected = ["Approved: shop_refund.", "Denied already: shop_refund.", "Denied: shop_refund."];
    assert_eq!(told(&app), expected);
    assert_eq!((app.last_sent().text.as_str(), app.model().count()), ("Stopped.", before));
    app.ada_says(3, "Well?").await;
    let request = app.last_request();
    let results = texts_of(&request, "tool");
    assert!(results.iter().all(|result| result.ends_with("stopped by /stop")), "{results:?}");
    assert_eq!(app.open_history().head(&CHAT.parse().unwrap()).await.unwrap().stopped_to, None);
    app.finish().await;
}

#[tokio::test]
async fn a_stop_ends_a_call_that_was_allowed_and_is_under_way() {
    let (shop, app) = start_with_shop(&marked()).await;
    let asked = asked_for(&app, &[("shop_slow", json!({}))]).await;
    let before = app.model().count();
    press(&app, &asked, (0, 0), 42, "c1").await;
    wait_until("the call is under way", async || shop.carried_out().len() == 1).await;
    app.handle(private(42, 2, "/stop").command()).await;
    assert_eq!(app.last_sent().text, "Stopped.");
    assert_eq!((app.model().count(), shop.carried_out().len()), (before, 1));
    let states = ["1/reply approval-requested", "1/reply@1 approval-responded", "1/reply@2 output-error"];
    assert_eq!(forms(&app, CHAT).await, states);
    app.ada_says(3, "Well?").await;
    let told = texts_of(&app.last_request(), "tool").concat();
    assert!(told.contains("the outcome of this call is not known"), "{told}");
    app.export(CHAT, "stopped-call").await;
    app.finish().await;
}

/// Calls that need no approval. Of two at once, one has its result.
#[tokio::test]
async fn a_stop_ends_a_run_that_waits_for_a_tool_and_keeps_the_results_that_are_there() {
    for (calls, states) in [
        (&[("shop_slow", json!({}))][..], "1/reply output-error"),
        (&[refund("A1"), ("shop_slow", json!({}))], "1/reply output-available output-error"),
    ] {
        let (shop, app) = start_with_shop(&json!({})).await;
        app.model().answer_tools(calls);
        app.receive(private(42, 1, "Go.")).await;
        wait_until("the calls are under way", async || shop.carried_out().len() == calls.len()).await;
        a_while().await;
        app.handle(private(42, 2, "/stop").command()).await;
        assert_eq!((app.last_sent().text.as_str(), app.model().count()), ("Stopped.", 1));
        let reply = &app.history(CHAT).await[1];
        assert_eq!((text_of(reply).as_str(), &reply["metadata"]["stopped"]), (NOT_ANSWERED, &json!(true)));
        assert_eq!(forms(&app, CHAT).await, [states]);
        app.export(CHAT, "stopped-tool").await;
        app.ada_says(3, "Well?").await;
        let told = texts_of(&app.last_request(), "tool");
        assert!(told.last().unwrap().contains("the outcome of this call is not known"), "{told:?}");
        assert!(calls.len() == 1 || told[0].contains("A1"), "{told:?}");
        app.finish().await;
    }
}

#[tokio::test]
async fn a_stop_keeps_what_a_reply_said_after_an_approved_call() {
    let (shop, app) = start_with_shop(&marked()).await;
    let asked = asked_for(&app, &[refund("A1")]).await;
    app.model().answer_with("It is paid back to the card as you asked");
    app.model().mishap(1, Mishap::Stalls);
    let before = app.model().count();
    press(&app, &asked, (0, 0), 42, "c1").await;
    app.model().wait_for(before + 1).await;
    a_while().await;
    app.handle_as_time_passes(private(42, 2, "/stop").command()).await;
    assert_eq!(shop.carried_out().len(), 1);
    let sent = app.sent_texts();
    assert_eq!(sent[sent.len() - 2..], ["Stopped.", "It is paid back to the\n\n(Stopped here.)"]);
    let history = app.history(CHAT).await;
    let last = history.iter().rfind(|message| message["metadata"]["messageId"] == "1/reply").unwrap();
    assert_eq!(text_of(last).trim_end(), "It is paid back to the");
    assert_eq!(last["metadata"]["stopped"], true);
    let parts = last["parts"].as_array().unwrap();
    assert!(parts.iter().any(|part| part["state"] == "output-available"), "{last}");
    app.export(CHAT, "stopped-after-call").await;
    app.finish().await;
}

/// It is stored to its end, so that a `/stop` only ends its delivery.
#[tokio::test]
async fn a_stop_ends_the_delivery_of_what_a_reply_said_after_an_approved_call() {
    let (_shop, app) = shop_with(&marked(), Builder::refusals_are_fine).await;
    let asked = asked_for(&app, &[refund("A1")]).await;
    app.telegram_api().rate_limit(1, 7.0);
    press(&app, &asked, (0, 0), 42, "c1").await;
    let is_throttled = async || app.telegram_api().statuses("sendMessage").contains(&429);
    wait_until("the delivery is throttled", is_throttled).await;
    app.handle(private(42, 2, "/stop").command()).await;
    app.clock().advance(Duration::from_mins(1));
    a_while().await;
    assert_eq!(app.sent_texts()[1..], ["Stopped."]);
    let history = app.history(CHAT).await;
    let last = history.iter().rfind(|message| message["metadata"]["messageId"] == "1/reply").unwrap();
    assert_eq!((&last["id"], text_of(last).as_str()), (&json!("1/reply@3"), "You said: Pay A1 back."));
    let reason = "stopped by /stop while it was being sent";
    assert_eq!(last["metadata"]["deliveryFailure"]["reason"], reason);
    app.finish().await;
}

/// The note about the file precedes the question, once, and is no part of the call.
#[tokio::test]
async fn a_reply_that_asks_tells_first_of_a_file_that_was_not_seen() {
    let (shop, app) = shop_with(&marked(), Builder::refusals_are_fine).await;
    app.telegram_api().edit(|store| store.files.set.insert("gone".into(), None));
    app.model().answer_tools(&[refund("A1")]);
    let photo =
        json!([{"file_id": "gone", "file_unique_id": "u", "width": 9, "height": 9, "file_size": 73_212}]);
    let photo = private(42, 1, "").without("text").with("photo", photo);
    app.handle_as_time_passes(photo.with("caption", json!("Pay what is on this back."))).await;
    let [told, asked] = &app.telegram_api().sent()[..] else { panic!("two messages") };
    assert!(told.text.starts_with("Not seen: photo, 73 KB (") && told.keyboard.is_empty(), "{}", told.text);
    assert!(asked.text.starts_with("May I call shop_refund") && asked.text.contains("A1"), "{}", asked.text);
    assert_eq!(asked.keyboard.len(), 1);
    press(&app, asked, (0, 0), 42, "c1").await;
    app.idle_as_time_passes().await;
    assert_eq!(shop.carried_out(), [("refund".to_owned(), json!({"order": "A1"}))]);
    let last = app.last_sent().text;
    assert!(last.starts_with("You said: Pay what is on this back."), "{last}");
    let texts = app.sent_texts().concat();
    assert_eq!(texts.matches("Not seen").count(), 1, "{texts}");
    let states = ["1/reply approval-requested", "1/reply@1 approval-responded", "1/reply@2 output-available"];
    assert_eq!(forms(&app, CHAT).await[..3], states);
    app.finish().await;
}
