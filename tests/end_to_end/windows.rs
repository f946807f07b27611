//! A chat may get messages over several channels: each is answered over its own.

use annals_test_support::model_api::texts_of;
use serde_json::json;

use crate::app::{OPS_KEY, TestApp, ids, text_of, wait_until};
use crate::turns::assert_answered_once;
use crate::updates::{START, private};

const CHAT: &str = "telegram:chat:42";

/// A turn runs; two Telegram messages (of seconds 2 and 4) and an admin's HTTP post, of `ts`, wait for it.
async fn check(ts: i64, listed: [&str; 7]) {
    let app = TestApp::start().await;
    app.hold(private(42, 1, "one")).await;
    app.receive(private(42, 2, "two")).await;
    app.receive(private(42, 4, "four")).await;
    let body = json!({"userId": "olle", "text": "by HTTP", "messageId": "h", "ts": ts});
    let (answer, ()) = tokio::join!(app.ask(CHAT, OPS_KEY, &body), async {
        wait_until("the post is stored", async || app.records(CHAT).await.len() == 4).await;
        app.model().resume();
    });
    app.idle().await;
    assert_eq!(answer.status, 200, "the reply was waited for: {answer:?}");
    let reply = &answer.body["reply"];
    // Olle is not Ada, so the request names the senders.
    assert_eq!((&reply["id"], text_of(reply).as_str()), (&json!("h/reply"), "You said: olle: by HTTP"));
    assert_eq!(reply["metadata"]["channel"], "http");
    let sent = app.telegram_api().sent();
    let received: Vec<_> = sent.iter().map(|sent| (sent.text.as_str(), sent.reply_to)).collect();
    let last = if listed[2] == "h" { "Ada: two\nAda: four" } else { "two\nfour" };
    assert_eq!(received, [("You said: one", Some(1)), (format!("You said: {last}").as_str(), Some(4))]);
    assert_eq!(app.model().count(), 3);
    let history = app.history(CHAT).await;
    assert_eq!(ids(&history), listed);
    assert_answered_once(&app.records(CHAT).await);
    // No turn sees what another is to answer.
    let telegrams = &app.model().requests()[if listed[2] == "h" { 2 } else { 1 }];
    assert_eq!(texts_of(telegrams, "user").last().unwrap(), last);
    app.finish().await;
}

#[tokio::test]
async fn a_post_between_or_before_two_telegram_messages_is_answered_over_http() {
    Box::pin(check(1000 * START + 3000, ["1", "1/reply", "2", "h", "h/reply", "4", "4/reply"])).await;
    Box::pin(check(1000 * START + 1500, ["1", "1/reply", "h", "h/reply", "2", "4", "4/reply"])).await;
}
