//! Messages that come while a turn's tools run: they are added to the turn, and its one reply answers them.

use annals_test_support::mcp_server::McpServer;
use annals_test_support::model_api::{ModelApi, last_user_line, texts_of};
use serde_json::{Value, json};

use crate::app::{APP_KEY, TestApp, chat_path, wait_until};
use crate::approvals::approve;
use crate::chat::{ROOM, post, submit, user};
use crate::faults::Plan;
use crate::outside_tools::{shop_with, start_with_shop};
use crate::turns::assert_answered_once;
use crate::updates::{Update, group, private};
use crate::world::{LEASE, World, at_each_request};

const CHAT: &str = "telegram:chat:42";
const GROUP: &str = "telegram:chat:-7";

/// Receives `first`, and returns once the tool that its turn calls is at work.
async fn begin(shop: &McpServer, app: &TestApp, first: Update) {
    app.model().answer_tools(&[("shop_slow", json!({}))]);
    app.receive(first).await;
    wait_until("the call is under way", async || shop.carried_out().len() == 1).await;
}

/// Returns how many messages each reply of `chat` covers.
async fn covers(app: &TestApp, chat: &str) -> Vec<usize> {
    let records = app.records(chat).await;
    assert_answered_once(&records);
    records.iter().map(|record| record.covers().len()).filter(|count| *count > 0).collect()
}

/// Returns the roles of the messages in a request, but for the instructions.
fn roles(request: &Value) -> Vec<&str> {
    let roles = request["messages"].as_array().unwrap().iter().map(|said| said["role"].as_str().unwrap());
    roles.filter(|role| *role != "system").collect()
}

#[tokio::test]
async fn a_message_that_comes_while_a_tool_runs_is_seen_by_the_next_request_and_answered_once() {
    let (shop, app) = start_with_shop(&json!({})).await;
    begin(&shop, &app, private(42, 1, "Count the beans.")).await;
    app.receive(private(42, 2, "And the peas.")).await;
    shop.release();
    app.idle().await;

    assert_eq!(app.model().count(), 2, "one request for the call, one with its result");
    let request = app.last_request();
    assert_eq!(texts_of(&request, "user"), ["Count the beans.", "And the peas."]);
    assert_eq!(roles(&request), ["user", "assistant", "tool", "user"], "it follows the call's result");
    assert_eq!(app.sent_texts(), ["You said: Count the beans.\nAnd the peas."], "one reply for both");
    let lines = app.lines(CHAT).await;
    assert_eq!(lines[..2], ["1 user: Count the beans.", "2 user: And the peas."]);
    assert!(lines.len() == 3 && lines[2].starts_with("2/reply assistant"), "{lines:?}");
    assert_eq!(covers(&app, CHAT).await, [2]);

    let turn = app.get(&chat_path(CHAT, "turns/2%2Freply")).await;
    assert_eq!((&turn["requests"], &turn["prompt"]["exact"]), (&json!(2), &json!(true)), "{turn}");

    // Its redelivered turn does nothing.
    app.handle(private(42, 2, "And the peas.")).await;
    assert_eq!((app.model().count(), app.sent_texts().len(), app.lines(CHAT).await.len()), (2, 1, 3));
    // And the next turn sees the call, with both questions before it.
    app.ada_says(3, "Thanks.").await;
    assert_eq!(texts_of(&app.last_request(), "user"), ["Count the beans.\nAnd the peas.", "Thanks."]);
    assert_eq!(texts_of(&app.last_request(), "tool"), ["at last"]);
    app.finish().await;
}

/// Each round reads what has come since the last one.
#[tokio::test]
async fn messages_of_several_rounds_stand_after_the_calls_that_they_came_after() {
    for model in ModelApi::models() {
        let (shop, app) = shop_with(&json!({}), |app| app.model_of(model)).await;
        begin(&shop, &app, private(42, 1, "Count the beans.")).await;
        app.model().answer_tools(&[("shop_lookup", json!({"order": "A1"}))]);
        app.receive(private(42, 2, "And the peas.")).await;
        app.model().hang();
        shop.release();
        app.model().wait_for(2).await;
        app.receive(private(42, 3, "And the corn.")).await;
        app.model().resume();
        app.idle().await;
        let request = app.last_request();
        let expected = ["user", "assistant", "tool", "user", "assistant", "tool", "user"];
        assert_eq!(roles(&request), expected);
        assert_eq!(texts_of(&request, "user"), ["Count the beans.", "And the peas.", "And the corn."]);
        assert_eq!(covers(&app, CHAT).await, [3]);
        assert_eq!((app.sent_texts().len(), app.model().refusals()), (1, Vec::new()));
        app.finish().await;
    }
}

/// `REPLY_QUIET` is a wait before a turn, and this one is under way. An album is waited for, since half of it says nothing.
#[tokio::test]
async fn a_burst_is_taken_up_at_once_and_an_album_once_it_is_whole() {
    let (shop, app) = shop_with(&json!({}), |app| app.set("REPLY_QUIET", "5s")).await;
    app.as_time_passes(begin(&shop, &app, private(42, 1, "Count the beans."))).await;
    app.receive(private(42, 2, "And the peas.")).await;
    shop.release();
    // No time passes until it is asked again.
    app.model().wait_for(2).await;
    app.idle_as_time_passes().await;
    assert_eq!(app.sent_texts(), ["You said: Count the beans.\nAnd the peas."]);
    app.finish().await;

    let (shop, app) = start_with_shop(&json!({})).await;
    begin(&shop, &app, private(42, 1, "Count the beans.")).await;
    let item = |id| private(42, id, "").without("text").with("media_group_id", json!("7"));
    let photo = |id: &str| json!([{"file_id": id, "file_unique_id": id, "width": 90, "height": 90}]);
    app.receive(item(2).with("photo", photo("one")).with("caption", json!("These."))).await;
    shop.release();
    app.model().wait_for(2).await;
    app.receive(item(3).with("photo", photo("two"))).await;
    app.idle_as_time_passes().await;
    assert_eq!(texts_of(&app.model().requests()[1], "user"), ["Count the beans."]);
    assert_eq!(covers(&app, CHAT).await, [1, 2]);
    app.finish().await;
}

/// A message that comes while the last answer is made is the next turn's.
#[tokio::test]
async fn a_message_that_comes_after_the_last_call_gets_a_reply_of_its_own() {
    let (shop, app) = start_with_shop(&json!({})).await;
    begin(&shop, &app, private(42, 1, "Count the beans.")).await;
    app.model().hang();
    shop.release();
    app.model().wait_for(2).await;
    app.receive(private(42, 2, "And the peas.")).await;
    app.model().resume();
    app.idle().await;
    assert_eq!(app.sent_texts(), ["You said: Count the beans.", "You said: And the peas."]);
    assert_eq!(covers(&app, CHAT).await, [1, 1]);
    app.finish().await;
}

#[tokio::test]
async fn an_edit_that_comes_while_a_tool_runs_is_answered_in_place_of_the_first_form() {
    let (shop, app) = start_with_shop(&json!({})).await;
    let message = private(42, 1, "Count the beans.");
    begin(&shop, &app, message.clone()).await;
    app.receive(message.edited(8, "Count the peas.")).await;
    shop.release();
    app.idle().await;
    assert_eq!(texts_of(&app.last_request(), "user"), ["Count the peas."]);
    assert_eq!((app.model().count(), app.sent_texts()), (2, vec!["You said: Count the peas.".to_owned()]));
    assert_eq!(covers(&app, CHAT).await, [1]);
    app.finish().await;
}

/// `/new` ends what a turn may take up.
#[tokio::test]
async fn a_message_after_a_new_is_answered_in_its_own_session() {
    let (shop, app) = start_with_shop(&json!({})).await;
    begin(&shop, &app, private(42, 1, "Count the beans.")).await;
    app.receive(private(42, 2, "And the peas.")).await;
    app.receive(private(42, 3, "/new").command()).await;
    app.receive(private(42, 4, "Hello.")).await;
    shop.release();
    app.idle().await;
    let requests = app.model().requests();
    assert_eq!(texts_of(&requests[1], "user"), ["Count the beans.", "And the peas."]);
    assert_eq!(texts_of(&requests[2], "user"), ["Hello."]);
    assert_eq!(covers(&app, CHAT).await, [2, 1]);
    app.finish().await;
}

/// Another person would have to approve the calls of the turn.
#[tokio::test]
async fn another_persons_message_in_a_group_gets_a_turn_of_its_own() {
    let (shop, app) = start_with_shop(&json!({"tools": {"refund": {"approval": true}}})).await;
    begin(&shop, &app, group(-7, 1, "@annals_test_bot Pay A1 back.").mention()).await;
    app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    app.receive(group(-7, 2, "@annals_test_bot Pay B2 back too.").by(7).mention()).await;
    app.receive(group(-7, 3, "@annals_test_bot Quickly.").mention()).await;
    shop.release();
    app.idle().await;
    let request = &app.model().requests()[1];
    let seen = texts_of(request, "user").concat();
    assert!(seen.contains("Quickly.") && !seen.contains("B2"), "{seen}");
    let asked = app.telegram_api().sent().into_iter().find(|sent| !sent.keyboard.is_empty()).unwrap();
    assert!(asked.text.contains("May I call shop_refund"), "{}", asked.text);
    assert_eq!(covers(&app, GROUP).await, [1, 2], "the other's has a reply of its own");
    // Ada's word is enough: nobody else asked in that reply.
    approve(&app, &asked).await;
    let refunds = shop.carried_out().into_iter().filter(|(name, _)| name == "refund").count();
    assert_eq!(refunds, 1);
    app.finish().await;
}

#[tokio::test]
async fn a_reply_that_waits_for_an_approval_takes_up_what_came_before_and_nothing_after() {
    let (shop, app) = start_with_shop(&json!({"tools": {"refund": {"approval": true}}})).await;
    begin(&shop, &app, private(42, 1, "Look.")).await;
    app.model().answer_tools(&[("shop_refund", json!({"order": "A1"}))]);
    app.receive(private(42, 2, "And pay A1 back.")).await;
    shop.release();
    app.idle().await;
    let asked = app.last_sent();
    assert!(asked.text.contains("May I call shop_refund"), "{}", asked.text);
    app.ada_says(3, "Well?").await;
    approve(&app, &asked).await;
    assert_eq!(shop.carried_out().len(), 2);
    assert_answered_once(&app.records(CHAT).await);
    let lines = app.lines(CHAT).await;
    assert!(lines.iter().any(|line| line.starts_with("2/reply ")), "{lines:?}");
    assert_eq!(texts_of(&app.last_request(), "user"), ["Look.\nAnd pay A1 back."], "its own questions");
    app.finish().await;
}

#[tokio::test]
async fn a_stop_keeps_what_was_said_as_the_reply_to_all_that_the_turn_took_up() {
    let (shop, app) = start_with_shop(&json!({})).await;
    begin(&shop, &app, private(42, 1, "Count the beans.")).await;
    app.receive(private(42, 2, "And the peas.")).await;
    app.model().hang();
    shop.release();
    app.model().wait_for(2).await;
    app.receive(private(42, 3, "/stop").command()).await;
    app.idle().await;
    app.model().resume();
    assert_eq!(covers(&app, CHAT).await, [2]);
    let history = app.history(CHAT).await;
    let reply = history.iter().find(|message| message["id"] == "2/reply").unwrap();
    assert_eq!(reply["metadata"]["stopped"], true);
    assert!(reply["parts"].as_array().unwrap().iter().any(|part| part["output"] == "at last"), "{reply}");
    app.finish().await;
}

#[tokio::test]
async fn both_callers_that_wait_get_the_one_reply() {
    let (shop, app) = start_with_shop(&json!({})).await;
    app.model().answer_tools(&[("shop_slow", json!({}))]);
    let said =
        |id: &str, ts: i64, text: &str| json!({"userId": "ada", "messageId": id, "text": text, "ts": ts});
    let now = app.clock().now().as_millis();
    let (first, second) = (said("a", now, "Count the beans."), said("b", now + 1, "And the peas."));
    let first = async { app.ask("c", APP_KEY, &first).await };
    let second = async {
        wait_until("the call is under way", async || shop.carried_out().len() == 1).await;
        let asked = app.ask("c", APP_KEY, &second);
        let released = async {
            wait_until("it is stored", async || app.records("http:chat:app:c").await.len() == 2).await;
            shop.release();
        };
        futures::join!(asked, released).0
    };
    let (first, second) = futures::join!(first, second);
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (200, 200));
    assert_eq!(first.body["reply"], second.body["reply"]);
    assert_eq!(first.body["reply"]["id"], "b/reply");
    assert_eq!(app.model().count(), 2);
    app.finish().await;
}

/// A window of `useChat` shows each reply below the message that it was streamed for.
#[tokio::test]
async fn in_a_room_of_use_chat_each_message_has_a_reply_of_its_own() {
    let (shop, app) = start_with_shop(&json!({})).await;
    app.model().answer_tools(&[("shop_slow", json!({}))]);
    let (one, two) = (user("m1", "Count the beans."), user("m2", "And the peas."));
    let first = post(&app, &submit(std::slice::from_ref(&one))).await;
    wait_until("the call is under way", async || shop.carried_out().len() == 1).await;
    let second = post(&app, &submit(&[one, two])).await;
    shop.release();
    let (first, second) = (first.rest().await, second.rest().await);
    assert_eq!((&first[0]["messageId"], &second[0]["messageId"]), (&json!("m1/reply"), &json!("m2/reply")));
    app.idle().await;
    assert_eq!(covers(&app, ROOM).await, [1, 1]);
    app.finish().await;
}

/// The process dies before each request to a store in turn, and the queue delivers both turns again.
#[tokio::test]
async fn a_crash_at_any_request_leaves_every_message_to_one_reply() {
    let mut number = 0;
    let requests = at_each_request(&[Plan::Before], async |faults, dead| {
        let world = World::hosted(&[]).await;
        world.model().answer_by(|body| Some(format!("To: {}", last_user_line(body))));
        let first = world.hear(1, "Count the beans.", true).await;
        world.model().answer_tools(&[("memory_search", json!({"query": "beans"}))]);
        world.model().hang();
        let run = world.start(world.agent_with(faults.clone()), &first);
        wait_until("it asks, or is dead", async || run.is_finished() || world.model().count() == 1).await;
        let second = world.hear(2, "And the peas.", true).await;
        world.model().resume();
        let is_whole = run.await.unwrap().is_ok();
        number += 1;
        assert_eq!(is_whole, faults.requests() < number, "{dead}");
        world.clock.advance(LEASE * 2);
        for turn in [&first, &second] {
            world.run(turn).await;
        }
        let records = world.records().await;
        assert_answered_once(&records);
        let covers: Vec<usize> =
            records.iter().map(|r| r.covers().len()).filter(|count| *count > 0).collect();
        assert_eq!(covers, [2], "{dead}: {records:#?}");
        assert!(!is_whole || world.model().count() == 2, "{dead}");
    });
    assert!(requests.await > 4);
}

/// It costs a query for each round of calls, of one unit if nothing has come. A turn without tools costs nothing more.
#[tokio::test]
async fn each_round_of_calls_costs_one_query() {
    let cost = async |rounds: usize| {
        let world = World::hosted(&[]).await;
        let asked = world.hear(1, "Count the beans.", true).await;
        for _ in 0..rounds {
            // Not carried out, as it lacks what the schema requires.
            world.model().answer_tools(&[("memory_search", json!({}))]);
        }
        let history = world.another_process();
        world.meter.take();
        world.agent_of(&history).run(&world.chat, &[asked]).await.unwrap();
        world.meter.take()
    };
    let (none, one, three) = (cost(0).await, cost(1).await, cost(3).await);
    assert_eq!((one.calls, three.calls), (none.calls + 1, none.calls + 3));
    // The reply of three rounds is larger.
    assert!(one.write_units <= none.write_units, "{none:?} {one:?}");
    assert!(three.read_units <= none.read_units + 3.0, "{none:?} {three:?}");
}
