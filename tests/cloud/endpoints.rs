//! Each endpoint: recorded webhooks, redeliveries, and refused callers.

use annals_core::record::Channel;
use annals_io::clock::Clock;
use reqwest::Method;
use serde_json::{Value, json};

use crate::stack::{Stack, beside, prove, recorded, soon};

/// A text of a private chat, `chat`, as Telegram sends it.
pub(crate) fn telegram_text(chat: i64, id: i64, text: &str) -> Value {
    let who = json!({"id": chat, "is_bot": false, "first_name": "Ada", "type": "private"});
    let message =
        json!({"message_id": id, "date": 1_764_057_600 + id, "from": who, "chat": who, "text": text});
    json!({"update_id": chat * 1000 + id, "message": message})
}

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn a_recorded_telegram_message_is_stored_and_answered_once_however_often_it_comes() {
    beside(async |stack| {
        let (chat, update) = (5_550_101, &recorded("telegram")["01_private_text_with_links"]);
        assert_eq!(stack.post(Channel::Telegram, update).await, 200);
        soon("the reply is delivered", async || !stack.telegram.sent_to(chat).is_empty()).await;
        let stored = stack.stored("telegram:chat:5550101").await;
        let text = update["message"]["text"].as_str().unwrap();
        // The model is told the address behind the linked word.
        let said = format!("You said: [link \"guide\": https://example.org/guide]\n{text}");
        assert_eq!(stored, [format!("user: {text}"), format!("assistant: {said}")]);
        assert_eq!(stack.telegram.sent_to(chat)[0].text, said);

        // As Telegram delivers it again, and as the queue does.
        assert_eq!(stack.post(Channel::Telegram, update).await, 200);
        repeat_turn(stack, "telegram:chat:5550101", &format!("1764057600000#{:020}", 101)).await;
        stack.idle().await;
        assert_eq!(stack.stored("telegram:chat:5550101").await, stored);
        assert_eq!(stack.telegram.sent_to(chat).len(), 1);
        assert_eq!(stack.model.refusals(), [""; 0]);
    });
}

/// Queues a turn of `chat` again, in a form that the queue does not take for a repeat.
async fn repeat_turn(stack: &Stack, chat: &str, from: &str) {
    let turn = json!({"chat": chat, "from": from}).to_string();
    let request = stack.sqs.send_message().queue_url(stack.output("QueueUrl")).message_body(turn);
    let group = chat.replace(':', "-");
    request.message_group_id(&group).message_deduplication_id(format!("{group}-again")).send().await.unwrap();
}

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn a_webhook_without_the_secret_is_refused_and_leaves_nothing() {
    beside(async |stack| {
        let update = telegram_text(990, 1, "let me in");
        for secret in [None, Some("wrong"), Some("")] {
            let mut request = stack.api(Method::POST, "/telegram").json(&update);
            if let Some(secret) = secret {
                request = request.header("x-telegram-bot-api-secret-token", secret);
            }
            assert_eq!(request.send().await.unwrap().status(), 401, "{secret:?}");
        }
        let mut event = recorded("lark")["01_p2p_text"].clone();
        event["event"]["message"]["chat_id"] = json!("oc_stranger");
        let plain = stack.api(Method::POST, "/lark").json(&event);
        assert_eq!(plain.send().await.unwrap().status(), 401, "not encrypted");
        let unsigned = prove(&stack.secrets, Channel::Lark, &event).body;
        let unsigned = stack.api(Method::POST, "/lark").body(unsigned);
        assert_eq!(unsigned.send().await.unwrap().status(), 401, "not signed");
        let mut others = stack.secrets.clone();
        others.insert("LARK_VERIFICATION_TOKEN".into(), "wrong".into());
        let call = prove(&others, Channel::Lark, &event);
        assert_eq!(stack.call(Channel::Lark, call).await.status(), 401, "another app's");
        for chat in ["telegram:chat:990", "lark:chat:oc_stranger"] {
            assert_eq!(stack.stored(chat).await, [""; 0]);
        }
        assert!(stack.telegram.sent_to(990).is_empty());
    });
}

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn a_recorded_discord_command_is_stored_and_answered_once_however_often_it_comes() {
    beside(async |stack| {
        let mut call = recorded("discord")["02_ask_in_channel"].clone();
        call["channel_id"] = json!("990");
        call["token"] = json!("cloud-interaction");
        let until = now_millis() - 1_420_070_400_000;
        call["id"] = json!((until << 22).to_string());
        let chat = format!("agent:annals:channel:{}:990", call["guild_id"].as_str().unwrap());
        assert_eq!(stack.post_discord(&call).await, (200, json!({"type": 5})));
        let replies = || stack.discord.sent().iter().filter(|sent| sent.channel_id == "990").count();
        soon("the reply is delivered", async || replies() > 0).await;
        let stored = stack.stored(&chat).await;
        assert_eq!(stored.len(), 2, "{stored:?}");
        assert!(stack.discord.sent().iter().any(|sent| sent.channel_id == "990" && sent.is_original));

        assert_eq!(stack.post_discord(&call).await.0, 200);
        stack.idle().await;
        assert_eq!((stack.stored(&chat).await, replies()), (stored, 1));
        let forged = stack.api(Method::POST, "/discord").body(call.to_string()).send().await.unwrap();
        assert_eq!(forged.status(), 401);
        let ping = json!({"id": "1", "type": 1, "application_id": "1", "version": 1});
        assert_eq!(stack.post_discord(&ping).await, (200, json!({"type": 1})));
        let event = &recorded("discord")["26_deauthorized"];
        assert_eq!(stack.post_discord(event).await.0, 204);
    });
}

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn a_recorded_lark_message_is_stored_and_answered_once_however_often_it_comes() {
    beside(async |stack| {
        let mut event = recorded("lark")["01_p2p_text"].clone();
        event["event"]["message"]["chat_id"] = json!("oc_once");
        event["event"]["message"]["message_id"] = json!("om_once");
        assert_eq!(stack.post(Channel::Lark, &event).await, 200);
        let replies = || {
            let sent = stack.lark.sent();
            sent.iter()
                .filter(|sent| sent.chat_id == "oc_once" || sent.reply_to.as_deref() == Some("om_once"))
                .count()
        };
        soon("the reply is delivered", async || replies() > 0).await;
        let stored = stack.stored("lark:chat:oc_once").await;
        assert_eq!(stored.len(), 2, "{stored:?}");
        assert!(stored[0].starts_with("user: Which seeds do we have left?"), "{stored:?}");

        event["header"]["event_id"] = json!("ev_again");
        assert_eq!(stack.post(Channel::Lark, &event).await, 200);
        repeat_turn(stack, "lark:chat:oc_once", "1764057601000#om_once").await;
        stack.idle().await;
        assert_eq!(stack.stored("lark:chat:oc_once").await, stored);
        assert_eq!(replies(), 1);
    });
}

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn the_http_api_takes_a_message_and_waits_for_its_reply() {
    beside(async |stack| {
        let path = "/v1/chats/garden/messages";
        let message = json!({"userId": "ada", "text": "hello", "messageId": "m1"});
        let post =
            |key: &str| stack.api(Method::POST, &format!("{path}?wait=20")).bearer_auth(key).json(&message);
        assert_eq!(post("wrong").send().await.unwrap().status(), 401);
        let answer = post("app-secret").send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let answer: Value = answer.json().await.unwrap();
        assert_eq!(answer["chatKey"], "http:chat:app:garden");
        assert_eq!(answer["reply"]["parts"][0]["text"], "You said: hello");
        let again: Value = post("app-secret").send().await.unwrap().json().await.unwrap();
        assert_eq!((&again["duplicate"], &again["reply"]), (&json!(true), &answer["reply"]));
        let page = stack.api(Method::GET, path).bearer_auth("app-secret").send().await.unwrap();
        let page: Value = page.json().await.unwrap();
        assert_eq!(page["messages"].as_array().unwrap().len(), 2, "{page}");
        assert_eq!(stack.stored("http:chat:app:garden").await, ["user: hello", "assistant: You said: hello"]);
    });
}

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn the_api_has_the_routes_of_the_template_and_no_other() {
    beside(async |stack| {
        let segments = "/v1/chats/nowhere/segments";
        for (method, path, status) in [
            (Method::GET, "/health", 200),
            (Method::GET, "/v1/chats/nowhere/messages", 200),
            (Method::GET, "/v1/chats/nowhere/context", 200),
            (Method::GET, segments, 200),
            (Method::GET, &format!("{segments}/1763765921000-0123456789abcdef"), 404),
            (Method::GET, "/v1/memory?userId=nobody", 200),
            (Method::DELETE, "/v1/memory/nothing", 404),
            (Method::GET, "/telegram", 404),
            (Method::GET, "/v2", 404),
        ] {
            let answer = stack.api(method.clone(), path).bearer_auth("ops-secret").send().await.unwrap();
            assert_eq!(answer.status(), status, "{method} {path}: {}", answer.text().await.unwrap());
        }
    });
}

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn the_function_url_streams_what_the_api_answers() {
    beside(async |stack| {
        let path = "/v1/chats/streamed/messages";
        let url = |method, path: &str| stack.function_url("HttpStreaming", method, path);
        assert_eq!(url(Method::GET, path).send().await.unwrap().status(), 401, "no key");
        let message = json!({"userId": "ada", "text": "hello", "messageId": "m1"});
        let answer = url(Method::POST, &format!("{path}?wait=20")).bearer_auth("app-secret").json(&message);
        let answer = answer.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "application/json");
        assert_eq!(answer.json::<Value>().await.unwrap()["reply"]["parts"][0]["text"], "You said: hello");
        let page: Value =
            url(Method::GET, path).bearer_auth("app-secret").send().await.unwrap().json().await.unwrap();
        assert_eq!(page["messages"].as_array().unwrap().len(), 2, "{page}");

        // It answers what is said at /api/chat itself; at the HTTP API the agent does, and the stream comes whole.
        let said = |id: &str| json!({"id": id, "message": {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}});
        for (room, request) in
            [("streamed", url(Method::POST, "/api/chat")), ("whole", stack.api(Method::POST, "/api/chat"))]
        {
            let answer = request.bearer_auth("app-secret").json(&said(room)).send().await.unwrap();
            assert_eq!(answer.status(), 200, "{room}");
            assert_eq!(answer.headers()["content-type"], "text/event-stream");
            let stream = answer.text().await.unwrap();
            assert!(stream.contains(r#"{"type":"start","messageId":"m1/reply"}"#), "{room}: {stream}");
            assert!(
                stream.contains(r#""type":"finish""#) && stream.ends_with("data: [DONE]\n\n"),
                "{room}: {stream}"
            );
        }
    });
}

/// Returns the time, in epoch milliseconds: the token of an interaction ends after a quarter of an hour.
fn now_millis() -> i64 {
    Clock::system().now().as_millis()
}
