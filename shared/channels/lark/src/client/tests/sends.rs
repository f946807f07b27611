//! Tests of sending and of Lark's refusals.

use super::*;

fn address(message_id: Option<&str>, in_thread: bool) -> Address {
    let message_id = message_id.map(str::to_owned);
    Address { message_id, chat_id: CHAT.into(), in_thread, survives_recall: false }
}

/// Starts an emulator that has the message `om_1` of [`CHAT`].
async fn start_chat() -> (LarkApi, Client, Clock) {
    let (api, client, clock) = start().await;
    api.seed(json!({"message_id": "om_1", "chat_id": CHAT, "create_time": "1"}));
    (api, client, clock)
}

fn texts(api: &LarkApi) -> Vec<String> {
    api.sent().iter().map(annals_test_support::lark_api::Sent::text).collect()
}

/// Sends a text to the chat.
async fn post(client: &Client, text: &str, uuid: &str) -> Result<(), CallError> {
    let target = Target { chat_id: CHAT, message_id: None, in_thread: false, survives_recall: false };
    let content = ("text", json!({ "text": text }).to_string());
    client.post(&target, content, uuid, &mut client.api.budget()).await
}

/// Sends all of `markdown` as one reply to `om_1`.
async fn send_all(client: &Client, markdown: &str, in_thread: bool) -> Result<(), CallError> {
    for (index, chunk) in chunks(markdown).iter().enumerate() {
        client.send_chunk(&address(Some("om_1"), in_thread), chunk, "key", index).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_long_answer_arrives_complete_and_quotes_once() {
    let (api, client, _) = start_chat().await;
    let lines: Vec<String> =
        (0..1500).map(|n| format!("{n}. **bold {n}** and `code` 你好 in a sentence.\n")).collect();
    send_all(&client, &lines.concat(), false).await.unwrap();
    let sent = api.sent();
    assert!(sent.len() > 2);
    assert_eq!(texts(&api).join("\n"), lines.concat().trim_end());
    assert_eq!(sent.iter().filter(|sent| sent.reply_to.is_some()).count(), 1);
    assert!(sent.iter().all(|sent| sent.chat_id == CHAT && sent.msg_type == "interactive"));
    // In a thread every message has to be a reply.
    send_all(&client, "a", true).await.unwrap();
    let before = api.sent().len();
    let second = &chunks(&lines.concat())[1];
    client.send_chunk(&address(Some("om_1"), true), second, "other", 1).await.unwrap();
    let last = &api.sent()[before];
    assert_eq!((last.reply_to.as_deref(), last.in_thread), (Some("om_1"), Some(true)));
}

#[tokio::test]
async fn many_tables_are_several_cards() {
    let (api, client, _) = start_chat().await;
    let tables: Vec<String> = (0..7).map(|n| format!("| a |\n|---|\n| {n} |\n")).collect();
    send_all(&client, &tables.join("\n"), false).await.unwrap();
    assert_eq!(api.codes("reply"), [0]);
    assert_eq!(api.codes("send"), [0, 0]);
}

#[tokio::test]
async fn a_refused_card_is_sent_as_text() {
    let (api, client, _) = start_chat().await;
    api.edit(|store| store.refused_type = Some("interactive"));
    send_all(&client, "**a** <at id=all></at>", false).await.unwrap();
    assert_eq!(texts(&api), ["**a** <\u{200b}at id=all><\u{200b}/at>"]);
    assert_eq!(api.sent()[0].reply_to.as_deref(), Some("om_1"));
    assert_eq!(api.sent()[0].uuid, uuid("key", 0));
    assert_eq!(api.codes("reply"), [230_099, 0]);
    for code in [230_001, 230_054] {
        api.pass(Duration::from_mins(61));
        api.refuse(1, code);
        send_all(&client, "**b**", false).await.unwrap();
        assert_eq!(texts(&api).last().unwrap(), "**b**");
    }
    api.refuse(9, 230_099);
    let error = post(&client, "a", "u").await.unwrap_err();
    assert!(matches!(error, CallError::Refused { code: 230_099, .. }) && error.is_permanent());
    assert!(!error.to_string().contains("what was said"), "{error}");
}

#[tokio::test]
async fn a_text_too_long_for_lark_is_halved() {
    let (api, client, _) = start_chat().await;
    api.edit(|store| store.max_bytes = Some(420));
    let words: Vec<String> = (0..60).map(|n| format!("word{n}")).collect();
    let chunk = &chunks(&format!("**{}** {}", words[0], words[1..].join(" ")))[0];
    client.send_chunk(&address(Some("om_1"), false), chunk, "key", 0).await.unwrap();
    let sent = api.sent();
    assert!(sent.len() > 1);
    assert_eq!(texts(&api).join(" ").replace("**", ""), words.join(" "));
    assert_eq!(sent.iter().filter(|sent| sent.reply_to.is_some()).count(), 1);
    assert!(sent.iter().all(|sent| sent.uuid.len() == 32 && sent.uuid != uuid("key", 0)));
    // The same messages again after a crash.
    client.send_chunk(&address(Some("om_1"), false), chunk, "key", 0).await.unwrap();
    assert_eq!(api.sent().len(), sent.len());
    api.edit(|store| store.max_bytes = Some(10));
    let error = client.send_chunk(&address(None, false), chunk, "other", 0).await.unwrap_err();
    assert!(matches!(error, CallError::Refused { code: 230_025, .. }), "{error:?}");
}

#[tokio::test]
async fn refused_optional_parts_are_left_out() {
    let (api, client, _) = start_chat().await;
    api.trouble(CHAT, Trouble::Threadless);
    send_all(&client, "a", true).await.unwrap();
    assert_eq!(api.codes("reply"), [230_071, 0]);
    assert_eq!(api.sent()[0].in_thread, Some(false));
    for (n, code) in [230_050, 230_054, 230_111].into_iter().enumerate() {
        api.refuse(1, code);
        let chunk = &chunks("b")[0];
        client.send_chunk(&address(Some("om_1"), false), chunk, &format!("key{n}"), 0).await.unwrap();
        assert_eq!(api.sent().last().unwrap().reply_to, None);
    }
    // Outside of its thread, nobody would know what it answers.
    api.restore(CHAT);
    api.refuse(1, 230_050);
    let to = address(Some("om_1"), true);
    let error = client.send_chunk(&to, &chunks("c")[0], "key9", 0).await.unwrap_err();
    assert!(matches!(error, CallError::Refused { code: 230_050, .. }), "{error:?}");
}

#[tokio::test]
async fn a_recalled_question_is_not_answered() {
    let (api, client, _) = start_chat().await;
    api.recall("om_1");
    let error = send_all(&client, "**a**", false).await.unwrap_err();
    assert!(matches!(error, CallError::Refused { code: 230_011, .. }) && error.is_permanent(), "{error:?}");
    assert!(error.to_string().contains("The message is recalled."), "{error}");
    assert_eq!((api.sent().len(), api.codes("reply").len()), (0, 1));
}

#[tokio::test]
async fn refusals_become_the_matching_errors() {
    let (api, client, _) = start().await;
    for (trouble, expect, is_blocked) in [
        (Trouble::Expelled, 230_002, true),
        (Trouble::Stopped, 230_053, true),
        (Trouble::Hidden, 230_013, true),
        (Trouble::Dissolved, 232_009, true),
        (Trouble::Unknown, 230_034, false),
    ] {
        api.trouble(CHAT, trouble);
        let error = post(&client, "a", "u").await.unwrap_err();
        assert!(error.is_permanent(), "{error:?}");
        match error {
            CallError::Blocked { reason } if is_blocked => {
                assert!(reason.ends_with(&format!("({expect})")), "{reason}");
            }
            CallError::Refused { code, .. } if !is_blocked => assert_eq!(code, expect),
            other => panic!("{other:?}"),
        }
    }
    api.restore(CHAT);
    for code in [230_018, 230_022, 230_027, 230_035, 99_991_672] {
        api.refuse(1, code);
        let error = post(&client, "a", "u").await.unwrap_err();
        assert!(matches!(error, CallError::Refused { code: c, .. } if c == code) && error.is_permanent());
    }
    assert_eq!(api.sent(), []);
    let error = post(&client, " ", "u").await.unwrap_err();
    assert!(matches!(error, CallError::Refused { code: 230_001, .. }), "{error:?}");
}

#[tokio::test]
async fn rate_limits_and_faults_are_waited_for() {
    let (api, client, clock) = start().await;
    let send = async |uuid: &str| clock.advance_during(post(&client, "a", uuid)).await;
    api.rate_limit(2, 7.0);
    let (done, took) = send("u").await;
    assert!(done.is_ok() && took >= Duration::from_secs(14), "{took:?}");
    api.refuse(1, 230_020);
    send("v").await.0.unwrap();
    api.fail(9, 500);
    let error = send("w").await.0.unwrap_err();
    assert!(
        matches!(&error, CallError::Unavailable { source: Outage::Server(said), .. } if said == "error on Lark's side (500)"),
        "{error:?}"
    );
    assert!(!error.is_permanent());
    assert_eq!(api.codes("send"), [99_991_400, 99_991_400, 0, 230_020, 0, -1, -1, -1]);
    api.fail(0, 0);
    // "The message is being sent."
    api.refuse(2, 230_049);
    send("x").await.0.unwrap();
}

#[tokio::test]
async fn a_message_that_may_have_been_delivered_is_sent_again_with_the_same_uuid() {
    let (api, mut client, clock) = start_chat().await;
    client.api.timeout = Duration::from_millis(200);
    api.hang(2);
    let chunk = &chunks("**a**")[0];
    let to = address(Some("om_1"), false);
    let (sent, _) = clock.advance_during(client.send_chunk(&to, chunk, "key", 0)).await;
    sent.unwrap();
    assert_eq!((api.codes("reply"), api.sent().len()), (vec![0, 0, 0], 1));
    api.garble(1);
    let (sent, _) = clock.advance_during(client.send_chunk(&to, chunk, "key", 1)).await;
    sent.unwrap();
    assert_eq!(api.sent().len(), 2);
    api.garble(9);
    let (sent, _) = clock.advance_during(client.send_chunk(&to, chunk, "key", 2)).await;
    let error = sent.unwrap_err();
    assert!(matches!(error, CallError::Unreadable { .. }) && !error.is_permanent(), "{error:?}");
    assert_eq!(api.sent().len(), 3);
}
