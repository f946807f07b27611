//! The functions that receive: `telegram`, `lark`, `http`.

use serde_json::{Value, json};

use crate::bootstrap::emulated::{Emulated, event, queue, request, streamed};
use crate::stack::{Stack, beside};

/// The Telegram event of infra/events/, of this chat and with this secret.
pub(crate) fn telegram_event(chat: i64, secret: &str) -> Value {
    let mut event = event("telegram-message");
    event["headers"]["x-telegram-bot-api-secret-token"] = json!(secret);
    let mut update: Value = serde_json::from_str(event["body"].as_str().unwrap()).unwrap();
    update["message"]["chat"]["id"] = json!(chat);
    event["body"] = json!(update.to_string());
    event
}

async fn turns(stack: &Stack, queue: &str) -> usize {
    stack.queued(queue).await
}

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn telegram_takes_an_api_event() {
    beside(async |stack| {
        let queue = queue(stack, "telegram-alone").await;
        let function = Emulated::start(stack, "Telegram", &queue, &[]).await;
        let secret = &stack.secrets()["TELEGRAM_WEBHOOK_SECRET"];
        let refused = function.invoke(&telegram_event(9001, "wrong")).await;
        assert_eq!(refused["statusCode"], 401, "{refused}");
        assert_eq!((turns(stack, &queue).await, stack.stored("telegram:chat:9001").await.len()), (0, 0));
        for _ in 0..2 {
            let answer = function.invoke(&telegram_event(9001, secret)).await;
            assert_eq!(answer["statusCode"], 200, "{answer}");
        }
        assert_eq!(stack.stored("telegram:chat:9001").await, ["user: Hello, do you remember me?"]);
        assert_eq!(turns(stack, &queue).await, 2, "the duplicate's too: its first delivery may have crashed");
    });
}

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn lark_takes_an_api_event_and_a_challenge() {
    beside(async |stack| {
        let queue = queue(stack, "lark-alone").await;
        let function = Emulated::start(stack, "Lark", &queue, &[]).await;
        let token = &stack.secrets()["LARK_VERIFICATION_TOKEN"];
        let (mut call, plain) = (event("lark-message"), event("lark-message"));
        let challenge = json!({"type": "url_verification", "challenge": "c-1", "token": token});
        call["body"] = json!(stack.lark_call(&challenge).0);
        let answer = function.invoke(&call).await;
        assert_eq!(answer["statusCode"], 200, "{answer}");
        let body: Value = serde_json::from_str(answer["body"].as_str().unwrap()).unwrap();
        assert_eq!(body, json!({"challenge": "c-1"}));

        let mut message: Value = serde_json::from_str(plain["body"].as_str().unwrap()).unwrap();
        message["header"]["token"] = json!(token);
        message["event"]["message"]["chat_id"] = json!("oc_alone");
        let (body, headers) = stack.lark_call(&message);
        call["body"] = json!(body);
        assert_eq!(function.invoke(&call).await["statusCode"], 401, "without its signature");
        for (name, value) in headers {
            call["headers"][name.to_lowercase()] = json!(value);
        }
        assert_eq!(function.invoke(&call).await["statusCode"], 200);
        assert_eq!(function.invoke(&plain).await["statusCode"], 401, "not encrypted");
        assert_eq!(stack.stored("lark:chat:oc_alone").await, ["user: Hello, do you remember me?"]);
        assert_eq!(turns(stack, &queue).await, 1);
    });
}

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn http_takes_api_events() {
    beside(async |stack| {
        let queue = queue(stack, "http-alone").await;
        let function = Emulated::start(stack, "Http", &queue, &[]).await;
        let path = "/v1/chats/alone/messages";
        let refused = function.invoke(&request("GET", path, "wrong", None)).await;
        assert_eq!(refused["statusCode"], 401, "{refused}");
        let message = json!({"userId": "ada", "text": "hello", "messageId": "m1"});
        let taken = function.invoke(&request("POST", path, "app-secret", Some(&message))).await;
        assert_eq!(taken["statusCode"], 202, "{taken}");
        let page = function.invoke(&request("GET", path, "app-secret", None)).await;
        assert_eq!(page["statusCode"], 200, "{page}");
        let body: Value = serde_json::from_str(page["body"].as_str().unwrap()).unwrap();
        assert_eq!(body["messages"][0]["parts"][0]["text"], "hello");
        assert_eq!(turns(stack, &queue).await, 1);
    });
}

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn http_streams_through_a_function_url() {
    beside(async |stack| {
        let queue = queue(stack, "http-streaming-alone").await;
        let function = Emulated::start(stack, "Http", &queue, &[("HTTP_RESPONSES", "streaming")]).await;
        let path = "/v1/chats/alone-streamed/messages";
        let of_url = |method: &str, key: &str, body: Option<&Value>| {
            let mut event = request(method, path, key, body);
            event["routeKey"] = json!("$default");
            event["requestContext"]["routeKey"] = json!("$default");
            event["requestContext"]["accountId"] = json!("anonymous");
            event
        };
        let message = json!({"userId": "ada", "text": "hello", "messageId": "m1"});
        for (event, status, part) in [
            (of_url("GET", "wrong", None), 401, "\"status\":401"),
            (of_url("POST", "app-secret", Some(&message)), 202, "\"messageId\":\"m1\""),
            (of_url("GET", "app-secret", None), 200, "\"text\":\"hello\""),
        ] {
            let (prelude, body) = streamed(&function.invoke_raw(&event).await);
            assert_eq!(prelude["statusCode"], status, "{prelude} {body}");
            assert!(body.contains(part), "{prelude} {body}");
        }
    });
}
