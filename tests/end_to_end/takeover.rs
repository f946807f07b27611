//! Operators: they take a chat over, write to the person as the bot, and hand the chat back.

use std::time::Duration;

use annals_store::history::History;
use annals_test_support::model_api::{last_user_line, texts_of};
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{APP_KEY, Answer, OPS_KEY, TestApp, chat_path, text_of, wait_until};
use crate::chat::{self, ROOM};
use crate::discord::{self, DiscordApp};
use crate::faults::Plan;
use crate::lark::{self, LarkApp};
use crate::turns::assert_answered_once;
use crate::updates::private;
use crate::world::{World, at_each_request, change_item};

const CHAT: &str = "telegram:chat:42";

async fn take_over(app: &TestApp, chat: &str, operator: &str) -> Answer {
    let request = app.request(Method::PUT, &chat_path(chat, "takeover")).bearer_auth(OPS_KEY);
    Answer::of(request.json(&json!({ "operator": operator }))).await
}

async fn hand_back(app: &TestApp, chat: &str) {
    let answer = app.call(Method::DELETE, &chat_path(chat, "takeover"), OPS_KEY).await;
    assert_eq!((answer.status.as_u16(), &answer.body["takeover"]), (200, &Value::Null), "{answer:?}");
}

async fn send(app: &TestApp, chat: &str, id: &str, text: &str) -> Answer {
    app.post(&chat_path(chat, "send"), OPS_KEY, &json!({"messageId": id, "text": text})).await
}

/// Sends `text`, which must be taken, and waits until its turn is done.
async fn operate(app: &TestApp, chat: &str, id: &str, text: &str) {
    let answer = send(app, chat, id, text).await;
    assert_eq!((answer.status.as_u16(), &answer.body["duplicate"]), (202, &json!(false)), "{answer:?}");
    app.idle().await;
}

#[tokio::test]
async fn an_operator_answers_what_waits_and_the_bot_what_is_left_each_once() {
    let mut app = TestApp::start().await;
    app.ada_says(1, "hello").await;
    let taken = take_over(&app, CHAT, "Grace").await;
    assert_eq!((taken.status.as_u16(), &taken.body["takeover"]["by"]), (200, &json!("Grace")), "{taken:?}");
    assert_eq!(take_over(&app, CHAT, "Grace").await.body, taken.body);
    take_over(&app, CHAT, "Linus").await.assert_problem(409, "taken-over");
    let as_linus = json!({"messageId": "l-1", "text": "Hi", "operator": "Linus"});
    app.post(&chat_path(CHAT, "send"), OPS_KEY, &as_linus).await.assert_problem(409, "taken-over");
    app.ada_says(2, "Where is my parcel?").await;
    app.ada_says(3, "It is late").await;
    app.restart().await;
    app.idle().await;
    assert_eq!((app.model().count(), app.sent_texts().len()), (1, 1), "the bot answers");
    let listed = &app.get("/v1/chats").await["chats"][0];
    assert_eq!((&listed["takeover"]["by"], &listed["pendingTurn"]), (&json!("Grace"), &json!("waiting")));

    operate(&app, CHAT, "op-1", "It leaves today.").await;
    assert_eq!((app.last_sent().text.as_str(), app.last_sent().reply_to), ("It leaves today.", Some(3)));
    assert_eq!(send(&app, CHAT, "op-1", "It leaves today.").await.body["duplicate"], true);
    send(&app, CHAT, "op-1", "Tomorrow.").await.assert_problem(409, "message-id-taken");
    app.receive(private(42, 3, "It is late")).await;
    app.ada_says(4, "And the other one?").await;
    assert_eq!(app.sent_texts(), ["You said: hello", "It leaves today."]);

    hand_back(&app, CHAT).await;
    app.idle().await;
    hand_back(&app, CHAT).await;
    app.idle().await;
    assert_eq!(app.sent_texts()[2..], ["You said: And the other one?"]);
    assert_eq!(app.get("/v1/chats").await["chats"][0]["takeover"], Value::Null);
    let asked = app.last_request();
    assert_eq!(texts_of(&asked, "assistant"), ["You said: hello", "It leaves today."]);
    assert_eq!(last_user_line(&asked), "And the other one?");
    let records = app.records(CHAT).await;
    assert_answered_once(&records);
    let history = app.history(CHAT).await;
    let reply = history.iter().find(|message| message["id"] == "op-1/reply").unwrap();
    assert_eq!((&reply["role"], &reply["metadata"]["kind"]), (&json!("assistant"), &json!("normal")));
    assert_eq!(reply["metadata"]["sentBy"], "Grace");
    let notices: Vec<_> =
        history.iter().filter_map(|message| message["metadata"]["takeover"].as_str()).collect();
    assert_eq!(notices, ["begun", "ended"]);

    take_over(&app, CHAT, "Grace").await;
    app.forget(CHAT, OPS_KEY).await;
    assert_eq!(app.open_history().head(&CHAT.parse().unwrap()).await.unwrap().takeover, None);
    app.finish().await;
}

/// The clock does not move: the run ends at once, and the operator's message does not wait for it.
#[tokio::test]
async fn a_run_that_asks_the_model_loses_its_chat_to_the_operator() {
    let app = TestApp::start().await;
    let ada = json!({"id": 42, "is_bot": false, "first_name": "Ada", "language_code": "zh-hans"});
    app.hold(private(42, 1, "one").with("from", ada)).await;
    take_over(&app, CHAT, "Grace").await;
    operate(&app, CHAT, "op-1", "From a person").await;
    app.model().resume();
    hand_back(&app, CHAT).await;
    app.idle().await;
    assert_eq!((app.sent_texts(), app.model().count()), (vec!["From a person".to_owned()], 1));
    assert_answered_once(&app.records(CHAT).await);
    // The notices are in the person's language.
    let history = app.history(CHAT).await;
    let notices = history.iter().filter(|message| message["metadata"]["takeover"].is_string()).map(text_of);
    assert_eq!(notices.collect::<Vec<_>>(), ["这个聊天已由人工接管。", "人工已把这个聊天交还给机器人。"]);
    app.finish().await;
}

/// Without a takeover a question keeps its own answer. What was sent is in view of the person's answer to it.
#[tokio::test]
async fn a_message_of_an_operator_needs_no_question_and_takes_none() {
    let app = TestApp::start().await;
    app.hold(private(42, 1, "one")).await;
    assert_eq!(send(&app, CHAT, "op-1", "News").await.status, 202);
    app.model().resume();
    app.idle().await;
    assert_eq!(app.sent_texts(), ["You said: one", "News"]);
    assert_eq!(app.last_sent().reply_to, None);
    app.clock().advance(Duration::from_hours(60));
    operate(&app, CHAT, "op-2", "Did it arrive?").await;
    app.clock().advance(Duration::from_mins(1));
    app.ada_says(60 * 3600 + 120, "yes").await;
    // The Session before has ended.
    assert_eq!(texts_of(&app.last_request(), "assistant"), ["Did it arrive?"]);
    assert_answered_once(&app.records(CHAT).await);
    app.finish().await;
}

#[tokio::test]
async fn commands_act_in_a_chat_that_is_taken_over() {
    let app = TestApp::start().await;
    app.ada_says(1, "one").await;
    take_over(&app, CHAT, "Grace").await;
    app.ada_says(2, "two").await;
    app.handle(private(42, 3, "/stop").command()).await;
    app.handle(private(42, 4, "/new three").command()).await;
    app.handle(private(42, 5, "/compact").command()).await;
    operate(&app, CHAT, "op-1", "Four").await;
    hand_back(&app, CHAT).await;
    app.idle().await;
    let sent = app.sent_texts();
    assert_eq!(sent[..2], ["You said: one", "Stopped."]);
    assert_eq!(sent.last().unwrap(), "Four");
    let records = app.records(CHAT).await;
    assert_answered_once(&records);
    let covered = records.iter().find(|record| record.message_id.as_str() == "op-1/reply").unwrap().covers();
    assert_eq!(covered.len(), 2, "/stop ended the first message, /new and /compact none: {covered:?}");
    app.finish().await;
}

#[tokio::test]
async fn over_http_and_in_rooms_the_waiting_caller_gets_the_operators_words() {
    let app = TestApp::builder().model().start().await;
    let key = "http:chat:app:c1";
    app.say("c1", &json!({"userId": "ada", "text": "hello", "messageId": "1"})).await;
    take_over(&app, key, "Grace").await;
    let question = json!({"userId": "ada", "text": "Are you there?", "messageId": "2"});
    let answering = async {
        wait_until("it is stored", async || app.records(key).await.len() > 3).await;
        assert_eq!(send(&app, key, "op-1", "I am.").await.status, 202);
    };
    let (answer, ()) = tokio::join!(Box::pin(app.ask("c1", APP_KEY, &question)), Box::pin(answering));
    assert_eq!(answer.reply_text(), "I am.");
    assert_eq!(answer.body["reply"]["metadata"]["sentBy"], "Grace");

    chat::post(&app, &chat::submit(&[chat::user("m1", "hello")])).await.rest().await;
    take_over(&app, ROOM, "Grace").await;
    let said = [chat::user("m1", "hello"), chat::user("m2", "Are you there?")];
    let stream = chat::post(&app, &chat::submit(&said)).await;
    let file = json!([{"type": "text", "text": "Here."}, {"type": "file", "mediaType": "image/png", "url": "https://example.com/a.png"}]);
    let sent =
        app.post(&chat_path(ROOM, "send"), OPS_KEY, &json!({"messageId": "op-2", "parts": file})).await;
    assert_eq!(sent.status, 202, "{sent:?}");
    let chunks = app.as_time_passes(Box::pin(stream.rest())).await;
    assert_eq!(chat::streamed(&chunks), "Here.", "{chunks:?}");
    app.idle_as_time_passes().await;
    assert_eq!(app.model().count(), 2);
    for chat in [key, ROOM] {
        assert_answered_once(&app.records(chat).await);
    }
    app.finish().await;
}

/// The answer to an interaction takes the place of "is thinking" for a quarter of an hour, and is a message afterwards.
#[tokio::test]
async fn on_discord_and_lark_it_goes_where_the_bot_would_answer() {
    let it = DiscordApp::start().await;
    let chat = format!("agent:annals:channel:{}:{}", discord::GUILD, discord::CHANNEL);
    it.handle(&discord::ask("one", 0)).await;
    take_over(&it.app, &chat, "Grace").await;
    it.handle(&discord::ask("two", 1)).await;
    operate(&it.app, &chat, "op-1", "At once").await;
    it.handle(&discord::ask("three", 2)).await;
    it.app.clock().advance(Duration::from_mins(16));
    operate(&it.app, &chat, "op-2", "Later").await;
    let sent = it.discord.sent();
    let sent: Vec<_> =
        sent.iter().map(|sent| (sent.content.as_str(), sent.is_original, sent.token.is_some())).collect();
    assert_eq!(sent[1..], [("At once", true, true), ("Later", false, false)]);
    assert_answered_once(&it.app.records(&chat).await);
    it.app.finish().await;

    let it = LarkApp::start().await;
    let chat = format!("lark:chat:{}", lark::P2P);
    it.handle(&lark::text("om_1", lark::P2P, "one", 0)).await;
    take_over(&it.app, &chat, "Grace").await;
    it.handle(&lark::text("om_2", lark::P2P, "two", 1)).await;
    operate(&it.app, &chat, "op-1", "An answer").await;
    operate(&it.app, &chat, "op-2", "And more").await;
    let sent = it.lark.sent();
    let sent: Vec<_> = sent.iter().map(|sent| (sent.text(), sent.reply_to.as_deref())).collect();
    assert_eq!(sent[1..], [("An answer".to_owned(), Some("om_2")), ("And more".to_owned(), Some("om_2"))]);
    // An occurrence of a schedule is no message that Lark knows.
    hand_back(&it.app, &chat).await;
    let at = it.app.clock().now().plus(Duration::from_mins(5)).rfc3339();
    let prompt = json!({"id": "news", "prompt": "What is new?", "at": at});
    assert_eq!(it.app.post(&chat_path(&chat, "schedules"), OPS_KEY, &prompt).await.status, 201);
    it.app.clock().advance(Duration::from_mins(6));
    let told = wait_until("the prompt is answered", async || it.lark.sent().len() == 4);
    it.app.as_time_passes(Box::pin(told)).await;
    it.app.idle().await;
    operate(&it.app, &chat, "op-3", "As you see").await;
    let sent = it.lark.sent();
    assert_eq!((sent[4].text(), sent[4].reply_to.as_deref()), ("As you see".to_owned(), Some("om_2")));
    it.app.finish().await;
}

/// The notice needs the newest messages, and the chat must not stay with the operator for want of it.
#[tokio::test]
async fn a_chat_is_handed_back_though_its_messages_cannot_be_read() {
    let world = World::hosted(&[]).await;
    let one = world.hear(0, "one", true).await;
    world.run(&one).await;
    let ingress = world.ingress_of(&world.history);
    let desk = ingress.desk(&world.chat).await.unwrap().unwrap();
    ingress.take_over(&desk, "Grace").await.unwrap();
    let chat = world.chat.to_string();
    change_item(&world.stores, (&chat, one.as_str()), "REMOVE message", &[]).await;
    let process = world.another_process();
    let ingress = world.ingress_of(&process);
    ingress.desk(&world.chat).await.unwrap_err();
    ingress.hand_back(&world.chat).await.unwrap();
    assert_eq!(world.head().await.takeover, None);
}

/// The operator sees an error and does it again.
#[tokio::test]
async fn a_takeover_and_a_return_that_are_cut_off_anywhere_are_carried_out_once() {
    for (ends, least) in [(false, 5), (true, 6)] {
        let requests = at_each_request(&[Plan::Before, Plan::Lost], async |faults, what| {
            let world = World::hosted(&[]).await;
            let one = world.hear(0, "one", true).await;
            world.run(&one).await;
            let take = async |history: &History| {
                let ingress = world.ingress_of(history);
                let Ok(Some(desk)) = Box::pin(ingress.desk(&world.chat)).await else { return None };
                ingress.take_over(&desk, "Grace").await.ok().flatten()
            };
            let (whole, broken) = (world.another_process(), world.history_with(faults.clone()));
            let mut taken = if ends { take(&whole).await } else { take(&broken).await };
            if !ends {
                world.advance(1);
                taken = take(&whole).await;
            }
            assert_eq!(taken.unwrap().by, "Grace", "{what}");
            let two = world.hear(60, "two", true).await;
            world.run(&two).await;
            assert_eq!(world.model().count(), 1, "{what}: the operator answers");
            if ends {
                drop(Box::pin(world.ingress_of(&broken).hand_back(&world.chat)).await);
                world.advance(1);
            }
            world.ingress_of(&whole).hand_back(&world.chat).await.unwrap();
            for turn in world.queue.take() {
                world.run(&turn.from).await;
            }
            let records = world.records().await;
            assert_answered_once(&records);
            let notices = records.iter().filter_map(|record| record.message.metadata.takes_over());
            assert_eq!(notices.collect::<Vec<_>>(), [true, false], "{what}");
            assert_eq!(world.head().await.takeover, None, "{what}");
            let last = records.iter().find(|record| record.covers().contains(&two)).unwrap();
            assert_eq!(last.message.plain_text(), "You said: two", "{what}");
        });
        assert!(requests.await >= least);
    }
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_and_nothing_is_stored() {
    let app = TestApp::start().await;
    app.ada_says(1, "hello").await;
    let before = app.items(CHAT).await;
    let path = chat_path(CHAT, "send");
    let image = json!([{"type": "file", "mediaType": "image/png", "url": "https://example.com/a.png"}]);
    let call = json!([{"type": "tool-x", "toolCallId": "1", "state": "input-available"}]);
    for (body, status, kind) in [
        (json!({"messageId": "a", "parts": image}), 400, "bad-message"),
        (json!({"messageId": "a", "parts": call}), 400, "bad-message"),
        (json!({"messageId": "a", "text": " "}), 400, "bad-message"),
        (json!({"messageId": "a", "parts": [{"type": "text", "text": " "}]}), 400, "bad-message"),
        (json!({"messageId": "a", "text": "x".repeat(65 * 1024)}), 413, "too-large"),
        (json!({"messageId": "7", "text": "x"}), 400, "bad-message-id"),
        (json!({"text": "x"}), 400, "bad-message-id"),
        (json!({"messageId": "a", "text": "x", "operator": ""}), 400, "bad-operator"),
    ] {
        app.post(&path, OPS_KEY, &body).await.assert_problem(status, kind);
    }
    let fine = json!({"messageId": "a", "text": "x"});
    let unknown = app.post(&chat_path("telegram:chat:43", "send"), OPS_KEY, &fine).await;
    unknown.assert_problem(404, "no-such-chat");
    take_over(&app, "telegram:chat:43", "Grace").await.assert_problem(404, "no-such-chat");
    app.post("/v1/chats/c1/send", APP_KEY, &fine).await.assert_problem(403, "forbidden");
    app.call(Method::PUT, "/v1/chats/c1/takeover", APP_KEY).await.assert_problem(403, "forbidden");
    app.call(Method::DELETE, "/v1/chats/c1/takeover", APP_KEY).await.assert_problem(403, "forbidden");
    assert_eq!((app.items(CHAT).await, app.sent_texts().len()), (before, 1));
    app.finish().await;
}
