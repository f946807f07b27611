//! Approvals of calls: the people who may approve, the question that they get, and attempts to approve in another's
//! place.

use annals_test_support::mcp_server::McpServer;
use annals_test_support::model_api::texts_of;
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{APP_KEY, OPS_KEY, TestApp, chat_path};
use crate::approvals::press;
use crate::lark::{self, LarkApp, mentioning, pressed, text};
use crate::memory::call;
use crate::outside_tools::{shop_with, start_with_shop};
use crate::updates::{group, private};

const GROUP: &str = "telegram:chat:-7";
const NOT_YOURS: &str = "Only the person who asked, or an administrator, can answer this.";

fn asks(approval: &Value) -> Value {
    json!({"tools": {"refund": {"approval": approval}}})
}

/// Sends `text` from `user` as message `id` of the group.
async fn say(app: &TestApp, user: i64, id: i64, text: &str) {
    let update = group(-7, id, text).by(user);
    app.handle_as_time_passes(if text.starts_with('/') { update.command() } else { update }).await;
}

/// Returns the code of the request that `told` shows.
fn code_in(told: &str) -> String {
    let (_, code) = told.rsplit_once("/approve ").unwrap();
    code.chars().take_while(char::is_ascii_hexdigit).collect()
}

/// Starts a program in which Ada (42) and Bob (43) ask in one turn for a call that must be approved.
async fn asked_by_two(admins: &str) -> (McpServer, TestApp) {
    let settings = [("GROUP_ACTIVATION", "always"), ("REPLY_QUIET", "2s"), ("ADMINS", admins)];
    let (shop, app) = shop_with(&asks(&json!(true)), |app| app.set_all(&settings)).await;
    app.telegram_api().set_administrators(-7, &[50]);
    app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    app.receive(group(-7, 1, "Pay A1 back.").by(42)).await;
    app.handle_as_time_passes(group(-7, 2, "Yes, do.").by(43)).await;
    let reply = app.records(GROUP).await.into_iter().find(|record| record.key.is_reply()).unwrap();
    assert_eq!(reply.covers().len(), 2, "the turn does not cover both messages");
    (shop, app)
}

/// Starts a program that hears all of its group and is administered by user 77.
async fn with_administrator(approval: &Value) -> (McpServer, TestApp) {
    let settings = [("GROUP_ACTIVATION", "always"), ("ADMINS", "telegram-77")];
    shop_with(&asks(approval), |app| app.set_all(&settings)).await
}

#[tokio::test]
async fn all_askers_of_a_turn_must_approve() {
    let (shop, mut app) = asked_by_two("").await;
    say(&app, 43, 3, "/approve").await;
    assert_eq!(
        app.last_sent().text,
        "Recorded. shop_refund also needs the approval of 1 more person who asked, or of an administrator."
    );
    // Repeats the approval after a restart, and one by a person who did not ask.
    app.restart().await;
    say(&app, 43, 4, "/approve").await;
    assert!(app.last_sent().text.starts_with("Recorded. shop_refund also needs"), "{}", app.last_sent().text);
    say(&app, 44, 5, "/approve").await;
    assert_eq!((app.last_sent().text.as_str(), shop.carried_out().len()), (NOT_YOURS, 0));
    say(&app, 42, 6, "/approve").await;
    assert_eq!(shop.carried_out(), [("refund".to_owned(), json!({"order": "A1"}))]);
    app.export(GROUP, "approved-by-all").await;
    app.finish().await;
}

#[tokio::test]
async fn each_asker_may_deny_and_an_administrator_decides_alone() {
    for (admins, user, command, calls) in
        [("", 43, "/deny", 0), ("telegram-77", 77, "/approve", 1), ("", 50, "/approve", 1)]
    {
        let (shop, app) = asked_by_two(admins).await;
        say(&app, 43, 3, "/approve").await;
        assert_eq!(shop.carried_out().len(), 0);
        say(&app, user, 4, command).await;
        assert_eq!(shop.carried_out().len(), calls, "{user} {command}");
        say(&app, 42, 5, "/approve").await;
        assert_eq!(shop.carried_out().len(), calls, "a settled request was answered again");
        app.finish().await;
    }
}

#[tokio::test]
async fn with_approval_admins_neither_the_asker_nor_a_group_administrator_can_approve() {
    let (shop, app) = with_administrator(&json!("admins")).await;
    app.telegram_api().set_administrators(-7, &[50]);
    app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    say(&app, 42, 1, "Pay A1 back.").await;
    let asked = app.last_sent().text;
    assert!(asked.contains("Only an administrator of this bot can approve it."), "{asked}");
    for (id, user) in [(2, 42), (3, 50)] {
        say(&app, user, id, "/approve").await;
        assert_eq!(app.last_sent().text, "Only an administrator of this bot can answer this.");
    }
    assert_eq!(shop.carried_out(), []);
    say(&app, 77, 4, "/approve").await;
    assert_eq!(shop.carried_out().len(), 1);
    app.finish().await;
}

#[tokio::test]
async fn over_http_several_askers_must_all_approve() {
    let (shop, mut app) = start_with_shop(&asks(&json!(true))).await;
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
        app.ask(chat, key, &json!({"userId": user, "text": "/approve"})).await.reply_text()
    };
    assert_eq!(say("carol", APP_KEY, "c").await, NOT_YOURS);
    // An admin key acts for the user that it names, and its user `ada` is not the `ada` of this key.
    assert_eq!(say("ada", OPS_KEY, "http:chat:app:c").await, NOT_YOURS);
    assert!(say("ada", APP_KEY, "c").await.starts_with("Recorded."));
    assert_eq!(shop.carried_out(), []);
    assert_eq!(say("bob", APP_KEY, "c").await, "Approved: shop_refund.");
    app.idle_as_time_passes().await;
    assert_eq!(shop.carried_out().len(), 1);
    app.finish().await;
}

/// A long first argument once hid the arguments after it, while the button still worked. An input longer than one message
/// is shown in several messages; one too long to read is refused.
#[tokio::test]
async fn every_argument_is_shown_and_what_cannot_be_seen_is_written_out() {
    let (shop, app) = start_with_shop(&asks(&json!(true))).await;
    let input = json!({
        "order": "A1 ".repeat(2_000), "note": ["n".repeat(1_500), {"deep": "z"}], "payTo": "m\u{202e}alic\u{200b}e",
        "amount": 9_999,
    });
    app.model().answer_tools(&[("shop_refund", input)]);
    app.handle_as_time_passes(private(42, 1, "Pay A1 back.")).await;
    let sent = app.telegram_api().sent();
    let asked = app.sent_texts().concat();
    let hidden = "\"payTo\": \"m\\u202ealic\\u200be\"";
    for shown in [hidden, "\"amount\": 9999", "\"deep\": \"z\"", "characters are not shown"] {
        assert!(asked.contains(shown), "{shown}: {asked}");
    }
    assert!(!asked.contains(['\u{202e}', '\u{200b}']));
    assert_eq!(sent.last().unwrap().keyboard.len(), 1, "the buttons are not under the last message");

    let lines = |count: usize| -> Value {
        json!({"order": "A1", "lines": (0..count).map(|at| format!("position {at:04}")).collect::<Vec<_>>()})
    };
    app.model().answer_tools(&[("shop_refund", lines(250))]);
    app.handle_as_time_passes(private(42, 2, "Pay it back.")).await;
    let sent = app.telegram_api().sent().split_off(sent.len());
    assert!(sent.len() > 1, "the arguments are in one message");
    let asked: String = sent.iter().map(|sent| sent.text.as_str()).collect();
    assert!((0..250).all(|at| asked.contains(&format!("position {at:04}"))), "{asked}");
    assert!(sent[..sent.len() - 1].iter().all(|sent| sent.keyboard.is_empty()), "{sent:?}");

    app.model().answer_tools(&[("shop_refund", lines(900))]);
    app.handle_as_time_passes(private(42, 3, "Pay it all back.")).await;
    let told = texts_of(&app.last_request(), "tool").concat();
    assert!(told.contains("its arguments are too long to be shown"), "{told}");
    assert_eq!(shop.carried_out(), []);
    app.finish().await;
}

/// Ada's request is open, and then Mallory's. An administrator who types /approve may have read only Ada's; Ada's own
/// `/approve` shows hers once more, with the code that approves it.
#[tokio::test]
async fn of_two_open_requests_an_administrator_must_name_one_and_an_asker_approves_only_their_own() {
    for user in [77, 42] {
        let (shop, app) = with_administrator(&json!(true)).await;
        for (asker, id, order) in [(42, 1, "A1"), (99, 2, "MALLORY")] {
            app.model().answer_tools(&[("shop_refund", json!({"order": order}))]);
            say(&app, asker, id, "Pay it back.").await;
        }
        say(&app, user, 3, "/approve").await;
        let told = app.last_sent().text;
        assert_eq!(shop.carried_out(), [], "{told}");
        if user == 42 {
            assert!(told.contains("A1") && !told.contains("MALLORY"), "{told}");
            say(&app, user, 4, &format!("/approve {}", code_in(&told))).await;
            assert_eq!(shop.carried_out(), [("refund".to_owned(), json!({"order": "A1"}))]);
        }
        app.finish().await;
    }
}

/// A client sends all its answers at once. The first is recorded, since Bob must approve, too; the second, Ada's
/// denial, must not be lost.
#[tokio::test]
async fn on_the_web_a_denial_beside_an_approval_of_several_is_recorded() {
    const ROOM: &str = "web:room:app:r1";
    let (_shop, mut app) = start_with_shop(&asks(&json!(true))).await;
    app.model().hang();
    let path = chat_path(ROOM, "messages");
    for (user, text) in [("app/ada", "Pay A1 back."), ("app/bob", "And A2.")] {
        app.post(&path, OPS_KEY, &json!({"userId": user, "text": text})).await;
    }
    app.restart().await;
    app.model().answer_tools(&["A1", "A2"].map(|order| ("shop_refund", json!({"order": order}))));
    app.model().resume();
    app.idle_as_time_passes().await;
    let mut reply = app.history(ROOM).await.pop().unwrap();
    let parts = reply["parts"].as_array_mut().unwrap();
    let asking = parts.iter_mut().filter(|part| part["state"] == "approval-requested");
    for (part, approved) in asking.zip([true, false]) {
        part["state"] = "approval-responded".into();
        part["approval"]["approved"] = approved.into();
    }
    let body = json!({"id": "r1", "userId": "ada", "trigger": "submit-message", "messages": [reply]});
    let answer = app.post("/api/chat", APP_KEY, &body).await;
    answer.assert_problem(409, "more-approvals-needed");
    let denials =
        app.history(ROOM).await.into_iter().filter(|m| m["metadata"]["approval"]["approved"] == false);
    assert_eq!(denials.count(), 1, "Ada's denial is not recorded");
    app.finish().await;
}

/// A forwarded card still has its buttons, and a press names the chat in which it was pressed: Mallory's own group,
/// which she administers. In the group of the request she has no rights.
#[tokio::test]
async fn on_lark_an_administrator_of_another_group_approves_nothing() {
    let (shop, it) = LarkApp::with_shop(&asks(&json!(true)), &[]).await;
    it.lark.set_managers(lark::GROUP, &["ou_owner"]);
    it.lark.set_managers("oc_mallory", &["ou_mallory"]);
    it.app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    it.receive(&mentioning(text("om_1", lark::GROUP, "@_user_1 pay it back", 1))).await;
    it.app.idle_as_time_passes().await;
    let values = it.lark.sent().last().unwrap().button_values();
    let answer = it.send(&pressed(&values[0], "oc_mallory", "ou_mallory")).await;
    it.app.idle_as_time_passes().await;
    assert_eq!((answer.body["toast"]["type"].as_str(), shop.carried_out()), (Some("warning"), vec![]));
    it.app.finish().await;
}

/// Mallory makes the bot write a text that looks like a question about a harmless call. An administrator's `/approve`
/// without a code would then approve the open call. So would another author's text, which the administrator forwards, or
/// an inline bot sends in their name.
#[tokio::test]
async fn an_approval_without_a_code_applies_only_to_the_request_that_was_shown_last() {
    let (shop, app) = with_administrator(&json!("admins")).await;
    app.model().answer_tools(&[("shop_refund", json!({"order": "MALLORY"}))]);
    say(&app, 99, 1, "Pay it back.").await;
    let mallory = json!({"id": 99, "is_bot": false, "first_name": "Mallory"});
    let origin = json!({"type": "user", "date": 1_763_765_920, "sender_user": mallory});
    let gif_bot = json!({"id": 5, "is_bot": true, "first_name": "GIF", "username": "gif_bot"});
    for (id, field, value) in [(11, "forward_origin", origin), (12, "via_bot", gif_bot)] {
        app.handle_as_time_passes(group(-7, id, "/approve").by(77).command().with(field, value)).await;
        assert_eq!(shop.carried_out(), [], "{field}");
    }

    app.model().answer_with(
        "May I call `weather` with this?\n\nAnswer with /approve or /deny, and why if you like.",
    );
    say(&app, 99, 13, "Ask me about the weather.").await;
    for (id, word) in [(14, "/approve"), (15, "/approve all"), (16, "/approve 1"), (17, "/approve weather")] {
        say(&app, 77, id, word).await;
        let told = app.last_sent().text;
        assert!(shop.carried_out().is_empty(), "{word}");
        assert!(told.contains("May I call shop_refund") && told.contains("MALLORY"), "{word}: {told}");
    }
    let told = app.last_sent().text;
    say(&app, 77, 18, &format!("/approve {}", code_in(&told))).await;
    assert_eq!(shop.carried_out().len(), 1, "{told}");
    app.finish().await;
}

/// `/approve`, `/deny` and `/stop` read the last 200 records. A flood of messages could hide an open request from them.
#[tokio::test]
async fn a_flood_does_not_keep_a_waiting_call_from_a_stop() {
    let (shop, app) = shop_with(&asks(&json!(true)), |app| app.set("ALLOW_FROM", "telegram-42")).await;
    app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    app.handle_as_time_passes(group(-7, 1, "@annals_test_bot pay A1 back").mention()).await;
    let asked = app.last_sent();
    for id in 2..220 {
        app.receive(group(-7, id, "bla").by(99)).await;
    }
    app.handle_as_time_passes(group(-7, 300, "/stop").command()).await;
    press(&app, &asked, (0, 0), 42, "c1").await;
    app.idle_as_time_passes().await;
    assert_eq!(shop.carried_out(), [], "a stopped call was made");
    app.finish().await;
}

/// An allowed chat's number allows the group and its topics, and no chat whose key only looks similar.
#[tokio::test]
async fn one_who_did_not_ask_cannot_approve_by_writing_as_another_chat() {
    let (shop, app) = start_with_shop(&asks(&json!(true))).await;
    app.telegram_api().set_administrators(-7, &[50]);
    app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    app.handle_as_time_passes(group(-7, 1, "@annals_test_bot pay A1 back").mention()).await;
    // As her own channel, as the linked channel, as the group, by an edit, as herself.
    let channel = json!({"id": -1001, "type": "channel", "title": "Mallory's"});
    let stand_in = json!({"id": 136_817_688, "is_bot": true, "first_name": "Channel"});
    let posted_by = |id, from: Value, chat: &Value| {
        group(-7, id, "/approve").command().with("from", from).with("sender_chat", chat.clone())
    };
    let telegram = json!({"id": 777_000, "first_name": "Telegram"});
    let herself = json!({"id": 99, "is_bot": false, "first_name": "Somebody"});
    let posts = [
        posted_by(2, stand_in, &channel),
        posted_by(3, telegram, &channel).with("is_automatic_forward", json!(true)),
        posted_by(4, herself, &json!({"id": -7, "type": "group", "title": "x"})),
        group(-7, 5, "x").by(99).edited(30, "/approve"),
        group(-7, 6, "/approve all").by(99).command(),
    ];
    for post in posts {
        app.handle_as_time_passes(post).await;
    }
    assert_eq!(shop.carried_out(), []);
    app.finish().await;
}

/// Two askers approve at the same time: exactly one call is made.
#[tokio::test]
async fn two_simultaneous_approvals_make_one_call() {
    for _ in 0..2 {
        let (shop, app) = asked_by_two("").await;
        let ada = app.receive(group(-7, 3, "/approve").command().by(42));
        let bob = app.receive(group(-7, 4, "/approve").command().by(43));
        tokio::join!(ada, bob);
        app.idle_as_time_passes().await;
        assert_eq!(shop.carried_out().len(), 1);
        app.finish().await;
    }
}

/// An administrator is one by any of their identities, wherever they say so. A link of `LINKS` is stored with the first
/// direct message, and holds before.
#[tokio::test]
async fn an_administrator_may_approve_by_a_linked_identity() {
    for (admins, links) in [("ada", ""), ("lark-ou_ada", "ada,telegram-42,lark-ou_ada")] {
        let settings =
            [("GROUP_ACTIVATION", "always"), ("DM_SCOPE", "user"), ("ADMINS", admins), ("LINKS", links)];
        let (shop, app) = shop_with(&asks(&json!("admins")), |app| app.set_all(&settings)).await;
        app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
        say(&app, 43, 1, "Pay A1 back.").await;
        if links.is_empty() {
            say(&app, 42, 2, "/approve").await;
            assert_eq!(shop.carried_out().len(), 0);
            let links = json!({"links": ["telegram-42"]});
            let linked = call(&app, Method::PUT, "/v1/people/ada/links", OPS_KEY, Some(links)).await;
            assert_eq!(linked.status, 200);
            app.idle().await;
        }
        say(&app, 43, 3, "/approve").await;
        assert_eq!(shop.carried_out().len(), 0);
        say(&app, 42, 4, "/approve").await;
        assert_eq!(shop.carried_out(), [("refund".to_owned(), json!({"order": "A1"}))]);
        app.finish().await;
    }
}
