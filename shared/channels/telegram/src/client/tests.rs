use annals_channel::client::{Answer, Outage};
use annals_channel::testing::logged;
use annals_core::sort_key::Timestamp;
use annals_test_support::telegram_api::{Sent, Sign, TOKEN, TelegramApi};
use reqwest::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use serde_json::json;

use super::*;

mod files;

const CHAT: i64 = -100_123;

fn client_at(base_url: &str, token: &str) -> (Client, Clock) {
    let clock = Clock::manual(Timestamp::from_secs(1_763_765_920));
    (Client::new(base_url, token.into(), clock.clone()).unwrap(), clock)
}

async fn start() -> (TelegramApi, Client, Clock) {
    let api = TelegramApi::start().await;
    let (client, clock) = client_at(api.base_url(), TOKEN);
    (api, client, clock)
}

fn address(chat_id: i64) -> Address {
    Address { chat_id, ..Address::default() }
}

fn texts(sent: &[Sent]) -> Vec<&str> {
    sent.iter().map(|sent| sent.text.as_str()).collect()
}

#[tokio::test]
async fn a_message_is_sent_with_every_field_of_its_address() {
    let (api, client, _) = start().await;
    let address = Address {
        chat_id: CHAT,
        thread_id: Some(7),
        reply_to: Some(42),
        business_connection_id: Some("b".into()),
        direct_messages_topic_id: Some(9),
    };
    let chunk = &chunks("😀 **hi**")[0];
    client.send_message(&address, chunk, None).await.unwrap();
    assert_eq!(
        api.sent(),
        [Sent {
            chat_id: CHAT,
            text: "😀 hi".into(),
            entities: vec![json!({"type": "bold", "offset": 3, "length": 2})],
            thread_id: Some(7),
            reply_to: Some(42),
            business_connection_id: Some("b".into()),
            direct_messages_topic_id: Some(9),
            message_id: 1000,
            at_seq: 0,
            keyboard: Vec::new(),
        }]
    );
}

#[tokio::test]
async fn the_general_topic_is_not_sent() {
    let (api, client, _) = start().await;
    let address = Address { thread_id: Some(1), ..address(CHAT) };
    client.send_message(&address, &Styled::plain("a"), None).await.unwrap();
    client.send_typing(&address).await.unwrap();
    assert_eq!(api.sent()[0].thread_id, None);
    assert_eq!(api.statuses("sendMessage"), [200]);
    assert_eq!(api.statuses("sendChatAction"), [200]);
}

#[tokio::test]
async fn a_long_answer_arrives_complete() {
    let (api, client, _) = start().await;
    let lines: Vec<String> =
        (0..400).map(|n| format!("{n}. **bold {n}** and `code` 你好 😀 in a sentence.\n")).collect();
    let markdown = lines.concat();
    for chunk in chunks(&markdown) {
        client.send_message(&address(CHAT), &chunk, None).await.unwrap();
    }
    let sent = api.sent();
    assert!(sent.len() > 4);
    assert_eq!(texts(&sent).join("\n"), markdown.replace("**", "").replace('`', "").trim());
    assert!(sent.iter().all(|sent| !sent.entities.is_empty()));
    assert_eq!(chunks(" \n"), []);
}

#[tokio::test]
async fn plain_text_that_is_longer_than_the_styled_text_is_split_and_quotes_once() {
    let (api, client, _) = start().await;
    api.edit(|store| store.refuse_entities = true);
    let address = Address { reply_to: Some(5), ..address(CHAT) };
    let markdown = "[link](https://example.com/a/long/address/of/a/page) ".repeat(100);
    let pieces = chunks(&markdown);
    assert_eq!(pieces.len(), 1);
    client.send_message(&address, &pieces[0], None).await.unwrap();
    let sent = api.sent();
    assert_eq!(sent.iter().map(|sent| sent.reply_to).collect::<Vec<_>>(), [Some(5), None]);
    assert_eq!(texts(&sent).join(" ").matches("(https://example.com/a/long/address/of/a/page)").count(), 100);
}

#[tokio::test]
async fn refused_optional_parts_are_left_out() {
    let (api, client, _) = start().await;
    api.edit(|store| {
        store.lost_topics.insert((CHAT, 7));
        store.refuse_replies = true;
        store.refuse_entities = true;
    });
    let address = Address { thread_id: Some(7), reply_to: Some(5), ..address(CHAT) };
    client.send_message(&address, &chunks("**a**")[0], None).await.unwrap();
    let sent = &api.sent()[0];
    assert_eq!((sent.text.as_str(), sent.thread_id, sent.reply_to), ("a", None, None));
    assert_eq!(api.statuses("sendMessage"), [400, 400, 400, 200]);
}

#[tokio::test]
async fn a_reply_to_a_deleted_message_is_sent_without_quotation() {
    let (api, client, _) = start().await;
    api.edit(|store| store.lost_messages.insert((CHAT, 5)));
    client
        .send_message(&Address { reply_to: Some(5), ..address(CHAT) }, &Styled::plain("a"), None)
        .await
        .unwrap();
    assert_eq!(api.sent()[0].reply_to, None);
    assert_eq!(api.calls().len(), 1);
}

#[tokio::test]
async fn a_text_too_long_for_telegram_is_halved() {
    let (api, client, _) = start().await;
    api.edit(|store| store.max_units = Some(20));
    client
        .send_message(&address(CHAT), &Styled::plain("one two three four five six seven"), None)
        .await
        .unwrap();
    assert!(api.sent().len() > 1);
    assert_eq!(texts(&api.sent()).join(" "), "one two three four five six seven");
    api.edit(|store| store.max_units = Some(0));
    let error = client.send_message(&address(CHAT), &Styled::plain("abc"), None).await.unwrap_err();
    assert!(matches!(error, CallError::Refused { status: 400, .. }), "{error:?}");
}

#[tokio::test]
async fn rate_limits_and_faults_are_waited_for() {
    let (api, client, clock) = start().await;
    let (to, text) = (address(CHAT), Styled::plain("a"));
    let send = async || clock.advance_during(client.send_message(&to, &text, None)).await;
    api.rate_limit(2, 7.0);
    let (done, took) = send().await;
    assert!(done.is_ok() && took >= Duration::from_secs(14), "{took:?}");
    api.fail(9, 500);
    let error = send().await.0.unwrap_err();
    assert!(
        matches!(&error, CallError::Unavailable { source: Outage::Server(said), .. } if said == "HTTP status 500"),
        "{error:?}"
    );
    assert!(!error.is_permanent());
    assert_eq!(api.statuses("sendMessage"), [429, 429, 200, 500, 500, 500]);
}

#[tokio::test]
async fn a_message_that_may_have_been_delivered_is_not_sent_again() {
    let (api, mut client, _) = start().await;
    client.api.timeout = Duration::from_millis(200);
    api.delay(Duration::from_secs(2));
    let error = client.send_message(&address(CHAT), &Styled::plain("a"), None).await.unwrap_err();
    assert!(matches!(error, CallError::Unavailable { source: Outage::Response(_), .. }), "{error:?}");
    assert_eq!(api.sent().len(), 1);
    assert_eq!(api.calls().len(), 1);
    api.delay(Duration::ZERO);
    api.garble(1);
    let error = client.send_message(&address(CHAT), &Styled::plain("a"), None).await.unwrap_err();
    assert!(matches!(error, CallError::Unreadable { .. }) && !error.is_permanent(), "{error:?}");
    assert_eq!(api.calls().len(), 2);
}

#[tokio::test]
async fn refusals_become_the_matching_errors() {
    let (api, client, _) = start().await;
    api.block(1);
    api.forget(2);
    api.edit(|store| store.migrated.insert(3, -1003));
    api.fail(1, 404);
    let send = async |chat| client.send_message(&address(chat), &Styled::plain("a"), None).await.unwrap_err();
    let error = send(9).await;
    assert!(matches!(error, CallError::Refused { status: 404, .. }) && error.is_permanent(), "{error:?}");
    let error = send(1).await;
    assert!(matches!(error, CallError::Blocked { .. }) && error.is_permanent());
    assert!(error.to_string().ends_with("Forbidden: bot was blocked by the user"), "{error}");
    let error = send(2).await;
    assert!(
        matches!(&error, CallError::Refused { status: 400, reason, .. } if reason.ends_with("chat not found"))
    );
    let error = send(3).await;
    assert!(matches!(&error, CallError::Moved { chat_id, .. } if chat_id == "-1003") && error.is_permanent());
    let error = client.send_message(&address(9), &Styled::plain(" "), None).await.unwrap_err();
    assert!(matches!(error, CallError::Refused { status: 400, .. }) && error.is_permanent());
    assert_eq!(api.sent(), []);
    assert_eq!(api.calls().len(), 5);
}

#[test]
fn a_missing_right_to_write_blocks_the_chat() {
    for words in [
        "not enough rights to send text messages to the chat",
        "need administrator rights in the channel chat",
        "TOPIC_CLOSED",
    ] {
        let body = json!({"ok": false, "error_code": 400, "description": format!("Bad Request: {words}")});
        let (method, headers, body) = ("sendMessage", HeaderMap::new(), body.to_string().into_bytes());
        let answer = Answer { platform: "Telegram", method, status: 400, headers, body };
        let error = answer::read::<Value>(&answer, TOKEN).unwrap_err();
        assert!(matches!(error, CallError::Blocked { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn typing_is_tried_once() {
    let (api, client, _) = start().await;
    client.send_typing(&address(CHAT)).await.unwrap();
    api.block(CHAT);
    assert!(matches!(client.send_typing(&address(CHAT)).await, Err(CallError::Blocked { .. })));
    assert_eq!(api.statuses("sendChatAction"), [200, 403]);
}

#[tokio::test]
async fn a_person_who_is_removed_from_the_administrators_is_none_at_once() {
    let (api, client, _) = start().await;
    let group = CHAT.to_string();
    api.set_administrators(CHAT, &[50]);
    assert!(client.is_administrator(&group, "50").await.unwrap());
    assert!(!client.is_administrator(&group, "5").await.unwrap());
    api.set_administrators(CHAT, &[]);
    assert!(!client.is_administrator(&group, "50").await.unwrap());
}

#[tokio::test]
async fn an_error_for_a_wrong_token_names_the_setting_but_not_its_value() {
    let api = TelegramApi::start().await;
    for (token, is_permanent) in [("7000000001:wrong-SECRET", false), ("SECRET", true)] {
        let (client, _) = client_at(api.base_url(), token);
        let error = client.get_me().await.unwrap_err();
        assert_eq!(error.is_permanent(), is_permanent, "{error:?}");
        assert!(error.to_string().contains("TELEGRAM_BOT_TOKEN"), "{error}");
        assert!(!logged(&error).contains("SECRET") && !format!("{client:?}").contains("SECRET"));
    }
}

#[tokio::test]
async fn no_error_shows_the_token() {
    let token = "7000000001:SECRET";
    let answer = |status, body: &str| {
        let (platform, method, headers) = ("Telegram", "getMe", HeaderMap::new());
        let answer = Answer { platform, method, status, headers, body: body.into() };
        answer::read::<Me>(&answer, token).unwrap_err()
    };
    let echo = format!(r#"{{"ok":false,"error_code":404,"description":"no /bot{token}/getMe here"}}"#);
    let text = format!(r#"{{"ok":true,"result":"{token}"}}"#);
    for error in
        [answer(404, &echo), answer(200, &echo), answer(200, &text), answer(301, ""), answer(403, "{}")]
    {
        assert!(!logged(&error).contains("SECRET"), "{error:?}");
    }
    // Nothing listens at this address.
    let (client, clock) = client_at("http://127.0.0.1:9", token);
    let error = clock.advance_during(client.get_me()).await.0.unwrap_err();
    assert!(matches!(error, CallError::Unavailable { source: Outage::Connection(_), .. }), "{error:?}");
    assert!(!logged(&error).contains("SECRET"), "{error:?}");
    // A response that breaks off.
    let api = TelegramApi::start().await;
    api.delay(Duration::from_secs(2));
    let (mut client, _) = client_at(api.base_url(), token);
    client.api.timeout = Duration::from_millis(100);
    let error = client.get_me().await.unwrap_err();
    assert!(!logged(&error).contains("SECRET"), "{error:?}");
}

#[test]
fn a_429_without_json_waits_too() {
    let wait = |retry_after: Option<&'static str>| {
        let headers = retry_after.map(|wait| (RETRY_AFTER, HeaderValue::from_static(wait)));
        let (headers, body) = (headers.into_iter().collect(), b"<html>".to_vec());
        let answer = Answer { platform: "Telegram", method: "getMe", status: 429, headers, body };
        match answer::read::<Me>(&answer, "t") {
            Err(CallError::RateLimited { retry_after: Some(wait), .. }) => wait.as_secs(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!([wait(Some("9")), wait(Some("0")), wait(None)], [9, 1, 5]);
}

#[test]
fn errors_for_invalid_settings_name_the_variable() {
    let make = |base: &str, token: &str| Client::new(base, token.into(), Clock::system()).map(|_| ());
    assert_eq!(make("api.telegram.org", "1:a").unwrap_err().variable, "TELEGRAM_API_BASE");
    for token in ["", "1:a/b", "1:a b", "1:a\n"] {
        let error = make("https://api.telegram.org", token).unwrap_err();
        assert_eq!(error.variable, "TELEGRAM_BOT_TOKEN", "{token:?}");
    }
    assert!(make("http://127.0.0.1:8081/", "1:a-B_c").is_ok());
}

#[tokio::test]
async fn drafts_show_plain_text_and_pause_after_a_429() {
    let (api, client, clock) = start().await;
    let address = Address { thread_id: Some(5), ..address(42) };
    assert_eq!(client.send_draft(&address, 7, " \n").await.ok(), Some(false));
    assert_eq!(client.send_draft(&address, 7, "Sow **beans** and **pe").await.ok(), Some(true));
    api.edit(|store| store.signs.rate_limit = (1, 30));
    let error = client.send_draft(&address, 7, "Sow beans").await.unwrap_err();
    assert!(matches!(error, CallError::RateLimited { .. }), "{error:?}");
    clock.advance(Duration::from_secs(29));
    assert_eq!(client.clone().send_draft(&address, 7, "Sow beans").await.ok(), Some(false));
    clock.advance(Duration::from_secs(1));
    let long = "word ".repeat(1000);
    assert_eq!(client.send_draft(&address, 7, &long).await.ok(), Some(true));
    let shown = api.shown();
    assert_eq!(shown[0].sign, Sign::Draft(7, "Sow beans and **pe".into()));
    assert_eq!((shown.len(), shown[0].thread_id), (2, Some(5)));
    let Sign::Draft(_, last) = &shown[1].sign else { panic!("{shown:?}") };
    assert!(last.len() < 1000 && last.starts_with("word"), "only the last message is drafted: {last}");
    assert_eq!(api.statuses("sendMessageDraft"), [200, 429, 200]);
}
