use std::time::Duration;

use annals_channel::client::{Answer, Outage};
use annals_channel::file::FileError;
use annals_channel::testing::logged;
use annals_core::reply_token::ReplyToken;
use annals_core::settings::from_table;
use annals_core::sort_key::Timestamp;
use annals_test_support::discord_api::{APPLICATION_ID, BOT_TOKEN, DiscordApi, public_key};
use reqwest::header::HeaderMap;
use serde_json::json;

use super::*;
use crate::address::Address;
use crate::commands::commands;

const TOKEN: &str = "interaction-token";

fn config(base: &str, settings: &[(&str, &str)]) -> DiscordConfig {
    let key = public_key();
    let own = [
        ("DISCORD_APPLICATION_ID", APPLICATION_ID),
        ("DISCORD_PUBLIC_KEY", key.as_str()),
        ("DISCORD_API_BASE", base),
    ];
    from_table(&[&own, settings].concat(), DiscordConfig::from_env).unwrap().unwrap()
}

async fn start_with(settings: &[(&str, &str)]) -> (DiscordApi, Client, Clock) {
    let api = DiscordApi::start().await;
    let clock = Clock::manual(Timestamp::from_secs(1_795_305_600));
    let client = Client::new(&config(api.base_url(), settings), clock.clone()).unwrap();
    (api, client, clock)
}

async fn start() -> (DiscordApi, Client, Clock) {
    start_with(&[("DISCORD_BOT_TOKEN", BOT_TOKEN)]).await
}

/// Returns the address of an interaction whose token is valid for a quarter of an hour.
fn interaction(clock: &Clock) -> Address {
    let until = clock.now().plus(Duration::from_mins(15));
    let token = Some(ReplyToken::new(TOKEN, until));
    Address { channel_id: "645".into(), message_id: None, token, user_installed: false }
}

fn channel() -> Address {
    Address { channel_id: "645".into(), message_id: Some("77".into()), token: None, user_installed: false }
}

fn message<'a>(content: &'a str, nonce: &'a str, is_first: bool) -> Message<'a> {
    Message { content, file: None, components: None, nonce, is_first }
}

fn respond(api: &DiscordApi) {
    api.responded(&json!({"token": TOKEN, "channel_id": "645"}), &json!({"type": 5}));
}

#[tokio::test]
async fn without_a_token_the_bot_is_shut_out() {
    let (_api, client, _) = start_with(&[]).await;
    let error = client.send_message(&channel(), message("a", "n", true)).await.unwrap_err();
    assert!(matches!(error, CallError::Blocked { .. }), "tasks would ask the model at each date: {error:?}");
}

#[tokio::test]
async fn the_first_message_edits_the_answer_and_the_others_follow() {
    let (api, client, clock) = start().await;
    respond(&api);
    let to = interaction(&clock);
    client.send_message(&to, message("one @everyone", "a", true)).await.unwrap();
    client.send_message(&to, message("two", "b", false)).await.unwrap();
    // Repeated, as after a crash.
    client.send_message(&to, message("one @everyone", "a", true)).await.unwrap();
    let sent = api.sent();
    let seen: Vec<_> = sent.iter().map(|sent| (sent.content.as_str(), sent.is_original)).collect();
    assert_eq!(seen, [("one @everyone", true), ("two", false)]);
    assert!(
        sent.iter()
            .all(|sent| !sent.notifies && sent.has_no_previews && sent.token.as_deref() == Some(TOKEN))
    );
}

#[tokio::test]
async fn after_its_end_an_interaction_is_answered_in_the_channel() {
    let (api, client, clock) = start().await;
    let to = interaction(&clock);
    // Discord does not know the token any more, or it never did.
    client.send_message(&to, message("late", "a", true)).await.unwrap();
    respond(&api);
    clock.advance(Duration::from_mins(15));
    client.send_message(&to, message("later", "b", true)).await.unwrap();
    let seen: Vec<_> =
        api.sent().into_iter().map(|sent| (sent.content, sent.token, sent.refers_to)).collect();
    assert_eq!(seen, [("late".to_owned(), None, None), ("later".to_owned(), None, None)]);
    assert_eq!(api.count("PATCH /webhooks/*/*/messages/@original"), 1, "an ended token is not used");
}

#[tokio::test]
async fn without_a_bot_an_ended_interaction_gets_no_answer_and_the_reason_is_clear() {
    let (api, client, clock) = start_with(&[]).await;
    let error = client.send_message(&interaction(&clock), message("late", "a", true)).await.unwrap_err();
    assert!(error.is_permanent() && error.to_string().starts_with("DISCORD_BOT_TOKEN is not set"), "{error}");
    assert!(api.sent().is_empty());
}

#[tokio::test]
async fn a_message_of_the_bot_is_sent_once_whatever_happens_to_the_answer() {
    let (api, mut client, clock) = start().await;
    client.api.timeout = Duration::from_millis(300);
    api.hang(1);
    let to = channel();
    clock.advance_during(client.send_message(&to, message("once", "a", true))).await.0.unwrap();
    let sent = api.sent();
    assert_eq!((sent.len(), sent[0].refers_to.as_deref()), (1, Some("77")));
    assert_eq!(api.count("POST /channels/*/messages"), 2);
}

#[tokio::test]
async fn a_follow_up_that_may_have_arrived_is_not_repeated() {
    let (api, mut client, clock) = start().await;
    respond(&api);
    client.api.timeout = Duration::from_millis(300);
    api.hang(1);
    let error = client.send_message(&interaction(&clock), message("two", "b", false)).await.unwrap_err();
    assert!(matches!(error, CallError::Unavailable { .. }) && api.texts() == ["two"]);
}

#[tokio::test]
async fn rate_limits_and_faults_are_waited_for() {
    let (api, client, clock) = start().await;
    api.rate_limit(2, 0.725);
    let to = channel();
    let (sent, took) = clock.advance_during(client.send_message(&to, message("a", "a", true))).await;
    sent.unwrap();
    assert!(took >= Duration::from_millis(1450), "{took:?}");
    api.fail(2, 502);
    clock.advance_during(client.send_message(&to, message("b", "b", true))).await.0.unwrap();
    api.rate_limit(1, 3600.0);
    let error = client.send_message(&channel(), message("c", "c", true)).await.unwrap_err();
    assert!(
        matches!(error, CallError::RateLimited { retry_after: Some(wait), .. } if wait.as_secs() == 3600)
    );
    assert_eq!(api.texts(), ["a", "b"]);
}

#[test]
fn a_refusal_of_cloudflare_says_nothing_of_the_channel() {
    for body in ["<html>", r#"{"code": 40333, "message": "internal network error"}"#] {
        let (method, headers) = ("create message", HeaderMap::new());
        let answer = Answer { platform: "Discord", method, status: 403, headers, body: body.into() };
        let error = answer::read::<Value>(&answer, true).unwrap_err();
        assert!(matches!(error, CallError::Unavailable { source: Outage::Server(_), .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_refused_token_is_used_once() {
    let (api, client, _) = start().await;
    api.edit(|store| store.refuses_token = true);
    for _ in 0..3 {
        let error = client.send_message(&channel(), message("a", "a", true)).await.unwrap_err();
        assert!(!error.is_permanent() && error.to_string().contains("check DISCORD_BOT_TOKEN"), "{error}");
    }
    assert_eq!(api.calls().len(), 1);
}

#[tokio::test]
async fn a_reply_is_sent_without_its_reference_where_the_bot_may_not_read_the_history() {
    let (api, client, _) = start().await;
    api.edit(|store| store.without_history.insert("645".into()));
    client.send_message(&channel(), message("a", "a", true)).await.unwrap();
    let sent = api.sent();
    assert_eq!((sent.len(), sent[0].content.as_str(), &sent[0].refers_to), (1, "a", &None));
    assert_eq!(api.calls().len(), 2);
    client.send_message(&channel(), message("b", "b", true)).await.unwrap();
    assert_eq!((api.sent().len(), api.calls().len()), (2, 3), "the next is not refused first");
}

#[tokio::test]
async fn no_error_contains_a_token_or_a_text() {
    let (api, client, clock) = start().await;
    api.expel("645");
    let blocked = client.send_message(&channel(), message("private words", "a", true)).await.unwrap_err();
    assert!(matches!(&blocked, CallError::Blocked { reason } if reason.ends_with("(50001)")));
    api.fail(9, 500);
    let (to, private) = (interaction(&clock), message("private words", "a", true));
    let failed = clock.advance_during(client.send_message(&to, private)).await.0.unwrap_err();
    let nowhere = Client::new(&config("http://127.0.0.1:9/api", &[]), clock.clone()).unwrap();
    let lost = clock.advance_during(nowhere.send_message(&to, private)).await.0.unwrap_err();
    for error in [blocked, failed, lost] {
        let shown = logged(&error);
        for secret in [TOKEN, BOT_TOKEN, "private words"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}

#[tokio::test]
async fn administrators_are_the_owner_and_members_with_a_role_for_it() {
    let (api, client, _) = start().await;
    api.set_administrators("1", "2");
    for (user, wanted) in [("1", true), ("2", true), ("3", false)] {
        assert_eq!(client.is_administrator("645", user).await.unwrap(), wanted, "{user}");
    }
    api.set_channel(json!({"id": "9", "type": 1, "recipients": [{"id": "1"}]}));
    assert!(!client.is_administrator("9", "1").await.unwrap());
    assert_eq!(client.channel("9").await.unwrap().recipient(), Some("1"));
}

#[tokio::test]
async fn files_come_from_discord_alone() {
    let (api, client, _) = start().await;
    let bytes = client.attachment(None, "attachments/1/2/bean.png", 10_000).await.unwrap();
    assert!(bytes.starts_with(b"\x89PNG"));
    let own = api.file_url("pea.png");
    assert!(client.attachment(Some(&own), "", 10_000).await.unwrap().ends_with(b"pea.png"));
    assert_eq!(client.attachment(Some(&own), "", 10).await.unwrap_err(), FileError::TooLarge);
    for elsewhere in
        ["https://example.org/bean.png", "http://cdn.discordapp.com/bean.png", "file:///etc/passwd", "x"]
    {
        let error = client.attachment(Some(elsewhere), "", 10_000).await.unwrap_err();
        assert!(matches!(error, FileError::Gone(_)), "{elsewhere}");
    }
}

#[tokio::test]
async fn the_commands_are_such_as_discord_accepts() {
    let (api, client, _) = start().await;
    let count = client.set_commands(&commands(None)).await.unwrap();
    assert_eq!((count, api.commands()), (commands(None).len(), commands(None)));
    assert_eq!(client.command_names().await.unwrap().len(), count);
    let application = client.application().await.unwrap();
    assert_eq!((application.verify_key, application.interactions_endpoint_url), (public_key(), None));
}
