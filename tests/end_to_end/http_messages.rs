//! HTTP: messages in.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{APP_KEY, Answer, NOW, OPS_KEY, TestApp, chat_path, lines, text_of};
use crate::turns::assert_answered_once;
use crate::world::change_item;

const PATH: &str = "/v1/chats/c1/messages";
const CHAT: &str = "http:chat:app:c1";

async fn app() -> TestApp {
    TestApp::builder().model().start().await
}

async fn post(app: &TestApp, body: &Value) -> Answer {
    app.post(PATH, APP_KEY, body).await
}

/// Posts `body` and waits for its reply, while time passes.
async fn post_and_wait(app: &TestApp, path: &str, key: &str, body: &Value) -> Answer {
    app.as_time_passes(app.post(&format!("{path}?wait=20"), key, body)).await
}

#[tokio::test]
async fn a_message_is_taken_and_its_reply_waited_for() {
    let app = app().await;
    let body = json!({"userId": "ada", "text": "hello", "messageId": "m1", "ts": NOW * 1000});
    let answer = post_and_wait(&app, PATH, APP_KEY, &body).await;
    assert_eq!((answer.status.as_u16(), answer.content_type.as_str()), (200, "application/json"));
    let history = app.history(CHAT).await;
    assert_eq!(lines(&history), ["m1 user: hello", "m1/reply assistant: You said: hello"]);
    let told = json!({"chatKey": CHAT, "messageId": "m1", "duplicate": false, "reply": history[1]});
    assert_eq!(answer.body, told);
    assert_eq!(
        history[0]["metadata"],
        json!({
            "ts": NOW * 1000, "chatKey": CHAT, "channel": "http", "chatId": "c1", "userId": "ada",
            "actorKey": "http:chat:app:c1:user:ada", "messageId": "m1", "kind": "normal",
        })
    );

    // What is answered already is given at once, also where nobody wants to wait.
    let again = app.post(&format!("{PATH}?wait=0"), APP_KEY, &body).await;
    assert_eq!((again.status.as_u16(), &again.body["duplicate"]), (200, &json!(true)));
    assert_eq!(again.body["reply"], history[1]);

    // A message without an id gets one.
    let body = json!({"userId": "ada", "parts": [{"type": "text", "text": "hello"}]});
    let (now, mut ids) = (app.clock().now().as_millis(), vec!["m1".to_owned()]);
    for _ in 0..2 {
        let answer = post(&app, &body).await;
        assert_eq!((answer.status.as_u16(), &answer.body["duplicate"]), (202, &json!(false)));
        assert!(answer.body.get("reply").is_none() && answer.body.get("revision").is_none());
        ids.push(answer.body["messageId"].as_str().unwrap().to_owned());
        app.idle().await;
    }
    let history = app.history(CHAT).await;
    let said = history.iter().filter(|message| message["role"] == "user");
    assert!(said.clone().skip(1).all(|message| message["metadata"]["ts"] == now), "{history:#?}");
    let said: BTreeSet<&str> = said.map(|message| message["id"].as_str().unwrap()).collect();
    assert_eq!((said.len(), said), (3, ids.iter().map(String::as_str).collect()));
    app.finish().await;
}

#[tokio::test]
async fn without_a_conversation_a_message_is_for_the_persons_direct_chat() {
    let app = app().await;
    for (key, chat) in [(APP_KEY, "agent:annals:user:app/ada"), (OPS_KEY, "agent:annals:user:ada")] {
        let body = json!({"userId": "ada", "text": "hello", "messageId": "m1"});
        let answer = post_and_wait(&app, "/v1/messages", key, &body).await;
        assert_eq!((answer.status.as_u16(), &answer.body["chatKey"]), (200, &json!(chat)));
        let history = app.history(chat).await;
        assert_eq!(lines(&history), ["m1 user: hello", "m1/reply assistant: You said: hello"]);
        assert_eq!(history[0]["metadata"]["userId"], "ada");
    }
    app.finish().await;
}

#[tokio::test]
async fn a_wait_ends_when_its_time_is_up_and_is_never_longer_than_25_seconds() {
    let app = app().await;
    app.model().hang();
    for (index, (wait, secs)) in [("0", 0), ("0.5", 0), ("2", 2), ("1e300", 25)].into_iter().enumerate() {
        let start = app.clock().now();
        let body = json!({"userId": "ada", "text": "hello", "messageId": format!("m{index}")});
        let path = format!("{PATH}?wait={wait}");
        let answer = app.as_time_passes(app.post(&path, APP_KEY, &body)).await;
        assert_eq!((answer.status.as_u16(), answer.body.get("reply")), (202, None));
        let passed = app.clock().now().since(start);
        assert!(passed >= Duration::from_secs(secs), "{wait}: {passed:?}");
        assert!(passed < Duration::from_secs(secs + 300), "{wait}: {passed:?}");
    }
    app.model().resume();
    app.finish().await;
}

#[tokio::test]
async fn one_id_is_one_message_with_any_time() {
    let mut app = app().await;
    let now = NOW * 1000;
    for (id, times) in [
        ("without", [None, None, None, None]),
        ("without-first", [None, Some(now - 5000), None, Some(now + 5000)]),
        ("with-first", [Some(now - 9000), None, Some(now - 9000), Some(1)]),
    ] {
        for (index, ts) in times.into_iter().enumerate() {
            let mut body = json!({"userId": "ada", "text": format!("I am {id}"), "messageId": id});
            if let Some(ts) = ts {
                body["ts"] = json!(ts);
            }
            let answer = post_and_wait(&app, PATH, APP_KEY, &body).await;
            assert_eq!(answer.status, 200);
            assert_eq!(answer.body["duplicate"], json!(index > 0), "{id}, {ts:?}");
            assert_eq!(answer.body["reply"]["id"], format!("{id}/reply"));
        }
        app.restart().await;
    }
    assert_eq!(app.model().count(), 3);
    assert_eq!(app.history(CHAT).await.len(), 6);
    assert_eq!(app.history(CHAT).await[0]["metadata"]["ts"], now - 9000);
    app.finish().await;
}

/// A caller who was told to send it again would be answered twice.
#[tokio::test]
async fn a_stored_message_whose_reply_cannot_be_read_is_accepted_without_it() {
    let app = app().await;
    let body = json!({"userId": "ada", "text": "hello", "messageId": "m1"});
    assert_eq!(post_and_wait(&app, PATH, APP_KEY, &body).await.status, 200);
    let reply = app.records(CHAT).await.into_iter().find(|record| record.key.is_reply()).unwrap();
    change_item(app.stores(), (CHAT, reply.key.as_str()), "REMOVE message", &[]).await;
    let again = post_and_wait(&app, PATH, APP_KEY, &body).await;
    assert_eq!((again.status.as_u16(), &again.body["duplicate"]), (202, &json!(true)), "{again:?}");
    assert_eq!(again.body.get("reply"), None);
    let read = app.call(Method::GET, PATH, APP_KEY).await;
    read.assert_problem(503, "unreadable");
    assert!(read.body["detail"].as_str().unwrap().contains("a repeat does not help"), "{read:?}");
    app.finish().await;
}

#[tokio::test]
async fn the_same_id_side_by_side_is_one_message_and_one_reply() {
    let app = TestApp::builder().model().system_clock().start().await;
    let body = |ts: i64| json!({"userId": "ada", "text": "hello", "messageId": "m1", "ts": ts});
    let bodies: Vec<Value> = (0..20).map(|n| body(NOW * 1000 + n % 3)).collect();
    let path = format!("{PATH}?wait=20");
    let answers = join_all(bodies.iter().map(|body| app.post(&path, APP_KEY, body)));
    let answers = app.as_time_passes(answers).await;
    assert_eq!(answers.iter().filter(|answer| answer.body["duplicate"] == false).count(), 1);
    assert!(answers.iter().all(|answer| answer.body["reply"] == answers[0].body["reply"]));
    app.idle().await;
    assert_eq!(app.lines(CHAT).await, ["m1 user: hello", "m1/reply assistant: You said: hello"]);
    assert_eq!(app.model().count(), 1);
    app.finish().await;
}

/// Each of several writers' forms is there, under a number of its own.
#[tokio::test]
async fn revisions_side_by_side_are_all_kept() {
    let app = app().await;
    let body = |n: usize| json!({"userId": "ada", "text": format!("form {n}"), "messageId": "m1"});
    post(&app, &body(0)).await;
    app.idle().await;
    let bodies: Vec<Value> = (1..6).map(body).collect();
    let answers = join_all(bodies.iter().map(|body| post(&app, body))).await;
    let mut revisions: Vec<_> =
        answers.iter().filter_map(|answer| answer.body["revision"].as_u64()).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, [1, 2, 3, 4, 5]);
    app.idle().await;
    let mut forms: Vec<String> = app.history(CHAT).await[..6].iter().map(text_of).collect();
    forms.sort();
    assert_eq!(forms, (0..6).map(|n| format!("form {n}")).collect::<Vec<_>>());
    assert_answered_once(&app.records(CHAT).await);
    app.finish().await;
}

#[tokio::test]
async fn commands_and_the_reset_route_act_without_a_turn() {
    let app = app().await;
    post_and_wait(&app, PATH, APP_KEY, &json!({"userId": "ada", "text": "I am Ada", "messageId": "m1"}))
        .await;
    let help = json!({"userId": "ada", "text": "/help", "messageId": "m2", "ts": NOW * 1000 + 60_000});
    let answer = post_and_wait(&app, PATH, APP_KEY, &help).await;
    assert_eq!((answer.status.as_u16(), &answer.body["reply"]["id"]), (200, &json!("m2/notice")));
    assert_eq!(answer.body["reply"]["metadata"]["kind"], "notice");
    assert_eq!(app.context(CHAT).await.len(), 2);

    app.clock().advance(Duration::from_mins(2));
    let reset = chat_path("c1", "reset");
    let answer = Answer::of(app.request(Method::POST, &reset).bearer_auth(APP_KEY)).await;
    assert_eq!((answer.status.as_u16(), &answer.body["chatKey"]), (202, &json!(CHAT)));
    let boundary = format!("{}/boundary", answer.body["messageId"].as_str().unwrap());
    assert_eq!(app.context(CHAT).await, [Value::Null; 0]);
    let history = app.history(CHAT).await;
    let listed = &history.iter().find(|message| message["id"] == *boundary).unwrap()["metadata"];
    assert_eq!([&listed["kind"], &listed["userId"]], ["boundary", "app"]);

    app.clock().advance(Duration::from_mins(2));
    let new = json!({"userId": "ada", "text": "/NEW@annals who am I?", "messageId": "m3"});
    let answer = post_and_wait(&app, PATH, APP_KEY, &new).await;
    assert_eq!(answer.reply_text(), "You said: who am I?");
    let session = ["m3 user: who am I?", "m3/reply assistant: You said: who am I?"];
    assert_eq!(app.context_lines(CHAT).await, session);

    app.clock().advance(Duration::from_mins(2));
    let answer = app.post(&reset, APP_KEY, &json!({"userId": "ada"})).await;
    assert_eq!(answer.status, 202);
    assert_eq!(app.context(CHAT).await, [Value::Null; 0]);
    assert_eq!(app.history(CHAT).await.iter().filter(|m| m["metadata"]["kind"] == "boundary").count(), 3);

    // A command in the name of the key makes no group.
    post_and_wait(&app, &chat_path("c1", "compact"), APP_KEY, &json!({})).await;
    let memory = json!({"userId": "ada", "messageId": "m4", "text": "/memory"});
    let listed = post_and_wait(&app, PATH, APP_KEY, &memory).await;
    assert_eq!(listed.reply_text(), "I remember nothing about you yet.");
    app.finish().await;
}

#[tokio::test]
async fn a_large_body_goes_to_s3_and_comes_back_whole() {
    let mut app = TestApp::builder().model().set("CONTEXT_WINDOW", "1000000").start().await;
    app.model().answer_with("Noted.");
    let text: String = "The 🌱 bean, ünd so weiter.\n".repeat(900 * 1024 / 30);
    assert!(text.len() > 880 * 1024);
    let body = json!({"userId": "ada", "text": text, "messageId": "m1", "ts": NOW * 1000});
    assert_eq!(post_and_wait(&app, PATH, APP_KEY, &body).await.body["duplicate"], false);
    // On a busy machine the turn takes longer than the call waits.
    app.idle().await;
    let objects = || {
        let chats = std::fs::read_dir(app.data_dir().join("s3/annals/bodies")).unwrap();
        chats.flat_map(|chat| std::fs::read_dir(chat.unwrap().path()).unwrap()).count()
    };
    assert_eq!(objects(), 1);
    assert_eq!(post_and_wait(&app, PATH, APP_KEY, &body).await.body["duplicate"], true);
    assert_eq!(objects(), 1);
    app.restart().await;
    assert_eq!(post_and_wait(&app, PATH, APP_KEY, &body).await.body["duplicate"], true);

    let history = app.history(CHAT).await;
    assert_eq!(history.len(), 2);
    assert!(text_of(&history[0]) == text, "the history has another text");
    assert!(text_of(&app.context(CHAT).await[0]) == text, "the context has another text");
    assert_eq!(app.model().count(), 1);
    let other = json!({"userId": "ada", "text": format!("{text}!"), "messageId": "m1"});
    assert_eq!(post(&app, &other).await.body["revision"], 1);
    app.finish().await;
}

/// Parts of any type come back byte for byte, keys in their order and numbers as they were.
#[tokio::test]
async fn parts_come_back_as_they_came() {
    const PARTS: &str = concat!(
        r#"[{"type":"text","text":"look: \u0000\u001f \"q\" \\ / é 🌱","state":"done"},"#,
        r#"{"type":"file","mediaType":"image/png","filename":"a.png","url":"data:image/png;base64,AAAA"},"#,
        r#"{"zeta":1,"type":"data-chart","id":"x","data":{"z":1,"a":[0.1,1.0,-0.0,1e-7,1.7976931348623157e+308],"#,
        r#""big":[18446744073709551615,-9223372036854775808,9007199254740993],"null":null,"":{"nested":[[],{}]}}},"#,
        r#"{"type":"of-next-year","text":7,"metadata":{"kind":"summary","ts":"mine"}},"#,
        r#"{"type":"tool-search","toolCallId":"t1","state":"output-available","input":{"q":"x"},"output":[1,{"b":2,"a":1}]},"#,
        r#"{"type":"step-start"}]"#
    );
    let app = app().await;
    let body = format!(r#"{{"userId":"ada","messageId":"m1","parts":{PARTS}}}"#);
    let request = || app.request(Method::POST, PATH).bearer_auth(APP_KEY).body(body.clone());
    assert_eq!(Answer::of(request()).await.body["duplicate"], false);
    assert_eq!(Answer::of(request()).await.body["duplicate"], true);
    app.idle().await;
    for path in [PATH, "/v1/chats/c1/context"] {
        let response = app.request(Method::GET, path).bearer_auth(APP_KEY).send().await.unwrap();
        let text = response.text().await.unwrap();
        assert!(text.contains(&format!("\"parts\":{PARTS}")), "{path}: {text}");
    }

    // The AI SDK refuses a list of messages with a part that lacks its content.
    for (part, field) in [
        (json!({"type": "text"}), "text"),
        (json!({"type": "text", "text": 7}), "text"),
        (json!({"type": "reasoning"}), "text"),
        (json!({"type": "file", "url": "https://example.com/a.png"}), "mediaType"),
        (json!({"type": "file", "mediaType": "image/png"}), "url"),
    ] {
        let parts = json!([{"type": "text", "text": "here"}, part]);
        let refused = post(&app, &json!({"userId": "ada", "messageId": "m2", "parts": parts})).await;
        refused.assert_problem(400, "bad-message");
        assert!(refused.body["detail"].as_str().unwrap().contains(field), "{}", refused.body);
    }
    assert_eq!(app.records(CHAT).await.len(), 2);
    app.finish().await;
}

#[tokio::test]
async fn ids_of_any_kind_are_apart_and_come_back() {
    let app = TestApp::builder().start().await;
    let long = ["x".repeat(512), "é".repeat(256), ":".repeat(512), "%".repeat(512), "🌱".repeat(128)];
    let keys = ["http:chat:other:c1", "telegram:chat:42"];
    let short = [
        ":", "%", "%3A", "a:b", "a%3Ab", "a%253Ab", "#", "?", "&", "/", "a/b", "a//b", "a b", " ", "  ", "+",
        "🌱", "messages", "\\", "\"", "'", "é", "e\u{301}", "...", "null",
    ];
    let long = long.iter().map(String::as_str);
    let chats: Vec<&str> = short.into_iter().chain(keys).chain(long).collect();
    let post = async |chat: &str, body: Value| app.post(&chat_path(chat, "messages"), APP_KEY, &body).await;
    let body = |chat: &str| json!({"userId": "a:b%", "text": format!("to {chat}"), "messageId": "m1"});
    let answers = join_all(chats.iter().map(|chat| post(chat, body(chat)))).await;
    app.idle().await;
    let mut keys = BTreeSet::new();
    for (chat, answer) in chats.iter().zip(answers) {
        assert_eq!(answer.status, 202, "{chat}: {}", answer.body);
        let key = answer.body["chatKey"].as_str().unwrap().to_owned();
        let history = app.history(&key).await;
        let said = [format!("m1 user: to {chat}"), format!("m1/reply assistant: to {chat}")];
        assert_eq!(lines(&history), said);
        let metadata = &history[0]["metadata"];
        assert_eq!((&metadata["chatId"], &metadata["chatKey"]), (&json!(chat), &json!(key)));
        keys.insert(key);
    }
    assert_eq!(keys.len(), chats.len());

    let longest = "m".repeat(256);
    let numbers = ["00000000000000000007", "~00000000000000000007", "18446744073709551616"];
    let short = [
        "7", "07", "~7", "-7", "7.0", "a#b", "a%23b", "#", "%", " ", "!head", "!id#m1", "m1@1", "m1/reply",
        "🌱", "é", "e\u{301}", "\"", "\\",
    ];
    let ids = || short.into_iter().chain(numbers).chain(["m1#4reply", &longest]);
    for id in ids() {
        for (ts, is_duplicate) in [(5, false), (6, true)] {
            let body = json!({"userId": "ada", "text": format!("by {id}"), "messageId": id, "ts": ts});
            let answer = post("ids", body).await;
            assert_eq!((answer.status.as_u16(), &answer.body["messageId"]), (202, &json!(id)));
            assert_eq!(answer.body["duplicate"], is_duplicate, "{id}");
        }
    }
    app.idle().await;
    let history = app.history("http:chat:app:ids").await;
    for id in ids() {
        let found: Vec<_> = history.iter().filter(|m| m["id"] == *id && m["role"] == "user").collect();
        assert_eq!(found.iter().map(|m| text_of(m)).collect::<Vec<_>>(), [format!("by {id}")]);
    }
    assert_answered_once(&app.records("http:chat:app:ids").await);
    app.finish().await;
}

/// Returns `levels` nested lists.
fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!([inner]))
}

/// All later readers accept what an endpoint accepts: segments, too.
#[tokio::test]
async fn the_deepest_part_that_is_taken_is_archived_and_a_deeper_one_is_refused() {
    let app = TestApp::builder().set("KEEP_RECENT", "2").start().await;
    let message = |id: &str, levels: usize| {
        let data = json!({"type": "data-x", "data": nested(levels)});
        json!({"userId": "ada", "messageId": id, "parts": [{"type": "text", "text": "deep"}, data]})
    };
    for levels in [64, 124] {
        let refused = post(&app, &message("too-deep", levels)).await;
        refused.assert_problem(400, "bad-message");
        assert!(refused.body["detail"].as_str().unwrap().contains("at most 64"), "{}", refused.body);
    }
    assert_eq!(post(&app, &message("deep", 63)).await.status, 202);
    app.idle().await;
    for n in 0..8 {
        app.clock().advance(Duration::from_secs(1));
        post(&app, &json!({"userId": "ada", "messageId": format!("m{n}"), "text": "short"})).await;
        app.idle().await;
    }
    let compacted = post_and_wait(&app, &chat_path("c1", "compact"), APP_KEY, &json!({})).await;
    assert!(compacted.reply_text().starts_with("Done: "), "{}", compacted.body);
    let segments = app.get(&chat_path(CHAT, "segments")).await;
    let id = segments["segments"][0]["id"].as_str().unwrap().to_owned();
    let path = chat_path(CHAT, &format!("segments/{id}"));
    let first = app.export_of(&path, OPS_KEY).await.remove(0);
    assert_eq!((&first["id"], &first["parts"][1]["data"]), (&json!("deep"), &nested(63)));
    let answer = post_and_wait(&app, PATH, APP_KEY, &json!({"userId": "ada", "text": "and on"})).await;
    assert_eq!(answer.reply_text(), "and on");
    app.finish().await;
}
